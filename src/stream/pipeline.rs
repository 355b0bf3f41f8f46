//! Stages behind each other, without a way through Python between the native ones.

use pyo3::exceptions::{PyBaseException, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyIterator, PyList, PyString, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{
    ChunkExpander, EventEnforcer, EventVerifier, Item, LegacyDowngrader, LegacyUpgrader, Output,
    Stage, quoted,
};
use crate::capi;
use crate::decoder::EventDecoder;
use crate::errors::{AGUIError, class_name, exclusive};
use crate::event::{Form, base_model, build};

/// One stage of a pipeline.
enum Link {
    Decode(Py<EventDecoder>),
    Upgrade(Py<LegacyUpgrader>),
    Downgrade(Py<LegacyDowngrader>),
    Enforce(Py<EventEnforcer>),
    Expand(Py<ChunkExpander>),
    Verify(Py<EventVerifier>),
    /// Any other object with `feed` and `close`: a decoder, a pipeline, a stage of the user's.
    Stage(Py<PyAny>),
    /// A callable: middleware.
    Call(Py<PyAny>),
}

impl Link {
    fn of(stage: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = stage.py();
        // Exactly ours: a subclass may well have a `feed` of its own. (There are none: the
        // classes are final.)
        if let Ok(stage) = stage.cast_exact::<EventDecoder>() {
            return Ok(Self::Decode(stage.clone().unbind()));
        }
        if let Ok(stage) = stage.cast_exact::<LegacyUpgrader>() {
            return Ok(Self::Upgrade(stage.clone().unbind()));
        }
        if let Ok(stage) = stage.cast_exact::<LegacyDowngrader>() {
            return Ok(Self::Downgrade(stage.clone().unbind()));
        }
        if let Ok(stage) = stage.cast_exact::<EventEnforcer>() {
            return Ok(Self::Enforce(stage.clone().unbind()));
        }
        if let Ok(stage) = stage.cast_exact::<ChunkExpander>() {
            return Ok(Self::Expand(stage.clone().unbind()));
        }
        if let Ok(stage) = stage.cast_exact::<EventVerifier>() {
            return Ok(Self::Verify(stage.clone().unbind()));
        }
        if stage.hasattr(intern!(py, "feed"))? && stage.hasattr(intern!(py, "close"))? {
            return Ok(Self::Stage(stage.clone().unbind()));
        }
        if stage.is_callable() {
            return Ok(Self::Call(stage.clone().unbind()));
        }
        Err(PyTypeError::new_err(format!(
            "a stage has feed and close, or is a callable; got {}",
            stage.get_type().name()?
        )))
    }

    fn object<'py>(&self, py: Python<'py>) -> &Bound<'py, PyAny> {
        match self {
            Self::Decode(stage) => stage.bind(py).as_any(),
            Self::Upgrade(stage) => stage.bind(py).as_any(),
            Self::Downgrade(stage) => stage.bind(py).as_any(),
            Self::Enforce(stage) => stage.bind(py).as_any(),
            Self::Expand(stage) => stage.bind(py).as_any(),
            Self::Verify(stage) => stage.bind(py).as_any(),
            Self::Stage(stage) | Self::Call(stage) => stage.bind(py),
        }
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::Decode(stage) => visit.call(stage),
            Self::Upgrade(stage) => visit.call(stage),
            Self::Downgrade(stage) => visit.call(stage),
            Self::Enforce(stage) => visit.call(stage),
            Self::Expand(stage) => visit.call(stage),
            Self::Verify(stage) => visit.call(stage),
            Self::Stage(stage) | Self::Call(stage) => visit.call(stage),
        }
    }

    /// What a native stage makes of an event. It is held no longer than it takes, so that what comes
    /// after it may run any code.
    #[inline]
    fn feed<'py>(&self, item: &Item<'py>) -> PyResult<Output<'py>> {
        let py = item.event.py();
        match self {
            Self::Upgrade(stage) => Stage::feed(&mut *exclusive(stage.bind(py))?, item),
            Self::Downgrade(stage) => Stage::feed(&mut *exclusive(stage.bind(py))?, item),
            Self::Enforce(stage) => Stage::feed(&mut stage.get(), item),
            Self::Expand(stage) => Stage::feed(&mut *exclusive(stage.bind(py))?, item),
            Self::Verify(stage) => Stage::feed(&mut *exclusive(stage.bind(py))?, item),
            Self::Decode(_) | Self::Stage(_) | Self::Call(_) => Ok(Output::Pass),
        }
    }

    fn close<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        match self {
            Self::Upgrade(stage) => Stage::close(&mut *exclusive(stage.bind(py))?, py),
            Self::Downgrade(stage) => Stage::close(&mut *exclusive(stage.bind(py))?, py),
            Self::Enforce(stage) => Stage::close(&mut stage.get(), py),
            Self::Expand(stage) => Stage::close(&mut *exclusive(stage.bind(py))?, py),
            Self::Verify(stage) => Stage::close(&mut *exclusive(stage.bind(py))?, py),
            Self::Decode(stage) => {
                stage.bind(py).call_method0(intern!(py, "close"))?.try_iter()?.collect()
            }
            Self::Stage(stage) => {
                let stage = stage.bind(py);
                given(stage, &stage.call_method0(intern!(py, "close"))?)?.collect()
            }
            Self::Call(_) => Ok(Vec::new()),
        }
    }
}

