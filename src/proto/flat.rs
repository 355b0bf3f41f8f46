//! Events that hold nothing but strings: every token of a stream. Their size is known from a look
//! at each, so they are written once, where they belong, without being gathered first.

use pyo3::types::PyString;

use super::layout::{Layout, METADATA, RAW_EVENT, Slots, TIMESTAMP};
use super::schema::{Field, Kind, Label};
use super::value::Utf8;
use super::wire::{WireType, varint_len, write_varint};

pub struct Flat<'a, 'py> {
    layout: &'static Layout,
    arm: &'static Field,
    slots: &'a Slots<'py>,
    /// The size of the event inside its envelope.
    inner: usize,
}

impl<'a, 'py> Flat<'a, 'py> {
    /// The event in these slots, if it is such a one.
    #[inline]
    pub fn of(layout: &'static Layout, slots: &'a Slots<'py>) -> Option<Self> {
        if !has_only_type(slots) {
            return None;
        }
        let arm = layout.arm?;
        let mut inner = layout.base().len();
        for (field, value) in layout.message.fields.iter().zip(slots).skip(1) {
            let Some(value) = value else { continue };
            if !matches!(field.kind, Kind::Str) || field.label == Label::Repeated {
                return None;
            }
            let text = Utf8::of(value.cast_exact::<PyString>().ok()?).ok()?;
            if is_written(field, &text) {
                inner += field_len(field.number, text.len);
            }
        }
        Some(Self { layout, arm, slots, inner })
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
        for (field, value) in self.layout.message.fields.iter().zip(self.slots).skip(1) {
            let text = value.as_ref().and_then(|value| value.cast_exact::<PyString>().ok());
            let Some(Ok(text)) = text.map(Utf8::of) else { continue };
            if is_written(field, &text) {
                let rest = write_header(out, field.number, text.len);
                let (here, rest) = rest.split_at_mut(text.len);
                text.write(here);
                out = rest;
            }
        }
    }
}

/// Whether the event has of what all events have nothing but its type.
#[inline]
pub fn has_only_type(slots: &Slots<'_>) -> bool {
    slots[TIMESTAMP].is_none() && slots[RAW_EVENT].is_none() && slots[METADATA].is_none()
}

#[inline]
fn is_written(field: &Field, text: &Utf8<'_>) -> bool {
    text.len > 0 || field.label == Label::Optional
}

/// The size of a field that has its length in front.
#[inline]
fn field_len(number: u32, len: usize) -> usize {
    varint_len((number << 3).into()) + varint_len(len as u64) + len
}

/// Writes the tag of such a field and its length, and gives back what is behind them.
#[inline]
fn write_header(out: &mut [u8], number: u32, len: usize) -> &mut [u8] {
    let tag = u64::from(number << 3 | WireType::Len as u32);
    let (here, rest) = out.split_at_mut(varint_len(tag));
    write_varint(here, tag);
    let (here, rest) = rest.split_at_mut(varint_len(len as u64));
    write_varint(here, len as u64);
    rest
}
