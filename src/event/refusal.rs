//! What the official validator says of an event that it refuses.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::plan::{Plan, Shape};
use super::{EventKind, registry};
use crate::errors::{Fault, Step};

/// The first error of a ValidationError.
pub struct Refusal<'py> {
    /// Pydantic's name for what is wrong: `missing`, `json_invalid`.
    pub reason: String,
    message: String,
    location: Bound<'py, PyTuple>,
}

impl<'py> Refusal<'py> {
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
    pub fn into_fault(self, kind: Option<EventKind>, error: PyErr) -> Fault {
        let plan = kind.and_then(|kind| registry().event(Some(kind)));
        let mut steps = steps(&self.location, plan);
        steps.reverse();
        Fault { reason: self.message, steps, cause: Some(error) }
    }
}

/// Where in a class an error location has come to.
enum Place {
    Object(&'static Plan),
    Value(&'static Shape),
    /// In a place that no class describes.
    Payload,
}

/// The steps of pydantic's location that are in the document: it also names the members of unions.
fn steps(location: &Bound<'_, PyTuple>, event: Option<&'static Plan>) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut place = event.map_or(Place::Payload, Place::Object);
    // The first element is the type, which is how the union is told apart.
    for element in location.iter().skip(1) {
        if let Ok(index) = element.extract::<usize>() {
            if let Place::Value(shape) = place {
                place = match inner(shape) {
                    Shape::List { item, .. } => Place::Value(item),
                    _ => Place::Payload,
                };
            }
            steps.push(Step::Index(index));
            continue;
        }
        let Ok(name) = element.extract::<String>() else { break };
        if let Place::Value(shape) = place {
            match inner(shape) {
                Shape::Tagged { choices, .. } => {
                    let plan = choices.iter().find(|(tag, _)| **tag == *name);
                    place = plan
                        .and_then(|(_, cell)| cell.plan.get())
                        .map_or(Place::Payload, Place::Object);
                    continue;
                }
                Shape::StrOrList(list) => {
                    place = if name == "str" { Place::Payload } else { Place::Value(list) };
                    continue;
                }
                Shape::Model(cell) => place = cell.plan.get().map_or(Place::Payload, Place::Object),
                _ => place = Place::Payload,
            }
        }
        if let Place::Object(plan) = place {
            place = match plan.find_bytes(name.as_bytes(), 0) {
                Some(at) => Place::Value(&plan.fields[at].shape),
                None => Place::Payload,
            };
        }
        steps.push(Step::Key(name));
    }
    steps
}

fn inner(shape: &'static Shape) -> &'static Shape {
    match shape {
        Shape::Nullable(inner) => inner,
        other => other,
    }
}
