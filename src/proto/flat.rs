//! Events that hold nothing but strings: every token of a stream. Their size is known from a look
//! at each, so they are written once, where they belong, without being gathered first.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::layout::{Layout, Layouts, METADATA, Place, RAW_EVENT, Slots, TIMESTAMP};
use super::schema::{Field, Kind, Label};
use super::shape;
use super::value::Utf8;
use super::wire::{WireType, varint_len, write_varint};
use crate::event::{Form, View, registry};
use crate::json;

/// No event has a string behind this many fields.
const MOST: usize = 8;

pub struct Flat<'py> {
    layout: &'static Layout,
    arm: &'static Field,
    /// What is written, by the index of the field.
    texts: [Option<Bound<'py, PyString>>; MOST],
    /// The size of the event inside its envelope.
    inner: usize,
}

impl<'py> Flat<'py> {
    /// The event, if it is such a one, as nearly all events are that a server makes.
    #[inline]
    pub fn of(event: &Bound<'py, PyAny>, layouts: &'static Layouts) -> Option<Self> {
        let (layout, view) = match layouts.of_model(event) {
            Some(layout) => (layout, View::of_model(event, layout.info).ok()?),
            None => {
                let dict = event.cast_exact::<PyDict>().ok()?;
                let layout = layouts.of_kind(registry().kind_of(dict)?)?;
                (layout, View::of_wire(dict, layout.info))
            }
        };
        // An outcome lies flat in its event: its name is a string there, and is none in JSON.
        let arm = layout.arm.filter(|_| !shape::has_outcome(layout.message))?;
        let mut texts = [const { None }; MOST];
        let mut inner = layout.base().len();
        let are_texts = view.declared(|at, field, value| {
            let Place::Slot(slot) = layout.places[at] else {
                // A model's tag may have been set to something else.
                return layout.places[at] == Place::Arm
                    && (view.spelling == Form::Dict
                        || value.read(|value| json::is_constant(field, value)));
            };
            let slot = usize::from(slot);
            // What all events have is behind the fields.
            let (Some(field), Some(text)) = (layout.message.fields.get(slot), texts.get_mut(slot))
            else {
                return false;
            };
            value.read(|value| {
                let Ok(string) = value.cast_exact::<PyString>() else { return false };
                let Ok(utf8) = Utf8::of(string) else { return false };
                if utf8.len > 0 || field.label == Label::Optional {
                    inner += field_len(field.number, utf8.len);
                    *text = Some(string.clone());
                }
                matches!(field.kind, Kind::Str) && field.label != Label::Repeated
            })
        });
        are_texts.then_some(Self { layout, arm, texts, inner })
    }

    #[inline]
    pub fn len(&self) -> usize {
        field_len(self.arm.number, self.inner)
    }

    /// Writes the event into a place of its size.
    #[inline]
    pub fn write(&self, out: &mut [u8]) {
        let out = write_header(out, self.arm.number, self.inner);
        let base = self.layout.base();
        let (here, mut out) = out.split_at_mut(base.len());
        here.copy_from_slice(base);
        for (field, text) in self.layout.message.fields.iter().zip(&self.texts) {
            let Some(Ok(text)) = text.as_ref().map(Utf8::of) else { continue };
            let rest = write_header(out, field.number, text.len);
            let (here, rest) = rest.split_at_mut(text.len);
            text.write(here);
            out = rest;
        }
    }
}

/// Whether the event has of what all events have nothing but its type.
#[inline]
pub fn has_only_type(slots: &Slots<'_>) -> bool {
    slots[TIMESTAMP].is_none() && slots[RAW_EVENT].is_none() && slots[METADATA].is_none()
}

/// Whether the tag and the length of a field take one byte each.
#[inline]
fn is_short(number: u32, len: usize) -> bool {
    number < 16 && len < 0x80
}

/// The size of a field that has its length in front.
#[inline]
fn field_len(number: u32, len: usize) -> usize {
    if is_short(number, len) {
        return 2 + len;
    }
    varint_len((number << 3).into()) + varint_len(len as u64) + len
}

/// Writes the tag of such a field and its length, and gives back what is behind them.
#[inline]
fn write_header(out: &mut [u8], number: u32, len: usize) -> &mut [u8] {
    if is_short(number, len) {
        let (here, rest) = out.split_at_mut(2);
        here.copy_from_slice(&[(number << 3 | WireType::Len as u32) as u8, len as u8]);
        return rest;
    }
    let tag = u64::from(number << 3 | WireType::Len as u32);
    let (here, rest) = out.split_at_mut(varint_len(tag));
    write_varint(here, tag);
    let (here, rest) = rest.split_at_mut(varint_len(len as u64));
    write_varint(here, len as u64);
    rest
}
