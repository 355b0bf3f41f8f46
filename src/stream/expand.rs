//! Chunk expansion: the shorthand of the `*_CHUNK` events written out as START, CONTENT and END.

mod assembly;
mod chunk;
mod lanes;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use std::sync::OnceLock;

use self::assembly::Assembly;
use self::chunk::Chunk;
use self::lanes::{Lane, Lanes};
use super::{Item, Output, Stage, close_list, feed_list, owner_text, quoted, too_many};
use crate::capi;
use crate::deviation::{Deviation, Reporter};
use crate::errors::{Violation, exclusive, shown};
use crate::event::{ClassInfo, EventType, Form, Key, Presence, build, keys, registry, scan};
use crate::input::Callback;

/// An event to be copied, and what a copy of it is, as long as its text is exactly a str.
pub struct Template {
    event: Py<PyDict>,
    seen: Option<(&'static ClassInfo, EventType, Presence)>,
}

impl Lane {
    /// A new content event without its text, with the opener's tag.
    fn content<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if let Some(template) = self.template.get() {
            return template.event.bind(py).copy();
        }
        let keys = keys(py);
        let event = PyDict::new(py);
        set_type(&event, self.assembly.content())?;
        event.set_item(self.assembly.id(py).alias(py), &self.id)?;
        event.set_item(keys.delta.alias(py), "")?;
        if let Some(tag) = &self.tag {
            event.set_item(keys.subagent_run_id.alias(py), tag)?;
        }
        let seen = scan(&event, |_| ());
        let _ = self.template.set(Template { event: event.copy()?.unbind(), seen });
        Ok(event)
    }
}

fn same(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> bool {
    match (a.cast::<PyString>(), b.cast::<PyString>()) {
        (Ok(a), Ok(b)) => capi::same_text(a, b),
        _ => false,
    }
}

/// Whether a lane's owner is the one that this tag names.
fn owned_by(owner: Option<&Py<PyString>>, tag: &Bound<'_, PyString>) -> bool {
    owner.is_some_and(|owner| capi::same_text(owner.bind(tag.py()), tag))
}

/// Writes ``TEXT_MESSAGE_CHUNK``, ``TOOL_CALL_CHUNK`` and ``REASONING_MESSAGE_CHUNK`` out as the
/// START, CONTENT (or ARGS) and END events that they stand for. All other events pass as they are.
///
/// Each lane (a ``subagentRunId``, or the parent agent where it is absent) assembles one item at a
/// time, and an item ends with whatever the protocol says closes its lane; see "Chunk expansion" of
/// https://docs.ag-ui.com/concepts/events. What is made is spelled as the chunk was: models of
/// models, wire dicts of wire dicts.
///
/// The end of a stream closes nothing: an item that was cut off has not ended, and
/// :class:`EventVerifier` reports the truncated run.
///
/// Args:
///     max_open: How many items may be open at once, each in a lane of its own. This is what a peer
///         can make it hold: an item that has ended leaves nothing behind.
///     on_deviation: Called with a :class:`Deviation` where a chunk's property had to give way. The
///         default logs it.
///
/// Raises:
///     SequenceError: From ``feed``: a first chunk without its id or name, a continuation that
///         disagrees with its opener, one that could belong to several lanes, one item too many.
///
/// Example:
///     >>> expander = ChunkExpander()
///     >>> chunk = {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "Hi"}
///     >>> print(*(event["type"] for event in expander.feed(chunk)))
///     TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT
#[pyclass(module = "agui_codec")]
pub struct ChunkExpander {
    lanes: Lanes,
    max_open: usize,
    index: usize,
    /// Of each assembly, one bit for each field that a plain chunk may have.
    plain: [u64; 3],
    reporter: Reporter,
}

#[pymethods]
impl ChunkExpander {
    #[new]
    #[pyo3(signature = (*, max_open=10_000, on_deviation=None))]
    fn new(py: Python<'_>, max_open: usize, on_deviation: Option<Callback>) -> Self {
        let plain = [Assembly::Text, Assembly::Tool, Assembly::Reasoning].map(|assembly| {
            let Some(info) = registry().event(Some(assembly.chunk())) else { return 0 };
            let keys = keys(py);
            let fields = [&keys.r#type, assembly.id(py), &keys.delta];
            let places = fields.map(|key| info.find_interned(key.alias(py), 0));
            places.into_iter().flatten().fold(0, |fields, at| fields | 1 << at)
        });
        let (lanes, reporter) = (Lanes::new(py), Reporter::new(on_deviation));
        Self { lanes, max_open, index: 0, plain, reporter }
    }

    /// Takes the next event.
    ///
    /// Args:
    ///     event: An event model or a wire dict.
    ///
    /// Returns:
    ///     What it stands for: the same object if it is no chunk, behind the END events of the
    ///     items that it closes.
    ///
    /// Raises:
    ///     SequenceError: If it contradicts the chunks before it.
    #[pyo3(signature = (event, /))]
    fn feed<'py>(
        slf: &Bound<'py, Self>,
        event: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let mut this = exclusive(slf)?;
        feed_list(&mut *this, event)
    }

    /// Ends the stream. Forgets what is open, and returns no events.
    fn close<'py>(slf: &Bound<'py, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut this = exclusive(slf)?;
        close_list(&mut *this, py)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> String {
        shown(slf, |this| {
            format!("<ChunkExpander open={} max_open={}>", this.lanes.len(), this.max_open)
        })
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        self.reporter.traverse(&visit)
    }

    fn __clear__(&mut self) {
        self.reporter.clear();
    }
}

impl Stage for ChunkExpander {
    #[inline]
    fn feed<'py>(&mut self, item: &Item<'py>) -> PyResult<Output<'py>> {
        let index = self.index;
        self.index += 1;
        let Some(kind) = item.kind else { return Ok(Output::Pass) };
        if let Some(assembly) = Assembly::of(kind) {
            if let Some(output) = self.plain(item, assembly)? {
                return Ok(output);
            }
            let chunk = Chunk::read(item, assembly)?;
            return self.expand(item, assembly, &chunk)?.map_err(|violation| {
                violation.into_error(item.event.py(), index, Some(kind.name()))
            });
        }
        if self.lanes.is_empty() {
            return Ok(Output::Pass);
        }
        self.close_for(item, kind)
    }

    fn close<'py>(&mut self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.lanes.close_all(py);
        Ok(Vec::new())
    }
}

