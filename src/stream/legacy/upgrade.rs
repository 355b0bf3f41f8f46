//! What older peers send, in today's shapes.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::{Draft, Notes, content, input, spelling, text_of};
use crate::capi;
use crate::deviation::Reporter;
use crate::errors::exclusive;
use crate::event::{EventType, Form, build, keys, registry};
use crate::input::Callback;
use crate::stream::enforce::input_info;
use crate::stream::{Item, Output, Stage, close_list, feed_list, quoted};

/// Converts what older versions of the protocol sent to what it says today.
///
/// THINKING_* become REASONING_*, `binary` parts become image, audio, video or document parts, nulls
/// that meant absence are left out, and the interrupts of the draft become those of 1.0. Whatever is
/// converted is announced as a :class:`Deviation`, with a word on what is lost. It stands before
/// enforcement, which would remove the old shapes, and is not gated by a version: an old shape is
/// proof of an old peer. All else, and with it all of the SDK's models (they have today's shapes
/// only), passes as the same object.
///
/// Described fields under their Python names (``thread_id``, also inside messages, tool calls and
/// outcomes) get the wire's (``threadId``), with one :class:`Deviation` a stream (kind ``spelling``).
/// Payloads are as they are. Between two events it holds two ids, whatever the stream.
///
/// Args:
///     mint_id: Called for an id where the old shape had none. The default is a random UUID.
///     on_deviation: Called with a :class:`Deviation` for each conversion. The default logs it.
///
/// Example:
///     >>> upgrader = LegacyUpgrader(on_deviation=lambda deviation: None)
///     >>> upgrader.feed({"type": "STEP_STARTED", "step_name": "search"})
///     [{'type': 'STEP_STARTED', 'stepName': 'search'}]
#[pyclass(module = "agui_codec")]
pub struct LegacyUpgrader {
    /// Whether the stream's Python names have been announced. They would be once a token.
    respelled: bool,
    mint_id: Option<Py<PyAny>>,
    /// The ids of the reasoning span and message that are open, which old events do not name.
    span: Option<Py<PyAny>>,
    message: Option<Py<PyAny>>,
    reporter: Reporter,
}

#[pymethods]
impl LegacyUpgrader {
    #[new]
    #[pyo3(signature = (*, mint_id=None, on_deviation=None))]
    fn new(mint_id: Option<Callback>, on_deviation: Option<Callback>) -> Self {
        Self {
            respelled: false,
            mint_id: mint_id.map(Py::from),
            span: None,
            message: None,
            reporter: Reporter::new(on_deviation),
        }
    }

    /// Takes the next event.
    ///
    /// Args:
    ///     event: An event model or a wire dict.
    ///
    /// Returns:
    ///     The event in today's shape, the same object if it is so already.
    #[pyo3(signature = (event, /))]
    fn feed<'py>(
        slf: &Bound<'py, Self>,
        event: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let mut this = exclusive(slf)?;
        feed_list(&mut *this, event)
    }

    /// Ends the stream. Returns no events.
    fn close<'py>(slf: &Bound<'py, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut this = exclusive(slf)?;
        close_list(&mut *this, py)
    }

    #[allow(clippy::unused_self)]
    fn __repr__(_slf: &Bound<'_, Self>) -> &'static str {
        "<LegacyUpgrader>"
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        visit.call(&self.mint_id)?;
        self.reporter.traverse(&visit)
    }

    fn __clear__(&mut self) {
        self.mint_id = None;
        self.reporter.clear();
    }
}

impl Stage for LegacyUpgrader {
    #[inline]
    fn feed<'py>(&mut self, item: &Item<'py>) -> PyResult<Output<'py>> {
        if item.view.spelling != Form::Dict {
            return Ok(Output::Pass);
        }
        let py = item.event.py();
        let null_raw = match item.presence {
            Some(presence) if !presence.has(item.view.info.raw_event) => false,
            _ => {
                let raw_event = keys(py).raw_event.alias(py);
                let raw_event = capi::dict_get(item.view.dict(), raw_event);
                raw_event.is_some_and(|raw_event| raw_event.is_none())
            }
        };
        match item.kind {
            Some(
                EventType::ToolCallStart
                | EventType::ToolCallChunk
                | EventType::ToolCallResult
                | EventType::RunStarted
                | EventType::RunFinished
                | EventType::SubagentFinished
                | EventType::MessagesSnapshot,
            )
            | None => self.upgrade(item),
            // An event that was seen at once has the wire's keys only.
            _ if null_raw || item.presence.is_none() => self.upgrade(item),
            _ => Ok(Output::Pass),
        }
    }

    fn close<'py>(&mut self, _py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        Ok(Vec::new())
    }
}

