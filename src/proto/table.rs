//! The wire table. Generated from `proto/ag_ui/*.proto` by `proto/generate.py`.

use super::schema::{Kind, Label, Message, field};

/// The messages by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    JsonPatchOperation,
    TextInputPart,
    InputContentDataSource,
    InputContentUrlSource,
    InputContentFileSource,
    InputContentSource,
    ImageInputPart,
    AudioInputPart,
    VideoInputPart,
    DocumentInputPart,
    InputContent,
    ToolCallFunction,
    ToolCall,
    Message,
    Tool,
    Context,
    ResumeEntry,
    RunAgentInput,
    Interrupt,
    Usage,
    BaseEvent,
    TextMessageStartEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageChunkEvent,
    ToolCallStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallChunkEvent,
    ToolCallResultEvent,
    StateSnapshotEvent,
    StateDeltaEvent,
    MessagesSnapshotEvent,
    ActivitySnapshotEvent,
    ActivityDeltaEvent,
    RawEvent,
    CustomEvent,
    RunStartedEvent,
    RunFinishedEvent,
    RunErrorEvent,
    StepStartedEvent,
    StepFinishedEvent,
    ReasoningStartEvent,
    ReasoningMessageStartEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageChunkEvent,
    ReasoningEndEvent,
    ReasoningEncryptedValueEvent,
    SubagentStartedEvent,
    SubagentFinishedEvent,
    SubagentErrorEvent,
    Event,
}

impl Id {
    pub const COUNT: usize = 53;
}

/// The keys that fields have in JSON. A field names its own by the index.
pub static KEYS: [&str; 113] = [
    "activityContent",
    "activityDelta",
    "activitySnapshot",
    "activityType",
    "arguments",
    "audio",
    "baseEvent",
    "cacheWriteInputTokens",
    "cachedInputTokens",
    "code",
    "content",
    "contentParts",
    "context",
    "custom",
    "data",
    "delta",
    "description",
    "document",
    "encryptedValue",
    "encryptedValueType",
    "entityId",
    "error",
    "event",
    "expiresAt",
    "file",
    "forwardedProps",
    "from",
    "function",
    "id",
    "image",
    "input",
    "inputTokens",
    "interruptId",
    "interruptIds",
    "interrupts",
    "message",
    "messageId",
    "messages",
    "messagesSnapshot",
    "metadata",
    "mimeType",
    "model",
    "name",
    "op",
    "outcome",
    "outputTokens",
    "parameters",
    "parentMessageId",
    "parentRunId",
    "parentSubagentRunId",
    "parentToolCallId",
    "patch",
    "path",
    "payload",
    "pendingToolCallIds",
    "protocolVersion",
    "provider",
    "raw",
    "rawEvent",
    "reason",
    "reasoningEncryptedValue",
    "reasoningEnd",
    "reasoningMessageChunk",
    "reasoningMessageContent",
    "reasoningMessageEnd",
    "reasoningMessageStart",
    "reasoningStart",
    "reasoningTokens",
    "replace",
    "responseSchema",
    "result",
    "resume",
    "role",
    "runError",
    "runFinished",
    "runId",
    "runStarted",
    "snapshot",
    "source",
    "state",
    "stateDelta",
    "stateSnapshot",
    "status",
    "stepFinished",
    "stepName",
    "stepStarted",
    "subagentError",
    "subagentFinished",
    "subagentRunId",
    "subagentStarted",
    "subtype",
    "text",
    "textMessageChunk",
    "textMessageContent",
    "textMessageEnd",
    "textMessageStart",
    "threadId",
    "timestamp",
    "toolCallArgs",
    "toolCallChunk",
    "toolCallEnd",
    "toolCallId",
    "toolCallName",
    "toolCallResult",
    "toolCallStart",
    "toolCalls",
    "tools",
    "totalTokens",
    "type",
    "url",
    "usage",
    "value",
    "video",
];

