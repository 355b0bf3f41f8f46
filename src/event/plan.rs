//! What is known of a model class of the SDK, learned once from the class itself.
//!
//! The source is `__pydantic_core_schema__`, the schema from which pydantic built the class's
//! validator and serializer. A class whose schema holds anything that this file does not know
//! (a field serializer, a config key, an unknown node) gets no plan or a field of
//! [`Shape::Unknown`], and is left to pydantic.

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PySet, PyString, PyType};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::EventKind;
use super::registry::Classes;
use crate::capi;

/// A model class and how its instances are read and written.
pub struct Plan {
    pub class: Py<PyType>,
    pub key: usize,
    pub fields: Vec<Field>,
    /// The addresses of the fields' interned names and aliases.
    name_keys: Box<[usize]>,
    alias_keys: Box<[usize]>,
    /// The field whose one value tells the class apart in a union: `type`, `role` or `op`.
    pub tag: Option<usize>,
    /// Which event the class is, if it is one.
    pub kind: Option<EventKind>,
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
    /// The version of the class for which the guards are known to hold; see [`Plan::is_current`].
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
    pub shape: Shape,
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

    fn new(text: &str) -> PyResult<Self> {
        let mut bytes = [0; Self::CAPACITY];
        let room = bytes.get_mut(..text.len()).ok_or_else(|| unknown(text))?;
        room.copy_from_slice(text.as_bytes());
        Ok(Self { bytes, len: text.len() })
    }
}

/// The range of an int.
#[derive(Clone, Copy, Debug)]
pub enum Bounds {
    None,
    Between(i64, i64),
}

/// What a field is declared to hold.
pub enum Shape {
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
        item: Box<Shape>,
        min: usize,
    },
    /// `str | list[...]`
    StrOrList(Box<Shape>),
    Nullable(Box<Shape>),
    /// Something that only pydantic knows how to treat.
    Unknown,
}

/// The place of a class in the registry: the plan, if the class has one.
pub struct Cell {
    pub key: usize,
    pub plan: std::sync::OnceLock<Plan>,
}

impl Cell {
    /// The plan, if it may be used for an instance of the class with this key.
    #[inline]
    pub fn plan_for(&'static self, key: usize) -> Option<&'static Plan> {
        if self.key != key {
            return None;
        }
        self.plan.get().filter(|plan| plan.is_current())
    }
}

impl Plan {
    /// Whether the class is still as it was when the plan was made. The version tag of a class
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

    /// Whether the SDK's serializer leaves out what this plan does: it asks the class, which keeps
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
    pub fn find(&self, key: &Bound<'_, PyAny>, expected: usize, by: Spelling) -> Option<usize> {
        self.find_address(key, expected, by).or_else(|| self.find_text(key, by))
    }

    #[inline]
    fn find_address(&self, key: &Bound<'_, PyAny>, expected: usize, by: Spelling) -> Option<usize> {
        let address = key.as_ptr() as usize;
        let keys = match by {
            Spelling::Model => &self.name_keys,
            Spelling::Wire => &self.alias_keys,
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
    fn find_text(&self, key: &Bound<'_, PyAny>, by: Spelling) -> Option<usize> {
        let capi::Text::Ascii(text) = capi::text(key.cast().ok()?) else { return None };
        self.fields.iter().position(|field| {
            let name = match by {
                Spelling::Model => &field.name_text,
                Spelling::Wire => &field.alias_text,
            };
            name.as_bytes() == text
        })
    }

    /// The field with this alias, if the key is its interned object.
    #[inline]
    pub fn find_interned(&self, key: &Bound<'_, PyAny>, expected: usize) -> Option<usize> {
        self.find_address(key, expected, Spelling::Wire)
    }

    /// Whether this is the key of the first field that not all events have.
    #[inline]
    pub fn is_first_own(&self, alias: &Bound<'_, PyString>) -> bool {
        self.alias_keys.get(self.own) == Some(&(alias.as_ptr() as usize))
    }

    /// The field with this alias or attribute name, as the keys of a wire dict may be either.
    #[inline]
    pub fn find_any(&self, key: &Bound<'_, PyAny>, expected: usize) -> Option<(usize, Spelling)> {
        let by_address = |by| Some((self.find_address(key, expected, by)?, by));
        let by_text = |by| Some((self.find_text(key, by)?, by));
        by_address(Spelling::Wire)
            .or_else(|| by_address(Spelling::Model))
            .or_else(|| by_text(Spelling::Wire))
            .or_else(|| by_text(Spelling::Model))
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
            Shape::Literal(choices) => Some(&choices[0].0),
            _ => None,
        }
    }
}

/// The two spellings of an event: an SDK model, whose fields go by their attribute names, or a
/// dict with the keys of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    Model,
    Wire,
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

pub(super) type Schema<'py> = Bound<'py, PyDict>;

/// Why a class has no plan.
fn unknown(what: &str) -> PyErr {
    PyValueError::new_err(what.to_owned())
}

pub(super) fn get<'py>(schema: &Schema<'py>, key: &str) -> PyResult<Bound<'py, PyAny>> {
    schema.get_item(key)?.ok_or_else(|| unknown(key))
}

