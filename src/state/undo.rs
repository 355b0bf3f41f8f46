//! Taking back what a patch did in place, and noticing what others did meanwhile.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::{Mutex, PoisonError};

use super::document::{Container, members, utf8};
use crate::capi;

/// One change, with what is needed to take it back.
pub enum Change<'py> {
    /// The document is another one: the one before.
    Root(Bound<'py, PyAny>),
    /// A member was set: the value before, if there was one, and the value now.
    Set(Bound<'py, PyDict>, Bound<'py, PyString>, Option<Bound<'py, PyAny>>, Bound<'py, PyAny>),
    /// A member was removed: its value.
    Removed(Bound<'py, PyDict>, Bound<'py, PyString>, Bound<'py, PyAny>),
    /// An element was replaced: the value before and the value now.
    SetItem(Bound<'py, PyList>, usize, Bound<'py, PyAny>, Bound<'py, PyAny>),
    /// An element was inserted: its value.
    Inserted(Bound<'py, PyList>, usize, Bound<'py, PyAny>),
    /// An element was removed: its value.
    RemovedItem(Bound<'py, PyList>, usize, Bound<'py, PyAny>),
}

impl<'py> Change<'py> {
    fn container(&self) -> Option<Container<'py>> {
        match self {
            Self::Root(_) => None,
            Self::Set(object, ..) | Self::Removed(object, ..) => {
                Some(Container::Object(object.clone()))
            }
            Self::SetItem(array, ..) | Self::Inserted(array, ..) | Self::RemovedItem(array, ..) => {
                Some(Container::Array(array.clone()))
            }
        }
    }
}

/// A container that was changed.
struct Touched<'py> {
    container: Container<'py>,
    /// How many members the last change left it with.
    len: usize,
    /// The keys in their order, from before the first member was removed. A dict has no cheaper way
    /// to say where a member stood.
    order: Option<Bound<'py, PyList>>,
    /// Of these keys, those of a subclass of str, by their texts.
    spelled: HashMap<Vec<u8>, Bound<'py, PyAny>>,
    /// Somebody else took everything out of it: nothing is put back into it then.
    was_emptied: bool,
}

/// The changes so far, in order.
///
/// Python code that runs during a patch (a comparison, a copy), or another thread, may change the
/// document. What it did then stays: a change is taken back only where the document still has what
/// the change left there.
#[derive(Default)]
pub struct UndoLog<'py> {
    changes: Vec<Change<'py>>,
    /// By their addresses, which do not change while they are kept here.
    touched: HashMap<usize, Touched<'py>, BuildHasherDefault<DefaultHasher>>,
}

impl<'py> UndoLog<'py> {
    /// Notes a change, which leaves its container with `len` members.
    pub fn push(&mut self, change: Change<'py>, len: usize) {
        if let Some(container) = change.container() {
            self.touch(container).len = len;
        }
        self.changes.push(change);
    }

    /// Keeps the order of an object from which a member is to be removed.
    pub fn keep_order(&mut self, object: &Bound<'py, PyDict>) {
        let touched = self.touch(Container::Object(object.clone()));
        if touched.order.is_none() {
            touched.order = Some(object.keys());
        }
    }

