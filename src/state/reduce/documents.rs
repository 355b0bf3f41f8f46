//! What JSON Patch writes to: the state, and the content of activities.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{Applied, Reduction, Touched, attribute};
use crate::state::held::Held;
use crate::state::incoming::{Incoming, field, text};
use crate::state::message::{Message, Role};
use crate::state::operation::{Patch, Refusal, UnknownOp};
use crate::state::wire;

impl Reduction {
    pub(super) fn state_snapshot<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let snapshot = incoming
            .view
            .get("snapshot")
            .ok_or_else(|| incoming.refusal("snapshot", "there is none"))?;
        self.state = Held::new(&wire::own(&snapshot)?);
        self.has_state = true;
        Ok(Touched::State)
    }

    pub(super) fn state_delta<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let py = incoming.event.py();
        let delta = field!(incoming, delta);
        let delta = delta.ok_or_else(|| incoming.refusal("delta", "there is none"))?;
        let read = self.read_patch(incoming, "delta", &delta)?;
        match self.state.patch(py, &read, self.max_patch_values, |_| true) {
            Ok(_) => {
                self.has_state = true;
                Ok(Touched::State)
            }
            Err(refusal) => {
                self.unapplied(incoming, "delta", &refusal);
                Ok(Touched::Nothing)
            }
        }
    }

    /// The patch of an event, without the operations that RFC 6902 does not have.
    ///
    /// # Errors
    /// A malformed patch: that is fatal to the stream.
    fn read_patch<'py>(
        &mut self,
        incoming: &Incoming<'py>,
        path: &str,
        operations: &Bound<'py, PyAny>,
    ) -> PyResult<Patch<'py>> {
        let read = Patch::read(operations, UnknownOp::Drop)
            .map_err(|refusal| refusal.into_error(operations.py()))?;
        for (index, op) in &read.unknown {
            let detail = format!("there is no op {op:?} in RFC 6902; the operation was dropped");
            self.deviate("unknown_op", incoming, &format!("{path}[{index}].op"), detail);
        }
        Ok(read)
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
                    let open = self.conversation.open(py, slot)?;
                    open.fields(py).set_item(intern!(py, "activityType"), activity_type)?;
                    open.set_object(&content)?;
                    attribute(incoming, open.fields(py))?;
                }
                slot
            }
            Some(_) if !replace => {
                let detail = format!("message {id:?} is no activity; the event was skipped");
                self.deviate("foreign_target", incoming, "messageId", detail);
                return Ok(Touched::Nothing);
            }
            other => {
                let mut message = Message::new(&id, intern!(py, "activity"))?;
                let open = message.open(py)?;
                open.fields(py).set_item(intern!(py, "activityType"), activity_type)?;
                open.set_object(&content)?;
                attribute(incoming, open.fields(py))?;
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
            self.conversation.open(py, slot)?.merge_metadata(metadata)?;
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
        let read = self.read_patch(incoming, "patch", &operations)?;
        let max_values = self.max_patch_values;
        let open = self.conversation.open(py, slot)?;
        // Not part of the patch: it counts whether or not that applies.
        if let Some(metadata) = &metadata {
            open.merge_metadata(metadata)?;
        }
        let is_object = |content: &Bound<'_, PyAny>| content.is_instance_of::<PyDict>();
        match open.object(py)?.patch(py, &read, max_values, is_object) {
            Ok(true) => {
                open.fields(py).set_item(intern!(py, "activityType"), activity_type)?;
                return Ok(Touched::Message(id));
            }
            Ok(false) => {
                let detail = "the content of an activity is an object, and would not be one \
                              any more; the patch was skipped";
                self.deviate("patch_not_applied", incoming, "patch", detail.to_owned());
            }
            Err(refusal) => self.unapplied(incoming, "patch", &refusal),
        }
        Ok(metadata.map_or(Touched::Nothing, |_| Touched::Message(id)))
    }
}
