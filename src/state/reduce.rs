//! What a stream of verified events adds up to: the messages, the state, what is pending.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use super::conversation::Conversation;
use super::incoming::{Incoming, field, member, optional_text, text};
use super::message::{Message, Role, merge_metadata};
use super::operation::{Patch, Refusal, UnknownOp};
use super::pending::{Interrupts, ToolCalls};
use super::{patch, wire};
use crate::deviation::Deviation;
use crate::errors::AGUIError;
use crate::event::EventKind;

/// What the application of an event changed.
#[pyclass(module = "agui_codec", frozen, eq)]
pub struct Change {
    /// The ids of the messages that were added, written to, replaced or dropped.
    #[pyo3(get)]
    message_ids: Py<PyTuple>,
    /// Whether the state is another.
    #[pyo3(get)]
    state: bool,
}

impl PartialEq for Change {
    fn eq(&self, other: &Self) -> bool {
        self.state == other.state
            && Python::attach(|py| {
                let (ours, theirs) = (self.message_ids.bind(py), other.message_ids.bind(py));
                ours.as_any().eq(theirs).unwrap_or(false)
            })
    }
}

#[pymethods]
impl Change {
    fn __bool__(&self, py: Python<'_>) -> bool {
        self.state || !self.message_ids.bind(py).is_empty()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let ids = self.message_ids.bind(py).repr()?;
        let state = if self.state { "True" } else { "False" };
        Ok(format!("Change(message_ids={}, state={state})", ids.to_string_lossy()))
    }
}

