//! Sequence verification: whether each event may stand where it stands.

mod items;
mod open;
mod repair;
mod seed;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use self::open::{Open, Owner, Owners, SHOWN, named};
use self::repair::Remedy;
use self::seed::Seeds;
use super::{Item, Output, Stage, close_list, feed_list, owner_text, quoted, too_many};
use crate::capi;
use crate::deviation::Reporter;
use crate::errors::{Violation, exclusive, shared, shown};
use crate::event::{EventType, Form, Key, keys};
use crate::input::Callback;

/// Why an event is refused, with what repair does about it, or what failed in looking at it.
enum Refusal {
    Violation(Violation, Remedy),
    Failed(PyErr),
}

impl From<Violation> for Refusal {
    fn from(violation: Violation) -> Self {
        Self::Violation(violation, Remedy::None)
    }
}

impl From<PyErr> for Refusal {
    fn from(error: PyErr) -> Self {
        Self::Failed(error)
    }
}

type Verdict<T = ()> = Result<T, Refusal>;

/// Refuses, with the id that it is about, the reason, and what would have been right.
#[cold]
fn refuse<T>(
    id: Option<&Bound<'_, PyAny>>,
    reason: impl Into<String>,
    expected: impl Into<String>,
) -> Verdict<T> {
    Err(Violation::new(id, reason, expected).into())
}

/// Refuses what repair can do something about.
#[cold]
fn refuse_or<T>(
    remedy: Remedy,
    id: Option<&Bound<'_, PyAny>>,
    reason: impl Into<String>,
    expected: impl Into<String>,
) -> Verdict<T> {
    Err(Refusal::Violation(Violation::new(id, reason, expected), remedy))
}

/// Where the stream is in its runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Empty,
    Running,
    Finished,
    Errored,
}

/// Checks that each event of a stream may stand where it stands, and passes it on as it is.
///
/// A stream is one or more runs on one thread. A run begins with RUN_STARTED and ends with
/// RUN_FINISHED or RUN_ERROR; messages, tool calls, reasoning, steps and subagents are opened,
/// continued and closed in it, and belong to the agent that opened them; see
/// https://docs.ag-ui.com/concepts/events. Chunks are to be expanded before
/// (:class:`ChunkExpander`).
///
/// It holds what is open and, until the run ends, the id and the owner of each item of the run
/// (about 200 bytes): owners outlive the close, says the protocol, so that a message which opens
/// again is still its opener's. ``max_open`` and ``max_items`` bound both.
///
/// **Repair.** Many producers forget to close what they opened, and strict clients fail their runs
/// for it. With ``repair=True`` the verifier mends what can be mended without making anything up, and
/// reports each repair as a :class:`Deviation`. What it gives always verifies, and a legal stream
/// passes as it is.
///
/// - What is open at RUN_FINISHED is closed before it, and an item that is started while it is open
///   is closed before it starts again (kind ``repair``).
/// - An end without a start is dropped, as is a repeated RUN_STARTED of the run that is active (kind
///   ``repair``).
/// - An event with something to say that has no place is dropped (kind ``repair_loss``): a delta for
///   an item that is not open, a SUBAGENT_* event out of place, whatever follows the end of a run.
///   To have such a run fail instead, raise from ``on_deviation``.
/// - Refused as ever: anything before RUN_STARTED, another run inside a run, run and thread ids that
///   disagree, a ``subagentRunId`` that contradicts the opener's, interrupts without ids of their own,
///   missing ids, and what exceeds a limit. A stream that ends before its run does is truncated, and
///   ``close`` says so: repair never makes a success of it.
///
/// Args:
///     thread_id: The thread that every run must be on; None for the thread of the first run.
///     repair: Mend the stream where that is possible.
///     max_open: How many items (messages, tool calls, reasoning spans, steps, subagents) may be open
///         at once.
///     max_items: How many items of one run may be remembered, those of MESSAGES_SNAPSHOT and of the
///         echoed input included.
///     on_deviation: Called with a :class:`Deviation` for each repair. The default logs it.
///
/// Raises:
///     SequenceError: From ``feed`` for an event out of place, which is then as if it had not been
///         fed; from ``close`` for a stream that ended before its run did.
///
/// Example:
///     >>> verifier = EventVerifier(repair=True)
///     >>> _ = verifier.feed({"type": "RUN_STARTED", "threadId": "t", "runId": "r"})
///     >>> _ = verifier.feed({"type": "STEP_STARTED", "stepName": "search"})
///     >>> done = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
///     >>> print(*(event["type"] for event in verifier.feed(done)))
///     STEP_FINISHED RUN_FINISHED
#[pyclass(module = "agui_codec")]
pub struct EventVerifier {
    index: usize,
    phase: Phase,
    thread_id: Option<Py<PyString>>,
    run_id: Option<Py<PyString>>,
    texts: Open,
    tools: Open,
    spans: Open,
    reasonings: Open,
    subagents: Open,
    /// As pairs of owner and name: a subagent may well have a step of the same name as its parent.
    steps: Py<PyDict>,
    /// A subagent's id names one invocation, and cannot start again in its run.
    closed_subagents: Open,
    text_owners: Owners,
    tool_owners: Owners,
    activity_owners: Owners,
    /// Of spans and of the messages in them: a message may have the id of its span.
    reasoning_owners: Owners,
    /// How the run is spelled, and so how its endings are.
    spelling: Form,
    repair: bool,
    max_open: usize,
    max_items: usize,
    reporter: Reporter,
}

