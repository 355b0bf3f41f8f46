//! From either spelling of an object to the wire's, and from that to the SDK's models.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::copy::{Uncopied, deep_copy};
use super::incoming::dump;
use crate::capi;
use crate::errors::AGUIError;
use crate::event::{
    ClassInfo, Entry, EventType, FieldType, Registry, Unsupported, View, build, registry,
};
use crate::json::MAX_DEPTH;

/// Why there is no wire dict.
enum Unwritten {
    Unsupported,
    Raised(PyErr),
}

impl From<Unsupported> for Unwritten {
    fn from(Unsupported: Unsupported) -> Self {
        Self::Unsupported
    }
}

impl From<PyErr> for Unwritten {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl From<Uncopied> for PyErr {
    fn from(error: Uncopied) -> Self {
        match error {
            Uncopied::Raised(error) => error,
            error => AGUIError::new_err(error.into_parts().0),
        }
    }
}

/// A copy that shares nothing with the value.
pub fn own<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    Ok(deep_copy(value, MAX_DEPTH)?)
}

/// A wire dict of its own for an object that the shape describes.
pub fn object<'py>(
    value: &Bound<'py, PyAny>,
    shape: &'static FieldType,
) -> PyResult<Bound<'py, PyDict>> {
    match written(value, shape) {
        Ok(written) => Ok(written.cast_into()?),
        Err(Unwritten::Raised(error)) => Err(error),
        Err(Unwritten::Unsupported) => otherwise(value),
    }
}

/// The same for a value that need not be an object.
pub fn value<'py>(
    value: &Bound<'py, PyAny>,
    shape: &'static FieldType,
) -> PyResult<Bound<'py, PyAny>> {
    match written(value, shape) {
        Ok(written) => Ok(written),
        Err(Unwritten::Raised(error)) => Err(error),
        Err(Unwritten::Unsupported) => own(value),
    }
}

/// What is not exactly as the SDK declares it.
#[cold]
fn otherwise<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let dict = match dump(value)? {
        Some(dict) => dict,
        None => value.cast::<PyDict>()?.clone(),
    };
    Ok(own(&dict)?.cast_into()?)
}

fn written<'py>(
    value: &Bound<'py, PyAny>,
    shape: &'static FieldType,
) -> Result<Bound<'py, PyAny>, Unwritten> {
    match shape {
        FieldType::Nullable(inner) => written(value, inner),
        FieldType::Model(cell) => object_of(value, cell.info.get()),
        FieldType::Tagged { discriminator, choices } => {
            let info = value.cast::<PyDict>().ok().and_then(|dict| {
                let tag = dict.get_item(discriminator).ok()??;
                Registry::choice(choices, &tag)?.info.get()
            });
            object_of(value, info)
        }
        FieldType::List { item, .. } => list_of(value, item),
        FieldType::StrOrList(list) => written(value, list),
        FieldType::Literal(choices) => {
            // A member of a str enum stands for its value.
            let text = value.cast::<PyString>().map_err(|_| Unsupported)?;
            if capi::is_exact_str(text) {
                return Ok(value.clone());
            }
            let choice = choices.iter().find(|(_, choice)| value.is(choice)).ok_or(Unsupported)?;
            Ok(PyString::new(value.py(), &choice.0).into_any())
        }
        _ => Ok(own(value)?),
    }
}

fn list_of<'py>(
    value: &Bound<'py, PyAny>,
    item: &'static FieldType,
) -> Result<Bound<'py, PyAny>, Unwritten> {
    let Ok(list) = value.cast::<PyList>() else { return Ok(own(value)?) };
    let copy = PyList::empty(value.py());
    for value in list.iter() {
        copy.append(written(&value, item)?)?;
    }
    Ok(copy.into_any())
}

/// `info` is for a dict; a model has its own.
fn object_of<'py>(
    value: &Bound<'py, PyAny>,
    info: Option<&'static ClassInfo>,
) -> Result<Bound<'py, PyAny>, Unwritten> {
    let view = if let Ok(dict) = value.cast::<PyDict>() {
        match info {
            Some(info) => View::of_wire(dict, info),
            None => return Ok(own(value)?),
        }
    } else if let Some(info) = registry().info(capi::type_key(value)) {
        View::of_model(value, info)?
    } else {
        return match dump(value)? {
            Some(dict) => Ok(own(&dict)?),
            None => Ok(own(value)?),
        };
    };
    let dict = PyDict::new(value.py());
    view.entries(|entry| {
        match entry {
            Entry::Field(_, field, value) => {
                dict.set_item(&field.alias, written(value, &field.shape)?)?;
            }
            Entry::Extra(key, value) => dict.set_item(key, own(value)?)?,
        }
        Ok::<(), Unwritten>(())
    })?;
    Ok(dict.into_any())
}

/// The shape of a field of an event.
pub fn shape_of(kind: EventType, alias: &str) -> Option<&'static FieldType> {
    field_shape(registry().event(Some(kind))?, alias)
}

pub fn field_shape(info: &'static ClassInfo, alias: &str) -> Option<&'static FieldType> {
    info.fields.iter().find(|field| &*field.alias_text == alias).map(|field| &field.shape)
}

/// The shape of a message.
pub fn message_shape() -> Option<&'static FieldType> {
    match shape_of(EventType::MessagesSnapshot, "messages")? {
        FieldType::List { item, .. } => Some(item),
        _ => None,
    }
}

/// The shape of the input of a run.
pub fn input_shape() -> Option<&'static FieldType> {
    shape_of(EventType::RunStarted, "input")
}

/// The shape of an interrupt.
pub fn interrupt_shape() -> Option<&'static FieldType> {
    let mut shape = shape_of(EventType::RunFinished, "outcome")?;
    while let FieldType::Nullable(inner) = shape {
        shape = inner;
    }
    let FieldType::Tagged { choices, .. } = shape else { return None };
    let (_, cell) = choices.iter().find(|(tag, _)| &**tag == "interrupt")?;
    match field_shape(cell.info.get()?, "interrupts")? {
        FieldType::List { item, .. } => Some(item),
        _ => None,
    }
}

/// The model of the SDK for a wire dict that the shape describes. What is not exactly as declared is
/// judged by the official validator of `official`, a name in `ag_ui.core`.
pub fn model<'py>(
    dict: &Bound<'py, PyDict>,
    shape: Option<&'static FieldType>,
    official: &'static str,
) -> PyResult<Bound<'py, PyAny>> {
    let info = match shape {
        Some(FieldType::Model(cell)) => cell.info_for(cell.key),
        Some(FieldType::Nullable(inner)) => return model(dict, Some(inner), official),
        Some(FieldType::Tagged { discriminator, choices }) => dict
            .get_item(discriminator)?
            .and_then(|tag| Registry::choice(choices, &tag))
            .and_then(|cell| cell.info_for(cell.key)),
        _ => None,
    };
    if let Some(info) = info
        && let Ok(model) = build::model(dict, info)
    {
        return Ok(model);
    }
    build::officially(dict, official)
}
