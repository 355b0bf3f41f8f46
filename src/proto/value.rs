//! Payloads out: any JSON value as `google.protobuf.Value`, an object as `Struct`.
//!
//! A `Value` is a message with one arm set, an object is a list of entries, each a message of a
//! key and a `Value`. The tags are all below 16 and so one byte each.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use super::encode::{Encoder, Gathered, SAFE_INTEGER, fault, loads};
use super::gather::{Gather, copy};
use super::schema::{Field, Label};
use super::text::{utf8_len, write_utf8};
use super::wire::{WireType, varint_len, write_varint};
use crate::capi::{self, Text};
use crate::errors::{Fault, Step};
use crate::json::{LoneSurrogate, Stop, official_value};

/// The tags of the arms of `Value`.
pub const NULL: u8 = 1 << 3;
pub const NUMBER: u8 = 2 << 3 | 1;
pub const STRING: u8 = 3 << 3 | 2;
pub const BOOL: u8 = 4 << 3;
pub const STRUCT: u8 = 5 << 3 | 2;
pub const LIST: u8 = 6 << 3 | 2;

/// The tags of an entry of a `Struct`, of its key and value, and of an item of a `ListValue`.
pub const ENTRY: u8 = 1 << 3 | 2;
pub const KEY: u8 = 1 << 3 | 2;
pub const VALUE: u8 = 2 << 3 | 2;
pub const ITEM: u8 = 1 << 3 | 2;

/// With names and texts up to these sizes, every length of an entry takes one byte.
const SHORT_KEY: usize = 32;
const SHORT_TEXT: usize = 80;
const _: () = assert!(2 + SHORT_KEY + 2 + 2 + SHORT_TEXT < 0x80);

/// A value whose size is known before it is gathered.
enum Scalar<'a> {
    Null,
    Bool(bool),
    Number(f64),
    Str(Utf8<'a>),
}

/// The text of a str and its size in UTF-8.
pub struct Utf8<'a> {
    text: Text<'a>,
    pub len: usize,
}

impl<'a> Utf8<'a> {
    #[inline]
    pub fn of(string: &'a Bound<'_, PyString>) -> Result<Self, LoneSurrogate> {
        match capi::text(string) {
            Text::Ascii(text) => Ok(Self { text: Text::Ascii(text), len: text.len() }),
            text => Self::wide(text),
        }
    }

    #[inline(never)]
    fn wide(text: Text<'a>) -> Result<Self, LoneSurrogate> {
        let len = match text {
            Text::Ascii(text) => text.len(),
            Text::Latin1(text) => utf8_len(text)?,
            Text::Ucs2(text) => utf8_len(text)?,
            Text::Ucs4(text) => utf8_len(text)?,
        };
        Ok(Self { text, len })
    }

    /// Writes the text into a place of its size.
    #[inline]
    pub fn write(&self, out: &mut [u8]) {
        match self.text {
            Text::Ascii(text) => copy(out, text),
            Text::Latin1(text) => write_utf8(out, text),
            Text::Ucs2(text) => write_utf8(out, text),
            Text::Ucs4(text) => write_utf8(out, text),
        }
    }
}

impl From<LoneSurrogate> for Stop {
    #[cold]
    fn from(LoneSurrogate: LoneSurrogate) -> Self {
        fault("half a surrogate pair is no text; UTF-8 cannot carry it")
    }
}

impl Scalar<'_> {
    /// The size of the `Value` that holds it.
    #[inline]
    fn len(&self) -> usize {
        match self {
            Self::Null | Self::Bool(_) => 2,
            Self::Number(_) => 9,
            Self::Str(text) => 1 + varint_len(text.len as u64) + text.len,
        }
    }

    /// Writes the `Value` into a place of its size.
    #[inline]
    fn write(&self, out: &mut [u8]) {
        match self {
            Self::Null => out.copy_from_slice(&[NULL, 0]),
            Self::Bool(value) => out.copy_from_slice(&[BOOL, u8::from(*value)]),
            Self::Number(value) => {
                out[0] = NUMBER;
                out[1..].copy_from_slice(&value.to_le_bytes());
            }
            Self::Str(text) => {
                out[0] = STRING;
                let (len, out) = out[1..].split_at_mut(varint_len(text.len as u64));
                write_varint(len, text.len as u64);
                text.write(out);
            }
        }
    }
}

