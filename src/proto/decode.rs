//! Decoding: one `ag_ui.Event` to a wire dict or a model of the SDK.
//!
//! Messages merge as protobuf says: the fields of a message are read whole before any of them is
//! looked into, a singular scalar that occurs again replaces the one before, a singular message
//! that occurs again is read as one with it (the concatenation of two messages is their merger).
//! So nothing is decoded twice, however often it occurs.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyList, PyString};

use super::encode::SAFE_INTEGER;
use super::schema::{Field, Kind, Label, Message};
use super::shape;
use super::table::{BASE_EVENT, EVENT, EVENT_TYPE, KEYS};
use super::wire::{Malformed, Reader, WireType, walk};
use crate::capi;
use crate::deviation::{Deviation, Reporter};
use crate::errors::{DecodeFault, Fault, NoEvent, Refused, Step, path};
use crate::event::{Form, ValidationError, build, registry};
use crate::json::{Loan, MAX_DEPTH};

/// Bytes that are no event.
#[derive(Debug)]
pub struct Bad {
    fault: Fault,
    /// The address of the byte where it shows, or 0.
    address: usize,
    /// It is well-formed, and of a type that is not known.
    unknown: bool,
}

pub type Decoded<T> = Result<T, Box<Bad>>;

impl Bad {
    #[cold]
    pub fn new(reason: impl Into<String>) -> Box<Self> {
        Box::new(Self { fault: Fault::new(reason), address: 0, unknown: false })
    }

    #[cold]
    fn at(reason: &str, bytes: &[u8]) -> Box<Self> {
        let mut bad = Self::new(reason);
        bad.address = bytes.as_ptr() as usize;
        bad
    }

    /// Says of it that it is below this step.
    #[cold]
    pub fn inside(mut self: Box<Self>, step: Step) -> Box<Self> {
        self.fault.steps.push(step);
        self
    }

    /// The same as a fault in these bytes.
    #[cold]
    fn into_fault(self, data: &[u8]) -> DecodeFault {
        let offset = self.address.wrapping_sub(data.as_ptr() as usize);
        let offset = (self.address != 0 && offset <= data.len()).then_some(offset as u64);
        let refused = if self.unknown { Refused::Unknown } else { Refused::Malformed };
        DecodeFault { refused, fault: self.fault, offset }
    }
}

impl From<Malformed> for Box<Bad> {
    #[cold]
    fn from(malformed: Malformed) -> Self {
        let mut bad = Bad::new(malformed.reason);
        bad.address = malformed.address;
        bad
    }
}

/// Python has failed to make an object: it is out of memory.
impl From<PyErr> for Box<Bad> {
    #[cold]
    fn from(error: PyErr) -> Self {
        let mut bad = Bad::new("Python could not make the object");
        bad.fault.cause = Some(error);
        bad
    }
}

/// What was read of one field.
pub enum Raw<'a, 'py> {
    Absent,
    Number(u64),
    Bytes(&'a [u8]),
    /// The occurrences of a singular message.
    Several(Vec<&'a [u8]>),
    List(Bound<'py, PyList>),
}

/// What was read of a message, by the index of the field.
pub type Fields<'a, 'py> = [Raw<'a, 'py>; FIELDS];

/// No message has more fields than this.
pub const FIELDS: usize = 14;

const fn no_fields<'a, 'py>() -> Fields<'a, 'py> {
    [const { Raw::Absent }; FIELDS]
}

impl<'a> Raw<'a, '_> {
    pub fn is_present(&self) -> bool {
        !matches!(self, Self::Absent)
    }

    /// The bytes of a string.
    pub fn bytes(&self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// One event in the spelling asked for. What is not known in it is dropped, and reported.
pub fn decode<'py>(
    py: Python<'py>,
    data: &[u8],
    spelling: Form,
    reporter: &Reporter,
) -> Result<Bound<'py, PyAny>, NoEvent> {
    let mut decoder = Decoder::new(py);
    let dict = decoder.event(data).map_err(|bad| bad.into_fault(data))?;
    if !decoder.lost.is_empty() {
        decoder.report(&dict, reporter)?;
    }
    let kind = registry().kind_of(&dict);
    build::event(dict, spelling).map_err(|error| match ValidationError::of(py, &error) {
        Some(refusal) => {
            let fault = refusal.into_fault(kind, error);
            DecodeFault { refused: Refused::Malformed, fault, offset: None }.into()
        }
        None => error.into(),
    })
}

/// So many dropped parts of one event are reported each, and the rest as a number: two bytes of a peer
/// are enough for one.
const MOST_REPORTED: usize = 100;

/// The state of one decoding.
pub struct Decoder<'py> {
    pub py: Python<'py>,
    /// The paths of what is not known and was dropped, innermost step first: the first
    /// [`MOST_REPORTED`] of them.
    lost: Vec<Vec<Step>>,
    /// How many more there were.
    more_lost: usize,
    /// With the names that members of objects had before.
    loan: Loan,
    /// The items of the arrays that are being read, those of the innermost last.
    pub items: Vec<Bound<'py, PyAny>>,
}

impl<'py> Decoder<'py> {
    fn new(py: Python<'py>) -> Self {
        Self { py, lost: Vec::new(), more_lost: 0, loan: Loan::default(), items: Vec::new() }
    }

