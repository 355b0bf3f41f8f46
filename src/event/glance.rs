//! A first look at a wire dict, for what most events are: a few strings under the protocol's keys.

use pyo3::prelude::*;
use pyo3::sync::critical_section::with_critical_section;
use pyo3::types::{PyDict, PyInt};

use super::plan::{Bounds, Field, Plan, Shape};
use super::registry::registry;
use super::{EventKind, View};
use crate::capi::{self, DictIter};

/// What one walk over the keys of an event tells. There is none for an event with a key that is
/// not the interned object of a described field: text has to be compared then, and a stage looks
/// for itself.
#[derive(Clone, Copy)]
pub struct Glance {
    /// One bit for each field that is there.
    present: u64,
    /// Those of them that hold what they are declared to, as far as that is seen at once.
    sound: u64,
}

impl Glance {
    /// Whether the event is as the protocol describes it. False only means that one has to look.
    #[inline]
    pub fn is_clean(self, plan: &Plan) -> bool {
        self.present == self.sound && plan.required & !self.present == 0
    }

    /// Whether the event has none but these fields, one bit each, and all of them are sound.
    #[inline]
    pub fn has_only(self, fields: u64) -> bool {
        self.present & !fields == 0 && self.present == self.sound
    }

    /// Whether the field at this place of the plan is there.
    #[inline]
    pub fn has(self, at: Option<usize>) -> bool {
        at.is_some_and(|at| self.present & (1 << at) != 0)
    }
}

impl<'py> View<'py> {
    /// A wire dict that begins with its type, as producers write it.
    #[inline]
    pub fn glance(dict: &Bound<'py, PyDict>) -> Option<(Self, EventKind, Glance)> {
        let registry = registry();
        let walk = || {
            let mut items = DictIter::new(dict);
            let (key, value) = items.next()?;
            if !key.is(&registry.type_key) {
                return None;
            }
            let kind = registry.interned_kind(&value)?;
            let plan = registry.event(Some(kind))?;
            let tag = 1 << plan.tag?;
            let mut glance = Glance { present: tag, sound: tag };
            let mut expected = 0;
            for (key, value) in items {
                let at = plan.find_interned(&key, expected)?;
                expected = at + 1;
                glance.present |= 1 << at;
                if is_sound(&plan.fields[at], &value) {
                    glance.sound |= 1 << at;
                }
            }
            Some((plan, kind, glance))
        };
        let (plan, kind, glance) = with_critical_section(dict, walk)?;
        Some((Self::of_wire(dict, plan), kind, glance))
    }
}

#[inline]
fn is_sound(field: &Field, value: &Bound<'_, PyAny>) -> bool {
    match &field.shape {
        Shape::Str => capi::is_exact_str(value),
        Shape::Nullable(inner) => match &**inner {
            Shape::Str => capi::is_exact_str(value),
            Shape::Int(Bounds::Between(low, high)) => match value.cast_exact::<PyInt>() {
                Ok(int) => capi::int_as_i64(int).is_some_and(|int| (*low..=*high).contains(&int)),
                Err(_) => false,
            },
            _ => false,
        },
        _ => false,
    }
}