/// What changed, before Python sees it.
pub enum Touched<'py> {
    Nothing,
    Message(Bound<'py, PyString>),
    Messages(Vec<Bound<'py, PyString>>),
    State,
}

type Applied<'py> = PyResult<Touched<'py>>;

/// Everything but what it is reported to.
pub struct Reduction {
    pub conversation: Conversation,
    pub state: Py<PyAny>,
    pub interrupts: Interrupts,
    pub tool_calls: ToolCalls,
    pub thread_id: Option<Py<PyString>>,
    pub run_id: Option<Py<PyString>>,
    /// What is to be reported of the event at hand.
    deviations: Vec<Deviation>,
}

impl Reduction {
    pub fn new(py: Python<'_>, state: Py<PyAny>) -> Self {
        Self {
            conversation: Conversation::new(py),
            state,
            interrupts: Interrupts::new(py),
            tool_calls: ToolCalls::new(py),
            thread_id: None,
            run_id: None,
            deviations: Vec::new(),
        }
    }

    pub fn take_deviations(&mut self) -> Vec<Deviation> {
        std::mem::take(&mut self.deviations)
    }

    #[cold]
    fn deviate(&mut self, kind: &str, incoming: &Incoming<'_>, path: &str, detail: String) {
        self.deviations.push(Deviation {
            kind: kind.to_owned(),
            event_type: Some(incoming.name()),
            path: path.to_owned(),
            detail,
        });
    }

    pub fn apply<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let Some(kind) = incoming.kind else { return Ok(Touched::Nothing) };
        match kind {
            EventKind::TextMessageContent | EventKind::ReasoningMessageContent => {
                self.message_content(incoming)
            }
            EventKind::ToolCallArgs => self.call_args(incoming),
            EventKind::TextMessageStart => {
                let role = optional_text!(incoming, "role", "role")?;
                let assistant = intern!(incoming.event.py(), "assistant");
                self.message_start(incoming, role.as_ref().unwrap_or(assistant))
            }
            EventKind::ReasoningMessageStart => {
                self.message_start(incoming, intern!(incoming.event.py(), "reasoning"))
            }
            EventKind::TextMessageEnd | EventKind::ReasoningMessageEnd => {
                self.message_end(incoming)
            }
            EventKind::ToolCallStart => self.call_start(incoming),
            EventKind::ToolCallEnd => self.call_end(incoming),
            EventKind::ToolCallResult => self.call_result(incoming),
            EventKind::StateSnapshot => self.state_snapshot(incoming),
            EventKind::StateDelta => self.state_delta(incoming),
            EventKind::MessagesSnapshot => self.messages_snapshot(incoming),
            EventKind::ActivitySnapshot => self.activity_snapshot(incoming),
            EventKind::ActivityDelta => self.activity_delta(incoming),
            EventKind::RunStarted => self.run_started(incoming),
            EventKind::RunFinished => self.run_finished(incoming),
            EventKind::ReasoningEncryptedValue => self.encrypted_value(incoming),
            EventKind::TextMessageChunk
            | EventKind::ToolCallChunk
            | EventKind::ReasoningMessageChunk => Err(AGUIError::new_err(format!(
                "{}: chunks are expanded before they are applied (ChunkExpander)",
                kind.name()
            ))),
            EventKind::Raw
            | EventKind::Custom
            | EventKind::RunError
            | EventKind::StepStarted
            | EventKind::StepFinished
            | EventKind::ReasoningStart
            | EventKind::ReasoningEnd
            | EventKind::SubagentStarted
            | EventKind::SubagentFinished
            | EventKind::SubagentError => Ok(Touched::Nothing),
        }
    }

    /// The message that text or reasoning is aimed at, unless it is an activity: its content is no
    /// text and is never touched by such events.
    fn text_target(&mut self, incoming: &Incoming<'_>, id: &Bound<'_, PyString>) -> Option<u32> {
        let slot = self.conversation.find(id);
        match slot {
            None => {
                let detail = format!("there is no message {id:?}; the event was skipped");
                self.deviate("unknown_target", incoming, "messageId", detail);
                None
            }
            Some(slot) if self.conversation.get(slot).role == Role::Activity => {
                self.activity_in_the_way(incoming, id);
                None
            }
            Some(slot) => Some(slot),
        }
    }

    #[cold]
    fn activity_in_the_way(&mut self, incoming: &Incoming<'_>, id: &Bound<'_, PyString>) {
        let detail = format!("message {id:?} is an activity; the event was skipped");
        self.deviate("foreign_target", incoming, "messageId", detail);
    }

    fn message_start<'py>(
        &mut self,
        incoming: &Incoming<'py>,
        role: &Bound<'py, PyString>,
    ) -> Applied<'py> {
        let py = incoming.event.py();
        let id = text!(incoming, "messageId", "message_id")?;
        let metadata = incoming.metadata()?;
        let slot = match self.conversation.find(&id) {
            Some(slot) if self.conversation.get(slot).role == Role::Activity => {
                self.activity_in_the_way(incoming, &id);
                return Ok(Touched::Nothing);
            }
            Some(slot) => {
                // It goes on; what it was minted with stays.
                if metadata.is_none() {
                    return Ok(Touched::Nothing);
                }
                slot
            }
            None => {
                let mut message = Message::new(&id, role)?;
                let fields = message.open(py)?;
                fields.push(intern!(py, ""))?;
                if let Some(name) = optional_text!(incoming, "name", "name")? {
                    fields.fields(py).set_item(intern!(py, "name"), name)?;
                }
                attribute(incoming, fields.fields(py))?;
                self.conversation.push(py, message)?
            }
        };
        if let Some(metadata) = &metadata {
            merge_metadata(self.conversation.open(py, slot)?.fields(py), metadata)?;
        }
        Ok(Touched::Message(id))
    }

    #[inline]
    fn message_content<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let py = incoming.event.py();
        let id = text!(incoming, "messageId", "message_id")?;
        let delta = text!(incoming, "delta", "delta")?;
        let metadata = incoming.metadata()?;
        let Some(slot) = self.text_target(incoming, &id) else { return Ok(Touched::Nothing) };
        let open = self.conversation.open(py, slot)?;
        open.push(&delta)?;
        if let Some(metadata) = &metadata {
            merge_metadata(open.fields(py), metadata)?;
        }
        Ok(Touched::Message(id))
    }

    fn message_end<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let py = incoming.event.py();
        let id = text!(incoming, "messageId", "message_id")?;
        let metadata = incoming.metadata()?;
        let (Some(slot), Some(metadata)) = (self.text_target(incoming, &id), metadata) else {
            return Ok(Touched::Nothing);
        };
        merge_metadata(self.conversation.open(py, slot)?.fields(py), &metadata)?;
        Ok(Touched::Message(id))
    }

    /// The assistant message that a new call belongs to: the named parent, or a new one under the
    /// parent's id, or if that is taken or absent under the call's.
    fn call_owner(
        &mut self,
        incoming: &Incoming<'_>,
        call_id: &Bound<'_, PyString>,
    ) -> PyResult<u32> {
        let py = call_id.py();
        // An empty parent is none, as for the reference client.
        let parent = optional_text!(incoming, "parentMessageId", "parent_message_id")?
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

    fn call_start<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let py = incoming.event.py();
        let id = text!(incoming, "toolCallId", "tool_call_id")?;
        let name = text!(incoming, "toolCallName", "tool_call_name")?;
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
            merge_metadata(call.fields(py), metadata)?;
        }
        Ok(Touched::Message(self.conversation.get(at.slot).id.bind(py).clone()))
    }

    fn call_args<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let delta = text!(incoming, "delta", "delta")?;
        self.write_to_call(incoming, Some(&delta))
    }

    fn call_end<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        self.write_to_call(incoming, None)
    }

    fn write_to_call<'py>(
        &mut self,
        incoming: &Incoming<'py>,
        delta: Option<&Bound<'py, PyString>>,
    ) -> Applied<'py> {
        let py = incoming.event.py();
        let id = text!(incoming, "toolCallId", "tool_call_id")?;
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
                merge_metadata(call.fields(py), metadata)?;
            }
        }
        Ok(Touched::Message(self.conversation.get(at.slot).id.bind(py).clone()))
    }

    fn call_result<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let py = incoming.event.py();
        let id = text!(incoming, "messageId", "message_id")?;
        let call_id = text!(incoming, "toolCallId", "tool_call_id")?;
        let content = field!(incoming, "content", "content")
            .ok_or_else(|| incoming.refusal("content", "there is none"))?;
        let mut message = Message::new(&id, intern!(py, "tool"))?;
        let fields = message.open(py)?.fields(py);
        fields.set_item(intern!(py, "toolCallId"), &call_id)?;
        let content = match wire::shape_of(EventKind::ToolCallResult, "content") {
            Some(shape) => wire::value(&content, shape)?,
            None => wire::own(&content)?,
        };
        fields.set_item(intern!(py, "content"), content)?;
        attribute(incoming, fields)?;
        if let Some(metadata) = incoming.metadata()? {
            merge_metadata(fields, &metadata)?;
        }
        self.tool_calls.answered(&call_id)?;
        self.conversation.push_result(&call_id, message)?;
        Ok(Touched::Message(id))
    }

    fn state_snapshot<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let snapshot = incoming
            .view
            .get("snapshot")
            .ok_or_else(|| incoming.refusal("snapshot", "there is none"))?;
        self.state = wire::own(&snapshot)?.unbind();
        Ok(Touched::State)
    }

    fn state_delta<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let py = incoming.event.py();
        let delta = field!(incoming, "delta", "delta");
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
    fn patched<'py>(
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
        match patch::apply(document, &read, false) {
            Ok(patched) => Ok(Some(patched)),
            Err(refusal) => {
                self.unapplied(incoming, path, &refusal);
                Ok(None)
            }
        }
    }

    #[cold]
    fn unapplied(&mut self, incoming: &Incoming<'_>, path: &str, refusal: &Refusal) {
        let path = match refusal.index {
            Some(index) => format!("{path}[{index}]"),
            None => path.to_owned(),
        };
        let detail = format!("the patch does not apply and was skipped: {}", refusal.message());
        self.deviate("patch_not_applied", incoming, &path, detail);
    }

    fn messages_snapshot<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let messages = field!(incoming, "messages", "messages");
        let messages = given(incoming, "messages", messages)?;
        Ok(Touched::Messages(self.conversation.merge(incoming.event.py(), messages)?))
    }

    fn activity_snapshot<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let py = incoming.event.py();
        let id = text!(incoming, "messageId", "message_id")?;
        let activity_type = text!(incoming, "activityType", "activity_type")?;
        let metadata = incoming.metadata()?;
        let content = field!(incoming, "content", "content");
        let content = content.ok_or_else(|| incoming.refusal("content", "there is none"))?;
        let content = wire::own(&content)?;
        let replace = match field!(incoming, "replace", "replace") {
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

    fn activity_delta<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let py = incoming.event.py();
        let id = text!(incoming, "messageId", "message_id")?;
        let activity_type = text!(incoming, "activityType", "activity_type")?;
        let metadata = incoming.metadata()?;
        let operations = field!(incoming, "patch", "patch");
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

    fn run_started<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let py = incoming.event.py();
        let run_id = text!(incoming, "runId", "run_id")?;
        self.thread_id = Some(text!(incoming, "threadId", "thread_id")?.unbind());
        self.tool_calls.reset(py);
        let input = field!(incoming, "input", "input");
        let planned = self.interrupts.run_started(&run_id, input.as_ref())?;
        self.run_id = Some(run_id.unbind());
        for slot in planned {
            self.conversation.get_mut(py, slot)?.known = true;
        }
        let messages = input.and_then(|input| member!(&input, "messages", "messages"));
        if messages.is_none() {
            return Ok(Touched::Nothing);
        }
        let mut added = Vec::new();
        for message in given(incoming, "input.messages", messages)? {
            if self.conversation.find(message.id.bind(py)).is_none() {
                added.push(message.id.bind(py).clone());
                self.conversation.push(py, message)?;
            }
        }
        Ok(Touched::Messages(added))
    }

    fn run_finished<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let outcome = field!(incoming, "outcome", "outcome");
        let kind = outcome.as_ref().and_then(|outcome| member!(outcome, "type", "type"));
        let is = |name: &str| kind.as_ref().is_some_and(|kind| kind.eq(name).unwrap_or(false));
        if let Some(outcome) = outcome.as_ref().filter(|_| is("interrupt")) {
            let interrupts = member!(outcome, "interrupts", "interrupts");
            self.interrupts.raised(interrupts.as_ref())?;
        } else {
            self.interrupts.run_finished(incoming.event.py())?;
        }
        if let Some(outcome) = outcome.as_ref().filter(|_| is("success")) {
            let named = member!(outcome, "pendingToolCallIds", "pending_tool_call_ids");
            self.tool_calls.named(named.as_ref())?;
        }
        Ok(Touched::Nothing)
    }

    fn encrypted_value<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let py = incoming.event.py();
        let subtype = text!(incoming, "subtype", "subtype")?;
        let id = text!(incoming, "entityId", "entity_id")?;
        let value = text!(incoming, "encryptedValue", "encrypted_value")?;
        // Of protocol 1.1, which the models of 1.0 carry as an extra field.
        let value_type = incoming
            .view
            .undescribed(intern!(py, "encryptedValueType"))
            .or_else(|| field!(incoming, "encryptedValueType", "encrypted_value_type"));
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

    pub fn fork(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(Self {
            conversation: self.conversation.fork(py)?,
            state: self.state.clone_ref(py),
            interrupts: self.interrupts.fork(py),
            tool_calls: self.tool_calls.fork(py)?,
            thread_id: self.thread_id.as_ref().map(|id| id.clone_ref(py)),
            run_id: self.run_id.as_ref().map(|id| id.clone_ref(py)),
            deviations: Vec::new(),
        })
    }
}