/// Several stages as one.
///
/// What the first gives is fed to the second, and so on. A stage is an object with ``feed`` and
/// ``close``, as all of this package are, or a callable, which takes an event and returns an event,
/// None for none, or an iterable of events.
///
/// Args:
///     *stages: The stages, the first of which takes what is fed: bytes, if it is a decoder.
///     as_models: Give models of ``ag_ui.core`` where wire dicts come out.
///
/// Raises:
///     TypeError: For something that is no stage.
///
/// Example:
///     >>> def ends(event):
///     ...     return event if event["type"].endswith("END") else None
///     >>> pipeline = Pipeline(ChunkExpander(), ends)
///     >>> _ = pipeline.feed({"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "Hi"})
///     >>> pipeline.feed({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"})
///     [{'type': 'TEXT_MESSAGE_END', 'messageId': 'm'}]
#[pyclass(module = "agui_codec", frozen)]
pub struct Pipeline {
    links: Vec<Link>,
    as_models: bool,
    /// The error after which nothing goes through any more.
    failed: OnceLock<Py<PyAny>>,
    closed: AtomicBool,
}

#[pymethods]
impl Pipeline {
    #[new]
    #[pyo3(signature = (*stages, as_models=false))]
    fn new(stages: &Bound<'_, PyTuple>, as_models: bool) -> PyResult<Self> {
        let links = stages.iter().map(|stage| Link::of(&stage)).collect::<PyResult<_>>()?;
        Ok(Self { links, as_models, failed: OnceLock::new(), closed: AtomicBool::new(false) })
    }

    /// Takes what the first stage takes.
    ///
    /// Args:
    ///     item: Bytes, if the first stage is a decoder, else an event.
    ///
    /// Returns:
    ///     The events that come out at the end.
    ///
    /// Raises:
    ///     AGUIError: What a stage raises. If events came out before, they are returned, and the
    ///         error is raised by the next call. From then on every call raises it.
    #[pyo3(signature = (item, /))]
    fn feed<'py>(&self, item: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        self.deliver(item.py(), |out| {
            if self.closed.load(Ordering::Relaxed) {
                return Err(AGUIError::new_err("the pipeline is closed"));
            }
            self.push(&self.links, item.clone(), out)
        })
    }

    /// Ends the stream: closes each stage, and feeds the next with what that gives.
    ///
    /// Returns:
    ///     The last events.
    ///
    /// Raises:
    ///     AGUIError: What a stage raises, a truncated stream above all; as by ``feed``.
    fn close<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.deliver(py, |out| {
            if self.closed.swap(true, Ordering::Relaxed) {
                return Ok(());
            }
            for (at, link) in self.links.iter().enumerate() {
                let rest = &self.links[at + 1..];
                for event in link.close(py)? {
                    if let Link::Stage(stage) = link {
                        expect_event(stage.bind(py), &event, rest)?;
                    }
                    self.push(rest, event, out)?;
                }
                match link {
                    Link::Decode(stage) => raise_pending(stage.bind(py))?,
                    Link::Stage(stage) => raise_pending(stage.bind(py))?,
                    _ => {}
                }
            }
            Ok(())
        })
    }

    /// The error that the next call will raise, if a stage has failed; else None.
    #[getter]
    fn error(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.failed.get().map(|failed| failed.clone_ref(py))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let links: PyResult<Vec<_>> =
            self.links.iter().map(|link| Ok(link.object(py).repr()?.to_string())).collect();
        let mut parts = links?;
        if self.as_models {
            parts.push("as_models=True".to_owned());
        }
        Ok(format!("Pipeline({})", parts.join(", ")))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        for link in &self.links {
            link.traverse(&visit)?;
        }
        visit.call(self.failed.get())
    }
}

