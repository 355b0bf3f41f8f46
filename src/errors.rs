//! The exception tree that Python sees, and the errors inside the crate that become it.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::False;
use pyo3::types::{PyDict, PyString, PyType};
use pyo3::{PyClass, PyRef, PyRefMut};
use std::fmt::Write;

create_exception!(
    agui_codec,
    AGUIError,
    PyValueError,
    "The base of all errors that agui_codec raises of its own.\n\n\
     Example:\n\
     \x20   >>> try:\n\
     \x20   ...     EventDecoder(\"text/html\")\n\
     \x20   ... except AGUIError as error:\n\
     \x20   ...     print(type(error).__mro__[1].__name__)\n\
     \x20   ValueError"
);
create_exception!(
    agui_codec,
    EncodeError,
    AGUIError,
    "An object that cannot be written as an AG-UI event.\n\n\
     Attributes:\n    path: where in the event the trouble is, like `messages[2].content`; \
     empty for the event as a whole.\n\n\
     Example:\n\
     \x20   >>> try:\n\
     \x20   ...     to_json({\"type\": \"STATE_SNAPSHOT\", \"snapshot\": {\"when\": object()}})\n\
     \x20   ... except EncodeError as error:\n\
     \x20   ...     print(error.path)\n\
     \x20   snapshot.when"
);
create_exception!(
    agui_codec,
    EnforcementError,
    AGUIError,
    "A known field of an event that holds what the protocol forbids.\n\n\
     Attributes:\n    path: which field, like `outcome.interrupts[1].reason`.\n    \
     event_index: which event, counted from 0 by the stage that refused it; None for a run's input.\n    \
     event_type: its `type`.\n    \
     reason: what is wrong with it, without the rest.\n\n\
     Example:\n\
     \x20   >>> try:\n\
     \x20   ...     EventEnforcer().feed({\"type\": \"STEP_STARTED\", \"stepName\": 7})\n\
     \x20   ... except EnforcementError as error:\n\
     \x20   ...     print(error.event_index, error.path)\n\
     \x20   0 stepName"
);
create_exception!(
    agui_codec,
    SequenceError,
    AGUIError,
    "An event that the protocol does not allow where it stands in its stream.\n\n\
     Attributes:\n    event_index: which event, counted from 0 by the stage that refused it.\n    \
     event_type: its `type`, or None at the end of the stream.\n    \
     id: the id of the message, call, step or run that it is about, or None.\n    \
     expected: what would have been right.\n    \
     reason: what is wrong, without the rest.\n\n\
     Example:\n\
     \x20   >>> try:\n\
     \x20   ...     EventVerifier().feed({\"type\": \"STEP_STARTED\", \"stepName\": \"search\"})\n\
     \x20   ... except SequenceError as error:\n\
     \x20   ...     print(error.event_index, error.event_type)\n\
     \x20   0 STEP_STARTED"
);

create_exception!(
    agui_codec,
    ConcurrentUseError,
    AGUIError,
    "An object for one stream that was called while another call of it was running: by another \
     thread, or by a callback of its own.\n\n\
     Example:\n\
     \x20   >>> decoder = EventDecoder(allow_done=True, on_deviation=lambda deviation: decoder.feed(b\"\"))\n\
     \x20   >>> try:\n\
     \x20   ...     decoder.feed(b\"data: [DONE]\\n\\n\")\n\
     \x20   ... except ConcurrentUseError:\n\
     \x20   ...     print(\"a callback called its own decoder\")\n\
     \x20   a callback called its own decoder"
);

/// An object that keeps a stream's state, for one call alone.
#[inline]
pub fn exclusive<'py, T: PyClass<Frozen = False>>(
    object: &Bound<'py, T>,
) -> PyResult<PyRefMut<'py, T>> {
    object.try_borrow_mut().map_err(|_| in_use(object.as_any()))
}

/// The same for a call that changes nothing.
#[inline]
pub fn shared<'py, T: PyClass>(object: &Bound<'py, T>) -> PyResult<PyRef<'py, T>> {
    object.try_borrow().map_err(|_| in_use(object.as_any()))
}

