//! Which class of the SDK is carried by which message, and where its fields go.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::ptr;
use std::sync::OnceLock;

use super::schema::{Field, Kind, Message};
use super::shape;
use super::table::{EVENT, EVENT_TYPE, Id};
use crate::capi;
use crate::event::{Cell, ClassInfo, EventType, FieldType, info_like, registry};

/// What the fields of one message hold, by the index of the field. Those of `BaseEvent`, which in
/// JSON stand beside the event's own, come after.
pub type Slots<'py> = [Option<Bound<'py, PyAny>>; SLOTS];

/// No message has more fields than this, those of `BaseEvent` included.
pub const SLOTS: usize = 20;

/// The slots of `BaseEvent`. Its `type` has none: the arm says it.
pub const TIMESTAMP: usize = SLOTS - 3;
pub const RAW_EVENT: usize = SLOTS - 2;
pub const METADATA: usize = SLOTS - 1;

pub const fn no_slots<'py>() -> Slots<'py> {
    [const { None }; SLOTS]
}

/// Where a field of a class goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Slot(u8),
    /// It tells the class apart in a union, and the arm of the message says as much.
    Arm,
    /// The table does not know it.
    Nowhere,
}

/// A class of the SDK and its message.
pub struct Layout {
    pub info: &'static ClassInfo,
    pub message: &'static Message,
    /// The field of the union, if the message is one of its arms.
    pub arm: Option<&'static Field>,
    /// See [`Layout::base`].
    pub base: [u8; 4],
    /// By the index of the field in the class.
    pub places: Box<[Place]>,
    /// One bit for each slot in which a null means absence.
    pub optional: u32,
    /// The class is that of an outcome, and the message that of the event in which it lies flat.
    pub outcome: bool,
}

/// The layouts of all that can stand where a message is declared.
#[derive(Default)]
pub struct Choice {
    /// The field of the class that tells them apart.
    discriminator: Option<Py<PyString>>,
    layouts: Vec<Layout>,
    /// For an object that says it is of another kind.
    other: Option<Layout>,
}

impl Layout {
    /// The base event of such an event that has nothing but its type, as a field: `type` is the
    /// field 1 of it, and 0 is not written.
    #[inline]
    pub fn base(&self) -> &[u8] {
        if self.base[1] == 0 { &self.base[..2] } else { &self.base }
    }
}

pub struct Layouts {
    /// By kind. An event class that has come to hold something unknown has none.
    events: Vec<Option<Layout>>,
    /// The event classes by their key: a hash table with open addressing, a quarter full.
    classes: [Option<(usize, EventType)>; CLASSES],
    choices: Vec<Choice>,
}

const CLASSES: usize = (4 * EventType::COUNT).next_power_of_two();

/// Where the look-up of a class begins. Objects are aligned to 16 bytes.
#[inline]
fn start(key: usize) -> usize {
    (key >> 4).wrapping_mul(0x9e37_79b9) >> 16
}

