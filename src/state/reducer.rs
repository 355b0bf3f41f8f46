//! The reducer that Python sees.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use pyo3::{Borrowed, PyTraverseError, PyVisit};

use super::conversation::Conversation;
use super::held::Held;
use super::incoming::Incoming;
use super::input::{self, Turn};
use super::message::{Message, NamedCall};
use super::reduce::{Change, Reduction};
use super::wire;
use crate::deviation::Reporter;
use crate::errors::{class_name, exclusive, shared, shown};
use crate::event::protocol_version;
use crate::input::Callback;

/// What a stream of events adds up to: the conversation, the state, and what is pending.
///
/// Apply events in the order of the stream, verified and with chunks expanded, as SDK models or as
/// wire dicts. A token costs the same whatever the length of the conversation: text is kept in
/// parts and joined when it is asked for.
///
/// Deviations that the protocol tolerates are reported and skipped, each with a kind:
/// ``unknown_target`` (no such message or call), ``foreign_target`` (text aimed at an activity
/// message, or an activity event at another), ``foreign_parent`` (a tool call whose parent is no
/// assistant message), ``renamed_call``, ``repeated_id`` (two messages of one event with the same
/// id, of which one is kept), ``patch_not_applied``, ``unknown_op``, ``unknown_subtype``.
///
/// Args:
///     messages: The conversation so far, models or dicts. They are copied.
///     state: The state so far, any JSON value. It is copied.
///     as_dict: Give messages, interrupts and inputs out as wire dicts, not as SDK models.
///     max_patch_values: The most values that one JSON Patch of an event may make, as ``max_values``
///         of :func:`apply_patch`. One that makes more is reported as not applied.
///     on_deviation: Called with each :class:`Deviation`; what it raises comes through. Without it
///         they are logged at WARNING under the name "agui_codec".
///
/// Raises:
///     AGUIError: A message without ``id`` or ``role``, or a value nested deeper than 254 levels.
///     TypeError: ``messages`` is no iterable, or one of them neither a model nor a dict.
///
/// Example:
///     >>> reducer = EventReducer(state={"city": "Lisbon"})
///     >>> for event in [
///     ...     {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"},
///     ...     {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "Hello"},
///     ...     {"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/sky", "value": "clear"}]},
///     ... ]:
///     ...     _ = reducer.apply(event)
///     >>> reducer.messages[0].content, reducer.state
///     ('Hello', {'city': 'Lisbon', 'sky': 'clear'})
#[pyclass(module = "agui_codec")]
pub struct EventReducer {
    reduction: Reduction,
    reporter: Reporter,
    as_dict: bool,
}

