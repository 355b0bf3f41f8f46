//! Deep copies: what is taken from a patch, an event or a document shares nothing with it.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use super::document::{Kind, is_scalar};
use crate::capi;
use crate::event::{ClassInfo, registry};

/// Why there is no copy.
#[derive(Debug)]
pub enum Uncopied {
    /// More levels than there is room for; a value that holds itself has no end of them.
    TooDeep,
    /// More values than may be made.
    TooMany,
    Raised(PyErr),
}

impl From<PyErr> for Uncopied {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl Uncopied {
    pub fn into_parts(self) -> (String, Option<PyErr>) {
        match self {
            Self::TooDeep => (super::too_deep(), None),
            Self::TooMany => ("too many values".to_owned(), None),
            Self::Raised(error) => ("a value cannot be copied".to_owned(), Some(error)),
        }
    }
}

/// A copy that shares only what cannot change. Dicts and lists become plain ones; the models of the
/// SDK are copied here, any other object by `copy.deepcopy`. `room` is how many levels of
/// containers the value may have.
pub fn deep_copy<'py>(value: &Bound<'py, PyAny>, room: u32) -> Result<Bound<'py, PyAny>, Uncopied> {
    Copier { left: usize::MAX }.copy(value, room)
}

/// Makes copies, up to a number of values.
pub struct Copier {
    /// How many values may still be made: scalars, containers, and objects of other classes.
    pub left: usize,
}

impl Copier {
    /// [`deep_copy`] of one value.
    pub fn copy<'py>(
        &mut self,
        value: &Bound<'py, PyAny>,
        room: u32,
    ) -> Result<Bound<'py, PyAny>, Uncopied> {
        self.take(1)?;
        self.below(value, room)
    }

    /// Counts values before they are made.
    fn take(&mut self, count: usize) -> Result<(), Uncopied> {
        self.left = self.left.checked_sub(count).ok_or(Uncopied::TooMany)?;
        Ok(())
    }

    /// The copy of a value that has been counted already.
    fn below<'py>(
        &mut self,
        value: &Bound<'py, PyAny>,
        room: u32,
    ) -> Result<Bound<'py, PyAny>, Uncopied> {
        if is_scalar(value) {
            return Ok(value.clone());
        }
        let room = room.checked_sub(1);
        match Kind::of(value) {
            Kind::Object(object) => {
                let room = room.ok_or(Uncopied::TooDeep)?;
                Ok(self.object(object, room)?.into_any())
            }
            Kind::Array(array) => {
                let room = room.ok_or(Uncopied::TooDeep)?;
                let len = array.len();
                self.take(len)?;
                // The slice is ours alone: nobody changes it meanwhile.
                let copy = capi::copy_list(array, len)?;
                for index in 0..copy.len() {
                    let Some(item) = capi::list_get(&copy, index) else { break };
                    if !is_scalar(&item) {
                        copy.set_item(index, self.below(&item, room)?)?;
                    }
                }
                Ok(copy.into_any())
            }
            Kind::Other => match registry().info(capi::type_key(value)) {
                Some(info) => self.model(value, info, room.ok_or(Uncopied::TooDeep)?),
                None => Ok(python_deepcopy(value)?),
            },
            // Subclasses of str and of numbers cannot change either.
            Kind::Null | Kind::Bool | Kind::Int | Kind::Float | Kind::Text(_) => Ok(value.clone()),
        }
    }

    /// A plain dict with copies of the values; they may have `room` levels.
    fn object<'py>(
        &mut self,
        object: &Bound<'py, PyDict>,
        room: u32,
    ) -> Result<Bound<'py, PyDict>, Uncopied> {
        self.take(object.len())?;
        let copy = object.copy()?;
        // Ours alone, and only values under keys that it has are set, so it keeps its layout.
        capi::walk(&copy, |items| {
            for (key, value) in items {
                if !value.read(is_scalar) {
                    let (key, value) = (key.own(), value.own());
                    copy.set_item(key, self.below(&value, room)?)?;
                }
            }
            Ok::<_, Uncopied>(())
        })?;
        Ok(copy)
    }

    fn model<'py>(
        &mut self,
        model: &Bound<'py, PyAny>,
        info: &'static ClassInfo,
        room: u32,
    ) -> Result<Bound<'py, PyAny>, Uncopied> {
        let py = model.py();
        let registry = registry();
        let slot = |descriptor: &Py<PyAny>| capi::slot(descriptor.bind(py), model);
        let (Some(fields), Some(extra), Some(given), Some(private)) = (
            capi::instance_dict(model),
            slot(&registry.extra),
            slot(&registry.fields_set),
            slot(&registry.private),
        ) else {
            return Ok(python_deepcopy(model)?);
        };
        let fields = self.object(&fields, room)?;
        let extra = self.below(&extra, room)?;
        let given = given.call_method0(intern!(py, "copy"))?;
        let slots = [
            (registry.extra.bind(py), &extra),
            (registry.fields_set.bind(py), &given),
            (registry.private.bind(py), &private),
        ];
        Ok(capi::new_model(info.class.bind(py), &fields, slots)?)
    }
}

#[cold]
fn python_deepcopy<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static DEEPCOPY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    capi::import_once(&DEEPCOPY, value.py(), "copy", "deepcopy")?.call1((value,))
}
