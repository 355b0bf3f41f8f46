//! Payloads in: `google.protobuf.Value` and `Struct` as plain Python values.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat};

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
        // One arm and nothing else, with a length of one byte, as nearly all are.
        let value = match *bytes {
            [NUMBER, ref number @ ..] if number.len() == 8 => {
                self.number(f64::from_le_bytes(Reader::new(number).fixed64()?))
            }
            [arm @ (STRING | STRUCT | LIST), len @ 0..0x80, ref payload @ ..]
                if payload.len() == usize::from(len) =>
            {
                self.payload(arm, payload, depth)
            }
            [BOOL, value @ 0..=1] => Ok(self.boolean(value != 0)),
            [NULL, 0] => Ok(self.py.None().into_bound(self.py)),
            _ => return self.long_value(bytes, depth),
        };
        value.map(Some)
    }

    #[inline]
    fn payload(&mut self, arm: u8, payload: &[u8], depth: u32) -> Decoded<Bound<'py, PyAny>> {
        match arm {
            STRING => self.string(payload),
            STRUCT => self.structure(payload, depth + 1),
            _ => self.list(payload, depth + 1),
        }
    }

    #[inline(never)]
    fn long_value(&mut self, bytes: &[u8], depth: u32) -> Decoded<Option<Bound<'py, PyAny>>> {
        if let [arm @ (STRING | STRUCT | LIST), ref rest @ ..] = *bytes {
            let mut reader = Reader::new(rest);
            let payload = reader.payload()?;
            if reader.is_empty() {
                return self.payload(arm, payload, depth).map(Some);
            }
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
            let joined;
            let (key, value) = match reader.short_entry(ENTRY, KEY, VALUE) {
                Some(entry) => entry,
                None if reader.is_empty() => return Ok(dict.into_any()),
                None => match reader.tag()? {
                    (1, WireType::Len) => {
                        let entry = reader.payload()?;
                        match key_and_value(entry) {
                            Some(entry) => entry,
                            None => match self.unusual_entry(entry)? {
                                Some((key, value)) => {
                                    joined = value;
                                    (key, &joined[..])
                                }
                                None => continue,
                            },
                        }
                    }
                    (number, wire_type) => {
                        reader.skip(number, wire_type)?;
                        continue;
                    }
                },
            };
            let value = self.value(value, depth).map_err(|bad| inside(key, bad))?;
            // An entry without a value is none.
            let Some(value) = value else { continue };
            let key = self.name(key)?;
            dict.set_item(&key, &value)?;
        }
    }

    /// Key and value of an entry, in any order and number. `None` without a value.
    #[cold]
    fn unusual_entry<'a>(&self, bytes: &'a [u8]) -> Decoded<Option<(&'a [u8], Vec<u8>)>> {
        let mut key: &[u8] = &[];
        let mut values = Vec::new();
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            match reader.tag()? {
                (1, WireType::Len) => {
                    // What is replaced has to be well-formed all the same.
                    self.string(key)?;
                    key = reader.payload()?;
                }
                (2, WireType::Len) => values.push(reader.payload()?),
                (number, wire_type) => reader.skip(number, wire_type)?,
            }
        }
        self.string(key)?;
        Ok((!values.is_empty()).then(|| (key, values.concat())))
    }

    /// A `ListValue`: an array at this depth.
    fn list(&mut self, bytes: &[u8], depth: u32) -> Decoded<Bound<'py, PyAny>> {
        if depth > MAX_DEPTH {
            return Err(too_deep(bytes));
        }
        let first = self.items.len();
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
            let value = self.value(item, depth);
            let at = self.items.len();
            let value = value.map_err(|bad| bad.inside(Step::Index(at - first)))?;
            self.items.push(value.unwrap_or_else(|| self.py.None().into_bound(self.py)));
        }
        Ok(capi::list_from(self.py, &mut self.items, first)?.into_any())
    }
}

#[cold]
fn inside(key: &[u8], bad: Box<Bad>) -> Box<Bad> {
    bad.inside(Step::Key(String::from_utf8_lossy(key).into()))
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