/// What is no scalar.
enum Kind<'a, 'py> {
    Scalar(Scalar<'a>),
    Dict(&'a Bound<'py, PyDict>),
    List(&'a Bound<'py, PyList>),
    Tuple(&'a Bound<'py, PyTuple>),
    /// An int of which a double may not be able to carry the value.
    LargeInt(&'a Bound<'py, PyInt>),
    /// For JSON to say what it is.
    Other,
}

#[inline]
fn kind<'a, 'py>(value: &'a Bound<'py, PyAny>) -> Result<Kind<'a, 'py>, Stop> {
    Ok(if let Ok(string) = value.cast_exact::<PyString>() {
        Kind::Scalar(Scalar::Str(Utf8::of(string)?))
    } else if value.is_none() {
        Kind::Scalar(Scalar::Null)
    } else if let Ok(int) = value.cast_exact::<PyInt>() {
        match capi::int_as_i64(int) {
            Some(value) if value.unsigned_abs() <= SAFE_INTEGER.unsigned_abs() => {
                Kind::Scalar(Scalar::Number(value as f64))
            }
            _ => Kind::LargeInt(int),
        }
    } else if let Some(value) = capi::exact_bool(value) {
        Kind::Scalar(Scalar::Bool(value))
    } else if let Ok(float) = value.cast_exact::<PyFloat>() {
        let value = capi::float_value(float);
        // As in JSON.
        Kind::Scalar(if value.is_finite() { Scalar::Number(value) } else { Scalar::Null })
    } else if let Ok(dict) = value.cast_exact::<PyDict>() {
        Kind::Dict(dict)
    } else if let Ok(list) = value.cast_exact::<PyList>() {
        Kind::List(list)
    } else if let Ok(tuple) = value.cast_exact::<PyTuple>() {
        Kind::Tuple(tuple)
    } else {
        Kind::Other
    })
}

impl<'py> Encoder<'_, 'py> {
    /// A field that holds a str.
    #[inline]
    pub fn string(&mut self, field: &Field, value: &Bound<'py, PyAny>) -> Gathered {
        let Ok(string) = value.cast_exact::<PyString>() else { return self.unfit("a str", value) };
        let text = Utf8::of(string)?;
        if text.len == 0 && field.label == Label::Implicit {
            return Ok(());
        }
        self.out.header(field.number, text.len);
        text.write(self.out.room(text.len));
        Ok(())
    }

    /// A field that holds any JSON value. Where a null means absence, what turns out to be one is
    /// left out.
    #[inline]
    pub fn value_field(
        &mut self,
        field: &Field,
        value: &Bound<'py, PyAny>,
        optional: bool,
    ) -> Gathered {
        let point = self.out.point();
        self.out.tag(field.number, WireType::Len);
        let contents = self.out.point();
        self.value(value)?;
        if optional && self.out.is_since(&contents, &[2, NULL, 0]) {
            self.out.back_to(&point);
        }
        Ok(())
    }

    /// A field that holds a JSON object.
    pub fn struct_field(&mut self, field: &Field, value: &Bound<'py, PyAny>) -> Gathered {
        let Ok(dict) = value.cast_exact::<PyDict>() else { return self.unfit("an object", value) };
        self.out.tag(field.number, WireType::Len);
        let open = self.out.open();
        let (point, mark) = (self.out.point(), self.mark());
        if !self.entries(dict)? {
            self.out.back_to(&point);
            self.forget(mark);
            let plain = self.plain_value(value)?;
            self.entries(plain.cast_exact::<PyDict>().map_err(|_| Stop::Official)?)?;
        }
        self.out.close(open);
        Ok(())
    }