/// Gives a minted message the owner that the event names, or none.
fn attribute(incoming: &Incoming<'_>, fields: &Bound<'_, PyDict>) -> PyResult<()> {
    let key = intern!(fields.py(), "subagentRunId");
    match optional_text!(incoming, "subagentRunId", "subagent_run_id")? {
        Some(owner) => fields.set_item(key, owner),
        None if fields.contains(key)? => fields.del_item(key),
        None => Ok(()),
    }
}

/// The messages that an event gives whole.
fn given(
    incoming: &Incoming<'_>,
    path: &str,
    messages: Option<Bound<'_, PyAny>>,
) -> PyResult<Vec<Message>> {
    match messages.map(Bound::cast_into::<PyList>) {
        Some(Ok(messages)) => messages.iter().map(|message| Message::given(&message)).collect(),
        _ => Err(incoming.refusal(path, "a list is needed")),
    }
}

impl<'py> Touched<'py> {
    pub fn into_change(self, py: Python<'py>) -> PyResult<Change> {
        let (message_ids, state) = match self {
            Self::Nothing => (PyTuple::empty(py), false),
            Self::State => (PyTuple::empty(py), true),
            Self::Message(id) => (PyTuple::new(py, [id])?, false),
            Self::Messages(ids) => (PyTuple::new(py, ids)?, false),
        };
        Ok(Change { message_ids: message_ids.unbind(), state })
    }
}