/// The repr of such an object, also while it is in use.
#[cold]
pub fn shown<T: PyClass>(object: &Bound<'_, T>, show: impl FnOnce(&T) -> String) -> String {
    match object.try_borrow() {
        Ok(object) => show(&object),
        Err(_) => format!("<{} in use>", class_name(object.as_any())),
    }
}

#[cold]
fn in_use(object: &Bound<'_, PyAny>) -> PyErr {
    let class = class_name(object);
    ConcurrentUseError::new_err(format!(
        "this {class} is in use by another thread, or by the call that called back: \
         each stream needs a {class} of its own"
    ))
}

/// What pydantic raised, as an error. Its walk over a dict panics when code of the caller's changes
/// the dict meanwhile, and that panic is no `Exception`.
#[cold]
pub fn of_pydantic(py: Python<'_>, error: PyErr) -> PyErr {
    if !is_panic(py, &error) {
        return error;
    }
    let changed = AGUIError::new_err("a dict was changed while pydantic read it");
    changed.set_cause(py, Some(error));
    changed
}

pub fn is_panic(py: Python<'_>, error: &PyErr) -> bool {
    !error.is_instance_of::<PyException>(py)
        && error.get_type(py).name().is_ok_and(|name| name == "PanicException")
}

/// The AGUIError for an object that is not an event: neither an event model nor a dict with a type.
#[cold]
pub fn not_an_event(object: &Bound<'_, PyAny>) -> PyErr {
    AGUIError::new_err(not_an_event_reason(object))
}

/// What [`not_an_event`] says.
#[cold]
pub fn not_an_event_reason(object: &Bound<'_, PyAny>) -> String {
    if let Ok(dict) = object.cast::<PyDict>() {
        return match dict.get_item("type").ok().flatten() {
            None => "missing \"type\"".to_owned(),
            Some(other) => format!("\"type\" must be a string, not {}", class_name(&other)),
        };
    }
    match object.cast::<PyType>().map(PyTypeMethods::name) {
        Ok(Ok(name)) => format!("not an AG-UI event: the class {name}, not an instance of it"),
        _ => format!("not an AG-UI event: {}", class_name(object)),
    }
}

/// The name of an object's class.
#[cold]
pub fn class_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string())
}

/// The same with the module in front, unless it is a builtin.
pub fn qualified_class_name(object: &Bound<'_, PyAny>) -> String {
    let name = object.get_type().fully_qualified_name();
    name.map_or_else(|_| "?".to_owned(), |name| name.to_string())
}

/// What is wrong with an event where it stands.
pub struct Violation {
    pub reason: String,
    pub id: Option<Py<PyAny>>,
    pub expected: String,
}

impl Violation {
    #[cold]
    pub fn new(
        id: Option<&Bound<'_, PyAny>>,
        reason: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        let id = id.map(|id| id.clone().unbind());
        Self { reason: reason.into(), id, expected: expected.into() }
    }

    /// The SequenceError that says so.
    #[cold]
    pub fn into_error(self, py: Python<'_>, index: usize, event_type: Option<&str>) -> PyErr {
        let Self { reason, id, expected } = self;
        let place = event_type.map_or_else(
            || format!("end of stream after {index} events"),
            |event_type| format!("event {index} ({event_type})"),
        );
        let error = SequenceError::new_err(format!("{place}: {reason}; expected {expected}"));
        let attributes = || -> PyResult<()> {
            let value = error.value(py);
            value.setattr("reason", reason)?;
            value.setattr("event_index", index)?;
            value.setattr("event_type", event_type)?;
            value.setattr("id", id)?;
            value.setattr("expected", expected)
        };
        match attributes() {
            Ok(()) => error,
            Err(failed) => failed,
        }
    }
}

create_exception!(
    agui_codec,
    PatchError,
    AGUIError,
    "A JSON Patch that is malformed or does not apply.\n\n\
     Attributes:\n    operation_index: which operation; None for the patch as a whole.\n    \
     path: its `path`, or its `from` if that is the trouble.\n    \
     reason: what is wrong, without the two.\n\n\
     Example:\n\
     \x20   >>> try:\n\
     \x20   ...     apply_patch({\"a\": 1}, [{\"op\": \"remove\", \"path\": \"/b\"}])\n\
     \x20   ... except PatchError as error:\n\
     \x20   ...     print(error.operation_index, error.path)\n\
     \x20   0 /b"
);

