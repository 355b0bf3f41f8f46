//! Bytes that Python hands in.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

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
        let class = data.get_type().fully_qualified_name();
        let class = class.map_or_else(|_| "?".into(), |name| name.to_string());
        let error = PyTypeError::new_err(format!("a bytes-like object is required, not '{class}'"));
        error.set_cause(data.py(), Some(cause));
        error
    })?;
    read(&buffer.to_vec(data.py())?)
}
