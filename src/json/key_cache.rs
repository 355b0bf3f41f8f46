//! The keys of objects as Python strs, kept for the next object that has them.

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::capi::{self, Text};
use crate::event::registry;

/// How many keys are kept. What a stream uses over and over is far less; what it uses once (ids
/// as keys) pushes out few of them.
const SLOTS: u16 = 1024;
/// A longer key is not worth keeping, and so the memory is bounded.
const LONGEST: usize = 64;

/// Keys by a hash of their bytes, of which a slot keeps the last one. The bytes are compared: a
/// cache that trusts a hash gives wrong keys to whoever can make two collide.
///
/// Kept are only keys with nothing to escape, so that their bytes are also their JSON.
///
/// Keys come in an order that repeats, too, as in the two hundred records of a snapshot. So each
/// knows the one that came after it last.
pub struct KeyCache {
    slots: Vec<Option<Kept>>,
    /// The slot of the last key, and that of the one which should come now.
    last: u16,
    next: u16,
}

struct Kept {
    key: Py<PyString>,
    next: u16,
}

impl KeyCache {
    pub fn new() -> Self {
        Self { slots: (0..SLOTS).map(|_| None).collect(), last: 0, next: 0 }
    }

    /// The key that should come now, if `is` finds that its bytes, which are ASCII, are those at
    /// hand.
    #[inline]
    pub fn expected<'py>(
        &mut self,
        py: Python<'py>,
        is: impl FnOnce(&[u8]) -> bool,
    ) -> Option<Bound<'py, PyString>> {
        let kept = self.slots[usize::from(self.next)].as_ref()?;
        let key = kept.key.bind(py);
        match capi::text(key) {
            Text::Ascii(text) if is(text) => {
                self.last = std::mem::replace(&mut self.next, kept.next);
                Some(key.clone())
            }
            _ => None,
        }
    }

    /// A str of these bytes, which are ASCII.
    #[inline]
    pub fn get<'py>(&mut self, py: Python<'py>, key: &[u8]) -> PyResult<Bound<'py, PyString>> {
        if key.len() > LONGEST {
            return Ok(capi::ascii_str(py, key)?.cast_into()?);
        }
        let slot = slot_of(key);
        if let Some(last) = &mut self.slots[usize::from(self.last)] {
            last.next = slot;
        }
        self.last = slot;
        if let Some(kept) = &self.slots[usize::from(slot)] {
            self.next = kept.next;
            let kept = kept.key.bind(py);
            if let Text::Ascii(text) = capi::text(kept)
                && text == key
            {
                return Ok(kept.clone());
            }
        }
        let string = new_key(py, key)?;
        if key.iter().any(|&byte| byte < b' ' || byte == b'"' || byte == b'\\') {
            return Ok(string);
        }
        self.slots[usize::from(slot)] = Some(Kept { key: string.clone().unbind(), next: slot });
        Ok(string)
    }
}

/// The protocol's own keys are the interned objects that `ClassInfo` compares with by identity.
#[cold]
fn new_key<'py>(py: Python<'py>, key: &[u8]) -> PyResult<Bound<'py, PyString>> {
    match registry().aliases.get(key) {
        Some(alias) => Ok(alias.bind(py).clone()),
        None => Ok(capi::ascii_str(py, key)?.cast_into()?),
    }
}

/// From the length, the first eight bytes and the last eight, or four and four.
#[inline]
fn slot_of(key: &[u8]) -> u16 {
    let len = key.len();
    let (first, last) = match (key.first_chunk(), key.last_chunk()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => (few_bytes(&key[..len.min(4)]), few_bytes(&key[len.saturating_sub(4)..])),
    };
    let mixed = (first ^ last.rotate_left(29) ^ len as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 48) as u16 % SLOTS
}

/// A number of at most four bytes.
#[inline]
fn few_bytes(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(four) => u64::from(u32::from_le_bytes(*four)),
        None => bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)),
    }
}
