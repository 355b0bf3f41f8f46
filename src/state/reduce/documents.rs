//! What JSON Patch writes to: the state, and the content of activities.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{Applied, Reduction, Touched, attribute};
use crate::state::incoming::{Incoming, field, text};
use crate::state::message::{Message, Role, merge_metadata};
use crate::state::operation::{Patch, Refusal, UnknownOp};
use crate::state::{patch, wire};

impl Reduction {
    pub(super) fn state_snapshot<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let snapshot = incoming
            .view
            .get("snapshot")
            .ok_or_else(|| incoming.refusal("snapshot", "there is none"))?;
        self.state = wire::own(&snapshot)?.unbind();
        Ok(Touched::State)
    }

    pub(super) fn state_delta<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let py = incoming.event.py();
        let delta = field!(incoming, delta);
        let delta = delta.ok_or_else(|| incoming.refusal("delta", "there is none"))?;
        let state = self.state.bind(py).clone();
        match self.patched(incoming, "delta", &state, &delta)? {
            Some(state) => {
                self.state = state.unbind();
                Ok(Touched::State)
            }
            None => Ok(Touched::Nothing),
        }
    }

    /// The document with the patch applied; None, after a report, if it does not apply.
    ///
    /// # Errors
    /// A malformed patch: that is fatal to the stream.
    pub(super) fn patched<'py>(
        &mut self,
        incoming: &Incoming<'py>,
        path: &str,
        document: &Bound<'py, PyAny>,
        operations: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let read = match Patch::read(operations, UnknownOp::Drop) {
            Ok(read) => read,
            Err(refusal) => return Err(refusal.into_error(document.py())),
        };
        for (index, op) in &read.unknown {
            let detail = format!("there is no op {op:?} in RFC 6902; the operation was dropped");
            self.deviate("unknown_op", incoming, &format!("{path}[{index}].op"), detail);
        }
        match patch::apply(document, &read, false, self.max_patch_values) {
            Ok(patched) => Ok(Some(patched)),
            Err(refusal) => {
                self.unapplied(incoming, path, &refusal);
                Ok(None)
            }
        }
    }

    #[cold]
    pub(super) fn unapplied(&mut self, incoming: &Incoming<'_>, path: &str, refusal: &Refusal) {
        let path = match refusal.index {
            Some(index) => format!("{path}[{index}]"),
            None => path.to_owned(),
        };
        let detail = format!("the patch does not apply and was skipped: {}", refusal.message());
        self.deviate("patch_not_applied", incoming, &path, detail);
    }

    pub(super) fn activity_snapshot<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let py = incoming.event.py();
        let id = text!(incoming, message_id)?;
        let activity_type = text!(incoming, activity_type)?;
        let metadata = incoming.metadata()?;
        let content = field!(incoming, content);
        let content = content.ok_or_else(|| incoming.refusal("content", "there is none"))?;
        let content = wire::own(&content)?;
        let replace = match field!(incoming, replace) {
            Some(replace) => replace.is_truthy()?,
            None => true,
        };
        let slot = self.conversation.find(&id);
        let is_activity =
            slot.is_some_and(|slot| self.conversation.get(slot).role == Role::Activity);
        let slot = match slot {
            Some(slot) if is_activity => {
                if replace {
                    let fields = self.conversation.open(py, slot)?.fields(py);
                    fields.set_item(intern!(py, "activityType"), activity_type)?;
                    fields.set_item(intern!(py, "content"), content)?;
                    attribute(incoming, fields)?;
                }
                slot
            }
            Some(_) if !replace => return Ok(Touched::Nothing),
            other => {
                let mut message = Message::new(&id, intern!(py, "activity"))?;
                let fields = message.open(py)?.fields(py);
                fields.set_item(intern!(py, "activityType"), activity_type)?;
                fields.set_item(intern!(py, "content"), content)?;
                attribute(incoming, fields)?;
                match other {
                    None => self.conversation.push(py, message)?,
                    Some(slot) => {
                        let detail = format!("message {id:?} was no activity and was replaced");
                        self.deviate("foreign_target", incoming, "messageId", detail);
                        self.conversation.replace(py, slot, message)?;
                        slot
                    }
                }
            }
        };
        if let Some(metadata) = &metadata {
            merge_metadata(self.conversation.open(py, slot)?.fields(py), metadata)?;
        } else if !replace && is_activity {
            return Ok(Touched::Nothing);
        }
        Ok(Touched::Message(id))
    }

    pub(super) fn activity_delta<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let py = incoming.event.py();
        let id = text!(incoming, message_id)?;
        let activity_type = text!(incoming, activity_type)?;
        let metadata = incoming.metadata()?;
        let operations = field!(incoming, patch);
        let operations = operations.ok_or_else(|| incoming.refusal("patch", "there is none"))?;
        let slot = match self.conversation.find(&id) {
            Some(slot) if self.conversation.get(slot).role == Role::Activity => slot,
            found => {
                let (kind, is) = match found {
                    None => ("unknown_target", "unknown"),
                    Some(_) => ("foreign_target", "no activity"),
                };
                let detail = format!("message {id:?} is {is}; the event was skipped");
                self.deviate(kind, incoming, "messageId", detail);
                return Ok(Touched::Nothing);
            }
        };
        let fields = self.conversation.open(py, slot)?.fields(py).clone();
        // Not part of the patch: it counts whether or not that applies.
        if let Some(metadata) = &metadata {
            merge_metadata(&fields, metadata)?;
        }
        let content = match fields.get_item(intern!(py, "content"))? {
            Some(content) => content,
            None => PyDict::new(py).into_any(),
        };
        match self.patched(incoming, "patch", &content, &operations)? {
            Some(content) if content.is_instance_of::<PyDict>() => {
                fields.set_item(intern!(py, "content"), content)?;
                fields.set_item(intern!(py, "activityType"), activity_type)?;
            }
            Some(_) => {
                let detail = "the content of an activity is an object, and would not be one \
                              any more; the patch was skipped";
                self.deviate("patch_not_applied", incoming, "patch", detail.to_owned());
                return Ok(metadata.map_or(Touched::Nothing, |_| Touched::Message(id)));
            }
            None => return Ok(metadata.map_or(Touched::Nothing, |_| Touched::Message(id))),
        }
        Ok(Touched::Message(id))
    }
}
