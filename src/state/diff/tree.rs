//! The two documents of a diff, read as far as it needs: what is in a container, which values are
//! equal, and how long a value is on the wire.

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyType};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use crate::capi;
use crate::json::MAX_DEPTH;
use crate::state::document::{Kind, members, type_name};
use crate::state::equal::{Uncompared, equal};

/// The number of a container, of a key, or of all values that are equal to each other.
pub type Id = u32;

/// So many objects that are not JSON, and have one hash, are compared with a further one.
const MAX_ALIKE: usize = 8;

/// How long an object that is not JSON is taken to be.
const UNKNOWN_SIZE: usize = 32;

/// What is in a container, as it was when it was first looked at.
pub enum Content<'py> {
    Array(Vec<Bound<'py, PyAny>>),
    Object(Members<'py>),
    /// An object that pointers cannot tell the members of apart, and why.
    Odd(String),
}

pub struct Members<'py> {
    pub keys: Vec<Id>,
    pub values: Vec<Bound<'py, PyAny>>,
    /// The positions, sorted by key.
    pub sorted: Vec<u32>,
}

impl Members<'_> {
    /// The position of the member under a key.
    pub fn find(&self, key: Id) -> Option<usize> {
        let found = self.sorted.binary_search_by_key(&key, |&at| self.keys[at as usize]);
        found.ok().map(|at| self.sorted[at] as usize)
    }
}

/// Which values are equal: those with one `id`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Class {
    pub id: Id,
    /// How many levels of containers there are.
    height: u32,
    /// There is an object in it that only Python can compare, so that another class may be equal.
    opaque: bool,
}

struct Container<'py> {
    content: Rc<Content<'py>>,
    class: Option<Class>,
    /// The classes of what is in it, once it has one itself.
    inner: Rc<[Id]>,
    /// At least so many bytes on the wire; all if it is exact.
    size: usize,
    is_exact: bool,
}

/// Text as a key of a table: by its characters, whatever a subclass of str says.
struct Text<'py>(Bound<'py, PyString>);

impl Hash for Text<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match capi::text(&self.0) {
            capi::Text::Ascii(text) | capi::Text::Latin1(text) => text.hash(state),
            capi::Text::Ucs2(text) => text.hash(state),
            capi::Text::Ucs4(text) => text.hash(state),
        }
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        // CPython keeps a text in the narrowest form that holds it.
        match (capi::text(&self.0), capi::text(&other.0)) {
            (capi::Text::Ascii(left), capi::Text::Ascii(right))
            | (capi::Text::Latin1(left), capi::Text::Latin1(right)) => left == right,
            (capi::Text::Ucs2(left), capi::Text::Ucs2(right)) => left == right,
            (capi::Text::Ucs4(left), capi::Text::Ucs4(right)) => left == right,
            _ => false,
        }
    }
}

impl Eq for Text<'_> {}

/// What makes values equal. The table of these hashes with a key of its own: that numbers have one
/// hash in Python, which anybody can arrange, means nothing here.
#[derive(PartialEq, Eq, Hash)]
enum ValueKey<'py> {
    Null,
    Bool(bool),
    /// Also a float without a fraction.
    Int(i64),
    /// One that 64 bits do not hold: whether it is negative, and the rest, low bytes first.
    BigInt(bool, Vec<u8>),
    Float(u64),
    Text(Text<'py>),
    Array(Rc<[Id]>),
    /// Keys and classes, sorted.
    Object(Vec<(Id, Id)>),
    /// The object at an address, and no other.
    Only(usize),
}

#[derive(Default)]
pub struct Tree<'py> {
    containers: Vec<Container<'py>>,
    by_address: HashMap<usize, Id>,
    keys: Vec<Key<'py>>,
    by_text: HashMap<Text<'py>, Id>,
    classes: HashMap<ValueKey<'py>, Id>,
    /// Objects that are not JSON, by the hash that Python gives them.
    alike: HashMap<isize, Vec<(Bound<'py, PyAny>, Id)>>,
    /// What has an address in a table stays alive.
    held: Vec<Bound<'py, PyAny>>,
    count: Id,
}

struct Key<'py> {
    text: Bound<'py, PyString>,
    /// The bytes of `"key":` and of the token in a pointer.
    size: usize,
    token_size: usize,
}