    fn touch(&mut self, container: Container<'py>) -> &mut Touched<'py> {
        let address = container.as_any().as_ptr() as usize;
        self.touched.entry(address).or_insert_with(|| {
            let len = container.len();
            let (order, spelled) = (None, HashMap::new());
            Touched { container, len, order, spelled, was_emptied: false }
        })
    }

    /// Whether the containers that were changed have as many members as they were left with.
    pub fn is_undisturbed(&self) -> bool {
        self.touched.values().all(|touched| touched.container.len() == touched.len)
    }

    /// Takes everything back, the last change first, as far as Python lets it.
    #[cold]
    pub fn roll_back(&mut self, root: &mut Bound<'py, PyAny>) -> PyResult<()> {
        for touched in self.touched.values_mut() {
            touched.was_emptied = touched.len > 0 && touched.container.len() == 0;
            for key in touched.order.iter().flat_map(capi::list_items) {
                if let Ok(text) = key.cast::<PyString>()
                    && !capi::is_exact_str(&key)
                {
                    touched.spelled.insert(utf8(text)?.into_owned(), key);
                }
            }
        }
        let mut done = Ok(());
        for change in self.changes.iter().rev() {
            done = done.and(self.take_back(change, root));
        }
        for touched in self.touched.values() {
            if let (Container::Object(object), Some(order)) = (&touched.container, &touched.order) {
                done = done.and(reorder(object, order));
            }
        }
        done
    }

    fn take_back(&self, change: &Change<'py>, root: &mut Bound<'py, PyAny>) -> PyResult<()> {
        match change {
            Change::Root(old) => *root = old.clone(),
            Change::Set(object, key, old, new) => {
                if object.get_item(key)?.is_some_and(|value| value.is(new)) {
                    match old {
                        Some(old) => object.set_item(key, old)?,
                        None => object.del_item(key)?,
                    }
                }
            }
            Change::Removed(object, key, old) => {
                if !self.was_emptied(object) && !object.contains(key)? {
                    object.set_item(self.original(object, key)?, old)?;
                }
            }
            Change::SetItem(array, index, old, new) => {
                if let Some(index) = position(array, *index, new) {
                    array.set_item(index, old)?;
                }
            }
            Change::Inserted(array, index, new) => {
                if let Some(index) = position(array, *index, new) {
                    array.del_item(index)?;
                }
            }
            Change::RemovedItem(array, index, old) => {
                if !self.was_emptied(array) {
                    array.insert((*index).min(array.len()), old)?;
                }
            }
        }
        Ok(())
    }

    fn was_emptied(&self, container: &Bound<'py, PyAny>) -> bool {
        let touched = self.touched.get(&(container.as_ptr() as usize));
        touched.is_some_and(|touched| touched.was_emptied)
    }

    /// The key under which a member stood, which may be an instance of a subclass of str.
    fn original(
        &self,
        object: &Bound<'py, PyDict>,
        key: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let touched = self.touched.get(&(object.as_ptr() as usize));
        if let Some(touched) = touched
            && !touched.spelled.is_empty()
            && let Some(original) = touched.spelled.get(&*utf8(key)?)
        {
            return Ok(original.clone());
        }
        Ok(key.clone().into_any())
    }
}

/// Where a value is that was put at `index`; others may have moved it.
fn position(array: &Bound<'_, PyList>, index: usize, value: &Bound<'_, PyAny>) -> Option<usize> {
    let items = capi::list_items(array);
    if items.get(index).is_some_and(|item| item.is(value)) {
        return Some(index);
    }
    items.iter().position(|item| item.is(value))
}

/// Brings the members of an object into the order of `keys`; others stay behind them. An object with
/// keys that may run Python stays as it is: order means nothing in JSON, and a member could be lost.
fn reorder<'py>(object: &Bound<'py, PyDict>, keys: &Bound<'py, PyList>) -> PyResult<()> {
    let now = members(object);
    if !now.iter().all(|(key, _)| capi::is_exact_str(key)) {
        return Ok(());
    }
    let mut places = HashMap::with_capacity(keys.len());
    for (place, key) in capi::list_items(keys).iter().enumerate() {
        if let Ok(key) = key.cast::<PyString>() {
            places.insert(utf8(key)?.into_owned(), place);
        }
    }
    let mut sorted = Vec::with_capacity(now.len());
    for (at, (key, value)) in now.iter().enumerate() {
        let text = utf8(key.cast::<PyString>()?)?;
        sorted.push((places.get(&*text).copied().unwrap_or(places.len()), at, key, value));
    }
    sorted.sort_unstable_by_key(|&(place, at, ..)| (place, at));
    let moved = sorted.iter().enumerate().position(|(to, &(_, at, ..))| to != at);
    for &(_, _, key, value) in &sorted[moved.unwrap_or(sorted.len())..] {
        object.del_item(key)?;
        object.set_item(key, value)?;
    }
    Ok(())
}

/// The documents that are being patched in place.
static BUSY: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// A document that is being patched in place, by nobody else until this is dropped.
pub struct Claim(usize);

impl Claim {
    /// None if somebody patches the document already: another thread, or the caller's caller.
    pub fn on(document: &Bound<'_, PyAny>) -> Option<Self> {
        let address = document.as_ptr() as usize;
        let mut busy = BUSY.lock().unwrap_or_else(PoisonError::into_inner);
        if busy.contains(&address) {
            return None;
        }
        busy.push(address);
        Some(Self(address))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut busy = BUSY.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = busy.iter().position(|&address| address == self.0) {
            busy.swap_remove(at);
        }
    }
}