/// The names of `JsonPatchOperationType` by number.
pub static JSON_PATCH_OPERATION_TYPE: [&str; 6] = [
    "ADD",
    "REMOVE",
    "REPLACE",
    "MOVE",
    "COPY",
    "TEST",
];

/// The names of `EventType` by number.
pub static EVENT_TYPE: [&str; 31] = [
    "TEXT_MESSAGE_START",
    "TEXT_MESSAGE_CONTENT",
    "TEXT_MESSAGE_END",
    "TOOL_CALL_START",
    "TOOL_CALL_ARGS",
    "TOOL_CALL_END",
    "STATE_SNAPSHOT",
    "STATE_DELTA",
    "MESSAGES_SNAPSHOT",
    "RAW",
    "CUSTOM",
    "RUN_STARTED",
    "RUN_FINISHED",
    "RUN_ERROR",
    "STEP_STARTED",
    "STEP_FINISHED",
    "SUBAGENT_STARTED",
    "SUBAGENT_FINISHED",
    "SUBAGENT_ERROR",
    "TEXT_MESSAGE_CHUNK",
    "TOOL_CALL_CHUNK",
    "TOOL_CALL_RESULT",
    "ACTIVITY_SNAPSHOT",
    "ACTIVITY_DELTA",
    "REASONING_START",
    "REASONING_MESSAGE_START",
    "REASONING_MESSAGE_CONTENT",
    "REASONING_MESSAGE_END",
    "REASONING_MESSAGE_CHUNK",
    "REASONING_END",
    "REASONING_ENCRYPTED_VALUE",
];

pub static JSON_PATCH_OPERATION: Message = Message {
    id: Id::JsonPatchOperation,
    union: false,
    fields: &[
        field(1, "op", 43, Label::Implicit, Kind::Enum),
        field(2, "path", 52, Label::Implicit, Kind::Str),
        field(3, "from", 26, Label::Optional, Kind::Str),
        field(4, "value", 111, Label::Optional, Kind::Value),
    ],
};

pub static TEXT_INPUT_PART: Message = Message {
    id: Id::TextInputPart,
    union: false,
    fields: &[
        field(1, "text", 91, Label::Implicit, Kind::Str),
        field(2, "id", 28, Label::Optional, Kind::Str),
        field(3, "metadata", 39, Label::Optional, Kind::Value),
    ],
};

pub static INPUT_CONTENT_DATA_SOURCE: Message = Message {
    id: Id::InputContentDataSource,
    union: false,
    fields: &[
        field(1, "value", 111, Label::Implicit, Kind::Str),
        field(2, "mime_type", 40, Label::Implicit, Kind::Str),
    ],
};

pub static INPUT_CONTENT_URL_SOURCE: Message = Message {
    id: Id::InputContentUrlSource,
    union: false,
    fields: &[
        field(1, "value", 111, Label::Implicit, Kind::Str),
        field(2, "mime_type", 40, Label::Optional, Kind::Str),
    ],
};

pub static INPUT_CONTENT_FILE_SOURCE: Message = Message {
    id: Id::InputContentFileSource,
    union: false,
    fields: &[
        field(1, "value", 111, Label::Implicit, Kind::Str),
        field(2, "provider", 56, Label::Optional, Kind::Str),
        field(3, "mime_type", 40, Label::Optional, Kind::Str),
    ],
};

pub static INPUT_CONTENT_SOURCE: Message = Message {
    id: Id::InputContentSource,
    union: true,
    fields: &[
        field(1, "data", 14, Label::Optional, Kind::Message(&INPUT_CONTENT_DATA_SOURCE)),
        field(2, "url", 109, Label::Optional, Kind::Message(&INPUT_CONTENT_URL_SOURCE)),
        field(3, "file", 24, Label::Optional, Kind::Message(&INPUT_CONTENT_FILE_SOURCE)),
    ],
};

pub static IMAGE_INPUT_PART: Message = Message {
    id: Id::ImageInputPart,
    union: false,
    fields: &[
        field(1, "source", 78, Label::Optional, Kind::Message(&INPUT_CONTENT_SOURCE)),
        field(2, "metadata", 39, Label::Optional, Kind::Value),
        field(3, "id", 28, Label::Optional, Kind::Str),
    ],
};

