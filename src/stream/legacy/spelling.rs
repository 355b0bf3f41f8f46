//! Described fields under their Python names (`thread_id`), which rows that a Python producer has
//! stored often have, in the wire's spelling.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::{join, replaced};
use crate::capi;
use crate::event::{ClassInfo, Field, FieldType, Form, Registry, keys};

/// An object in the wire's spelling, if anything in it is spelled otherwise. `found` is told the path
/// of each such field. What the protocol does not describe, payloads above all, is not looked into.
pub fn respell<'py>(
    dict: &Bound<'py, PyDict>,
    info: &'static ClassInfo,
    path: &str,
    found: &mut impl FnMut(String),
) -> PyResult<Option<Bound<'py, PyDict>>> {
    if !differs(dict, info) {
        return Ok(None);
    }
    let own = PyDict::new(dict.py());
    for entry in dict.items() {
        let (key, value) = entry.extract::<(Bound<'py, PyAny>, Bound<'py, PyAny>)>()?;
        let name = key.cast::<PyString>().ok().map(capi::plain_str).transpose()?;
        let Some(name) = name else {
            own.set_item(key, value)?;
            continue;
        };
        let Some((alias, field)) = spelled(dict, info, &name) else {
            own.set_item(key, value)?;
            continue;
        };
        let path = join(path, &alias.to_string_lossy());
        if !capi::same_text(&name, &alias) {
            found(path.clone());
        }
        let value = match field {
            Some(field) => inside(&value, &field.shape, &path, found)?.unwrap_or(value),
            None => value,
        };
        own.set_item(alias, value)?;
    }
    Ok(Some(own))
}

/// The key that an entry has on the wire, if it is described. The wire's own spelling wins: where both
/// are there, the other stays what it is, an entry like any unknown one.
fn spelled<'py>(
    dict: &Bound<'py, PyDict>,
    info: &'static ClassInfo,
    name: &Bound<'py, PyString>,
) -> Option<(Bound<'py, PyString>, Option<&'static Field>)> {
    let py = dict.py();
    if let Some((at, spelling)) = info.find_any(name, 0) {
        let field = &info.fields[at];
        let alias = field.alias.bind(py);
        let taken = spelling == Form::Model && capi::dict_get(dict, alias).is_some();
        return (!taken).then(|| (alias.clone(), Some(field)));
    }
    let newer = &keys(py).encrypted_value_type;
    let is_newer = has_encrypted_value(info) && capi::same_text(name, newer.name(py));
    let alias = newer.alias(py);
    (is_newer && capi::dict_get(dict, alias).is_none()).then(|| (alias.clone(), None))
}

/// `encryptedValueType` (1.1) may stand where `encryptedValue` may.
fn has_encrypted_value(info: &ClassInfo) -> bool {
    info.fields.iter().any(|field| &*field.alias_text == "encryptedValue")
}

/// Whether anything in an object is spelled otherwise. This looks only for what might be, and so runs
/// no Python code and allocates nothing.
fn differs(dict: &Bound<'_, PyDict>, info: &'static ClassInfo) -> bool {
    let py = dict.py();
    let renamed = |name: &Bound<'_, PyString>, alias: &Bound<'_, PyString>| {
        capi::dict_get(dict, name).is_some() && capi::dict_get(dict, alias).is_none()
    };
    let newer = &keys(py).encrypted_value_type;
    info.fields.iter().any(|field| {
        let (name, alias) = (field.name.bind(py), field.alias.bind(py));
        !name.is(alias) && renamed(name, alias)
            || nests(&field.shape)
                && capi::dict_get(dict, alias)
                    .is_some_and(|value| differs_inside(&value, &field.shape))
    }) || has_encrypted_value(info) && renamed(newer.name(py), newer.alias(py))
}

/// Whether a value of this shape may hold described objects.
fn nests(shape: &FieldType) -> bool {
    match shape {
        FieldType::Model(_) | FieldType::Tagged { .. } => true,
        FieldType::List { item, .. } => nests(item),
        FieldType::StrOrList(inner) | FieldType::Nullable(inner) => nests(inner),
        _ => false,
    }
}

/// The class of an object in the place of a shape.
fn info_of(dict: &Bound<'_, PyDict>, shape: &'static FieldType) -> Option<&'static ClassInfo> {
    match shape {
        FieldType::Model(cell) => cell.info.get(),
        FieldType::Tagged { discriminator, choices } => {
            let tag = capi::dict_get(dict, discriminator.bind(dict.py()))?;
            Registry::choice(choices, &tag)?.info.get()
        }
        FieldType::Nullable(inner) => info_of(dict, inner),
        _ => None,
    }
}

fn item_of(shape: &'static FieldType) -> Option<&'static FieldType> {
    match shape {
        FieldType::List { item, .. } => Some(item),
        FieldType::StrOrList(inner) | FieldType::Nullable(inner) => item_of(inner),
        _ => None,
    }
}

fn differs_inside(value: &Bound<'_, PyAny>, shape: &'static FieldType) -> bool {
    if let Ok(dict) = value.cast::<PyDict>() {
        return info_of(dict, shape).is_some_and(|info| differs(dict, info));
    }
    let (Ok(list), Some(item)) = (value.cast::<PyList>(), item_of(shape)) else { return false };
    nests(item) && list.iter().any(|value| differs_inside(&value, item))
}

fn inside<'py>(
    value: &Bound<'py, PyAny>,
    shape: &'static FieldType,
    path: &str,
    found: &mut impl FnMut(String),
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if let Ok(dict) = value.cast::<PyDict>() {
        let Some(info) = info_of(dict, shape) else { return Ok(None) };
        return Ok(respell(dict, info, path, found)?.map(Bound::into_any));
    }
    let (Ok(list), Some(item)) = (value.cast::<PyList>(), item_of(shape)) else { return Ok(None) };
    if !nests(item) {
        return Ok(None);
    }
    let respelled =
        replaced(list, |index, value| inside(value, item, &format!("{path}[{index}]"), found))?;
    Ok(respelled.map(Bound::into_any))
}
