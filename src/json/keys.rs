//! The keys of objects as Python strs, kept for the next object that has them.

use pyo3::prelude::*;
use pyo3::types::PyString;
use std::sync::{Mutex, PoisonError};

use super::habit::Habits;
use crate::capi::{self, Text};
use crate::event::registry;

/// How many keys are kept. What a stream uses over and over is far less; what it uses once (ids
/// as keys) pushes out few of them.
const SLOTS: usize = 1024;
/// A longer key is not worth keeping, and so the memory is bounded.
const LONGEST: usize = 64;

/// Keys by a hash of their bytes, of which a slot keeps the last one. The bytes are compared: a
/// cache that trusts a hash gives wrong keys to whoever can make two collide.
pub struct KeyCache {
    slots: Vec<Option<Py<PyString>>>,
}

impl KeyCache {
    fn new() -> Self {
        Self { slots: (0..SLOTS).map(|_| None).collect() }
    }

    /// A str of these bytes, which are ASCII.
    #[inline]
    pub fn get<'py>(&mut self, py: Python<'py>, key: &[u8]) -> PyResult<Bound<'py, PyString>> {
        if key.len() > LONGEST {
            return Ok(capi::ascii_str(py, key)?.cast_into()?);
        }
        let slot = &mut self.slots[slot_of(key)];
        if let Some(kept) = slot {
            let kept = kept.bind(py);
            if let Text::Ascii(text) = capi::text(kept)
                && text == key
            {
                return Ok(kept.clone());
            }
        }
        let string = new_key(py, key)?;
        *slot = Some(string.clone().unbind());
        Ok(string)
    }
}

/// The protocol's own keys are the interned objects that the plans compare with by identity.
#[cold]
fn new_key<'py>(py: Python<'py>, key: &[u8]) -> PyResult<Bound<'py, PyString>> {
    match registry().aliases.get(key) {
        Some(alias) => Ok(alias.bind(py).clone()),
        None => Ok(capi::ascii_str(py, key)?.cast_into()?),
    }
}

/// From the length, the first eight bytes and the last eight, or four and four.
#[inline]
fn slot_of(key: &[u8]) -> usize {
    let len = key.len();
    let (first, last) = match (key.first_chunk(), key.last_chunk()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => (few_bytes(&key[..len.min(4)]), few_bytes(&key[len.saturating_sub(4)..])),
    };
    let mixed = (first ^ last.rotate_left(29) ^ len as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 48) as usize % SLOTS
}

/// A number of at most four bytes.
#[inline]
fn few_bytes(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(four) => u64::from(u32::from_le_bytes(*four)),
        None => bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)),
    }
}

/// What a reader uses again from one document to the next.
pub struct Tools {
    pub keys: KeyCache,
    /// How events of each kind begin, as wire dicts and as models.
    pub habits: Habits,
    /// The text of the string at hand, where it had escapes.
    pub scratch: Vec<u8>,
}

/// Tools that are not in use: as many as there were readers at the same time.
static SHELF: Mutex<Vec<Tools>> = Mutex::new(Vec::new());
/// A larger buffer is given back to the allocator after use.
const SCRATCH_LIMIT: usize = 1 << 20;

/// Runs `read` with tools of its own. No lock is held meanwhile, since making Python objects may
/// run the garbage collector, and so any code.
pub fn with_tools<T>(read: impl FnOnce(&mut Tools) -> T) -> T {
    let kept = SHELF.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let mut tools = kept.unwrap_or_else(|| Tools {
        keys: KeyCache::new(),
        habits: Habits::default(),
        scratch: Vec::new(),
    });
    let result = read(&mut tools);
    if tools.scratch.capacity() > SCRATCH_LIMIT {
        tools.scratch = Vec::new();
    }
    SHELF.lock().unwrap_or_else(PoisonError::into_inner).push(tools);
    result
}
