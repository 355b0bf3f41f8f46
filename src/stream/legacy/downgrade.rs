//! What older peers can be sent.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::{Draft, Notes, content, join};
use crate::deviation::Reporter;
use crate::event::{EventKind, Spelling, build};
use crate::input::Callback;
use crate::stream::enforce::{PROTOCOL_VERSION, input_plan};
use crate::stream::{Item, Output, Stage, close_list, dump, feed_list};

/// What a peer of some version does not know.
#[derive(Clone, Copy)]
struct Era {
    /// Before 0.0.40: content is text.
    no_parts: bool,
    /// Before 0.0.58: there are no subagents.
    no_subagents: bool,
    /// Before 1.0: nobody declares a version.
    no_version: bool,
}

impl Era {
    fn of(max_version: Option<&str>) -> PyResult<Self> {
        let Some(max_version) = max_version else {
            return Ok(Self { no_parts: false, no_subagents: false, no_version: false });
        };
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
            no_version: version < (1, 0, 0),
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
        if era.no_parts {
            let content = message.get("content")?;
            match content.map(pyo3::Bound::cast_into::<PyList>) {
                // Older classes require it.
                None => message.set("content", "")?,
                Some(Ok(content)) => {
                    let path = join(path, "content");
                    if let Some(text) = content::flatten(&content, &path, notes)? {
                        message.set("content", text)?;
                    }
                }
                Some(Err(_)) => {}
            }
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
    if era.no_version && draft.get("protocolVersion")?.is_some() {
        draft.remove("protocolVersion")?;
    }
    Ok(())
}

/// The input of a run as a peer of some version can be sent it.
///
/// Before 0.0.40 content lists become their text; before 0.0.58 messages lose their
/// ``subagentRunId``; before 1.0 no ``protocolVersion`` is declared. A peer of today is told ours,
/// if the input does not say. Retired `binary` parts become today's parts for every peer.
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
#[pyfunction]
#[pyo3(signature = (run_agent_input, /, max_version=None, *, on_deviation=None))]
pub fn downgrade_input<'py>(
    run_agent_input: &Bound<'py, PyAny>,
    max_version: Option<&str>,
    on_deviation: Option<Callback>,
) -> PyResult<Bound<'py, PyAny>> {
    let era = Era::of(max_version)?;
    let py = run_agent_input.py();
    let (dict, spelling) = match run_agent_input.cast::<PyDict>() {
        Ok(dict) => (dict.clone(), Spelling::Wire),
        Err(_) => (dump(run_agent_input)?, Spelling::Model),
    };
    let mut draft = Draft::of(&dict);
    let mut notes = Notes::default();
    draft.each("messages", "", |message, path| content::upgrade(&message, path, &mut notes))?;
    input(&mut draft, "", era, &mut notes)?;
    notes.only_losses();
    if !era.no_version && draft.get("protocolVersion")?.is_none_or(|version| version.is_none()) {
        draft.set("protocolVersion", PROTOCOL_VERSION)?;
    }
    notes.report(py, &Reporter::new(on_deviation), None)?;
    match (draft.changed(), spelling, input_plan()) {
        (None, ..) => Ok(run_agent_input.clone()),
        (Some(changed), Spelling::Model, Some(plan)) => build::validated(changed.as_any(), plan),
        (Some(changed), ..) => Ok(changed.into_any()),
    }
}

/// Takes from a stream what a peer of some version does not know, before it is sent.
///
/// Before 0.0.40 content lists become their text; before 0.0.58 there are no SUBAGENT_* events and
/// no ``subagentRunId``, so that what subagents say joins the parent's stream (expand chunks first:
/// without tags their lanes cannot be told apart); before 1.0 no ``protocolVersion`` is declared.
///
/// Args:
///     max_version: The newest version of the SDK that the peer understands, like ``"0.0.57"``.
///     on_deviation: Called with a :class:`Deviation` for each loss; for ``subagentRunId`` on events
///         only the first time. The default logs it.
///
/// Raises:
///     ValueError: If ``max_version`` is no version.
#[pyclass(module = "agui_codec")]
pub struct LegacyDowngrader {
    era: Era,
    /// Whether the loss of tags has been announced. It would be once a token.
    announced: bool,
    reporter: Reporter,
}

#[pymethods]
impl LegacyDowngrader {
    #[new]
    #[pyo3(signature = (max_version, *, on_deviation=None))]
    fn new(max_version: &str, on_deviation: Option<Callback>) -> PyResult<Self> {
        let era = Era::of(Some(max_version))?;
        Ok(Self { era, announced: false, reporter: Reporter::new(on_deviation) })
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
    fn feed<'py>(&mut self, event: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        feed_list(self, event)
    }

    /// Ends the stream. Returns no events.
    fn close<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        close_list(self, py)
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
        use EventKind as K;
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
        let tag = &crate::event::keys(py).subagent_run_id;
        let tagged = era.no_subagents && item.view.read(tag).is_some();
        let nested = matches!(
            item.kind,
            Some(K::RunStarted | K::RunFinished | K::MessagesSnapshot | K::ToolCallResult)
        );
        if !(tagged || nested) {
            return Ok(Output::Pass);
        }
        let dict = match item.view.spelling {
            Spelling::Wire => item.view.dict().clone(),
            Spelling::Model => dump(&item.event)?,
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
                if era.no_version && draft.get("protocolVersion")?.is_some() {
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
            Some(K::RunFinished) if era.no_subagents => interrupts(&mut draft, &mut notes)?,
            Some(K::MessagesSnapshot) => messages(&mut draft, "", era, &mut notes)?,
            Some(K::ToolCallResult) if era.no_parts => {
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
