//! The few AG-UI shapes that differ between JSON and protobuf.
//!
//! - What all events have (`timestamp`, `rawEvent`, `metadata`) is a message of its own in each
//!   event; see `Encoder::base_event` and `Decoder::event`.
//! - A content part and a source name their kind in `type`; in protobuf it is the arm of a oneof.
//! - `content` of a message or a tool result is a string, a list or an object; in protobuf three
//!   fields.
//! - `outcome` of a run or a subagent is an object; in protobuf its members lie flat in the event.
//! - `op` of a patch operation is a name; in protobuf an enum.
//! - A legacy `binary` part travels as a document.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::decode::{Bad, Decoded, Decoder, FIELDS, Fields};
use super::encode::{Encoder, fault};
use super::layout::{Layout, Place, Slots, layouts};
use super::schema::{Kind, Message};
use super::table::{
    INPUT_CONTENT, INPUT_CONTENT_SOURCE, Id, JSON_PATCH_OPERATION_TYPE, MESSAGE,
    RUN_FINISHED_EVENT, SUBAGENT_FINISHED_EVENT, TOOL_CALL_RESULT_EVENT,
};
use crate::capi::{self, Text};
use crate::errors::Step;
use crate::json::Stop;

const ROLE: usize = MESSAGE.position("role");
const CONTENT: usize = MESSAGE.position("content");
const CONTENT_PARTS: usize = MESSAGE.position("content_parts");
const ACTIVITY_CONTENT: usize = MESSAGE.position("activity_content");

const RESULT_CONTENT: usize = TOOL_CALL_RESULT_EVENT.position("content");
const RESULT_PARTS: usize = TOOL_CALL_RESULT_EVENT.position("content_parts");
/// A place behind the fields of a tool result, which is never an object.
const NO_FIELD: usize = FIELDS - 1;

const RUN_OUTCOME: usize = RUN_FINISHED_EVENT.position("outcome");
const INTERRUPTS: usize = RUN_FINISHED_EVENT.position("interrupts");
const PENDING: usize = RUN_FINISHED_EVENT.position("pending_tool_call_ids");

const SUBAGENT_OUTCOME: usize = SUBAGENT_FINISHED_EVENT.position("outcome");
const INTERRUPT_IDS: usize = SUBAGENT_FINISHED_EVENT.position("interrupt_ids");

// What the table has of the shapes, by the message that holds them.

/// The slot for a key of the JSON object that this message carries.
pub fn slot(message: &Message, key: &str) -> Option<usize> {
    let at = message.fields.iter().position(|field| field.key_text() == key)?;
    let in_json = match message.id {
        Id::Message => !matches!(at, CONTENT_PARTS | ACTIVITY_CONTENT),
        Id::ToolCallResultEvent => at != RESULT_PARTS,
        Id::RunFinishedEvent => !matches!(at, INTERRUPTS | PENDING),
        Id::SubagentFinishedEvent => at != INTERRUPT_IDS,
        _ => message.fields[at].name != "base_event",
    };
    in_json.then_some(at)
}

/// The slot of the event for a key of its `outcome`.
pub fn outcome_slot(message: &Message, key: &str) -> Option<usize> {
    match (message.id, key) {
        (Id::RunFinishedEvent, "type") => Some(RUN_OUTCOME),
        (Id::RunFinishedEvent, "interrupts") => Some(INTERRUPTS),
        (Id::RunFinishedEvent, "pendingToolCallIds") => Some(PENDING),
        (Id::SubagentFinishedEvent, "type") => Some(SUBAGENT_OUTCOME),
        (Id::SubagentFinishedEvent, "interruptIds") => Some(INTERRUPT_IDS),
        _ => None,
    }
}

/// Whether the event that this message carries has an `outcome` that lies flat in it.
pub fn has_outcome(message: &Message) -> bool {
    matches!(message.id, Id::RunFinishedEvent | Id::SubagentFinishedEvent)
}