pub static AUDIO_INPUT_PART: Message = Message {
    id: Id::AudioInputPart,
    union: false,
    fields: &[
        field(1, "source", 78, Label::Optional, Kind::Message(&INPUT_CONTENT_SOURCE)),
        field(2, "metadata", 39, Label::Optional, Kind::Value),
        field(3, "id", 28, Label::Optional, Kind::Str),
    ],
};

pub static VIDEO_INPUT_PART: Message = Message {
    id: Id::VideoInputPart,
    union: false,
    fields: &[
        field(1, "source", 78, Label::Optional, Kind::Message(&INPUT_CONTENT_SOURCE)),
        field(2, "metadata", 39, Label::Optional, Kind::Value),
        field(3, "id", 28, Label::Optional, Kind::Str),
    ],
};

pub static DOCUMENT_INPUT_PART: Message = Message {
    id: Id::DocumentInputPart,
    union: false,
    fields: &[
        field(1, "source", 78, Label::Optional, Kind::Message(&INPUT_CONTENT_SOURCE)),
        field(2, "metadata", 39, Label::Optional, Kind::Value),
        field(3, "id", 28, Label::Optional, Kind::Str),
    ],
};

pub static INPUT_CONTENT: Message = Message {
    id: Id::InputContent,
    union: true,
    fields: &[
        field(1, "text", 91, Label::Optional, Kind::Message(&TEXT_INPUT_PART)),
        field(2, "image", 29, Label::Optional, Kind::Message(&IMAGE_INPUT_PART)),
        field(3, "audio", 5, Label::Optional, Kind::Message(&AUDIO_INPUT_PART)),
        field(4, "video", 112, Label::Optional, Kind::Message(&VIDEO_INPUT_PART)),
        field(5, "document", 17, Label::Optional, Kind::Message(&DOCUMENT_INPUT_PART)),
    ],
};

pub static TOOL_CALL_FUNCTION: Message = Message {
    id: Id::ToolCallFunction,
    union: false,
    fields: &[
        field(1, "name", 42, Label::Implicit, Kind::Str),
        field(2, "arguments", 4, Label::Implicit, Kind::Str),
    ],
};

pub static TOOL_CALL: Message = Message {
    id: Id::ToolCall,
    union: false,
    fields: &[
        field(1, "id", 28, Label::Implicit, Kind::Str),
        field(2, "type", 108, Label::Implicit, Kind::Str),
        field(3, "function", 27, Label::Optional, Kind::Message(&TOOL_CALL_FUNCTION)),
        field(4, "metadata", 39, Label::Optional, Kind::Struct),
        field(5, "encrypted_value", 18, Label::Optional, Kind::Str),
        field(6, "encrypted_value_type", 19, Label::Optional, Kind::Str),
    ],
};

pub static MESSAGE: Message = Message {
    id: Id::Message,
    union: false,
    fields: &[
        field(1, "id", 28, Label::Implicit, Kind::Str),
        field(2, "role", 72, Label::Implicit, Kind::Str),
        field(3, "content", 10, Label::Optional, Kind::Str),
        field(4, "name", 42, Label::Optional, Kind::Str),
        field(5, "tool_calls", 105, Label::Repeated, Kind::Message(&TOOL_CALL)),
        field(6, "tool_call_id", 101, Label::Optional, Kind::Str),
        field(7, "error", 21, Label::Optional, Kind::Str),
        field(8, "content_parts", 11, Label::Repeated, Kind::Message(&INPUT_CONTENT)),
        field(9, "metadata", 39, Label::Optional, Kind::Struct),
        field(10, "subagent_run_id", 88, Label::Optional, Kind::Str),
        field(11, "encrypted_value", 18, Label::Optional, Kind::Str),
        field(12, "activity_type", 3, Label::Optional, Kind::Str),
        field(13, "activity_content", 0, Label::Optional, Kind::Struct),
        field(14, "encrypted_value_type", 19, Label::Optional, Kind::Str),
    ],
};

