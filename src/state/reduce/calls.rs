//! Tool calls and their results.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::{Applied, Reduction, Touched, attribute};
use crate::event::EventType;
use crate::state::incoming::{Incoming, field, optional_text, text};
use crate::state::message::{Message, Role};
use crate::state::wire;

impl Reduction {
    /// The assistant message that a new call belongs to: the named parent, or a new one under the
    /// parent's id, or if that is taken or absent under the call's.
    pub(super) fn call_owner(
        &mut self,
        incoming: &Incoming<'_>,
        call_id: &Bound<'_, PyString>,
    ) -> PyResult<u32> {
        let py = call_id.py();
        // An empty parent is none, as for the reference client.
        let parent = optional_text!(incoming, parent_message_id)?
            .filter(|parent| !parent.is_empty().unwrap_or(false));
        let mut id = call_id.clone();
        if let Some(parent) = parent {
            match self.conversation.find(&parent) {
                Some(slot) if self.conversation.get(slot).role == Role::Assistant => {
                    return Ok(slot);
                }
                Some(_) => {
                    let detail = format!(
                        "message {parent:?} is no assistant message; the call went to a message of \
                         its own"
                    );
                    self.deviate("foreign_parent", incoming, "parentMessageId", detail);
                }
                None => id = parent,
            }
        }
        let mut message = Message::new(&id, intern!(py, "assistant"))?;
        attribute(incoming, message.open(py)?.fields(py))?;
        self.conversation.push(py, message)
    }

    pub(super) fn call_start<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let py = incoming.event.py();
        let id = text!(incoming, tool_call_id)?;
        let name = text!(incoming, tool_call_name)?;
        let metadata = incoming.metadata()?;
        self.tool_calls.started(&id)?;
        let at = if let Some(at) = self.conversation.find_call(&id) {
            // A replay, which has the arguments already.
            let old = match self.conversation.call(py, at)? {
                Some(call) => call.name(py)?,
                None => None,
            };
            let same = old.as_ref().is_some_and(|old| old.eq(&name).unwrap_or(false));
            if same && metadata.is_none() {
                return Ok(Touched::Nothing);
            }
            if !same {
                let old = old.map_or_else(String::new, |old| old.to_string());
                let detail = format!("call {id:?} was {old:?} and is now {name:?}");
                self.deviate("renamed_call", incoming, "toolCallName", detail);
                if let Some(call) = self.conversation.call(py, at)? {
                    call.rename(&name)?;
                }
            }
            at
        } else {
            let slot = self.call_owner(incoming, &id)?;
            self.conversation.add_call(slot, &id, &name)?
        };
        if let (Some(metadata), Some(call)) = (&metadata, self.conversation.call(py, at)?) {
            call.merge_metadata(metadata)?;
        }
        Ok(Touched::Message(self.conversation.get(at.slot).id.bind(py).clone()))
    }

    pub(super) fn call_args<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let delta = text!(incoming, delta)?;
        self.write_to_call(incoming, Some(&delta))
    }

    pub(super) fn call_end<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        self.write_to_call(incoming, None)
    }

    pub(super) fn write_to_call<'py>(
        &mut self,
        incoming: &Incoming<'py>,
        delta: Option<&Bound<'py, PyString>>,
    ) -> Applied<'py> {
        let py = incoming.event.py();
        let id = text!(incoming, tool_call_id)?;
        let metadata = incoming.metadata()?;
        let Some(at) = self.conversation.find_call(&id) else {
            let detail = format!("there is no tool call {id:?}; the event was skipped");
            self.deviate("unknown_target", incoming, "toolCallId", detail);
            return Ok(Touched::Nothing);
        };
        if delta.is_none() && metadata.is_none() {
            return Ok(Touched::Nothing);
        }
        if let Some(call) = self.conversation.call(py, at)? {
            if let Some(delta) = delta {
                call.push(delta);
            }
            if let Some(metadata) = &metadata {
                call.merge_metadata(metadata)?;
            }
        }
        Ok(Touched::Message(self.conversation.get(at.slot).id.bind(py).clone()))
    }

    pub(super) fn call_result<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let py = incoming.event.py();
        let id = text!(incoming, message_id)?;
        let call_id = text!(incoming, tool_call_id)?;
        let content = field!(incoming, content)
            .ok_or_else(|| incoming.refusal("content", "there is none"))?;
        let content = match wire::shape_of(EventType::ToolCallResult, "content") {
            Some(shape) => wire::value(&content, shape)?,
            None => wire::own(&content)?,
        };
        let mut message = Message::new(&id, intern!(py, "tool"))?;
        let open = message.open(py)?;
        open.fields(py).set_item(intern!(py, "toolCallId"), &call_id)?;
        open.set_content(&content)?;
        attribute(incoming, open.fields(py))?;
        if let Some(metadata) = incoming.metadata()? {
            open.merge_metadata(&metadata)?;
        }
        self.tool_calls.answered(&call_id)?;
        self.conversation.push_result(&call_id, message)?;
        Ok(Touched::Message(id))
    }
}
