//! What a stream of verified events adds up to: the messages, the state, what is pending.

mod calls;
mod documents;
mod runs;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::conversation::Conversation;
use super::held::Held;
use super::incoming::{Incoming, optional_text, text};
use super::message::{Message, Role};
use super::pending::{Interrupts, ToolCalls};
use crate::deviation::Deviation;
use crate::errors::AGUIError;
use crate::event::EventType;

/// What the application of an event changed.
///
/// Example:
///     >>> change = EventReducer().apply({"type": "STATE_SNAPSHOT", "snapshot": 1})
///     >>> change.state, change.message_ids, bool(change)
///     (True, (), True)
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
    pub state: Held,
    /// Somebody gave it a state, or wrote to it.
    pub has_state: bool,
    pub interrupts: Interrupts,
    pub tool_calls: ToolCalls,
    pub thread_id: Option<Py<PyString>>,
    pub run_id: Option<Py<PyString>>,
    /// The most values that one patch may make.
    pub max_patch_values: usize,
    /// What is to be reported of the event at hand.
    deviations: Vec<Deviation>,
}

impl Reduction {
    pub fn new(py: Python<'_>, state: Held) -> Self {
        Self {
            conversation: Conversation::new(py),
            state,
            has_state: false,
            interrupts: Interrupts::new(py),
            tool_calls: ToolCalls::new(py),
            thread_id: None,
            run_id: None,
            max_patch_values: super::patch::MAX_VALUES,
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
            EventType::TextMessageContent | EventType::ReasoningMessageContent => {
                self.message_content(incoming)
            }
            EventType::ToolCallArgs => self.call_args(incoming),
            EventType::TextMessageStart => {
                let role = optional_text!(incoming, role)?;
                let assistant = intern!(incoming.event.py(), "assistant");
                self.message_start(incoming, role.as_ref().unwrap_or(assistant))
            }
            EventType::ReasoningMessageStart => {
                self.message_start(incoming, intern!(incoming.event.py(), "reasoning"))
            }
            EventType::TextMessageEnd | EventType::ReasoningMessageEnd => {
                self.message_end(incoming)
            }
            EventType::ToolCallStart => self.call_start(incoming),
            EventType::ToolCallEnd => self.call_end(incoming),
            EventType::ToolCallResult => self.call_result(incoming),
            EventType::StateSnapshot => self.state_snapshot(incoming),
            EventType::StateDelta => self.state_delta(incoming),
            EventType::MessagesSnapshot => self.messages_snapshot(incoming),
            EventType::ActivitySnapshot => self.activity_snapshot(incoming),
            EventType::ActivityDelta => self.activity_delta(incoming),
            EventType::RunStarted => self.run_started(incoming),
            EventType::RunFinished => self.run_finished(incoming),
            EventType::ReasoningEncryptedValue => self.encrypted_value(incoming),
            EventType::TextMessageChunk
            | EventType::ToolCallChunk
            | EventType::ReasoningMessageChunk => Err(AGUIError::new_err(format!(
                "{}: chunks are expanded before they are applied (ChunkExpander)",
                kind.name()
            ))),
            EventType::Raw
            | EventType::Custom
            | EventType::RunError
            | EventType::StepStarted
            | EventType::StepFinished
            | EventType::ReasoningStart
            | EventType::ReasoningEnd
            | EventType::SubagentStarted
            | EventType::SubagentFinished
            | EventType::SubagentError => Ok(Touched::Nothing),
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
        let id = text!(incoming, message_id)?;
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
                if let Some(name) = optional_text!(incoming, name)? {
                    fields.fields(py).set_item(intern!(py, "name"), name)?;
                }
                attribute(incoming, fields.fields(py))?;
                self.conversation.push(py, message)?
            }
        };
        if let Some(metadata) = &metadata {
            self.conversation.open(py, slot)?.merge_metadata(metadata)?;
        }
        Ok(Touched::Message(id))
    }

    #[inline]
    fn message_content<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let py = incoming.event.py();
        let id = text!(incoming, message_id)?;
        let delta = text!(incoming, delta)?;
        let metadata = incoming.metadata()?;
        let Some(slot) = self.text_target(incoming, &id) else { return Ok(Touched::Nothing) };
        let open = self.conversation.open(py, slot)?;
        open.push(&delta)?;
        if let Some(metadata) = &metadata {
            open.merge_metadata(metadata)?;
        }
        Ok(Touched::Message(id))
    }

    fn message_end<'py>(&mut self, incoming: &Incoming<'py>) -> Applied<'py> {
        let py = incoming.event.py();
        let id = text!(incoming, message_id)?;
        let metadata = incoming.metadata()?;
        let (Some(slot), Some(metadata)) = (self.text_target(incoming, &id), metadata) else {
            return Ok(Touched::Nothing);
        };
        self.conversation.open(py, slot)?.merge_metadata(&metadata)?;
        Ok(Touched::Message(id))
    }

    pub fn fork(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(Self {
            conversation: self.conversation.fork(py)?,
            state: self.state.clone_ref(py),
            has_state: self.has_state,
            interrupts: self.interrupts.fork(py),
            tool_calls: self.tool_calls.fork(py)?,
            thread_id: self.thread_id.as_ref().map(|id| id.clone_ref(py)),
            run_id: self.run_id.as_ref().map(|id| id.clone_ref(py)),
            max_patch_values: self.max_patch_values,
            deviations: Vec::new(),
        })
    }
}

/// Gives a minted message the owner that the event names, or none.
fn attribute(incoming: &Incoming<'_>, fields: &Bound<'_, PyDict>) -> PyResult<()> {
    let key = intern!(fields.py(), "subagentRunId");
    match optional_text!(incoming, subagent_run_id)? {
        Some(owner) => fields.set_item(key, owner),
        None if fields.contains(key)? => fields.del_item(key),
        None => Ok(()),
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
