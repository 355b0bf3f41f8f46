//! One JSON document to one event, in either spelling.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use super::locate;
use super::pool::Workspace;
use super::reader::TypeField;
use super::reader::{Reader, Trouble};
use crate::errors::{DecodeFault, Fault, NoEvent, Refused, Step};
use crate::event::{EventType, Form, ValidationError, validator};

/// An event, and whether the protocol knows its type.
#[derive(Debug)]
pub struct Decoded<'py> {
    pub event: Bound<'py, PyAny>,
    pub known: bool,
}

/// Reads the event. One of an unknown type is a wire dict in either spelling: that carries all it
/// says, and is written as it came.
#[inline]
pub fn decode<'py>(
    py: Python<'py>,
    document: &[u8],
    spelling: Form,
    workspace: &mut Workspace,
) -> Result<Decoded<'py>, NoEvent> {
    let mut reader = Reader::new(py, document, workspace);
    if spelling == Form::Model {
        if let Ok(event) = reader.document(Reader::model_event) {
            return Ok(Decoded { event, known: true });
        }
        if let Trouble::Unsupported = reader.trouble {
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
    if spelling == Form::Dict {
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
            NoEvent::new(Refused::NoJson, reason, Some(at as u64))
        }
        Trouble::Python(error) => NoEvent::Python(error),
        Trouble::Unsupported => NoEvent::new(Refused::Malformed, "it cannot be read", None),
    }
}

#[cold]
fn no_type(event: &Bound<'_, PyAny>, found: &TypeField, document: &[u8]) -> NoEvent {
    let start = locate::start(document);
    let malformed = |reason| NoEvent::new(Refused::Malformed, reason, Some(start as u64));
    if !event.is_instance_of::<PyDict>() {
        return malformed(format!("an event is a JSON object, not {}", json_name(event)));
    }
    if *found == TypeField::Absent {
        return malformed("an event has a \"type\"".to_owned());
    }
    let value = event.get_item(intern!(event.py(), "type"));
    let reason = match value {
        Ok(value) => format!("a string is needed, not {}", json_name(&value)),
        Err(_) => "a string is needed".to_owned(),
    };
    let mut fault = Fault::new(reason);
    fault.steps.push(Step::Key("type".into()));
    let offset = locate::member(document, start, b"type").unwrap_or(start);
    DecodeFault { refused: Refused::Malformed, fault, offset: Some(offset as u64) }.into()
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
    kind: EventType,
    wire: Bound<'py, PyAny>,
) -> Result<Bound<'py, PyAny>, NoEvent> {
    let official = validator(py, "Event")?;
    let validated = official
        .call_method1(intern!(py, "validate_json"), (PyBytes::new(py, document),))
        .or_else(|error| {
            // Its JSON parser stops at 200 levels, where this one has read the document.
            match ValidationError::of(py, &error) {
                Some(refusal) if refusal.reason == "json_invalid" => {
                    official.call_method1(intern!(py, "validate_python"), (wire,))
                }
                _ => Err(error),
            }
        });
    validated.map_err(|error| match ValidationError::of(py, &error) {
        Some(refusal) => {
            let fault = refusal.into_fault(Some(kind), error);
            let offset = Some(place(document, &fault.steps) as u64);
            DecodeFault { refused: Refused::Malformed, fault, offset }.into()
        }
        None => NoEvent::Python(error),
    })
}

/// Where in the document the steps (innermost first) lead: if a step is missing there, where it should be.
fn place(document: &[u8], steps: &[Step]) -> usize {
    let mut at = locate::start(document);
    for step in steps.iter().rev() {
        let next = match step {
            Step::Key(key) => locate::member(document, at, key.as_bytes()),
            Step::Index(index) => locate::element(document, at, *index),
        };
        match next {
            Some(next) => at = next,
            None => break,
        }
    }
    at
}
