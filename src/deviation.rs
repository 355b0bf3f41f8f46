//! What the protocol says to tolerate, and how the user hears of it.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::fmt;

use crate::capi;
use crate::input::Callback;

/// Something in a stream that the protocol does not describe, or no longer, and that was tolerated.
///
/// Args:
///     kind: What sort of deviation, a word of the list below.
///     event_type: The ``type`` of the event, or None where there is no event.
///     path: Where in the event, like ``outcome.interrupts[1].reason``; empty for the whole.
///     detail: What it was and what became of it, in a sentence.
///
/// Kinds: ``unknown_event``, ``unknown_property`` and ``unknown_member`` (removed by enforcement);
/// ``protocol_version`` (a peer that declares a newer or an unreadable one); ``legacy`` (a retired
/// shape was converted), ``legacy_loss`` (which lost something), ``legacy_kept`` (which could not be
/// converted), ``minted_id`` (an id that no producer wrote); ``downgrade_loss`` (what an older peer
/// cannot be sent); ``spelling`` (fields under their Python names); ``repair`` (an end that a producer
/// forgot, or one too many) and ``repair_loss`` (an event out of place, dropped with what it says);
/// ``inexact_number`` (what the protobuf wire makes of a number that it cannot carry);
/// ``overwritten`` (a chunk's property that its opener already has); ``done`` (a
/// ``[DONE]`` where an event should be). The reducer adds its own.
///
/// Example:
///     >>> enforcer = EventEnforcer(on_deviation=lambda found: print(found.kind, found.path))
///     >>> enforcer.feed({"type": "STEP_STARTED", "stepName": "s", "colour": "red"})
///     unknown_property colour
///     [{'type': 'STEP_STARTED', 'stepName': 's'}]
#[pyclass(module = "agui_codec", frozen, eq, hash, get_all)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Deviation {
    pub kind: String,
    pub event_type: Option<String>,
    pub path: String,
    pub detail: String,
}

#[pymethods]
impl Deviation {
    #[new]
    fn new(kind: String, event_type: Option<String>, path: String, detail: String) -> Self {
        Self { kind, event_type, path, detail }
    }

    /// What pickle makes it from again.
    fn __getnewargs__(&self) -> (&str, Option<&str>, &str, &str) {
        (&self.kind, self.event_type.as_deref(), &self.path, &self.detail)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let quoted = |text: &str| -> PyResult<String> {
            Ok(text.into_pyobject(py)?.repr()?.to_string_lossy().into_owned())
        };
        let event_type = match &self.event_type {
            Some(event_type) => quoted(event_type)?,
            None => "None".to_owned(),
        };
        Ok(format!(
            "Deviation(kind={}, event_type={event_type}, path={}, detail={})",
            quoted(&self.kind)?,
            quoted(&self.path)?,
            quoted(&self.detail)?
        ))
    }

    fn __str__(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(event_type) = &self.event_type {
            write!(f, "{event_type}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.detail)
    }
}

/// Where deviations go: to the user's `on_deviation`, else to the log. Never to `warnings` or
/// stdout, which a server does not own.
pub struct Reporter {
    on_deviation: Option<Py<PyAny>>,
}

impl Reporter {
    pub fn new(on_deviation: Option<Callback>) -> Self {
        Self { on_deviation: on_deviation.map(Py::from) }
    }

    /// To a callable of the user's that has been looked at already.
    pub fn to(on_deviation: Option<&Bound<'_, PyAny>>) -> Self {
        Self { on_deviation: on_deviation.map(|call| call.clone().unbind()) }
    }

    /// Reports one. What `on_deviation` raises comes through: that is how a user refuses what the
    /// protocol tolerates.
    #[cold]
    pub fn report(&self, py: Python<'_>, deviation: Deviation) -> PyResult<()> {
        match &self.on_deviation {
            Some(on_deviation) => on_deviation.call1(py, (deviation,))?,
            None => logger(py)?.call_method1(py, intern!(py, "warning"), ("%s", deviation))?,
        };
        Ok(())
    }

    /// Another that reports to the same.
    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        Self { on_deviation: self.on_deviation.as_ref().map(|call| call.clone_ref(py)) }
    }

    /// For the garbage collector: the callable may well refer to the stage that holds it.
    pub fn traverse(&self, visit: &pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        visit.call(&self.on_deviation)
    }

    pub fn clear(&mut self) {
        self.on_deviation = None;
    }
}

fn logger(py: Python<'_>) -> PyResult<&Py<PyAny>> {
    static LOGGER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    capi::once(&LOGGER, py, || {
        let logging = py.import(intern!(py, "logging"))?;
        Ok(logging.call_method1(intern!(py, "getLogger"), ("agui_codec",))?.unbind())
    })
}