impl<'py> Tree<'py> {
    /// The number of a container; None for any other value.
    pub fn container(&mut self, value: &Bound<'py, PyAny>) -> Option<Id> {
        let address = value.as_ptr() as usize;
        let is_array = value.is_instance_of::<PyList>();
        if !is_array && !value.is_instance_of::<PyDict>() {
            return None;
        }
        if let Some(&id) = self.by_address.get(&address) {
            return Some(id);
        }
        let content = if let Ok(array) = value.cast::<PyList>() {
            Content::Array(capi::list_items(array))
        } else {
            self.members(value.cast::<PyDict>().ok()?)
        };
        let id = self.containers.len() as Id;
        self.containers.push(Container {
            content: Rc::new(content),
            class: None,
            inner: Rc::new([]),
            size: 2,
            is_exact: false,
        });
        self.held.push(value.clone());
        self.by_address.insert(address, id);
        Some(id)
    }

    pub fn content(&self, id: Id) -> Rc<Content<'py>> {
        Rc::clone(&self.containers[id as usize].content)
    }

    /// The classes of what is in a container, once [`Self::class`] has looked at it.
    pub fn inner_classes(&self, id: Id) -> Rc<[Id]> {
        Rc::clone(&self.containers[id as usize].inner)
    }

    fn members(&mut self, object: &Bound<'py, PyDict>) -> Content<'py> {
        let members = members(object);
        let mut all = Members {
            keys: Vec::with_capacity(members.len()),
            values: Vec::with_capacity(members.len()),
            sorted: (0..members.len() as u32).collect(),
        };
        for (key, value) in members {
            match key.cast_into::<PyString>() {
                Ok(key) => all.keys.push(self.key(key)),
                Err(key) => {
                    let name = type_name(&key.into_inner());
                    return Content::Odd(format!("a key of an object is a str, not {name}"));
                }
            }
            all.values.push(value);
        }
        all.sorted.sort_unstable_by_key(|&at| all.keys[at as usize]);
        // Only with a subclass of str that compares in its own way.
        if all.sorted.windows(2).any(|two| all.keys[two[0] as usize] == all.keys[two[1] as usize]) {
            return Content::Odd("two keys of an object are the same text".to_owned());
        }
        Content::Object(all)
    }

    fn key(&mut self, text: Bound<'py, PyString>) -> Id {
        let next = self.keys.len() as Id;
        let id = *self.by_text.entry(Text(text.clone())).or_insert(next);
        if id == next {
            let (size, escapes) = text_size(&text);
            self.keys.push(Key { text, size: size + 1, token_size: size - 2 + escapes });
        }
        id
    }

    pub fn key_text(&self, key: Id) -> &Bound<'py, PyString> {
        &self.keys[key as usize].text
    }

    /// How long the token of a key is in a pointer.
    pub fn token_size(&self, key: Id) -> usize {
        self.keys[key as usize].token_size
    }

    /// Whether two values are equal as JSON.
    pub fn same(
        &mut self,
        left: &Bound<'py, PyAny>,
        right: &Bound<'py, PyAny>,
        room: u32,
    ) -> Result<bool, Uncompared> {
        if left.is(right) {
            return Ok(true);
        }
        match (Kind::of(left), Kind::of(right)) {
            (Kind::Array(left), Kind::Array(right)) if left.len() != right.len() => {
                return Ok(false);
            }
            (Kind::Object(left), Kind::Object(right)) if left.len() != right.len() => {
                return Ok(false);
            }
            (Kind::Int, Kind::Float) | (Kind::Float, Kind::Int) => {}
            (left, right) if std::mem::discriminant(&left) != std::mem::discriminant(&right) => {
                return Ok(false);
            }
            _ => {}
        }
        let (one, other) = (self.class(left, room)?, self.class(right, room)?);
        Ok(one.id == other.id || (one.opaque && other.opaque && equal(left, right, room)?))
    }

    /// The class of a value, which has at most `room` levels of containers.
    pub fn class(&mut self, value: &Bound<'py, PyAny>, room: u32) -> Result<Class, Uncompared> {
        let form = match Kind::of(value) {
            Kind::Array(_) | Kind::Object(_) => return self.class_of_container(value, room),
            Kind::Null => ValueKey::Null,
            Kind::Bool => ValueKey::Bool(capi::exact_bool(value) == Some(true)),
            Kind::Text(text) => ValueKey::Text(Text(text.clone())),
            Kind::Int => int_form(value)?,
            Kind::Float => match value.cast::<PyFloat>().map(capi::float_value) {
                Ok(float) if !float.is_nan() => float_form(float),
                _ => self.only(value),
            },
            Kind::Other => return self.class_of_object(value),
        };
        Ok(Class { id: self.number(form), height: 0, opaque: false })
    }

    fn number(&mut self, form: ValueKey<'py>) -> Id {
        let next = self.count;
        let id = *self.classes.entry(form).or_insert(next);
        self.count += Id::from(id == next);
        id
    }

    fn only(&mut self, value: &Bound<'py, PyAny>) -> ValueKey<'py> {
        self.held.push(value.clone());
        ValueKey::Only(value.as_ptr() as usize)
    }

    /// The class of an object that is not JSON: by its hash, if it has one, and Python's `==`.
    fn class_of_object(&mut self, value: &Bound<'py, PyAny>) -> Result<Class, Uncompared> {
        let class = |id, opaque| Class { id, height: 0, opaque };
        let hash = match value.hash() {
            Ok(hash) => hash,
            Err(error) if error.is_instance_of::<PyTypeError>(value.py()) => {
                let form = self.only(value);
                return Ok(class(self.number(form), true));
            }
            Err(error) => return Err(error.into()),
        };
        let alike = self.alike.entry(hash).or_default();
        for (other, id) in alike.iter().take(MAX_ALIKE) {
            if other.is(value) || other.eq(value)? {
                return Ok(class(*id, true));
            }
        }
        let id = self.count;
        self.count += 1;
        alike.push((value.clone(), id));
        Ok(class(id, true))
    }

    fn class_of_container(
        &mut self,
        value: &Bound<'py, PyAny>,
        room: u32,
    ) -> Result<Class, Uncompared> {
        let id = self.container(value).unwrap_or_default();
        let known = self.containers[id as usize].class;
        let room_below = room.checked_sub(1).ok_or(Uncompared::TooDeep)?;
        if let Some(class) = known {
            return if class.height <= room { Ok(class) } else { Err(Uncompared::TooDeep) };
        }
        let content = self.content(id);
        let values = match &*content {
            Content::Array(values) => values,
            Content::Object(members) => &members.values,
            Content::Odd(_) => &Vec::new(),
        };
        let (mut height, mut opaque) = (0, false);
        let mut inner = Vec::with_capacity(values.len());
        for value in values {
            let class = self.class(value, room_below)?;
            height = height.max(class.height);
            opaque |= class.opaque;
            inner.push(class.id);
        }
        let inner: Rc<[Id]> = inner.into();
        let form = match &*content {
            Content::Array(_) => ValueKey::Array(Rc::clone(&inner)),
            Content::Object(members) => {
                let member = |&at: &u32| (members.keys[at as usize], inner[at as usize]);
                ValueKey::Object(members.sorted.iter().map(member).collect())
            }
            Content::Odd(_) => {
                opaque = true;
                self.only(value)
            }
        };
        let class = Class { id: self.number(form), height: height + 1, opaque };
        let container = &mut self.containers[id as usize];
        container.class = Some(class);
        container.inner = inner;
        Ok(class)
    }

    /// How many bytes a value has on the wire, or, if that are more than `enough`, so many at least.
    pub fn size(&mut self, value: &Bound<'py, PyAny>, enough: usize) -> usize {
        self.size_within(value, enough, MAX_DEPTH)
    }

    fn size_within(&mut self, value: &Bound<'py, PyAny>, enough: usize, room: u32) -> usize {
        match Kind::of(value) {
            Kind::Null => 4,
            Kind::Bool => 5 - usize::from(capi::exact_bool(value) == Some(true)),
            Kind::Text(text) => text_size(text).0,
            Kind::Int => match value.cast::<PyInt>().ok().and_then(capi::int_as_i64) {
                Some(int) => itoa::Buffer::new().format(int).len(),
                None => big_int(value).map_or(UNKNOWN_SIZE, |(_, bytes)| bytes.len() * 77 / 32),
            },
            Kind::Float => match value.cast::<PyFloat>().map(capi::float_value) {
                Ok(float) => zmij::Buffer::new().format(float).len(),
                Err(_) => UNKNOWN_SIZE,
            },
            Kind::Other => UNKNOWN_SIZE,
            // A look at its length may do.
            Kind::Array(array) if 2 * array.len() > enough => 2 * array.len(),
            Kind::Object(object) if 5 * object.len() > enough => 5 * object.len(),
            Kind::Array(_) | Kind::Object(_) => match room.checked_sub(1) {
                Some(room) => self.size_of_container(value, enough, room),
                // It will not be written anyway.
                None => UNKNOWN_SIZE,
            },
        }
    }

    fn size_of_container(&mut self, value: &Bound<'py, PyAny>, enough: usize, room: u32) -> usize {
        let Some(id) = self.container(value) else { return UNKNOWN_SIZE };
        let known = &self.containers[id as usize];
        if known.is_exact || known.size > enough {
            return known.size;
        }
        // Twice as far as the last time, so that all the looks together take no longer than one.
        let enough = enough.max(known.size.saturating_mul(2));
        let content = self.content(id);
        let (keys, values): (&[Id], _) = match &*content {
            Content::Array(values) => (&[], values),
            Content::Object(members) => (&members.keys, &members.values),
            Content::Odd(_) => return UNKNOWN_SIZE,
        };
        // A container that holds itself is not deeper than what is seen of it.
        self.containers[id as usize].is_exact = true;
        let mut size = 1 + values.len().max(1);
        let mut is_exact = true;
        for (at, value) in values.iter().enumerate() {
            if size > enough {
                is_exact = false;
                break;
            }
            if let Some(&key) = keys.get(at) {
                size += self.keys[key as usize].size;
            }
            let left = enough.saturating_sub(size);
            let inner = self.size_within(value, left, room);
            is_exact &= inner <= left;
            size = size.saturating_add(inner);
        }
        let container = &mut self.containers[id as usize];
        container.size = size;
        container.is_exact = is_exact;
        size
    }
}