/// The layouts, made at the first call.
#[inline]
pub fn layouts(py: Python<'_>) -> &'static Layouts {
    static LAYOUTS: OnceLock<Layouts> = OnceLock::new();
    LAYOUTS.get_or_init(|| Layouts::new(py))
}

impl Layouts {
    fn new(py: Python<'_>) -> Self {
        let mut layouts = Self {
            events: Vec::new(),
            classes: [None; CLASSES],
            choices: (0..Id::COUNT).map(|_| Choice::default()).collect(),
        };
        for &kind in EventType::ALL {
            let arm = EVENT.fields.iter().find(|arm| is_called(arm, kind));
            let layout = match (registry().event(Some(kind)), arm) {
                (Some(info), Some(arm)) => layouts.event(py, kind, info, arm),
                _ => None,
            };
            if let Some(layout) = &layout {
                let mut at = start(layout.info.key) % CLASSES;
                while layouts.classes[at].is_some() {
                    at = (at + 1) % CLASSES;
                }
                layouts.classes[at] = Some((layout.info.key, kind));
            }
            layouts.events.push(layout);
        }
        layouts
    }

    fn event(
        &mut self,
        py: Python<'_>,
        kind: EventType,
        info: &'static ClassInfo,
        arm: &'static Field,
    ) -> Option<Layout> {
        let Kind::Message(message) = arm.kind else { return None };
        let event_type = EVENT_TYPE.iter().position(|name| *name == kind.name())?;
        let mut layout = self.layout(py, info, message, Some(arm));
        layout.base = match u8::try_from(event_type) {
            Ok(0) => [0x0a, 0, 0, 0],
            Ok(number @ 1..0x80) => [0x0a, 2, 0x08, number],
            _ => return None,
        };
        for (place, field) in layout.places.iter_mut().zip(&info.fields) {
            *place = match &*field.alias_text {
                "type" => Place::Arm,
                "timestamp" => Place::Slot(TIMESTAMP as u8),
                "rawEvent" => Place::Slot(RAW_EVENT as u8),
                "metadata" => Place::Slot(METADATA as u8),
                _ => *place,
            };
        }
        layout.optional |= 1 << RAW_EVENT;
        Some(layout)
    }

    /// The layout of a class, after those of the classes that its fields name.
    fn layout(
        &mut self,
        py: Python<'_>,
        info: &'static ClassInfo,
        message: &'static Message,
        arm: Option<&'static Field>,
    ) -> Layout {
        let mut places = vec![Place::Nowhere; info.fields.len()];
        let mut optional = 0;
        let is_event = arm.is_some_and(|arm| EVENT.fields.iter().any(|it| ptr::eq(it, arm)));
        let outcome = shape::has_outcome(message) && !is_event;
        for (at, field) in info.fields.iter().enumerate() {
            if arm.is_some() && info.tag == Some(at) {
                places[at] = Place::Arm;
                continue;
            }
            let key = &*field.alias_text;
            let slot =
                if outcome { shape::outcome_slot(message, key) } else { shape::slot(message, key) };
            let Some(slot) = slot else { continue };
            places[at] = Place::Slot(slot as u8);
            optional |= u32::from(field.omit_none) << slot;
            if let Some(inner) = shape::inner(message, slot) {
                self.choose(py, inner, &field.shape);
            }
        }
        Layout { info, message, arm, base: [0; 4], places: places.into(), optional, outcome }
    }

    /// Learns what a field of this shape can hold where the table declares this message.
    fn choose(&mut self, py: Python<'_>, message: &'static Message, shape: &'static FieldType) {
        match shape {
            FieldType::Nullable(inner)
            | FieldType::StrOrList(inner)
            | FieldType::List { item: inner, .. } => {
                self.choose(py, message, inner);
            }
            FieldType::Model(cell) => self.add(py, message, cell),
            FieldType::Tagged { discriminator, choices } => {
                let discriminator = discriminator.clone_ref(py);
                self.choices[message.id as usize].discriminator = Some(discriminator);
                for (_, cell) in choices {
                    self.add(py, message, cell);
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, py: Python<'_>, message: &'static Message, cell: &'static Cell) {
        let known = &self.choices[message.id as usize].layouts;
        let Some(info) = cell.info.get() else { return };
        if known.iter().any(|layout| layout.info.key == info.key) {
            return;
        }
        let layout = if message.union {
            let tag = info.tag_text();
            let Some(arm) = message.fields.iter().find(|arm| Some(arm.name) == tag) else { return };
            let Kind::Message(inner) = arm.kind else { return };
            self.layout(py, info, inner, Some(arm))
        } else {
            self.layout(py, info, message, None)
        };
        let choice = &mut self.choices[message.id as usize];
        if choice.other.is_none() {
            choice.other = shape::other(&layout);
        }
        choice.layouts.push(layout);
    }

    /// The layout of an event class, if it has one.
    #[inline]
    pub fn of_kind(&'static self, kind: EventType) -> Option<&'static Layout> {
        self.events[kind as usize].as_ref()
    }

    /// The layout for instances of exactly the event class with this key.
    #[inline]
    pub fn of_event_class(&'static self, key: usize) -> Option<&'static Layout> {
        let mut at = start(key) % CLASSES;
        loop {
            match self.classes[at]? {
                (class, kind) if class == key => return self.of_kind(kind),
                _ => at = (at + 1) % CLASSES,
            }
        }
    }

    /// The layout for a model, its class's own or that of the class it is written like, if it may be
    /// used now. None for what is no model of an event, too.
    #[inline]
    pub fn of_model(&'static self, event: &Bound<'_, PyAny>) -> Option<&'static Layout> {
        match self.of_event_class(capi::type_key(event)) {
            Some(layout) => layout.info.is_current().then_some(layout),
            None => self.of_event_class(info_like(event)?.key),
        }
    }

    /// What can stand where this message is declared.
    #[inline]
    pub fn choice(&'static self, message: &Message) -> &'static Choice {
        &self.choices[message.id as usize]
    }
}

impl Choice {
    /// The layout for instances of exactly the class with this key, if it may be used now.
    #[inline]
    pub fn of_class(&'static self, key: usize) -> Option<&'static Layout> {
        let layout = self.layouts.iter().find(|layout| layout.info.key == key)?;
        layout.info.is_current().then_some(layout)
    }

    /// How a wire dict is to be read that stands here. `None` if it is of a kind that has no
    /// place here.
    pub fn of_wire(&'static self, dict: &Bound<'_, PyDict>) -> Option<&'static Layout> {
        let Some(discriminator) = &self.discriminator else { return self.layouts.first() };
        let tag = capi::dict_get(dict, discriminator.bind(dict.py()));
        if let Some(tag) = &tag
            && let Ok(tag) = tag.cast_exact::<PyString>()
            && let capi::Text::Ascii(tag) = capi::text(tag)
        {
            let is_named = |layout: &&Layout| {
                layout.info.tag_text().is_some_and(|text| text.as_bytes() == tag)
            };
            if let Some(layout) = self.layouts.iter().find(is_named) {
                return Some(layout);
            }
        }
        self.other.as_ref().filter(|other| shape::admits(other, tag.as_ref()))
    }
}

/// Whether the arm is that of the kind: `text_message_start` of `TEXT_MESSAGE_START`.
fn is_called(arm: &Field, kind: EventType) -> bool {
    arm.name.eq_ignore_ascii_case(kind.name())
}