    /// A `Value` with its length, after its tag.
    fn value(&mut self, value: &Bound<'py, PyAny>) -> Gathered {
        match kind(value)? {
            Kind::Scalar(scalar) => {
                self.out.varint(scalar.len() as u64);
                scalar.write(self.out.room(scalar.len()));
                Ok(())
            }
            Kind::LargeInt(int) => {
                let scalar = self.large_int(int)?;
                self.out.varint(scalar.len() as u64);
                scalar.write(self.out.room(scalar.len()));
                Ok(())
            }
            Kind::Dict(dict) => {
                let (point, mark) = (self.out.point(), self.mark());
                let open = self.out.open_within(STRUCT);
                if self.entries(dict)? {
                    self.out.close(open);
                    return Ok(());
                }
                self.out.back_to(&point);
                self.forget(mark);
                let plain = self.plain_value(value)?;
                self.value(&plain)
            }
            Kind::List(list) => {
                let open = self.out.open_within(LIST);
                self.items(list)?;
                self.out.close(open);
                Ok(())
            }
            Kind::Tuple(tuple) => {
                let open = self.out.open_within(LIST);
                self.deeper(|encoder| {
                    let mut at = 0;
                    while let Some(item) = capi::tuple_item(tuple, at) {
                        if !encoder.usual_item(&item) {
                            encoder.item(&item, at)?;
                        }
                        at += 1;
                    }
                    Ok(())
                })?;
                self.out.close(open);
                Ok(())
            }
            Kind::Other => {
                let plain = self.plain_value(value)?;
                self.value(&plain)
            }
        }
    }

    /// The entries of a dict, in its own order. False at the first key that is no str: what was
    /// gathered is then of no use.
    fn entries(&mut self, dict: &Bound<'py, PyDict>) -> Result<bool, Stop> {
        // The dict may lose its other owners while Python code runs.
        let dict = dict.clone();
        let mut only_str_keys = true;
        self.deeper(|encoder| {
            capi::walk(&dict, |mut items| {
                while let Some((key, value)) = items.next() {
                    if key.read(|key| value.read(|value| encoder.usual_entry(key, value))) {
                        continue;
                    }
                    let (key, value) = (key.own(), value.own());
                    let Ok(key) = key.cast_exact::<PyString>() else {
                        only_str_keys = false;
                        return Ok(());
                    };
                    let mark = encoder.mark();
                    encoder.entry(key, &value).map_err(|stop| below(stop, key))?;
                    encoder.below(mark, || Step::Key(key.to_string_lossy().into_owned()));
                    if !items.unchanged() {
                        return Err(fault("the dict has changed while it was read"));
                    }
                }
                Ok(())
            })
        })?;
        Ok(only_str_keys)
    }

    /// An entry as nearly all are: a short name, and a number or a short text of ASCII. All its
    /// lengths take one byte. False, and nothing gathered, if it is not such a one.
    #[inline]
    fn usual_entry(&mut self, key: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>) -> bool {
        let Some(key) = capi::ascii(key) else { return false };
        if key.is_empty() || key.len() > SHORT_KEY {
            return false;
        }
        self.usual_value(value, |out, len| {
            let out = out.room(2 + 2 + key.len() + 2 + len);
            out[..4].copy_from_slice(&[ENTRY, (4 + key.len() + len) as u8, KEY, key.len() as u8]);
            let (text, out) = out[4..].split_at_mut(key.len());
            copy(text, key);
            out[..2].copy_from_slice(&[VALUE, len as u8]);
            &mut out[2..]
        })
    }