impl ChunkExpander {
    /// What nearly all chunks are: some more text for an item that is open, and nothing else. None
    /// for any other.
    #[inline]
    fn plain<'py>(
        &mut self,
        item: &Item<'py>,
        assembly: Assembly,
    ) -> PyResult<Option<Output<'py>>> {
        let py = item.event.py();
        let keys = keys(py);
        let Some(presence) = item.presence else { return Ok(None) };
        let id_key = assembly.id(py);
        if !presence.has_only(self.plain[assembly as usize]) {
            return Ok(None);
        }
        let delta = keys.delta.alias(py);
        let Some(text) = capi::dict_get(item.view.dict(), delta) else { return Ok(None) };
        let lane = match item.read_seen(id_key, presence) {
            Some(id) => match self.lanes.current(assembly, &id) {
                Some(lane) => Some(lane),
                None => self.lanes.holder(assembly, &id).and_then(|slot| self.lanes.get(slot)),
            },
            // Without an id it is the parent's, which need not be asked for if it is alone.
            None => {
                self.lanes.only().filter(|lane| lane.owner.is_none() && lane.assembly == assembly)
            }
        };
        let (Some(lane), Form::Dict) = (lane, item.spelling) else { return Ok(None) };
        let event = lane.content(py)?;
        event.set_item(delta, text)?;
        let seen = lane.template.get().and_then(|template| template.seen);
        let Some((info, kind, presence)) = seen else {
            return Ok(Some(Output::One(event.into_any())));
        };
        let subject = Some(lane.id.bind(py).clone());
        Ok(Some(Output::Item(Item::seen(&event, subject, info, kind, presence))))
    }

    /// An event that is no chunk, while chunks are being assembled.
    fn close_for<'py>(&mut self, item: &Item<'py>, kind: EventType) -> PyResult<Output<'py>> {
        use EventType as K;
        let py = item.event.py();
        let closed = match kind {
            // These describe the run as a whole, and not what one agent in it does.
            K::RunStarted | K::RunFinished | K::RunError | K::MessagesSnapshot => {
                self.lanes.close_all(py)
            }
            K::Raw
            | K::ActivitySnapshot
            | K::ActivityDelta
            | K::ReasoningEncryptedValue
            | K::SubagentStarted => return Ok(Output::Pass),
            _ => {
                let tag = item.view.read(&keys(py).subagent_run_id);
                let tag = tag.as_ref().and_then(|tag| tag.cast::<PyString>().ok());
                let terminal = matches!(kind, K::SubagentFinished | K::SubagentError);
                if terminal && tag.is_none() {
                    // Malformed, and not about the parent.
                    return Ok(Output::Pass);
                }
                let Some(slot) = self.lanes.of(py, tag) else { return Ok(Output::Pass) };
                self.lanes.close(py, slot)?.into_iter().collect()
            }
        };
        let mut events = Vec::with_capacity(closed.len() + 1);
        for lane in &closed {
            events.push(end_of(py, lane)?);
        }
        events.push(item.event.clone());
        Ok(Output::Many(events))
    }

    /// The owner of the lane that a chunk belongs to, and the lane's slot if it is open.
    fn resolve<'py>(
        &mut self,
        py: Python<'py>,
        assembly: Assembly,
        chunk: &Chunk<'py>,
    ) -> Result<(Option<Bound<'py, PyString>>, Option<usize>), Violation> {
        let tag = chunk.tag_str();
        if let Some(id) = &chunk.id {
            // An id that is open continues there, whoever sends it.
            if let Some(slot) = self.lanes.holder(assembly, id) {
                let owner = self.owner_of(py, slot);
                let disagrees = tag.filter(|tag| {
                    let lane = self.lanes.get(slot);
                    lane.is_some_and(|lane| !owned_by(lane.owner.as_ref(), tag))
                });
                if let Some(tag) = disagrees {
                    return Err(Violation::new(
                        Some(id),
                        format!(
                            "the chunk's subagentRunId {} disagrees with the opener of the {} {}, \
                             which belongs to {}",
                            quoted(tag),
                            assembly.noun(),
                            quoted(id),
                            owner_text(owner.as_ref().map(Bound::as_any)),
                        ),
                        "the opener's subagentRunId, or none",
                    ));
                }
                return Ok((owner, Some(slot)));
            }
            return Ok((tag.cloned(), self.lanes.of(py, tag)));
        }
        if tag.is_some() {
            return Ok((tag.cloned(), self.lanes.of(py, tag)));
        }
        let parent = self.lanes.of(py, None);
        let parents = parent.and_then(|slot| self.lanes.get(slot));
        if parents.is_some_and(|lane| lane.assembly == assembly) {
            return Ok((None, parent));
        }
        // Whoever tags only the opener of a subagent's stream means that stream.
        match self.lanes.assembling(assembly) {
            Some((slot, 1)) => Ok((self.owner_of(py, slot), Some(slot))),
            Some((_, count)) => Err(Violation::new(
                None,
                format!(
                    "the chunk is ambiguous: it names neither its {} nor a subagent, and {count} \
                     lanes have a {} open",
                    assembly.id(py).alias(py),
                    assembly.noun(),
                ),
                "a subagentRunId or an id",
            )),
            None => Ok((None, parent)),
        }
    }

    fn owner_of<'py>(&self, py: Python<'py>, slot: usize) -> Option<Bound<'py, PyString>> {
        self.lanes.get(slot)?.owner.as_ref().map(|owner| owner.bind(py).clone())
    }

    fn expand<'py>(
        &mut self,
        item: &Item<'py>,
        assembly: Assembly,
        chunk: &Chunk<'py>,
    ) -> PyResult<Result<Output<'py>, Violation>> {
        let py = item.event.py();
        let (owner, open) = match self.resolve(py, assembly, chunk) {
            Ok(found) => found,
            Err(violation) => return Ok(Err(violation)),
        };
        let lane = open.and_then(|slot| self.lanes.get(slot));
        let same_item = lane.filter(|lane| {
            lane.assembly == assembly
                && chunk.id.as_ref().is_none_or(|id| same(lane.id.bind(py), id))
        });
        let goes_on = same_item.is_some();
        let mut events = Vec::with_capacity(3);
        let slot = if let (Some(lane), Some(slot)) = (same_item, open) {
            if let Err(violation) = agrees(py, lane, chunk) {
                return Ok(Err(violation));
            }
            slot
        } else {
            if open.is_none() && self.lanes.len() >= self.max_open {
                return Ok(Err(too_many(chunk.id.as_ref(), self.max_open)));
            }
            let lane = match opened(item, assembly, chunk, owner) {
                Ok(lane) => lane?,
                Err(violation) => return Ok(Err(violation)),
            };
            let closed = open.map(|slot| self.lanes.close(py, slot)).transpose()?.flatten();
            if let Some(closed) = closed {
                events.push(end_of(py, &closed)?);
            }
            let carries = chunk.delta.is_some() || chunk.raw_event.is_some();
            events.push(self.start_of(item, &lane, chunk, carries)?);
            self.lanes.open(py, lane)?
        };
        let null_tag = chunk.tag.as_ref().is_some_and(Bound::is_none);
        let says = chunk.delta.is_some() || chunk.raw_event.is_some();
        // A continuation with something to say but no text says it with an empty one.
        let only_aside =
            goes_on && (chunk.metadata.is_some() || null_tag || !chunk.rest.is_empty());
        if (says || only_aside)
            && let Some(lane) = self.lanes.get(slot)
        {
            events.push(content_of(item, lane, chunk)?);
        }
        Ok(Ok(match events.len() {
            0 => Output::Nothing,
            1 => Output::One(events.swap_remove(0)),
            _ => Output::Many(events),
        }))
    }

    /// The START of a chunk. It claims the chunk's unknown properties only if no content follows.
    fn start_of<'py>(
        &self,
        item: &Item<'py>,
        lane: &Lane,
        chunk: &Chunk<'py>,
        content_follows: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = item.event.py();
        let keys = keys(py);
        let assembly = lane.assembly;
        let event = PyDict::new(py);
        if !content_follows {
            for (key, value) in &chunk.rest {
                event.set_item(key, value)?;
            }
        }
        set_type(&event, assembly.start())?;
        event.set_item(assembly.id(py).alias(py), &lane.id)?;
        for (key, value) in assembly.established(py).into_iter().zip(&lane.established) {
            if let (Some(key), Some(value)) = (key, value) {
                event.set_item(key.alias(py), value)?;
            }
        }
        if assembly == Assembly::Reasoning {
            let role = keys.role.alias(py);
            if event.contains(role)? {
                self.reporter.report(
                    py,
                    Deviation {
                        kind: "overwritten".to_owned(),
                        event_type: Some(EventType::ReasoningMessageChunk.name().to_owned()),
                        path: "role".to_owned(),
                        detail: "a reasoning chunk has no role; the REASONING_MESSAGE_START made \
                                 of it keeps its own"
                            .to_owned(),
                    },
                )?;
            }
            event.set_item(role, "reasoning")?;
        }
        if let Some(tag) = &lane.tag {
            event.set_item(keys.subagent_run_id.alias(py), tag)?;
        }
        if let Some(metadata) = &chunk.metadata {
            event.set_item(keys.metadata.alias(py), metadata)?;
        }
        build::event(event, item.spelling)
    }
}