/// The bytes of a str as a JSON string, and how many more its characters take in a pointer.
fn text_size(text: &Bound<'_, PyString>) -> (usize, usize) {
    let wide = |unit: u32| match unit {
        0..0x80 => escaped(unit as u8),
        0x80..0x800 => 2,
        0x800..0x1_0000 => 3,
        _ => 4,
    };
    let escapes = |unit: u32| usize::from(unit == u32::from(b'~') || unit == u32::from(b'/'));
    let (size, more) = match capi::text(text) {
        capi::Text::Ascii(text) | capi::Text::Latin1(text) => {
            let mut sum = (0, 0);
            for &byte in text {
                sum.0 += if byte < 0x80 { escaped(byte) } else { 2 };
                sum.1 += escapes(byte.into());
            }
            sum
        }
        capi::Text::Ucs2(text) => text
            .iter()
            .fold((0, 0), |sum, &unit| (sum.0 + wide(unit.into()), sum.1 + escapes(unit.into()))),
        capi::Text::Ucs4(text) => {
            text.iter().fold((0, 0), |sum, &unit| (sum.0 + wide(unit), sum.1 + escapes(unit)))
        }
    };
    (size + 2, more)
}

fn escaped(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..0x20 => 6,
        _ => 1,
    }
}

fn int_form<'py>(value: &Bound<'py, PyAny>) -> PyResult<ValueKey<'py>> {
    if let Ok(int) = value.cast::<PyInt>()
        && let Some(int) = capi::int_as_i64(int)
    {
        return Ok(ValueKey::Int(int));
    }
    let (negative, bytes) = big_int(value)?;
    Ok(ValueKey::BigInt(negative, bytes))
}