#[pymethods]
impl EventVerifier {
    #[new]
    #[pyo3(signature = (
        *, thread_id=None, repair=false, max_open=10_000, max_items=1_000_000, on_deviation=None,
    ))]
    fn new(
        py: Python<'_>,
        thread_id: Option<&Bound<'_, PyString>>,
        repair: bool,
        max_open: usize,
        max_items: usize,
        on_deviation: Option<Callback>,
    ) -> PyResult<Self> {
        Ok(Self {
            index: 0,
            phase: Phase::Empty,
            thread_id: thread_id.map(capi::plain_str).transpose()?.map(Bound::unbind),
            run_id: None,
            texts: Open::new(py, "text message"),
            tools: Open::new(py, "tool call"),
            spans: Open::new(py, "reasoning span"),
            reasonings: Open::new(py, "reasoning message"),
            subagents: Open::new(py, "subagent"),
            steps: PyDict::new(py).unbind(),
            closed_subagents: Open::new(py, "subagent"),
            text_owners: Owners::new(py),
            tool_owners: Owners::new(py),
            activity_owners: Owners::new(py),
            reasoning_owners: Owners::new(py),
            spelling: Form::Dict,
            repair,
            max_open,
            max_items,
            reporter: Reporter::new(on_deviation),
        })
    }

    /// Takes the next event.
    ///
    /// Args:
    ///     event: An event model or a wire dict.
    ///
    /// Returns:
    ///     The event itself. With ``repair=True`` also the ends that it was missing, before it, or
    ///     nothing if it was dropped.
    ///
    /// Raises:
    ///     SequenceError: If it may not stand here.
    #[pyo3(signature = (event, /))]
    fn feed<'py>(
        slf: &Bound<'py, Self>,
        event: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let mut this = exclusive(slf)?;
        feed_list(&mut *this, event)
    }

    /// Ends the stream.
    ///
    /// Returns:
    ///     No events.
    ///
    /// Raises:
    ///     SequenceError: If a run is still open, or there was no event at all: such a stream was
    ///         truncated, and is not a success.
    fn close<'py>(slf: &Bound<'py, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut this = exclusive(slf)?;
        close_list(&mut *this, py)
    }

    /// The events that close what is open, so that the run can end now.
    ///
    /// For a run that is cancelled: after these, a RUN_FINISHED verifies. They come in the order text
    /// messages, tool calls, reasoning messages, reasoning spans, steps, subagents, each with the
    /// ``subagentRunId`` of its owner, and are spelled as the run is: models or wire dicts. The
    /// verifier does not change; feed them to it, too, if it is to go on.
    ///
    /// Returns:
    ///     The events; none if no run is active.
    ///
    /// Example:
    ///     >>> verifier = EventVerifier()
    ///     >>> _ = verifier.feed({"type": "RUN_STARTED", "threadId": "t", "runId": "r"})
    ///     >>> _ = verifier.feed({"type": "TEXT_MESSAGE_START", "messageId": "m"})
    ///     >>> verifier.ending_events()
    ///     [{'type': 'TEXT_MESSAGE_END', 'messageId': 'm'}]
    fn ending_events<'py>(slf: &Bound<'py, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let this = shared(slf)?;
        PyList::new(py, this.ending_events_as(py, this.spelling)?)
    }

    fn __repr__(slf: &Bound<'_, Self>, py: Python<'_>) -> String {
        shown(slf, |this| {
            let run = this.run_id.as_ref().map(|id| quoted(id.bind(py)));
            let run = run.map_or_else(String::new, |run| format!(" {run}"));
            let phase = match this.phase {
                Phase::Empty => "before the first run".to_owned(),
                Phase::Running => format!("in run{run} with {} open", this.open_items(py)),
                Phase::Finished => format!("after run{run}"),
                Phase::Errored => format!("after an error of run{run}"),
            };
            let repair = if this.repair { " repair=True" } else { "" };
            format!("<EventVerifier {phase}{repair}>")
        })
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        self.reporter.traverse(&visit)
    }

    fn __clear__(&mut self) {
        self.reporter.clear();
    }

    /// What is open, in order of opening: a dict of ``run`` (``{"thread_id", "run_id"}`` or None),
    /// the ids of ``text_messages``, ``tool_calls``, ``reasoning_spans``, ``reasoning_messages``
    /// and ``subagents``, and ``steps`` as pairs of owner and name.
    #[getter]
    fn open<'py>(slf: &Bound<'py, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let this = shared(slf)?;
        let open = PyDict::new(py);
        let run = if this.phase == Phase::Running {
            let run = PyDict::new(py);
            run.set_item("thread_id", &this.thread_id)?;
            run.set_item("run_id", &this.run_id)?;
            Some(run)
        } else {
            None
        };
        open.set_item("run", run)?;
        open.set_item("text_messages", this.texts.list(py))?;
        open.set_item("tool_calls", this.tools.list(py))?;
        open.set_item("reasoning_spans", this.spans.list(py))?;
        open.set_item("reasoning_messages", this.reasonings.list(py))?;
        open.set_item("steps", this.steps.bind(py).keys())?;
        open.set_item("subagents", this.subagents.list(py))?;
        Ok(open)
    }
}

