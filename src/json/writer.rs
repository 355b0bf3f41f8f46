//! The writer: what this crate knows exactly becomes bytes; at the first surprise it stops, and
//! the caller hands the whole to pydantic.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::collections::HashSet;

use super::{escape, number};
use crate::capi::{self, Lent, Text};
use crate::errors::{Fault, Step};
use crate::event::{ClassInfo, Entry, Field, FieldType, Registry, Unsupported, View, registry};

/// How deep objects and arrays may nest, the event itself being the first level. It is where
/// pydantic's serializer ends (254 levels in every version since 2.11), so that a document that
/// can be written can be read back.
pub const MAX_DEPTH: u32 = 254;

/// Why writing stopped.
#[derive(Debug)]
pub enum Stop {
    /// Something that only pydantic knows how to write, or to refuse.
    Official,
    /// More than [`MAX_DEPTH`] levels.
    TooDeep,
    Fault(Box<Fault>),
}

pub type Written = Result<(), Stop>;

impl From<Unsupported> for Stop {
    fn from(Unsupported: Unsupported) -> Self {
        Self::Official
    }
}

/// JSON in the making.
pub struct Writer {
    pub bytes: Vec<u8>,
    /// Nothing but ASCII has been written. (The reverse need not hold.)
    pub ascii: bool,
    pub depth: u32,
    /// Leave out the `rawEvent` of the event, whose level is the first.
    pub drop_raw_event: bool,
    registry: &'static Registry,
}

