//! Reading: what an event, or an object inside one, has to say, in either spelling.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::EventType;
use super::class_info::{ClassInfo, Field, Form};
use super::registry::registry;
use crate::capi::{self, Lent};

/// An object of the protocol: an SDK model or a wire dict, with the [`ClassInfo`] that describes it.
pub struct View<'py> {
    pub info: &'static ClassInfo,
    pub spelling: Form,
    pub(super) fields: Bound<'py, PyDict>,
    /// A model's extra fields, if there are any.
    extra: Option<Bound<'py, PyDict>>,
}

/// One entry of an object. An optional field whose value is None is absent, and so not an entry.
pub enum Entry<'a, 'py> {
    Field(usize, &'static Field, &'a Bound<'py, PyAny>),
    /// An entry that the class does not describe, under its own key.
    Extra(&'a Bound<'py, PyString>, &'a Bound<'py, PyAny>),
}

/// Something that this crate does not read as pydantic would: a model with a field missing or too
/// many, an extra field that clashes with a declared one, a key that is no exact str.
#[derive(Debug)]
pub struct Unsupported;

impl<'py> View<'py> {
    /// A model, which is an instance of exactly the described class.
    #[inline]
    pub fn of_model(
        model: &Bound<'py, PyAny>,
        info: &'static ClassInfo,
    ) -> Result<Self, Unsupported> {
        let fields = capi::instance_dict(model).ok_or(Unsupported)?;
        let extra = capi::slot(registry().extra.bind(model.py()), model).ok_or(Unsupported)?;
        let extra = if extra.is_none() {
            None
        } else if capi::is_exact_dict(&extra) {
            let extra = extra.cast_into::<PyDict>().map_err(|_| Unsupported)?;
            if extra.is_empty() { None } else { Some(extra) }
        } else {
            return Err(Unsupported);
        };
        Ok(Self { info, spelling: Form::Model, fields, extra })
    }

    /// A wire dict that is to be read as its class says.
    #[inline]
    pub fn of_wire(dict: &Bound<'py, PyDict>, info: &'static ClassInfo) -> Self {
        Self { info, spelling: Form::Dict, fields: dict.clone(), extra: None }
    }

    /// An event in either spelling: a model of exactly an SDK class, or a wire dict. A wire dict of
    /// an unknown type is described by what all events have, and has no kind.
    pub fn of_event(event: &Bound<'py, PyAny>) -> Option<(Self, Option<EventType>)> {
        let registry = registry();
        if let Some(info) = registry.info(capi::type_key(event)) {
            return Some((Self::of_model(event, info).ok()?, info.kind));
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

    /// Whether there may be entries that the class does not describe.
    #[inline]
    pub fn has_rest(&self) -> bool {
        self.spelling == Form::Dict || self.extra.is_some()
    }

    /// The value under a key that the class does not describe.
    pub fn undescribed(&self, key: &Bound<'py, PyString>) -> Option<Bound<'py, PyAny>> {
        match self.spelling {
            Form::Model => capi::dict_get(self.extra.as_ref()?, key),
            Form::Dict => capi::dict_get(&self.fields, key),
        }
    }

    /// Calls `visit` with every entry, in the object's own order.
    #[inline]
    pub fn entries<E: From<Unsupported>>(
        &self,
        mut visit: impl FnMut(Entry<'_, 'py>) -> Result<(), E>,
    ) -> Result<(), E> {
        match self.spelling {
            Form::Model => self.model_entries(&mut visit),
            Form::Dict => self.wire_entries(&mut visit),
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
        let info = self.info;
        let mut expected = 0;
        let mut is_declared = |(key, value): (Lent<'_, 'py>, Lent<'_, 'py>)| {
            let at = key.read(|key| info.find(key, expected, self.spelling));
            let Some(at) = at else { return false };
            expected = at + 1;
            let field = &info.fields[at];
            field.omit_none && value.is_none() || visit(at, field, value)
        };
        self.extra.is_none()
            && capi::walk(&self.fields, |mut items| items.all(&mut is_declared))
            && (self.spelling == Form::Dict || self.fields.len() == info.fields.len())
    }

    #[inline]
    fn model_entries<E: From<Unsupported>>(
        &self,
        visit: &mut impl FnMut(Entry<'_, 'py>) -> Result<(), E>,
    ) -> Result<(), E> {
        let info = self.info;
        let mut expected = 0;
        capi::walk(&self.fields, |mut items| {
            while let Some((key, value)) = items.next() {
                let at = key.read(|key| info.find(key, expected, Form::Model));
                let at = at.ok_or(Unsupported)?;
                expected = at + 1;
                let field = &info.fields[at];
                if !(field.omit_none && value.is_none()) {
                    // Visiting may run Python code, which may drop it from the dict.
                    visit(Entry::Field(at, field, &value.own()))?;
                    if !items.unchanged() {
                        return Err(E::from(Unsupported));
                    }
                }
            }
            Ok(())
        })?;
        if self.fields.len() != info.fields.len() {
            return Err(Unsupported.into());
        }
        Ok(())
    }

    fn wire_entries<E: From<Unsupported>>(
        &self,
        visit: &mut impl FnMut(Entry<'_, 'py>) -> Result<(), E>,
    ) -> Result<(), E> {
        let info = self.info;
        let mut expected = 0;
        capi::walk(&self.fields, |mut items| {
            while let Some((key, value)) = items.next() {
                let (key, value) = (key.own(), value.own());
                let name = key.cast::<PyString>().map_err(|_| Unsupported)?;
                let name = &capi::plain_str(name).map_err(|_| Unsupported)?;
                match info.find_any(name, expected) {
                    // The wire's own spelling wins. The other is then an entry like any unknown one,
                    // but for a None that means absence: pydantic leaves it out under either key.
                    Some((at, Form::Model)) if self.has(&info.fields[at].alias) => {
                        if !(info.fields[at].omit_none && value.is_none()) {
                            visit(Entry::Extra(name, &value))?;
                        }
                    }
                    Some((at, _)) => {
                        expected = at + 1;
                        let field = &info.fields[at];
                        if !(field.omit_none && value.is_none()) {
                            visit(Entry::Field(at, field, &value))?;
                        }
                    }
                    None => visit(Entry::Extra(name, &value))?,
                }
                if !items.unchanged() {
                    return Err(Unsupported.into());
                }
            }
            Ok(())
        })
    }

    #[cold]
    fn extra_entries<E: From<Unsupported>>(
        &self,
        extra: &Bound<'py, PyDict>,
        visit: &mut impl FnMut(Entry<'_, 'py>) -> Result<(), E>,
    ) -> Result<(), E> {
        capi::walk(extra, |mut items| {
            while let Some((key, value)) = items.next() {
                let (key, value) = (key.own(), value.own());
                let name = key.cast_exact::<PyString>().map_err(|_| Unsupported)?;
                if self.info.find_any(name, 0).is_some() {
                    return Err(Unsupported.into());
                }
                visit(Entry::Extra(name, &value))?;
                if !items.unchanged() {
                    return Err(Unsupported.into());
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
        let field = self.info.fields.iter().find(|field| &*field.alias_text == alias)?;
        let value = match self.spelling {
            Form::Model => capi::dict_get(&self.fields, field.name.bind(py)),
            Form::Dict => capi::dict_get(&self.fields, field.alias.bind(py))
                .or_else(|| capi::dict_get(&self.fields, field.name.bind(py))),
        }?;
        if field.omit_none && value.is_none() { None } else { Some(value) }
    }
}