pub static TOOL: Message = Message {
    id: Id::Tool,
    union: false,
    fields: &[
        field(1, "name", 42, Label::Implicit, Kind::Str),
        field(2, "description", 16, Label::Implicit, Kind::Str),
        field(3, "parameters", 46, Label::Optional, Kind::Value),
        field(4, "metadata", 39, Label::Optional, Kind::Struct),
    ],
};

pub static CONTEXT: Message = Message {
    id: Id::Context,
    union: false,
    fields: &[
        field(1, "description", 16, Label::Implicit, Kind::Str),
        field(2, "value", 111, Label::Implicit, Kind::Str),
    ],
};

pub static RESUME_ENTRY: Message = Message {
    id: Id::ResumeEntry,
    union: false,
    fields: &[
        field(1, "interrupt_id", 32, Label::Implicit, Kind::Str),
        field(2, "status", 82, Label::Implicit, Kind::Str),
        field(3, "payload", 53, Label::Optional, Kind::Value),
        field(4, "metadata", 39, Label::Optional, Kind::Struct),
    ],
};

pub static RUN_AGENT_INPUT: Message = Message {
    id: Id::RunAgentInput,
    union: false,
    fields: &[
        field(1, "thread_id", 96, Label::Implicit, Kind::Str),
        field(2, "run_id", 75, Label::Implicit, Kind::Str),
        field(3, "parent_run_id", 48, Label::Optional, Kind::Str),
        field(4, "state", 79, Label::Optional, Kind::Value),
        field(5, "messages", 37, Label::Repeated, Kind::Message(&MESSAGE)),
        field(6, "tools", 106, Label::Repeated, Kind::Message(&TOOL)),
        field(7, "context", 12, Label::Repeated, Kind::Message(&CONTEXT)),
        field(8, "forwarded_props", 25, Label::Optional, Kind::Value),
        field(9, "resume", 71, Label::Repeated, Kind::Message(&RESUME_ENTRY)),
        field(10, "protocol_version", 55, Label::Optional, Kind::Str),
    ],
};

pub static INTERRUPT: Message = Message {
    id: Id::Interrupt,
    union: false,
    fields: &[
        field(1, "id", 28, Label::Implicit, Kind::Str),
        field(2, "reason", 59, Label::Implicit, Kind::Str),
        field(3, "message", 35, Label::Optional, Kind::Str),
        field(4, "tool_call_id", 101, Label::Optional, Kind::Str),
        field(5, "response_schema", 69, Label::Optional, Kind::Value),
        field(6, "expires_at", 23, Label::Optional, Kind::Str),
        field(7, "metadata", 39, Label::Optional, Kind::Value),
        field(8, "subagent_run_id", 88, Label::Optional, Kind::Str),
    ],
};

pub static USAGE: Message = Message {
    id: Id::Usage,
    union: false,
    fields: &[
        field(1, "provider", 56, Label::Optional, Kind::Str),
        field(2, "model", 41, Label::Optional, Kind::Str),
        field(3, "input_tokens", 31, Label::Optional, Kind::Int64),
        field(4, "output_tokens", 45, Label::Optional, Kind::Int64),
        field(5, "total_tokens", 107, Label::Optional, Kind::Int64),
        field(6, "reasoning_tokens", 67, Label::Optional, Kind::Int64),
        field(7, "cached_input_tokens", 8, Label::Optional, Kind::Int64),
        field(8, "cache_write_input_tokens", 7, Label::Optional, Kind::Int64),
    ],
};

pub static BASE_EVENT: Message = Message {
    id: Id::BaseEvent,
    union: false,
    fields: &[
        field(1, "type", 108, Label::Implicit, Kind::Enum),
        field(2, "timestamp", 97, Label::Optional, Kind::Int64),
        field(3, "raw_event", 58, Label::Optional, Kind::Value),
        field(4, "metadata", 39, Label::Optional, Kind::Struct),
    ],
};

