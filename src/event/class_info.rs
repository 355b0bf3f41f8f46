//! What is known of a model class of the SDK; see `learn.rs` for where it comes from.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PySet, PyString, PyType};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::EventType;
use crate::capi;

/// A model class and how its instances are read and written.
pub struct ClassInfo {
    pub class: Py<PyType>,
    pub key: usize,
    pub fields: Vec<Field>,
    /// The addresses of the fields' interned names and aliases.
    name_keys: Box<[usize]>,
    alias_keys: Box<[usize]>,
    /// The field whose one value tells the class apart in a union: `type`, `role` or `op`.
    pub tag: Option<usize>,
    /// Which event the class is, if it is one.
    pub kind: Option<EventType>,
    /// Where `rawEvent` stands, if the class has it.
    pub raw_event: Option<usize>,
    /// Where `subagentRunId` stands, if the class has it.
    pub subagent_run_id: Option<usize>,
    /// Where the fields begin that not all events have.
    pub own: usize,
    /// One bit for each field for which any exact str is sound.
    pub strs: u64,
    /// One bit for each field that must be there on the wire. Instances have a default for a field
    /// with one possible value; what a peer sent must have it all the same.
    pub required: u64,
    /// The instance dictionary of an instance for which nothing was given, in class order. (A
    /// required field has None there until it is given.)
    pub defaults: Py<PyDict>,
    /// One bit for each field without a default.
    pub no_default: u64,
    /// Sets of field names, for each combination of fields that was given lately. Copying one is
    /// cheaper than adding the names, whose hashes need not be looked up again.
    given: Mutex<Vec<(u64, Py<PySet>)>>,
    serializer: Py<PyAny>,
    validator: Py<PyAny>,
    /// The version of the class for which the guards are known to hold; see [`ClassInfo::is_current`].
    version: AtomicU32,
}

pub struct Field {
    /// The attribute, interned: `message_id`.
    pub name: Py<PyString>,
    /// The key on the wire, interned: `messageId`.
    pub alias: Py<PyString>,
    pub name_text: Box<str>,
    pub alias_text: Box<str>,
    /// `,"messageId":`
    pub prefix: Fragment,
    /// `,"type":"TEXT_MESSAGE_CONTENT"`, for a field with one possible value.
    pub constant: Option<Fragment>,
    /// What an instance has if the field is not given. A field without is required.
    pub default: Option<Py<PyAny>>,
    /// Optional, with None for a default: None is left out of what is written.
    pub omit_none: bool,
    pub shape: FieldType,
}

/// One bit for each of the fields that are so.
fn bits(fields: &[Field], is: impl Fn(&Field) -> bool) -> u64 {
    fields.iter().rev().fold(0, |bits, field| bits << 1 | u64::from(is(field)))
}

/// A piece of a document, in an array of fixed size, which is copied without a call.
pub struct Fragment {
    pub bytes: [u8; Self::CAPACITY],
    pub len: usize,
}

impl Fragment {
    /// The longest in the SDK, `,"type":"REASONING_ENCRYPTED_VALUE"`, has 36 bytes.
    pub const CAPACITY: usize = 48;

    /// None for a text that is too long.
    pub(super) fn new(text: &str) -> Option<Self> {
        let mut bytes = [0; Self::CAPACITY];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Self { bytes, len: text.len() })
    }
}

/// The range of an int.
#[derive(Clone, Copy, Debug)]
pub enum Bounds {
    None,
    Between(i64, i64),
}

