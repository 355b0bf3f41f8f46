//! JSON text straight to an instance of an SDK model, with no dict in between. What is not exactly
//! as the class declares is a surprise, and pydantic reads the document instead; a fault in the
//! JSON itself is found either way.

use pyo3::prelude::*;
use pyo3::types::PyString;

use super::locate;
use super::prefix_cache::{Prefix, is_id};
use super::reader::{Read, ReadError, Reader};
use crate::capi;
use crate::event::build::{Builder, accept};
use crate::event::{ClassInfo, EventType, FieldType, Form, registry};

/// What is known of the event class of this type, if it may be used now.
#[inline]
fn event_info(kind: EventType) -> Result<&'static ClassInfo, ReadError> {
    let info = registry().event(Some(kind)).filter(|info| info.tag.is_some());
    info.filter(|info| info.is_current()).ok_or(ReadError)
}

impl<'py> Reader<'_, 'py> {
    /// The event at hand as a model of its class.
    pub fn model_event(&mut self) -> Read<'py> {
        let Some((kind, end)) = self.leading_type() else {
            let name = self.tag(b"type").ok_or(ReadError)?;
            let kind = EventType::from_name(name).ok_or(ReadError)?;
            return self.model(event_info(kind)?);
        };
        let info = event_info(kind)?;
        self.enter()?;
        self.at = end;
        let rest = &self.bytes[end..];
        let mut builder;
        let mut fresh = false;
        if let Some(usual) = self.workspace.prefixes.matching(kind, Form::Model, rest) {
            builder = Builder::resume(info, usual.dict.bind(self.py), usual.given)?;
            let field = usual.field;
            self.at += usual.bytes.len();
            self.skip_space();
            let value = self.shaped(&info.fields[field].shape)?;
            builder.put(field, &value)?;
        } else {
            builder = Builder::new(self.py, info)?;
            builder.tag(info.tag.ok_or(ReadError)?)?;
            fresh = true;
        }
        let mut expected = 0;
        while self.another(b'}')? {
            let key = self.key()?;
            self.colon()?;
            if fresh && !(is_id(&key) && self.at_string()) {
                fresh = false;
                self.note_model_beginning(kind, end, &builder, &key);
            }
            self.field(&mut builder, info, &key, &mut expected)?;
        }
        Ok(builder.finish()?)
    }

    /// Considers what has been read up to the value of `key` for the cache.
    fn note_model_beginning(
        &mut self,
        kind: EventType,
        start: usize,
        builder: &Builder<'py>,
        key: &Bound<'py, PyString>,
    ) {
        let bytes = &self.bytes[start..self.at];
        if self.workspace.prefixes.is_repeated(kind, Form::Model, bytes)
            && let Some((field, _)) = builder.info.find_any(key, 0)
            && let Some((dict, given)) = builder.so_far()
        {
            let (bytes, key) = (bytes.to_vec(), key.clone().unbind());
            let prefix = Prefix { bytes, dict: dict.unbind(), key, field, given };
            self.workspace.prefixes.learn(kind, Form::Model, prefix);
        }
    }

    /// The text under `key` in the object at hand. It is usually the first entry or the second.
    #[inline]
    fn tag(&self, key: &[u8]) -> Option<&[u8]> {
        if self.peek() != Some(b'{') {
            return None;
        }
        locate::first_text(self.bytes, self.at, key)
    }

    /// The object at hand as an instance of the described class.
    fn model(&mut self, info: &'static ClassInfo) -> Read<'py> {
        let mut builder = Builder::new(self.py, info)?;
        let mut expected = 0;
        if self.open(b'}')? {
            loop {
                let key = self.key()?;
                self.colon()?;
                self.field(&mut builder, info, &key, &mut expected)?;
                if !self.another(b'}')? {
                    break;
                }
            }
        }
        Ok(builder.finish()?)
    }

    /// The value at hand, under this key of a model.
    #[inline]
    fn field(
        &mut self,
        builder: &mut Builder<'py>,
        info: &'static ClassInfo,
        key: &Bound<'py, PyString>,
        expected: &mut usize,
    ) -> Result<(), ReadError> {
        if let Some((at, _)) = info.find_any(key, *expected) {
            *expected = at + 1;
            let value = self.shaped(&info.fields[at].shape)?;
            builder.put(at, &value)?;
        } else {
            let value = self.value()?;
            builder.extra(key, &value)?;
        }
        Ok(())
    }

    /// The value at hand as a field of this shape takes it.
    fn shaped(&mut self, shape: &'static FieldType) -> Read<'py> {
        match (shape, self.peek()) {
            (FieldType::Str | FieldType::StrOrList(_), Some(b'"')) => self.string(),
            (FieldType::StrOrList(list), _) => self.shaped(list),
            (FieldType::Any, _)
            | (FieldType::Map, Some(b'{'))
            | (FieldType::Nullable(_), Some(b'n')) => self.value(),
            (FieldType::Nullable(inner), _) => self.shaped(inner),
            (FieldType::List { item, min }, Some(b'[')) => self.models(item, *min),
            (FieldType::Model(cell), Some(b'{')) => {
                let info = cell.info_for(cell.key).ok_or(ReadError)?;
                self.model(info)
            }
            (FieldType::Tagged { discriminator, choices }, Some(b'{')) => {
                let capi::Text::Ascii(key) = capi::text(discriminator.bind(self.py)) else {
                    return Err(ReadError);
                };
                let tag = self.tag(key).ok_or(ReadError)?;
                let choice = choices.iter().find(|(name, _)| name.as_bytes() == tag);
                let (_, cell) = choice.ok_or(ReadError)?;
                let info = cell.info_for(cell.key).ok_or(ReadError)?;
                self.model(info)
            }
            (FieldType::Literal(choices), Some(b'"')) => {
                let text = self.plain().ok_or(ReadError)?.text;
                let choice = choices.iter().find(|(choice, _)| choice.as_bytes() == text);
                Ok(choice.ok_or(ReadError)?.1.bind(self.py).clone())
            }
            (FieldType::Int(_) | FieldType::Bool | FieldType::JsonPointer, _) => {
                let value = self.value()?;
                Ok(accept(shape, &value)?.unwrap_or(value))
            }
            _ => Err(ReadError),
        }
    }

    fn models(&mut self, item: &'static FieldType, min: usize) -> Read<'py> {
        let list = self.list(|reader| reader.shaped(item))?;
        if list.len() < min { Err(ReadError) } else { Ok(list.into_any()) }
    }
}
