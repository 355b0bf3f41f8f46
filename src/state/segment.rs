//! A message or a tool call while its events are being collapsed.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::critical_section::with_critical_section;
use pyo3::types::{PyDict, PyList, PyString};

use super::incoming::{Incoming, field, text};
use crate::capi::{self, DictIter};
use crate::event::{Entry, EventKind, Key, Spelling, Surprise, build, keys, registry};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Text,
    Reasoning,
    Call,
}

impl Family {
    /// The id of the message or of the call that an event is about.
    #[inline]
    pub fn id<'py>(self, incoming: &Incoming<'py>) -> PyResult<Bound<'py, PyString>> {
        match self {
            Self::Text | Self::Reasoning => text!(incoming, message_id),
            Self::Call => text!(incoming, tool_call_id),
        }
    }

    fn key(self, py: Python<'_>) -> &'static Key {
        match self {
            Self::Text | Self::Reasoning => &keys(py).message_id,
            Self::Call => &keys(py).tool_call_id,
        }
    }

    const fn delta(self) -> EventKind {
        match self {
            Self::Text => EventKind::TextMessageContent,
            Self::Reasoning => EventKind::ReasoningMessageContent,
            Self::Call => EventKind::ToolCallArgs,
        }
    }
}

pub struct Segment {
    pub family: Family,
    id: Py<PyString>,
    opener: Option<Py<PyAny>>,
    /// The message that a call names as its parent.
    parent: Option<Py<PyString>>,
    deltas: Deltas,
    end: Option<Py<PyAny>>,
}

/// Deltas, and what else their events said.
#[derive(Default)]
struct Deltas {
    /// The first event, in case it stays the only one.
    first: Option<Py<PyAny>>,
    parts: Vec<Py<PyString>>,
    is_model: bool,
    metadata: Option<Py<PyDict>>,
    owner: Option<Py<PyAny>>,
    /// Properties that the protocol does not describe.
    rest: Option<Py<PyDict>>,
}

impl Segment {
    pub fn opened(incoming: &Incoming<'_>, family: Family, id: &Bound<'_, PyString>) -> Self {
        let parent = match family {
            Family::Call => field!(incoming, parent_message_id),
            Family::Text | Family::Reasoning => None,
        };
        Self {
            opener: Some(incoming.event.clone().unbind()),
            parent: parent.and_then(|parent| parent.cast_into().ok()).map(Bound::unbind),
            ..Self::headless(family, id)
        }
    }

    /// What goes on behind a fence.
    pub fn headless(family: Family, id: &Bound<'_, PyString>) -> Self {
        Self {
            family,
            id: id.clone().unbind(),
            opener: None,
            parent: None,
            deltas: Deltas::default(),
            end: None,
        }
    }

    pub fn is_headless(&self) -> bool {
        self.opener.is_none()
    }

    pub fn is_closed(&self) -> bool {
        self.end.is_some()
    }

    /// Whether it is the open one of this family and id.
    #[inline]
    pub fn is_open(&self, family: Family, id: &Bound<'_, PyString>) -> bool {
        self.family == family
            && self.end.is_none()
            && (id.is(&self.id) || id.as_any().eq(&self.id).unwrap_or(false))
    }

    /// Whether the message with this id may hold the call.
    pub fn is_held_by(&self, id: &Bound<'_, PyString>) -> bool {
        let is = |other: &Py<PyString>| id.as_any().eq(other).unwrap_or(false);
        is(&self.id) || self.parent.as_ref().is_some_and(is)
    }

    #[inline]
    pub fn push(&mut self, incoming: &Incoming<'_>) -> PyResult<()> {
        let delta = text!(incoming, delta)?;
        let deltas = &mut self.deltas;
        deltas.parts.push(delta.unbind());
        if deltas.first.is_none() {
            deltas.first = Some(incoming.event.clone().unbind());
            deltas.is_model = !incoming.event.is_instance_of::<PyDict>();
        }
        // Of a bare wire dict (type, id, delta) there is no more to know.
        if incoming.view.spelling == Spelling::Wire && incoming.view.dict().len() == 3 {
            return Ok(());
        }
        deltas.note(incoming)
    }

    /// Takes an event, if it is one more delta of this segment that says nothing else. Most events of
    /// most streams are, so it looks at each entry once and makes nothing.
    #[inline]
    pub fn push_bare(&mut self, event: &Bound<'_, PyAny>) -> bool {
        // The first is kept whole.
        if self.deltas.first.is_none() || self.end.is_some() {
            return false;
        }
        let delta = if capi::is_exact_dict(event) {
            event.cast_exact::<PyDict>().ok().and_then(|dict| self.bare_wire(dict))
        } else {
            self.bare_model(event)
        };
        match delta {
            Some(delta) => {
                self.deltas.parts.push(delta);
                true
            }
            None => false,
        }
    }

    /// The delta of a wire dict with type, id and delta alone.
    #[inline]
    fn bare_wire(&self, dict: &Bound<'_, PyDict>) -> Option<Py<PyString>> {
        if dict.len() != 3 {
            return None;
        }
        match self.family {
            Family::Text => self.delta_of(dict, b"messageId", b"TEXT_MESSAGE_CONTENT"),
            Family::Reasoning => self.delta_of(dict, b"messageId", b"REASONING_MESSAGE_CONTENT"),
            Family::Call => self.delta_of(dict, b"toolCallId", b"TOOL_CALL_ARGS"),
        }
    }

