//! Reading: what an event, or an object inside one, has to say, in either spelling.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::EventKind;
use super::plan::{Field, Plan, Spelling};
use super::registry::registry;
use crate::capi::{self, Lent};

/// An object of the protocol: an SDK model or a wire dict, with the plan that describes it.
pub struct View<'py> {
    pub plan: &'static Plan,
    pub spelling: Spelling,
    pub(super) fields: Bound<'py, PyDict>,
    /// A model's extra fields, if there are any.
    extra: Option<Bound<'py, PyDict>>,
}

/// One entry of an object. An optional field whose value is None is absent, and so not an entry.
pub enum Entry<'a, 'py> {
    Field(usize, &'static Field, &'a Bound<'py, PyAny>),
    /// An entry that the plan does not describe, under its own key.
    Extra(&'a Bound<'py, PyString>, &'a Bound<'py, PyAny>),
}

/// Something that this crate does not read as pydantic would: a model with a field missing or too
/// many, an extra field that clashes with a declared one, a key that is no exact str.
#[derive(Debug)]
pub struct Surprise;

impl<'py> View<'py> {
    /// A model, which is an instance of exactly the plan's class.
    #[inline]
    pub fn of_model(model: &Bound<'py, PyAny>, plan: &'static Plan) -> Result<Self, Surprise> {
        let fields = capi::instance_dict(model).ok_or(Surprise)?;
        let extra = capi::slot(registry().extra.bind(model.py()), model).ok_or(Surprise)?;
        let extra = if extra.is_none() {
            None
        } else if capi::is_exact_dict(&extra) {
            let extra = extra.cast_into::<PyDict>().map_err(|_| Surprise)?;
            if extra.is_empty() { None } else { Some(extra) }
        } else {
            return Err(Surprise);
        };
        Ok(Self { plan, spelling: Spelling::Model, fields, extra })
    }

    /// A wire dict that is to be read as the plan says.
    #[inline]
    pub fn of_wire(dict: &Bound<'py, PyDict>, plan: &'static Plan) -> Self {
        Self { plan, spelling: Spelling::Wire, fields: dict.clone(), extra: None }
    }

    /// An event in either spelling: a model of exactly an SDK class, or a wire dict. A wire dict of
    /// an unknown type is described by what all events have, and has no kind.
    pub fn of_event(event: &Bound<'py, PyAny>) -> Option<(Self, Option<EventKind>)> {
        let registry = registry();
        if let Some(plan) = registry.plan(capi::type_key(event)) {
            return Some((Self::of_model(event, plan).ok()?, plan.kind));
        }
        let dict = event.cast::<PyDict>().ok()?;
        let kind = registry.kind(&capi::dict_get(dict, registry.type_key.bind(event.py()))?);
        Some((Self::of_wire(dict, registry.event(kind)?), kind))
    }

    /// The dict that is read: a wire dict itself, or the instance dictionary of a model.
    #[inline]
    pub fn dict(&self) -> &Bound<'py, PyDict> {
        &self.fields
    }

    /// Whether there may be entries that the plan does not describe.
    #[inline]
    pub fn has_rest(&self) -> bool {
        self.spelling == Spelling::Wire || self.extra.is_some()
    }

