//! From either spelling of an object to the wire's, and from that to the SDK's models.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::copy::{Uncopied, deep_copy};
use super::incoming::dump;
use crate::capi;
use crate::errors::AGUIError;
use crate::event::{Entry, EventKind, Plan, Registry, Shape, Surprise, View, build, registry};
use crate::json::MAX_DEPTH;

/// Why there is no wire dict.
enum Unwritten {
    Surprise,
    Raised(PyErr),
}

impl From<Surprise> for Unwritten {
    fn from(Surprise: Surprise) -> Self {
        Self::Surprise
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
    shape: &'static Shape,
) -> PyResult<Bound<'py, PyDict>> {
    match written(value, shape) {
        Ok(written) => Ok(written.cast_into()?),
        Err(Unwritten::Raised(error)) => Err(error),
        Err(Unwritten::Surprise) => otherwise(value),
    }
}

/// The same for a value that need not be an object.
pub fn value<'py>(value: &Bound<'py, PyAny>, shape: &'static Shape) -> PyResult<Bound<'py, PyAny>> {
    match written(value, shape) {
        Ok(written) => Ok(written),
        Err(Unwritten::Raised(error)) => Err(error),
        Err(Unwritten::Surprise) => own(value),
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
    shape: &'static Shape,
) -> Result<Bound<'py, PyAny>, Unwritten> {
    match shape {
        Shape::Nullable(inner) => written(value, inner),
        Shape::Model(cell) => object_of(value, cell.plan.get()),
        Shape::Tagged { discriminator, choices } => {
            let plan = value.cast::<PyDict>().ok().and_then(|dict| {
                let tag = dict.get_item(discriminator).ok()??;
                Registry::choice(choices, &tag)?.plan.get()
            });
            object_of(value, plan)
        }
        Shape::List { item, .. } => list_of(value, item),
        Shape::StrOrList(list) => written(value, list),
        Shape::Literal(choices) => {
            // A member of a str enum stands for its value.
            let text = value.cast::<PyString>().map_err(|_| Surprise)?;
            if capi::is_exact_str(text) {
                return Ok(value.clone());
            }
            let choice = choices.iter().find(|(_, choice)| value.is(choice)).ok_or(Surprise)?;
            Ok(PyString::new(value.py(), &choice.0).into_any())
        }
        _ => Ok(own(value)?),
    }
}

fn list_of<'py>(
    value: &Bound<'py, PyAny>,
    item: &'static Shape,
) -> Result<Bound<'py, PyAny>, Unwritten> {
    let Ok(list) = value.cast::<PyList>() else { return Ok(own(value)?) };
    let copy = PyList::empty(value.py());
    for value in list.iter() {
        copy.append(written(&value, item)?)?;
    }
    Ok(copy.into_any())
}

/// `plan` is for a dict; a model has its own.
fn object_of<'py>(
    value: &Bound<'py, PyAny>,
    plan: Option<&'static Plan>,
) -> Result<Bound<'py, PyAny>, Unwritten> {
    let view = if let Ok(dict) = value.cast::<PyDict>() {
        match plan {
            Some(plan) => View::of_wire(dict, plan),
            None => return Ok(own(value)?),
        }
    } else if let Some(plan) = registry().plan(capi::type_key(value)) {
        View::of_model(value, plan)?
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
pub fn shape_of(kind: EventKind, alias: &str) -> Option<&'static Shape> {
    field_shape(registry().event(Some(kind))?, alias)
}

pub fn field_shape(plan: &'static Plan, alias: &str) -> Option<&'static Shape> {
    plan.fields.iter().find(|field| &*field.alias_text == alias).map(|field| &field.shape)
}

/// The shape of a message.
pub fn message_shape() -> Option<&'static Shape> {
    match shape_of(EventKind::MessagesSnapshot, "messages")? {
        Shape::List { item, .. } => Some(item),
        _ => None,
    }
}

/// The shape of the input of a run.
pub fn input_shape() -> Option<&'static Shape> {
    shape_of(EventKind::RunStarted, "input")
}

/// The shape of an interrupt.
pub fn interrupt_shape() -> Option<&'static Shape> {
    let mut shape = shape_of(EventKind::RunFinished, "outcome")?;
    while let Shape::Nullable(inner) = shape {
        shape = inner;
    }
    let Shape::Tagged { choices, .. } = shape else { return None };
    let (_, cell) = choices.iter().find(|(tag, _)| &**tag == "interrupt")?;
    match field_shape(cell.plan.get()?, "interrupts")? {
        Shape::List { item, .. } => Some(item),
        _ => None,
    }
}

/// The model of the SDK for a wire dict that the shape describes. What is not exactly as declared is
/// judged by the official validator of `official`, a name in `ag_ui.core`.
pub fn model<'py>(
    dict: &Bound<'py, PyDict>,
    shape: Option<&'static Shape>,
    official: &'static str,
) -> PyResult<Bound<'py, PyAny>> {
    let plan = match shape {
        Some(Shape::Model(cell)) => cell.plan_for(cell.key),
        Some(Shape::Nullable(inner)) => return model(dict, Some(inner), official),
        Some(Shape::Tagged { discriminator, choices }) => dict
            .get_item(discriminator)?
            .and_then(|tag| Registry::choice(choices, &tag))
            .and_then(|cell| cell.plan_for(cell.key)),
        _ => None,
    };
    if let Some(plan) = plan
        && let Ok(model) = build::model(dict, plan)
    {
        return Ok(model);
    }
    build::officially(dict, official)
}
