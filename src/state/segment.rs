//! A message or a tool call while its events are being collapsed.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::incoming::{Incoming, field, text};
use super::pieces::Pieces;
use crate::capi;
use crate::event::{Entry, EventType, Form, Key, Unsupported, build, keys, registry};

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
        let id = match self {
            Self::Text | Self::Reasoning => text!(incoming, message_id),
            Self::Call => text!(incoming, tool_call_id),
        }?;
        // Comparing an exact str runs no Python code.
        if capi::is_exact_str(&id) { Ok(id) } else { capi::plain_str(&id) }
    }

    fn key(self, py: Python<'_>) -> &'static Key {
        match self {
            Self::Text | Self::Reasoning => &keys(py).message_id,
            Self::Call => &keys(py).tool_call_id,
        }
    }

    const fn start(self) -> EventType {
        match self {
            Self::Text => EventType::TextMessageStart,
            Self::Reasoning => EventType::ReasoningMessageStart,
            Self::Call => EventType::ToolCallStart,
        }
    }

    const fn delta(self) -> EventType {
        match self {
            Self::Text => EventType::TextMessageContent,
            Self::Reasoning => EventType::ReasoningMessageContent,
            Self::Call => EventType::ToolCallArgs,
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
    pieces: Pieces,
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
        let parent = parent.and_then(|parent| capi::plain_str(parent.cast().ok()?).ok());
        Self {
            opener: Some(incoming.event.clone().unbind()),
            parent: parent.map(Bound::unbind),
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

    /// The message that a call names as its parent.
    pub fn parent(&self) -> Option<&Py<PyString>> {
        self.parent.as_ref()
    }

    /// The event that opened it.
    pub fn opening(&self) -> EventType {
        if self.is_headless() { self.family.delta() } else { self.family.start() }
    }

    /// Takes a delta, whole or not at all. False if it says something that no delta can say which
    /// stands for several.
    #[inline]
    pub fn push(&mut self, incoming: &Incoming<'_>) -> PyResult<bool> {
        let delta = capi::plain_str(&text!(incoming, delta)?)?;
        let deltas = &mut self.deltas;
        // Of a bare wire dict (type, id, delta) there is no more to know.
        let is_bare = incoming.view.spelling == Form::Dict && incoming.view.dict().len() == 3;
        if !is_bare && !deltas.note(incoming)? {
            return Ok(false);
        }
        deltas.pieces.push(&delta);
        if deltas.first.is_none() {
            deltas.first = Some(incoming.event.clone().unbind());
            deltas.is_model = !incoming.event.is_instance_of::<PyDict>();
        }
        Ok(true)
    }

    /// Takes events, as far as each is one more delta of this segment that says nothing else, and
    /// returns how many. Most events of most streams are such, so it looks at each entry once and
    /// makes nothing.
    #[inline]
    pub fn push_bare<'py>(
        &mut self,
        py: Python<'py>,
        events: impl Iterator<Item = Bound<'py, PyAny>>,
    ) -> usize {
        // The first is kept whole.
        if self.deltas.first.is_none() || self.end.is_some() {
            return 0;
        }
        match self.family {
            Family::Text => self.push_bare_as(py, events, b"messageId", b"TEXT_MESSAGE_CONTENT"),
            Family::Reasoning => {
                self.push_bare_as(py, events, b"messageId", b"REASONING_MESSAGE_CONTENT")
            }
            Family::Call => self.push_bare_as(py, events, b"toolCallId", b"TOOL_CALL_ARGS"),
        }
    }

    /// With lengths that the compiler knows a comparison is a few instructions, where a call of
    /// `memcmp` for each took a seventh of the time of compaction.
    #[inline(never)]
    fn push_bare_as<'py, const I: usize, const T: usize>(
        &mut self,
        py: Python<'py>,
        events: impl Iterator<Item = Bound<'py, PyAny>>,
        id_key: &'static [u8; I],
        type_name: &'static [u8; T],
    ) -> usize {
        let Some(id) = capi::ascii(self.id.bind(py)) else { return 0 };
        let keys = keys(py);
        let mut bare = Bare {
            type_key: Known(keys.r#type.alias(py), b"type"),
            type_name: Known(registry().kind_name(py, self.family.delta()), type_name),
            id_key: Known(self.family.key(py).alias(py), id_key),
            id,
            last_id: self.id.bind(py).clone().into_any(),
            delta_key: Known(keys.delta.alias(py), b"delta"),
        };
        let pieces = &mut self.deltas.pieces;
        let mut taken = 0;
        for event in events {
            let is_taken = match capi::exact_dict(&event) {
                Some(dict) => bare.push_delta(dict, pieces),
                None => push_bare_model(pieces, &event, self.family, id),
            };
            if !is_taken {
                break;
            }
            taken += 1;
        }
        taken
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
        let delta = match (&self.deltas.first, self.deltas.pieces.count()) {
            (None, _) => Ok(None),
            (Some(only), 1) => Ok(Some(only.bind(py).clone())),
            (Some(_), _) => self.deltas.collapse(self.family, self.id.bind(py)).map(Some),
        };
        let delta = delta.map(|delta| out.extend(delta));
        if let Some(end) = self.end {
            out.push(end.into_bound(py));
        }
        delta
    }
}

impl Deltas {
    /// Keeps what an event says besides its delta, if a collapsed delta can say it.
    fn note(&mut self, incoming: &Incoming<'_>) -> PyResult<bool> {
        let metadata = incoming.metadata()?;
        let owner = field!(incoming, subagent_run_id);
        let can_be_said = owner.as_ref().is_none_or(Bound::is_instance_of::<PyString>)
            && metadata.as_ref().is_none_or(has_only_text_keys);
        let Ok(rest) = rest(incoming) else { return Ok(false) };
        if !can_be_said {
            return Ok(false);
        }
        if let Some(metadata) = metadata {
            merge(&mut self.metadata, &metadata)?;
        }
        if let Some(owner) = owner {
            self.owner = Some(owner.unbind());
        }
        if let Some(rest) = rest {
            merge(&mut self.rest, &rest)?;
        }
        Ok(true)
    }

    fn collapse<'py>(
        self,
        family: Family,
        id: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = id.py();
        let keys = keys(py);
        let delta = self.pieces.join(py)?;
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
        build::event(event, if self.is_model { Form::Model } else { Form::Dict })
    }
}

/// What a wire dict of type, id and delta alone says, in the order in which everybody writes them.
struct Bare<'a, 'py, const I: usize, const T: usize> {
    type_key: Known<'a, 'py, 4>,
    type_name: Known<'a, 'py, T>,
    id_key: Known<'a, 'py, I>,
    id: &'a [u8],
    /// The last str that was this id: in most streams it is one object.
    last_id: Bound<'py, PyAny>,
    delta_key: Known<'a, 'py, 5>,
}

impl<'py, const I: usize, const T: usize> Bare<'_, 'py, I, T> {
    /// Takes the delta of an event that says just that.
    #[inline]
    fn push_delta(&mut self, dict: &Bound<'py, PyDict>, pieces: &mut Pieces) -> bool {
        capi::walk_all(dict, |[kind, subject, delta]| {
            // The very objects, as our decoder gives them, in a row of tests of which none jumps.
            let is_usual = kind.0.is(self.type_key.0)
                && kind.1.is(self.type_name.0)
                && subject.0.is(self.id_key.0)
                && subject.1.is(&self.last_id)
                && delta.0.is(self.delta_key.0);
            let is_bare = is_usual
                || kind.0.read(|key| self.type_key.is(key))
                    && kind.1.read(|name| self.type_name.is(name))
                    && subject.0.read(|key| self.id_key.is(key))
                    && subject.1.read(|id| self.is_id(id))
                    && delta.0.read(|key| self.delta_key.is(key));
            (is_bare && delta.1.read(|delta| pieces.push(delta))).then_some(())
        })
        .is_some()
    }

    #[inline]
    fn is_id(&mut self, value: &Bound<'py, PyAny>) -> bool {
        if value.is(&self.last_id) {
            return true;
        }
        let is_id = is_id(value, self.id);
        if is_id {
            self.last_id = value.clone();
        }
        is_id
    }
}

