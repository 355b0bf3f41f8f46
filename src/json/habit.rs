//! How the events of a stream begin.
//!
//! The deltas of a message begin alike: with their type and the ids of what they belong to, up to
//! the delta itself. What comes before it is read once; where an event begins with the very same
//! bytes again, its entries are copied from the first, which also makes the ids one object.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::capi;
use crate::event::{EventType, Form};

/// A beginning: what stands behind the type, up to the value of some key, that key and its colon
/// included.
pub struct Beginning {
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

/// Of one kind of events, in one spelling.
#[derive(Default)]
struct Habit {
    beginning: Option<Beginning>,
    /// How the last event began that began otherwise.
    last: Vec<u8>,
}

/// How events began lately.
pub struct Habits {
    /// The kind of the last event.
    pub last: EventType,
    wire: Vec<Habit>,
    models: Vec<Habit>,
}

impl Default for Habits {
    fn default() -> Self {
        let habits = || EventType::ALL.iter().map(|_| Habit::default()).collect();
        Self { last: EventType::TextMessageContent, wire: habits(), models: habits() }
    }
}

impl Habits {
    /// A longer beginning is not worth keeping.
    const LONGEST: usize = 512;

    #[inline]
    fn of(&mut self, kind: EventType, spelling: Form) -> &mut Habit {
        match spelling {
            Form::Dict => &mut self.wire[kind as usize],
            Form::Model => &mut self.models[kind as usize],
        }
    }

    /// The usual beginning, if the text begins like it.
    #[inline]
    pub fn matching(&mut self, kind: EventType, spelling: Form, text: &[u8]) -> Option<&Beginning> {
        let beginning = self.of(kind, spelling).beginning.as_ref()?;
        text.starts_with(&beginning.bytes).then_some(beginning)
    }

    /// Whether a beginning should be learned: the one before was the same.
    #[inline]
    pub fn is_repeated(&mut self, kind: EventType, spelling: Form, bytes: &[u8]) -> bool {
        if bytes.len() > Self::LONGEST {
            return false;
        }
        let habit = self.of(kind, spelling);
        if habit.last == bytes {
            return true;
        }
        habit.last.clear();
        habit.last.extend_from_slice(bytes);
        false
    }

    #[cold]
    pub fn learn(&mut self, kind: EventType, spelling: Form, beginning: Beginning) {
        // What it replaces is dropped only now: that may run any code.
        let replaced = self.of(kind, spelling).beginning.replace(beginning);
        drop(replaced);
    }
}

/// Whether values under this key come again and again.
#[inline]
pub fn is_id(key: &Bound<'_, PyString>) -> bool {
    matches!(capi::text(key), capi::Text::Ascii(text) if text.ends_with(b"Id"))
}