impl Writer {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, ascii: true, depth: 0, drop_raw_event: false, registry: registry() }
    }

    /// One level deeper. Whoever comes back from there takes it off `depth` again.
    #[inline]
    pub fn descend(&mut self) -> Written {
        if self.depth == MAX_DEPTH {
            return Err(Stop::TooDeep);
        }
        self.depth += 1;
        Ok(())
    }

    /// One level deeper, `write`, and back.
    #[inline]
    fn nested(&mut self, write: impl FnOnce(&mut Self) -> Written) -> Written {
        self.descend()?;
        write(self)?;
        self.depth -= 1;
        Ok(())
    }

    /// The first byte of what was written since `start` is the comma of a first entry. Makes it
    /// the opening bracket, and closes.
    #[inline]
    pub fn close(&mut self, start: usize, [open, close]: [u8; 2]) {
        match self.bytes.get_mut(start) {
            Some(comma) => *comma = open,
            None => self.bytes.push(open),
        }
        self.bytes.push(close);
    }

    /// A model that is an instance of exactly the described class.
    pub fn model(&mut self, model: &Bound<'_, PyAny>, info: &'static ClassInfo) -> Written {
        let view = View::of_model(model, info)?;
        let start = self.bytes.len();
        self.nested(|writer| {
            let dropped = writer.dropped(info);
            view.entries(|entry| match entry {
                Entry::Field(at, ..) if dropped == Some(at) => Ok(()),
                Entry::Field(_, field, value) => writer.field(field, value),
                Entry::Extra(key, value) => {
                    writer.entry_key(&capi::text(key))?;
                    writer.value(value)
                }
            })
        })?;
        self.close(start, *b"{}");
        Ok(())
    }

    /// The index of the field that is to be left out of this object.
    #[inline]
    pub fn dropped(&self, info: &ClassInfo) -> Option<usize> {
        if self.drop_raw_event && self.depth == 1 { info.raw_event } else { None }
    }

    /// A declared field of a model, with its key. The value is not None where that means absence.
    #[inline]
    fn field(&mut self, field: &'static Field, value: &Bound<'_, PyAny>) -> Written {
        if let Some(constant) = &field.constant {
            if !is_constant(field, value) {
                return Err(Stop::Official);
            }
            escape::push_fragment(&mut self.bytes, constant);
            return Ok(());
        }
        let start = self.bytes.len();
        escape::push_fragment(&mut self.bytes, &field.prefix);
        if let FieldType::Str = field.shape
            && let Some(text) = capi::ascii(value)
        {
            escape::push_string(&mut self.bytes, text);
            return Ok(());
        }
        self.shape(&field.shape, value)?;
        self.omit_null(start, field);
        Ok(())
    }

    /// Takes back an optional field, written since `start`, whose value has become null (a NaN, a
    /// member of an enum with the value None): pydantic takes that for absence, as it does None.
    #[inline]
    pub fn omit_null(&mut self, start: usize, field: &Field) {
        if field.omit_none && &self.bytes[start + field.prefix.len..] == b"null" {
            self.bytes.truncate(start);
        }
    }

    /// A value where a shape is declared: exactly that, or pydantic decides.
    fn shape(&mut self, shape: &'static FieldType, value: &Bound<'_, PyAny>) -> Written {
        let fits = match shape {
            FieldType::Str | FieldType::JsonPointer => match capi::exact_text(value) {
                Some(text) => return self.text(&text),
                None => false,
            },
            FieldType::Any => return self.value(value),
            FieldType::Nullable(inner) => {
                if value.is_none() {
                    self.bytes.extend_from_slice(b"null");
                    return Ok(());
                }
                return self.shape(inner, value);
            }
            FieldType::Int(_) => capi::is_exact_int(value),
            FieldType::Bool => capi::is_exact_bool(value),
            FieldType::Map => capi::is_exact_dict(value) && has_str_keys(value),
            FieldType::Literal(choices) => {
                capi::is_exact_str(value) && choices.iter().any(|(text, _)| same_text(value, text))
            }
            FieldType::Model(cell) => match cell.info_for(capi::type_key(value)) {
                Some(info) => return self.model(value, info),
                None => false,
            },
            FieldType::Tagged { choices, .. } => {
                let key = capi::type_key(value);
                match choices.iter().find_map(|(_, cell)| cell.info_for(key)) {
                    Some(info) => return self.model(value, info),
                    None => false,
                }
            }
            FieldType::List { item, .. } => match value.cast_exact::<PyList>() {
                Ok(list) => {
                    return self.list(list, |writer, value| writer.shape(item, &value.own()));
                }
                Err(_) => false,
            },
            FieldType::StrOrList(list) => match capi::exact_text(value) {
                Some(text) => return self.text(&text),
                None => return self.shape(list, value),
            },
            FieldType::Unknown => false,
        };
        if fits { self.value(value) } else { Err(Stop::Official) }
    }

    /// A value with no declared shape, by what it is.
    #[inline]
    pub fn value(&mut self, value: &Bound<'_, PyAny>) -> Written {
        if self.leaf(value) { Ok(()) } else { self.compound(value) }
    }

    /// A value that a container lends: Python code that runs while it is written may drop it.
    #[inline]
    fn lent(&mut self, value: Lent<'_, '_>) -> Written {
        if value.read(|value| self.leaf(value)) { Ok(()) } else { self.compound(&value.own()) }
    }

    /// Writes a value of which this needs no reference, since no Python code runs meanwhile. The
    /// answer is false if it is none of these, and then nothing is written.
    #[inline]
    fn leaf(&mut self, value: &Bound<'_, PyAny>) -> bool {
        if let Some(text) = capi::ascii(value) {
            escape::push_string(&mut self.bytes, text);
        } else if value.is_none() {
            self.bytes.extend_from_slice(b"null");
        } else if let Some(value) = capi::exact_bool(value) {
            self.bytes.extend_from_slice(bool_text(value));
        } else if let Ok(int) = value.cast_exact::<PyInt>()
            && let Some(int) = capi::int_as_i64(int)
        {
            number::push_i64(&mut self.bytes, int);
        } else if let Ok(float) = value.cast_exact::<PyFloat>()
            && number::floats_agree()
        {
            number::push_f64(&mut self.bytes, capi::float_value(float));
        } else {
            return false;
        }
        true
    }

    /// What is no [`Self::leaf`].
    fn compound(&mut self, value: &Bound<'_, PyAny>) -> Written {
        if let Ok(dict) = value.cast_exact::<PyDict>() {
            self.dict(dict)
        } else if let Ok(list) = value.cast_exact::<PyList>() {
            self.list(list, Self::lent)
        } else if let Some(text) = capi::exact_text(value) {
            self.text(&text)
        } else if let Ok(int) = value.cast_exact::<PyInt>() {
            self.int(int)
        } else {
            self.rarer_value(value)
        }
    }

    fn rarer_value(&mut self, value: &Bound<'_, PyAny>) -> Written {
        if let Ok(tuple) = value.cast_exact::<PyTuple>() {
            return self.tuple(tuple);
        }
        if let Some(info) = self.registry.info(capi::type_key(value)) {
            return self.model(value, info);
        }
        match enum_value(value, self.registry) {
            Some(inner) => self.value(&inner),
            None => Err(Stop::Official),
        }
    }

    /// A str, with its quotes.
    #[inline]
    fn text(&mut self, text: &Text<'_>) -> Written {
        if let Text::Ascii(text) = text {
            escape::push_string(&mut self.bytes, text);
            return Ok(());
        }
        self.bytes.push(b'"');
        self.wide_text(text)?;
        self.bytes.push(b'"');
        Ok(())
    }

    /// A str as the key of an entry, with the comma before it.
    #[inline]
    fn entry_key(&mut self, text: &Text<'_>) -> Written {
        if let Text::Ascii(text) = text {
            escape::push_key(&mut self.bytes, text);
            return Ok(());
        }
        self.bytes.extend_from_slice(b",\"");
        self.wide_text(text)?;
        self.bytes.extend_from_slice(b"\":");
        Ok(())
    }

    fn wide_text(&mut self, text: &Text<'_>) -> Written {
        self.ascii = false;
        let written = match text {
            Text::Ascii(text) | Text::Latin1(text) => {
                escape::push_latin1(&mut self.bytes, text);
                Ok(())
            }
            Text::Ucs2(text) => escape::push_code_points(&mut self.bytes, text),
            Text::Ucs4(text) => escape::push_code_points(&mut self.bytes, text),
        };
        // Half a surrogate pair: pydantic says what is wrong.
        written.map_err(|escape::LoneSurrogate| Stop::Official)
    }

    #[inline]
    fn int(&mut self, int: &Bound<'_, PyInt>) -> Written {
        match capi::int_as_i64(int) {
            Some(value) => number::push_i64(&mut self.bytes, value),
            None => {
                // Python limits how many digits it prints; past that, pydantic decides.
                let digits = int.str().map_err(|_| Stop::Official)?;
                self.push_ascii(&digits)?;
            }
        }
        Ok(())
    }

    fn push_ascii(&mut self, string: &Bound<'_, PyString>) -> Written {
        match capi::text(string) {
            Text::Ascii(text) => {
                self.bytes.extend_from_slice(text);
                Ok(())
            }
            _ => Err(Stop::Official),
        }
    }

    /// An array of the list's items, which are lent to `write`: Python code that runs meanwhile may
    /// drop them from the list.
    #[inline]
    fn list(
        &mut self,
        list: &Bound<'_, PyList>,
        mut write: impl FnMut(&mut Self, Lent<'_, '_>) -> Written,
    ) -> Written {
        let start = self.bytes.len();
        self.nested(|writer| {
            capi::walk_list(list, |mut items| {
                let mut at = 0;
                while let Some(item) = items.next() {
                    writer.bytes.push(b',');
                    write(writer, item).map_err(|stop| stop.inside(Step::Index(at)))?;
                    at += 1;
                    if !items.unchanged() {
                        return Err(Stop::Official);
                    }
                }
                Ok(())
            })
        })?;
        self.close(start, *b"[]");
        Ok(())
    }

    fn tuple(&mut self, tuple: &Bound<'_, PyTuple>) -> Written {
        let start = self.bytes.len();
        self.nested(|writer| {
            let mut at = 0;
            while let Some(item) = capi::tuple_item(tuple, at) {
                writer.bytes.push(b',');
                writer.value(&item.to_owned())?;
                at += 1;
            }
            Ok(())
        })?;
        self.close(start, *b"[]");
        Ok(())
    }

    /// A dict of payload, whose keys are the user's and stay as they are.
    #[inline(never)]
    fn dict(&mut self, dict: &Bound<'_, PyDict>) -> Written {
        let start = self.bytes.len();
        let only_str_keys = self.nested_dict(dict)?;
        if !only_str_keys {
            self.bytes.truncate(start);
            self.dict_with_other_keys(dict)?;
        }
        self.close(start, *b"{}");
        Ok(())
    }

    /// The entries, up to the first key that is no str; then the answer is false.
    #[inline]
    fn nested_dict(&mut self, dict: &Bound<'_, PyDict>) -> Result<bool, Stop> {
        let mut only_str_keys = true;
        self.nested(|writer| {
            capi::walk(dict, |mut items| {
                while let Some((key, value)) = items.next() {
                    let is_written = key.read(|key| {
                        if let Some(text) = capi::ascii(key) {
                            escape::push_key(&mut writer.bytes, text);
                        } else if let Some(text) = capi::exact_text(key) {
                            writer.entry_key(&text)?;
                        } else {
                            return Ok(false);
                        }
                        Ok::<_, Stop>(true)
                    })?;
                    if !is_written {
                        only_str_keys = false;
                        return Ok(());
                    }
                    writer.lent(value)?;
                    if !items.unchanged() {
                        return Err(Stop::Official);
                    }
                }
                Ok(())
            })
        })?;
        Ok(only_str_keys)
    }

    /// A dict with keys that become str: two of them may become the same one, and then there is
    /// only one entry, as pydantic makes it.
    #[cold]
    fn dict_with_other_keys(&mut self, dict: &Bound<'_, PyDict>) -> Written {
        let mut seen = HashSet::new();
        self.nested(|writer| {
            capi::walk(dict, |mut items| {
                while let Some((key, value)) = items.next() {
                    let (key, value) = (key.own(), value.own());
                    writer.bytes.push(b',');
                    let start = writer.bytes.len();
                    writer.key(&key)?;
                    if !seen.insert(writer.bytes[start..].to_vec()) {
                        return Err(Stop::Official);
                    }
                    writer.bytes.push(b':');
                    writer.value(&value)?;
                    if !items.unchanged() {
                        return Err(Stop::Official);
                    }
                }
                Ok(())
            })
        })
    }

    /// A key that may be no str: pydantic's text for it.
    fn key(&mut self, key: &Bound<'_, PyAny>) -> Written {
        if let Some(text) = capi::exact_text(key) {
            return self.text(&text);
        }
        self.bytes.push(b'"');
        if key.is_none() {
            self.bytes.extend_from_slice(b"None");
        } else if let Some(key) = capi::exact_bool(key) {
            self.bytes.extend_from_slice(bool_text(key));
        } else if let Ok(int) = key.cast_exact::<PyInt>() {
            self.int(int)?;
        } else if let Ok(float) = key.cast_exact::<PyFloat>()
            && capi::float_value(float).is_finite()
        {
            self.push_ascii(&key.str().map_err(|_| Stop::Official)?)?;
        } else if let Some(inner) = enum_value(key, self.registry) {
            self.bytes.pop();
            return self.key(&inner);
        } else {
            return Err(Stop::Official);
        }
        self.bytes.push(b'"');
        Ok(())
    }
}

