//! The stages: what an event stream goes through between decoding and use.
//!
//! `decode -> upgrade -> (middleware) -> enforce -> expand -> verify`, in this order: translators
//! see material before enforcement removes it, and verification sees only expanded events.
//! Each is a class with `feed(event) -> list` and `close() -> list` for Python, and a [`Stage`]
//! for the crate.

mod enforce;
mod expand;
mod legacy;
mod pipeline;
mod verify;

pub use enforce::{EventEnforcer, enforce_input};
pub use expand::ChunkExpander;
pub use legacy::{LegacyDowngrader, LegacyUpgrader, downgrade_input, upgrade_input};
pub use pipeline::Pipeline;
pub use verify::EventVerifier;

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::capi;
use crate::errors::{Violation, class_name, not_an_event, of_pydantic};
use crate::event::{ClassInfo, EventType, Form, Key, Presence, View, base_model, keys, scan};

/// One event on its way through the stages, and what is known of it.
pub struct Item<'py> {
    pub event: Bound<'py, PyAny>,
    /// None for a type that the protocol does not know.
    pub kind: Option<EventType>,
    pub view: View<'py>,
    /// What was seen at once, if anything was.
    pub presence: Option<Presence>,
    /// What `presence` saw under the first field that not all events have.
    subject: Option<Bound<'py, PyAny>>,
    /// How the event came, and so how what is made of it goes out.
    pub spelling: Form,
}

impl<'py> Item<'py> {
    /// A model or a wire dict. Anything else is not an event, and an AGUIError.
    #[inline]
    pub fn of(event: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Some(dict) = capi::exact_dict(event) {
            let mut subject = None;
            if let Some((info, kind, presence)) = scan(dict, |value| subject = Some(value.own())) {
                return Ok(Self::seen(dict, subject, info, kind, presence));
            }
        }
        match View::of_event(event) {
            Some((view, kind)) => {
                let spelling = view.spelling;
                let event = event.clone();
                let item = Self { event, kind, view, presence: None, subject: None, spelling };
                if kind.is_some() { Ok(item) } else { item.typed() }
            }
            None => Self::of_other(event),
        }
    }

    /// An event of an unknown type still has one.
    #[cold]
    fn typed(self) -> PyResult<Self> {
        match self.view.read(&keys(self.event.py()).r#type) {
            Some(name) if name.is_instance_of::<PyString>() => Ok(self),
            _ => Err(not_an_event(&self.event)),
        }
    }

    /// A wire dict that was looked at.
    #[inline]
    fn seen(
        dict: &Bound<'py, PyDict>,
        subject: Option<Bound<'py, PyAny>>,
        info: &'static ClassInfo,
        kind: EventType,
        presence: Presence,
    ) -> Self {
        Self {
            event: dict.clone().into_any(),
            kind: Some(kind),
            view: View::of_wire(dict, info),
            presence: Some(presence),
            subject,
            spelling: Form::Dict,
        }
    }

    /// What an event that was looked at has under a key.
    #[inline]
    fn read_seen(&self, key: &Key, presence: Presence) -> Option<Bound<'py, PyAny>> {
        if self.view.info.is_first_own(key.alias(self.event.py())) {
            self.subject.clone()
        } else {
            self.view.read_seen(key, Some(presence))
        }
    }

    /// What the event has under a key; see [`View::read`].
    #[inline]
    fn read(&self, key: &Key) -> Option<Bound<'py, PyAny>> {
        match &self.subject {
            Some(subject) if self.view.info.is_first_own(key.alias(subject.py())) => {
                Some(subject.clone())
            }
            _ => self.view.read(key),
        }
    }

    /// A model that is read as pydantic writes it: an instance of a user's subclass, say.
    #[cold]
    fn of_other(event: &Bound<'py, PyAny>) -> PyResult<Self> {
        let py = event.py();
        // (A model class is an instance of its metaclass, and no model.)
        if event.is_instance_of::<PyDict>() || !event.is_instance(base_model(py)?)? {
            return Err(not_an_event(event));
        }
        let dumped = dump(event)?;
        let Some((view, kind)) = View::of_event(dumped.as_any()) else {
            return Err(not_an_event(event));
        };
        let (event, spelling) = (event.clone(), Form::Model);
        let item = Self { event, kind, view, presence: None, subject: None, spelling };
        if kind.is_some() { Ok(item) } else { item.typed() }
    }

    /// The `type`, as far as it is a str.
    #[cold]
    pub fn type_name(&self) -> String {
        match self.kind {
            Some(kind) => kind.name().to_owned(),
            None => match self.view.read(&keys(self.event.py()).r#type) {
                Some(name) => match name.cast::<PyString>() {
                    Ok(name) => name.to_string_lossy().into_owned(),
                    Err(_) => name.to_string(),
                },
                None => "no type".to_owned(),
            },
        }
    }
}