    fn event(&mut self, data: &[u8]) -> Decoded<Bound<'py, PyDict>> {
        let (arm, payload) = envelope(data)?;
        let Kind::Message(message) = EVENT.fields[arm].kind else {
            return Err(Bad::new("an arm that is no message"));
        };
        match payload {
            Payload::Whole(bytes) => self.arm(arm, message, bytes),
            Payload::Parts(parts) => self.arm(arm, message, &parts.concat()),
        }
    }

    fn arm(
        &mut self,
        arm: usize,
        message: &'static Message,
        bytes: &[u8],
    ) -> Decoded<Bound<'py, PyDict>> {
        let mut fields = no_fields();
        self.fields(message, bytes, 1, &mut fields)?;
        let object = PyDict::new(self.py);
        match &fields[0] {
            Raw::Bytes(base) => self.base_event(arm, base, &object)?,
            Raw::Several(parts) => self.base_event(arm, &parts.concat(), &object)?,
            _ => return Err(Bad::at("an event without a base event", bytes)),
        }
        shape::restore(self, message, &fields, 1, &object, 1)?;
        Ok(object)
    }

    /// What all events have, its type first.
    fn base_event(&mut self, arm: usize, bytes: &[u8], event: &Bound<'py, PyDict>) -> Decoded<()> {
        let name = &names(self.py)?.events[arm];
        let object = name.object.bind(self.py);
        let registry = registry();
        // A type and nothing else, as nearly every event has it.
        let only_type = match bytes {
            [] => Some(0),
            [0x08, number @ 0..0x80] => Some(u64::from(*number)),
            _ => None,
        };
        if let Some(declared) = only_type {
            name.check(declared, bytes)?;
            event.set_item(registry.type_key.bind(self.py), object)?;
            return Ok(());
        }
        let mut fields = no_fields();
        self.fields(&BASE_EVENT, bytes, 1, &mut fields)?;
        name.check(if let Raw::Number(declared) = fields[0] { declared } else { 0 }, bytes)?;
        event.set_item(registry.type_key.bind(self.py), object)?;
        for at in 1..BASE_EVENT.fields.len() {
            self.put(&BASE_EVENT, at, &fields, event, 1)?;
        }
        Ok(())
    }

    /// Reads the fields of a message. Repeated ones are decoded at once, the others when it is
    /// known how often they occur.
    fn fields<'a>(
        &mut self,
        message: &'static Message,
        bytes: &'a [u8],
        depth: u32,
        fields: &mut Fields<'a, 'py>,
    ) -> Decoded<()> {
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let (number, wire_type) = reader.tag()?;
            let Some(at) = message.find(number) else {
                reader.skip(number, wire_type)?;
                continue;
            };
            let field = &message.fields[at];
            let takes_bytes =
                matches!(field.kind, Kind::Str | Kind::Value | Kind::Struct | Kind::Message(_));
            match wire_type {
                WireType::Len if takes_bytes => {
                    let payload = reader.payload()?;
                    if field.label == Label::Repeated {
                        self.append(message, at, payload, &mut fields[at], depth)?;
                    } else {
                        self.meet(field, payload, &mut fields[at])?;
                    }
                }
                WireType::Varint if !takes_bytes => fields[at] = Raw::Number(reader.varint()?),
                // Not what the field is made of: for protobuf this is an unknown field.
                _ => reader.skip(number, wire_type)?,
            }
        }
        Ok(())
    }

    /// One occurrence of a field that is not repeated.
    #[inline]
    fn meet<'a>(&self, field: &Field, payload: &'a [u8], raw: &mut Raw<'a, 'py>) -> Decoded<()> {
        *raw = match std::mem::replace(raw, Raw::Absent) {
            Raw::Bytes(first) if matches!(field.kind, Kind::Str) => {
                // Replaced, but it has to be text all the same.
                self.string(first)?;
                Raw::Bytes(payload)
            }
            Raw::Bytes(first) => Raw::Several(vec![first, payload]),
            Raw::Several(mut parts) => {
                parts.push(payload);
                Raw::Several(parts)
            }
            _ => Raw::Bytes(payload),
        };
        Ok(())
    }

    /// One item of a repeated field.
    fn append(
        &mut self,
        message: &'static Message,
        at: usize,
        payload: &[u8],
        raw: &mut Raw<'_, 'py>,
        depth: u32,
    ) -> Decoded<()> {
        if !raw.is_present() {
            *raw = Raw::List(PyList::empty(self.py));
        }
        let Raw::List(list) = raw else { return Ok(()) };
        let field = &message.fields[at];
        let Kind::Message(inner) = field.kind else {
            list.append(self.string(payload).map_err(|bad| inside_list(bad, message, at, list))?)?;
            return Ok(());
        };
        let (mark, index) = (self.lost.len(), list.len());
        let depth = depth + 2 + shape::levels(message, at);
        let item = self.object(inner, payload, depth);
        match item.map_err(|bad| inside_list(bad, message, at, list))? {
            Some(item) => list.append(item)?,
            None if self.lost.len() < MOST_REPORTED => self.lost.push(Vec::new()),
            None => self.more_lost += 1,
        }
        for lost in &mut self.lost[mark..] {
            lost.push(Step::Index(index));
            lost.push(Step::Key(shape::key(message, at).into()));
        }
        Ok(())
    }

    /// The object that a message carries. `None` if it has none of the known arms.
    pub fn object(
        &mut self,
        message: &'static Message,
        bytes: &[u8],
        depth: u32,
    ) -> Decoded<Option<Bound<'py, PyDict>>> {
        if depth > MAX_DEPTH {
            return Err(too_deep(bytes));
        }
        if message.union {
            return self.union(message, bytes, depth);
        }
        let object = PyDict::new(self.py);
        self.members(message, bytes, &object, depth)?;
        Ok(Some(object))
    }

    /// Puts the fields of a message into the dict of the object that it carries. False if the
    /// object is of no use to anyone.
    fn members(
        &mut self,
        message: &'static Message,
        bytes: &[u8],
        object: &Bound<'py, PyDict>,
        depth: u32,
    ) -> Decoded<bool> {
        let mut fields = no_fields();
        self.fields(message, bytes, depth, &mut fields)?;
        shape::restore(self, message, &fields, 0, object, depth)?;
        Ok(!shape::lacks_source(message, object, &fields))
    }

    /// The object that the one arm of a oneof carries, named by the arm.
    fn union(
        &mut self,
        message: &'static Message,
        bytes: &[u8],
        depth: u32,
    ) -> Decoded<Option<Bound<'py, PyDict>>> {
        let mut fields = no_fields();
        self.fields(message, bytes, depth, &mut fields)?;
        let mut arms = message.fields.iter().zip(&fields).filter(|(_, raw)| raw.is_present());
        let Some((arm, raw)) = arms.next() else { return Ok(None) };
        if arms.next().is_some() {
            return Err(Bad::at("more than one kind at once", bytes));
        }
        let Kind::Message(inner) = arm.kind else { return Ok(None) };
        let object = PyDict::new(self.py);
        object.set_item(intern!(self.py, "type"), self.key(arm)?)?;
        let useful = match raw {
            Raw::Several(parts) => self.members(inner, &parts.concat(), &object, depth)?,
            raw => self.members(inner, raw.bytes().unwrap_or_default(), &object, depth)?,
        };
        Ok(useful.then_some(object))
    }

    /// Sets the key of a field, if the field has a value.
    #[inline]
    pub fn put(
        &mut self,
        message: &'static Message,
        at: usize,
        fields: &Fields<'_, 'py>,
        object: &Bound<'py, PyDict>,
        depth: u32,
    ) -> Decoded<()> {
        let field = &message.fields[at];
        let raw = &fields[at];
        if !raw.is_present()
            && (field.label == Label::Optional || shape::empty_is_absent(message, at))
        {
            return Ok(());
        }
        let mark = self.lost.len();
        let value = self.value_of(field, raw, depth);
        let value = value.map_err(|bad| bad.inside(Step::Key(shape::key(message, at).into())))?;
        if self.lost.len() > mark && !matches!(raw, Raw::List(_)) {
            for lost in &mut self.lost[mark..] {
                lost.push(Step::Key(shape::key(message, at).into()));
            }
        }
        if let Some(value) = value {
            object.set_item(self.key(field)?, value)?;
        }
        Ok(())
    }

    /// The value of a field. Of one that is absent, its default.
    #[inline]
    pub fn value_of(
        &mut self,
        field: &Field,
        raw: &Raw<'_, 'py>,
        depth: u32,
    ) -> Decoded<Option<Bound<'py, PyAny>>> {
        match (raw, field.kind) {
            (Raw::List(list), _) => Ok(Some(list.clone().into_any())),
            (Raw::Absent, _) if field.label == Label::Repeated => {
                Ok(Some(PyList::empty(self.py).into_any()))
            }
            (Raw::Absent, Kind::Str) => Ok(Some(intern!(self.py, "").clone().into_any())),
            (Raw::Bytes(bytes), Kind::Str) => self.string(bytes).map(Some),
            (Raw::Bytes(bytes), _) => self.singular(field, bytes, depth),
            (Raw::Several(parts), _) => self.singular(field, &parts.concat(), depth),
            (Raw::Number(number), Kind::Bool) => {
                Ok(Some(PyBool::new(self.py, *number != 0).to_owned().into_any()))
            }
            (Raw::Number(number), Kind::Int64) => self.integer(number.cast_signed()).map(Some),
            (Raw::Number(number), Kind::Enum) => Ok(Some(self.op(*number as i32))),
            (Raw::Absent, Kind::Enum) => Ok(Some(self.op(0))),
            _ => Ok(None),
        }
    }

    fn singular(
        &mut self,
        field: &Field,
        bytes: &[u8],
        depth: u32,
    ) -> Decoded<Option<Bound<'py, PyAny>>> {
        match field.kind {
            Kind::Value => self.value(bytes, depth),
            Kind::Struct => self.structure(bytes, depth + 1).map(Some),
            Kind::Message(message) => {
                Ok(self.object(message, bytes, depth + 1)?.map(Bound::into_any))
            }
            _ => Ok(None),
        }
    }

    fn integer(&self, value: i64) -> Decoded<Bound<'py, PyAny>> {
        if value.unsigned_abs() > SAFE_INTEGER.unsigned_abs() {
            return Err(Bad::new(format!("{value} is not within +/-(2^53-1)")));
        }
        Ok(value.into_pyobject(self.py).map_err(PyErr::from)?.into_any())
    }

    fn op(&self, number: i32) -> Bound<'py, PyAny> {
        PyString::intern(self.py, &shape::op_name(number)).into_any()
    }

    /// The text of a string.
    #[inline]
    pub fn string(&self, bytes: &[u8]) -> Decoded<Bound<'py, PyAny>> {
        if bytes.is_ascii() {
            return Ok(capi::ascii_str(self.py, bytes)?);
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(capi::utf8_str(self.py, text.as_bytes())?),
            Err(_) => Err(not_utf8(bytes)),
        }
    }

    /// The name of an object's member, which is likely to repeat.
    #[inline]
    pub fn name(&mut self, name: &[u8]) -> Decoded<Bound<'py, PyAny>> {
        let keys = &mut self.loan.workspace().keys;
        if let Some(key) = keys.expected(self.py, |expected| capi::same_bytes(expected, name)) {
            return Ok(key.into_any());
        }
        if name.is_ascii() { Ok(keys.get(self.py, name)?.into_any()) } else { self.string(name) }
    }

    fn key(&self, field: &Field) -> Decoded<&Bound<'py, PyString>> {
        Ok(names(self.py)?.keys[usize::from(field.key)].bind(self.py))
    }

    /// Tells the user what was dropped. This runs Python code.
    #[cold]
    fn report(&mut self, event: &Bound<'py, PyDict>, reporter: &Reporter) -> PyResult<()> {
        let event_type = event.get_item(intern!(self.py, "type"))?;
        let event_type: Option<String> = event_type.and_then(|it| it.extract().ok());
        for steps in std::mem::take(&mut self.lost) {
            let deviation = Deviation {
                kind: "unknown_member".to_owned(),
                event_type: event_type.clone(),
                path: path(&steps),
                detail: "a part of a type that is not known; dropped".to_owned(),
            };
            reporter.report(self.py, deviation)?;
        }
        if self.more_lost > 0 {
            let deviation = Deviation {
                kind: "unknown_member".to_owned(),
                event_type,
                path: String::new(),
                detail: format!("{} more parts of unknown types; dropped", self.more_lost),
            };
            reporter.report(self.py, deviation)?;
        }
        Ok(())
    }
}

