//! Values that are written to and given out: copied before a write only if somebody else has them.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyTraverseError, PyVisit};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use super::document::{Container, elements, string, utf8};
use super::operation::{Op, Operation, Patch, Refusal};
use super::{patch, pointer, wire};
use crate::capi::{self, DictIter};

/// A JSON document that patches are applied to.
///
/// While nobody else has it, it is patched in place. What was given out never changes: patches then
/// copy the containers on their way, until that has cost as much as a copy of the whole document
/// would. Then such a copy is made, and it is patched in place again.
pub struct Held {
    value: Py<PyAny>,
    is_ours: AtomicBool,
    /// How many members were copied for patches since it was given out last.
    copied: AtomicUsize,
}

impl Held {
    /// A document that nobody else has.
    pub fn ours(value: &Bound<'_, PyAny>) -> Self {
        Self {
            value: value.clone().unbind(),
            is_ours: AtomicBool::new(true),
            copied: AtomicUsize::new(0),
        }
    }

    /// A document that somebody else may have.
    pub fn shared(value: &Bound<'_, PyAny>) -> Self {
        let held = Self::ours(value);
        held.share();
        held
    }

    fn share(&self) {
        self.is_ours.store(false, Relaxed);
        self.copied.store(0, Relaxed);
    }

    /// The document, for somebody who may keep it.
    pub fn give<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.share();
        self.value.bind(py).clone()
    }

    /// The document, to look at.
    pub fn peek<'a, 'py>(&'a self, py: Python<'py>) -> &'a Bound<'py, PyAny> {
        self.value.bind(py)
    }

    /// Another owner of the same document.
    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        Self::shared(&self.give(py))
    }

    /// Applies a patch, whole or not at all. False if `may_be` does not hold of the outcome, which
    /// is not kept then.
    pub fn patch<'py>(
        &mut self,
        py: Python<'py>,
        operations: &Patch<'py>,
        max_values: usize,
        may_be: impl Fn(&Bound<'py, PyAny>) -> bool,
    ) -> Result<bool, Box<Refusal>> {
        if !self.is_ours.load(Relaxed) {
            self.reclaim(py, operations);
        }
        let value = self.value.bind(py).clone();
        // A patch that writes to the root may make something of it that is not kept.
        // There is nothing to write to in a scalar, and None is the same object for everybody.
        let in_place = self.is_ours.load(Relaxed)
            && Container::of(&value).is_some()
            && may_be(&value)
            && !operations.operations.iter().any(writes_to_root);
        let patched = patch::apply(&value, operations, in_place, max_values)?;
        let keep = may_be(&patched);
        if keep {
            self.value = patched.unbind();
        }
        Ok(keep)
    }

    /// Counts what a patch is about to copy, and copies the whole document if that is worth it. The
    /// first patch after the document was given out never does that: it may be given out again
    /// after every patch.
    fn reclaim<'py>(&mut self, py: Python<'py>, operations: &Patch<'py>) {
        let value = self.value.bind(py).clone();
        let before = *self.copied.get_mut();
        let now = before.saturating_add(members_on_the_way(&value, operations));
        *self.copied.get_mut() = now;
        // The size is looked at only when the count has doubled: each look may cost as much as that.
        if before > 0
            && before.ilog2() < now.ilog2()
            && has_at_most(&value, now)
            && let Ok(copy) = wire::own(&value)
        {
            *self = Self::ours(&copy);
        }
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.value)
    }
}

fn writes_to_root(operation: &Operation<'_>) -> bool {
    operation.op != Op::Test && operation.path.is_empty().unwrap_or(false)
        || operation.op == Op::Move
            && operation.from.as_ref().is_some_and(|from| from.is_empty().unwrap_or(false))
}

/// How many members the containers have that a patch copies before it writes.
fn members_on_the_way<'py>(value: &Bound<'py, PyAny>, patch: &Patch<'py>) -> usize {
    let mut seen = HashSet::new();
    let mut count = 1;
    for operation in patch.operations.iter().filter(|operation| operation.op != Op::Test) {
        let from = operation.from.as_ref().filter(|_| operation.op == Op::Move);
        for target in [Some(&operation.path), from].into_iter().flatten() {
            let Ok(target) = utf8(target) else { continue };
            let Ok(tokens) = pointer::tokens(&target) else { continue };
            let mut value = value.clone();
            for token in tokens {
                let Some(container) = Container::of(&value) else { break };
                if seen.insert(value.as_ptr() as usize) {
                    count += container.len();
                }
                let next = match &container {
                    Container::Object(object) => string(object.py(), &pointer::unescape(token))
                        .and_then(|key| object.get_item(key))
                        .ok()
                        .flatten(),
                    Container::Array(array) => pointer::index(token)
                        .and_then(|index| capi::list_item(array, index).as_deref().cloned()),
                };
                let Some(next) = next else { break };
                value = next;
            }
        }
    }
    count
}

/// Whether a document has no more values than `most`; it is not looked at any further than that.
fn has_at_most(value: &Bound<'_, PyAny>, most: usize) -> bool {
    let mut left = most;
    let mut below = vec![value.clone()];
    while let Some(value) = below.pop() {
        let Some(container) = Container::of(&value) else { continue };
        let Some(rest) = left.checked_sub(container.len()) else { return false };
        left = rest;
        match &container {
            Container::Object(object) => below.extend(
                DictIter::new(object)
                    .map(|(_, value)| value.to_owned())
                    .filter(|value| Container::of(value).is_some()),
            ),
            Container::Array(array) => below
                .extend(elements(array).into_iter().filter(|value| Container::of(value).is_some())),
        }
    }
    true
}

/// The `metadata` of an object, which grow key by key.
#[derive(Default)]
pub struct Metadata {
    /// Whether nobody else has the dict.
    is_ours: AtomicBool,
}

impl Metadata {
    /// The dict is given out.
    pub fn share(&self) {
        self.is_ours.store(false, Relaxed);
    }

    /// Merges metadata into those in `fields`, key by key; the last write wins, without recursion.
    pub fn merge(
        &mut self,
        fields: &Bound<'_, PyDict>,
        metadata: &Bound<'_, PyDict>,
    ) -> PyResult<()> {
        let py = fields.py();
        let key = intern!(py, "metadata");
        let added = PyDict::new(py);
        for (key, value) in metadata.copy()? {
            added.set_item(key, wire::own(&value)?)?;
        }
        let merged = match fields.get_item(key)?.map(Bound::cast_into::<PyDict>) {
            Some(Ok(old)) if *self.is_ours.get_mut() => old,
            Some(Ok(old)) => old.copy()?,
            _ => PyDict::new(py),
        };
        merged.update(added.as_mapping())?;
        fields.set_item(key, merged)?;
        *self.is_ours.get_mut() = true;
        Ok(())
    }
}