/// Whether a continuation repeats only what its opener established.
fn agrees(py: Python<'_>, lane: &Lane, chunk: &Chunk<'_>) -> Result<(), Violation> {
    let keys = lane.assembly.established(py);
    for ((key, incoming), opened) in keys.iter().zip(&chunk.established).zip(&lane.established) {
        let (Some(key), Some(incoming)) = (key, incoming) else { continue };
        let opened = opened.as_ref().map(|opened| opened.bind(py));
        if !opened.is_some_and(|opened| same(opened, incoming)) {
            let id = lane.id.bind(py);
            return Err(Violation::new(
                Some(id),
                format!(
                    "the chunk's {} {} disagrees with the opener of the {} {}",
                    key.alias(py),
                    quoted(incoming),
                    lane.assembly.noun(),
                    quoted(id),
                ),
                match opened {
                    Some(opened) => format!("{} or none", quoted(opened)),
                    None => "none".to_owned(),
                },
            ));
        }
    }
    Ok(())
}

/// The lane that a first chunk opens.
fn opened<'py>(
    item: &Item<'py>,
    assembly: Assembly,
    chunk: &Chunk<'py>,
    owner: Option<Bound<'py, PyString>>,
) -> Result<PyResult<Lane>, Violation> {
    let py = item.event.py();
    let required = |value: Option<&Bound<'py, PyAny>>, key: &Key| {
        value.cloned().ok_or_else(|| {
            Violation::new(
                chunk.id.as_ref(),
                format!("the first chunk of a {} has no {}", assembly.noun(), key.alias(py)),
                format!("a {}", key.alias(py)),
            )
        })
    };
    let id = required(chunk.id.as_ref(), assembly.id(py))?;
    let mut established = chunk.established.clone();
    match assembly {
        Assembly::Tool => {
            required(established[0].as_ref(), &keys(py).tool_call_name)?;
        }
        Assembly::Text if established[0].is_none() => {
            established[0] = Some(PyString::intern(py, "assistant").into_any());
        }
        Assembly::Text | Assembly::Reasoning => {}
    }
    let owner = match owner.map(|owner| capi::plain_str(&owner)).transpose() {
        Ok(owner) => owner,
        Err(failed) => return Ok(Err(failed)),
    };
    Ok(Ok(Lane {
        owner: owner.map(Bound::unbind),
        assembly,
        id: id.unbind(),
        established: established.map(|value| value.map(Bound::unbind)),
        tag: chunk.tag.clone().map(Bound::unbind),
        spelling: item.spelling,
        template: OnceLock::new(),
    }))
}

