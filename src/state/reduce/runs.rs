//! Runs, and what concerns the conversation as a whole.

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySet};

use super::{Applied, Reduction, Touched};
use crate::state::conversation::ActivityTypes;
use crate::state::incoming::{Incoming, field, member, text};
use crate::state::message::{Message, Role};

impl Reduction {
    pub(super) fn messages_snapshot<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let messages = field!(incoming, messages);
        let messages = given(incoming, "messages", messages)?;
        let py = incoming.event.py();
        self.report_repeated(incoming, "messages", &messages, "the last one counts")?;
        let owned = ActivityTypes::of(incoming)?;
        Ok(Touched::Messages(self.conversation.merge(py, messages, &owned)?))
    }

    /// Reports the messages of an event of which there are two with one id, since only one is kept.
    fn report_repeated(
        &mut self,
        incoming: &Incoming<'_>,
        path: &str,
        messages: &[Message],
        outcome: &str,
    ) -> PyResult<()> {
        let py = incoming.event.py();
        let seen = PySet::empty(py)?;
        for (index, message) in messages.iter().enumerate() {
            let id = message.id.bind(py);
            if seen.contains(id)? {
                let detail = format!("there is a message {id:?} already; {outcome}");
                self.deviate("repeated_id", incoming, &format!("{path}[{index}].id"), detail);
            }
            seen.add(id)?;
        }
        Ok(())
    }

    pub(super) fn run_started<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let py = incoming.event.py();
        let run_id = text!(incoming, run_id)?;
        self.thread_id = Some(text!(incoming, thread_id)?.unbind());
        self.tool_calls.reset(py);
        let input = field!(incoming, input);
        let planned = self.interrupts.run_started(&run_id, input.as_ref())?;
        self.run_id = Some(run_id.unbind());
        for id in planned {
            if let Some(slot) = self.conversation.find(id.bind(py)) {
                self.conversation.get_mut(py, slot)?.known = true;
            }
        }
        let messages = input.and_then(|input| member!(&input, messages));
        if messages.is_none() {
            return Ok(Touched::Nothing);
        }
        let mut added = Vec::new();
        let messages = given(incoming, "input.messages", messages)?;
        self.report_repeated(incoming, "input.messages", &messages, "the first one counts")?;
        for message in messages {
            if self.conversation.find(message.id.bind(py)).is_none() {
                added.push(message.id.bind(py).clone());
                self.conversation.push(py, message)?;
            }
        }
        Ok(Touched::Messages(added))
    }

    pub(super) fn run_finished<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let outcome = field!(incoming, outcome);
        let kind = outcome.as_ref().and_then(|outcome| member!(outcome, r#type));
        let is = |name: &str| kind.as_ref().is_some_and(|kind| kind.eq(name).unwrap_or(false));
        if let Some(outcome) = outcome.as_ref().filter(|_| is("interrupt")) {
            let interrupts = member!(outcome, interrupts);
            self.interrupts.raised(interrupts.as_ref())?;
        } else {
            self.interrupts.run_finished(incoming.event.py())?;
        }
        if let Some(outcome) = outcome.as_ref().filter(|_| is("success")) {
            let named = member!(outcome, pending_tool_call_ids);
            self.tool_calls.named(named.as_ref())?;
        }
        Ok(Touched::Nothing)
    }

    pub(super) fn encrypted_value<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let py = incoming.event.py();
        let subtype = text!(incoming, subtype)?;
        let id = text!(incoming, entity_id)?;
        let value = text!(incoming, encrypted_value)?;
        // Of protocol 1.1, which the models of 1.0 carry as an extra field.
        let value_type = incoming
            .view
            .undescribed(intern!(py, "encryptedValueType"))
            .or_else(|| field!(incoming, encrypted_value_type));
        let store = |fields: &Bound<'_, PyDict>| -> PyResult<()> {
            fields.set_item(intern!(py, "encryptedValue"), &value)?;
            let key = intern!(py, "encryptedValueType");
            match &value_type {
                Some(value_type) => fields.set_item(key, value_type),
                None if fields.contains(key)? => fields.del_item(key),
                None => Ok(()),
            }
        };
        let slot = if subtype.eq("message") {
            match self.conversation.find(&id) {
                Some(slot) if self.conversation.get(slot).role != Role::Activity => {
                    store(self.conversation.open(py, slot)?.fields(py))?;
                    Some(slot)
                }
                _ => None,
            }
        } else if subtype.eq("tool-call") {
            match self.conversation.find_call(&id) {
                Some(at) => {
                    if let Some(call) = self.conversation.call(py, at)? {
                        store(call.fields(py))?;
                    }
                    Some(at.slot)
                }
                None => None,
            }
        } else {
            let detail = format!("there is no subtype {subtype:?}; the event was skipped");
            self.deviate("unknown_subtype", incoming, "subtype", detail);
            return Ok(Touched::Nothing);
        };
        if let Some(slot) = slot {
            return Ok(Touched::Message(self.conversation.get(slot).id.bind(py).clone()));
        }
        let detail = format!("there is no {subtype} {id:?} to hold it; the event was skipped");
        self.deviate("unknown_target", incoming, "entityId", detail);
        Ok(Touched::Nothing)
    }
}

/// The messages that an event gives whole.
fn given(
    incoming: &Incoming<'_>,
    path: &str,
    messages: Option<Bound<'_, PyAny>>,
) -> PyResult<Vec<Message>> {
    match messages.map(Bound::cast_into::<PyList>) {
        Some(Ok(messages)) => messages
            .iter()
            .enumerate()
            .map(|(index, message)| {
                Message::given(&message).map_err(|error| {
                    if error.is_instance_of::<PyTypeError>(message.py()) {
                        let reason = error.value(message.py()).to_string();
                        incoming.refusal(&format!("{path}[{index}]"), &reason)
                    } else {
                        error
                    }
                })
            })
            .collect(),
        _ => Err(incoming.refusal(path, "a list is needed")),
    }
}