impl LegacyUpgrader {
    fn upgrade<'py>(&mut self, item: &Item<'py>) -> PyResult<Output<'py>> {
        let py = item.event.py();
        let mut notes = Notes::default();
        let mut draft = self.respelled(item, &mut notes)?;
        draft.omit_null("rawEvent", "", &mut notes)?;
        match item.kind {
            None => self.thinking(&mut draft, &mut notes)?,
            Some(EventType::ToolCallStart | EventType::ToolCallChunk) => {
                draft.omit_null("parentMessageId", "", &mut notes)?;
            }
            Some(EventType::SubagentFinished) => draft.omit_null("result", "", &mut notes)?,
            Some(EventType::RunFinished) => {
                draft.omit_null("result", "", &mut notes)?;
                draft.omit_null("outcome", "", &mut notes)?;
                self.draft_interrupt(&mut draft, &mut notes)?;
            }
            Some(EventType::MessagesSnapshot) => {
                draft.each("messages", "", |message, path| {
                    content::upgrade(&message, path, &mut notes)
                })?;
            }
            Some(EventType::RunStarted) => {
                let echo = draft.get("input")?.and_then(|echo| echo.cast_into::<PyDict>().ok());
                if let Some(echo) = echo
                    && let Some(upgraded) = input::upgrade(&echo, "input", &mut notes)?
                {
                    draft.set("input", upgraded)?;
                }
            }
            Some(_) => {}
        }
        let respelled = notes.has("spelling");
        notes.report(py, &self.reporter, Some(&item.type_name()))?;
        self.respelled |= respelled;
        match draft.changed() {
            Some(event) => Ok(Output::One(build::event(event, item.spelling)?)),
            None => Ok(Output::Pass),
        }
    }

    /// The event in the wire's spelling.
    fn respelled<'py>(&self, item: &Item<'py>, notes: &mut Notes) -> PyResult<Draft<'py>> {
        let dict = item.view.dict();
        let mut first = None;
        let mut found = |path| {
            first.get_or_insert(path);
        };
        let respelled = spelling::respell(dict, item.view.info, "", &mut found)?;
        if let Some(path) = first
            && !self.respelled
        {
            notes.add("spelling", path, format!("{RESPELLED}; further ones are not announced"));
        }
        Ok(respelled.map_or_else(|| Draft::of(dict), Draft::owned))
    }

    fn mint<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.mint_id {
            Some(mint_id) => mint_id.bind(py).call0(),
            None => py
                .import(intern!(py, "uuid"))?
                .call_method0(intern!(py, "uuid4"))?
                .str()
                .map(Bound::into_any),
        }
    }

    /// The retired events of thinking. They name neither span nor message, of which there was one
    /// at a time.
    fn thinking(&mut self, draft: &mut Draft<'_>, notes: &mut Notes) -> PyResult<()> {
        use EventType as K;
        let py = draft.dict.py();
        let Some(old) = text_of(draft.get("type")?.as_ref()) else { return Ok(()) };
        let new = match old.as_str() {
            "THINKING_START" => K::ReasoningStart,
            "THINKING_TEXT_MESSAGE_START" => K::ReasoningMessageStart,
            "THINKING_TEXT_MESSAGE_CONTENT" => K::ReasoningMessageContent,
            "THINKING_TEXT_MESSAGE_END" => K::ReasoningMessageEnd,
            "THINKING_END" => K::ReasoningEnd,
            _ => return Ok(()),
        };
        notes.add("legacy", "", format!("converted the retired {old} to {}", new.name()));
        let opens = matches!(new, K::ReasoningStart | K::ReasoningMessageStart);
        let spans = matches!(new, K::ReasoningStart | K::ReasoningEnd);
        let known = if spans { &self.span } else { &self.message };
        let id = match known {
            Some(id) if !opens => id.bind(py).clone(),
            _ => self.mint(py)?,
        };
        if !opens && known.is_none() {
            notes.add(
                "minted_id",
                "messageId",
                format!("nothing was open for {old} to go on with; its id {} is ours", quoted(&id)),
            );
        }
        draft.set("type", registry().kind_name(py, new))?;
        draft.set("messageId", &id)?;
        if let Some(title) = draft.get("title")? {
            draft.remove("title")?;
            let detail = format!("a reasoning span has no title; lost {}", quoted(&title));
            notes.add("legacy_loss", "title", detail);
        }
        if new == K::ReasoningMessageStart {
            draft.set("role", "reasoning")?;
        }
        let ends = matches!(new, K::ReasoningMessageEnd | K::ReasoningEnd);
        // A continuation without an opener opens nothing either.
        let open = match (opens, ends) {
            (true, _) => Some(id.unbind()),
            (_, true) => None,
            _ => return Ok(()),
        };
        *(if spans { &mut self.span } else { &mut self.message }) = open;
        Ok(())
    }

    /// RUN_FINISHED of the interrupt draft: `outcome` a string, and one `interrupt` beside it.
    fn draft_interrupt(&self, draft: &mut Draft<'_>, notes: &mut Notes) -> PyResult<()> {
        let py = draft.dict.py();
        let outcome = draft.get("outcome")?;
        let interrupt = draft.get("interrupt")?.and_then(|it| it.cast_into::<PyDict>().ok());
        let said = text_of(outcome.as_ref());
        // Where the draft's outcome is left out, an interrupt says what it is.
        let interrupts = match (said.as_deref(), &outcome, &interrupt) {
            (Some("interrupt"), ..) | (None, None, Some(_)) => true,
            (Some("success"), ..) => false,
            _ => return Ok(()),
        };
        notes.add("legacy", "outcome", "converted the outcome of the interrupt draft");
        let converted = PyDict::new(py);
        converted.set_item("type", if interrupts { "interrupt" } else { "success" })?;
        if interrupts {
            let interrupt = match interrupt {
                Some(interrupt) => interrupt.copy()?,
                None => PyDict::new(py),
            };
            for key in ["id", "reason", "payload"] {
                if interrupt.get_item(key)?.is_some_and(|value| value.is_none()) {
                    capi::discard(&interrupt, key)?;
                }
            }
            if !interrupt.contains("id")? {
                let id = self.mint(py)?;
                let detail = format!("the interrupt had no id; {} is ours", quoted(&id));
                notes.add("minted_id", "outcome.interrupts[0].id", detail);
                interrupt.set_item("id", id)?;
            }
            if !interrupt.contains("reason")? {
                interrupt.set_item("reason", "unspecified")?;
            }
            if let Some(payload) = interrupt.get_item("payload")? {
                // Metadata is where an interrupt of today has room for anything.
                capi::discard(&interrupt, "payload")?;
                let metadata = PyDict::new(py);
                if let Some(given) = interrupt.get_item("metadata")?
                    && let Ok(given) = given.cast::<PyDict>()
                {
                    metadata.update(given.as_mapping())?;
                }
                metadata.set_item("payload", payload)?;
                interrupt.set_item("metadata", metadata)?;
            }
            converted.set_item("interrupts", PyList::new(py, [interrupt])?)?;
        }
        if draft.get("interrupt")?.is_some() {
            draft.remove("interrupt")?;
        }
        draft.set("outcome", converted)
    }
}