create_exception!(
    agui_codec,
    DecodeError,
    AGUIError,
    "Bytes that are no AG-UI event.\n\n\
     Attributes:\n    offset: the byte at which the trouble begins, counted from the start of the \
     stream (for a single document: of the document); None if unknown.\n    \
     path: where in the event, like `messages[2].content`; empty for the event as a whole.\n    \
     event_index: which event of the stream, counted from 0; None for a single document.\n\n\
     Example:\n\
     \x20   >>> try:\n\
     \x20   ...     decode_event('{\"type\": \"STEP_STARTED\", \"stepName\": NaN}')\n\
     \x20   ... except DecodeError as error:\n\
     \x20   ...     print(error.offset)\n\
     \x20   37"
);
create_exception!(
    agui_codec,
    FrameTooLargeError,
    DecodeError,
    "An event, or what might become one, is longer than the limit.\n\n\
     Example:\n\
     \x20   >>> try:\n\
     \x20   ...     EventDecoder(max_event_bytes=10).feed(b\"data: more than ten bytes\")\n\
     \x20   ... except FrameTooLargeError:\n\
     \x20   ...     print(\"too large\")\n\
     \x20   too large"
);
create_exception!(
    agui_codec,
    TruncatedStreamError,
    DecodeError,
    "The stream ended inside an event.\n\n\
     Example:\n\
     \x20   >>> decoder = EventDecoder()\n\
     \x20   >>> decoder.feed(b\"data: {\")\n\
     \x20   []\n\
     \x20   >>> try:\n\
     \x20   ...     decoder.close()\n\
     \x20   ... except TruncatedStreamError:\n\
     \x20   ...     print(\"the stream broke off\")\n\
     \x20   the stream broke off"
);
create_exception!(
    agui_codec,
    UnknownEventError,
    DecodeError,
    "A well-formed event of a type that this version of the protocol does not have.\n\n\
     Example:\n\
     \x20   >>> decoder = EventDecoder(on_unknown=\"raise\")\n\
     \x20   >>> try:\n\
     \x20   ...     decoder.feed(b'data: {\"type\":\"NEW\"}\\n\\n')\n\
     \x20   ... except UnknownEventError as error:\n\
     \x20   ...     print(error.event_index)\n\
     \x20   0"
);

/// One step from an object to a value inside it.
#[derive(Debug)]
pub enum Step {
    Key(String),
    Index(usize),
}

/// Steps, innermost first, in the notation of the field: `messages[2].metadata.key`.
pub fn path(steps: &[Step]) -> String {
    let mut path = String::new();
    for step in steps.iter().rev() {
        match step {
            Step::Index(index) => {
                let _ = write!(path, "[{index}]");
            }
            Step::Key(key) if path.is_empty() => path.push_str(key),
            Step::Key(key) => {
                path.push('.');
                path.push_str(key);
            }
        }
    }
    path
}

/// What is wrong and where. The steps are gathered on the way out, innermost first.
#[derive(Debug)]
pub struct Fault {
    pub reason: String,
    pub steps: Vec<Step>,
    /// What another library said of it.
    pub cause: Option<PyErr>,
}

impl Fault {
    #[cold]
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), steps: Vec::new(), cause: None }
    }

    /// The path in the notation of the field: `messages[2].metadata.key`.
    pub fn path(&self) -> String {
        path(&self.steps)
    }

    /// The EncodeError that says so; or the cause itself, if it is one that interrupts the program.
    #[cold]
    pub fn into_encode_error(self, py: Python<'_>) -> PyErr {
        if let Some(cause) = &self.cause
            && !cause.is_instance_of::<PyException>(py)
        {
            return cause.clone_ref(py);
        }
        let path = self.path();
        let message =
            if path.is_empty() { self.reason } else { format!("{path}: {}", self.reason) };
        let error = EncodeError::new_err(message);
        error.set_cause(py, self.cause);
        if let Err(failed) = error.value(py).setattr("path", PyString::new(py, &path)) {
            return failed;
        }
        error
    }
}

