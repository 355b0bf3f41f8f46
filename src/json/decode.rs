//! One JSON document to one event, in either spelling.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use super::keys::Tools;
use super::reader::{Reader, Trouble, TypeField};
use super::skip;
use crate::errors::{DecodeFault, Fault, Refused, Step};
use crate::event::{EventKind, Plan, Shape, Spelling, registry};

/// An event, and whether the protocol knows its type.
#[derive(Debug)]
pub struct Decoded<'py> {
    pub event: Bound<'py, PyAny>,
    pub known: bool,
}

/// Why there is no event.
#[derive(Debug)]
pub enum NoEvent {
    /// The document is no JSON, or deeper than the limit.
    NoJson(Box<DecodeFault>),
    /// It is, but no event.
    Fault(Box<DecodeFault>),
    /// Python is.
    Python(PyErr),
}

impl From<PyErr> for NoEvent {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl NoEvent {
    #[cold]
    fn fault(reason: impl Into<String>, at: usize) -> Self {
        Self::Fault(Box::new(DecodeFault::new(Refused::Malformed, reason, at as u64)))
    }

    pub fn into_error(self, py: Python<'_>, event_index: Option<u64>) -> PyErr {
        match self {
            Self::NoJson(fault) | Self::Fault(fault) => fault.into_error(py, event_index),
            Self::Python(error) => error,
        }
    }
}

/// Reads the event. One of an unknown type is a wire dict in either spelling: that carries all it
/// says, and is written as it came.
#[inline]
pub fn decode<'py>(
    py: Python<'py>,
    document: &[u8],
    spelling: Spelling,
    tools: &mut Tools,
) -> Result<Decoded<'py>, NoEvent> {
    let mut reader = Reader::new(py, document, tools);
    if spelling == Spelling::Model {
        if let Ok(event) = reader.document(Reader::model_event) {
            return Ok(Decoded { event, known: true });
        }
        if let Trouble::Surprise = reader.trouble {
            // A second look finds what is wrong with the JSON, if anything is.
            reader.restart();
        } else {
            return Err(no_event(reader.trouble, document));
        }
    }
    let Ok(event) = reader.document(Reader::wire_event) else {
        return Err(no_event(reader.trouble, document));
    };
    let kind = match reader.event_type {
        TypeField::Known(kind) => kind,
        TypeField::Unknown => return Ok(Decoded { event, known: false }),
        other => return Err(no_type(&event, &other, document)),
    };
    if spelling == Spelling::Wire {
        return Ok(Decoded { event, known: true });
    }
    let event = official(py, document, kind, event)?;
    Ok(Decoded { event, known: true })
}

#[cold]
fn no_event(trouble: Trouble, document: &[u8]) -> NoEvent {
    match trouble {
        Trouble::Syntax { reason, at } => {
            // Enough of the text to know it again in a log, and not more.
            let near = &document[at.saturating_sub(16)..document.len().min(at + 16)];
            let near = String::from_utf8_lossy(near);
            let reason = format!("{reason}, near {near:?}");
            NoEvent::NoJson(Box::new(DecodeFault::new(Refused::Malformed, reason, at as u64)))
        }
        Trouble::Python(error) => NoEvent::Python(error),
        Trouble::Surprise => NoEvent::fault("the document cannot be read", 0),
    }
}

#[cold]
fn no_type(event: &Bound<'_, PyAny>, found: &TypeField, document: &[u8]) -> NoEvent {
    let start = skip::start(document);
    if !event.is_instance_of::<PyDict>() {
        let reason = format!("an event is a JSON object, not {}", json_name(event));
        return NoEvent::fault(reason, start);
    }
    if *found == TypeField::Absent {
        return NoEvent::fault("an event has a \"type\"", start);
    }
    let value = event.get_item(intern!(event.py(), "type"));
    let reason = match value {
        Ok(value) => format!("a string is needed, not {}", json_name(&value)),
        Err(_) => "a string is needed".to_owned(),
    };
    let mut fault = Fault::new(reason);
    fault.steps.push(Step::Key("type".into()));
    let offset = skip::member(document, start, b"type").unwrap_or(start) as u64;
    NoEvent::Fault(Box::new(DecodeFault { refused: Refused::Malformed, fault, offset }))
}