impl Stage for EventVerifier {
    #[inline]
    fn feed<'py>(&mut self, item: &Item<'py>) -> PyResult<Output<'py>> {
        let index = self.index;
        self.index += 1;
        match self.verify(item) {
            Ok(()) => Ok(Output::Pass),
            Err(refusal) => self.refused(item, refusal, index),
        }
    }

    fn close<'py>(&mut self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let violation = match self.phase {
            Phase::Finished | Phase::Errored => return Ok(Vec::new()),
            Phase::Empty => Violation::new(None, "the stream has no events", "RUN_STARTED"),
            Phase::Running => {
                let id = self.run_id.as_ref().map(|id| id.bind(py).as_any());
                let run =
                    id.map_or_else(|| "the run".to_owned(), |id| format!("run {}", quoted(id)));
                let open = match self.still_open(py) {
                    Some((_, open)) => format!(", with {open} open"),
                    None => String::new(),
                };
                Violation::new(
                    id,
                    format!("the stream ended without a terminal event of {run}{open}"),
                    "RUN_FINISHED or RUN_ERROR",
                )
            }
        };
        Err(violation.into_error(py, self.index, None))
    }
}

/// The text of a str as a plain one.
fn plain<'py>(string: &Bound<'py, PyString>) -> Option<Bound<'py, PyString>> {
    capi::plain_str(string).ok()
}

/// The str under a key, without which the event cannot be placed.
#[inline]
fn id_of<'py>(item: &Item<'py>, key: &Key) -> Verdict<Bound<'py, PyString>> {
    let py = item.event.py();
    let Some(id) = item.read(key) else {
        return refuse(None, format!("it has no {}", key.alias(py)), "one");
    };
    match id.cast::<PyString>() {
        Ok(id) => Ok(capi::plain_str(id)?),
        Err(_) => refuse(Some(&id), format!("its {} is no string", key.alias(py)), "a string"),
    }
}

