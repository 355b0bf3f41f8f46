//! Equality as JSON has it (RFC 6902 section 4.6), and a hash that agrees with it.

use pyo3::prelude::*;
use pyo3::types::PyInt;

use super::document::{Kind, elements, members};
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
            let (ours, theirs) = (elements(left), elements(right));
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

/// A hash under which equal values are alike.
pub fn hash(value: &Bound<'_, PyAny>, room: u32) -> Result<u64, Uncompared> {
    let tagged = |tag: u64, hash: isize| mix(tag, hash.cast_unsigned() as u64);
    match Kind::of(value) {
        Kind::Null => Ok(1),
        Kind::Bool => Ok(tagged(2, value.hash()?)),
        // Python's own hash is the same for 1 and 1.0.
        Kind::Int | Kind::Float => Ok(tagged(3, value.hash()?)),
        Kind::Text(text) => Ok(tagged(4, text.hash()?)),
        Kind::Array(array) => {
            let room = room.checked_sub(1).ok_or(Uncompared::TooDeep)?;
            let mut sum = 5;
            for item in array.get_slice(0, array.len()) {
                sum = mix(sum, hash(&item, room)?);
            }
            Ok(sum)
        }
        Kind::Object(object) => {
            let room = room.checked_sub(1).ok_or(Uncompared::TooDeep)?;
            let mut sum = 6_u64;
            for (key, item) in object.copy()? {
                // A sum, so that order is nothing.
                let member = mix(key.hash()?.cast_unsigned() as u64, hash(&item, room)?);
                sum = sum.wrapping_add(member);
            }
            Ok(mix(6, sum))
        }
        // Need not be hashable; the comparison will tell them apart.
        Kind::Other => Ok(7),
    }
}

/// Mixes two words well enough for a table of list elements.
const fn mix(left: u64, right: u64) -> u64 {
    let (left, right) = (left ^ 0x9e37_79b9_7f4a_7c15, right ^ 0xd1b5_4a32_d192_ed03);
    let product = left.wrapping_mul(right.rotate_left(32) | 1);
    product ^ (product >> 29) ^ right
}
