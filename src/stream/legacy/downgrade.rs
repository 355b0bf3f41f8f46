//! What older peers can be sent.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::{Draft, Notes, content, join, text_of};
use crate::capi;
use crate::deviation::Reporter;
use crate::errors::{exclusive, shown};
use crate::event::{EventType, Form, build, protocol_version};
use crate::input::Callback;
use crate::stream::enforce::input_info;
use crate::stream::{Item, Output, Stage, close_list, dump, dump_input, feed_list};

/// What a peer of some version does not know.
#[derive(Clone, Copy, Default)]
struct Era {
    /// Before 0.0.40: content is text.
    no_parts: bool,
    /// Before 0.0.58: there are no subagents.
    no_subagents: bool,
    /// Before 1.0: nobody declares a version, a run is not cancelled, and results of tools are text.
    before_1_0: bool,
}

impl Era {
    /// The era of a peer of which nothing is known but that it declares no version.
    const UNKNOWN: Self = Self { no_parts: false, no_subagents: false, before_1_0: true };

    fn of(max_version: &str) -> PyResult<Self> {
        let parts: Option<Vec<u64>> =
            max_version.split('.').map(|part| part.parse().ok()).collect();
        let Some(parts) = parts.filter(|parts| (2..=3).contains(&parts.len())) else {
            return Err(PyValueError::new_err(format!(
                "max_version: expected a version like '0.0.39' or '1.0', got {max_version:?}"
            )));
        };
        let at = |at: usize| parts.get(at).copied().unwrap_or(0);
        let version = (at(0), at(1), at(2));
        Ok(Self {
            no_parts: version < (0, 0, 40),
            no_subagents: version < (0, 0, 58),
            before_1_0: version < (1, 0, 0),
        })
    }
}

/// Takes from messages what the peer does not know.
fn messages(draft: &mut Draft<'_>, path: &str, era: Era, notes: &mut Notes) -> PyResult<()> {
    draft.each("messages", path, |message, path| {
        let mut message = Draft::of(&message);
        if era.no_subagents && message.get("subagentRunId")?.is_some() {
            message.remove("subagentRunId")?;
            let detail = "the peer knows no subagents; removed whose the message is";
            notes.add("downgrade_loss", join(path, "subagentRunId"), detail);
        }
        let content = message.get("content")?;
        match content.map(pyo3::Bound::cast_into::<PyList>) {
            // Older classes require it.
            None if era.no_parts => message.set("content", "")?,
            Some(Ok(content)) if era.before_1_0 => {
                let path = join(path, "content");
                let is_tool = text_of(message.get("role")?.as_ref()).as_deref() == Some("tool");
                if era.no_parts || is_tool {
                    if let Some(text) = content::flatten(&content, &path, notes)? {
                        message.set("content", text)?;
                    }
                } else if let Some(known) = content::without_newer(&content, &path, notes)? {
                    message.set("content", known)?;
                }
            }
            _ => {}
        }
        Ok(message.changed())
    })
}

/// Takes from a run's input what the peer does not know.
fn input(draft: &mut Draft<'_>, path: &str, era: Era, notes: &mut Notes) -> PyResult<()> {
    messages(draft, path, era, notes)?;
    if era.no_parts && draft.get("parentRunId")?.is_some() {
        draft.remove("parentRunId")?;
        notes.add("downgrade_loss", join(path, "parentRunId"), "the peer knows no parent runs");
    }
    if era.before_1_0 {
        if draft.get("protocolVersion")?.is_some() {
            draft.remove("protocolVersion")?;
        }
        // They were required, and an empty list says the same as none.
        for list in ["tools", "context"] {
            if draft.get(list)?.is_none() {
                draft.set(list, PyList::empty(draft.dict.py()))?;
            }
        }
    }
    Ok(())
}

