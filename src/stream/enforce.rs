//! Enforcement: nothing unknown and nothing malformed gets past it.

mod judge;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use self::judge::{Judge, Judged, Malformed, Removal};
use super::{Item, Output, Stage, close_list, feed_list};
use crate::capi;
use crate::deviation::{Deviation, Reporter};
use crate::errors::EnforcementError;
use crate::event::{
    ClassInfo, EventType, FieldType, Form, Presence, View, build, keys, protocol_version, registry,
    scan,
};
use crate::input::Callback;

/// The newest version of the protocol whose material is judged here, `encryptedValueType` included.
/// What is declared to peers is the SDK's, see [`protocol_version`]; one that is newer knows more.
const CARRIED: &str = "1.1";

/// The newest version of which nothing is removed.
fn known_version() -> &'static str {
    match protocol_version() {
        Some(declared) if version(declared) > version(CARRIED) => declared,
        _ => CARRIED,
    }
}

/// Removes from a stream what the protocol does not describe, and refuses what it forbids.
///
/// An event of an unknown type is dropped, an unknown property removed, an unknown member of a
/// union removed (the field, if that is optional; the element of a list; else what contains it),
/// each with a :class:`Deviation`. A known field with a value that the protocol forbids is fatal:
/// values are never coerced. What the protocol leaves open (patch operations, metadata, state,
/// activity content, raw payloads) is not looked into. A clean event passes as the same object.
/// The rule is "Processing events" of https://docs.ag-ui.com/spec, judged by its JSON schema.
///
/// Args:
///     on_deviation: Called with a :class:`Deviation` for all that is removed, and for a peer that
///         declares a newer version of the protocol. The default logs it.
///
/// Raises:
///     EnforcementError: From ``feed``, naming the field.
///
/// Example:
///     >>> enforcer = EventEnforcer(on_deviation=lambda deviation: None)
///     >>> enforcer.feed({"type": "STEP_STARTED", "stepName": "search", "colour": "red"})
///     [{'type': 'STEP_STARTED', 'stepName': 'search'}]
#[pyclass(module = "agui_codec", frozen)]
pub struct EventEnforcer {
    index: AtomicUsize,
    /// Kept for its buffers.
    judge: Mutex<Judge>,
    reporter: Reporter,
}

#[pymethods]
impl EventEnforcer {
    #[new]
    #[pyo3(signature = (*, on_deviation=None))]
    fn new(on_deviation: Option<Callback>) -> Self {
        let reporter = Reporter::new(on_deviation);
        Self { index: AtomicUsize::new(0), judge: Mutex::default(), reporter }
    }

    /// Takes the next event.
    ///
    /// Args:
    ///     event: An event model or a wire dict.
    ///
    /// Returns:
    ///     The event, the same object if it is clean; nothing if its type is unknown.
    ///
    /// Raises:
    ///     EnforcementError: If a known field is malformed.
    #[pyo3(signature = (event, /))]
    fn feed<'py>(&self, event: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        if let Some(dict) = capi::exact_dict(event)
            && let Some((info, kind, presence)) = scan(dict, |_| ())
            && is_clean(info, kind, presence)
        {
            self.next_index();
            return capi::list_of(event);
        }
        feed_list(&mut &*self, event)
    }

    /// Ends the stream. Returns no events.
    fn close<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        close_list(&mut &*self, py)
    }

    fn __repr__(&self) -> String {
        format!("<EventEnforcer after {} events>", self.index.load(Ordering::Relaxed))
    }

    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        self.reporter.traverse(&visit)
    }
}

/// Whether there is nothing to be done for an event.
#[inline]
fn is_clean(info: &ClassInfo, kind: EventType, presence: Presence) -> bool {
    presence.is_clean(info) && kind != EventType::RunStarted
}

