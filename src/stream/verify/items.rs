//! The rules of calls, steps, subagents, and of what has an owner without opening or closing.

use pyo3::prelude::*;
use pyo3::types::PyString;

use super::open::{Owner, Owners};
use super::repair::Remedy;
use super::{EventVerifier, Verdict, agrees, begin, id_of, refuse, refuse_or};
use crate::capi;
use crate::event::{EventType, keys};
use crate::stream::{Item, owner_text, quoted};

/// How many steps are looked at for one of the same name.
const LOOKED_AT: usize = 64;

impl EventVerifier {
    /// TOOL_CALL_START. A call lives in the message that it names as its parent, and so belongs to
    /// whom that belongs.
    pub(super) fn tool_call(&mut self, item: &Item<'_>, tag: &Owner<'_>) -> Verdict {
        let keys = keys(item.event.py());
        let id = id_of(item, &keys.tool_call_id)?;
        let parent = item.view.read(&keys.parent_message_id);
        let parent = parent.and_then(|parent| parent.cast_into::<PyString>().ok());
        let parent = parent.map(|parent| capi::plain_str(&parent)).transpose()?;
        let mut owner = tag.clone();
        if let Some(parent) = &parent
            && let Some(inherited) = self.text_owners.get(parent)
        {
            agrees(tag, &self.text_owners, "parent message", parent)?;
            // A call that opens again without a tag may not move to another owner's message.
            if let Some(known) = self.tool_owners.get(&id)
                && tag.is_none()
                && !same_owner(known.as_ref(), inherited.as_ref())
            {
                return refuse(
                    Some(&id),
                    format!(
                        "the tool call {} belongs to {}, but its parent message {} to {}",
                        quoted(&id),
                        owner_text(known.as_ref().map(Bound::as_any)),
                        quoted(parent),
                        owner_text(inherited.as_ref().map(Bound::as_any)),
                    ),
                    "a parent message of the same owner",
                );
            }
            owner = inherited;
        }
        let room = self.room(id.py());
        begin(&owner, &mut self.tools, &self.tool_owners, &id, EventType::ToolCallEnd, room)
    }

    pub(super) fn step(
        &mut self,
        item: &Item<'_>,
        kind: EventType,
        tag: Option<&Bound<'_, PyString>>,
    ) -> Verdict {
        let py = item.event.py();
        let name = id_of(item, &keys(py).step_name)?;
        let steps = self.steps.bind(py);
        let step = (tag, &name);
        let of = |owner: Option<&Bound<'_, PyString>>| owner_text(owner.map(Bound::as_any));
        match (kind, steps.contains(step)?) {
            (EventType::StepStarted, false) => {
                self.room(py).for_open(&name)?;
                steps.set_item(step, true)?;
            }
            (EventType::StepStarted, true) => {
                return refuse_or(
                    Remedy::Close,
                    Some(&name),
                    format!("the step {} of {} is already open", quoted(&name), of(tag)),
                    "STEP_FINISHED of it first",
                );
            }
            (_, true) => steps.del_item(step)?,
            (_, false) => {
                // Tagging with whoever was active last is the usual mistake, so say whose it is, if
                // it is not hidden among many.
                for other in steps.iter().map(|(step, _)| step).take(LOOKED_AT) {
                    let (owner, other) = other.extract::<(Owner<'_>, Bound<'_, PyString>)>()?;
                    if capi::same_text(&other, &name) {
                        let owner = of(owner.as_ref());
                        return refuse_or(
                            Remedy::Drop,
                            Some(&name),
                            format!(
                                "it finishes the step {} for {}, but that step belongs to {owner}",
                                quoted(&name),
                                of(tag),
                            ),
                            format!("the subagentRunId of {owner}"),
                        );
                    }
                }
                return refuse_or(
                    Remedy::Drop,
                    Some(&name),
                    format!("the step {} was not started", quoted(&name)),
                    "STEP_STARTED of it first",
                );
            }
        }
        Ok(())
    }

