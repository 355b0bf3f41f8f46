//! Taking back what a patch did in place.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::capi::DictIter;

/// One change, with what is needed to take it back.
pub enum Change<'py> {
    Root(Bound<'py, PyAny>),
    /// A member was set: the value before, if there was one.
    Set(Bound<'py, PyDict>, Bound<'py, PyString>, Option<Bound<'py, PyAny>>),
    /// A member was removed, which stood before so many others.
    Removed(Bound<'py, PyDict>, Bound<'py, PyString>, Bound<'py, PyAny>, usize),
    SetItem(Bound<'py, PyList>, usize, Bound<'py, PyAny>),
    Inserted(Bound<'py, PyList>, usize),
    RemovedItem(Bound<'py, PyList>, usize, Bound<'py, PyAny>),
}

/// The changes so far, in order.
#[derive(Default)]
pub struct UndoLog<'py> {
    changes: Vec<Change<'py>>,
}

impl<'py> UndoLog<'py> {
    pub fn push(&mut self, change: Change<'py>) {
        self.changes.push(change);
    }

    /// Takes everything back, the last change first.
    #[cold]
    pub fn roll_back(self, root: &mut Bound<'py, PyAny>) -> PyResult<()> {
        for change in self.changes.into_iter().rev() {
            match change {
                Change::Root(old) => *root = old,
                Change::Set(object, key, Some(old)) => object.set_item(key, old)?,
                Change::Set(object, key, None) => object.del_item(key)?,
                Change::Removed(object, key, value, after) => {
                    restore(&object, &key, &value, after)?;
                }
                Change::SetItem(array, index, old) => array.set_item(index, old)?,
                Change::Inserted(array, index) => array.del_item(index)?,
                Change::RemovedItem(array, index, old) => array.insert(index, old)?,
            }
        }
        Ok(())
    }
}

/// How many members stand behind the one under `key`. A dict has no cheaper way to keep its order.
pub fn members_behind(object: &Bound<'_, PyDict>, key: &Bound<'_, PyString>) -> usize {
    let mut items = DictIter::new(object);
    let found = items.position(|(other, _)| {
        // A key that is no str may run Python when compared, and is never the one.
        other.is(key) || (other.is_instance_of::<PyString>() && other.eq(key).unwrap_or(false))
    });
    found.map_or(0, |position| object.len() - position - 1)
}

/// Puts a member back with so many others behind it.
fn restore<'py>(
    object: &Bound<'py, PyDict>,
    key: &Bound<'py, PyString>,
    value: &Bound<'py, PyAny>,
    behind: usize,
) -> PyResult<()> {
    let members: Vec<_> = object.iter().collect();
    object.set_item(key, value)?;
    for (key, value) in &members[members.len().saturating_sub(behind)..] {
        object.del_item(key)?;
        object.set_item(key, value)?;
    }
    Ok(())
}