const RESPELLED: &str = "read a field under its Python name";

/// The input of a run as an older client sent it, in today's shapes.
///
/// Args:
///     run_agent_input: A dict with the keys of the wire, as parsed from the request. A
///         ``RunAgentInput`` has today's shapes only.
///     on_deviation: Called with a :class:`Deviation` for each conversion. The default logs it.
///
/// Returns:
///     The input, the same object if there is nothing to convert. Fields under their Python names
///     (``thread_id``) are given the wire's, too.
///
/// Example:
///     >>> request = {"thread_id": "t", "run_id": "r", "messages": []}
///     >>> sorted(upgrade_input(request, on_deviation=lambda deviation: None))
///     ['messages', 'runId', 'threadId']
#[pyfunction]
#[pyo3(signature = (run_agent_input, /, *, on_deviation=None))]
pub fn upgrade_input<'py>(
    run_agent_input: &Bound<'py, PyAny>,
    on_deviation: Option<Callback>,
) -> PyResult<Bound<'py, PyAny>> {
    let Ok(dict) = run_agent_input.cast::<PyDict>() else { return Ok(run_agent_input.clone()) };
    let mut notes = Notes::default();
    let mut first = None;
    let mut found = |path| {
        first.get_or_insert(path);
    };
    let respelled = match input_info() {
        Some(info) => spelling::respell(dict, info, "", &mut found)?,
        None => None,
    };
    if let Some(path) = first {
        notes.add("spelling", path, format!("{RESPELLED}, and perhaps others"));
    }
    let upgraded = input::upgrade(respelled.as_ref().unwrap_or(dict), "", &mut notes)?;
    let upgraded = upgraded.or(respelled);
    notes.report(dict.py(), &Reporter::new(on_deviation), None)?;
    Ok(upgraded.map_or_else(|| run_agent_input.clone(), Bound::into_any))
}