/// The input of a run as a peer of some version can be sent it.
///
/// Before 0.0.40 content lists become their text; before 0.0.58 messages lose their
/// ``subagentRunId``; before 1.0 no ``protocolVersion`` is declared, ``tools`` and ``context`` are
/// there, content lists of tool messages become their text, and parts of kinds or sources that were
/// not known are dropped. A peer of today is told the version of the installed SDK, if the input does
/// not say. Retired `binary` parts become today's parts for every peer.
///
/// Args:
///     run_agent_input: A ``RunAgentInput``, or a dict with the keys of the wire.
///     max_version: The newest version of the SDK that the peer understands, like ``"0.0.39"``; None
///         for a peer of today.
///     on_deviation: Called with a :class:`Deviation` for each loss. The default logs it.
///
/// Returns:
///     The input, the same object if nothing changes.
///
/// Raises:
///     ValueError: If ``max_version`` is no version.
///
/// Example:
///     >>> request = {"threadId": "t", "runId": "r", "messages": [], "protocolVersion": "1.0"}
///     >>> request |= {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
///     >>> older = downgrade_input(request, "0.0.57", on_deviation=lambda deviation: None)
///     >>> "protocolVersion" in older
///     False
#[pyfunction]
#[pyo3(signature = (run_agent_input, /, max_version=None, *, on_deviation=None))]
pub fn downgrade_input<'py>(
    run_agent_input: &Bound<'py, PyAny>,
    max_version: Option<&str>,
    on_deviation: Option<Callback>,
) -> PyResult<Bound<'py, PyAny>> {
    let era = max_version.map(Era::of).transpose()?.unwrap_or_default();
    let py = run_agent_input.py();
    let (dict, spelling) = match run_agent_input.cast::<PyDict>() {
        Ok(dict) => (dict.clone(), Form::Dict),
        Err(_) => (dump_input(run_agent_input)?, Form::Model),
    };
    let mut draft = Draft::of(&dict);
    let mut notes = Notes::default();
    draft.each("messages", "", |message, path| content::upgrade(&message, path, &mut notes))?;
    input(&mut draft, "", era, &mut notes)?;
    notes.only_losses();
    if !era.before_1_0
        && let Some(ours) = protocol_version()
        && draft.get("protocolVersion")?.is_none_or(|version| version.is_none())
    {
        draft.set("protocolVersion", ours)?;
    }
    notes.report(py, &Reporter::new(on_deviation), None)?;
    match (draft.changed(), spelling, input_info()) {
        (None, ..) => Ok(run_agent_input.clone()),
        (Some(changed), Form::Model, Some(info)) => build::validated(changed.as_any(), info),
        (Some(changed), ..) => Ok(changed.into_any()),
    }
}

/// Takes from a stream what a peer of some version does not know, before it is sent.
///
/// Before 0.0.40 content lists become their text; before 0.0.58 there are no SUBAGENT_* events and
/// no ``subagentRunId``, so that what subagents say joins the parent's stream (expand chunks first:
/// without tags their lanes cannot be told apart). Before 1.0:
///
/// - no ``protocolVersion`` is declared, and ``outcome.pendingToolCallIds`` goes: the client finds
///   the calls that are pending by itself;
/// - the results of tools are text, and parts of kinds or sources that were not known are dropped;
/// - events of other types are dropped, and members of an outcome that were not known are removed;
/// - a cancelled run ends with RUN_ERROR of the code ``"cancelled"``. It is no success, and that is
///   how a run said so.
///
/// Whatever is lost is reported. Between two events it holds nothing, whatever the stream.
///
/// Args:
///     max_version: The newest version of the SDK that the peer understands, like ``"0.0.57"``. None
///         for a peer that declares no version, and so is of before 1.0.
///     on_deviation: Called with a :class:`Deviation` for each loss; for ``subagentRunId`` on events
///         only the first time. The default logs it.
///
/// Raises:
///     ValueError: If ``max_version`` is no version.
///
/// Example:
///     >>> downgrader = LegacyDowngrader(None, on_deviation=lambda deviation: None)
///     >>> outcome = {"type": "cancelled"}
///     >>> done = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": outcome}
///     >>> downgrader.feed(done)
///     [{'type': 'RUN_ERROR', 'message': 'The run was cancelled.', 'code': 'cancelled'}]
#[pyclass(module = "agui_codec")]
pub struct LegacyDowngrader {
    max_version: Option<String>,
    era: Era,
    /// Whether the loss of tags has been announced. It would be once a token.
    announced: bool,
    reporter: Reporter,
}

#[pymethods]
impl LegacyDowngrader {
    #[new]
    #[pyo3(signature = (max_version, *, on_deviation=None))]
    fn new(max_version: Option<String>, on_deviation: Option<Callback>) -> PyResult<Self> {
        let era = max_version.as_deref().map(Era::of).transpose()?.unwrap_or(Era::UNKNOWN);
        Ok(Self { max_version, era, announced: false, reporter: Reporter::new(on_deviation) })
    }