/// What the objects in a slot are declared to be.
pub fn inner(message: &'static Message, slot: usize) -> Option<&'static Message> {
    match (message.id, slot) {
        (Id::Message, CONTENT) | (Id::ToolCallResultEvent, RESULT_CONTENT) => Some(&INPUT_CONTENT),
        (Id::RunFinishedEvent, RUN_OUTCOME) | (Id::SubagentFinishedEvent, SUBAGENT_OUTCOME) => {
            Some(message)
        }
        _ => match message.fields[slot].kind {
            Kind::Message(inner) => Some(inner),
            _ => None,
        },
    }
}

/// The key under which JSON has a field, for saying where something is.
pub fn key(message: &Message, slot: usize) -> &'static str {
    match (message.id, slot) {
        (Id::Message, CONTENT_PARTS | ACTIVITY_CONTENT)
        | (Id::ToolCallResultEvent, RESULT_PARTS) => "content",
        (Id::RunFinishedEvent, RUN_OUTCOME) | (Id::SubagentFinishedEvent, SUBAGENT_OUTCOME) => {
            "outcome.type"
        }
        (Id::RunFinishedEvent, INTERRUPTS) => "outcome.interrupts",
        (Id::RunFinishedEvent, PENDING) => "outcome.pendingToolCallIds",
        (Id::SubagentFinishedEvent, INTERRUPT_IDS) => "outcome.interruptIds",
        _ => message.fields[slot].key_text(),
    }
}

/// How many objects JSON has between the one that this message carries and the field.
pub fn levels(message: &Message, slot: usize) -> u32 {
    u32::from(matches!(
        (message.id, slot),
        (Id::RunFinishedEvent, INTERRUPTS | PENDING) | (Id::SubagentFinishedEvent, INTERRUPT_IDS)
    ))
}

/// Which form of `content` the messages of a role have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ContentForm {
    Str,
    StrOrParts,
    Object,
    /// A role that is not known may have any.
    Any,
}

fn form(role: &[u8]) -> ContentForm {
    match role {
        b"developer" | b"system" | b"assistant" | b"reasoning" => ContentForm::Str,
        b"user" | b"tool" => ContentForm::StrOrParts,
        b"activity" => ContentForm::Object,
        _ => ContentForm::Any,
    }
}

// Encoding.

/// How an object is to be read that says it is of another kind than those that are known here,
/// given how one of the known kinds is.
pub fn other(known: &Layout) -> Option<Layout> {
    let tag = known.info.tag_text();
    let keeps: fn(&Place) -> bool = match known.message.id {
        // A role that is not known, or none: the message is carried all the same. An assistant
        // message is the one whose content may be missing.
        Id::Message if tag == Some("assistant") => |_| true,
        Id::JsonPatchOperation => |_| true,
        // Of an outcome that is not known, its name is.
        Id::RunFinishedEvent => |place| *place == Place::Slot(RUN_OUTCOME as u8),
        Id::SubagentFinishedEvent => |place| *place == Place::Slot(SUBAGENT_OUTCOME as u8),
        _ => return None,
    };
    let kept = |place: &Place| if keeps(place) { *place } else { Place::Nowhere };
    Some(Layout { places: known.places.iter().map(kept).collect(), ..*known })
}

/// Whether an object with this tag has a place where it is of no known kind.
pub fn admits(other: &Layout, tag: Option<&Bound<'_, PyAny>>) -> bool {
    match other.message.id {
        Id::JsonPatchOperation => tag.is_some_and(|op| op_number(op).is_some()),
        _ => true,
    }
}

/// What became of an object that has no place.
pub fn unplaced(message: &Message) -> &'static str {
    match message.id {
        Id::JsonPatchOperation => "the protobuf wire has no such operation; left out",
        _ => "the protobuf wire has no such part; left out",
    }
}