fn get_str(schema: &Schema<'_>, key: &str) -> PyResult<String> {
    get(schema, key)?.extract()
}

fn truthy(schema: &Schema<'_>, key: &str) -> PyResult<bool> {
    schema.get_item(key)?.map_or(Ok(false), |value| value.is_truthy())
}

/// The model that a schema is of, and the shared parts by their `ref`.
pub(super) fn root<'py>(schema: &Schema<'py>) -> PyResult<(Schema<'py>, Bound<'py, PyDict>)> {
    let definitions = PyDict::new(schema.py());
    if get_str(schema, "type")? != "definitions" {
        return Ok((schema.clone(), definitions));
    }
    for definition in get(schema, "definitions")?.try_iter()? {
        let definition = definition?;
        definitions.set_item(definition.get_item("ref")?, definition)?;
    }
    let model = resolve(get(schema, "schema")?.cast_into::<PyDict>()?, &definitions)?;
    Ok((model, definitions))
}

/// The node itself, or what it refers to.
fn resolve<'py>(schema: Schema<'py>, definitions: &Bound<'py, PyDict>) -> PyResult<Schema<'py>> {
    if get_str(&schema, "type")? != "definition-ref" {
        return Ok(schema);
    }
    let target = definitions.get_item(get(&schema, "schema_ref")?)?;
    Ok(target.ok_or_else(|| unknown("schema_ref"))?.cast_into::<PyDict>()?)
}

/// Refuses a schema node with a key that is not in `known`.
fn only_keys(schema: &Schema<'_>, known: &[&str]) -> PyResult<()> {
    for key in schema.keys() {
        let key: String = key.extract()?;
        if !known.contains(&key.as_str()) {
            return Err(unknown(&key));
        }
    }
    Ok(())
}

/// Learns classes, and the classes that their fields name.
pub struct Learner<'a, 'py> {
    py: Python<'py>,
    classes: &'a mut Classes,
    /// The SDK's own model serializer, which leaves out optional fields without value.
    omit: Bound<'py, PyAny>,
    /// Shared parts of the schema at hand, by their `ref`.
    definitions: Bound<'py, PyDict>,
}

impl<'a, 'py> Learner<'a, 'py> {
    /// `base` is the SDK's base model, from which all its classes inherit the serializer.
    pub fn new(classes: &'a mut Classes, base: &Bound<'py, PyType>) -> PyResult<Self> {
        let py = base.py();
        let omit = base.getattr("__dict__")?.get_item("_omit_fields_without_value")?;
        // A class attribute behind pydantic's descriptor proxy, or the bare function.
        let omit = omit.getattr("wrapped").unwrap_or(omit);
        Ok(Self { py, classes, omit, definitions: PyDict::new(py) })
    }

