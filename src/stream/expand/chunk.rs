//! Reading a chunk.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::assembly::Assembly;
use crate::event::{Entry, Key, Unsupported, keys};
use crate::stream::Item;

/// What a chunk says.
#[derive(Default)]
pub struct Chunk<'py> {
    pub id: Option<Bound<'py, PyAny>>,
    pub established: [Option<Bound<'py, PyAny>>; 2],
    pub delta: Option<Bound<'py, PyAny>>,
    pub metadata: Option<Bound<'py, PyAny>>,
    pub raw_event: Option<Bound<'py, PyAny>>,
    pub tag: Option<Bound<'py, PyAny>>,
    /// What the protocol does not describe. Enforcement has had its say already where it runs;
    /// where it comes later it must find it.
    pub rest: Vec<(Bound<'py, PyString>, Bound<'py, PyAny>)>,
}

impl<'py> Chunk<'py> {
    pub fn read(item: &Item<'py>, assembly: Assembly) -> PyResult<Self> {
        let py = item.event.py();
        let keys = keys(py);
        // A null in a wire dict is absence here, but for the tag: enforcement has judged the
        // others, and this one verification has to see.
        let read = |key: &Key| item.view.read_seen(key, item.presence);
        let get = |key: &Key| read(key).filter(|value| !value.is_none());
        let mut chunk = Self {
            id: get(assembly.id(py)),
            established: assembly.established(py).map(|key| key.and_then(get)),
            delta: get(&keys.delta),
            metadata: get(&keys.metadata),
            raw_event: get(&keys.raw_event),
            tag: read(&keys.subagent_run_id),
            rest: Vec::new(),
        };
        if item.presence.is_some() {
            // It has no key that is not described.
            return Ok(chunk);
        }
        item.view
            .entries(|entry| {
                if let Entry::Extra(key, value) = entry {
                    chunk.rest.push((key.clone(), value.clone()));
                }
                Ok(())
            })
            .map_err(|Unsupported| {
                PyTypeError::new_err("a chunk that cannot be read as an event")
            })?;
        Ok(chunk)
    }

    pub fn tag_str(&self) -> Option<&Bound<'py, PyString>> {
        self.tag.as_ref().and_then(|tag| tag.cast::<PyString>().ok())
    }
}
