//! Payloads out: any JSON value as `google.protobuf.Value`, an object as `Struct`.
//!
//! A `Value` is a message with one arm set, an object is a list of entries, each a message of a
//! key and a `Value`. The tags are all below 16 and so one byte each.

use pyo3::prelude::*;
use pyo3::sync::critical_section::with_critical_section;
use pyo3::types::{PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use super::encode::{Encoder, Gathered, SAFE_INTEGER, fault, loads};
use super::schema::Field;
use super::text::{push_utf8, utf8_len};
use super::wire::{WireType, push_varint, varint_len};
use crate::capi::{self, DictIter, Text};
use crate::errors::{Fault, Step};
use crate::json::{Stop, official_value};

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

/// A value whose size is known before it is gathered.
enum Scalar<'a> {
    Null,
    Bool(bool),
    Number(f64),
    Str(Utf8<'a>),
}

/// The text of a str and its size in UTF-8.
struct Utf8<'a> {
    text: Text<'a>,
    len: usize,
}

impl<'a> Utf8<'a> {
    #[inline]
    fn of(string: &'a Bound<'_, PyString>) -> Self {
        let text = capi::text(string);
        let len = match text {
            Text::Ascii(text) => text.len(),
            Text::Latin1(text) => utf8_len(text),
            Text::Ucs2(text) => utf8_len(text),
            Text::Ucs4(text) => utf8_len(text),
        };
        Self { text, len }
    }