    /// With lengths that the compiler knows a comparison is a few instructions, where a call of
    /// `memcmp` for each took a seventh of the time of compaction.
    #[inline]
    fn delta_of<const I: usize, const T: usize>(
        &self,
        dict: &Bound<'_, PyDict>,
        id_key: &[u8; I],
        type_name: &[u8; T],
    ) -> Option<Py<PyString>> {
        with_critical_section(dict, || {
            let mut delta = None;
            let mut agreeing = 0;
            for (key, value) in DictIter::new(dict).take(3) {
                let key = ascii(&key)?;
                if key == b"delta" {
                    delta = Some(value.cast_exact::<PyString>().ok()?.to_owned().unbind());
                } else if key == id_key {
                    agreeing += u32::from(self.has_id(&value));
                } else if key == b"type" {
                    agreeing += u32::from(ascii(&value)? == type_name);
                }
            }
            delta.filter(|_| agreeing == 2)
        })
    }

    /// The delta of a model that has no metadata, owner or extra field.
    #[inline]
    fn bare_model(&self, model: &Bound<'_, PyAny>) -> Option<Py<PyString>> {
        let py = model.py();
        let registry = registry();
        let plan = registry.plan(capi::type_key(model))?;
        if plan.kind != Some(self.family.delta()) {
            return None;
        }
        let extra = capi::slot(registry.extra.bind(py), model)?;
        if !extra.is_none() && !extra.cast::<PyDict>().ok()?.is_empty() {
            return None;
        }
        let fields = capi::instance_dict(model)?;
        let keys = keys(py);
        let (id, key) = (self.family.key(py).name(py), keys.delta.name(py));
        with_critical_section(&fields, || {
            let mut delta = None;
            let mut is_same = false;
            for (name, value) in DictIter::new(&fields).take(fields.len()) {
                if value.is_none() {
                    continue;
                }
                if name.is(key) {
                    delta = Some(value.cast_exact::<PyString>().ok()?.to_owned().unbind());
                } else if name.is(id) {
                    is_same = self.has_id(&value);
                } else if name.is(keys.metadata.name(py)) || name.is(keys.subagent_run_id.name(py))
                {
                    return None;
                }
            }
            delta.filter(|_| is_same)
        })
    }

    #[inline]
    fn has_id(&self, value: &Bound<'_, PyAny>) -> bool {
        let id = self.id.bind(value.py());
        value.is(id) || ascii(value).is_some_and(|text| Some(text) == ascii(id))
    }

    pub fn close(&mut self, incoming: &Incoming<'_>) {
        self.end = Some(incoming.event.clone().unbind());
    }

    /// Opener, one delta, end: what there is of them.
    pub fn into_events<'py>(
        self,
        py: Python<'py>,
        out: &mut Vec<Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        if let Some(opener) = self.opener {
            out.push(opener.into_bound(py));
        }
        match (&self.deltas.first, self.deltas.parts.len()) {
            (None, _) => {}
            (Some(only), 1) => out.push(only.bind(py).clone()),
            (Some(_), _) => out.push(self.deltas.collapse(self.family, self.id.bind(py))?),
        }
        if let Some(end) = self.end {
            out.push(end.into_bound(py));
        }
        Ok(())
    }
}

impl Deltas {
    /// Keeps what an event says besides its delta.
    fn note(&mut self, incoming: &Incoming<'_>) -> PyResult<()> {
        let py = incoming.event.py();
        if let Some(metadata) = incoming.metadata()? {
            merge(&mut self.metadata, &metadata)?;
        }
        if let Some(owner) = field!(incoming, subagent_run_id) {
            self.owner = Some(owner.unbind());
        }
        if incoming.view.has_rest() {
            let rest = PyDict::new(py);
            let read: Result<(), Surprise> = incoming.view.entries(|entry| {
                if let Entry::Extra(key, value) = entry {
                    rest.set_item(key, value)?;
                }
                Ok(())
            });
            if read.is_ok() && !rest.is_empty() {
                merge(&mut self.rest, &rest)?;
            }
        }
        Ok(())
    }

    fn collapse<'py>(
        self,
        family: Family,
        id: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = id.py();
        let keys = keys(py);
        let delta =
            intern!(py, "").call_method1(intern!(py, "join"), (PyList::new(py, self.parts)?,))?;
        let event = PyDict::new(py);
        event.set_item(keys.r#type.alias(py), PyString::intern(py, family.delta().name()))?;
        event.set_item(family.key(py).alias(py), id)?;
        event.set_item(keys.delta.alias(py), delta)?;
        if let Some(metadata) = &self.metadata {
            event.set_item(keys.metadata.alias(py), metadata)?;
        }
        if let Some(owner) = &self.owner {
            event.set_item(keys.subagent_run_id.alias(py), owner)?;
        }
        if let Some(rest) = &self.rest {
            event.update_if_missing(rest.bind(py).as_mapping())?;
        }
        build::event(event, if self.is_model { Spelling::Model } else { Spelling::Wire })
    }
}

/// The text of an exact str, if it is ASCII.
#[inline]
fn ascii<'a>(value: &'a Bound<'_, PyAny>) -> Option<&'a [u8]> {
    match capi::text(value.cast_exact().ok()?) {
        capi::Text::Ascii(text) => Some(text),
        _ => None,
    }
}

/// Merges a dict into one of our own, the last write wins.
pub fn merge(into: &mut Option<Py<PyDict>>, more: &Bound<'_, PyDict>) -> PyResult<()> {
    match into {
        Some(into) => into.bind(more.py()).update(more.as_mapping()),
        None => {
            *into = Some(more.copy()?.unbind());
            Ok(())
        }
    }
}
