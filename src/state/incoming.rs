//! An event as the reducer and the compactor read it.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::document::type_name;
use crate::capi;
use crate::errors::{AGUIError, not_an_event, of_pydantic};
use crate::event::{EventType, Key, View};

/// The field of an event, by its name in `event::keys`. None is absence, in either spelling.
macro_rules! field {
    ($incoming:expr, $key:ident) => {{
        let keys = $crate::event::keys($incoming.event.py());
        $incoming.view.read(&keys.$key).filter(|value| !value.is_none())
    }};
}
pub(super) use field;

/// A str field of an event, which must be there.
macro_rules! text {
    ($incoming:expr, $key:ident) => {
        $incoming.required(
            &$crate::event::keys($incoming.event.py()).$key,
            $crate::state::incoming::field!($incoming, $key),
        )
    };
}
pub(super) use text;

/// A str field of an event, which may be absent.
macro_rules! optional_text {
    ($incoming:expr, $key:ident) => {
        match $crate::state::incoming::field!($incoming, $key) {
            None => Ok(None),
            value => {
                $incoming.required(&$crate::event::keys($incoming.event.py()).$key, value).map(Some)
            }
        }
    };
}
pub(super) use optional_text;

/// The member of an object inside an event, likewise; the object is a model or a dict.
macro_rules! member {
    ($object:expr, $key:ident) => {{
        let object: &pyo3::Bound<'_, pyo3::PyAny> = $object;
        let keys = $crate::event::keys(object.py());
        keys.$key.of(object).filter(|value| !value.is_none())
    }};
}
pub(super) use member;

pub struct Incoming<'py> {
    /// The event as it came.
    pub event: Bound<'py, PyAny>,
    pub view: View<'py>,
    /// None for a type that the protocol does not have.
    pub kind: Option<EventType>,
}

impl<'py> Incoming<'py> {
    pub fn read(event: &Bound<'py, PyAny>) -> PyResult<Self> {
        match View::of_event(event) {
            Some((view, kind)) => Self { event: event.clone(), view, kind }.checked(),
            None => Self::read_otherwise(event),
        }
    }

    /// An event of an unknown type still has one.
    #[inline]
    fn checked(self) -> PyResult<Self> {
        if self.kind.is_some() {
            return Ok(self);
        }
        match field!(self, r#type) {
            Some(name) if name.is_instance_of::<PyString>() => Ok(self),
            _ => Err(not_an_event(&self.event)),
        }
    }

    /// An event of a class that is not the SDK's own: as pydantic dumps it.
    #[cold]
    fn read_otherwise(event: &Bound<'py, PyAny>) -> PyResult<Self> {
        let dumped = dump(event)?;
        match dumped.as_ref().map(Bound::as_any).and_then(View::of_event) {
            Some((view, kind)) => Self { event: event.clone(), view, kind }.checked(),
            None => Err(not_an_event(event)),
        }
    }

    /// The `type`, for messages.
    pub fn name(&self) -> String {
        if let Some(kind) = self.kind {
            return kind.name().to_owned();
        }
        field!(self, r#type).map_or_else(String::new, |name| name.to_string())
    }

    #[cold]
    pub fn refusal(&self, path: &str, reason: &str) -> PyErr {
        AGUIError::new_err(format!("{}: {path}: {reason}", self.name()))
    }

    pub fn required(
        &self,
        key: &Key,
        value: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyString>> {
        match value.map(Bound::cast_into::<PyString>) {
            Some(Ok(text)) if capi::is_exact_str(&text) => Ok(text),
            // So that looking an id up runs no Python code.
            Some(Ok(text)) => capi::plain_str(&text),
            Some(Err(other)) => {
                let other = type_name(&other.into_inner());
                Err(self.refusal(
                    &key.alias(self.event.py()).to_string(),
                    &format!("a str is needed, not {other}"),
                ))
            }
            None => Err(self.refusal(
                &key.alias(self.event.py()).to_string(),
                "a str is needed, and there is none",
            )),
        }
    }

    /// The metadata, if there are any.
    pub fn metadata(&self) -> PyResult<Option<Bound<'py, PyDict>>> {
        match field!(self, metadata).map(Bound::cast_into) {
            None => Ok(None),
            Some(Ok(metadata)) => Ok(Some(metadata)),
            Some(Err(_)) => Err(self.refusal("metadata", "an object is needed")),
        }
    }
}

/// What pydantic makes of a model, in the wire's spelling. None if it is no model.
#[cold]
pub fn dump<'py>(model: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyDict>>> {
    let py = model.py();
    let Ok(dump) = model.getattr(intern!(py, "model_dump")) else { return Ok(None) };
    let options = PyDict::new(py);
    options.set_item(intern!(py, "by_alias"), true)?;
    let dumped = dump.call((), Some(&options)).map_err(|error| of_pydantic(py, error))?;
    Ok(dumped.cast_into().ok())
}
