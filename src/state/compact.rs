//! A stream made short: what it adds up to stays, the events that said it bit by bit go.
//!
//! **Why this keeps the law.** Everything that has a place in the order (openers, and events that
//! are not collapsed) leaves in the order in which it came. Only what belongs to an open item (its
//! deltas, its end) moves, forward to its opener, and it commutes with all that it passes: those
//! events write elsewhere. The few that do not are fences: before one, everything that is held leaves
//! as it is, open items without their end, and what comes of them later begins a new segment. State
//! events are in no relation to the others and gather at the end of the run.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList, PyString};
use pyo3::{PyTraverseError, PyVisit};
use std::collections::VecDeque;

use super::incoming::{Incoming, text};
use super::segment::{Family, Segment};
use super::window::Window;
use crate::capi;
use crate::deviation::{Deviation, Reporter};
use crate::errors::{exclusive, shown};
use crate::event::EventType;
use crate::input::Callback;
use crate::stream::too_many;

/// What is held, in the order in which it leaves.
enum Held {
    /// An event that leaves as it came.
    Event(Py<PyAny>),
    Segment(Box<Segment>),
}

/// What an event does to what is held.
enum Role {
    Start(Family),
    Delta(Family),
    End(Family),
    State,
    /// Nothing passes it, and after it a run begins or has ended.
    Boundary,
    /// Nothing passes it.
    Fence,
    /// It may write to the message with its `messageId`.
    Writes,
    Other,
}

/// Compacts a stream as it comes, holding only what is open.
///
/// The deltas of a text message and the arguments of a tool call become one event, the state events
/// of a run one snapshot, from the last snapshot on (deltas without a snapshot stay). Events that
/// come between the start and the end of an item leave behind its end, or where items interleave
/// behind the first of them. The law: what is given out adds up to the same messages, state and
/// interrupts as what was fed; if that verifies, so does this; and compacting again changes nothing.
///
/// A collapsed delta keeps its attribution, the metadata merged and unknown properties, the last of
/// each key; so does a snapshot that state events become, with the attribution that all of them have.
/// A delta or snapshot that stands alone is kept whole. Timestamps and raw events of collapsed events
/// are dropped. Chunks pass as they are: expand them first.
///
/// While an item is open, everything behind its start is held: at most what has come since the start
/// of the first open item, with the text of deltas joined.
///
/// Args:
///     reasoning: Collapse the deltas of reasoning messages as well, which the TypeScript client's
///         ``compactEvents`` leaves.
///     max_open: How many items (messages and tool calls) may be open at once.
///     on_deviation: Called with each :class:`Deviation`, which without it is logged at WARNING under
///         the name "agui_codec": ``patch_not_applied`` and ``unknown_op``, for a state patch that is
///         not in what is given out, and ``unknown_property``, for members of a state event that are
///         not under a str.
///
/// Example:
///     >>> compactor = Compactor()
///     >>> for delta in ("Hel", "lo"):
///     ...     compactor.feed({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": delta})
///     []
///     []
///     >>> compactor.close()
///     [{'type': 'TEXT_MESSAGE_CONTENT', 'messageId': 'm', 'delta': 'Hello'}]
#[pyclass(module = "agui_codec")]
pub struct Compactor {
    held: VecDeque<Held>,
    /// How many have left; the number of the first that is held.
    left: usize,
    /// Message id to the number of its open segment.
    messages: Py<PyDict>,
    /// Tool call id to the number of its open segment.
    calls: Py<PyDict>,
    /// Message id to how many open calls name it as their parent.
    parents: Py<PyDict>,
    /// The number of the segment that was last written to.
    recent: usize,
    /// How many open segments have lost their opener to a fence.
    headless: usize,
    window: Window,
    reasoning: bool,
    max_open: usize,
    /// How many events have come.
    count: usize,
    /// What was given out when an error came up: it leaves with the next call.
    ready: Vec<Py<PyAny>>,
    reporter: Reporter,
    deviations: Vec<Deviation>,
}

type Events<'py> = Vec<Bound<'py, PyAny>>;

/// The number under an id.
fn look_up(numbers: &Bound<'_, PyDict>, id: &Bound<'_, PyString>) -> Option<usize> {
    let number = capi::dict_get(numbers, id)?;
    usize::try_from(capi::int_as_i64(number.cast::<PyInt>().ok()?)?).ok()
}

