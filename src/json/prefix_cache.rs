//! How the events of a stream begin, kept for the next event that begins likewise.
//!
//! The deltas of a message begin alike: with their type and the ids of what they belong to, up to
//! the delta itself. What comes before it is read once; where an event begins with the very same
//! bytes again, its entries are copied from the first, which also makes the ids one object.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::capi;
use crate::event::{EventType, Form};

/// How an event begins: what stands behind the type, up to the value of some key, that key and its colon
/// included.
pub struct Prefix {
    pub bytes: Vec<u8>,
    /// The entries, with that of the key to come, whose value is None. All others are strs: what
    /// could be changed must not be shared between events.
    pub dict: Py<PyDict>,
    /// The key, or the name of the field.
    pub key: Py<PyString>,
    /// Which field that is, and the fields that have been given.
    pub field: usize,
    pub given: u64,
}

/// Of one type of events, in one form.
#[derive(Default)]
struct Prefixes {
    prefix: Option<Prefix>,
    /// How the last event began that began otherwise.
    last: Vec<u8>,
}

/// How events began lately.
pub struct PrefixCache {
    /// The kind of the last event.
    pub last: EventType,
    wire: Vec<Prefixes>,
    models: Vec<Prefixes>,
}

impl Default for PrefixCache {
    fn default() -> Self {
        let prefixes = || EventType::ALL.iter().map(|_| Prefixes::default()).collect();
        Self { last: EventType::TextMessageContent, wire: prefixes(), models: prefixes() }
    }
}

impl PrefixCache {
    /// A longer prefix is not worth keeping.
    const LONGEST: usize = 512;

    #[inline]
    fn of(&mut self, kind: EventType, spelling: Form) -> &mut Prefixes {
        match spelling {
            Form::Dict => &mut self.wire[kind as usize],
            Form::Model => &mut self.models[kind as usize],
        }
    }

    /// The usual prefix, if the text begins like it.
    #[inline]
    pub fn matching(&mut self, kind: EventType, spelling: Form, text: &[u8]) -> Option<&Prefix> {
        let prefix = self.of(kind, spelling).prefix.as_ref()?;
        text.starts_with(&prefix.bytes).then_some(prefix)
    }

    /// Whether a prefix should be learned: the one before was the same.
    #[inline]
    pub fn is_repeated(&mut self, kind: EventType, spelling: Form, bytes: &[u8]) -> bool {
        if bytes.len() > Self::LONGEST {
            return false;
        }
        let prefixes = self.of(kind, spelling);
        if prefixes.last == bytes {
            return true;
        }
        prefixes.last.clear();
        prefixes.last.extend_from_slice(bytes);
        false
    }

    #[cold]
    pub fn learn(&mut self, kind: EventType, spelling: Form, prefix: Prefix) {
        // What it replaces is dropped only now: that may run any code.
        let replaced = self.of(kind, spelling).prefix.replace(prefix);
        drop(replaced);
    }
}

/// Whether values under this key come again and again.
#[inline]
pub fn is_id(key: &Bound<'_, PyString>) -> bool {
    matches!(capi::text(key), capi::Text::Ascii(text) if text.ends_with(b"Id"))
}
