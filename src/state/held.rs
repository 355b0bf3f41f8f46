//! Values that are written to and given out: copied before a write only if somebody else has them.
//!
//! Whether somebody has, the reference count tells: what is only in its place is seen by nobody
//! else. So what was given out never changes, and a document that grows by a member at a time while
//! nobody looks is not copied each time.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit};

use super::operation::{Operation, Patch, Refusal};
use super::{patch, wire};
use crate::capi;

/// A JSON document that patches are applied to.
pub struct Held {
    value: Py<PyAny>,
}

impl Held {
    pub fn new(value: &Bound<'_, PyAny>) -> Self {
        Self { value: value.clone().unbind() }
    }

    /// The document as it is now. It does not change any more for whoever keeps it.
    pub fn get<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.value.bind(py).clone()
    }

    /// Another owner of the same document.
    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        Self { value: self.value.clone_ref(py) }
    }

    /// Applies a patch, whole or not at all. False if `may_be` does not hold of the outcome, which
    /// is not kept then.
    pub fn patch<'py>(
        &mut self,
        py: Python<'py>,
        patch: &Patch<'py>,
        max_values: usize,
        may_be: impl Fn(&Bound<'py, PyAny>) -> bool,
    ) -> Result<bool, Box<Refusal>> {
        // Only a patch of the root makes another document, which may not be kept.
        let before = patch.operations.iter().any(Operation::is_of_root).then(|| self.get(py));
        let document = std::mem::replace(&mut self.value, py.None()).into_bound(py);
        let (document, done) = patch::apply_to_own(document, patch, max_values);
        let keep = may_be(&document);
        self.value = before.filter(|_| !keep).unwrap_or(document).unbind();
        done.map(|()| keep)
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.value)
    }
}

/// Merges metadata into those of an object, key by key; the last write wins, without recursion.
/// All or nothing: a value that cannot be copied changes nothing.
pub fn merge_metadata(fields: &Bound<'_, PyDict>, metadata: &Bound<'_, PyDict>) -> PyResult<()> {
    let py = fields.py();
    let key = intern!(py, "metadata");
    let added = PyDict::new(py);
    for (key, value) in metadata.copy()? {
        added.set_item(key, wire::own(&value)?)?;
    }
    let merged = match fields.get_item(key)?.map(Bound::cast_into::<PyDict>) {
        Some(Ok(old)) if capi::is_only_in_its_place(&old) => old,
        Some(Ok(old)) => old.copy()?,
        _ => return fields.set_item(key, added),
    };
    merged.update(added.as_mapping())?;
    fields.set_item(key, merged)
}
