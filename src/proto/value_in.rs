//! Payloads in: `google.protobuf.Value` and `Struct` as plain Python values.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyList};

use super::decode::{Bad, Decoded, Decoder, too_deep};
use super::encode::SAFE_INTEGER;
use super::value::{BOOL, ENTRY, ITEM, KEY, LIST, NULL, NUMBER, STRING, STRUCT, VALUE};
use super::wire::{Reader, WireType};
use crate::capi;
use crate::errors::Step;
use crate::json::MAX_DEPTH;

/// The arm that is set of a `Value`. A later arm replaces it; the same one, if it is a message,
/// merges with it.
enum Arm<'a> {
    Unset,
    Null,
    Bool(bool),
    Number(f64),
    Str(&'a [u8]),
    Struct(Vec<&'a [u8]>),
    List(Vec<&'a [u8]>),
}

impl<'py> Decoder<'py> {
    /// The value inside an object at this depth. `None` where no arm is set.
    pub fn value(&mut self, bytes: &[u8], depth: u32) -> Decoded<Option<Bound<'py, PyAny>>> {
        // One arm and nothing else, as everyone writes it.
        match *bytes {
            [NUMBER, ref number @ ..] => {
                if let Ok(number) = number.try_into() {
                    return self.number(f64::from_le_bytes(number)).map(Some);
                }
            }
            [BOOL, value @ 0..=1] => return Ok(Some(self.boolean(value != 0))),
            [NULL, 0] => return Ok(Some(self.py.None().into_bound(self.py))),
            [STRING | STRUCT | LIST, ref rest @ ..] => {
                let mut reader = Reader::new(rest);
                let payload = match *rest {
                    [len @ 0..0x80, ref payload @ ..] if payload.len() == usize::from(len) => {
                        payload
                    }
                    _ => reader.payload()?,
                };
                if payload.len() + 1 == rest.len() || reader.is_empty() {
                    return match bytes[0] {
                        STRING => self.string(payload),
                        STRUCT => self.structure(payload, depth + 1),
                        _ => self.list(payload, depth + 1),
                    }
                    .map(Some);
                }
            }
            _ => {}
        }
        let arm = self.last_arm(bytes, depth)?;
        self.arm_value(arm, depth)
    }

    #[cold]
    fn last_arm<'a>(&mut self, bytes: &'a [u8], depth: u32) -> Decoded<Arm<'a>> {
        let mut arm = Arm::Unset;
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let next = match reader.tag()? {
                (1, WireType::Varint) => {
                    reader.varint()?;
                    Arm::Null
                }
                (2, WireType::Fixed64) => Arm::Number(f64::from_le_bytes(reader.fixed64()?)),
                (3, WireType::Len) => Arm::Str(reader.payload()?),
                (4, WireType::Varint) => Arm::Bool(reader.varint()? != 0),
                (5, WireType::Len) => Arm::Struct(vec![reader.payload()?]),
                (6, WireType::Len) => Arm::List(vec![reader.payload()?]),
                (number, wire_type) => {
                    reader.skip(number, wire_type)?;
                    continue;
                }
            };
            match (&mut arm, next) {
                (Arm::Struct(parts), Arm::Struct(more)) | (Arm::List(parts), Arm::List(more)) => {
                    parts.extend(more);
                }
                (_, next) => {
                    // What is replaced has to be well-formed all the same.
                    self.arm_value(std::mem::replace(&mut arm, next), depth)?;
                }
            }
        }
        Ok(arm)
    }

    #[cold]
    fn arm_value(&mut self, arm: Arm<'_>, depth: u32) -> Decoded<Option<Bound<'py, PyAny>>> {
        match arm {
            Arm::Unset => return Ok(None),
            Arm::Null => Ok(self.py.None().into_bound(self.py)),
            Arm::Bool(value) => Ok(self.boolean(value)),
            Arm::Number(value) => self.number(value),
            Arm::Str(text) => self.string(text),
            Arm::Struct(parts) => self.structure(&parts.concat(), depth + 1),
            Arm::List(parts) => self.list(&parts.concat(), depth + 1),
        }
        .map(Some)
    }

    fn boolean(&self, value: bool) -> Bound<'py, PyAny> {
        PyBool::new(self.py, value).to_owned().into_any()
    }

    /// JSON does not tell 1 from 1.0, and a double that is an integer was most likely sent as one.
    /// Past 2^53-1 it may stand for several integers and stays a float; so does -0.0, which no int
    /// is. What is no number is null, as in JSON.
    #[inline]
    fn number(&self, value: f64) -> Decoded<Bound<'py, PyAny>> {
        let int = value as i64;
        let same = (int as f64).to_bits() == value.to_bits();
        if same && int.unsigned_abs() <= SAFE_INTEGER.unsigned_abs() {
            return Ok(int.into_pyobject(self.py).map_err(PyErr::from)?.into_any());
        }
        if value.is_finite() {
            return Ok(PyFloat::new(self.py, value).into_any());
        }
        Ok(self.py.None().into_bound(self.py))
    }

    /// A `Struct`: an object at this depth.
    pub fn structure(&mut self, bytes: &[u8], depth: u32) -> Decoded<Bound<'py, PyAny>> {
        if depth > MAX_DEPTH {
            return Err(too_deep(bytes));
        }
        let dict = PyDict::new(self.py);
        let mut reader = Reader::new(bytes);
        loop {
            // As nearly all entries are: all lengths of one byte, a short name, a scalar.
            while let Some(entry) = reader.short_payload(ENTRY) {
                let mut parts = Reader::new(entry);
                if let Some(key) = parts.short_payload(KEY)
                    && let Some(value) = parts.short_payload(VALUE)
                    && parts.is_empty()
                    && let Some(value) = self.scalar(value)?
                    && key.is_ascii()
                {
                    dict.set_item(self.keys.get(self.py, key)?, value)?;
                } else {
                    self.entry(entry, &dict, depth)?;
                }
            }
            if reader.is_empty() {
                return Ok(dict.into_any());
            }
            match reader.tag()? {
                (1, WireType::Len) => self.entry(reader.payload()?, &dict, depth)?,
                (number, wire_type) => reader.skip(number, wire_type)?,
            }
        }
    }

    /// A scalar alone, a text if it is short and ASCII; `None` if it is something else.
    #[inline]
    fn scalar(&self, bytes: &[u8]) -> Decoded<Option<Bound<'py, PyAny>>> {
        match bytes {
            [NUMBER, number @ ..] => match number.try_into() {
                Ok(number) => self.number(f64::from_le_bytes(number)).map(Some),
                Err(_) => Ok(None),
            },
            [STRING, len @ 0..0x80, text @ ..]
                if text.len() == usize::from(*len) && text.is_ascii() =>
            {
                Ok(Some(capi::ascii_str(self.py, text)?))
            }
            [BOOL, value @ 0..=1] => Ok(Some(self.boolean(*value != 0))),
            [NULL, 0] => Ok(Some(self.py.None().into_bound(self.py))),
            _ => Ok(None),
        }
    }

    /// An entry of an object. One without a value is none.
    fn entry(&mut self, bytes: &[u8], dict: &Bound<'py, PyDict>, depth: u32) -> Decoded<()> {
        let (key, value) = match key_and_value(bytes) {
            Some((key, value)) => (key, self.value(value, depth)),
            None => self.unusual_entry(bytes, depth)?,
        };
        let inside = |bad: Box<Bad>| bad.inside(Step::Key(String::from_utf8_lossy(key).into()));
        let Some(value) = value.map_err(inside)? else { return Ok(()) };
        let key = if key.is_ascii() { self.keys.get(self.py, key)? } else { self.string(key)? };
        dict.set_item(key, value)?;
        Ok(())
    }

    /// Key and value, in any order and number.
    #[cold]
    #[allow(clippy::type_complexity)]
    fn unusual_entry<'a>(
        &mut self,
        bytes: &'a [u8],
        depth: u32,
    ) -> Decoded<(&'a [u8], Decoded<Option<Bound<'py, PyAny>>>)> {
        let mut key: &[u8] = &[];
        let mut values = Vec::new();
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            match reader.tag()? {
                (1, WireType::Len) => {
                    self.string(key)?;
                    key = reader.payload()?;
                }
                (2, WireType::Len) => values.push(reader.payload()?),
                (number, wire_type) => reader.skip(number, wire_type)?,
            }
        }
        self.string(key)?;
        Ok((key, if values.is_empty() { Ok(None) } else { self.value(&values.concat(), depth) }))
    }

    /// A `ListValue`: an array at this depth.
    fn list(&mut self, bytes: &[u8], depth: u32) -> Decoded<Bound<'py, PyAny>> {
        if depth > MAX_DEPTH {
            return Err(too_deep(bytes));
        }
        let list = PyList::empty(self.py);
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let item = match reader.short_payload(ITEM) {
                Some(item) => item,
                None => match reader.tag()? {
                    (1, WireType::Len) => reader.payload()?,
                    (number, wire_type) => {
                        reader.skip(number, wire_type)?;
                        continue;
                    }
                },
            };
            let value = match self.scalar(item)? {
                None => self.value(item, depth),
                scalar => Ok(scalar),
            };
            match value.map_err(|bad| bad.inside(Step::Index(list.len())))? {
                Some(value) => list.append(value)?,
                None => list.append(self.py.None())?,
            }
        }
        Ok(list.into_any())
    }
}

/// Key and value of an entry as everyone writes it: each once, the key first, if it is not empty.
fn key_and_value(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut reader = Reader::new(bytes);
    let mut key: &[u8] = &[];
    if bytes.first() == Some(&KEY) {
        reader.tag().ok()?;
        key = reader.payload().ok()?;
    }
    match reader.tag().ok()? {
        (2, WireType::Len) => {}
        _ => return None,
    }
    let value = reader.payload().ok()?;
    reader.is_empty().then_some((key, value))
}
