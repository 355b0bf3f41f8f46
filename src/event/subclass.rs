//! Subclasses of the SDK's event classes. One that adds no field, serializer, validator or config
//! is written as its base is: its core schema is that of the base but for its name. Every other is
//! left to pydantic.
//!
//! A verdict is kept by the class's address, with a weak reference, so that classes can be
//! collected, and goes for one version of the class; see [`ClassInfo::is_current`].

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::RwLockExt;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType, PyWeakrefReference};
use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use super::class_info::{ClassInfo, dumps_as_pydantic_does, is_made_as_pydantic_does};
use super::learn::{Schema, get, root};
use super::registry::registry;
use crate::capi;

struct Verdict {
    class: Py<PyWeakrefReference>,
    version: u32,
    /// How often the class has changed. One that changes with every event is no longer looked at.
    changes: u8,
    like: Option<Like>,
}

/// What serves for a subclass.
#[derive(Clone, Copy)]
struct Like {
    /// What is known of its base.
    info: &'static ClassInfo,
    /// Whether instances can be made as those of the base are.
    is_made_alike: bool,
}

/// So often a class may change.
const MOST_CHANGES: u8 = 16;

#[derive(Default)]
struct Verdicts {
    by_class: HashMap<usize, Verdict>,
    /// At this many the dead ones are removed. Twice as many as were alive then: so the work for
    /// each class made is constant, and memory is bounded by the classes that are alive.
    sweep_at: usize,
}

static VERDICTS: LazyLock<RwLock<Verdicts>> = LazyLock::new(RwLock::default);

/// What serves for the instances of a class that is not in the registry.
#[inline]
fn like(class: &Bound<'_, PyType>) -> Option<Like> {
    let base = registry().base_event.key;
    if capi::is_subtype(capi::class_key(class), base) { event_class(class) } else { None }
}

