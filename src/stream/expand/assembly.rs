//! What chunks assemble: the three sorts of items, and the names of their events and fields.

use pyo3::prelude::*;

use crate::event::{EventKind, Key, keys};

/// What chunks of one type assemble.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Assembly {
    Text,
    Tool,
    Reasoning,
}

impl Assembly {
    pub fn of(kind: EventKind) -> Option<Self> {
        match kind {
            EventKind::TextMessageChunk => Some(Self::Text),
            EventKind::ToolCallChunk => Some(Self::Tool),
            EventKind::ReasoningMessageChunk => Some(Self::Reasoning),
            _ => None,
        }
    }

    pub fn chunk(self) -> EventKind {
        match self {
            Self::Text => EventKind::TextMessageChunk,
            Self::Tool => EventKind::ToolCallChunk,
            Self::Reasoning => EventKind::ReasoningMessageChunk,
        }
    }

    pub fn start(self) -> EventKind {
        match self {
            Self::Text => EventKind::TextMessageStart,
            Self::Tool => EventKind::ToolCallStart,
            Self::Reasoning => EventKind::ReasoningMessageStart,
        }
    }

    pub fn content(self) -> EventKind {
        match self {
            Self::Text => EventKind::TextMessageContent,
            Self::Tool => EventKind::ToolCallArgs,
            Self::Reasoning => EventKind::ReasoningMessageContent,
        }
    }

    pub fn end(self) -> EventKind {
        match self {
            Self::Text => EventKind::TextMessageEnd,
            Self::Tool => EventKind::ToolCallEnd,
            Self::Reasoning => EventKind::ReasoningMessageEnd,
        }
    }

    pub fn noun(self) -> &'static str {
        match self {
            Self::Text => "text message",
            Self::Tool => "tool call",
            Self::Reasoning => "reasoning message",
        }
    }

    pub fn id(self, py: Python<'_>) -> &'static Key {
        match self {
            Self::Tool => &keys(py).tool_call_id,
            Self::Text | Self::Reasoning => &keys(py).message_id,
        }
    }

    /// The two fields that an opener establishes and a continuation may only repeat.
    pub fn established(self, py: Python<'_>) -> [Option<&'static Key>; 2] {
        let keys = keys(py);
        match self {
            Self::Text => [Some(&keys.role), Some(&keys.name)],
            Self::Tool => [Some(&keys.tool_call_name), Some(&keys.parent_message_id)],
            Self::Reasoning => [None, None],
        }
    }
}