/// What JSON calls a value like this.
fn json_name(value: &Bound<'_, PyAny>) -> &'static str {
    if value.is_none() {
        "null"
    } else if value.is_instance_of::<PyString>() {
        "a string"
    } else if value.is_instance_of::<PyList>() {
        "an array"
    } else if value.is_instance_of::<PyDict>() {
        "an object"
    } else if value.is_instance_of::<pyo3::types::PyBool>() {
        "a boolean"
    } else {
        "a number"
    }
}

/// What the official validator makes of a document that is JSON.
#[cold]
fn official<'py>(
    py: Python<'py>,
    document: &[u8],
    kind: EventKind,
    wire: Bound<'py, PyAny>,
) -> Result<Bound<'py, PyAny>, NoEvent> {
    static ADAPTER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let adapter = ADAPTER.get_or_try_init(py, || {
        let union = py.import("ag_ui.core.events")?.getattr("Event")?;
        let adapter = py.import("pydantic")?.getattr("TypeAdapter")?;
        PyResult::Ok(adapter.call1((union,))?.unbind())
    })?;
    let adapter = adapter.bind(py);
    let validated = adapter
        .call_method1(intern!(py, "validate_json"), (PyBytes::new(py, document),))
        .or_else(|error| {
            // Its JSON parser stops at 200 levels, where this one has read the document.
            match first_error(py, &error) {
                Some((kind, ..)) if kind == "json_invalid" => {
                    adapter.call_method1(intern!(py, "validate_python"), (wire,))
                }
                _ => Err(error),
            }
        });
    validated.map_err(|error| match first_error(py, &error) {
        Some((_, message, location)) => {
            let steps = json_path(&location, registry().event(Some(kind)));
            let offset = place(document, &steps) as u64;
            let steps = steps.into_iter().rev().collect();
            let fault = Fault { reason: message, steps, cause: Some(error) };
            NoEvent::Fault(Box::new(DecodeFault { refused: Refused::Malformed, fault, offset }))
        }
        None => NoEvent::Python(error),
    })
}

/// The type, the message and the location of the first error of a ValidationError.
fn first_error<'py>(
    py: Python<'py>,
    error: &PyErr,
) -> Option<(String, String, Bound<'py, PyTuple>)> {
    let arguments = PyDict::new(py);
    for name in ["include_url", "include_context", "include_input"] {
        arguments.set_item(name, false).ok()?;
    }
    let errors = error.value(py).call_method("errors", (), Some(&arguments)).ok()?;
    let first = errors.get_item(0).ok()?;
    let text = |key| first.get_item(key).ok()?.extract::<String>().ok();
    let location = first.get_item("loc").ok()?.cast_into().ok()?;
    Some((text("type")?, text("msg")?, location))
}

/// Where in a class an error location has come to.
enum Place {
    Object(&'static Plan),
    Value(&'static Shape),
    /// In a place that no class describes.
    Payload,
}

/// The steps of pydantic's location that are in the document: it also names the members of unions.
fn json_path(location: &Bound<'_, PyTuple>, event: Option<&'static Plan>) -> Vec<Step> {
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

/// Where in the document the steps lead: if a step is missing there, where it should be.
fn place(document: &[u8], steps: &[Step]) -> usize {
    let mut at = skip::start(document);
    for step in steps {
        let next = match step {
            Step::Key(key) => skip::member(document, at, key.as_bytes()),
            Step::Index(index) => skip::element(document, at, *index),
        };
        match next {
            Some(next) => at = next,
            None => break,
        }
    }
    at
}