#[cold]
fn inside_list(bad: Box<Bad>, message: &Message, at: usize, list: &Bound<'_, PyList>) -> Box<Bad> {
    bad.inside(Step::Index(list.len())).inside(Step::Key(shape::key(message, at).into()))
}

#[cold]
pub fn too_deep(bytes: &[u8]) -> Box<Bad> {
    Bad::at(&format!("nested deeper than {MAX_DEPTH} levels"), bytes)
}

#[cold]
fn not_utf8(bytes: &[u8]) -> Box<Bad> {
    let valid = str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len);
    Bad::at("text that is not UTF-8", &bytes[valid..])
}

/// The bytes of an event inside its envelope.
enum Payload<'a> {
    Whole(&'a [u8]),
    Parts(Vec<&'a [u8]>),
}

/// The one known arm of the envelope, by its index.
fn envelope(data: &[u8]) -> Decoded<(usize, Payload<'_>)> {
    let mut reader = Reader::new(data);
    let mut known: Option<usize> = None;
    let mut found: Option<Payload<'_>> = None;
    let mut unknown = 0;
    let mut future = true;
    while !reader.is_empty() {
        let start = reader;
        let (number, wire_type) = reader.tag()?;
        if wire_type != WireType::Len {
            // All arms are messages: with another wire type the number of one is an unknown field.
            reader.skip(number, wire_type)?;
            continue;
        }
        let Some(arm) = EVENT.find(number) else {
            unknown += 1;
            future &= walk(reader.payload()?).is_ok();
            continue;
        };
        if known.is_some_and(|other| other != arm) {
            return Err(Bad::at("more than one event in one envelope", start.rest()));
        }
        known = Some(arm);
        let payload = reader.payload()?;
        found = Some(match found {
            None => Payload::Whole(payload),
            Some(Payload::Whole(first)) => Payload::Parts(vec![first, payload]),
            Some(Payload::Parts(mut parts)) => {
                parts.push(payload);
                Payload::Parts(parts)
            }
        });
    }
    match (known, found) {
        (Some(arm), Some(payload)) => Ok((arm, payload)),
        (None, _) if unknown > 0 && future => {
            let mut bad = Bad::new("an event of a type that this version does not know");
            bad.unknown = true;
            Err(bad)
        }
        _ => Err(Bad::at("an envelope without an event", data)),
    }
}

/// The objects for names that the table has.
struct Names {
    /// The keys, by their index.
    keys: Vec<Py<PyString>>,
    /// By the index of the arm.
    events: Vec<EventName>,
}

struct EventName {
    number: u64,
    text: &'static str,
    object: Py<PyString>,
}

impl EventName {
    /// Refuses an event that says it is of another type than its arm.
    #[inline]
    fn check(&self, declared: u64, base: &[u8]) -> Decoded<()> {
        if declared == self.number { Ok(()) } else { Err(self.mismatch(declared, base)) }
    }

    #[cold]
    fn mismatch(&self, declared: u64, base: &[u8]) -> Box<Bad> {
        let known = usize::try_from(declared).ok().and_then(|number| EVENT_TYPE.get(number));
        let reason = format!(
            "an event of {} says that it is of {}",
            self.text,
            known.copied().unwrap_or("an unknown type")
        );
        Bad::at(&reason, base).inside(Step::Key("type".into()))
    }
}

fn names(py: Python<'_>) -> PyResult<&'static Names> {
    static NAMES: PyOnceLock<Names> = PyOnceLock::new();
    capi::once(&NAMES, py, || {
        let keys = KEYS.iter().map(|key| PyString::intern(py, key).unbind()).collect();
        let mut events = Vec::new();
        for arm in EVENT.fields {
            let is_named = |name: &&'static str| name.eq_ignore_ascii_case(arm.name);
            let number = EVENT_TYPE.iter().position(is_named).unwrap_or(usize::MAX);
            let text = EVENT_TYPE.get(number).copied().unwrap_or("an unknown type");
            events.push(EventName {
                number: number as u64,
                text,
                object: PyString::intern(py, text).unbind(),
            });
        }
        Ok(Names { keys, events })
    })
}