impl Compactor {
    fn make(
        py: Python<'_>,
        reasoning: bool,
        max_open: usize,
        on_deviation: Option<Callback>,
    ) -> Self {
        Self {
            held: VecDeque::new(),
            left: 0,
            messages: PyDict::new(py).unbind(),
            calls: PyDict::new(py).unbind(),
            parents: PyDict::new(py).unbind(),
            recent: usize::MAX,
            headless: 0,
            window: Window::default(),
            reasoning,
            max_open,
            count: 0,
            ready: Vec::new(),
            reporter: Reporter::new(on_deviation),
            deviations: Vec::new(),
        }
    }

    fn role(&self, kind: Option<EventType>) -> Role {
        use EventType as K;
        let Some(kind) = kind else { return Role::Other };
        match kind {
            K::TextMessageContent => Role::Delta(Family::Text),
            K::ToolCallArgs => Role::Delta(Family::Call),
            K::TextMessageStart => Role::Start(Family::Text),
            K::TextMessageEnd => Role::End(Family::Text),
            K::ToolCallStart => Role::Start(Family::Call),
            K::ToolCallEnd => Role::End(Family::Call),
            K::ReasoningMessageContent if self.reasoning => Role::Delta(Family::Reasoning),
            K::ReasoningMessageStart if self.reasoning => Role::Start(Family::Reasoning),
            K::ReasoningMessageEnd if self.reasoning => Role::End(Family::Reasoning),
            K::StateSnapshot | K::StateDelta => Role::State,
            K::RunStarted | K::RunFinished | K::RunError => Role::Boundary,
            K::MessagesSnapshot => Role::Fence,
            K::ReasoningMessageContent
            | K::ReasoningMessageStart
            | K::ReasoningMessageEnd
            | K::ActivitySnapshot
            | K::ActivityDelta
            | K::ToolCallResult => Role::Writes,
            _ => Role::Other,
        }
    }

    fn open(&self, family: Family) -> &Py<PyDict> {
        match family {
            Family::Text | Family::Reasoning => &self.messages,
            Family::Call => &self.calls,
        }
    }

    /// The number of the open segment under an id, whatever its family in that namespace.
    fn find(&self, family: Family, id: &Bound<'_, PyString>) -> Option<usize> {
        look_up(self.open(family).bind(id.py()), id)
    }

    /// How many items are open.
    fn open_items(&self, py: Python<'_>) -> usize {
        self.messages.bind(py).len() + self.calls.bind(py).len()
    }

    fn segment(&mut self, number: usize) -> Option<&mut Segment> {
        match self.held.get_mut(number.checked_sub(self.left)?)? {
            Held::Segment(segment) => Some(segment),
            Held::Event(_) => None,
        }
    }