/// How the instance of a class that is not in the registry is written.
#[inline]
pub fn info_like(object: &Bound<'_, PyAny>) -> Option<&'static ClassInfo> {
    if capi::is_exact_dict(object) {
        return None;
    }
    like(&object.get_type()).map(|like| like.info).filter(|info| info.is_current())
}

/// How instances of a class that is not in the registry are made.
pub fn made_like(class: &Bound<'_, PyType>) -> Option<&'static ClassInfo> {
    let like = like(class).filter(|like| like.is_made_alike)?;
    Some(like.info).filter(|info| info.is_current())
}

fn event_class(class: &Bound<'_, PyType>) -> Option<Like> {
    let key = capi::class_key(class);
    let mut changes = 0;
    {
        let verdicts =
            VERDICTS.read_py_attached(class.py()).unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = verdicts.by_class.get(&key)
            && known.class.bind(class.py()).upgrade().is_some_and(|it| it.is(class))
        {
            let version = capi::type_version(key);
            if known.changes == MOST_CHANGES || version != 0 && version == known.version {
                return known.like;
            }
            changes = known.changes + 1;
        }
    }
    judge_anew(class, changes)
}

#[cold]
fn judge_anew(class: &Bound<'_, PyType>, changes: u8) -> Option<Like> {
    let key = capi::class_key(class);
    // Judging asks the class for what it leaves out, and the class keeps its answer as an
    // attribute: so the second time nothing changes, unless Python code of the class does it.
    for _ in 0..2 {
        // The look-up gives the class a version, if it can still have one.
        let _ = class.getattr(intern!(class.py(), "__pydantic_serializer__"));
        let version = capi::type_version(key);
        let changes = if version == 0 { MOST_CHANGES } else { changes };
        let like = if changes < MOST_CHANGES { judge(class).unwrap_or(None) } else { None };
        if version == capi::type_version(key) {
            let py = class.py();
            let class = PyWeakrefReference::new(class).ok()?.unbind();
            let verdict = Verdict { class, version, changes, like };
            let verdicts = VERDICTS.write_py_attached(py);
            verdicts.unwrap_or_else(PoisonError::into_inner).insert(py, key, verdict);
            return like;
        }
    }
    None
}

impl Verdicts {
    fn insert(&mut self, py: Python<'_>, key: usize, verdict: Verdict) {
        const FEW: usize = 64;
        if self.by_class.len() >= self.sweep_at.max(FEW) {
            self.by_class.retain(|_, known| known.class.bind(py).upgrade().is_some());
            self.sweep_at = 2 * self.by_class.len();
        }
        self.by_class.insert(key, verdict);
    }
}

/// What serves for a class: the first of its bases that is an event class of the SDK, if the class
/// adds nothing to it.
fn judge(class: &Bound<'_, PyType>) -> PyResult<Option<Like>> {
    let py = class.py();
    let bases = class.mro();
    let known = |base: Bound<'_, PyAny>| registry().info(base.as_ptr() as usize);
    let Some(info) = bases.iter().find_map(known).filter(|info| info.kind.is_some()) else {
        return Ok(None);
    };
    let base = info.class.bind(py);
    let its_bases = base.mro();
    for added in bases.iter().filter(|added| !its_bases.iter().any(|it| it.is(added))) {
        // The serializer reads instances by attributes that a class may make into something else.
        let names = added.getattr(intern!(py, "__dict__"))?;
        for name in ["__getattribute__", "__pydantic_extra__"] {
            if names.contains(name)? {
                return Ok(None);
            }
        }
        // Every class in Python that has no base in Python has a `__dict__` of its own, which is the
        // instance's.
        if names.contains("__dict__")? {
            let class = names.get_item("__dict__")?.get_type();
            if class.name()? != "getset_descriptor" {
                return Ok(None);
            }
        }
    }
    let schema = class.getattr(intern!(py, "__pydantic_core_schema__"))?;
    let made_from_schema = |name: &str| -> PyResult<bool> {
        // (class, (schema, config))
        let parts = class.getattr(name)?.call_method0(intern!(py, "__reduce__"))?;
        Ok(parts.get_item(1)?.get_item(0)?.is(&schema))
    };
    if !dumps_as_pydantic_does(class)?
        || !info.omits_as_learned(class)?
        || !made_from_schema("__pydantic_serializer__")?
        || !same_models(&schema, &base.getattr(intern!(py, "__pydantic_core_schema__"))?)?
    {
        return Ok(None);
    }
    let is_made_alike = is_made_as_pydantic_does(class)?
        && made_from_schema("__pydantic_validator__").unwrap_or(false);
    Ok(Some(Like { info, is_made_alike }))
}

/// Whether the core schemas of two models differ in nothing but the models' names.
fn same_models(one: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
    let ((one, one_shared), (other, other_shared)) = (apart(one)?, apart(other)?);
    let same_part = |key: &str, but: &str| -> PyResult<bool> {
        same_but(get(&one, key)?.cast()?, get(&other, key)?.cast()?, &[but])
    };
    Ok(same_but(&one, &other, &["cls", "ref", "config", "schema"])?
        && same_part("config", "title")?
        && same_part("schema", "model_name")?
        && same_but(&one_shared, &other_shared, &[])?)
}

/// The model that a schema is of, and the shared parts but for the model itself.
fn apart<'py>(schema: &Bound<'py, PyAny>) -> PyResult<(Schema<'py>, Bound<'py, PyDict>)> {
    let (model, shared) = root(schema.cast()?)?;
    if let Some(name) = model.get_item("ref")?
        && shared.contains(&name)?
    {
        shared.del_item(name)?;
    }
    Ok((model, shared))
}

/// Whether two nodes are equal but for these keys.
fn same_but(one: &Bound<'_, PyDict>, other: &Bound<'_, PyDict>, but: &[&str]) -> PyResult<bool> {
    let matters = |key: &Bound<'_, PyAny>| -> PyResult<bool> {
        let key = key.cast::<PyString>()?.to_str()?;
        // Metadata are about JSON schemas.
        Ok(key != "metadata" && !but.contains(&key))
    };
    for key in other.keys() {
        if matters(&key)? && !one.contains(&key)? {
            return Ok(false);
        }
    }
    for (key, value) in one.copy()? {
        if matters(&key)? {
            match other.get_item(&key)? {
                Some(theirs) if same(&value, &theirs)? => {}
                _ => return Ok(false),
            }
        }
    }
    Ok(true)
}

fn same(one: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
    if one.is(other) {
        return Ok(true);
    }
    if let (Ok(one), Ok(other)) = (one.cast::<PyDict>(), other.cast::<PyDict>()) {
        return same_but(one, other, &[]);
    }
    let is_sequence =
        |it: &Bound<'_, PyAny>| it.is_instance_of::<PyList>() || it.is_instance_of::<PyTuple>();
    if is_sequence(one) && is_sequence(other) {
        if one.len()? != other.len()? {
            return Ok(false);
        }
        for (one, other) in one.try_iter()?.zip(other.try_iter()?) {
            if !same(&one?, &other?)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    Ok(one.get_type().is(other.get_type()) && one.eq(other)?)
}
