//! Text that comes in pieces.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use crate::capi;

/// Pieces of text, to be joined when all are there. ASCII, which most text is, is joined as it comes:
/// a copy of a few bytes costs less than a reference that is taken, listed and let go.
#[derive(Default)]
pub struct Pieces {
    count: usize,
    ascii: Vec<u8>,
    /// The other pieces, each with the number of bytes of `ascii` before it.
    others: Vec<(usize, Py<PyString>)>,
}

impl Pieces {
    pub fn count(&self) -> usize {
        self.count
    }

    /// Adds a piece, if it is exactly a str.
    #[inline]
    pub fn push(&mut self, piece: &Bound<'_, PyAny>) -> bool {
        let Some(bytes) = capi::ascii(piece) else { return self.push_other(piece) };
        self.ascii.extend_from_slice(bytes);
        self.count += 1;
        true
    }

    #[inline(never)]
    fn push_other(&mut self, piece: &Bound<'_, PyAny>) -> bool {
        let Ok(piece) = piece.cast_exact::<PyString>() else { return false };
        self.others.push((self.ascii.len(), piece.clone().unbind()));
        self.count += 1;
        true
    }

    pub fn join(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        if self.others.is_empty() {
            return capi::ascii_str(py, &self.ascii);
        }
        let list = PyList::empty(py);
        let mut from = 0;
        for (to, other) in self.others {
            list.append(capi::ascii_str(py, &self.ascii[from..to])?)?;
            list.append(other)?;
            from = to;
        }
        list.append(capi::ascii_str(py, &self.ascii[from..])?)?;
        intern!(py, "").call_method1(intern!(py, "join"), (list,))
    }
}
