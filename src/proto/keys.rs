//! The keys of payload objects, which repeat: two hundred records of a snapshot have one set.

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::capi::{self, Text};

/// Objects for keys that occurred before in the same event. It lives no longer than the decoding
/// of that event, so that no stream can fill a process with its keys.
#[derive(Default)]
pub struct KeyCache<'py> {
    slots: Vec<Option<Bound<'py, PyString>>>,
    asked: u32,
}

/// A power of two. A snapshot with more keys than this repeats each less often.
const SLOTS: usize = 256;
/// Longer keys are seldom names, and cost more to compare.
const LONGEST: usize = 32;
/// Small objects, as most `metadata` are, do not repeat a key and are not worth the table.
const WITHOUT: u32 = 8;

impl<'py> KeyCache<'py> {
    /// The str of an ASCII key.
    #[inline]
    pub fn get(&mut self, py: Python<'py>, key: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        if self.asked < WITHOUT || key.len() > LONGEST {
            self.asked += 1;
            return capi::ascii_str(py, key);
        }
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, || None);
        }
        let slot = &mut self.slots[hash(key) & (SLOTS - 1)];
        if let Some(known) = slot
            && matches!(capi::text(known), Text::Ascii(text) if text == key)
        {
            return Ok(known.clone().into_any());
        }
        let string = capi::ascii_str(py, key)?;
        *slot = string.clone().cast_into::<PyString>().ok();
        Ok(string)
    }
}

/// A multiplicative hash of eight bytes at a time. Keys that collide only cost a new str.
#[inline]
fn hash(key: &[u8]) -> usize {
    let mut hash = key.len() as u64;
    let mut words = key.chunks_exact(8);
    let mut mix =
        |word: u64| hash = (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    for word in &mut words {
        mix(word.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)));
    }
    mix(words.remainder().iter().fold(0, |word, &byte| word << 8 | u64::from(byte)));
    (hash >> 48) as usize
}