/// The `subagentRunId`, absent for the parent agent. Null is not absence.
#[inline]
fn tag_of<'py>(item: &Item<'py>) -> Verdict<Owner<'py>> {
    if item.presence.is_some_and(|presence| !presence.has(item.view.info.subagent_run_id)) {
        return Ok(None);
    }
    match item.view.read(&keys(item.event.py()).subagent_run_id) {
        None => Ok(None),
        Some(tag) => tag_str(&tag, "its").map(Some),
    }
}

fn tag_str<'py>(tag: &Bound<'py, PyAny>, whose: &str) -> Verdict<Bound<'py, PyString>> {
    if let Ok(tag) = tag.cast::<PyString>() {
        return Ok(capi::plain_str(tag)?);
    }
    let what = if tag.is_none() { "null" } else { "no string" };
    refuse(Some(tag), format!("{whose} subagentRunId is {what}"), "a string, or the field left out")
}

/// Whether a tag agrees with the owner of what the event is about. No tag always does.
#[inline]
fn agrees(tag: &Owner<'_>, owners: &Owners, noun: &str, id: &Bound<'_, PyString>) -> Verdict {
    let Some(tag) = tag else { return Ok(()) };
    let Some(owner) = owners.get(id) else { return Ok(()) };
    if owner.as_ref().is_some_and(|owner| capi::same_text(owner, tag)) {
        return Ok(());
    }
    refuse(
        Some(id),
        format!(
            "its subagentRunId {} disagrees with the opener of the {noun} {}, which belongs to {}",
            quoted(tag),
            quoted(id),
            owner_text(owner.as_ref().map(Bound::as_any)),
        ),
        "the opener's subagentRunId, or none",
    )
}

/// Whether there is room for one more item: of those that are open, and of those that are known.
#[derive(Clone, Copy)]
struct Room {
    open: bool,
    items: bool,
    max_open: usize,
    max_items: usize,
}

impl Room {
    fn for_open(self, id: &Bound<'_, PyString>) -> Verdict {
        if self.open { Ok(()) } else { Err(too_many(Some(id), self.max_open).into()) }
    }

    fn for_item(self, id: Option<&Bound<'_, PyAny>>) -> Verdict {
        if self.items {
            return Ok(());
        }
        let max_items = self.max_items;
        refuse(
            id,
            format!("the run has more than {max_items} items to be remembered (max_items)"),
            "the end of the run",
        )
    }
}

/// An event that opens an item. An item that has closed may open again, but is still its owner's.
fn begin(
    tag: &Owner<'_>,
    open: &mut Open,
    owners: &Owners,
    id: &Bound<'_, PyString>,
    end: EventType,
    room: Room,
) -> Verdict {
    agrees(tag, owners, open.noun, id)?;
    if open.has(id) {
        return refuse_or(
            Remedy::Close,
            Some(id),
            format!("the {} {} is already open", open.noun, quoted(id)),
            format!("{} of it first", end.name()),
        );
    }
    room.for_open(id)?;
    if owners.get(id).is_none() {
        room.for_item(Some(id))?;
        owners.set(id, tag)?;
    }
    open.insert(id)?;
    Ok(())
}

/// An event that continues or closes an item.
#[inline]
fn go_on(
    tag: &Owner<'_>,
    open: &mut Open,
    owners: &Owners,
    id: &Bound<'_, PyString>,
    start: EventType,
    remedy: Remedy,
) -> Verdict {
    if !open.has(id) {
        return refuse_or(
            remedy,
            Some(id),
            format!("no {} {} is open", open.noun, quoted(id)),
            format!("{} of it first", start.name()),
        );
    }
    agrees(tag, owners, open.noun, id)
}