    /// Appends the text with its length in front.
    #[inline]
    fn push(&self, out: &mut Vec<u8>) -> Gathered {
        push_varint(out, self.len as u64);
        let pushed = match self.text {
            Text::Ascii(text) => {
                out.extend_from_slice(text);
                Ok(())
            }
            Text::Latin1(text) => push_utf8(out, text),
            Text::Ucs2(text) => push_utf8(out, text),
            Text::Ucs4(text) => push_utf8(out, text),
        };
        pushed.map_err(|_| fault("half a surrogate pair is no text; UTF-8 cannot carry it"))
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

    #[inline]
    fn push(&self, out: &mut Vec<u8>) -> Gathered {
        match self {
            Self::Null => out.extend_from_slice(&[NULL, 0]),
            Self::Bool(value) => out.extend_from_slice(&[BOOL, u8::from(*value)]),
            Self::Number(value) => {
                out.push(NUMBER);
                out.extend_from_slice(&value.to_le_bytes());
            }
            Self::Str(text) => {
                out.push(STRING);
                text.push(out)?;
            }
        }
        Ok(())
    }
}

/// What is no scalar.
enum Kind<'a, 'py> {
    Scalar(Scalar<'a>),
    Dict(&'a Bound<'py, PyDict>),
    List(&'a Bound<'py, PyList>),
    Tuple(&'a Bound<'py, PyTuple>),
    /// For JSON to say what it is.
    Other,
}

#[inline]
fn kind<'a, 'py>(value: &'a Bound<'py, PyAny>) -> Result<Kind<'a, 'py>, Stop> {
    Ok(if let Ok(string) = value.cast_exact::<PyString>() {
        Kind::Scalar(Scalar::Str(Utf8::of(string)))
    } else if value.is_none() {
        Kind::Scalar(Scalar::Null)
    } else if let Ok(int) = value.cast_exact::<PyInt>() {
        Kind::Scalar(Scalar::Number(double(int)?))
    } else if capi::is_exact_bool(value) {
        Kind::Scalar(Scalar::Bool(value.is_truthy().unwrap_or(false)))
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

/// An int as a double, if a double can carry it.
#[inline]
fn double(int: &Bound<'_, PyInt>) -> Result<f64, Stop> {
    match capi::int_as_i64(int) {
        Some(value) if value.unsigned_abs() <= SAFE_INTEGER.unsigned_abs() => Ok(value as f64),
        _ => large_double(int),
    }
}

#[cold]
fn large_double(int: &Bound<'_, PyInt>) -> Result<f64, Stop> {
    match int.extract::<f64>() {
        Ok(double) if int.as_any().eq(double).unwrap_or(false) => Ok(double),
        _ => {
            let digits = int.str().map_or_else(|_| "an integer".into(), |it| it.to_string());
            Err(fault(format!("{digits} cannot be carried exactly by a double; send it as text")))
        }
    }
}

impl<'py> Encoder<'_, 'py> {
    /// A str, after its tag.
    #[inline]
    pub fn text(&mut self, string: &Bound<'py, PyString>) -> Gathered {
        Utf8::of(string).push(self.out.contents())
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
        let open = self.out.open();
        self.value(value)?;
        self.out.close(open);
        if optional && self.out.is_since(&contents, &[NULL, 0]) {
            self.out.back_to(&point);
        }
        Ok(())
    }

    /// A field that holds a JSON object.
    pub fn struct_field(&mut self, field: &Field, value: &Bound<'py, PyAny>) -> Gathered {
        let Ok(dict) = value.cast_exact::<PyDict>() else { return self.unfit("an object", value) };
        self.out.tag(field.number, WireType::Len);
        let open = self.out.open();
        let point = self.out.point();
        if !self.entries(dict)? {
            self.out.back_to(&point);
            let plain = self.plain_value(value)?;
            self.entries(plain.cast_exact::<PyDict>().map_err(|_| Stop::Official)?)?;
        }
        self.out.close(open);
        Ok(())
    }

    /// The contents of a `Value`.
    fn value(&mut self, value: &Bound<'py, PyAny>) -> Gathered {
        match kind(value)? {
            Kind::Scalar(scalar) => scalar.push(self.out.contents()),
            Kind::Dict(dict) => {
                let point = self.out.point();
                self.out.raw(&[STRUCT]);
                let open = self.out.open();
                if self.entries(dict)? {
                    self.out.close(open);
                    return Ok(());
                }
                self.out.back_to(&point);
                let plain = self.plain_value(value)?;
                self.value(&plain)
            }
            Kind::List(list) => {
                self.out.raw(&[LIST]);
                let open = self.out.open();
                self.items(list)?;
                self.out.close(open);
                Ok(())
            }
            Kind::Tuple(tuple) => {
                self.out.raw(&[LIST]);
                let open = self.out.open();
                self.deeper(|encoder| {
                    let mut at = 0;
                    while let Some(item) = capi::tuple_item(tuple, at) {
                        encoder.item(&item.to_owned(), at)?;
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
            with_critical_section(&dict, || {
                let mut items = DictIter::new(&dict);
                while let Some((key, value)) = items.next() {
                    let Ok(key) = key.cast_exact::<PyString>() else {
                        only_str_keys = false;
                        return Ok(());
                    };
                    if let Kind::Scalar(scalar) = kind(&value).map_err(|stop| below(stop, &key))? {
                        encoder.scalar_entry(&key, &scalar).map_err(|stop| below(stop, &key))?;
                        continue;
                    }
                    let (key, value) = (key.to_owned(), value.to_owned());
                    encoder.entry(&key, &value).map_err(|stop| below(stop, &key))?;
                    if !items.unchanged() {
                        return Err(fault("the dict has changed while it was read"));
                    }
                }
                Ok(())
            })
        })?;
        Ok(only_str_keys)
    }

    #[inline]
    fn scalar_entry(&mut self, key: &Bound<'py, PyString>, scalar: &Scalar<'_>) -> Gathered {
        let key = Utf8::of(key);
        let value_len = scalar.len();
        let key_len = match key.len {
            // As the other implementations of AG-UI have it; it reads the same.
            0 => 0,
            len => 1 + varint_len(len as u64) + len,
        };
        let out = self.out.contents();
        out.push(ENTRY);
        push_varint(out, (key_len + 1 + varint_len(value_len as u64) + value_len) as u64);
        if key.len > 0 {
            out.push(KEY);
            key.push(out)?;
        }
        out.push(VALUE);
        push_varint(out, value_len as u64);
        scalar.push(out)
    }

    fn entry(&mut self, key: &Bound<'py, PyString>, value: &Bound<'py, PyAny>) -> Gathered {
        self.out.raw(&[ENTRY]);
        let entry = self.out.open();
        let key = Utf8::of(key);
        if key.len > 0 {
            self.out.raw(&[KEY]);
            key.push(self.out.contents())?;
        }
        self.out.raw(&[VALUE]);
        let open = self.out.open();
        self.value(value)?;
        self.out.close(open);
        self.out.close(entry);
        Ok(())
    }

    fn items(&mut self, list: &Bound<'py, PyList>) -> Gathered {
        let list = list.clone();
        self.deeper(|encoder| {
            with_critical_section(&list, || {
                let len = list.len();
                let mut at = 0;
                while let Some(item) = capi::list_item(&list, at) {
                    encoder.item(&item.to_owned(), at)?;
                    at += 1;
                    if list.len() != len {
                        return Err(fault("the list has changed while it was read"));
                    }
                }
                Ok(())
            })
        })
    }

    #[inline]
    fn item(&mut self, value: &Bound<'py, PyAny>, at: usize) -> Gathered {
        let inside = |stop: Stop| stop.inside(Step::Index(at));
        self.out.raw(&[ITEM]);
        if let Kind::Scalar(scalar) = kind(value).map_err(inside)? {
            let out = self.out.contents();
            push_varint(out, scalar.len() as u64);
            return scalar.push(out).map_err(inside);
        }
        let open = self.out.open();
        self.value(value).map_err(inside)?;
        self.out.close(open);
        Ok(())
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
