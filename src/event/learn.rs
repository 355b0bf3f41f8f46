//! Learns a model class from its core schema.
//!
//! `__pydantic_core_schema__` is what pydantic built the class's validator and serializer from. A
//! class whose schema holds anything that this file does not know (a field serializer, a config key,
//! an unknown node) gets no [`ClassInfo`], or a field of [`FieldType::Unknown`], and is left to
//! pydantic.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyType};

use super::class_info::{
    Bounds, Cell, ClassInfo, Field, FieldType, Fragment, dumps_as_pydantic_does,
    is_made_as_pydantic_does,
};
use super::classes::Classes;
use crate::capi;

pub(super) type Schema<'py> = Bound<'py, PyDict>;

/// Why a class or a field is left to pydantic.
fn unknown(what: &str) -> PyErr {
    PyValueError::new_err(what.to_owned())
}

fn fragment(text: &str) -> PyResult<Fragment> {
    Fragment::new(text).ok_or_else(|| unknown(text))
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
        let info =
            schema.cast_into::<PyDict>().map_err(PyErr::from).and_then(|s| self.root(class, &s));
        self.definitions = outer;
        if let Ok(info) = info {
            let _ = cell.info.set(info);
        }
        Ok(cell)
    }

    fn root(&mut self, class: &Bound<'py, PyType>, schema: &Schema<'py>) -> PyResult<ClassInfo> {
        let (model, definitions) = root(schema)?;
        self.definitions = definitions;
        self.info(class, &model)
    }

    fn resolve(&self, schema: Schema<'py>) -> PyResult<Schema<'py>> {
        resolve(schema, &self.definitions)
    }

    fn info(&mut self, class: &Bound<'py, PyType>, schema: &Schema<'py>) -> PyResult<ClassInfo> {
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
        ClassInfo::new(class, fields)
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
            FieldType::Literal(choices) if choices.len() == 1 && !omit_none => {
                // The SDK's tags are plain upper- or lower-case words: nothing to escape.
                Some(fragment(&format!("{prefix}\"{}\"", choices[0].0))?)
            }
            _ => None,
        };
        Ok(Field {
            name: PyString::intern(self.py, &name).unbind(),
            alias: PyString::intern(self.py, &alias).unbind(),
            name_text: name.into(),
            alias_text: alias.into(),
            prefix: fragment(&prefix)?,
            constant,
            default: default.map(Bound::unbind),
            omit_none,
            shape,
        })
    }

    /// A node of the schema. What is not known becomes [`FieldType::Unknown`], so that one odd field
    /// costs the speed of events that use it and nothing else.
    fn shape(&mut self, schema: Schema<'py>) -> PyResult<FieldType> {
        Ok(self.known_shape(&self.resolve(schema)?).unwrap_or(FieldType::Unknown))
    }

    fn known_shape(&mut self, schema: &Schema<'py>) -> PyResult<FieldType> {
        let inner = |key| -> PyResult<Schema<'py>> { Ok(get(schema, key)?.cast_into::<PyDict>()?) };
        match get_str(schema, "type")?.as_str() {
            "str" if schema.contains("pattern")? => {
                only_keys(schema, &["type", "pattern", "metadata"])?;
                // The one pattern of the SDK, that of RFC 6901.
                match get_str(schema, "pattern")?.as_str() {
                    "^(/([^/~]|~[01])*)*$" => Ok(FieldType::JsonPointer),
                    other => Err(unknown(other)),
                }
            }
            "str" => only_keys(schema, &["type", "metadata"]).map(|()| FieldType::Str),
            "int" => {
                only_keys(schema, &["type", "ge", "le", "metadata"])?;
                match (schema.get_item("ge")?, schema.get_item("le")?) {
                    (None, None) => Ok(FieldType::Int(Bounds::None)),
                    (ge, le) => Ok(FieldType::Int(Bounds::Between(
                        ge.map_or(Ok(i64::MIN), |value| value.extract())?,
                        le.map_or(Ok(i64::MAX), |value| value.extract())?,
                    ))),
                }
            }
            "bool" => only_keys(schema, &["type", "metadata"]).map(|()| FieldType::Bool),
            "any" => only_keys(schema, &["type", "metadata"]).map(|()| FieldType::Any),
            "dict" => {
                only_keys(schema, &["type", "keys_schema", "values_schema", "metadata"])?;
                let keys = self.shape(inner("keys_schema")?)?;
                let values = self.shape(inner("values_schema")?)?;
                match (keys, values) {
                    (FieldType::Str, FieldType::Any) => Ok(FieldType::Map),
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
                Ok(FieldType::Literal(choices))
            }
            "nullable" => {
                only_keys(schema, &["type", "schema", "metadata"])?;
                Ok(FieldType::Nullable(Box::new(self.shape(inner("schema")?)?)))
            }
            "list" => {
                only_keys(schema, &["type", "items_schema", "min_length", "metadata"])?;
                let min = schema.get_item("min_length")?.map_or(Ok(0), |min| min.extract())?;
                Ok(FieldType::List { item: Box::new(self.shape(inner("items_schema")?)?), min })
            }
            "union" => {
                only_keys(schema, &["type", "choices", "metadata"])?;
                let choices = get(schema, "choices")?.cast_into::<PyList>()?;
                let mut shapes = Vec::new();
                for choice in choices {
                    shapes.push(self.shape(choice.cast_into::<PyDict>()?)?);
                }
                match <[FieldType; 2]>::try_from(shapes) {
                    Ok([FieldType::Str, list @ FieldType::List { .. }]) => {
                        Ok(FieldType::StrOrList(Box::new(list)))
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
                Ok(FieldType::Tagged { discriminator, choices })
            }
            "model" => self.model(schema).map(FieldType::Model),
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