/// A legacy `binary` part as the document that carries it, if this is one.
pub fn modern<'py>(part: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let py = part.py();
    let part = part.cast_exact::<PyDict>().ok()?;
    let get = |key: &str| part.get_item(key).ok().flatten().filter(|value| !value.is_none());
    if !get("type")?.eq(intern!(py, "binary")).ok()? {
        return None;
    }
    let filled = |key: &str| get(key).filter(|value| value.is_truthy().unwrap_or(false));
    let (kind, value) = match (filled("data"), filled("url"), filled("id")) {
        (Some(data), _, _) => ("data", data),
        (_, Some(url), _) => ("url", url),
        (_, _, id) => ("url", id?),
    };
    let document = || -> PyResult<_> {
        let source = PyDict::new(py);
        source.set_item("type", kind)?;
        source.set_item("value", value)?;
        if let Some(mime_type) = get("mimeType").or_else(|| get("mime_type")) {
            source.set_item("mimeType", mime_type)?;
        }
        let metadata = PyDict::new(py);
        metadata.set_item("legacyBinary", true)?;
        for key in ["filename", "id"] {
            if let Some(value) = get(key) {
                metadata.set_item(key, value)?;
            }
        }
        let document = PyDict::new(py);
        document.set_item("type", "document")?;
        document.set_item("source", source)?;
        document.set_item("metadata", metadata)?;
        Ok(document.into_any())
    };
    document().ok()
}

/// The number of a patch operation's name. A number that a decoder did not know is a name, too:
/// its decimal digits.
pub fn op_number(op: &Bound<'_, PyAny>) -> Option<i32> {
    let Text::Ascii(name) = capi::text(op.cast_exact::<PyString>().ok()?) else { return None };
    let lower = name.iter().all(|byte| !byte.is_ascii_uppercase());
    let is_named = |known: &&'static str| lower && known.as_bytes().eq_ignore_ascii_case(name);
    match JSON_PATCH_OPERATION_TYPE.iter().position(is_named) {
        Some(at) => i32::try_from(at).ok(),
        None => {
            let number: i32 = str::from_utf8(name).ok()?.parse().ok()?;
            (number.to_string().as_bytes() == name).then_some(number)
        }
    }
}

/// Moves what was read of an object from where JSON has it to where protobuf has it. False if the
/// object has no place in protobuf.
#[inline]
pub fn settle<'py>(
    encoder: &mut Encoder<'_, 'py>,
    message: &'static Message,
    slots: &mut Slots<'py>,
) -> Result<bool, Stop> {
    match message.id {
        Id::Message => {
            let form = match slots[ROLE].as_ref().map(|role| role.cast_exact::<PyString>()) {
                Some(Ok(role)) => match capi::text(role) {
                    Text::Ascii(role) => form(role),
                    _ => ContentForm::Any,
                },
                _ => ContentForm::Any,
            };
            split_content(encoder, form, slots, [CONTENT, CONTENT_PARTS, ACTIVITY_CONTENT])?;
        }
        Id::ToolCallResultEvent => {
            let content = [RESULT_CONTENT, RESULT_PARTS, RESULT_PARTS];
            split_content(encoder, ContentForm::StrOrParts, slots, content)?;
        }
        Id::RunFinishedEvent => flatten(encoder, message, RUN_OUTCOME, slots)?,
        Id::SubagentFinishedEvent => flatten(encoder, message, SUBAGENT_OUTCOME, slots)?,
        Id::ImageInputPart | Id::AudioInputPart | Id::VideoInputPart | Id::DocumentInputPart => {
            return Ok(has_known_source(message, slots));
        }
        _ => {}
    }
    Ok(true)
}

