//! The event types of AG-UI 1.0, in the order of the protocol's `EventType`.

macro_rules! kinds {
    ($($kind:ident = $name:literal,)*) => {
        /// The type of an event (<https://docs.ag-ui.com/concepts/events>).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum EventType { $($kind),* }

        impl EventType {
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// The value of `type` on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name),* }
            }
        }
    };
}

kinds! {
    TextMessageStart = "TEXT_MESSAGE_START",
    TextMessageContent = "TEXT_MESSAGE_CONTENT",
    TextMessageEnd = "TEXT_MESSAGE_END",
    TextMessageChunk = "TEXT_MESSAGE_CHUNK",
    ToolCallStart = "TOOL_CALL_START",
    ToolCallArgs = "TOOL_CALL_ARGS",
    ToolCallEnd = "TOOL_CALL_END",
    ToolCallChunk = "TOOL_CALL_CHUNK",
    ToolCallResult = "TOOL_CALL_RESULT",
    StateSnapshot = "STATE_SNAPSHOT",
    StateDelta = "STATE_DELTA",
    MessagesSnapshot = "MESSAGES_SNAPSHOT",
    ActivitySnapshot = "ACTIVITY_SNAPSHOT",
    ActivityDelta = "ACTIVITY_DELTA",
    Raw = "RAW",
    Custom = "CUSTOM",
    RunStarted = "RUN_STARTED",
    RunFinished = "RUN_FINISHED",
    RunError = "RUN_ERROR",
    StepStarted = "STEP_STARTED",
    StepFinished = "STEP_FINISHED",
    ReasoningStart = "REASONING_START",
    ReasoningMessageStart = "REASONING_MESSAGE_START",
    ReasoningMessageContent = "REASONING_MESSAGE_CONTENT",
    ReasoningMessageEnd = "REASONING_MESSAGE_END",
    ReasoningMessageChunk = "REASONING_MESSAGE_CHUNK",
    ReasoningEnd = "REASONING_END",
    ReasoningEncryptedValue = "REASONING_ENCRYPTED_VALUE",
    SubagentStarted = "SUBAGENT_STARTED",
    SubagentFinished = "SUBAGENT_FINISHED",
    SubagentError = "SUBAGENT_ERROR",
}

impl EventType {
    pub const COUNT: usize = Self::ALL.len();

    /// The kind whose `type` this is.
    #[inline]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        if name.len() < 2 {
            return None;
        }
        BY_HASH[hash(name)].filter(|kind| kind.name().as_bytes() == name)
    }
}

/// A hash that tells the names apart. Its factors were found by trying; [`BY_HASH`] does not
/// compile with others that do not.
const fn hash(name: &[u8]) -> usize {
    let letters = name[name.len() / 2] as usize * 15 + name[name.len() - 2] as usize * 30;
    (name.len() * 3 + letters + name[1] as usize) % 64
}

const BY_HASH: [Option<EventType>; 64] = {
    let mut table = [None; 64];
    let mut at = 0;
    while at < EventType::COUNT {
        let kind = EventType::ALL[at];
        let slot = hash(kind.name().as_bytes());
        assert!(table[slot].is_none(), "two names have the same hash");
        table[slot] = Some(kind);
        at += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_nothing_else_is() {
        for &kind in EventType::ALL {
            assert_eq!(EventType::from_name(kind.name().as_bytes()), Some(kind));
        }
        for unknown in ["", "A", "TEXT", "text_message_start", "THINKING_START", "RAW "] {
            assert_eq!(EventType::from_name(unknown.as_bytes()), None);
        }
    }
}
