//! The exception tree that Python sees, and the errors inside the crate that become it.

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::fmt::Write;

create_exception!(
    agui_codec,
    AGUIError,
    PyValueError,
    "The base of all errors that agui_codec raises of its own."
);
create_exception!(
    agui_codec,
    EncodeError,
    AGUIError,
    "An object that cannot be written as an AG-UI event.\n\n\
     Attributes:\n    path: where in the event the trouble is, like `messages[2].content`; \
     empty for the event as a whole."
);

create_exception!(
    agui_codec,
    PatchError,
    AGUIError,
    "A JSON Patch that is malformed or does not apply.\n\n\
     Attributes:\n    operation_index: which operation; None for the patch as a whole.\n    \
     path: its `path`, or its `from` if that is the trouble.\n    \
     reason: what is wrong, without the two."
);

/// One step from an object to a value inside it.
#[derive(Debug)]
pub enum Step {
    Key(String),
    Index(usize),
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
        let mut path = String::new();
        for step in self.steps.iter().rev() {
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

    /// The EncodeError that says so.
    #[cold]
    pub fn into_encode_error(self, py: Python<'_>) -> PyErr {
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
    module.add("PatchError", patch)
}