/// `content`, by what it is: a string, a list of parts or an object, as the role allows.
fn split_content<'py>(
    encoder: &Encoder<'_, 'py>,
    form: ContentForm,
    slots: &mut Slots<'py>,
    [content, parts, object]: [usize; 3],
) -> Result<(), Stop> {
    let Some(value) = &slots[content] else { return Ok(()) };
    let (to, forms): (_, &[ContentForm]) = if capi::is_exact_str(value) {
        (content, &[ContentForm::Str, ContentForm::StrOrParts, ContentForm::Any])
    } else if capi::is_exact_list(value) || capi::is_exact_tuple(value) {
        (parts, &[ContentForm::StrOrParts, ContentForm::Any])
    } else if capi::is_exact_dict(value) {
        (object, &[ContentForm::Object, ContentForm::Any])
    } else if value.is_none() && form == ContentForm::Any {
        slots[content] = None;
        return Ok(());
    } else {
        (content, &[])
    };
    if !forms.contains(&form) {
        let expected = match form {
            ContentForm::Str => "a str",
            ContentForm::StrOrParts => "a str or a list",
            ContentForm::Object => "an object",
            ContentForm::Any => "a str, a list or an object",
        };
        let unfit: Result<(), Stop> = encoder.unfit(expected, value);
        return unfit.map_err(|stop| stop.inside(Step::Key("content".into())));
    }
    let value = slots[content].take();
    slots[to] = value;
    Ok(())
}

/// The members of `outcome` into the slots of the event.
fn flatten<'py>(
    encoder: &mut Encoder<'_, 'py>,
    message: &'static Message,
    outcome: usize,
    slots: &mut Slots<'py>,
) -> Result<(), Stop> {
    let Some(value) = slots[outcome].take() else { return Ok(()) };
    let inside = |stop: Stop| stop.inside(Step::Key("outcome".into()));
    let mark = encoder.mark();
    let choice = layouts(value.py()).choice(message);
    encoder.fill(choice, &value, slots).map_err(inside)?;
    encoder.below(mark, || Step::Key("outcome".into()));
    // The empty name is how protobuf says that there is no outcome.
    let empty = |name: &Bound<'py, PyAny>| name.eq(intern!(name.py(), "")).unwrap_or(false);
    if slots[outcome].as_ref().is_none_or(empty) {
        return Err(inside(fault("an outcome has a \"type\" that is not empty")));
    }
    Ok(())
}

/// Whether the source of a media part, if it has one, is of a kind that can be carried. A part
/// is of no use without.
fn has_known_source(message: &Message, slots: &Slots<'_>) -> bool {
    let source = message.position("source");
    let Some(dict) = slots[source].as_ref().and_then(|it| it.cast_exact::<PyDict>().ok()) else {
        return true;
    };
    layouts(dict.py()).choice(&INPUT_CONTENT_SOURCE).of_wire(dict).is_some()
}

// Decoding.

/// Puts what was read of a message, from the field at `first` on, into the dict of the object that
/// it carries.
#[inline]
pub fn restore<'py>(
    decoder: &mut Decoder<'py>,
    message: &'static Message,
    raw: &Fields<'_, 'py>,
    first: usize,
    object: &Bound<'py, PyDict>,
    depth: u32,
) -> Decoded<()> {
    match message.id {
        Id::Message => {
            let role = raw[ROLE].bytes().unwrap_or_default();
            let content = content(raw, form(role), CONTENT, CONTENT_PARTS, ACTIVITY_CONTENT)?;
            for at in first..message.fields.len() {
                match at {
                    CONTENT => join(decoder, message, raw, object, depth, content)?,
                    CONTENT_PARTS | ACTIVITY_CONTENT => {}
                    _ => decoder.put(message, at, raw, object, depth)?,
                }
            }
        }
        Id::ToolCallResultEvent => {
            let content =
                content(raw, ContentForm::StrOrParts, RESULT_CONTENT, RESULT_PARTS, NO_FIELD)?;
            for at in first..message.fields.len() {
                match at {
                    RESULT_CONTENT => join(decoder, message, raw, object, depth, content)?,
                    RESULT_PARTS => {}
                    _ => decoder.put(message, at, raw, object, depth)?,
                }
            }
        }
        Id::RunFinishedEvent => {
            let members = [(INTERRUPTS, "interrupt"), (PENDING, "")];
            unflatten(decoder, message, raw, object, depth, RUN_OUTCOME, &members)?;
        }
        Id::SubagentFinishedEvent => {
            let members = [(INTERRUPT_IDS, "")];
            unflatten(decoder, message, raw, object, depth, SUBAGENT_OUTCOME, &members)?;
        }
        _ => {
            for at in first..message.fields.len() {
                decoder.put(message, at, raw, object, depth)?;
            }
        }
    }
    Ok(())
}