pub static TEXT_MESSAGE_START_EVENT: Message = Message {
    id: Id::TextMessageStartEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "message_id", 36, Label::Implicit, Kind::Str),
        field(3, "role", 72, Label::Optional, Kind::Str),
        field(4, "name", 42, Label::Optional, Kind::Str),
        field(5, "subagent_run_id", 88, Label::Optional, Kind::Str),
    ],
};

pub static TEXT_MESSAGE_CONTENT_EVENT: Message = Message {
    id: Id::TextMessageContentEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "message_id", 36, Label::Implicit, Kind::Str),
        field(3, "delta", 15, Label::Implicit, Kind::Str),
        field(4, "subagent_run_id", 88, Label::Optional, Kind::Str),
    ],
};

pub static TEXT_MESSAGE_END_EVENT: Message = Message {
    id: Id::TextMessageEndEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "message_id", 36, Label::Implicit, Kind::Str),
        field(3, "subagent_run_id", 88, Label::Optional, Kind::Str),
    ],
};

pub static TEXT_MESSAGE_CHUNK_EVENT: Message = Message {
    id: Id::TextMessageChunkEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "message_id", 36, Label::Optional, Kind::Str),
        field(3, "role", 72, Label::Optional, Kind::Str),
        field(4, "delta", 15, Label::Optional, Kind::Str),
        field(5, "name", 42, Label::Optional, Kind::Str),
        field(6, "subagent_run_id", 88, Label::Optional, Kind::Str),
    ],
};

pub static TOOL_CALL_START_EVENT: Message = Message {
    id: Id::ToolCallStartEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "tool_call_id", 101, Label::Implicit, Kind::Str),
        field(3, "tool_call_name", 102, Label::Implicit, Kind::Str),
        field(4, "parent_message_id", 47, Label::Optional, Kind::Str),
        field(5, "subagent_run_id", 88, Label::Optional, Kind::Str),
    ],
};

pub static TOOL_CALL_ARGS_EVENT: Message = Message {
    id: Id::ToolCallArgsEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "tool_call_id", 101, Label::Implicit, Kind::Str),
        field(3, "delta", 15, Label::Implicit, Kind::Str),
        field(4, "subagent_run_id", 88, Label::Optional, Kind::Str),
    ],
};

pub static TOOL_CALL_END_EVENT: Message = Message {
    id: Id::ToolCallEndEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "tool_call_id", 101, Label::Implicit, Kind::Str),
        field(3, "subagent_run_id", 88, Label::Optional, Kind::Str),
    ],
};

pub static TOOL_CALL_CHUNK_EVENT: Message = Message {
    id: Id::ToolCallChunkEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "tool_call_id", 101, Label::Optional, Kind::Str),
        field(3, "tool_call_name", 102, Label::Optional, Kind::Str),
        field(4, "parent_message_id", 47, Label::Optional, Kind::Str),
        field(5, "delta", 15, Label::Optional, Kind::Str),
        field(6, "subagent_run_id", 88, Label::Optional, Kind::Str),
    ],
};

pub static TOOL_CALL_RESULT_EVENT: Message = Message {
    id: Id::ToolCallResultEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "subagent_run_id", 88, Label::Optional, Kind::Str),
        field(3, "message_id", 36, Label::Implicit, Kind::Str),
        field(4, "tool_call_id", 101, Label::Implicit, Kind::Str),
        field(5, "content", 10, Label::Optional, Kind::Str),
        field(6, "role", 72, Label::Optional, Kind::Str),
        field(7, "content_parts", 11, Label::Repeated, Kind::Message(&INPUT_CONTENT)),
    ],
};

pub static STATE_SNAPSHOT_EVENT: Message = Message {
    id: Id::StateSnapshotEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "snapshot", 77, Label::Optional, Kind::Value),
        field(3, "subagent_run_id", 88, Label::Optional, Kind::Str),
    ],
};

pub static STATE_DELTA_EVENT: Message = Message {
    id: Id::StateDeltaEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "delta", 15, Label::Repeated, Kind::Message(&JSON_PATCH_OPERATION)),
        field(3, "subagent_run_id", 88, Label::Optional, Kind::Str),
    ],
};

