//! Equality as JSON has it (RFC 6902 section 4.6).

use pyo3::prelude::*;
use pyo3::types::PyInt;

use super::document::{Kind, members};
use crate::capi;

/// Why two values were not compared to the end.
#[derive(Debug)]
pub enum Uncompared {
    TooDeep,
    /// A value that is not JSON, whose `__eq__` raised.
    Raised(PyErr),
}

impl From<PyErr> for Uncompared {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl Uncompared {
    pub fn into_parts(self) -> (String, Option<PyErr>) {
        match self {
            Self::TooDeep => (super::too_deep(), None),
            Self::Raised(error) => ("a value cannot be compared".to_owned(), Some(error)),
        }
    }
}

/// Whether two values are the same JSON: 1 equals 1.0, and true does not; the order of members is
/// nothing. Values that are no JSON are equal if Python says so. `room` is how many levels of
/// containers they may have.
pub fn equal(
    left: &Bound<'_, PyAny>,
    right: &Bound<'_, PyAny>,
    room: u32,
) -> Result<bool, Uncompared> {
    if left.is(right) {
        return Ok(true);
    }
    match (Kind::of(left), Kind::of(right)) {
        (Kind::Int, Kind::Int) => {
            if let (Ok(left), Ok(right)) = (left.cast_exact::<PyInt>(), right.cast_exact::<PyInt>())
                && let (Some(left), Some(right)) = (capi::int_as_i64(left), capi::int_as_i64(right))
            {
                return Ok(left == right);
            }
            Ok(left.eq(right)?)
        }
        (Kind::Float, Kind::Int | Kind::Float)
        | (Kind::Int, Kind::Float)
        | (Kind::Other, Kind::Other) => Ok(left.eq(right)?),
        (Kind::Text(left), Kind::Text(right)) => Ok(left.as_any().eq(right)?),
        (Kind::Array(left), Kind::Array(right)) => {
            if left.len() != right.len() {
                return Ok(false);
            }
            let room = room.checked_sub(1).ok_or(Uncompared::TooDeep)?;
            // Comparing may run Python, which may change the lists: then they are not equal.
            let (ours, theirs) = (capi::list_items(left), capi::list_items(right));
            for (left, right) in ours.iter().zip(&theirs) {
                if !equal(left, right, room)? {
                    return Ok(false);
                }
            }
            Ok(left.len() == ours.len() && right.len() == theirs.len())
        }
        (Kind::Object(left), Kind::Object(right)) => {
            if left.len() != right.len() {
                return Ok(false);
            }
            let room = room.checked_sub(1).ok_or(Uncompared::TooDeep)?;
            let ours = members(left);
            for (key, value) in &ours {
                let Some(other) = right.get_item(key)? else { return Ok(false) };
                if !equal(value, &other, room)? {
                    return Ok(false);
                }
            }
            Ok(left.len() == ours.len() && right.len() == ours.len())
        }
        // Of one kind and not identical (None, bool), or of two.
        _ => Ok(false),
    }
}
