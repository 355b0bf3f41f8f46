//! Whose the messages are that a stream replays.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use super::open::{Owner, Owners};
use super::{EventVerifier, Room, Verdict, tag_str};
use crate::capi;
use crate::event::{Key, keys};
use crate::stream::{Item, quoted};

/// The sorts of things that have owners.
#[derive(Clone, Copy)]
enum Owned {
    Text,
    Tool,
    Activity,
    Reasoning,
}

/// The owners that replayed messages have, their tool calls included.
pub(super) struct Seeds<'py>(Vec<(Owned, Bound<'py, PyString>, Owner<'py>)>);

impl<'py> Seeds<'py> {
    /// Reads a list of messages. What is no message is for enforcement to judge.
    pub(super) fn of(messages: Option<&Bound<'py, PyAny>>) -> Verdict<Self> {
        let mut seeds = Vec::new();
        let messages = messages.and_then(|messages| messages.cast::<PyList>().ok());
        for message in messages.into_iter().flatten() {
            let keys = keys(message.py());
            let Some(id) = str_of(&keys.id, &message)? else { continue };
            let owner = match keys.subagent_run_id.of(&message) {
                Some(tag) => Some(tag_str(&tag, &format!("message {}'s", quoted(&id)))?),
                None => None,
            };
            let role = str_of(&keys.role, &message)?;
            let sort = match role.as_ref().and_then(|role| role.to_str().ok()) {
                Some("reasoning") => Owned::Reasoning,
                Some("activity") => Owned::Activity,
                _ => Owned::Text,
            };
            seeds.push((sort, id, owner.clone()));
            let calls = keys.tool_calls.of(&message);
            let calls = calls.as_ref().and_then(|calls| calls.cast::<PyList>().ok());
            for call in calls.into_iter().flatten() {
                if let Some(id) = str_of(&keys.id, &call)? {
                    seeds.push((Owned::Tool, id, owner.clone()));
                }
            }
        }
        Ok(Self(seeds))
    }
}

fn str_of<'py>(key: &Key, object: &Bound<'py, PyAny>) -> PyResult<Owner<'py>> {
    let value = key.of(object).and_then(|value| value.cast_into::<PyString>().ok());
    value.map(|value| capi::plain_str(&value)).transpose()
}

impl EventVerifier {
    /// A snapshot restates whose messages are; the echo of a run's input is history, and only adds.
    pub(super) fn seed(&self, seeds: &Seeds<'_>, restates: bool) -> PyResult<()> {
        for (sort, id, owner) in &seeds.0 {
            let owners = self.owners(*sort);
            if restates {
                owners.set(id, owner)?;
            } else {
                owners.set_new(id, owner)?;
            }
        }
        Ok(())
    }

    /// Whether there is room to remember replayed messages beside so many items.
    pub(super) fn fits(&self, item: &Item<'_>, seeds: &Seeds<'_>, items: usize) -> Verdict {
        // Counting the new ones takes a while, and is hardly ever needed.
        if items + seeds.0.len() <= self.max_items {
            return Ok(());
        }
        let known = |(sort, id, _): &&(Owned, Bound<'_, PyString>, Owner<'_>)| {
            items > 0 && self.owners(*sort).get(id).is_some()
        };
        let new = seeds.0.iter().filter(|seed| !known(seed)).count();
        let room = self.room(item.event.py());
        Room { items: items + new <= self.max_items, ..room }.for_item(None)
    }

    fn owners(&self, sort: Owned) -> &Owners {
        match sort {
            Owned::Text => &self.text_owners,
            Owned::Tool => &self.tool_owners,
            Owned::Activity => &self.activity_owners,
            Owned::Reasoning => &self.reasoning_owners,
        }
    }
}