    /// The value under a key that the plan does not describe.
    pub fn undescribed(&self, key: &Bound<'py, PyString>) -> Option<Bound<'py, PyAny>> {
        match self.spelling {
            Spelling::Model => capi::dict_get(self.extra.as_ref()?, key),
            Spelling::Wire => capi::dict_get(&self.fields, key),
        }
    }

    /// Calls `visit` with every entry, in the object's own order.
    #[inline]
    pub fn entries<E: From<Surprise>>(
        &self,
        mut visit: impl FnMut(Entry<'_, 'py>) -> Result<(), E>,
    ) -> Result<(), E> {
        match self.spelling {
            Spelling::Model => self.model_entries(&mut visit),
            Spelling::Wire => self.wire_entries(&mut visit),
        }?;
        match &self.extra {
            None => Ok(()),
            Some(extra) => self.extra_entries(extra, &mut visit),
        }
    }

    /// Calls `visit` with every field that has a value, as long as
    /// it says so. False if it did not always, or if there is anything else in the object.
    #[inline]
    pub fn declared(
        &self,
        mut visit: impl FnMut(usize, &'static Field, Lent<'_, 'py>) -> bool,
    ) -> bool {
        let plan = self.plan;
        let mut expected = 0;
        let mut is_declared = |(key, value): (Lent<'_, 'py>, Lent<'_, 'py>)| {
            let at = key.read(|key| plan.find(key, expected, self.spelling));
            let Some(at) = at else { return false };
            expected = at + 1;
            let field = &plan.fields[at];
            field.omit_none && value.is_none() || visit(at, field, value)
        };
        self.extra.is_none()
            && capi::walk(&self.fields, |mut items| items.all(&mut is_declared))
            && (self.spelling == Spelling::Wire || self.fields.len() == plan.fields.len())
    }

    #[inline]
    fn model_entries<E: From<Surprise>>(
        &self,
        visit: &mut impl FnMut(Entry<'_, 'py>) -> Result<(), E>,
    ) -> Result<(), E> {
        let plan = self.plan;
        let mut expected = 0;
        capi::walk(&self.fields, |mut items| {
            while let Some((key, value)) = items.next() {
                let at = key.read(|key| plan.find(key, expected, Spelling::Model));
                let at = at.ok_or(Surprise)?;
                expected = at + 1;
                let field = &plan.fields[at];
                if !(field.omit_none && value.is_none()) {
                    // Visiting may run Python code, which may drop it from the dict.
                    visit(Entry::Field(at, field, &value.own()))?;
                    if !items.unchanged() {
                        return Err(E::from(Surprise));
                    }
                }
            }
            Ok(())
        })?;
        if self.fields.len() != plan.fields.len() {
            return Err(Surprise.into());
        }
        Ok(())
    }

    fn wire_entries<E: From<Surprise>>(
        &self,
        visit: &mut impl FnMut(Entry<'_, 'py>) -> Result<(), E>,
    ) -> Result<(), E> {
        let plan = self.plan;
        let mut expected = 0;
        capi::walk(&self.fields, |mut items| {
            while let Some((key, value)) = items.next() {
                let (key, value) = (key.own(), value.own());
                let name = key.cast::<PyString>().map_err(|_| Surprise)?;
                let name = &capi::plain_str(name).map_err(|_| Surprise)?;
                match plan.find_any(name, expected) {
                    // The wire's own spelling wins. The other is then an entry like any unknown one,
                    // but for a None that means absence: pydantic leaves it out under either key.
                    Some((at, Spelling::Model)) if self.has(&plan.fields[at].alias) => {
                        if !(plan.fields[at].omit_none && value.is_none()) {
                            visit(Entry::Extra(name, &value))?;
                        }
                    }
                    Some((at, _)) => {
                        expected = at + 1;
                        let field = &plan.fields[at];
                        if !(field.omit_none && value.is_none()) {
                            visit(Entry::Field(at, field, &value))?;
                        }
                    }
                    None => visit(Entry::Extra(name, &value))?,
                }
                if !items.unchanged() {
                    return Err(Surprise.into());
                }
            }
            Ok(())
        })
    }

    #[cold]
    fn extra_entries<E: From<Surprise>>(
        &self,
        extra: &Bound<'py, PyDict>,
        visit: &mut impl FnMut(Entry<'_, 'py>) -> Result<(), E>,
    ) -> Result<(), E> {
        capi::walk(extra, |mut items| {
            while let Some((key, value)) = items.next() {
                let (key, value) = (key.own(), value.own());
                let name = key.cast_exact::<PyString>().map_err(|_| Surprise)?;
                if self.plan.find_any(name, 0).is_some() {
                    return Err(Surprise.into());
                }
                visit(Entry::Extra(name, &value))?;
                if !items.unchanged() {
                    return Err(Surprise.into());
                }
            }
            Ok(())
        })
    }

    fn has(&self, key: &Py<PyString>) -> bool {
        capi::dict_get(&self.fields, key.bind(self.fields.py())).is_some()
    }

    /// The value of a described field, by its key on the wire, in either spelling. None where that
    /// means absence is absence.
    pub fn get(&self, alias: &str) -> Option<Bound<'py, PyAny>> {
        let py = self.fields.py();
        let field = self.plan.fields.iter().find(|field| &*field.alias_text == alias)?;
        let value = match self.spelling {
            Spelling::Model => capi::dict_get(&self.fields, field.name.bind(py)),
            Spelling::Wire => capi::dict_get(&self.fields, field.alias.bind(py))
                .or_else(|| capi::dict_get(&self.fields, field.name.bind(py))),
        }?;
        if field.omit_none && value.is_none() { None } else { Some(value) }
    }
}
