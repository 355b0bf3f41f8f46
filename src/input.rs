//! Bytes that Python hands in.

use pyo3::buffer::PyBuffer;
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
    let copy = PyBuffer::<u8>::get(data)?.to_vec(data.py())?;
    read(&copy)
}
