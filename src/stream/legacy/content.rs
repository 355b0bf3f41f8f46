//! Content parts: the retired `binary` part, and text alone for peers that know no parts.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::{Draft, Notes, text_of};
use crate::capi;
use crate::stream::quoted;

/// A `binary` part of before 0.0.48.
struct Binary<'py> {
    part: Bound<'py, PyDict>,
    /// What became of it, if it has data or a URL.
    modern: Option<Bound<'py, PyDict>>,
    filename: Option<String>,
}

impl<'py> Binary<'py> {
    fn of(part: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        let Ok(part) = part.cast::<PyDict>() else { return Ok(None) };
        let text = |key| PyResult::Ok(text_of(part.get_item(key)?.as_ref()));
        let (Some(kind), Some(mime_type)) = (text("type")?, text("mimeType")?) else {
            return Ok(None);
        };
        if kind != "binary" {
            return Ok(None);
        }
        let filename = text("filename")?.filter(|name| !name.is_empty());
        let mut modern = None;
        for (key, source_type) in [("data", "data"), ("url", "url")] {
            let Some(value) = part.get_item(key)? else { continue };
            if !value.is_truthy()? {
                continue;
            }
            let source = PyDict::new(part.py());
            source.set_item("type", source_type)?;
            source.set_item("value", value)?;
            source.set_item("mimeType", &mime_type)?;
            let converted = PyDict::new(part.py());
            converted.set_item("type", media(&mime_type))?;
            converted.set_item("source", source)?;
            if let Some(filename) = &filename {
                let metadata = PyDict::new(part.py());
                metadata.set_item("filename", filename)?;
                converted.set_item("metadata", metadata)?;
            }
            modern = Some(converted);
            break;
        }
        Ok(Some(Self { part: part.clone(), modern, filename }))
    }

    /// Whether another part of the message already says what this one was converted to.
    fn is_mirrored_by(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (Some(modern), Ok(other)) = (&self.modern, other.cast::<PyDict>()) else {
            return Ok(false);
        };
        let same = |a: &Bound<'_, PyDict>, b: &Bound<'_, PyDict>, key| -> PyResult<bool> {
            match (a.get_item(key)?, b.get_item(key)?) {
                (Some(a), Some(b)) => a.eq(b),
                _ => Ok(false),
            }
        };
        let dict = |of: &Bound<'_, PyDict>, key| -> PyResult<_> {
            Ok(of
                .get_item(key)?
                .and_then(|value| value.cast_into::<PyDict>().ok())
                .map(Bound::unbind))
        };
        let py = modern.py();
        let (Some(ours), Some(theirs)) = (dict(modern, "source")?, dict(other, "source")?) else {
            return Ok(false);
        };
        let (ours, theirs) = (ours.bind(py), theirs.bind(py));
        if !same(modern, other, "type")?
            || !same(ours, theirs, "type")?
            || !same(ours, theirs, "value")?
            || !same(ours, theirs, "mimeType")?
        {
            return Ok(false);
        }
        // The filename is data, too.
        let Some(filename) = &self.filename else { return Ok(true) };
        let metadata = dict(other, "metadata")?;
        let named = match &metadata {
            Some(metadata) => text_of(metadata.bind(py).get_item("filename")?.as_ref()),
            None => None,
        };
        Ok(named.as_ref() == Some(filename))
    }
}

/// The type of a part with this MIME type.
fn media(mime_type: &str) -> &'static str {
    match mime_type.split_once('/') {
        Some(("image", _)) => "image",
        Some(("audio", _)) => "audio",
        Some(("video", _)) => "video",
        _ => "document",
    }
}