/// What a field is declared to hold.
pub enum FieldType {
    Str,
    /// A str that a pattern restricts; only writing takes no notice of the pattern.
    JsonPointer,
    Int(Bounds),
    Bool,
    Any,
    /// `dict[str, Any]`
    Map,
    /// One of some strings, each with the object that pydantic puts in its place.
    Literal(Vec<(Box<str>, Py<PyAny>)>),
    Model(&'static Cell),
    /// A union told apart by a field of its members.
    Tagged {
        discriminator: Py<PyString>,
        choices: Vec<(Box<str>, &'static Cell)>,
    },
    List {
        item: Box<FieldType>,
        min: usize,
    },
    /// `str | list[...]`
    StrOrList(Box<FieldType>),
    Nullable(Box<FieldType>),
    /// Something that only pydantic knows how to treat.
    Unknown,
}

/// The place of a class in the registry, with what is known of the class, if it was learned.
pub struct Cell {
    pub key: usize,
    pub info: std::sync::OnceLock<ClassInfo>,
}

impl Cell {
    /// What is known, if it may be used for an instance of the class with this key.
    #[inline]
    pub fn info_for(&'static self, key: usize) -> Option<&'static ClassInfo> {
        if self.key != key {
            return None;
        }
        self.info.get().filter(|info| info.is_current())
    }
}

impl ClassInfo {
    /// What is known of a class with these fields.
    pub(super) fn new(class: &Bound<'_, PyType>, fields: Vec<Field>) -> PyResult<Self> {
        let py = class.py();
        let tag = fields.iter().position(|field| {
            matches!(&*field.name_text, "type" | "role" | "op") && field.constant.is_some()
        });
        let kind = tag.and_then(|at| match &fields[at].shape {
            FieldType::Literal(choices) if &*fields[at].name_text == "type" => {
                EventType::from_name(choices[0].0.as_bytes())
            }
            _ => None,
        });
        let place = |name: &str| fields.iter().position(|field| &*field.name_text == name);
        let (raw_event, subagent_run_id) = (place("raw_event"), place("subagent_run_id"));
        let own = place("subagent_run_id").or_else(|| place("metadata")).map_or(0, |at| at + 1);
        let defaults = PyDict::new(py);
        for field in &fields {
            defaults.set_item(&field.name, &field.default)?;
        }
        let serializer = class.getattr(intern!(py, "__pydantic_serializer__"))?;
        let validator = class.getattr(intern!(py, "__pydantic_validator__"))?;
        let key = capi::class_key(class);
        Ok(Self {
            class: class.clone().unbind(),
            key,
            name_keys: fields.iter().map(|field| field.name.as_ptr() as usize).collect(),
            alias_keys: fields.iter().map(|field| field.alias.as_ptr() as usize).collect(),
            strs: bits(&fields, |field| match &field.shape {
                FieldType::Nullable(inner) => matches!(**inner, FieldType::Str),
                shape => matches!(shape, FieldType::Str),
            }),
            required: bits(&fields, |field| field.default.is_none() || field.constant.is_some()),
            no_default: bits(&fields, |field| field.default.is_none()),
            fields,
            tag,
            kind,
            raw_event,
            subagent_run_id,
            own,
            defaults: defaults.unbind(),
            given: Mutex::new(Vec::new()),
            serializer: serializer.unbind(),
            validator: validator.unbind(),
            version: AtomicU32::new(capi::type_version(key)),
        })
    }

    /// Whether the class is still as it was when it was learned. The version tag of a class
    /// changes with every attribute set on it, so the usual answer costs one comparison; when it
    /// has changed, the guards are looked at again.
    #[inline]
    pub fn is_current(&self) -> bool {
        let version = self.version.load(Ordering::Relaxed);
        (version != 0 && version == capi::type_version(self.key)) || self.guards_hold()
    }

    #[cold]
    fn guards_hold(&self) -> bool {
        Python::attach(|py| {
            let class = self.class.bind(py);
            let mut version = 0;
            let mut holds = || -> PyResult<bool> {
                let serializer = class.getattr(intern!(py, "__pydantic_serializer__"))?;
                // The look-up has given the class a version again. What follows may run Python
                // code that changes the class, and with it the version.
                version = capi::type_version(self.key);
                let validator = class.getattr(intern!(py, "__pydantic_validator__"))?;
                Ok(serializer.is(&self.serializer)
                    && validator.is(&self.validator)
                    && dumps_as_pydantic_does(class)?
                    && is_made_as_pydantic_does(class)?
                    && self.omits_as_learned(class)?)
            };
            let holds = holds().unwrap_or(false);
            let holds = holds && version == capi::type_version(self.key);
            if holds {
                self.version.store(version, Ordering::Relaxed);
            }
            holds
        })
    }

    /// Whether the SDK's serializer leaves out the fields that we do: it asks the class, which keeps
    /// the answer as an attribute.
    pub(super) fn omits_as_learned(&self, class: &Bound<'_, PyType>) -> PyResult<bool> {
        let keys = class.call_method0(intern!(class.py(), "_omittable_keys"))?;
        let keys: HashSet<String> = keys.extract()?;
        let ours = self.fields.iter().filter(|field| field.omit_none);
        let ours = ours.flat_map(|field| [&*field.name_text, &*field.alias_text]);
        Ok(keys == ours.map(str::to_owned).collect())
    }

    /// The field with this attribute name or alias. Both are interned, as are the keys of an
    /// instance dictionary and of a dict display, so comparing pointers nearly always finds it,
    /// mostly at `expected`.
    #[inline]
    pub fn find(&self, key: &Bound<'_, PyAny>, expected: usize, by: Form) -> Option<usize> {
        self.find_address(key, expected, by).or_else(|| self.find_text(key, by))
    }

    #[inline]
    fn find_address(&self, key: &Bound<'_, PyAny>, expected: usize, by: Form) -> Option<usize> {
        let address = key.as_ptr() as usize;
        let keys = match by {
            Form::Model => &self.name_keys,
            Form::Dict => &self.alias_keys,
        };
        if keys.get(expected) == Some(&address) {
            return Some(expected);
        }
        let (before, after) = keys.split_at(expected.min(keys.len()));
        match after.iter().position(|key| *key == address) {
            Some(at) => Some(expected + at),
            None => before.iter().position(|key| *key == address),
        }
    }

    #[inline(never)]
    fn find_text(&self, key: &Bound<'_, PyAny>, by: Form) -> Option<usize> {
        let capi::Text::Ascii(text) = capi::text(key.cast().ok()?) else { return None };
        self.fields.iter().position(|field| {
            let name = match by {
                Form::Model => &field.name_text,
                Form::Dict => &field.alias_text,
            };
            name.as_bytes() == text
        })
    }

    /// The field with this alias, if the key is its interned object.
    #[inline]
    pub fn find_interned(&self, key: &Bound<'_, PyAny>, expected: usize) -> Option<usize> {
        self.find_address(key, expected, Form::Dict)
    }

    /// Whether this is the key of the first field that not all events have.
    #[inline]
    pub fn is_first_own(&self, alias: &Bound<'_, PyString>) -> bool {
        self.alias_keys.get(self.own) == Some(&(alias.as_ptr() as usize))
    }

    /// The field with this alias or attribute name, as the keys of a wire dict may be either.
    #[inline]
    pub fn find_any(&self, key: &Bound<'_, PyAny>, expected: usize) -> Option<(usize, Form)> {
        let by_address = |by| Some((self.find_address(key, expected, by)?, by));
        let by_text = |by| Some((self.find_text(key, by)?, by));
        by_address(Form::Dict)
            .or_else(|| by_address(Form::Model))
            .or_else(|| by_text(Form::Dict))
            .or_else(|| by_text(Form::Model))
    }

    /// The field with this alias or attribute name, by its bytes.
    #[inline]
    pub fn find_bytes(&self, key: &[u8], expected: usize) -> Option<usize> {
        let (before, after) = self.fields.split_at(expected.min(self.fields.len()));
        if let Some(at) = after.iter().position(|field| field.alias_text.as_bytes() == key) {
            return Some(expected + at);
        }
        let named =
            |field: &Field| field.alias_text.as_bytes() == key || field.name_text.as_bytes() == key;
        before.iter().chain(after).position(named)
    }

    /// A new set of the names of the fields whose bits are set.
    #[inline]
    pub fn given<'py>(&self, py: Python<'py>, seen: u64) -> PyResult<Bound<'py, PySet>> {
        let kept = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().find(|(bits, _)| *bits == seen);
        let found = found.map(|(_, names)| names.bind(py).clone());
        // Making objects may run the garbage collector, and so any code.
        drop(kept);
        match found {
            Some(names) => capi::copy_set(&names),
            None => self.new_given(py, seen),
        }
    }

    #[cold]
    fn new_given<'py>(&self, py: Python<'py>, seen: u64) -> PyResult<Bound<'py, PySet>> {
        /// A producer gives few combinations; who gives many does not fill the memory.
        const MOST: usize = 8;
        let names = PySet::empty(py)?;
        for (at, field) in self.fields.iter().enumerate() {
            if seen & (1 << at) != 0 {
                names.add(&field.name)?;
            }
        }
        let copy = capi::copy_set(&names)?;
        let mut kept = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST {
            kept.push((seen, names.unbind()));
        }
        Ok(copy)
    }

    /// The value of the tag field on the wire.
    pub fn tag_text(&self) -> Option<&str> {
        match &self.fields[self.tag?].shape {
            FieldType::Literal(choices) => Some(&choices[0].0),
            _ => None,
        }
    }
}

