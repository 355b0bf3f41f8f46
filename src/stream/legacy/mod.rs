//! Older versions of the protocol: what their peers send, and what they can be sent.

mod content;
mod downgrade;
mod input;
mod spelling;
mod upgrade;

pub use downgrade::{LegacyDowngrader, downgrade_input};
pub use upgrade::{LegacyUpgrader, upgrade_input};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use crate::capi;
use crate::deviation::{Deviation, Reporter};

/// A list with what `change` makes of each item in its place; None if it changes none. Code of the
/// caller's may shorten the list meanwhile: items that are gone when the first one changes are left
/// out.
fn replaced<'py>(
    list: &Bound<'py, PyList>,
    mut change: impl FnMut(usize, &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>>,
) -> PyResult<Option<Bound<'py, PyList>>> {
    let mut own: Option<Bound<'py, PyList>> = None;
    for (index, item) in list.iter().enumerate() {
        let changed = change(index, &item)?;
        if own.is_none() && changed.is_some() {
            own = Some(capi::copy_list(list, index)?);
        }
        if let Some(own) = &own {
            own.append(changed.unwrap_or(item))?;
        }
    }
    Ok(own)
}

/// What there is to say about a conversion, gathered while it is made.
#[derive(Default)]
struct Notes {
    notes: Vec<Note>,
}

struct Note {
    kind: &'static str,
    path: String,
    detail: String,
}

impl Notes {
    #[cold]
    fn add(&mut self, kind: &'static str, path: impl Into<String>, detail: impl Into<String>) {
        self.notes.push(Note { kind, path: path.into(), detail: detail.into() });
    }

    fn has(&self, kind: &str) -> bool {
        self.notes.iter().any(|note| note.kind == kind)
    }

    /// Forgets conversions that lost nothing: of what is our own to send they are no deviation.
    fn only_losses(&mut self) {
        self.notes.retain(|note| note.kind != "legacy");
    }

    fn report(self, py: Python<'_>, reporter: &Reporter, event_type: Option<&str>) -> PyResult<()> {
        for Note { kind, path, detail } in self.notes {
            let event_type = event_type.map(str::to_owned);
            reporter.report(py, Deviation { kind: kind.to_owned(), event_type, path, detail })?;
        }
        Ok(())
    }
}

/// A dict that is copied when it is first changed.
struct Draft<'py> {
    dict: Bound<'py, PyDict>,
    own: bool,
}

impl<'py> Draft<'py> {
    fn of(dict: &Bound<'py, PyDict>) -> Self {
        Self { dict: dict.clone(), own: false }
    }

    /// A dict that is a copy already.
    fn owned(dict: Bound<'py, PyDict>) -> Self {
        Self { dict, own: true }
    }

    fn own(&mut self) -> PyResult<&Bound<'py, PyDict>> {
        if !self.own {
            self.dict = self.dict.copy()?;
            self.own = true;
        }
        Ok(&self.dict)
    }

    fn get(&self, key: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.dict.get_item(key)
    }

    fn set(&mut self, key: &str, value: impl IntoPyObject<'py>) -> PyResult<()> {
        self.own()?.set_item(key, value)
    }

    fn remove(&mut self, key: &str) -> PyResult<()> {
        capi::discard(self.own()?, key)
    }

    /// Removes a null that means absence today.
    fn omit_null(&mut self, key: &str, path: &str, notes: &mut Notes) -> PyResult<()> {
        if self.get(key)?.is_some_and(|value| value.is_none()) {
            self.remove(key)?;
            notes.add("legacy", join(path, key), "read a null as absence, as before 1.0");
        }
        Ok(())
    }

    /// Puts what `change` makes of each object in a list in its place.
    fn each(
        &mut self,
        key: &str,
        path: &str,
        mut change: impl FnMut(Bound<'py, PyDict>, &str) -> PyResult<Option<Bound<'py, PyDict>>>,
    ) -> PyResult<()> {
        let Some(list) = self.get(key)? else { return Ok(()) };
        let Ok(list) = list.cast_into::<PyList>() else { return Ok(()) };
        let changed = replaced(&list, |index, item| {
            let Ok(item) = item.cast::<PyDict>() else { return Ok(None) };
            let changed = change(item.clone(), &format!("{}[{index}]", join(path, key)))?;
            Ok(changed.map(Bound::into_any))
        })?;
        match changed {
            Some(changed) => self.set(key, changed),
            None => Ok(()),
        }
    }

    /// The changed dict, if it was changed.
    fn changed(self) -> Option<Bound<'py, PyDict>> {
        self.own.then_some(self.dict)
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// The text of a str.
fn text_of(value: Option<&Bound<'_, PyAny>>) -> Option<String> {
    let text = value?.cast::<PyString>().ok()?;
    text.to_str().ok().map(str::to_owned)
}