/// A message without retired parts, if it has any.
pub fn upgrade<'py>(
    message: &Bound<'py, PyDict>,
    path: &str,
    notes: &mut Notes,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let mut draft = Draft::of(message);
    draft.each("content", path, |part, path| {
        let media = matches!(
            text_of(part.get_item("type")?.as_ref()).as_deref(),
            Some("image" | "audio" | "video" | "document")
        );
        if !media {
            return Ok(None);
        }
        let mut part = Draft::of(&part);
        part.omit_null("metadata", path, notes)?;
        Ok(part.changed())
    })?;
    let content = draft.get("content")?.and_then(|content| content.cast_into::<PyList>().ok());
    let Some(content) = content else { return Ok(draft.changed()) };
    let mut upgraded: Option<Bound<'py, PyList>> = None;
    for (index, part) in content.iter().enumerate() {
        let Some(binary) = Binary::of(&part)? else {
            if let Some(upgraded) = &upgraded {
                upgraded.append(part)?;
            }
            continue;
        };
        let upgraded = match &upgraded {
            Some(upgraded) => upgraded,
            None => upgraded.insert(capi::copy_list(&content, index)?),
        };
        let path = format!("{path}.content[{index}]");
        let Some(modern) = &binary.modern else {
            let id = binary.part.get_item("id")?;
            let id = id.as_ref().map_or_else(|| "none".to_owned(), quoted);
            notes.add(
                "legacy_kept",
                path,
                format!("a binary part with neither data nor a URL (id {id}) cannot be converted"),
            );
            upgraded.append(part)?;
            continue;
        };
        let mut mirrored = false;
        for other in &content {
            mirrored = mirrored || binary.is_mirrored_by(&other)?;
        }
        if mirrored {
            notes.add("legacy", path, "removed a binary part that repeats another part");
            continue;
        }
        if binary.part.contains("id")? {
            let detail = "the id of a binary part has no place in what it became";
            notes.add("legacy_loss", format!("{path}.id"), detail);
        }
        notes.add("legacy", path, "converted a retired binary part");
        upgraded.append(modern)?;
    }
    if let Some(upgraded) = upgraded {
        draft.set("content", upgraded)?;
    }
    Ok(draft.changed())
}

/// The text of a content list, for a peer that knows no parts. None if a part that says it is text
/// is malformed: a downgrade repairs nothing.
pub fn flatten<'py>(
    content: &Bound<'py, PyList>,
    path: &str,
    notes: &mut Notes,
) -> PyResult<Option<Bound<'py, PyString>>> {
    let py = content.py();
    let texts = PyList::empty(py);
    let mut dropped = Vec::new();
    for part in content {
        let kind = match part.cast::<PyDict>() {
            Ok(dict) => text_of(dict.get_item("type")?.as_ref()),
            Err(_) => None,
        };
        if kind.as_deref() != Some("text") {
            dropped.push(kind.unwrap_or_else(|| quoted(&part)));
            continue;
        }
        let text = part.get_item("text").ok().filter(PyAnyMethods::is_instance_of::<PyString>);
        let Some(text) = text else { return Ok(None) };
        texts.append(text)?;
    }
    if !dropped.is_empty() {
        let detail = format!("dropped parts that are no text: {}", dropped.join(", "));
        notes.add("downgrade_loss", path, detail);
    }
    let text = PyString::new(py, "").call_method1("join", (texts,))?;
    Ok(Some(text.cast_into()?))
}

/// What a message's content list is to a peer of before 1.0: it knows neither files that a provider
/// keeps nor kinds of parts that came later.
pub fn without_newer<'py>(
    content: &Bound<'py, PyList>,
    path: &str,
    notes: &mut Notes,
) -> PyResult<Option<Bound<'py, PyList>>> {
    let kept = PyList::empty(content.py());
    for (index, part) in content.iter().enumerate() {
        match newer(&part)? {
            Some(what) => {
                let detail = format!("the peer knows no {what}; dropped the part");
                notes.add("downgrade_loss", format!("{path}[{index}]"), detail);
            }
            None => kept.append(part)?,
        }
    }
    Ok((kept.len() < content.len()).then_some(kept))
}

/// What of a part a peer of before 1.0 does not know.
fn newer(part: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let Ok(part) = part.cast::<PyDict>() else { return Ok(None) };
    let Some(kind) = text_of(part.get_item("type")?.as_ref()) else { return Ok(None) };
    if !matches!(kind.as_str(), "text" | "image" | "audio" | "video" | "document" | "binary") {
        return Ok(Some(format!("{kind} parts")));
    }
    let source = part.get_item("source")?.and_then(|source| source.cast_into::<PyDict>().ok());
    let Some(source) = source else { return Ok(None) };
    let from = text_of(source.get_item("type")?.as_ref());
    Ok(from.filter(|from| from != "data" && from != "url").map(|from| format!("{from} sources")))
}