impl Stage for &EventEnforcer {
    #[inline]
    fn feed<'py>(&mut self, item: &Item<'py>) -> PyResult<Output<'py>> {
        let index = self.next_index();
        let Some(kind) = item.kind else { return self.unknown_event(item) };
        if let Some(presence) = item.presence
            && is_clean(item.view.info, kind, presence)
        {
            return Ok(Output::Pass);
        }
        let output = match item.view.spelling {
            Form::Model if judge::is_clean_model(&item.event) => Output::Pass,
            Form::Model => {
                let dumped = super::dump(&item.event)?;
                let view = View::of_wire(&dumped, item.view.info);
                self.judged(item, &view, kind, index)?
            }
            Form::Dict => self.judged(item, &item.view, kind, index)?,
        };
        if kind == EventType::RunStarted {
            self.declared_version(item)?;
        }
        Ok(output)
    }

    fn close<'py>(&mut self, _py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        Ok(Vec::new())
    }
}

impl EventEnforcer {
    /// The index of the event at hand. One stream is fed by one thread at a time.
    #[inline]
    fn next_index(&self) -> usize {
        let index = self.index.load(Ordering::Relaxed);
        self.index.store(index + 1, Ordering::Relaxed);
        index
    }

    fn judged<'py>(
        &self,
        item: &Item<'py>,
        view: &View<'py>,
        kind: EventType,
        index: usize,
    ) -> PyResult<Output<'py>> {
        let py = item.event.py();
        let mut judge = self.take_judge();
        let judged = judge.object(view.dict(), view.info);
        let mut removed = std::mem::take(&mut judge.removed);
        match judged {
            Ok(Judged::Keep) => {
                self.put_judge(judge);
                Ok(Output::Pass)
            }
            Ok(Judged::Replace(event)) => {
                self.announce(py, kind, removed)?;
                let event = event.cast_into::<PyDict>().map_err(PyErr::from)?;
                Ok(Output::One(build::event(event, item.spelling)?))
            }
            Ok(Judged::Drop | Judged::Absent) => {
                for removal in &mut removed {
                    removal.detail.insert_str(0, "dropped the event: ");
                }
                self.announce(py, kind, removed)?;
                Ok(Output::Nothing)
            }
            Err(malformed) => Err(error(py, *malformed, Some(index), Some(kind.name()))),
        }
    }

    fn take_judge(&self) -> Judge {
        std::mem::take(&mut *self.judge.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put_judge(&self, judge: Judge) {
        *self.judge.lock().unwrap_or_else(PoisonError::into_inner) = judge;
    }

    #[cold]
    fn announce(&self, py: Python<'_>, kind: EventType, removed: Vec<Removal>) -> PyResult<()> {
        for Removal { kind: sort, path, detail } in removed {
            let event_type = Some(kind.name().to_owned());
            self.reporter
                .report(py, Deviation { kind: sort.to_owned(), event_type, path, detail })?;
        }
        Ok(())
    }

    #[cold]
    fn unknown_event<'py>(&self, item: &Item<'py>) -> PyResult<Output<'py>> {
        let py = item.event.py();
        let event_type = item.type_name();
        self.reporter.report(
            py,
            Deviation {
                kind: "unknown_event".to_owned(),
                detail: format!("dropped an event of the unknown type {event_type}"),
                event_type: Some(event_type),
                path: String::new(),
            },
        )?;
        Ok(Output::Nothing)
    }

    /// A newer version of the protocol may have material that is removed here; one that cannot be
    /// read may be newer.
    #[cold]
    fn declared_version(&self, item: &Item<'_>) -> PyResult<()> {
        let py = item.event.py();
        let Some(declared) = item.view.read(&keys(py).protocol_version) else { return Ok(()) };
        let declared = declared.cast::<PyString>().map(|text| text.to_string_lossy().into_owned());
        let Ok(declared) = declared else { return Ok(()) };
        let known = known_version();
        let detail = match (version(&declared), version(known)) {
            (Some(theirs), ours) if Some(theirs) > ours => format!(
                "the peer speaks version {declared} of the protocol, newer than {known}; \
                 what is unknown is removed"
            ),
            (Some(_), _) => return Ok(()),
            (None, _) => format!(
                "cannot interpret the version {declared:?} of the protocol that the peer declares"
            ),
        };
        let event_type = Some(EventType::RunStarted.name().to_owned());
        let path = "protocolVersion".to_owned();
        let kind = "protocol_version".to_owned();
        self.reporter.report(py, Deviation { kind, event_type, path, detail })
    }
}

