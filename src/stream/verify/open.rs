//! What is open in a run, and whose it is.
//!
//! Ids are keys of Python dicts: these keep the order in which things opened, know the hash of a
//! str that they have seen, and take any str, lone surrogates included. All keys are plain strs,
//! so that looking them up runs no Python code.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::capi;
use crate::stream::quoted;

/// The open items of one sort, in order of opening.
pub struct Open {
    /// What one is called in messages.
    pub noun: &'static str,
    ids: Py<PyDict>,
    /// The one that was asked for last. Most events continue what the one before continued, and
    /// comparing two ids takes a fraction of hashing one.
    last: Option<Py<PyString>>,
}

impl Open {
    pub fn new(py: Python<'_>, noun: &'static str) -> Self {
        Self { noun, ids: PyDict::new(py).unbind(), last: None }
    }

    #[inline]
    pub fn has(&mut self, id: &Bound<'_, PyString>) -> bool {
        let py = id.py();
        if self.last.as_ref().is_some_and(|last| capi::same_text(last.bind(py), id)) {
            return true;
        }
        let found = capi::dict_get(self.ids.bind(py), id).is_some();
        if found {
            self.last = Some(id.clone().unbind());
        }
        found
    }

    pub fn insert(&mut self, id: &Bound<'_, PyString>) -> PyResult<()> {
        self.ids.bind(id.py()).set_item(id, id)
    }

    pub fn remove(&mut self, id: &Bound<'_, PyString>) -> PyResult<()> {
        self.last = None;
        self.ids.bind(id.py()).del_item(id)
    }

    pub fn clear(&mut self, py: Python<'_>) {
        self.last = None;
        self.ids.bind(py).clear();
    }

    pub fn list<'py>(&self, py: Python<'py>) -> Bound<'py, PyList> {
        self.ids.bind(py).keys()
    }

    /// The ids, in order of opening.
    pub fn ids<'py>(&self, py: Python<'py>) -> impl Iterator<Item = Bound<'py, PyString>> {
        let ids = self.ids.bind(py).clone();
        ids.into_iter().filter_map(|(id, _)| id.cast_into().ok())
    }

    /// `text message 'a'`, or `text messages 'a', 'b'`; None if nothing is open.
    #[cold]
    pub fn text(&self, py: Python<'_>) -> Option<String> {
        let names: Vec<_> = self.ids(py).take(SHOWN).map(|id| quoted(&id)).collect();
        named(self.noun, &names, self.len(py))
    }

    #[inline]
    pub fn len(&self, py: Python<'_>) -> usize {
        self.ids.bind(py).len()
    }

    #[inline]
    pub fn is_empty(&self, py: Python<'_>) -> bool {
        self.ids.bind(py).is_empty()
    }
}

/// How many things a message names.
pub const SHOWN: usize = 5;

/// The first of so many things with what they are called; None if there are none.
pub fn named(noun: &str, things: &[String], count: usize) -> Option<String> {
    let more = count.saturating_sub(things.len());
    let plural = if count == 1 { "" } else { "s" };
    let list = things.join(", ");
    match (things.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(format!("{noun}{plural} {list}")),
        (false, more) => Some(format!("{noun}{plural} {list} and {more} more")),
    }
}

/// The owners of the items of one sort: a `subagentRunId`, or the parent agent. They are kept for
/// the whole run, also when an item has closed, since a later event may name it again.
pub struct Owners(Py<PyDict>);

/// An owner: a subagent's id, or None for the parent agent.
pub type Owner<'py> = Option<Bound<'py, PyString>>;

impl Owners {
    pub fn new(py: Python<'_>) -> Self {
        Self(PyDict::new(py).unbind())
    }

    /// The owner of an item, if the item is known.
    #[inline]
    pub fn get<'py>(&self, id: &Bound<'py, PyString>) -> Option<Owner<'py>> {
        let owner = capi::dict_get(self.0.bind(id.py()), id)?;
        Some(owner.cast_into::<PyString>().ok())
    }

    #[inline]
    pub fn len(&self, py: Python<'_>) -> usize {
        self.0.bind(py).len()
    }

    pub fn set(&self, id: &Bound<'_, PyString>, owner: &Owner<'_>) -> PyResult<()> {
        self.0.bind(id.py()).set_item(id, owner)
    }

    /// Gives an item that has no owner yet this one.
    pub fn set_new(&self, id: &Bound<'_, PyString>, owner: &Owner<'_>) -> PyResult<()> {
        let owners = self.0.bind(id.py());
        if !owners.contains(id)? {
            owners.set_item(id, owner)?;
        }
        Ok(())
    }

    pub fn clear(&mut self, py: Python<'_>) {
        self.0.bind(py).clear();
    }
}