impl Stop {
    /// Says of a fault that it is below this step.
    pub fn inside(mut self, step: Step) -> Self {
        if let Self::Fault(fault) = &mut self {
            fault.steps.push(step);
        }
        self
    }
}

/// Whether the value is the one that the field can have: the member of the enum itself, or, for a
/// plain literal, an exact str with its text.
#[inline]
pub fn is_constant(field: &Field, value: &Bound<'_, PyAny>) -> bool {
    match &field.shape {
        FieldType::Literal(choices) => choices
            .first()
            .is_some_and(|(text, object)| value.is(object) || is_same_str(value, text, object)),
        _ => false,
    }
}

#[cold]
fn is_same_str(value: &Bound<'_, PyAny>, text: &str, object: &Py<PyAny>) -> bool {
    let literal = object.bind(value.py());
    capi::is_exact_str(literal) && capi::is_exact_str(value) && same_text(value, text)
}

fn same_text(value: &Bound<'_, PyAny>, text: &str) -> bool {
    let Ok(value) = value.cast::<PyString>() else {
        return false;
    };
    matches!(capi::text(value), Text::Ascii(value) if value == text.as_bytes())
}

fn has_str_keys(value: &Bound<'_, PyAny>) -> bool {
    let Ok(dict) = value.cast::<PyDict>() else {
        return false;
    };
    capi::walk(dict, |mut items| items.all(|(key, _)| key.read(capi::is_exact_str)))
}

fn bool_text(value: bool) -> &'static [u8] {
    if value { b"true" } else { b"false" }
}

/// The value of a member of an enum. It may run Python code: `value` is a property.
fn enum_value<'py>(value: &Bound<'py, PyAny>, registry: &Registry) -> Option<Bound<'py, PyAny>> {
    let class = value.get_type();
    if capi::type_key(&class) != registry.enum_type {
        return None;
    }
    value.getattr(intern!(value.py(), "value")).ok()
}
