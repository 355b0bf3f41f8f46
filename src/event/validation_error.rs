//! What the official validator says of an event that it refuses.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::class_info::{ClassInfo, FieldType};
use super::{EventType, registry};
use crate::errors::{Fault, Step};

/// The first error of a ValidationError.
pub struct ValidationError<'py> {
    /// Pydantic's name for what is wrong: `missing`, `json_invalid`.
    pub reason: String,
    message: String,
    location: Bound<'py, PyTuple>,
}

impl<'py> ValidationError<'py> {
    /// None for an error that is no ValidationError.
    #[cold]
    pub fn of(py: Python<'py>, error: &PyErr) -> Option<Self> {
        let arguments = PyDict::new(py);
        for name in ["include_url", "include_context", "include_input"] {
            arguments.set_item(name, false).ok()?;
        }
        let errors = error.value(py).call_method("errors", (), Some(&arguments)).ok()?;
        let first = errors.get_item(0).ok()?;
        let text = |key| first.get_item(key).ok()?.extract::<String>().ok();
        let location = first.get_item("loc").ok()?.cast_into().ok()?;
        Some(Self { reason: text("type")?, message: text("msg")?, location })
    }

    /// The same as a fault in an event of this kind.
    #[cold]
    pub fn into_fault(self, kind: Option<EventType>, error: PyErr) -> Fault {
        let info = kind.and_then(|kind| registry().event(Some(kind)));
        let mut steps = steps(&self.location, info);
        steps.reverse();
        Fault { reason: self.message, steps, cause: Some(error) }
    }
}

/// Where in a class an error location has come to.
enum Place {
    Object(&'static ClassInfo),
    Value(&'static FieldType),
    /// In a place that no class describes.
    Payload,
}

/// The steps of pydantic's location that are in the document: it also names the members of unions.
fn steps(location: &Bound<'_, PyTuple>, event: Option<&'static ClassInfo>) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut place = event.map_or(Place::Payload, Place::Object);
    // The first element is the type, which is how the union is told apart.
    for element in location.iter().skip(1) {
        if let Ok(index) = element.extract::<usize>() {
            if let Place::Value(shape) = place {
                place = match inner(shape) {
                    FieldType::List { item, .. } => Place::Value(item),
                    _ => Place::Payload,
                };
            }
            steps.push(Step::Index(index));
            continue;
        }
        let Ok(name) = element.extract::<String>() else { break };
        if let Place::Value(shape) = place {
            match inner(shape) {
                FieldType::Tagged { choices, .. } => {
                    let info = choices.iter().find(|(tag, _)| **tag == *name);
                    place = info
                        .and_then(|(_, cell)| cell.info.get())
                        .map_or(Place::Payload, Place::Object);
                    continue;
                }
                FieldType::StrOrList(list) => {
                    place = if name == "str" { Place::Payload } else { Place::Value(list) };
                    continue;
                }
                FieldType::Model(cell) => {
                    place = cell.info.get().map_or(Place::Payload, Place::Object);
                }
                _ => place = Place::Payload,
            }
        }
        if let Place::Object(info) = place {
            place = match info.find_bytes(name.as_bytes(), 0) {
                Some(at) => Place::Value(&info.fields[at].shape),
                None => Place::Payload,
            };
        }
        steps.push(Step::Key(name));
    }
    steps
}

fn inner(shape: &'static FieldType) -> &'static FieldType {
    match shape {
        FieldType::Nullable(inner) => inner,
        other => other,
    }
}
