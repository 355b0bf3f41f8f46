//! A first look at a wire dict, for what most events are: a few strings under the protocol's keys.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt};

use super::EventType;
use super::class_info::{Bounds, ClassInfo, Field, FieldType};
use super::registry::registry;
use crate::capi::{self, Lent};

/// What an event has, field by field. There is none for an event with a key that is not the interned
/// object of a described field: text has to be compared then, and a stage looks for itself.
#[derive(Clone, Copy)]
pub struct Presence {
    /// One bit for each field that is there.
    present: u64,
    /// Those of them that hold what they are declared to, as far as that is seen at once.
    sound: u64,
}

impl Presence {
    /// Whether the event is as the protocol describes it. False only means that one has to look.
    #[inline]
    pub fn is_clean(self, info: &ClassInfo) -> bool {
        self.present == self.sound && info.required & !self.present == 0
    }

    /// Whether the event has none but these fields, one bit each, and all of them are sound.
    #[inline]
    pub fn has_only(self, fields: u64) -> bool {
        self.present & !fields == 0 && self.present == self.sound
    }

    /// Whether the field with this index is there.
    #[inline]
    pub fn has(self, at: Option<usize>) -> bool {
        at.is_some_and(|at| self.present & (1 << at) != 0)
    }
}

/// What one walk over the entries of an event tells: the class that describes it, its type and which
/// fields it has. None unless it is a wire dict that begins with its type, as producers write it,
/// under the protocol's own keys.
///
/// `see` is given the value of the first field that not all events have: the id of what the event is
/// about, in most.
#[inline]
pub fn scan<'py>(
    dict: &Bound<'py, PyDict>,
    mut see: impl FnMut(Lent<'_, 'py>),
) -> Option<(&'static ClassInfo, EventType, Presence)> {
    let registry = registry();
    capi::walk(dict, |mut items| {
        let (key, value) = items.next()?;
        if !key.is(registry.type_key.bind(dict.py())) {
            return None;
        }
        let kind = value.read(|value| registry.interned_kind(value))?;
        let info = registry.event(Some(kind))?;
        let tag = 1 << info.tag?;
        let mut presence = Presence { present: tag, sound: tag };
        let mut expected = info.own;
        for (key, value) in items {
            let at = key.read(|key| info.find_interned(key, expected))?;
            if at == info.own {
                see(value);
            }
            expected = at + 1;
            let bit = 1 << at;
            presence.present |= bit;
            // Most fields of most events hold a str.
            let is_sound = if info.strs & bit != 0 {
                value.read(capi::is_exact_str)
            } else {
                value.read(|value| is_sound(&info.fields[at], value))
            };
            presence.sound |= if is_sound { bit } else { 0 };
        }
        Some((info, kind, presence))
    })
}

fn is_sound(field: &Field, value: &Bound<'_, PyAny>) -> bool {
    match &field.shape {
        FieldType::Nullable(inner) => match &**inner {
            FieldType::Int(Bounds::Between(low, high)) => match value.cast_exact::<PyInt>() {
                Ok(int) => capi::int_as_i64(int).is_some_and(|int| (*low..=*high).contains(&int)),
                Err(_) => false,
            },
            _ => false,
        },
        _ => false,
    }
}
