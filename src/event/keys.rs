//! The fields that the stages ask for by name, with both of their spellings interned once.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};

use super::class_info::Form;
use super::presence::Presence;
use super::view::View;
use crate::capi;

/// A field of the protocol: its key on the wire and its attribute name.
pub struct Key {
    alias: Py<PyString>,
    name: Py<PyString>,
}

macro_rules! keys {
    ($($name:ident = $alias:literal,)*) => {
        pub struct Keys { $(pub $name: Key),* }

        /// The keys.
        #[inline]
        pub fn keys(py: Python<'_>) -> &'static Keys {
            static KEYS: PyOnceLock<Keys> = PyOnceLock::new();
            KEYS.get_or_init(py, || Keys {
                $($name: Key {
                    alias: PyString::intern(py, $alias).unbind(),
                    // `type` is a keyword in Rust, and is written `r#type` there.
                    name: PyString::intern(py, stringify!($name).trim_start_matches("r#")).unbind(),
                }),*
            })
        }
    };
}

keys! {
    r#type = "type",
    activity_type = "activityType",
    content = "content",
    delta = "delta",
    encrypted_value = "encryptedValue",
    encrypted_value_type = "encryptedValueType",
    entity_id = "entityId",
    expires_at = "expiresAt",
    id = "id",
    input = "input",
    interrupt_id = "interruptId",
    interrupts = "interrupts",
    message = "message",
    message_id = "messageId",
    messages = "messages",
    metadata = "metadata",
    name = "name",
    outcome = "outcome",
    parent_message_id = "parentMessageId",
    parent_subagent_run_id = "parentSubagentRunId",
    patch = "patch",
    pending_tool_call_ids = "pendingToolCallIds",
    protocol_version = "protocolVersion",
    raw_event = "rawEvent",
    replace = "replace",
    resume = "resume",
    role = "role",
    run_id = "runId",
    snapshot = "snapshot",
    status = "status",
    step_name = "stepName",
    subagent_run_id = "subagentRunId",
    subtype = "subtype",
    timestamp = "timestamp",
    thread_id = "threadId",
    tool_call_id = "toolCallId",
    tool_call_name = "toolCallName",
    tool_calls = "toolCalls",
}

impl Key {
    /// The key on the wire.
    pub fn alias<'py>(&self, py: Python<'py>) -> &Bound<'py, PyString> {
        self.alias.bind(py)
    }

    /// The attribute name.
    pub fn name<'py>(&self, py: Python<'py>) -> &Bound<'py, PyString> {
        self.name.bind(py)
    }

    /// What a dict has under the key: the wire's spelling, else the attribute's.
    #[inline]
    fn of_dict<'py>(&self, dict: &Bound<'py, PyDict>) -> Option<Bound<'py, PyAny>> {
        let py = dict.py();
        capi::dict_get(dict, self.alias.bind(py)).or_else(|| {
            let differs = !self.alias.is(&self.name);
            differs.then(|| capi::dict_get(dict, self.name.bind(py))).flatten()
        })
    }

    /// What an object inside an event has under the key, be it a dict or a model. None in a model
    /// is absence; in a dict it is a null that the sender wrote.
    pub fn of<'py>(&self, object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        if let Ok(dict) = object.cast::<PyDict>() {
            return self.of_dict(dict);
        }
        let fields = capi::instance_dict(object)?;
        capi::dict_get(&fields, self.name.bind(object.py())).filter(|value| !value.is_none())
    }
}

impl<'py> View<'py> {
    /// [`View::read`] of a dict whose presence is known: most of what is asked for
    /// is not there.
    #[inline]
    pub fn read_seen(&self, key: &Key, presence: Option<Presence>) -> Option<Bound<'py, PyAny>> {
        let Some(presence) = presence else { return self.read(key) };
        let py = self.fields.py();
        let at = self.info.find_interned(key.alias.bind(py), 0);
        if presence.has(at) { capi::dict_get(&self.fields, key.alias.bind(py)) } else { None }
    }

    /// What the object has under the key. Unlike [`View::get`] it tells a null in a wire dict,
    /// which the protocol forbids in many places, from absence.
    #[inline]
    pub fn read(&self, key: &Key) -> Option<Bound<'py, PyAny>> {
        match self.spelling {
            Form::Dict => key.of_dict(&self.fields),
            Form::Model => capi::dict_get(&self.fields, key.name.bind(self.fields.py()))
                .filter(|value| !value.is_none()),
        }
    }
}