/// A text of the protocol: the interned str, which it mostly is, and its characters.
struct Known<'a, 'py, const N: usize>(&'a Bound<'py, PyString>, &'static [u8; N]);

impl<const N: usize> Known<'_, '_, N> {
    /// Whether it is this text, as an exact str.
    #[inline]
    fn is(&self, value: &Bound<'_, PyAny>) -> bool {
        value.is(self.0) || capi::ascii(value).is_some_and(|text| text == self.1)
    }
}

/// Takes the delta of a model that has no metadata, owner or extra field.
fn push_bare_model(
    pieces: &mut Pieces,
    model: &Bound<'_, PyAny>,
    family: Family,
    id: &[u8],
) -> bool {
    let py = model.py();
    let registry = registry();
    let info = registry.info(capi::type_key(model));
    if info.is_none_or(|info| info.kind != Some(family.delta())) {
        return false;
    }
    let has_extra = capi::slot(registry.extra.bind(py), model).is_none_or(|extra| {
        !extra.is_none() && !extra.cast::<PyDict>().is_ok_and(PyDictMethods::is_empty)
    });
    if has_extra {
        return false;
    }
    let Some(fields) = capi::instance_dict(model) else { return false };
    let keys = keys(py);
    let id_name = family.key(py).name(py);
    let ignored = [&keys.r#type, &keys.timestamp, &keys.raw_event];
    capi::walk(&fields, |items| {
        let (mut has_id, mut delta) = (false, None);
        for (name, value) in items {
            if value.is_none() {
                continue;
            }
            // Names of fields are interned. What is not known here is left to who reads all.
            if name.is(id_name) {
                has_id = value.read(|value| is_id(value, id));
            } else if name.is(keys.delta.name(py)) {
                delta = Some(value);
            } else if !ignored.iter().any(|key| name.is(key.name(py))) {
                return false;
            }
        }
        has_id && delta.is_some_and(|delta| delta.read(|delta| pieces.push(delta)))
    })
}

#[inline]
fn is_id(value: &Bound<'_, PyAny>, id: &[u8]) -> bool {
    capi::ascii(value).is_some_and(|value| capi::same_bytes(value, id))
}

fn has_only_text_keys(dict: &Bound<'_, PyDict>) -> bool {
    capi::walk(dict, |mut items| {
        items.all(|(key, _)| key.read(PyAnyMethods::is_instance_of::<PyString>))
    })
}

/// The properties of an event that the protocol does not describe, if there are any. An error if it
/// is no object as JSON has them.
pub fn rest<'py>(incoming: &Incoming<'py>) -> Result<Option<Bound<'py, PyDict>>, Unsupported> {
    let mut rest = None;
    if incoming.view.has_rest() {
        incoming.view.entries(|entry| {
            if let Entry::Extra(key, value) = entry {
                rest.get_or_insert_with(|| PyDict::new(key.py())).set_item(key, value)?;
            }
            Ok::<(), Unsupported>(())
        })?;
    }
    Ok(rest)
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
