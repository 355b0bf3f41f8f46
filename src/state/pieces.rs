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

/// Appends a text: a short one, as tokens are, without a call of `memcpy`.
#[inline]
fn append(out: &mut Vec<u8>, text: &[u8]) {
    const WORD: usize = 8;
    let len = text.len();
    match (text.first_chunk(), text.last_chunk()) {
        // The first four bytes and the last ones, which may overlap.
        (Some(first), Some(last)) if len <= WORD => {
            let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
            let word = u64::from(first) | u64::from(last) << (8 * (len - 4));
            out.extend_from_slice(&word.to_le_bytes());
            out.truncate(out.len() - (WORD - len));
        }
        _ => out.extend_from_slice(text),
    }
}

impl Pieces {
    pub fn count(&self) -> usize {
        self.count
    }

    /// Adds a piece, if it is exactly a str.
    #[inline]
    pub fn push(&mut self, piece: &Bound<'_, PyAny>) -> bool {
        let Some(bytes) = capi::ascii(piece) else { return self.push_other(piece) };
        append(&mut self.ascii, bytes);
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