impl EventVerifier {
    /// What becomes of a refused event: a repair, or an error.
    #[cold]
    fn refused<'py>(
        &mut self,
        item: &Item<'py>,
        refusal: Refusal,
        index: usize,
    ) -> PyResult<Output<'py>> {
        let refusal = match refusal {
            Refusal::Violation(violation, remedy) if self.repair => {
                match self.mend(item, violation, remedy) {
                    Ok(output) => return Ok(output),
                    Err(refusal) => refusal,
                }
            }
            refusal => refusal,
        };
        match refusal {
            Refusal::Failed(error) => Err(error),
            Refusal::Violation(violation, _) => {
                Err(violation.into_error(item.event.py(), index, Some(&item.type_name())))
            }
        }
    }

    #[inline]
    fn verify(&mut self, item: &Item<'_>) -> Verdict {
        use EventType as K;
        let keys = keys(item.event.py());
        if self.phase != Phase::Running || item.kind == Some(K::RunStarted) {
            self.may_begin(item)?;
        }
        let tag = tag_of(item)?;
        let Some(kind) = item.kind else { return Ok(()) };
        match kind {
            K::TextMessageStart => {
                let id = id_of(item, &keys.message_id)?;
                let room = self.room(id.py());
                begin(&tag, &mut self.texts, &self.text_owners, &id, K::TextMessageEnd, room)
            }
            K::TextMessageContent | K::TextMessageEnd => {
                let id = id_of(item, &keys.message_id)?;
                let ends = kind == K::TextMessageEnd;
                let (owners, start) = (&self.text_owners, K::TextMessageStart);
                go_on(&tag, &mut self.texts, owners, &id, start, loss(ends))?;
                if ends {
                    self.texts.remove(&id)?;
                }
                Ok(())
            }
            K::ToolCallStart => self.tool_call(item, &tag),
            K::ToolCallArgs | K::ToolCallEnd => {
                let id = id_of(item, &keys.tool_call_id)?;
                let ends = kind == K::ToolCallEnd;
                let (owners, start) = (&self.tool_owners, K::ToolCallStart);
                go_on(&tag, &mut self.tools, owners, &id, start, loss(ends))?;
                if ends {
                    self.tools.remove(&id)?;
                }
                Ok(())
            }
            K::ReasoningMessageStart => {
                let id = id_of(item, &keys.message_id)?;
                let room = self.room(id.py());
                let end = K::ReasoningMessageEnd;
                begin(&tag, &mut self.reasonings, &self.reasoning_owners, &id, end, room)
            }
            K::ReasoningMessageContent | K::ReasoningMessageEnd => {
                let id = id_of(item, &keys.message_id)?;
                let ends = kind == K::ReasoningMessageEnd;
                let (owners, start) = (&self.reasoning_owners, K::ReasoningMessageStart);
                go_on(&tag, &mut self.reasonings, owners, &id, start, loss(ends))?;
                if ends {
                    self.reasonings.remove(&id)?;
                }
                Ok(())
            }
            K::ReasoningStart => {
                let id = id_of(item, &keys.message_id)?;
                let room = self.room(id.py());
                begin(&tag, &mut self.spans, &self.reasoning_owners, &id, K::ReasoningEnd, room)
            }
            K::ReasoningEnd => {
                let id = id_of(item, &keys.message_id)?;
                let (owners, start) = (&self.reasoning_owners, K::ReasoningStart);
                go_on(&tag, &mut self.spans, owners, &id, start, Remedy::Drop)?;
                self.spans.remove(&id)?;
                Ok(())
            }
            K::StepStarted | K::StepFinished => self.step(item, kind, tag.as_ref()),
            K::ToolCallResult
            | K::ActivitySnapshot
            | K::ActivityDelta
            | K::ReasoningEncryptedValue => self.owned(item, kind, &tag),
            K::SubagentStarted | K::SubagentFinished | K::SubagentError => {
                self.subagent(item, kind, tag)
            }
            K::MessagesSnapshot => {
                let seeds = Seeds::of(item.view.read(&keys.messages).as_ref())?;
                self.fits(item, &seeds, self.items(item.event.py()))?;
                Ok(self.seed(&seeds, true)?)
            }
            K::RunStarted => self.run_started(item),
            K::RunFinished => self.run_finished(item),
            K::RunError => {
                self.end_run(item.event.py(), Phase::Errored);
                Ok(())
            }
            K::TextMessageChunk
            | K::ToolCallChunk
            | K::ReasoningMessageChunk
            | K::StateSnapshot
            | K::StateDelta
            | K::Raw
            | K::Custom => Ok(()),
        }
    }

    /// An event outside of a run, or one that would start a run.
    #[cold]
    fn may_begin(&self, item: &Item<'_>) -> Verdict {
        let kind = item.kind;
        let starts = kind == Some(EventType::RunStarted);
        let errs = kind == Some(EventType::RunError);
        let run = |py| self.run_id.as_ref().map(|id: &Py<PyString>| id.bind(py).as_any().clone());
        let py = item.event.py();
        let (reason, expected) = match self.phase {
            Phase::Running => {
                let id = run(py);
                let name = id.as_ref().map_or_else(String::new, |id| format!(" {}", quoted(id)));
                let remedy = if self.is_of_this_run(item) { Remedy::Drop } else { Remedy::None };
                return refuse_or(
                    remedy,
                    id.as_ref(),
                    format!("the run{name} is still active"),
                    "RUN_FINISHED or RUN_ERROR first",
                );
            }
            Phase::Empty | Phase::Finished if starts || errs => return Ok(()),
            Phase::Empty => {
                return refuse(
                    None,
                    "the first event of a stream starts a run",
                    "RUN_STARTED or RUN_ERROR",
                );
            }
            Phase::Finished => (
                "the run has already finished with RUN_FINISHED",
                "RUN_STARTED of another run, or RUN_ERROR",
            ),
            Phase::Errored if starts => return Ok(()),
            Phase::Errored => {
                ("the run has already ended with RUN_ERROR", "RUN_STARTED of another run")
            }
        };
        refuse_or(loss(kind.is_some_and(is_end)), run(py).as_ref(), reason, expected)
    }

    /// Whether an event has the ids of the active run.
    fn is_of_this_run(&self, item: &Item<'_>) -> bool {
        let py = item.event.py();
        let keys = keys(py);
        [(&keys.thread_id, &self.thread_id), (&keys.run_id, &self.run_id)].iter().all(
            |(key, known)| match (id_of(item, key), known) {
                (Ok(id), Some(known)) => capi::same_text(known.bind(py), &id),
                _ => false,
            },
        )
    }

    /// How many items are open.
    fn open_items(&self, py: Python<'_>) -> usize {
        let sorts = [&self.texts, &self.tools, &self.reasonings, &self.spans, &self.subagents];
        self.steps.bind(py).len() + sorts.iter().map(|open| open.len(py)).sum::<usize>()
    }

    /// How many items of the run are remembered.
    fn items(&self, py: Python<'_>) -> usize {
        let owners =
            [&self.text_owners, &self.tool_owners, &self.activity_owners, &self.reasoning_owners];
        let subagents = self.subagents.len(py) + self.closed_subagents.len(py);
        subagents + owners.iter().map(|owners| owners.len(py)).sum::<usize>()
    }

    fn room(&self, py: Python<'_>) -> Room {
        let (max_open, max_items) = (self.max_open, self.max_items);
        let open = self.open_items(py) < max_open;
        Room { open, items: self.items(py) < max_items, max_open, max_items }
    }

    fn run_started(&mut self, item: &Item<'_>) -> Verdict {
        let py = item.event.py();
        let keys = keys(py);
        let thread_id = id_of(item, &keys.thread_id)?;
        let run_id = id_of(item, &keys.run_id)?;
        if let Some(known) = &self.thread_id
            && !capi::same_text(known.bind(py), &thread_id)
        {
            let known = quoted(known.bind(py));
            return refuse(
                Some(&thread_id),
                format!(
                    "its threadId is {}, but the stream is of thread {known}",
                    quoted(&thread_id)
                ),
                format!("threadId {known}"),
            );
        }
        // Before anything changes, so that a refused event changes nothing.
        let echo = item.view.read(&keys.input).and_then(|input| keys.messages.of(&input));
        let seeds = Seeds::of(echo.as_ref())?;
        // It starts clean: nothing is remembered of the runs before.
        self.fits(item, &seeds, 0)?;
        self.end_run(py, Phase::Running);
        self.seed(&seeds, false)?;
        self.spelling = item.spelling;
        self.thread_id = Some(thread_id.unbind());
        self.run_id = Some(run_id.unbind());
        Ok(())
    }

    fn run_finished(&mut self, item: &Item<'_>) -> Verdict {
        let py = item.event.py();
        let keys = keys(py);
        for (key, known) in [(&keys.thread_id, &self.thread_id), (&keys.run_id, &self.run_id)] {
            let id = id_of(item, key)?;
            if let Some(known) = known
                && !capi::same_text(known.bind(py), &id)
            {
                let (key, known) = (key.alias(py), quoted(known.bind(py)));
                return refuse(
                    Some(&id),
                    format!("its {key} is {}, but RUN_STARTED said {known}", quoted(&id)),
                    format!("{key} {known}"),
                );
            }
        }
        if let Some(outcome) = item.view.read(&keys.outcome) {
            interrupts(&outcome)?;
        }
        if let Some((id, open)) = self.still_open(py) {
            let reason = format!("{open} still open");
            return refuse_or(Remedy::Close, Some(&id), reason, "what is open closed first");
        }
        self.end_run(py, Phase::Finished);
        Ok(())
    }

    /// What keeps the run from finishing: the id of the first of it, and all of it in words.
    #[cold]
    fn still_open<'py>(&self, py: Python<'py>) -> Option<(Bound<'py, PyAny>, String)> {
        let steps = self.steps.bind(py);
        let sorts = [&self.texts, &self.reasonings, &self.spans, &self.tools, &self.subagents];
        if steps.is_empty() && sorts.iter().all(|open| open.is_empty(py)) {
            return None;
        }
        let mut first = None;
        let mut names = Vec::new();
        for step in steps.iter().map(|(step, _)| step).take(SHOWN) {
            let (owner, name) = step.extract::<(Owner<'py>, Bound<'py, PyAny>)>().ok()?;
            names.push(match owner {
                Some(owner) => format!("{} (subagent {})", quoted(&name), quoted(&owner)),
                None => quoted(&name),
            });
            first.get_or_insert(name);
        }
        let mut words: Vec<_> = named("step", &names, steps.len()).into_iter().collect();
        for open in sorts {
            words.extend(open.text(py));
            first = first.or_else(|| open.ids(py).next().map(Bound::into_any));
        }
        Some((first?, words.join(" and ")))
    }

    fn end_run(&mut self, py: Python<'_>, phase: Phase) {
        self.phase = phase;
        for open in [
            &mut self.texts,
            &mut self.tools,
            &mut self.spans,
            &mut self.reasonings,
            &mut self.subagents,
            &mut self.closed_subagents,
        ] {
            open.clear(py);
        }
        self.steps.bind(py).clear();
        for owners in [
            &mut self.text_owners,
            &mut self.tool_owners,
            &mut self.activity_owners,
            &mut self.reasoning_owners,
        ] {
            owners.clear(py);
        }
    }
}