impl Pipeline {
    /// Runs `work`, which puts events into a list. An error is raised at once if there are none,
    /// else with the next call: what came before it is delivered.
    fn deliver<'py>(
        &self,
        py: Python<'py>,
        work: impl FnOnce(&mut Events<'py>) -> PyResult<()>,
    ) -> PyResult<Bound<'py, PyList>> {
        if let Some(failed) = self.failed.get() {
            let failed = failed.bind(py);
            // Or it would grow with each time it is raised.
            failed.setattr(intern!(py, "__traceback__"), py.None())?;
            return Err(PyErr::from_value(failed.clone()));
        }
        let mut out = Events::default();
        if let Err(error) = work(&mut out) {
            let _ = self.failed.set(error.value(py).clone().into_any().unbind());
            if out.first.is_none() {
                return Err(error);
            }
        }
        out.list(py)
    }

    /// Sends an event through the links, and what comes out into the list.
    fn push<'py>(
        &self,
        links: &[Link],
        mut event: Bound<'py, PyAny>,
        out: &mut Events<'py>,
    ) -> PyResult<()> {
        let py = event.py();
        // What the stages before have found out about the event as it is.
        let mut item = None;
        for (at, link) in links.iter().enumerate() {
            let rest = &links[at + 1..];
            let output = match link {
                Link::Decode(stage) => {
                    let stage = stage.bind(py);
                    let events = EventDecoder::feed(stage, py, &event)?;
                    for event in &events {
                        self.push(rest, event, out)?;
                    }
                    let pending = EventDecoder::error(stage, py)?;
                    return pending
                        .map_or(Ok(()), |error| Err(PyErr::from_value(error.into_bound(py))));
                }
                Link::Stage(stage) => {
                    let stage = stage.bind(py);
                    let events = stage.call_method1(intern!(py, "feed"), (&event,))?;
                    for event in given(stage, &events)? {
                        let event = event?;
                        expect_event(stage, &event, rest)?;
                        self.push(rest, event, out)?;
                    }
                    return raise_pending(stage);
                }
                Link::Call(middleware) => called(middleware.bind(py), &event, rest)?,
                native => {
                    let item = match &item {
                        Some(item) => item,
                        None => item.insert(Item::of(&event)?),
                    };
                    native.feed(item)?
                }
            };
            match output {
                Output::Pass => {
                    // Middleware may have changed the very dict that it returns.
                    if matches!(link, Link::Call(_)) {
                        item = None;
                    }
                }
                Output::Nothing => return Ok(()),
                Output::One(other) => {
                    event = other;
                    item = None;
                }
                Output::Item(other) => {
                    event = other.event.clone();
                    item = Some(other);
                }
                Output::Many(events) => {
                    for event in events {
                        self.push(rest, event, out)?;
                    }
                    return Ok(());
                }
            }
        }
        if self.as_models
            && let Ok(dict) = event.cast_exact::<PyDict>()
        {
            event = build::event(dict.clone(), Form::Model)?;
        }
        out.push(event);
        Ok(())
    }
}

/// What comes out: mostly one event.
#[derive(Default)]
struct Events<'py> {
    first: Option<Bound<'py, PyAny>>,
    more: Vec<Bound<'py, PyAny>>,
}

impl<'py> Events<'py> {
    #[inline]
    fn push(&mut self, event: Bound<'py, PyAny>) {
        match self.first {
            None => self.first = Some(event),
            Some(_) => self.more.push(event),
        }
    }

    #[inline]
    fn list(self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        match self.first {
            Some(event) if self.more.is_empty() => capi::list_of(&event),
            None => Ok(PyList::empty(py)),
            Some(first) => {
                let mut events = self.more;
                events.insert(0, first);
                PyList::new(py, events)
            }
        }
    }
}

/// What a callable makes of an event.
fn called<'py>(
    middleware: &Bound<'py, PyAny>,
    event: &Bound<'py, PyAny>,
    rest: &[Link],
) -> PyResult<Output<'py>> {
    let result = middleware.call1((event,))?;
    if result.is(event) {
        return Ok(Output::Pass);
    }
    if result.is_none() {
        return Ok(Output::Nothing);
    }
    // Models can be iterated over, too, but mean themselves.
    if is_event(&result)? {
        return Ok(Output::One(result));
    }
    let events = given(middleware, &result)?.collect::<PyResult<Vec<_>>>()?;
    for event in &events {
        expect_event(middleware, event, rest)?;
    }
    Ok(Output::Many(events))
}

/// Whether an object may be an event, by its class.
fn is_event(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(object.is_instance_of::<PyDict>() || object.is_instance(base_model(object.py())?)?)
}

/// The events that a stage or a callable has returned. Text and bytes can be iterated over, too, but
/// are no list of events.
fn given<'py>(
    stage: &Bound<'py, PyAny>,
    result: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyIterator>> {
    let flat = result.is_instance_of::<PyString>() || result.is_instance_of::<PyBytes>();
    match result.try_iter() {
        Ok(events) if !flat => Ok(events),
        _ => Err(returned(stage, result)),
    }
}

/// That a stage or a callable gives an event, or bytes if a decoder is yet to come.
fn expect_event(
    stage: &Bound<'_, PyAny>,
    object: &Bound<'_, PyAny>,
    rest: &[Link],
) -> PyResult<()> {
    if is_event(object)? || rest.iter().any(|link| matches!(link, Link::Decode(_))) {
        return Ok(());
    }
    Err(returned(stage, object))
}

#[cold]
fn returned(stage: &Bound<'_, PyAny>, what: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!(
        "{} returned {}, which is not an event; a stage gives a list of events, and a callable an \
         event, None or an iterable of events",
        quoted(stage),
        class_name(what)
    ))
}

/// Raises what a stage has put off in order to give what came before.
fn raise_pending<T>(stage: &Bound<'_, T>) -> PyResult<()> {
    let stage = stage.as_any();
    match stage.getattr_opt(intern!(stage.py(), "error"))? {
        Some(error) if error.is_instance_of::<PyBaseException>() => Err(PyErr::from_value(error)),
        _ => Ok(()),
    }
}
