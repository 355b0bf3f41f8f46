//! The lanes that assemble something, found by their owner, by the item, and by what they assemble.
//!
//! A peer decides how many there are, so nothing here walks over them but what closes them all.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::collections::BTreeSet;
use std::sync::OnceLock;

use super::assembly::Assembly;
use super::{Template, same};
use crate::capi;
use crate::event::Form;

/// What one lane assembles at the moment. A lane has at most one item, since a continuation says no
/// more than "the same as before".
pub struct Lane {
    pub owner: Option<Py<PyString>>,
    pub assembly: Assembly,
    pub id: Py<PyAny>,
    pub established: [Option<Py<PyAny>>; 2],
    /// The opener's `subagentRunId`, a forbidden null included, so that verification meets it.
    pub tag: Option<Py<PyAny>>,
    /// How the opener was spelled, and so how its END is.
    pub spelling: Form,
    /// A content event without its text, to be copied: made when the first is asked for.
    pub template: OnceLock<Template>,
}

/// The lanes, each in a slot that it keeps while it is open.
pub struct Lanes {
    /// With how many lanes had opened before it, since slots are used again.
    slots: Vec<Option<(u64, Lane)>>,
    free: Vec<usize>,
    opened: u64,
    /// The slot of each owner, None being the parent agent.
    owners: Py<PyDict>,
    /// The slot of each item, for each assembly. An id that is no str is found by nobody.
    items: [Py<PyDict>; 3],
    /// The slots of each assembly.
    assembling: [BTreeSet<usize>; 3],
    /// The lane that was asked for last. Most chunks continue what the one before continued.
    last: usize,
}

impl Lanes {
    pub fn new(py: Python<'_>) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            opened: 0,
            owners: PyDict::new(py).unbind(),
            items: std::array::from_fn(|_| PyDict::new(py).unbind()),
            assembling: Default::default(),
            last: 0,
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub fn get(&self, slot: usize) -> Option<&Lane> {
        self.slots.get(slot)?.as_ref().map(|(_, lane)| lane)
    }

    /// The only lane that is open, if there is only one.
    #[inline]
    pub fn only(&self) -> Option<&Lane> {
        if self.len() == 1 { self.get(self.last) } else { None }
    }

    /// The lane that was asked for last, if it assembles this item.
    #[inline]
    pub fn current(&self, assembly: Assembly, id: &Bound<'_, PyAny>) -> Option<&Lane> {
        let lane = self.get(self.last)?;
        (lane.assembly == assembly && same(lane.id.bind(id.py()), id)).then_some(lane)
    }

    /// Where this item is assembled.
    pub fn holder(&mut self, assembly: Assembly, id: &Bound<'_, PyAny>) -> Option<usize> {
        if self.current(assembly, id).is_some() {
            return Some(self.last);
        }
        let id = capi::plain_str(id.cast().ok()?).ok()?;
        let slot = slot_of(&self.items[assembly as usize], &id)?;
        self.last = slot;
        Some(slot)
    }

    /// The lane of an owner.
    pub fn of(&self, py: Python<'_>, owner: Option<&Bound<'_, PyString>>) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        match owner {
            Some(owner) => slot_of(&self.owners, capi::plain_str(owner).ok()?.as_any()),
            None => slot_of(&self.owners, py.None().bind(py)),
        }
    }

    /// One of the lanes that assemble this, and how many do.
    pub fn assembling(&self, assembly: Assembly) -> Option<(usize, usize)> {
        let slots = &self.assembling[assembly as usize];
        slots.first().map(|first| (*first, slots.len()))
    }

    /// Opens a lane. Its owner has none, and nobody assembles its item.
    pub fn open(&mut self, py: Python<'_>, lane: Lane) -> PyResult<usize> {
        let slot = self.free.last().copied().unwrap_or(self.slots.len());
        self.owners.bind(py).set_item(&lane.owner, slot)?;
        if let Ok(id) = lane.id.bind(py).cast::<PyString>() {
            let id = capi::plain_str(id)?;
            self.items[lane.assembly as usize].bind(py).set_item(id, slot)?;
        }
        self.assembling[lane.assembly as usize].insert(slot);
        let lane = Some((self.opened, lane));
        self.opened += 1;
        match self.free.pop() {
            Some(slot) => self.slots[slot] = lane,
            None => self.slots.push(lane),
        }
        self.last = slot;
        Ok(slot)
    }

    pub fn close(&mut self, py: Python<'_>, slot: usize) -> PyResult<Option<Lane>> {
        let Some((_, lane)) = self.slots.get_mut(slot).and_then(Option::take) else {
            return Ok(None);
        };
        self.free.push(slot);
        self.assembling[lane.assembly as usize].remove(&slot);
        self.owners.bind(py).del_item(&lane.owner)?;
        if let Ok(id) = lane.id.bind(py).cast::<PyString>() {
            self.items[lane.assembly as usize].bind(py).del_item(capi::plain_str(id)?)?;
        }
        self.settle();
        Ok(Some(lane))
    }

    /// Closes all lanes, and gives them in the order in which they opened.
    pub fn close_all(&mut self, py: Python<'_>) -> Vec<Lane> {
        let mut lanes: Vec<_> = std::mem::take(&mut self.slots).into_iter().flatten().collect();
        lanes.sort_by_key(|(opened, _)| *opened);
        self.free.clear();
        self.owners.bind(py).clear();
        for (items, assembling) in self.items.iter().zip(&mut self.assembling) {
            items.bind(py).clear();
            assembling.clear();
        }
        lanes.into_iter().map(|(_, lane)| lane).collect()
    }

    /// Points `last` at the only lane, if one is left.
    fn settle(&mut self) {
        if self.len() == 1 {
            let left = self.assembling.iter().find_map(|slots| slots.first());
            self.last = left.copied().unwrap_or(0);
        }
    }
}

fn slot_of(slots: &Py<PyDict>, key: &Bound<'_, PyAny>) -> Option<usize> {
    let slots = slots.bind(key.py());
    slots.get_item(key).ok()??.extract().ok()
}