pub static MESSAGES_SNAPSHOT_EVENT: Message = Message {
    id: Id::MessagesSnapshotEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "messages", 37, Label::Repeated, Kind::Message(&MESSAGE)),
    ],
};

pub static ACTIVITY_SNAPSHOT_EVENT: Message = Message {
    id: Id::ActivitySnapshotEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "subagent_run_id", 88, Label::Optional, Kind::Str),
        field(3, "message_id", 36, Label::Implicit, Kind::Str),
        field(4, "activity_type", 3, Label::Implicit, Kind::Str),
        field(5, "content", 10, Label::Optional, Kind::Struct),
        field(6, "replace", 68, Label::Optional, Kind::Bool),
    ],
};

pub static ACTIVITY_DELTA_EVENT: Message = Message {
    id: Id::ActivityDeltaEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "subagent_run_id", 88, Label::Optional, Kind::Str),
        field(3, "message_id", 36, Label::Implicit, Kind::Str),
        field(4, "activity_type", 3, Label::Implicit, Kind::Str),
        field(5, "patch", 51, Label::Repeated, Kind::Message(&JSON_PATCH_OPERATION)),
    ],
};

pub static RAW_EVENT: Message = Message {
    id: Id::RawEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "event", 22, Label::Optional, Kind::Value),
        field(3, "source", 78, Label::Optional, Kind::Str),
        field(4, "subagent_run_id", 88, Label::Optional, Kind::Str),
    ],
};

pub static CUSTOM_EVENT: Message = Message {
    id: Id::CustomEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "name", 42, Label::Implicit, Kind::Str),
        field(3, "value", 111, Label::Optional, Kind::Value),
        field(4, "subagent_run_id", 88, Label::Optional, Kind::Str),
    ],
};

pub static RUN_STARTED_EVENT: Message = Message {
    id: Id::RunStartedEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "thread_id", 96, Label::Implicit, Kind::Str),
        field(3, "run_id", 75, Label::Implicit, Kind::Str),
        field(4, "parent_run_id", 48, Label::Optional, Kind::Str),
        field(5, "input", 30, Label::Optional, Kind::Message(&RUN_AGENT_INPUT)),
        field(6, "protocol_version", 55, Label::Optional, Kind::Str),
    ],
};

pub static RUN_FINISHED_EVENT: Message = Message {
    id: Id::RunFinishedEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "thread_id", 96, Label::Implicit, Kind::Str),
        field(3, "run_id", 75, Label::Implicit, Kind::Str),
        field(4, "result", 70, Label::Optional, Kind::Value),
        field(5, "outcome", 44, Label::Implicit, Kind::Str),
        field(6, "interrupts", 34, Label::Repeated, Kind::Message(&INTERRUPT)),
        field(7, "usage", 110, Label::Repeated, Kind::Message(&USAGE)),
        field(8, "pending_tool_call_ids", 54, Label::Repeated, Kind::Str),
    ],
};

pub static RUN_ERROR_EVENT: Message = Message {
    id: Id::RunErrorEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "code", 9, Label::Optional, Kind::Str),
        field(3, "message", 35, Label::Implicit, Kind::Str),
        field(4, "usage", 110, Label::Repeated, Kind::Message(&USAGE)),
    ],
};

pub static STEP_STARTED_EVENT: Message = Message {
    id: Id::StepStartedEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "step_name", 84, Label::Implicit, Kind::Str),
        field(3, "subagent_run_id", 88, Label::Optional, Kind::Str),
    ],
};

pub static STEP_FINISHED_EVENT: Message = Message {
    id: Id::StepFinishedEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "step_name", 84, Label::Implicit, Kind::Str),
        field(3, "subagent_run_id", 88, Label::Optional, Kind::Str),
    ],
};

