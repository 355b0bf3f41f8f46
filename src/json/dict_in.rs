//! JSON text to an event as a wire dict.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::prefix_cache::{Prefix, is_id};
use super::reader::{Read, ReadError, Reader, TypeField};
use crate::event::{EventType, Form, registry};

/// How an event begins that may have to be learned: its type, and where its type ends.
pub type Fresh = Option<(EventType, usize)>;

impl<'py> Reader<'_, 'py> {
    /// The event at hand as a wire dict, if it is one. Any other value is read, too.
    pub fn wire_event(&mut self) -> Read<'py> {
        if self.peek() != Some(b'{') {
            return self.value();
        }
        let (dict, mut fresh) = match self.leading_type() {
            Some((kind, end)) => {
                self.enter()?;
                self.at = end;
                self.event_type = TypeField::Known(kind);
                self.usual_dict(kind)?
            }
            None => {
                let dict = PyDict::new(self.py);
                if !self.open(b'}')? {
                    return Ok(dict.into_any());
                }
                let key = self.key()?;
                self.wire_entry(&dict, &key, &mut None)?;
                (dict, None)
            }
        };
        while self.another(b'}')? {
            let key = self.key()?;
            self.wire_entry(&dict, &key, &mut fresh)?;
        }
        Ok(dict.into_any())
    }

    /// What follows a key: the colon and the value.
    #[inline]
    fn wire_entry(
        &mut self,
        dict: &Bound<'py, PyDict>,
        key: &Bound<'py, PyString>,
        fresh: &mut Fresh,
    ) -> Result<(), ReadError> {
        self.colon()?;
        let is_type = key.is(&registry().type_key);
        if let Some((kind, start)) = *fresh
            && !(is_id(key) && self.at_string())
        {
            *fresh = None;
            if !is_type {
                self.note_prefix(kind, start, dict, key)?;
            }
        }
        let value = if is_type { self.type_value()? } else { self.value()? };
        dict.set_item(key, value).map_err(|error| self.python(error))
    }

    /// A dict with what the event begins with, when the type has been passed.
    #[inline]
    fn usual_dict(&mut self, kind: EventType) -> Result<(Bound<'py, PyDict>, Fresh), ReadError> {
        let py = self.py;
        let rest = &self.bytes[self.at..];
        if let Some(usual) = self.workspace.prefixes.matching(kind, Form::Dict, rest) {
            let key = usual.key.bind(py).clone();
            let dict = usual.dict.bind(py).copy();
            self.at += usual.bytes.len();
            let dict = dict.map_err(|error| self.python(error))?;
            self.skip_space();
            let value = self.value()?;
            dict.set_item(&key, &value).map_err(|error| self.python(error))?;
            return Ok((dict, None));
        }
        let dict = PyDict::new(py);
        let registry = registry();
        let set = dict.set_item(&registry.type_key, registry.kind_name(py, kind));
        set.map_err(|error| self.python(error))?;
        Ok((dict, Some((kind, self.at))))
    }

    /// Considers what has been read up to the value of `key` for the cache.
    fn note_prefix(
        &mut self,
        kind: EventType,
        start: usize,
        dict: &Bound<'py, PyDict>,
        key: &Bound<'py, PyString>,
    ) -> Result<(), ReadError> {
        let bytes = &self.bytes[start..self.at];
        if self.workspace.prefixes.is_repeated(kind, Form::Dict, bytes) {
            let copy = dict.copy().and_then(|copy| {
                copy.set_item(key, self.py.None())?;
                Ok(copy.unbind())
            });
            let dict = copy.map_err(|error| self.python(error))?;
            let (bytes, key) = (bytes.to_vec(), key.clone().unbind());
            let prefix = Prefix { bytes, dict, key, field: 0, given: 0 };
            self.workspace.prefixes.learn(kind, Form::Dict, prefix);
        }
        Ok(())
    }

    /// The kind of the event at hand and where its type ends, if it begins with that, as nearly all
    /// do.
    #[inline]
    pub fn leading_type(&mut self) -> Option<(EventType, usize)> {
        let rest = self.bytes[self.at..].strip_prefix(b"{\"type\":")?;
        let rest = rest.strip_prefix(b" ").unwrap_or(rest).strip_prefix(b"\"")?;
        let start = self.bytes.len() - rest.len();
        let last = self.workspace.prefixes.last;
        let kind = if begins_with_name(rest, last) {
            last
        } else {
            let end = memchr::memchr(b'"', rest)?;
            EventType::from_name(&rest[..end])?
        };
        self.workspace.prefixes.last = kind;
        Some((kind, start + kind.name().len() + 1))
    }

    /// The value of an event's `type`.
    fn type_value(&mut self) -> Read<'py> {
        let value = self.value()?;
        let Some(kind) = registry().kind(&value) else {
            let is_str = value.is_instance_of::<PyString>();
            self.event_type = if is_str { TypeField::Unknown } else { TypeField::NotAString };
            return Ok(value);
        };
        self.event_type = TypeField::Known(kind);
        // The shared object instead of one like it.
        Ok(registry().kind_name(self.py, kind).clone().into_any())
    }
}

/// Whether the text is the name of this kind, and the quote behind it.
#[inline]
fn begins_with_name(text: &[u8], kind: EventType) -> bool {
    matches!(text.strip_prefix(kind.name().as_bytes()), Some([b'"', ..]))
}