/// What dropping an event means: an end says nothing more.
#[inline]
fn loss(ends: bool) -> Remedy {
    if ends { Remedy::Drop } else { Remedy::Lose }
}

/// Whether an event says no more than that something has ended.
fn is_end(kind: EventType) -> bool {
    use EventType as K;
    matches!(
        kind,
        K::TextMessageEnd
            | K::ToolCallEnd
            | K::ReasoningMessageEnd
            | K::ReasoningEnd
            | K::StepFinished
    )
}

/// The interrupts of an interrupt outcome: at least one, each with an id of its own.
fn interrupts(outcome: &Bound<'_, PyAny>) -> Verdict {
    let py = outcome.py();
    let keys = keys(py);
    let Some(interrupts) = keys.interrupts.of(outcome) else { return Ok(()) };
    let Ok(interrupts) = interrupts.cast::<PyList>() else { return Ok(()) };
    if interrupts.is_empty() {
        return refuse(None, "its outcome is an interrupt without interrupts", "at least one");
    }
    let mut seen = Open::new(py, "interrupt");
    for interrupt in interrupts {
        let id = keys.id.of(&interrupt).and_then(|id| id.cast_into::<PyString>().ok());
        let Some(id) = id else { continue };
        let id = capi::plain_str(&id)?;
        if seen.has(&id) {
            return refuse(
                Some(&id),
                format!("two of its interrupts have the id {}", quoted(&id)),
                "an id of its own for each interrupt",
            );
        }
        seen.insert(&id)?;
        if let Some(tag) = keys.subagent_run_id.of(&interrupt) {
            tag_str(&tag, &format!("interrupt {}'s", quoted(&id)))?;
        }
    }
    Ok(())
}