/// Which of the three fields holds `content`. The role's own form, or what there is of a role
/// that is not known; never several.
fn content(
    raw: &Fields<'_, '_>,
    form: ContentForm,
    string: usize,
    parts: usize,
    object: usize,
) -> Decoded<Option<usize>> {
    let allowed: &[usize] = match form {
        ContentForm::Str => &[string],
        ContentForm::StrOrParts => &[string, parts],
        ContentForm::Object => &[object],
        ContentForm::Any => &[string, parts, object],
    };
    let mut present = [string, parts, object].into_iter().filter(|&at| raw[at].is_present());
    let found = present.next();
    if present.next().is_some() {
        return Err(Bad::new("more than one form of content"));
    }
    match found {
        Some(at) if !allowed.contains(&at) => {
            Err(Bad::new("a form of content that the role does not have"))
        }
        // No parts are an empty list of them.
        None if form == ContentForm::StrOrParts => Ok(Some(parts)),
        found => Ok(found),
    }
}

/// Sets `content` from the field that holds it.
fn join<'py>(
    decoder: &mut Decoder<'py>,
    message: &'static Message,
    raw: &Fields<'_, 'py>,
    object: &Bound<'py, PyDict>,
    depth: u32,
    from: Option<usize>,
) -> Decoded<()> {
    let Some(from) = from else { return Ok(()) };
    let inside = |bad: Box<Bad>| bad.inside(Step::Key("content".into()));
    if let Some(value) =
        decoder.value_of(&message.fields[from], &raw[from], depth).map_err(inside)?
    {
        object.set_item(intern!(object.py(), "content"), value)?;
    }
    Ok(())
}

/// The fields of an event, with those that lie flat in it back in its `outcome`. Each member is
/// named with the outcome that has it also when it is empty.
fn unflatten<'py>(
    decoder: &mut Decoder<'py>,
    message: &'static Message,
    raw: &Fields<'_, 'py>,
    object: &Bound<'py, PyDict>,
    depth: u32,
    outcome: usize,
    members: &[(usize, &str)],
) -> Decoded<()> {
    let py = object.py();
    let name = raw[outcome].bytes().unwrap_or_default();
    // Members without an outcome are put where they lie, for enforcement to object.
    let inner = if name.is_empty() { object.clone() } else { PyDict::new(py) };
    for at in 1..message.fields.len() {
        if at == outcome {
            if !name.is_empty() {
                inner.set_item(intern!(py, "type"), decoder.string(name)?)?;
                object.set_item(intern!(py, "outcome"), &inner)?;
            }
            continue;
        }
        match members.iter().find(|(member, _)| *member == at) {
            None => decoder.put(message, at, raw, object, depth)?,
            Some((_, owner))
                if raw[at].is_present() || owner.as_bytes() == name && !name.is_empty() =>
            {
                decoder.put(message, at, raw, &inner, depth)?;
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Whether an empty list reads as absence.
pub fn empty_is_absent(message: &Message, slot: usize) -> bool {
    matches!(
        (message.id, message.fields[slot].name),
        (Id::Message, "tool_calls") | (Id::RunFinishedEvent | Id::RunErrorEvent, "usage")
    )
}

/// The name of an operation's number.
pub fn op_name(number: i32) -> String {
    let name = usize::try_from(number).ok().and_then(|it| JSON_PATCH_OPERATION_TYPE.get(it));
    name.map_or_else(|| number.to_string(), |name| name.to_ascii_lowercase())
}

/// Whether a part is a media part whose source is there but of no known kind. It is of no use.
pub fn lacks_source(message: &Message, object: &Bound<'_, PyDict>, raw: &Fields<'_, '_>) -> bool {
    let is_media = matches!(
        message.id,
        Id::ImageInputPart | Id::AudioInputPart | Id::VideoInputPart | Id::DocumentInputPart
    );
    is_media
        && raw[message.position("source")].is_present()
        && !object.contains(intern!(object.py(), "source")).unwrap_or(false)
}