pub static REASONING_START_EVENT: Message = Message {
    id: Id::ReasoningStartEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "subagent_run_id", 88, Label::Optional, Kind::Str),
        field(3, "message_id", 36, Label::Implicit, Kind::Str),
    ],
};

pub static REASONING_MESSAGE_START_EVENT: Message = Message {
    id: Id::ReasoningMessageStartEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "subagent_run_id", 88, Label::Optional, Kind::Str),
        field(3, "message_id", 36, Label::Implicit, Kind::Str),
        field(4, "role", 72, Label::Implicit, Kind::Str),
    ],
};

pub static REASONING_MESSAGE_CONTENT_EVENT: Message = Message {
    id: Id::ReasoningMessageContentEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "subagent_run_id", 88, Label::Optional, Kind::Str),
        field(3, "message_id", 36, Label::Implicit, Kind::Str),
        field(4, "delta", 15, Label::Implicit, Kind::Str),
    ],
};

pub static REASONING_MESSAGE_END_EVENT: Message = Message {
    id: Id::ReasoningMessageEndEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "subagent_run_id", 88, Label::Optional, Kind::Str),
        field(3, "message_id", 36, Label::Implicit, Kind::Str),
    ],
};

pub static REASONING_MESSAGE_CHUNK_EVENT: Message = Message {
    id: Id::ReasoningMessageChunkEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "subagent_run_id", 88, Label::Optional, Kind::Str),
        field(3, "message_id", 36, Label::Optional, Kind::Str),
        field(4, "delta", 15, Label::Optional, Kind::Str),
    ],
};

pub static REASONING_END_EVENT: Message = Message {
    id: Id::ReasoningEndEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "subagent_run_id", 88, Label::Optional, Kind::Str),
        field(3, "message_id", 36, Label::Implicit, Kind::Str),
    ],
};

pub static REASONING_ENCRYPTED_VALUE_EVENT: Message = Message {
    id: Id::ReasoningEncryptedValueEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "subagent_run_id", 88, Label::Optional, Kind::Str),
        field(3, "subtype", 90, Label::Implicit, Kind::Str),
        field(4, "entity_id", 20, Label::Implicit, Kind::Str),
        field(5, "encrypted_value", 18, Label::Implicit, Kind::Str),
        field(6, "encrypted_value_type", 19, Label::Optional, Kind::Str),
    ],
};

pub static SUBAGENT_STARTED_EVENT: Message = Message {
    id: Id::SubagentStartedEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "subagent_run_id", 88, Label::Implicit, Kind::Str),
        field(3, "name", 42, Label::Implicit, Kind::Str),
        field(4, "description", 16, Label::Optional, Kind::Str),
        field(5, "parent_subagent_run_id", 49, Label::Optional, Kind::Str),
        field(6, "parent_tool_call_id", 50, Label::Optional, Kind::Str),
        field(7, "parent_message_id", 47, Label::Optional, Kind::Str),
    ],
};

pub static SUBAGENT_FINISHED_EVENT: Message = Message {
    id: Id::SubagentFinishedEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "subagent_run_id", 88, Label::Implicit, Kind::Str),
        field(3, "result", 70, Label::Optional, Kind::Value),
        field(4, "outcome", 44, Label::Implicit, Kind::Str),
        field(5, "interrupt_ids", 33, Label::Repeated, Kind::Str),
    ],
};

pub static SUBAGENT_ERROR_EVENT: Message = Message {
    id: Id::SubagentErrorEvent,
    union: false,
    fields: &[
        field(1, "base_event", 6, Label::Optional, Kind::Message(&BASE_EVENT)),
        field(2, "subagent_run_id", 88, Label::Implicit, Kind::Str),
        field(3, "message", 35, Label::Implicit, Kind::Str),
        field(4, "code", 9, Label::Optional, Kind::Str),
    ],
};

