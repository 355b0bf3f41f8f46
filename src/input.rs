//! What Python hands in: bytes, and callables.

use pyo3::Borrowed;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::errors::{class_name, qualified_class_name};

/// A hook of the user's. That it can be called is seen when it is given, not when it is needed.
pub struct Callback(Py<PyAny>);

impl<'a, 'py> FromPyObject<'a, 'py> for Callback {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if object.is_callable() {
            return Ok(Self(object.to_owned().unbind()));
        }
        Err(PyTypeError::new_err(format!(
            "a callable is required, not '{}'",
            qualified_class_name(&object)
        )))
    }
}

impl From<Callback> for Py<PyAny> {
    fn from(Callback(callback): Callback) -> Self {
        callback
    }
}

/// An argument that has to be a str, with its name in the error if it is not.
pub fn str_argument<'a, 'py>(
    name: &str,
    value: &'a Bound<'py, PyAny>,
) -> PyResult<&'a Bound<'py, PyString>> {
    value.cast().map_err(|_| {
        PyTypeError::new_err(format!("{name} must be a str, not {}", class_name(value)))
    })
}

/// Calls `read` with the bytes of a `bytes`, `bytearray` or `memoryview`. All but `bytes` are
/// copied first, since others may change them.
#[inline]
pub fn with_bytes<T>(
    data: &Bound<'_, PyAny>,
    read: impl FnOnce(&[u8]) -> PyResult<T>,
) -> PyResult<T> {
    if let Ok(bytes) = data.cast::<PyBytes>() {
        return read(bytes.as_bytes());
    }
    let buffer = PyBuffer::<u8>::get(data).map_err(|cause| {
        let class = qualified_class_name(data);
        let error = PyTypeError::new_err(format!("a bytes-like object is required, not '{class}'"));
        error.set_cause(data.py(), Some(cause));
        error
    })?;
    read(&buffer.to_vec(data.py())?)
}