/// The sign of an int and its bytes, the low ones first.
#[cold]
fn big_int(value: &Bound<'_, PyAny>) -> PyResult<(bool, Vec<u8>)> {
    static INT: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = value.py();
    // The methods of int itself, whatever a subclass makes of them.
    let int = INT.get_or_init(py, || py.get_type::<PyInt>().unbind()).bind(py);
    let bits: usize = int.call_method1(intern!(py, "bit_length"), (value,))?.extract()?;
    let options = PyDict::new(py);
    options.set_item(intern!(py, "signed"), true)?;
    let arguments = (value, bits / 8 + 1, "little");
    let bytes = int.call_method(intern!(py, "to_bytes"), arguments, Some(&options))?;
    let mut bytes = bytes.cast::<PyBytes>()?.as_bytes().to_vec();
    let negative = bytes.last().is_some_and(|byte| *byte >= 0x80);
    if negative {
        let mut carry = true;
        for byte in &mut bytes {
            (*byte, carry) = (!*byte).overflowing_add(carry.into());
        }
    }
    trim(&mut bytes);
    Ok((negative, bytes))
}

fn trim(bytes: &mut Vec<u8>) {
    let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    bytes.truncate(len);
}

/// A float that is not NaN: 1.0 is 1.
fn float_form<'py>(float: f64) -> ValueKey<'py> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if float.is_infinite() || float.fract() != 0.0 {
        return ValueKey::Float(float.to_bits());
    }
    if (-LIMIT..LIMIT).contains(&float) {
        return ValueKey::Int(float as i64);
    }
    let bits = float.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as usize - 1075;
    let significand = u128::from((bits & ((1 << 52) - 1)) | 1 << 52) << (exponent % 8);
    let mut bytes = vec![0; exponent / 8];
    bytes.extend(significand.to_le_bytes());
    trim(&mut bytes);
    ValueKey::BigInt(float < 0.0, bytes)
}