/// The two spellings of an event: an SDK model, whose fields go by their attribute names, or a
/// dict with the keys of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Model,
    Dict,
}

/// Whether `class.model_dump_json` is pydantic's own (or the one that `install()` puts there,
/// which calls it).
pub(super) fn dumps_as_pydantic_does(class: &Bound<'_, PyType>) -> PyResult<bool> {
    let py = class.py();
    let own = class.getattr(intern!(py, "model_dump_json"))?;
    Ok(own.is(model_dump_json(py)?) || OURS.get(py).is_some_and(|ours| own.is(ours)))
}

/// Whether `class.__init__` is pydantic's own.
pub(super) fn is_made_as_pydantic_does(class: &Bound<'_, PyType>) -> PyResult<bool> {
    static OFFICIAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = class.py();
    let official = capi::once(&OFFICIAL, py, || {
        PyResult::Ok(base_model(py)?.getattr(intern!(py, "__init__"))?.unbind())
    })?;
    Ok(class.getattr(intern!(py, "__init__"))?.is(official))
}

/// `BaseModel.model_dump_json`, as it was when this module was imported.
pub fn model_dump_json(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static OFFICIAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let official = capi::once(&OFFICIAL, py, || {
        PyResult::Ok(base_model(py)?.getattr(intern!(py, "model_dump_json"))?.unbind())
    })?;
    Ok(official.bind(py))
}

static OURS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Names the function that `install()` puts in the place of `BaseModel.model_dump_json`.
pub fn set_our_model_dump_json(function: &Bound<'_, PyAny>) {
    let _ = OURS.set(function.py(), function.clone().unbind());
}

/// The official validator of what `ag_ui.core` calls so: a `TypeAdapter`.
pub fn validator<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    static VALIDATOR: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    capi::import_once(&VALIDATOR, py, "agui_codec._validators", "validator")?.call1((name,))
}

pub fn base_model(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static BASE_MODEL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    capi::import_once(&BASE_MODEL, py, "pydantic", "BaseModel")
}