    /// A value as nearly all are. `place` is told its size and gives the place to write it to.
    #[inline]
    fn usual_value<'o>(
        &'o mut self,
        value: &Bound<'py, PyAny>,
        place: impl FnOnce(&'o mut Gather, usize) -> &'o mut [u8],
    ) -> bool {
        let number = if let Some(text) = capi::ascii(value) {
            if text.len() > SHORT_TEXT {
                return false;
            }
            let out = place(&mut self.out, 2 + text.len());
            out[..2].copy_from_slice(&[STRING, text.len() as u8]);
            copy(&mut out[2..], text);
            return true;
        } else if let Ok(float) = value.cast_exact::<PyFloat>() {
            capi::float_value(float)
        } else if let Ok(int) = value.cast_exact::<PyInt>() {
            match capi::int_as_i64(int) {
                Some(int) if int.unsigned_abs() <= SAFE_INTEGER.unsigned_abs() => int as f64,
                _ => return false,
            }
        } else {
            let scalar = match capi::exact_bool(value) {
                Some(value) => [BOOL, u8::from(value)],
                None if value.is_none() => [NULL, 0],
                None => return false,
            };
            place(&mut self.out, 2).copy_from_slice(&scalar);
            return true;
        };
        if number.is_finite() {
            let out = place(&mut self.out, 9);
            out[0] = NUMBER;
            out[1..].copy_from_slice(&number.to_le_bytes());
        }
        number.is_finite()
    }

    fn entry(&mut self, key: &Bound<'py, PyString>, value: &Bound<'py, PyAny>) -> Gathered {
        let key = Utf8::of(key)?;
        self.out.raw(&[ENTRY]);
        let entry = self.out.open();
        // An empty key is left out, as the other implementations of AG-UI do; it reads the same.
        if key.len > 0 {
            self.out.header(1, key.len);
            key.write(self.out.room(key.len));
        }
        self.out.raw(&[VALUE]);
        self.value(value)?;
        self.out.close(entry);
        Ok(())
    }

    fn items(&mut self, list: &Bound<'py, PyList>) -> Gathered {
        let list = list.clone();
        self.deeper(|encoder| {
            capi::walk_list(&list, |mut items| {
                let mut at = 0;
                while let Some(item) = items.next() {
                    if !item.read(|item| encoder.usual_item(item)) {
                        encoder.item(&item.own(), at)?;
                    }
                    at += 1;
                    if !items.unchanged() {
                        return Err(fault("the list has changed while it was read"));
                    }
                }
                Ok(())
            })
        })
    }

    /// An item as nearly all are. False, and nothing gathered, if it is not such a one.
    #[inline]
    fn usual_item(&mut self, value: &Bound<'py, PyAny>) -> bool {
        self.usual_value(value, |out, len| {
            let out = out.room(2 + len);
            out[..2].copy_from_slice(&[ITEM, len as u8]);
            &mut out[2..]
        })
    }

    fn item(&mut self, value: &Bound<'py, PyAny>, at: usize) -> Gathered {
        self.out.raw(&[ITEM]);
        let mark = self.mark();
        self.value(value).map_err(|stop| stop.inside(Step::Index(at)))?;
        self.below(mark, || Step::Index(at));
        Ok(())
    }

    /// An int that may be more than a double can carry exactly. Then it is what JavaScript reads from
    /// JSON: the nearest double, and beyond the range of doubles infinity, which is null.
    #[cold]
    fn large_int(&mut self, int: &Bound<'py, PyInt>) -> Result<Scalar<'static>, Stop> {
        match int.extract::<f64>() {
            Ok(double) => {
                if !int.as_any().eq(double).unwrap_or(false) {
                    self.inexact(int, "is sent as the nearest double")?;
                }
                Ok(Scalar::Number(double))
            }
            Err(_) => {
                self.inexact(int, "is beyond the range of a double; sent as null")?;
                Ok(Scalar::Null)
            }
        }
    }

    /// What JSON makes of a value that is not plain JSON: the text of a datetime, the object of a
    /// model.
    #[cold]
    fn plain_value(&self, value: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>, Stop> {
        let py = value.py();
        let json = official_value(value, self.options).map_err(|it| Stop::Fault(Box::new(it)))?;
        loads(py, json.as_bytes()).map_err(|error| {
            let reason =
                format!("the JSON of this value cannot be read back ({})", error.value(py));
            Stop::Fault(Box::new(Fault { cause: Some(error), ..Fault::new(reason) }))
        })
    }
}

#[cold]
fn below(stop: Stop, key: &Bound<'_, PyString>) -> Stop {
    stop.inside(Step::Key(key.to_string_lossy().into_owned()))
}