/// Which of the decoding errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Not even JSON, or deeper than the limit.
    NoJson,
    Malformed,
    TooLarge,
    Truncated,
    Unknown,
}

/// A fault in what came in, and the byte where it stands, if that is known.
#[derive(Debug)]
pub struct DecodeFault {
    pub refused: Refused,
    pub fault: Fault,
    pub offset: Option<u64>,
}

impl DecodeFault {
    #[cold]
    pub fn new(refused: Refused, reason: impl Into<String>, offset: Option<u64>) -> Self {
        Self { refused, fault: Fault::new(reason), offset }
    }

    /// The DecodeError that says so, of an event of a stream or of a single document.
    #[cold]
    pub fn into_error(self, py: Python<'_>, event_index: Option<u64>) -> PyErr {
        let path = self.fault.path();
        let mut message = String::new();
        if let Some(index) = event_index {
            let _ = write!(message, "event {index}: ");
        }
        if !path.is_empty() {
            let _ = write!(message, "{path}: ");
        }
        message.push_str(&self.fault.reason);
        if let Some(offset) = self.offset {
            let _ = write!(message, " (at byte {offset})");
        }
        let error = match self.refused {
            Refused::NoJson | Refused::Malformed => DecodeError::new_err(message),
            Refused::TooLarge => FrameTooLargeError::new_err(message),
            Refused::Truncated => TruncatedStreamError::new_err(message),
            Refused::Unknown => UnknownEventError::new_err(message),
        };
        error.set_cause(py, self.fault.cause);
        let value = error.value(py);
        let set = value
            .setattr("path", path)
            .and_then(|()| value.setattr("offset", self.offset))
            .and_then(|()| value.setattr("event_index", event_index));
        set.err().unwrap_or(error)
    }
}

/// Why bytes gave no event.
#[derive(Debug)]
pub enum NoEvent {
    /// They are to blame.
    Fault(Box<DecodeFault>),
    /// Python is.
    Python(PyErr),
}

impl From<PyErr> for NoEvent {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<DecodeFault> for NoEvent {
    fn from(fault: DecodeFault) -> Self {
        Self::Fault(Box::new(fault))
    }
}

impl NoEvent {
    #[cold]
    pub fn new(refused: Refused, reason: impl Into<String>, offset: Option<u64>) -> Self {
        DecodeFault::new(refused, reason, offset).into()
    }

    pub fn into_error(self, py: Python<'_>, event_index: Option<u64>) -> PyErr {
        match self {
            Self::Fault(fault) => fault.into_error(py, event_index),
            Self::Python(error) => error,
        }
    }
}

/// Puts the tree into the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("AGUIError", py.get_type::<AGUIError>())?;
    let encode = py.get_type::<EncodeError>();
    encode.setattr("path", "")?;
    module.add("EncodeError", encode)?;
    let patch = py.get_type::<PatchError>();
    patch.setattr("operation_index", py.None())?;
    patch.setattr("path", "")?;
    patch.setattr("reason", "")?;
    module.add("PatchError", patch)?;
    let enforcement = py.get_type::<EnforcementError>();
    enforcement.setattr("path", "")?;
    enforcement.setattr("reason", "")?;
    for attribute in ["event_index", "event_type"] {
        enforcement.setattr(attribute, py.None())?;
    }
    module.add("EnforcementError", enforcement)?;
    module.add("ConcurrentUseError", py.get_type::<ConcurrentUseError>())?;
    let sequence = py.get_type::<SequenceError>();
    sequence.setattr("event_index", 0)?;
    sequence.setattr("event_type", py.None())?;
    sequence.setattr("id", py.None())?;
    sequence.setattr("expected", "")?;
    sequence.setattr("reason", "")?;
    module.add("SequenceError", sequence)?;
    let decode = py.get_type::<DecodeError>();
    decode.setattr("offset", py.None())?;
    decode.setattr("path", "")?;
    decode.setattr("event_index", py.None())?;
    module.add("DecodeError", decode)?;
    module.add("FrameTooLargeError", py.get_type::<FrameTooLargeError>())?;
    module.add("TruncatedStreamError", py.get_type::<TruncatedStreamError>())?;
    module.add("UnknownEventError", py.get_type::<UnknownEventError>())
}