    #[inline]
    fn take<'py>(&mut self, event: &Bound<'py, PyAny>, out: &mut Events<'py>) -> PyResult<()> {
        self.count += 1;
        if let Some(segment) = self.segment(self.recent)
            && segment.push_bare(event.py(), std::iter::once(event.clone())) == 1
        {
            return Ok(());
        }
        self.push(&Incoming::read(event)?, out)
    }

    fn push<'py>(&mut self, incoming: &Incoming<'py>, out: &mut Events<'py>) -> PyResult<()> {
        match self.role(incoming.kind) {
            Role::Delta(family) => self.delta(incoming, family, out),
            Role::Start(family) => self.start(incoming, family, out),
            Role::End(family) => self.end(incoming, family, out),
            Role::State => self.state(incoming, out),
            Role::Boundary => {
                let ended = self.end_of_stream(incoming.event.py(), out);
                out.push(incoming.event.clone());
                ended
            }
            Role::Fence => self.apart(incoming, out),
            Role::Writes => {
                if !self.held.is_empty() {
                    let id = text!(incoming, message_id)?;
                    if self.is_held_open(&id)? || self.may_mint(incoming) {
                        self.fence(incoming.event.py(), out)?;
                    }
                }
                self.pass(incoming, out);
                Ok(())
            }
            Role::Other => {
                self.pass(incoming, out);
                Ok(())
            }
        }
    }

    /// Lets everything out, and then the event.
    fn apart<'py>(&mut self, incoming: &Incoming<'py>, out: &mut Events<'py>) -> PyResult<()> {
        let fenced = self.fence(incoming.event.py(), out);
        out.push(incoming.event.clone());
        fenced
    }

    /// Whether an open segment writes to the message with this id. A call writes to the message that
    /// holds it: its parent, or one with its own id.
    fn is_held_open(&self, id: &Bound<'_, PyString>) -> PyResult<bool> {
        for ids in [&self.messages, &self.calls, &self.parents] {
            if ids.bind(id.py()).contains(id)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Counts an open call, or one that ends, under the message that it names as its parent.
    fn count_parent(&self, parent: &Bound<'_, PyString>, opens: bool) -> PyResult<()> {
        let parents = self.parents.bind(parent.py());
        let count = look_up(parents, parent).unwrap_or(0);
        match if opens { count + 1 } else { count.saturating_sub(1) } {
            0 => parents.del_item(parent),
            count => parents.set_item(parent, count),
        }
    }

    /// Whether the event may mint the message that a segment without its opener writes to.
    fn may_mint(&self, incoming: &Incoming<'_>) -> bool {
        use EventType as K;
        let minting = [K::ToolCallStart, K::ToolCallResult, K::ActivitySnapshot];
        self.headless > 0 && incoming.kind.is_some_and(|kind| minting.contains(&kind))
    }

    /// An event that leaves in its turn.
    fn pass<'py>(&mut self, incoming: &Incoming<'py>, out: &mut Events<'py>) {
        if self.held.is_empty() {
            self.left += 1;
            out.push(incoming.event.clone());
        } else {
            self.held.push_back(Held::Event(incoming.event.clone().unbind()));
        }
    }

    fn start<'py>(
        &mut self,
        incoming: &Incoming<'py>,
        family: Family,
        out: &mut Events<'py>,
    ) -> PyResult<()> {
        let id = family.id(incoming)?;
        if self.find(family, &id).is_some() || self.may_mint(incoming) {
            self.fence(id.py(), out)?;
        }
        let segment = Segment::opened(incoming, family, &id);
        self.hold(segment, &id)
    }

    /// Holds a segment that is open.
    fn hold(&mut self, segment: Segment, id: &Bound<'_, PyString>) -> PyResult<()> {
        if self.open_items(id.py()) >= self.max_open {
            let kind = segment.opening();
            let refusal = too_many(Some(id), self.max_open);
            return Err(refusal.into_error(id.py(), self.count - 1, Some(kind.name())));
        }
        let number = self.left + self.held.len();
        self.open(segment.family).bind(id.py()).set_item(id, number)?;
        if let Some(parent) = segment.parent() {
            self.count_parent(parent.bind(id.py()), true)?;
        }
        self.headless += usize::from(segment.is_headless());
        self.held.push_back(Held::Segment(Box::new(segment)));
        self.recent = number;
        Ok(())
    }

    #[inline]
    fn delta<'py>(
        &mut self,
        incoming: &Incoming<'py>,
        family: Family,
        out: &mut Events<'py>,
    ) -> PyResult<()> {
        let id = family.id(incoming)?;
        // Deltas mostly come in rows.
        if let Some(segment) = self.segment(self.recent)
            && segment.is_open(family, &id)
        {
            return if segment.push(incoming)? { Ok(()) } else { self.apart(incoming, out) };
        }
        self.other_delta(incoming, family, &id, out)
    }

    fn other_delta<'py>(
        &mut self,
        incoming: &Incoming<'py>,
        family: Family,
        id: &Bound<'py, PyString>,
        out: &mut Events<'py>,
    ) -> PyResult<()> {
        if let Some(number) = self.find(family, id)
            && let Some(segment) = self.segment(number)
        {
            if segment.family == family {
                if !segment.push(incoming)? {
                    return self.apart(incoming, out);
                }
                self.recent = number;
                return Ok(());
            }
            // Text and reasoning write to one message, by turns.
            self.fence(id.py(), out)?;
        }
        let mut segment = Segment::headless(family, id);
        if !segment.push(incoming)? {
            return self.apart(incoming, out);
        }
        self.hold(segment, id)
    }

    fn end<'py>(
        &mut self,
        incoming: &Incoming<'py>,
        family: Family,
        out: &mut Events<'py>,
    ) -> PyResult<()> {
        let id = family.id(incoming)?;
        if let Some(number) = self.find(family, &id)
            && let Some(segment) = self.segment(number)
        {
            if segment.family == family {
                segment.close(incoming);
                let was_headless = segment.is_headless();
                let parent = segment.parent().map(|parent| parent.bind(id.py()).clone());
                self.headless -= usize::from(was_headless);
                self.open(family).bind(id.py()).del_item(&id)?;
                if let Some(parent) = parent {
                    self.count_parent(&parent, false)?;
                }
                return self.release(id.py(), out);
            }
            self.fence(id.py(), out)?;
        }
        self.pass(incoming, out);
        Ok(())
    }

    /// Lets out what waits for nothing any more.
    fn release<'py>(&mut self, py: Python<'py>, out: &mut Events<'py>) -> PyResult<()> {
        while let Some(first) = self.held.front() {
            if matches!(first, Held::Segment(segment) if !segment.is_closed()) {
                break;
            }
            self.leave(py, out)?;
        }
        Ok(())
    }

    /// Lets out the first that is held.
    fn leave<'py>(&mut self, py: Python<'py>, out: &mut Events<'py>) -> PyResult<()> {
        let Some(first) = self.held.pop_front() else { return Ok(()) };
        self.left += 1;
        match first {
            Held::Event(event) => out.push(event.into_bound(py)),
            Held::Segment(segment) => segment.into_events(py, out)?,
        }
        Ok(())
    }

    /// Lets everything out, so that nothing passes the next event. Of errors, the first counts.
    fn fence<'py>(&mut self, py: Python<'py>, out: &mut Events<'py>) -> PyResult<()> {
        let mut done = Ok(());
        while !self.held.is_empty() {
            done = done.and(self.leave(py, out));
        }
        for ids in [&self.messages, &self.calls, &self.parents] {
            if !ids.bind(py).is_empty() {
                ids.bind(py).clear();
            }
        }
        self.headless = 0;
        done
    }

    fn state<'py>(&mut self, incoming: &Incoming<'py>, out: &mut Events<'py>) -> PyResult<()> {
        let malformed = self.window.push(incoming, &mut self.deviations)?;
        if malformed {
            // It is fatal to whoever applies it, and so has to stay where it is.
            let mut events = Vec::new();
            self.window.flush(incoming.event.py(), &mut events)?;
            if self.held.is_empty() {
                self.left += events.len() + 1;
                out.append(&mut events);
                out.push(incoming.event.clone());
            } else {
                let held = events.into_iter().map(|event| Held::Event(event.unbind()));
                self.held.extend(held);
                self.pass(incoming, out);
            }
        }
        Ok(())
    }

    fn take_and_report<'py>(
        &mut self,
        event: &Bound<'py, PyAny>,
        out: &mut Events<'py>,
    ) -> PyResult<()> {
        self.take(event, out)?;
        for deviation in self.deviations.drain(..) {
            self.reporter.report(event.py(), deviation)?;
        }
        Ok(())
    }

    fn end_of_stream<'py>(&mut self, py: Python<'py>, out: &mut Events<'py>) -> PyResult<()> {
        let fenced = self.fence(py, out);
        fenced.and(self.window.flush(py, out))
    }

    /// What a call gives out, or the error that it ends with. What was ready then waits for the next.
    #[inline]
    fn give<'py>(
        slf: &Bound<'py, Self>,
        out: Events<'py>,
        done: PyResult<()>,
    ) -> PyResult<Bound<'py, PyList>> {
        match done {
            Ok(()) => PyList::new(slf.py(), out),
            Err(error) => {
                if let Ok(mut compactor) = exclusive(slf) {
                    compactor.ready.extend(out.into_iter().map(Bound::unbind));
                }
                Err(error)
            }
        }
    }

    /// What an error kept back, mostly nothing.
    #[inline]
    fn take_ready<'py>(&mut self, py: Python<'py>) -> Events<'py> {
        if self.ready.is_empty() {
            return Vec::new();
        }
        std::mem::take(&mut self.ready).into_iter().map(|event| event.into_bound(py)).collect()
    }
}