    /// Takes the next event.
    ///
    /// Args:
    ///     event: An event model or a wire dict.
    ///
    /// Returns:
    ///     The event as the peer knows it, the same object if it is so already; nothing if the
    ///     peer knows no such event.
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

    fn __repr__(slf: &Bound<'_, Self>) -> String {
        shown(slf, |this| match &this.max_version {
            Some(version) => format!("LegacyDowngrader('{version}')"),
            None => "LegacyDowngrader(None)".to_owned(),
        })
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        self.reporter.traverse(&visit)
    }

    fn __clear__(&mut self) {
        self.reporter.clear();
    }
}

impl Stage for LegacyDowngrader {
    fn feed<'py>(&mut self, item: &Item<'py>) -> PyResult<Output<'py>> {
        use EventType as K;
        let era = self.era;
        let py = item.event.py();
        let mut notes = Notes::default();
        let subagent =
            matches!(item.kind, Some(K::SubagentStarted | K::SubagentFinished | K::SubagentError));
        if era.no_subagents && subagent {
            notes.add("downgrade_loss", "", "dropped the event: the peer knows no subagents");
            notes.report(py, &self.reporter, Some(&item.type_name()))?;
            return Ok(Output::Nothing);
        }
        if era.before_1_0 && item.kind.is_none() && !RETIRED.contains(&&*item.type_name()) {
            notes.add("downgrade_loss", "", "dropped the event: the peer knows no such type");
            notes.report(py, &self.reporter, Some(&item.type_name()))?;
            return Ok(Output::Nothing);
        }
        let tag = &crate::event::keys(py).subagent_run_id;
        let tagged = era.no_subagents && item.view.read(tag).is_some();
        let nested = matches!(
            item.kind,
            Some(
                K::RunStarted
                    | K::RunFinished
                    | K::MessagesSnapshot
                    | K::ToolCallResult
                    | K::SubagentFinished
            )
        );
        if !(tagged || nested) {
            return Ok(Output::Pass);
        }
        let dict = match item.view.spelling {
            Form::Dict => item.view.dict().clone(),
            Form::Model => dump(&item.event)?,
        };
        let mut draft = Draft::of(&dict);
        if tagged {
            draft.remove(tag.alias(py).to_str()?)?;
            if !self.announced {
                self.announced = true;
                let detail = "the peer knows no subagents; removed this and all further tags";
                notes.add("downgrade_loss", "subagentRunId", detail);
            }
        }
        match item.kind {
            Some(K::RunStarted) => {
                if era.before_1_0 && draft.get("protocolVersion")?.is_some() {
                    draft.remove("protocolVersion")?;
                }
                let echo = draft.get("input")?.and_then(|echo| echo.cast_into::<PyDict>().ok());
                if let Some(echo) = echo {
                    let mut echo = Draft::of(&echo);
                    input(&mut echo, "input", era, &mut notes)?;
                    if let Some(changed) = echo.changed() {
                        draft.set("input", changed)?;
                    }
                }
            }
            Some(K::RunFinished) if era.before_1_0 => {
                run_outcome(&mut draft, &mut notes)?;
                if era.no_subagents {
                    interrupts(&mut draft, &mut notes)?;
                }
            }
            Some(K::SubagentFinished) if era.before_1_0 => {
                let known: [(&str, &[&str]); 2] =
                    [("success", &[]), ("suspended", &["interruptIds"])];
                strict_outcome(&mut draft, &known, &mut notes)?;
            }
            Some(K::MessagesSnapshot) => messages(&mut draft, "", era, &mut notes)?,
            Some(K::ToolCallResult) if era.before_1_0 => {
                let parts = draft.get("content")?.and_then(|it| it.cast_into::<PyList>().ok());
                if let Some(parts) = parts
                    && let Some(text) = content::flatten(&parts, "content", &mut notes)?
                {
                    draft.set("content", text)?;
                }
            }
            _ => {}
        }
        notes.report(py, &self.reporter, Some(&item.type_name()))?;
        match draft.changed() {
            Some(event) => Ok(Output::One(build::event(event, item.spelling)?)),
            None => Ok(Output::Pass),
        }
    }

    fn close<'py>(&mut self, _py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        Ok(Vec::new())
    }
}