    /// Events that neither open nor close anything, but are about something that has an owner.
    pub(super) fn owned(&mut self, item: &Item<'_>, kind: EventType, tag: &Owner<'_>) -> Verdict {
        let keys = keys(item.event.py());
        match kind {
            EventType::ToolCallResult => {
                // It makes a message, which belongs to whom the result is from.
                let id = id_of(item, &keys.message_id)?;
                self.remember(&self.text_owners, &id)?;
                self.text_owners.set(&id, tag)?;
            }
            EventType::ActivitySnapshot => {
                // One that does not replace leaves what is there to its owner.
                let id = id_of(item, &keys.message_id)?;
                self.remember(&self.activity_owners, &id)?;
                let keeps = item.view.read(&keys.replace);
                let keeps = keeps.is_some_and(|replace| matches!(replace.extract(), Ok(false)));
                if keeps {
                    self.activity_owners.set_new(&id, tag)?;
                } else {
                    self.activity_owners.set(&id, tag)?;
                }
            }
            EventType::ActivityDelta => {
                let id = id_of(item, &keys.message_id)?;
                agrees(tag, &self.activity_owners, "activity", &id)?;
            }
            _ => {
                let id = id_of(item, &keys.entity_id)?;
                let subtype = item.view.read(&keys.subtype);
                let subtype = subtype.as_ref().and_then(|subtype| subtype.extract::<&str>().ok());
                let (owners, noun) = match subtype {
                    Some("tool-call") => (&self.tool_owners, "tool call"),
                    Some("message") if self.text_owners.get(&id).is_some() => {
                        (&self.text_owners, "message")
                    }
                    _ => (&self.reasoning_owners, "reasoning message"),
                };
                agrees(tag, owners, noun, &id)?;
            }
        }
        Ok(())
    }

    /// Whether there is room to remember this item.
    fn remember(&self, owners: &Owners, id: &Bound<'_, PyString>) -> Verdict {
        if owners.get(id).is_some() { Ok(()) } else { self.room(id.py()).for_item(Some(id)) }
    }

    pub(super) fn subagent(&mut self, item: &Item<'_>, kind: EventType, tag: Owner<'_>) -> Verdict {
        let keys = keys(item.event.py());
        let Some(id) = tag else {
            return refuse(None, "it has no subagentRunId", "one");
        };
        if kind == EventType::SubagentStarted {
            id_of(item, &keys.name)?;
            if self.subagents.has(&id) {
                return refuse_or(
                    Remedy::Lose,
                    Some(&id),
                    format!("the subagent {} is already active", quoted(&id)),
                    "SUBAGENT_FINISHED or SUBAGENT_ERROR of it first",
                );
            }
            if self.closed_subagents.has(&id) {
                return refuse_or(
                    Remedy::Lose,
                    Some(&id),
                    format!("the subagent {} has already ended in this run", quoted(&id)),
                    "another id for another invocation",
                );
            }
            if let Some(parent) = item.view.read(&keys.parent_subagent_run_id) {
                let known = match parent.cast::<PyString>() {
                    Ok(parent) => {
                        let parent = capi::plain_str(parent)?;
                        self.subagents.has(&parent) || self.closed_subagents.has(&parent)
                    }
                    Err(_) => false,
                };
                if !known {
                    return refuse_or(
                        Remedy::Lose,
                        Some(&parent),
                        format!("its parent subagent {} was not started", quoted(&parent)),
                        "SUBAGENT_STARTED of the parent first",
                    );
                }
            }
            let room = self.room(id.py());
            room.for_open(&id)?;
            room.for_item(Some(&id))?;
            self.subagents.insert(&id)?;
        } else {
            if kind == EventType::SubagentError {
                id_of(item, &keys.message)?;
            }
            if !self.subagents.has(&id) {
                return refuse_or(
                    Remedy::Lose,
                    Some(&id),
                    format!("no subagent {} is active", quoted(&id)),
                    "SUBAGENT_STARTED of it first",
                );
            }
            self.subagents.remove(&id)?;
            self.closed_subagents.insert(&id)?;
        }
        Ok(())
    }
}

fn same_owner(a: Option<&Bound<'_, PyString>>, b: Option<&Bound<'_, PyString>>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => capi::same_text(a, b),
        _ => false,
    }
}
