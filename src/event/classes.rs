//! The classes that were learned, and a map by identity.

use pyo3::prelude::*;
use pyo3::types::PyType;
use std::sync::OnceLock;

use super::class_info::Cell;
use crate::capi;

/// The learned classes by their key.
#[derive(Default)]
pub struct Classes {
    pub map: PointerMap<&'static Cell>,
    pub cells: Vec<&'static Cell>,
}

impl Classes {
    #[inline]
    pub fn get(&self, key: usize) -> Option<&'static Cell> {
        self.map.get(key)
    }

    pub fn insert(&mut self, class: &Bound<'_, PyType>) -> &'static Cell {
        // Cells live as long as the process, like the classes that they are about.
        let cell: &'static Cell =
            Box::leak(Box::new(Cell { key: capi::class_key(class), info: OnceLock::new() }));
        self.map.insert(class.clone().into_any(), cell);
        self.cells.push(cell);
        cell
    }
}

/// A map from Python objects, by identity. It keeps the objects, so that an address cannot come
/// to mean another one. Open addressing, at most a quarter full.
pub struct PointerMap<T> {
    slots: Vec<Option<(usize, T)>>,
    pub objects: Vec<Py<PyAny>>,
}

impl<T> Default for PointerMap<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), objects: Vec::new() }
    }
}

impl<T: Copy> PointerMap<T> {
    /// Objects are aligned to 16 bytes; Fibonacci hashing takes what is above.
    #[inline]
    fn start(&self, key: usize) -> usize {
        let hash = (key >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize);
        (hash >> (usize::BITS / 2)) & (self.slots.len() - 1)
    }

    #[inline]
    pub fn get(&self, key: usize) -> Option<T> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = self.start(key);
        loop {
            match self.slots[at] {
                Some((found, value)) if found == key => return Some(value),
                Some(_) => at = (at + 1) & (self.slots.len() - 1),
                None => return None,
            }
        }
    }

    pub fn insert(&mut self, object: Bound<'_, PyAny>, value: T) {
        if self.objects.len() * 4 >= self.slots.len() {
            let size = (self.slots.len() * 2).max(64);
            let old = std::mem::replace(&mut self.slots, vec![None; size]);
            for (key, value) in old.into_iter().flatten() {
                self.place(key, value);
            }
        }
        self.place(object.as_ptr() as usize, value);
        self.objects.push(object.unbind());
    }

    fn place(&mut self, key: usize, value: T) {
        let mut at = self.start(key);
        while self.slots[at].is_some() {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = Some((key, value));
    }
}