/// The CONTENT or ARGS of a chunk, with the chunk's own tag, else the opener's.
fn content_of<'py>(
    item: &Item<'py>,
    lane: &Lane,
    chunk: &Chunk<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = item.event.py();
    let keys = keys(py);
    let mut event = lane.content(py)?;
    if !chunk.rest.is_empty() {
        // What is described wins over what is not.
        let described = event;
        event = PyDict::new(py);
        for (key, value) in &chunk.rest {
            event.set_item(key, value)?;
        }
        event.update(described.as_mapping())?;
    }
    if let Some(delta) = &chunk.delta {
        event.set_item(keys.delta.alias(py), delta)?;
    }
    if let Some(tag) = &chunk.tag {
        event.set_item(keys.subagent_run_id.alias(py), tag)?;
    }
    if let Some(metadata) = &chunk.metadata {
        event.set_item(keys.metadata.alias(py), metadata)?;
    }
    if let Some(raw_event) = &chunk.raw_event {
        event.set_item(keys.raw_event.alias(py), raw_event)?;
    }
    build::event(event, item.spelling)
}

/// The END of what a lane assembles. Nothing of the event that closes it clings to it.
fn end_of<'py>(py: Python<'py>, lane: &Lane) -> PyResult<Bound<'py, PyAny>> {
    let event = PyDict::new(py);
    set_type(&event, lane.assembly.end())?;
    event.set_item(lane.assembly.id(py).alias(py), &lane.id)?;
    if let Some(tag) = &lane.tag {
        event.set_item(keys(py).subagent_run_id.alias(py), tag)?;
    }
    build::event(event, lane.spelling)
}

fn set_type(event: &Bound<'_, PyDict>, kind: EventType) -> PyResult<()> {
    let py = event.py();
    event.set_item(registry().type_key.bind(py), registry().kind_name(py, kind))
}