/// The outcome of a run, which was success or an interrupt.
fn run_outcome(draft: &mut Draft<'_>, notes: &mut Notes) -> PyResult<()> {
    let Some(outcome) = draft.get("outcome")? else { return Ok(()) };
    let Ok(outcome) = outcome.cast_into::<PyDict>() else { return Ok(()) };
    if text_of(outcome.get_item("type")?.as_ref()).as_deref() == Some("cancelled") {
        let error = PyDict::new(outcome.py());
        error.set_item("type", EventType::RunError.name())?;
        capi::walk(&draft.dict, |items| {
            for (key, value) in items {
                let (key, value) = (key.own(), value.own());
                // An error has neither the ids of its run nor a result.
                let kept = ["timestamp", "rawEvent", "metadata", "usage"];
                if key.extract::<&str>().is_ok_and(|key| kept.contains(&key)) {
                    error.set_item(key, value)?;
                }
            }
            PyResult::Ok(())
        })?;
        error.set_item("message", "The run was cancelled.")?;
        error.set_item("code", "cancelled")?;
        let detail = "the peer knows no cancelled runs; made a RUN_ERROR of it";
        notes.add("downgrade_loss", "outcome", detail);
        if draft.get("result")?.is_some() {
            notes.add("downgrade_loss", "result", "a RUN_ERROR has no result");
        }
        *draft = Draft::owned(error);
        return Ok(());
    }
    // The client finds the pending calls itself, so that leaving them out loses nothing.
    let mut outcome = Draft::of(&outcome);
    if outcome.get("pendingToolCallIds")?.is_some() {
        outcome.remove("pendingToolCallIds")?;
    }
    if let Some(changed) = outcome.changed() {
        draft.set("outcome", changed)?;
    }
    strict_outcome(draft, &[("success", &[]), ("interrupt", &["interrupts"])], notes)
}

/// An outcome with only the members that its type had: others were refused.
fn strict_outcome(
    draft: &mut Draft<'_>,
    known: &[(&str, &[&str])],
    notes: &mut Notes,
) -> PyResult<()> {
    let Some(outcome) = draft.get("outcome")? else { return Ok(()) };
    let Ok(outcome) = outcome.cast_into::<PyDict>() else { return Ok(()) };
    let Some(said) = text_of(outcome.get_item("type")?.as_ref()) else { return Ok(()) };
    let Some((_, members)) = known.iter().find(|(name, _)| *name == said) else {
        draft.remove("outcome")?;
        let detail = format!("the peer knows no outcome {said}; removed it");
        notes.add("downgrade_loss", "outcome", detail);
        return Ok(());
    };
    let mut strict = Draft::of(&outcome);
    for key in outcome.keys() {
        let key = key.to_string();
        if key != "type" && !members.contains(&&*key) {
            strict.remove(&key)?;
            let detail = "the peer refuses an outcome with this member; removed it";
            notes.add("downgrade_loss", format!("outcome.{key}"), detail);
        }
    }
    match strict.changed() {
        Some(changed) => draft.set("outcome", changed),
        None => Ok(()),
    }
}

/// Types that were retired with 1.0.
const RETIRED: [&str; 5] = [
    "THINKING_START",
    "THINKING_END",
    "THINKING_TEXT_MESSAGE_START",
    "THINKING_TEXT_MESSAGE_CONTENT",
    "THINKING_TEXT_MESSAGE_END",
];

/// Whose the interrupts of an outcome are.
fn interrupts(draft: &mut Draft<'_>, notes: &mut Notes) -> PyResult<()> {
    let Some(outcome) = draft.get("outcome")? else { return Ok(()) };
    let Ok(outcome) = outcome.cast_into::<PyDict>() else { return Ok(()) };
    let mut outcome = Draft::of(&outcome);
    outcome.each("interrupts", "outcome", |interrupt, path| {
        let mut interrupt = Draft::of(&interrupt);
        if interrupt.get("subagentRunId")?.is_some() {
            interrupt.remove("subagentRunId")?;
            let detail = "the peer knows no subagents; removed whose the interrupt is";
            notes.add("downgrade_loss", join(path, "subagentRunId"), detail);
        }
        Ok(interrupt.changed())
    })?;
    match outcome.changed() {
        Some(changed) => draft.set("outcome", changed),
        None => Ok(()),
    }
}
