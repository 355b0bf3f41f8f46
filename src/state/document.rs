//! JSON documents as Python values: what counts as what, and how pointers meet them.
//!
//! Objects are dicts, arrays are lists, and the subclasses of both are read as what they are. All
//! else is a leaf, tuples included: nothing points into it, and what is not a str, a number, a bool
//! or None is copied and compared as Python does.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyInt, PyList, PyString};
use std::borrow::Cow;

use crate::capi;

/// What a value is in JSON.
pub enum Kind<'a, 'py> {
    Null,
    Bool,
    Int,
    Float,
    Text(&'a Bound<'py, PyString>),
    Array(&'a Bound<'py, PyList>),
    Object(&'a Bound<'py, PyDict>),
    Other,
}

impl<'a, 'py> Kind<'a, 'py> {
    #[inline]
    pub fn of(value: &'a Bound<'py, PyAny>) -> Self {
        if value.is_none() {
            Self::Null
        } else if capi::is_exact_bool(value) {
            Self::Bool
        } else if let Ok(text) = value.cast::<PyString>() {
            Self::Text(text)
        } else if let Ok(object) = value.cast::<PyDict>() {
            Self::Object(object)
        } else if let Ok(array) = value.cast::<PyList>() {
            Self::Array(array)
        } else if value.is_instance_of::<PyInt>() {
            Self::Int
        } else if value.is_instance_of::<PyFloat>() {
            Self::Float
        } else {
            Self::Other
        }
    }
}

/// Whether the value is one that cannot change and holds no other: it may be shared.
#[inline]
pub fn is_scalar(value: &Bound<'_, PyAny>) -> bool {
    capi::is_exact_str(value)
        || capi::is_exact_int(value)
        || value.is_none()
        || capi::is_exact_bool(value)
        || capi::is_exact_float(value)
}

/// A place that has places below it.
#[derive(Clone)]
pub enum Container<'py> {
    Object(Bound<'py, PyDict>),
    Array(Bound<'py, PyList>),
}

impl<'py> Container<'py> {
    #[inline]
    pub fn of(value: &Bound<'py, PyAny>) -> Option<Self> {
        if let Ok(object) = value.cast::<PyDict>() {
            Some(Self::Object(object.clone()))
        } else if let Ok(array) = value.cast::<PyList>() {
            Some(Self::Array(array.clone()))
        } else {
            None
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Object(object) => object.len(),
            Self::Array(array) => array.len(),
        }
    }

    pub fn as_any(&self) -> &Bound<'py, PyAny> {
        match self {
            Self::Object(object) => object.as_any(),
            Self::Array(array) => array.as_any(),
        }
    }

    /// A plain dict or list with the same members: the subclass is not kept.
    pub fn shallow_copy(&self) -> PyResult<Self> {
        match self {
            Self::Object(object) => Ok(Self::Object(object.copy()?)),
            Self::Array(array) => Ok(Self::Array(capi::copy_list(array, array.len())?)),
        }
    }

    /// Neither a subclass of dict nor one of list.
    pub fn is_plain(&self) -> bool {
        match self {
            Self::Object(object) => capi::is_exact_dict(object),
            Self::Array(array) => capi::is_exact_list(array),
        }
    }
}

/// The members of an object as they are at one moment. Strong references, so whoever walks over them
/// may run Python.
pub fn members<'py>(object: &Bound<'py, PyDict>) -> Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    capi::walk(object, |items| items.map(|(key, value)| (key.own(), value.own())).collect())
}

/// The UTF-8 of a str, with lone surrogates as three bytes each.
#[inline]
pub fn utf8<'a>(text: &'a Bound<'_, PyString>) -> PyResult<Cow<'a, [u8]>> {
    if let capi::Text::Ascii(bytes) = capi::text(text) {
        return Ok(Cow::Borrowed(bytes));
    }
    if let Ok(text) = text.to_str() {
        return Ok(Cow::Borrowed(text.as_bytes()));
    }
    let py = text.py();
    let encode = intern!(py, "encode");
    let bytes = text.call_method1(encode, (intern!(py, "utf-8"), intern!(py, "surrogatepass")))?;
    Ok(Cow::Owned(bytes.cast::<PyBytes>()?.as_bytes().to_vec()))
}

/// The reverse of [`utf8`].
#[inline]
pub fn string<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyString>> {
    if bytes.is_ascii() {
        return Ok(capi::ascii_str(py, bytes)?.cast_into()?);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Ok(PyString::new(py, text));
    }
    let decode = intern!(py, "decode");
    let arguments = (intern!(py, "utf-8"), intern!(py, "surrogatepass"));
    Ok(PyBytes::new(py, bytes).call_method1(decode, arguments)?.cast_into()?)
}

/// The name of a value's type, for messages.
#[cold]
pub fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string())
}
