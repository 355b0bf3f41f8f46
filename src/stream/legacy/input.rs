//! The input of a run in the shapes of before 1.0.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::{Draft, Notes, content, join};

/// The input in today's shapes, if it has any other.
pub fn upgrade<'py>(
    input: &Bound<'py, PyDict>,
    path: &str,
    notes: &mut Notes,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let mut draft = Draft::of(input);
    draft.omit_null("forwardedProps", path, notes)?;
    draft.omit_null("state", path, notes)?;
    draft.each("tools", path, |tool, path| {
        let mut tool = Draft::of(&tool);
        tool.omit_null("parameters", path, notes)?;
        Ok(tool.changed())
    })?;
    draft_resume(&mut draft, path, notes)?;
    draft.each("resume", path, |entry, path| {
        let mut entry = Draft::of(&entry);
        entry.omit_null("payload", path, notes)?;
        Ok(entry.changed())
    })?;
    draft.each("messages", path, |message, path| content::upgrade(&message, path, notes))?;
    Ok(draft.changed())
}

/// The resumption of the interrupt draft: one object that says nothing of a status, since an
/// interrupt could not be cancelled.
fn draft_resume(draft: &mut Draft<'_>, path: &str, notes: &mut Notes) -> PyResult<()> {
    let Some(resume) = draft.get("resume")? else { return Ok(()) };
    let Ok(resume) = resume.cast_into::<PyDict>() else { return Ok(()) };
    let entry = resume.copy()?;
    if !entry.contains("status")? {
        entry.set_item("status", "resolved")?;
    }
    notes.add("legacy", join(path, "resume"), "converted the resumption of the interrupt draft");
    draft.set("resume", PyList::new(resume.py(), [entry])?)
}
