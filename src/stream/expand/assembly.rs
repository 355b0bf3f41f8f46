//! What chunks assemble: the three sorts of items, and the names of their events and fields.

use pyo3::prelude::*;

use crate::event::{EventType, Key, keys};

/// What chunks of one type assemble.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Assembly {
    Text,
    Tool,
    Reasoning,
}

impl Assembly {
    pub fn of(kind: EventType) -> Option<Self> {
        match kind {
            EventType::TextMessageChunk => Some(Self::Text),
            EventType::ToolCallChunk => Some(Self::Tool),
            EventType::ReasoningMessageChunk => Some(Self::Reasoning),
            _ => None,
        }
    }

    pub fn chunk(self) -> EventType {
        match self {
            Self::Text => EventType::TextMessageChunk,
            Self::Tool => EventType::ToolCallChunk,
            Self::Reasoning => EventType::ReasoningMessageChunk,
        }
    }

    pub fn start(self) -> EventType {
        match self {
            Self::Text => EventType::TextMessageStart,
            Self::Tool => EventType::ToolCallStart,
            Self::Reasoning => EventType::ReasoningMessageStart,
        }
    }

    pub fn content(self) -> EventType {
        match self {
            Self::Text => EventType::TextMessageContent,
            Self::Tool => EventType::ToolCallArgs,
            Self::Reasoning => EventType::ReasoningMessageContent,
        }
    }

    pub fn end(self) -> EventType {
        match self {
            Self::Text => EventType::TextMessageEnd,
            Self::Tool => EventType::ToolCallEnd,
            Self::Reasoning => EventType::ReasoningMessageEnd,
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
