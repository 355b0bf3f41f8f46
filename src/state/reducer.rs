//! The reducer that Python sees.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use pyo3::{PyTraverseError, PyVisit};

use super::incoming::Incoming;
use super::input::{self, Turn};
use super::message::Message;
use super::reduce::{Change, Reduction};
use super::wire;
use crate::deviation::Reporter;
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
/// assistant message), ``renamed_call``, ``patch_not_applied``, ``unknown_op``, ``unknown_subtype``.
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
        let state = match state {
            Some(state) => wire::own(state)?.unbind(),
            None => py.None(),
        };
        let mut reduction = Reduction::new(py, state);
        reduction.max_patch_values = max_patch_values;
        if let Some(messages) = messages {
            for message in messages.try_iter()? {
                reduction.conversation.push(py, Message::given(&message?)?)?;
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
        let mut reducer = slf.try_borrow_mut()?;
        let touched = reducer.reduction.apply(&incoming);
        let deviations = reducer.reduction.take_deviations();
        drop(reducer);
        if !deviations.is_empty() {
            let reporter = slf.try_borrow()?.reporter.clone_ref(py);
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
    fn add_message(&mut self, py: Python<'_>, message: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut message = Message::given(message)?;
        message.known = false;
        let conversation = &mut self.reduction.conversation;
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
    fn messages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.reduction.conversation.list(py, self.as_dict)
    }

    /// One message of the conversation, as in :attr:`messages`.
    ///
    /// Returns:
    ///     The message with this id; None if there is none.
    #[pyo3(signature = (message_id, /))]
    fn message<'py>(
        &self,
        message_id: &Bound<'py, PyString>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let conversation = &self.reduction.conversation;
        match conversation.find(message_id) {
            Some(slot) => conversation.get(slot).output(message_id.py(), self.as_dict).map(Some),
            None => Ok(None),
        }
    }

    /// The state. It does not change any more, so it may be kept; later ones share with it what did
    /// not change: treat it as a value.
    #[getter]
    fn state<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.reduction.state.bind(py).clone()
    }

    /// The interrupts that no finished run has answered, of the last RUN_FINISHED with an interrupt
    /// outcome. What a run answers is known from :meth:`next_input` and from the input that
    /// RUN_STARTED echoes.
    #[getter]
    fn pending_interrupts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.reduction.interrupts.list(py, self.as_dict)
    }

    /// The ids of the tool calls that wait for a result: those that the success outcome names, else
    /// those that the run started and that got none.
    #[getter]
    fn pending_tool_calls<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.reduction.tool_calls.pending(py)
    }

    /// The thread of the last RUN_STARTED; None before the first.
    #[getter]
    fn thread_id<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyString>> {
        self.reduction.thread_id.as_ref().map(|id| id.bind(py).clone())
    }

    /// The run of the last RUN_STARTED; None before the first.
    #[getter]
    fn run_id<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyString>> {
        self.reduction.run_id.as_ref().map(|id| id.bind(py).clone())
    }

    /// A reducer that goes on from here on its own. Costs a reference for each message, not its
    /// text; each of the two copies a message when it writes to it.
    fn fork(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(Self {
            reduction: self.reduction.fork(py)?,
            reporter: self.reporter.clone_ref(py),
            as_dict: self.as_dict,
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
    ///     protocol_version: What the input declares; None leaves it out.
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
        forwarded_props=None, history=true, protocol_version=Some("1.0".to_owned()),
    ))]
    #[expect(clippy::too_many_arguments, reason = "the fields of the input, by keyword")]
    fn next_input<'py>(
        &mut self,
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
        let input: Bound<'py, PyDict> = input::next(&mut self.reduction, turn)?;
        if self.as_dict {
            Ok(input.into_any())
        } else {
            wire::model(&input, wire::input_shape(), "RunAgentInput")
        }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let count = self.reduction.conversation.order().count();
        let run = match &self.reduction.run_id {
            Some(run) => run.bind(py).repr()?.to_string_lossy().into_owned(),
            None => "None".to_owned(),
        };
        Ok(format!("EventReducer({count} messages, run_id={run})"))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.reporter.traverse(&visit)?;
        visit.call(&self.reduction.state)
    }

    fn __clear__(&mut self) {
        self.reporter.clear();
    }
}