pub static EVENT: Message = Message {
    id: Id::Event,
    union: true,
    fields: &[
        field(
            1,
            "text_message_start",
            95,
            Label::Optional,
            Kind::Message(&TEXT_MESSAGE_START_EVENT),
        ),
        field(
            2,
            "text_message_content",
            93,
            Label::Optional,
            Kind::Message(&TEXT_MESSAGE_CONTENT_EVENT),
        ),
        field(3, "text_message_end", 94, Label::Optional, Kind::Message(&TEXT_MESSAGE_END_EVENT)),
        field(4, "tool_call_start", 104, Label::Optional, Kind::Message(&TOOL_CALL_START_EVENT)),
        field(5, "tool_call_args", 98, Label::Optional, Kind::Message(&TOOL_CALL_ARGS_EVENT)),
        field(6, "tool_call_end", 100, Label::Optional, Kind::Message(&TOOL_CALL_END_EVENT)),
        field(7, "state_snapshot", 81, Label::Optional, Kind::Message(&STATE_SNAPSHOT_EVENT)),
        field(8, "state_delta", 80, Label::Optional, Kind::Message(&STATE_DELTA_EVENT)),
        field(9, "messages_snapshot", 38, Label::Optional, Kind::Message(&MESSAGES_SNAPSHOT_EVENT)),
        field(10, "raw", 57, Label::Optional, Kind::Message(&RAW_EVENT)),
        field(11, "custom", 13, Label::Optional, Kind::Message(&CUSTOM_EVENT)),
        field(12, "run_started", 76, Label::Optional, Kind::Message(&RUN_STARTED_EVENT)),
        field(13, "run_finished", 74, Label::Optional, Kind::Message(&RUN_FINISHED_EVENT)),
        field(14, "run_error", 73, Label::Optional, Kind::Message(&RUN_ERROR_EVENT)),
        field(15, "step_started", 85, Label::Optional, Kind::Message(&STEP_STARTED_EVENT)),
        field(16, "step_finished", 83, Label::Optional, Kind::Message(&STEP_FINISHED_EVENT)),
        field(
            17,
            "text_message_chunk",
            92,
            Label::Optional,
            Kind::Message(&TEXT_MESSAGE_CHUNK_EVENT),
        ),
        field(18, "tool_call_chunk", 99, Label::Optional, Kind::Message(&TOOL_CALL_CHUNK_EVENT)),
        field(19, "subagent_started", 89, Label::Optional, Kind::Message(&SUBAGENT_STARTED_EVENT)),
        field(
            20,
            "subagent_finished",
            87,
            Label::Optional,
            Kind::Message(&SUBAGENT_FINISHED_EVENT),
        ),
        field(21, "subagent_error", 86, Label::Optional, Kind::Message(&SUBAGENT_ERROR_EVENT)),
        field(22, "tool_call_result", 103, Label::Optional, Kind::Message(&TOOL_CALL_RESULT_EVENT)),
        field(23, "activity_snapshot", 2, Label::Optional, Kind::Message(&ACTIVITY_SNAPSHOT_EVENT)),
        field(24, "activity_delta", 1, Label::Optional, Kind::Message(&ACTIVITY_DELTA_EVENT)),
        field(25, "reasoning_start", 66, Label::Optional, Kind::Message(&REASONING_START_EVENT)),
        field(
            26,
            "reasoning_message_start",
            65,
            Label::Optional,
            Kind::Message(&REASONING_MESSAGE_START_EVENT),
        ),
        field(
            27,
            "reasoning_message_content",
            63,
            Label::Optional,
            Kind::Message(&REASONING_MESSAGE_CONTENT_EVENT),
        ),
        field(
            28,
            "reasoning_message_end",
            64,
            Label::Optional,
            Kind::Message(&REASONING_MESSAGE_END_EVENT),
        ),
        field(
            29,
            "reasoning_message_chunk",
            62,
            Label::Optional,
            Kind::Message(&REASONING_MESSAGE_CHUNK_EVENT),
        ),
        field(30, "reasoning_end", 61, Label::Optional, Kind::Message(&REASONING_END_EVENT)),
        field(
            31,
            "reasoning_encrypted_value",
            60,
            Label::Optional,
            Kind::Message(&REASONING_ENCRYPTED_VALUE_EVENT),
        ),
    ],
};