#[pymethods]
impl Compactor {
    #[new]
    #[pyo3(signature = (*, reasoning=false, max_open=10_000, on_deviation=None))]
    fn new(
        py: Python<'_>,
        reasoning: bool,
        max_open: usize,
        on_deviation: Option<Callback>,
    ) -> Self {
        Self::make(py, reasoning, max_open, on_deviation)
    }

    /// Takes one event.
    ///
    /// Args:
    ///     event: An SDK model or a wire dict. What is given out is spelled as what came in.
    ///
    /// Returns:
    ///     The events that are final now; mostly none, until an item ends.
    ///
    /// Raises:
    ///     AGUIError: Not an event, or one without a field that it must have. Events that were final
    ///         before it come with the next call.
    ///     SequenceError: The event opens one item more than ``max_open``.
    #[pyo3(signature = (event, /))]
    fn feed<'py>(
        slf: &Bound<'py, Self>,
        event: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let py = slf.py();
        let mut compactor = exclusive(slf)?;
        let mut out = compactor.take_ready(py);
        let mut done = compactor.take(event, &mut out);
        let deviations = std::mem::take(&mut compactor.deviations);
        let reporter = (!deviations.is_empty()).then(|| compactor.reporter.clone_ref(py));
        // Nothing is borrowed from here on, so that the callback may use the compactor.
        drop(compactor);
        if let Some(reporter) = reporter {
            let told = deviations.into_iter().try_for_each(|one| reporter.report(py, one));
            done = told.and(done);
        }
        Self::give(slf, out, done)
    }

    /// Ends the stream.
    ///
    /// Returns:
    ///     What was held: open items without their end, and the state.
    fn close<'py>(slf: &Bound<'py, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut compactor = exclusive(slf)?;
        let mut out = compactor.take_ready(py);
        let done = compactor.end_of_stream(py, &mut out);
        drop(compactor);
        Self::give(slf, out, done)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> String {
        shown(slf, |compactor| {
            format!(
                "<Compactor open={} held={} max_open={}>",
                compactor.open_items(slf.py()),
                compactor.held.len(),
                compactor.max_open
            )
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.reporter.traverse(&visit)
    }

    fn __clear__(&mut self) {
        self.reporter.clear();
    }
}

/// Compacts a whole stream; see :class:`Compactor`.
///
/// Args:
///     events: SDK models or wire dicts, with chunks expanded.
///     reasoning: Collapse the deltas of reasoning messages as well.
///     max_open: As for :class:`Compactor`.
///     on_deviation: As for :class:`Compactor`.
///
/// Returns:
///     The events that add up to the same: the same objects where they were not collapsed, models
///     for models and dicts for dicts.
///
/// Raises:
///     AGUIError: Not an event, or one without a field that it must have.
///     SequenceError: An event opens one item more than ``max_open``.
///
/// Example:
///     >>> deltas = [
///     ...     {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": delta}
///     ...     for delta in ("Hel", "lo")
///     ... ]
///     >>> compact_events(deltas)
///     [{'type': 'TEXT_MESSAGE_CONTENT', 'messageId': 'm', 'delta': 'Hello'}]
#[pyfunction]
#[pyo3(signature = (events, *, reasoning=false, max_open=10_000, on_deviation=None))]
pub fn compact_events<'py>(
    events: &Bound<'py, PyAny>,
    reasoning: bool,
    max_open: usize,
    on_deviation: Option<Callback>,
) -> PyResult<Bound<'py, PyList>> {
    let py = events.py();
    let mut compactor = Compactor::make(py, reasoning, max_open, on_deviation);
    let mut out = Vec::new();
    if let Ok(events) = events.cast_exact::<PyList>() {
        let mut index = 0;
        loop {
            if let Some(segment) = compactor.segment(compactor.recent) {
                let rest = (index..).map_while(|index| capi::list_get(events, index));
                index += segment.push_bare(py, rest);
                compactor.count = index;
            }
            let Some(event) = capi::list_get(events, index) else { break };
            index += 1;
            compactor.take_and_report(&event, &mut out)?;
        }
    } else {
        for event in events.try_iter()? {
            compactor.take_and_report(&event?, &mut out)?;
        }
    }
    compactor.end_of_stream(py, &mut out)?;
    PyList::new(py, out)
}