    /// The cell of `class`, learning the class if it is new.
    pub fn class(&mut self, class: &Bound<'py, PyType>) -> PyResult<&'static Cell> {
        let key = capi::class_key(class);
        if let Some(cell) = self.classes.get(key) {
            return Ok(cell);
        }
        let schema = class.getattr("__pydantic_core_schema__")?;
        let outer = std::mem::replace(&mut self.definitions, PyDict::new(self.py));
        let cell = self.classes.insert(class);
        let plan =
            schema.cast_into::<PyDict>().map_err(PyErr::from).and_then(|s| self.root(class, &s));
        self.definitions = outer;
        if let Ok(plan) = plan {
            let _ = cell.plan.set(plan);
        }
        Ok(cell)
    }

    fn root(&mut self, class: &Bound<'py, PyType>, schema: &Schema<'py>) -> PyResult<Plan> {
        let (model, definitions) = root(schema)?;
        self.definitions = definitions;
        self.plan(class, &model)
    }

    fn resolve(&self, schema: Schema<'py>) -> PyResult<Schema<'py>> {
        resolve(schema, &self.definitions)
    }

    fn plan(&mut self, class: &Bound<'py, PyType>, schema: &Schema<'py>) -> PyResult<Plan> {
        let known = [
            "type",
            "cls",
            "schema",
            "config",
            "ref",
            "metadata",
            "serialization",
            "custom_init",
            "root_model",
        ];
        only_keys(schema, &known)?;
        if get_str(schema, "type")? != "model"
            || !get(schema, "cls")?.is(class)
            || truthy(schema, "custom_init")?
            || truthy(schema, "root_model")?
        {
            return Err(unknown("model"));
        }
        let config = get(schema, "config")?.cast_into::<PyDict>()?;
        only_keys(
            &config,
            &[
                "title",
                "extra_fields_behavior",
                "validate_by_alias",
                "validate_by_name",
                "populate_by_name",
                "serialize_by_alias",
            ],
        )?;
        if get_str(&config, "extra_fields_behavior")? != "allow" {
            return Err(unknown("extra_fields_behavior"));
        }
        let serialization = get(schema, "serialization")?.cast_into::<PyDict>()?;
        only_keys(&serialization, &["type", "function", "info_arg"])?;
        if get_str(&serialization, "type")? != "function-wrap"
            || truthy(&serialization, "info_arg")?
            || !get(&serialization, "function")?.is(&self.omit)
        {
            return Err(unknown("serialization"));
        }
        if !dumps_as_pydantic_does(class)? || !is_made_as_pydantic_does(class)? {
            return Err(unknown("a method of the class"));
        }
        let model_fields = get(schema, "schema")?.cast_into::<PyDict>()?;
        only_keys(&model_fields, &["type", "fields", "model_name", "computed_fields"])?;
        if get_str(&model_fields, "type")? != "model-fields"
            || truthy(&model_fields, "computed_fields")?
        {
            return Err(unknown("model-fields"));
        }
        let mut fields = Vec::new();
        for (name, field) in get(&model_fields, "fields")?.cast_into::<PyDict>()? {
            fields.push(self.field(name.extract()?, &field.cast_into::<PyDict>()?)?);
        }
        let tag = fields.iter().position(|field| {
            matches!(&*field.name_text, "type" | "role" | "op") && field.constant.is_some()
        });
        let kind = tag.and_then(|at| match &fields[at].shape {
            Shape::Literal(choices) if &*fields[at].name_text == "type" => {
                EventKind::from_name(choices[0].0.as_bytes())
            }
            _ => None,
        });
        let place = |name: &str| fields.iter().position(|field| &*field.name_text == name);
        let (raw_event, subagent_run_id) = (place("raw_event"), place("subagent_run_id"));
        let own = place("subagent_run_id").or_else(|| place("metadata")).map_or(0, |at| at + 1);
        let defaults = PyDict::new(self.py);
        for field in &fields {
            defaults.set_item(&field.name, &field.default)?;
        }
        let serializer = class.getattr(intern!(self.py, "__pydantic_serializer__"))?;
        let validator = class.getattr(intern!(self.py, "__pydantic_validator__"))?;
        let key = capi::class_key(class);
        Ok(Plan {
            class: class.clone().unbind(),
            key,
            name_keys: fields.iter().map(|field| field.name.as_ptr() as usize).collect(),
            alias_keys: fields.iter().map(|field| field.alias.as_ptr() as usize).collect(),
            strs: bits(&fields, |field| match &field.shape {
                Shape::Nullable(inner) => matches!(**inner, Shape::Str),
                shape => matches!(shape, Shape::Str),
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

    fn field(&mut self, name: String, schema: &Schema<'py>) -> PyResult<Field> {
        only_keys(
            schema,
            &["type", "schema", "metadata", "serialization_alias", "validation_alias"],
        )?;
        let alias = match schema.get_item("serialization_alias")? {
            Some(alias) => alias.extract()?,
            None => name.clone(),
        };
        if get_str(schema, "validation_alias").unwrap_or_else(|_| name.clone()) != alias {
            return Err(unknown("validation_alias"));
        }
        let mut inner = get(schema, "schema")?.cast_into::<PyDict>()?;
        let mut default = None;
        if get_str(&inner, "type")? == "default" {
            only_keys(&inner, &["type", "schema", "default"])?;
            let value = get(&inner, "default")?;
            // Anything else might have to be copied for each instance.
            if !value.is_none() && !value.is_instance_of::<PyString>() {
                return Err(unknown("default"));
            }
            default = Some(value);
            inner = get(&inner, "schema")?.cast_into::<PyDict>()?;
        }
        let omit_none = default.as_ref().is_some_and(Bound::is_none);
        let shape = self.shape(inner)?;
        let prefix = format!(",\"{alias}\":");
        let constant = match &shape {
            Shape::Literal(choices) if choices.len() == 1 && !omit_none => {
                // The SDK's tags are plain upper- or lower-case words: nothing to escape.
                Some(Fragment::new(&format!("{prefix}\"{}\"", choices[0].0))?)
            }
            _ => None,
        };
        Ok(Field {
            name: PyString::intern(self.py, &name).unbind(),
            alias: PyString::intern(self.py, &alias).unbind(),
            name_text: name.into(),
            alias_text: alias.into(),
            prefix: Fragment::new(&prefix)?,
            constant,
            default: default.map(Bound::unbind),
            omit_none,
            shape,
        })
    }

    /// A node of the schema. What is not known becomes [`Shape::Unknown`], so that one odd field
    /// costs the speed of events that use it and nothing else.
    fn shape(&mut self, schema: Schema<'py>) -> PyResult<Shape> {
        Ok(self.known_shape(&self.resolve(schema)?).unwrap_or(Shape::Unknown))
    }

    fn known_shape(&mut self, schema: &Schema<'py>) -> PyResult<Shape> {
        let inner = |key| -> PyResult<Schema<'py>> { Ok(get(schema, key)?.cast_into::<PyDict>()?) };
        match get_str(schema, "type")?.as_str() {
            "str" if schema.contains("pattern")? => {
                only_keys(schema, &["type", "pattern", "metadata"])?;
                // The one pattern of the SDK, that of RFC 6901.
                match get_str(schema, "pattern")?.as_str() {
                    "^(/([^/~]|~[01])*)*$" => Ok(Shape::JsonPointer),
                    other => Err(unknown(other)),
                }
            }
            "str" => only_keys(schema, &["type", "metadata"]).map(|()| Shape::Str),
            "int" => {
                only_keys(schema, &["type", "ge", "le", "metadata"])?;
                match (schema.get_item("ge")?, schema.get_item("le")?) {
                    (None, None) => Ok(Shape::Int(Bounds::None)),
                    (ge, le) => Ok(Shape::Int(Bounds::Between(
                        ge.map_or(Ok(i64::MIN), |value| value.extract())?,
                        le.map_or(Ok(i64::MAX), |value| value.extract())?,
                    ))),
                }
            }
            "bool" => only_keys(schema, &["type", "metadata"]).map(|()| Shape::Bool),
            "any" => only_keys(schema, &["type", "metadata"]).map(|()| Shape::Any),
            "dict" => {
                only_keys(schema, &["type", "keys_schema", "values_schema", "metadata"])?;
                let keys = self.shape(inner("keys_schema")?)?;
                let values = self.shape(inner("values_schema")?)?;
                match (keys, values) {
                    (Shape::Str, Shape::Any) => Ok(Shape::Map),
                    _ => Err(unknown("dict")),
                }
            }
            "literal" => {
                only_keys(schema, &["type", "expected", "metadata"])?;
                let expected = get(schema, "expected")?.cast_into::<PyList>()?;
                let mut choices = Vec::new();
                for choice in expected {
                    // An enum member of a str enum is a str too: this is its value.
                    let text: String = choice.extract()?;
                    choices.push((text.into(), choice.unbind()));
                }
                Ok(Shape::Literal(choices))
            }
            "nullable" => {
                only_keys(schema, &["type", "schema", "metadata"])?;
                Ok(Shape::Nullable(Box::new(self.shape(inner("schema")?)?)))
            }
            "list" => {
                only_keys(schema, &["type", "items_schema", "min_length", "metadata"])?;
                let min = schema.get_item("min_length")?.map_or(Ok(0), |min| min.extract())?;
                Ok(Shape::List { item: Box::new(self.shape(inner("items_schema")?)?), min })
            }
            "union" => {
                only_keys(schema, &["type", "choices", "metadata"])?;
                let choices = get(schema, "choices")?.cast_into::<PyList>()?;
                let mut shapes = Vec::new();
                for choice in choices {
                    shapes.push(self.shape(choice.cast_into::<PyDict>()?)?);
                }
                match <[Shape; 2]>::try_from(shapes) {
                    Ok([Shape::Str, list @ Shape::List { .. }]) => {
                        Ok(Shape::StrOrList(Box::new(list)))
                    }
                    _ => Err(unknown("union")),
                }
            }
            "tagged-union" => {
                // By attributes are read objects that are neither models nor dicts.
                only_keys(
                    schema,
                    &["type", "choices", "discriminator", "metadata", "strict", "from_attributes"],
                )?;
                if truthy(schema, "strict")? {
                    return Err(unknown("strict"));
                }
                let mut choices = Vec::new();
                for (tag, choice) in inner("choices")? {
                    let choice = self.resolve(choice.cast_into::<PyDict>()?)?;
                    choices.push((tag.extract::<String>()?.into(), self.model(&choice)?));
                }
                let discriminator = get_str(schema, "discriminator")?;
                let discriminator = PyString::intern(self.py, &discriminator).unbind();
                Ok(Shape::Tagged { discriminator, choices })
            }
            "model" => self.model(schema).map(Shape::Model),
            other => Err(unknown(other)),
        }
    }

    fn model(&mut self, schema: &Schema<'py>) -> PyResult<&'static Cell> {
        if get_str(schema, "type")? != "model" {
            return Err(unknown("model"));
        }
        let class = get(schema, "cls")?.cast_into::<PyType>()?;
        self.class(&class)
    }
}