#[pymethods]
impl EventReducer {
    #[new]
    #[pyo3(signature = (messages=None, state=None, *, as_dict=false, max_patch_values=1_000_000,
        on_deviation=None))]
    fn new(
        py: Python<'_>,
        messages: Option<&Bound<'_, PyAny>>,
        state: Option<&Bound<'_, PyAny>>,
        as_dict: bool,
        max_patch_values: usize,
        on_deviation: Option<Callback>,
    ) -> PyResult<Self> {
        let has_state = state.is_some();
        let state = match state {
            Some(state) => Held::new(&wire::own(state)?),
            None => Held::new(py.None().bind(py)),
        };
        let mut reduction = Reduction::new(py, state);
        reduction.max_patch_values = max_patch_values;
        reduction.has_state = has_state;
        if let Some(messages) = messages {
            for message in given(messages)? {
                reduction.conversation.push(py, message)?;
            }
        }
        Ok(Self { reduction, reporter: Reporter::new(on_deviation), as_dict })
    }

    /// Applies one event.
    ///
    /// Args:
    ///     event: An SDK model or a wire dict. It is not changed, and what is kept of it is copied.
    ///
    /// Returns:
    ///     Which messages changed and whether the state did. It is falsy if nothing did.
    ///
    /// Raises:
    ///     PatchError: A malformed JSON Patch (one that merely does not apply is reported).
    ///     AGUIError: Not an event, a chunk, or an event without a field that it must have.
    #[pyo3(signature = (event, /))]
    fn apply(slf: &Bound<'_, Self>, event: &Bound<'_, PyAny>) -> PyResult<Change> {
        let py = slf.py();
        let incoming = Incoming::read(event)?;
        let mut reducer = exclusive(slf)?;
        let touched = reducer.reduction.apply(&incoming);
        let deviations = reducer.reduction.take_deviations();
        drop(reducer);
        if !deviations.is_empty() {
            let reporter = shared(slf)?.reporter.clone_ref(py);
            // Nothing is borrowed now, so the callback may use the reducer.
            for deviation in deviations {
                reporter.report(py, deviation)?;
            }
        }
        touched?.into_change(py)
    }

    /// Applies events one after the other.
    ///
    /// Args:
    ///     events: Any iterable of events.
    ///
    /// Returns:
    ///     The reducer itself.
    #[pyo3(signature = (events, /))]
    fn apply_all<'py>(
        slf: Bound<'py, Self>,
        events: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Self>> {
        for event in events.try_iter()? {
            Self::apply(&slf, &event?)?;
        }
        Ok(slf)
    }

    /// Adds a message of the consumer's own, for the next input; see :meth:`next_input`.
    ///
    /// Args:
    ///     message: An SDK model or a dict. It is copied. One whose id is there already replaces it.
    #[pyo3(signature = (message, /))]
    fn add_message(
        slf: &Bound<'_, Self>,
        py: Python<'_>,
        message: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let mut this = exclusive(slf)?;
        let mut message = Message::given(message)?;
        message.known = false;
        let conversation = &mut this.reduction.conversation;
        match conversation.find(message.id.bind(py)) {
            Some(slot) => conversation.replace(py, slot, message),
            None => conversation.push(py, message).map(drop),
        }
    }

    /// The conversation: a new list of SDK models, or of wire dicts with ``as_dict``.
    ///
    /// It does not change any more, so it may be kept. Messages that nothing was written to are the
    /// same objects the next time: treat them as values.
    #[getter]
    fn messages<'py>(slf: &Bound<'py, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let this = shared(slf)?;
        this.reduction.conversation.list(py, this.as_dict)
    }

    /// One message of the conversation, as in :attr:`messages`.
    ///
    /// Returns:
    ///     The message with this id; None if there is none.
    #[pyo3(signature = (message_id, /))]
    fn message<'py>(
        slf: &Bound<'py, Self>,
        message_id: &Bound<'py, PyString>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let this = shared(slf)?;
        let conversation = &this.reduction.conversation;
        match conversation.find(message_id) {
            Some(slot) => conversation.get(slot).output(message_id.py(), this.as_dict).map(Some),
            None => Ok(None),
        }
    }

    /// The text of one message so far, without making the message.
    ///
    /// Args:
    ///     message_id: The id of the message.
    ///
    /// Returns:
    ///     The text; None if there is no such message, or its content is no text.
    ///
    /// Example:
    ///     >>> reducer = EventReducer([{"id": "u", "role": "user", "content": "hi"}])
    ///     >>> reducer.text("u")
    ///     'hi'
    #[pyo3(signature = (message_id, /))]
    fn text<'py>(
        slf: &Bound<'py, Self>,
        message_id: &Bound<'py, PyString>,
    ) -> PyResult<Option<Bound<'py, PyString>>> {
        let this = shared(slf)?;
        let conversation = &this.reduction.conversation;
        match conversation.find(message_id) {
            Some(slot) => conversation.get(slot).text(message_id.py()),
            None => Ok(None),
        }
    }

    /// The name of one tool call and its arguments so far, without making its message.
    ///
    /// Args:
    ///     tool_call_id: The id of the tool call.
    ///
    /// Returns:
    ///     The name and the arguments, which are JSON text once they are complete; None if there is
    ///     no such call.
    ///
    /// Example:
    ///     >>> reducer = EventReducer()
    ///     >>> start = {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "search"}
    ///     >>> args = {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": '{"q": '}
    ///     >>> reducer.apply_all([start, args]).tool_call("c")
    ///     ('search', '{"q": ')
    #[pyo3(signature = (tool_call_id, /))]
    fn tool_call<'py>(
        slf: &Bound<'py, Self>,
        tool_call_id: &Bound<'py, PyString>,
    ) -> PyResult<Option<NamedCall<'py>>> {
        let this = shared(slf)?;
        let conversation = &this.reduction.conversation;
        match conversation.find_call(tool_call_id) {
            Some(at) => conversation.named_call(tool_call_id.py(), at),
            None => Ok(None),
        }
    }

    /// Puts other messages, another state, or both in the place of what there is.
    ///
    /// What is pending, the thread and the run stay. A message whose id was there before counts as
    /// known to the other side if that one did; others are the consumer's own, as with
    /// :meth:`add_message`.
    ///
    /// Args:
    ///     messages: The conversation, models or dicts. They are copied. Left out, it stays.
    ///     state: Any JSON value, None included. It is copied. Left out, it stays.
    ///
    /// Raises:
    ///     AGUIError: A message without ``id`` or ``role``, or a value nested deeper than 254 levels.
    ///         Nothing is replaced then.
    ///     TypeError: ``messages`` is no iterable, or one of them neither a model nor a dict.
    ///
    /// Example:
    ///     >>> reducer = EventReducer(state={"n": 1}, as_dict=True)
    ///     >>> reducer.replace(messages=[{"id": "u", "role": "user", "content": "hi"}])
    ///     >>> reducer.messages, reducer.state
    ///     ([{'id': 'u', 'role': 'user', 'content': 'hi'}], {'n': 1})
    #[pyo3(
        signature = (*, messages=Given(None), state=Given(None)),
        text_signature = "($self, *, messages=..., state=...)"
    )]
    fn replace<'py>(
        slf: &Bound<'py, Self>,
        messages: Given<'py>,
        state: Given<'py>,
    ) -> PyResult<()> {
        let py = slf.py();
        // Read before anything is borrowed: the iterable may be a generator that uses the reducer.
        let messages = match messages {
            Given(Some(messages)) => Some(given(&messages)?),
            Given(None) => None,
        };
        let state = match state {
            Given(Some(state)) => Some(Held::new(&wire::own(&state)?)),
            Given(None) => None,
        };
        let mut reducer = exclusive(slf)?;
        let reduction = &mut reducer.reduction;
        if let Some(messages) = messages {
            let mut conversation = Conversation::new(py);
            for mut message in messages {
                let before = reduction.conversation.find(message.id.bind(py));
                message.known = before.is_some_and(|slot| reduction.conversation.get(slot).known);
                conversation.push(py, message)?;
            }
            reduction.conversation = conversation;
        }
        if let Some(state) = state {
            reduction.state = state;
            reduction.has_state = true;
        }
        Ok(())
    }

    /// The state. It does not change any more, so it may be kept; later ones share with it what did
    /// not change: treat it as a value.
    #[getter]
    fn state<'py>(slf: &Bound<'py, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let this = shared(slf)?;
        Ok(this.reduction.state.get(py))
    }

    /// The interrupts that no finished run has answered, of the last RUN_FINISHED with an interrupt
    /// outcome. What a run answers is known from :meth:`next_input` and from the input that
    /// RUN_STARTED echoes.
    #[getter]
    fn pending_interrupts<'py>(
        slf: &Bound<'py, Self>,
        py: Python<'py>,
    ) -> PyResult<Bound<'py, PyList>> {
        let this = shared(slf)?;
        this.reduction.interrupts.list(py, this.as_dict)
    }

    /// The ids of the tool calls that wait for a result: those that the success outcome names, else
    /// those that the run started and that got none.
    #[getter]
    fn pending_tool_calls<'py>(
        slf: &Bound<'py, Self>,
        py: Python<'py>,
    ) -> PyResult<Bound<'py, PyList>> {
        let this = shared(slf)?;
        this.reduction.tool_calls.pending(py)
    }

    /// The thread of the last RUN_STARTED; None before the first.
    #[getter]
    fn thread_id<'py>(
        slf: &Bound<'py, Self>,
        py: Python<'py>,
    ) -> PyResult<Option<Bound<'py, PyString>>> {
        let this = shared(slf)?;
        Ok(this.reduction.thread_id.as_ref().map(|id| id.bind(py).clone()))
    }

    /// The run of the last RUN_STARTED; None before the first.
    #[getter]
    fn run_id<'py>(
        slf: &Bound<'py, Self>,
        py: Python<'py>,
    ) -> PyResult<Option<Bound<'py, PyString>>> {
        let this = shared(slf)?;
        Ok(this.reduction.run_id.as_ref().map(|id| id.bind(py).clone()))
    }

    /// A reducer that goes on from here on its own. Costs a reference for each message, not its
    /// text; each of the two copies a message when it writes to it.
    fn fork(slf: &Bound<'_, Self>, py: Python<'_>) -> PyResult<Self> {
        let this = shared(slf)?;
        Ok(Self {
            reduction: this.reduction.fork(py)?,
            reporter: this.reporter.clone_ref(py),
            as_dict: this.as_dict,
        })
    }

    /// The input of the next run.
    ///
    /// Args:
    ///     run_id: The id of the run to start.
    ///     thread_id: The thread; by default that of the last run.
    ///     parent_run_id: The run to branch from.
    ///     resume: Answers to the pending interrupts, ``ResumeEntry`` models or dicts.
    ///     tools: The tools that the consumer offers.
    ///     context: What else the agent shall know.
    ///     forwarded_props: Handed through to the agent.
    ///     history: False leaves out the messages that the other side has: those that came from it
    ///         or were part of an input whose run has started.
    ///     protocol_version: What the input declares, by default the version that the installed SDK
    ///         speaks (``ag_ui.core.PROTOCOL_VERSION``); None leaves it out.
    ///
    /// Returns:
    ///     A ``RunAgentInput`` with the state and the messages, without activity messages, which are
    ///     the consumer's alone. With ``as_dict`` a wire dict.
    ///
    /// Raises:
    ///     AGUIError: There is no thread yet and none was given; or ``resume`` does not answer every
    ///         pending interrupt exactly once, answers one that is not pending, or answers one that
    ///         has expired other than by cancelling it.
    #[pyo3(signature = (
        run_id, *, thread_id=None, parent_run_id=None, resume=None, tools=None, context=None,
        forwarded_props=None, history=true, protocol_version=protocol_version().map(str::to_owned),
    ))]
    #[expect(clippy::too_many_arguments, reason = "the fields of the input, by keyword")]
    fn next_input<'py>(
        slf: &Bound<'py, Self>,
        run_id: &Bound<'py, PyString>,
        thread_id: Option<Bound<'py, PyString>>,
        parent_run_id: Option<Bound<'py, PyString>>,
        resume: Option<Bound<'py, PyAny>>,
        tools: Option<Bound<'py, PyAny>>,
        context: Option<Bound<'py, PyAny>>,
        forwarded_props: Option<Bound<'py, PyAny>>,
        history: bool,
        protocol_version: Option<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut this = exclusive(slf)?;
        let turn = Turn {
            run_id: run_id.clone(),
            thread_id,
            parent_run_id,
            resume,
            tools,
            context,
            forwarded_props,
            history,
            protocol_version,
        };
        let input: Bound<'py, PyDict> = input::next(&mut this.reduction, turn)?;
        if this.as_dict {
            Ok(input.into_any())
        } else {
            wire::model(&input, wire::input_shape(), "RunAgentInput")
        }
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let Ok(this) = slf.try_borrow() else { return Ok(shown(slf, |_| String::new())) };
        let py = slf.py();
        let id = |id: &Option<Py<PyString>>| -> PyResult<String> {
            match id {
                Some(id) => Ok(id.bind(py).repr()?.to_string_lossy().into_owned()),
                None => Ok("None".to_owned()),
            }
        };
        Ok(format!(
            "EventReducer(thread_id={}, run_id={}, messages={}, state={}, pending_interrupts={}, \
             pending_tool_calls={})",
            id(&this.reduction.thread_id)?,
            id(&this.reduction.run_id)?,
            this.reduction.conversation.order().count(),
            class_name(&this.reduction.state.get(py)),
            this.reduction.interrupts.pending(py).len(),
            this.reduction.tool_calls.pending(py)?.len(),
        ))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.reporter.traverse(&visit)?;
        self.reduction.state.traverse(&visit)
    }

    fn __clear__(&mut self) {
        self.reporter.clear();
    }
}

/// An argument, unless it was left out: None is a value, too.
struct Given<'py>(Option<Bound<'py, PyAny>>);

impl<'py> FromPyObject<'_, 'py> for Given<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(Some(object.to_owned())))
    }
}

/// The messages that an argument of this name gives.
fn given(messages: &Bound<'_, PyAny>) -> PyResult<Vec<Message>> {
    let py = messages.py();
    let iterator = messages.try_iter().map_err(|error| {
        let refusal = PyTypeError::new_err(format!(
            "messages: an iterable of messages is needed, not {}",
            class_name(messages)
        ));
        refusal.set_cause(py, Some(error));
        refusal
    })?;
    iterator
        .enumerate()
        .map(|(index, message)| {
            Message::given(&message?).map_err(|error| {
                if error.is_instance_of::<PyTypeError>(py) {
                    PyTypeError::new_err(format!("messages[{index}]: {}", error.value(py)))
                } else {
                    error
                }
            })
        })
        .collect()
}