/// The wire dict that pydantic writes a model as.
#[cold]
fn dump<'py>(model: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let py = model.py();
    let options = PyDict::new(py);
    options.set_item(intern!(py, "by_alias"), true)?;
    // What is wrong with the model is for the stage to say.
    options.set_item(intern!(py, "warnings"), false)?;
    let dumped = model.call_method(intern!(py, "model_dump"), (), Some(&options));
    Ok(dumped.map_err(|error| of_pydantic(py, error))?.cast_into()?)
}

/// The wire dict of an input that is no dict: what pydantic writes the model as.
#[cold]
fn dump_input<'py>(run_agent_input: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    if run_agent_input.is_instance(base_model(run_agent_input.py())?)? {
        return dump(run_agent_input);
    }
    Err(PyTypeError::new_err(format!(
        "run_agent_input: a RunAgentInput or a dict is needed, not {}",
        class_name(run_agent_input)
    )))
}

/// What becomes of an event.
pub enum Output<'py> {
    /// It goes on as it is.
    Pass,
    Nothing,
    One(Bound<'py, PyAny>),
    /// Another one, of which all is known.
    Item(Item<'py>),
    Many(Vec<Bound<'py, PyAny>>),
}

/// Something that an event stream goes through.
pub trait Stage {
    fn feed<'py>(&mut self, item: &Item<'py>) -> PyResult<Output<'py>>;

    /// The stream has ended.
    fn close<'py>(&mut self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>>;
}

/// `feed` as Python sees it.
#[inline]
fn feed_list<'py>(
    stage: &mut impl Stage,
    event: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyList>> {
    let py = event.py();
    match stage.feed(&Item::of(event)?)? {
        Output::Pass => capi::list_of(event),
        Output::Nothing => Ok(PyList::empty(py)),
        Output::One(event) => capi::list_of(&event),
        Output::Item(item) => capi::list_of(&item.event),
        Output::Many(events) => PyList::new(py, events),
    }
}

/// `close` as Python sees it.
fn close_list<'py>(stage: &mut impl Stage, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, stage.close(py)?)
}

/// The refusal of an item beyond `max_open`.
#[cold]
pub fn too_many(id: Option<&Bound<'_, PyAny>>, max_open: usize) -> Violation {
    Violation::new(
        id,
        format!("it opens one item more than the {max_open} that may be open at once (max_open)"),
        "an open item ended first",
    )
}

/// A value in a message: its repr, shortened.
#[cold]
fn quoted(value: &Bound<'_, PyAny>) -> String {
    const LONGEST: usize = 80;
    let Ok(repr) = value.repr() else { return "?".to_owned() };
    let repr = repr.to_string_lossy();
    match repr.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &repr[..end]),
        None => repr.into_owned(),
    }
}

/// An owner in a message.
#[cold]
fn owner_text(owner: Option<&Bound<'_, PyAny>>) -> String {
    match owner {
        Some(owner) => format!("subagent {}", quoted(owner)),
        None => "the parent agent".to_owned(),
    }
}