/// `MAJOR.MINOR`, to be compared by number.
pub fn version(text: &str) -> Option<(u64, u64)> {
    let number = |part: &str| -> Option<u64> {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| part.parse().unwrap_or(u64::MAX))
    };
    let (major, minor) = text.split_once('.')?;
    Some((number(major)?, number(minor)?))
}

#[cold]
fn error(
    py: Python<'_>,
    malformed: Malformed,
    index: Option<usize>,
    event_type: Option<&str>,
) -> PyErr {
    let Malformed { path, reason } = malformed;
    let place = match (index, event_type) {
        (Some(index), Some(event_type)) => format!("event {index} ({event_type}): "),
        (Some(index), None) => format!("event {index}: "),
        (None, _) => String::new(),
    };
    let colon = if path.is_empty() { "" } else { ": " };
    let error = EnforcementError::new_err(format!("{place}{path}{colon}{reason}"));
    let attributes = || -> PyResult<()> {
        let value = error.value(py);
        value.setattr("path", path)?;
        value.setattr("reason", reason)?;
        value.setattr("event_index", index)?;
        value.setattr("event_type", event_type)
    };
    match attributes() {
        Ok(()) => error,
        Err(failed) => failed,
    }
}

/// What is known of `RunAgentInput`, which RUN_STARTED may echo.
pub fn input_info() -> Option<&'static ClassInfo> {
    let info = registry().event(Some(EventType::RunStarted))?;
    let field = info.fields.iter().find(|field| &*field.alias_text == "input")?;
    match &field.shape {
        FieldType::Nullable(inner) => match &**inner {
            FieldType::Model(cell) => cell.info.get(),
            _ => None,
        },
        _ => None,
    }
}

/// Enforcement of the input of a run, before it is sent.
///
/// Args:
///     run_agent_input: A ``RunAgentInput``, or a dict with the keys of the wire. None in an
///         optional field of the dict is absence, and left out.
///     on_deviation: Called with a :class:`Deviation` for all that is removed. The default logs it.
///
/// Returns:
///     The input, the same object if it is clean, else one of the same kind without what the
///     protocol does not describe.
///
/// Raises:
///     EnforcementError: If a known field is malformed.
///
/// Example:
///     >>> request = {"threadId": "t", "runId": "r", "messages": [], "colour": "red"}
///     >>> clean = enforce_input(request, on_deviation=lambda deviation: None)
///     >>> "colour" in clean
///     False
#[pyfunction]
#[pyo3(signature = (run_agent_input, /, *, on_deviation=None))]
pub fn enforce_input<'py>(
    run_agent_input: &Bound<'py, PyAny>,
    on_deviation: Option<Callback>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = run_agent_input.py();
    let Some(info) = input_info() else { return Ok(run_agent_input.clone()) };
    let (dict, spelling) = if let Ok(dict) = run_agent_input.cast::<PyDict>() {
        (dict.clone(), Form::Dict)
    } else if judge::is_clean_model(run_agent_input) {
        return Ok(run_agent_input.clone());
    } else {
        (super::dump_input(run_agent_input)?, Form::Model)
    };
    let mut judge = Judge::default();
    judge.none_is_absence = true;
    let clean =
        match judge.object(&dict, info).map_err(|malformed| error(py, *malformed, None, None))? {
            Judged::Keep | Judged::Drop | Judged::Absent => return Ok(run_agent_input.clone()),
            Judged::Replace(clean) => clean,
        };
    let reporter = Reporter::new(on_deviation);
    for Removal { kind, path, detail } in judge.removed {
        let kind = kind.to_owned();
        reporter.report(py, Deviation { kind, event_type: None, path, detail })?;
    }
    match spelling {
        Form::Dict => Ok(clean),
        Form::Model => build::validated(&clean, info),
    }
}
