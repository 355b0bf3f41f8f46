//! Encoding: an event in either spelling to one `ag_ui.Event`.

use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::borrow::Cow;
use std::cell::Cell;

use super::flat::{Flat, has_only_type};
use super::gather::Gather;
use super::layout::{
    Choice, Layout, METADATA, Place, RAW_EVENT, Slots, TIMESTAMP, layouts, no_slots,
};
use super::schema::{Field, Kind, Label, Message};
use super::shape;
use super::table::BASE_EVENT;
use super::wire::WireType;
use crate::capi;
use crate::deviation::{Deviation, Reporter};
use crate::errors::{
    AGUIError, EncodeError, Fault, Step, not_an_event_reason, path, qualified_class_name,
};
use crate::event::{Entry, EventType, Form, View, info_like, registry};
use crate::json::{self, EncodeOptions, MAX_DEPTH, Stop, Writer};

/// Why something was not gathered: it is for JSON to say what it is, or it has no place here.
pub type Gathered = Result<(), Stop>;

/// The integers that every reader of JSON has exactly: within +/-(2^53-1).
pub const SAFE_INTEGER: i64 = (1 << 53) - 1;

thread_local! {
    /// The buffers of the last call on this thread. They are taken while in use, so that a call
    /// from within a call has its own.
    static SCRATCH: Cell<Gather> = const { Cell::new(Gather::new()) };
}

/// Larger buffers are given back to the allocator after use.
const SCRATCH_LIMIT: usize = 1 << 20;

/// One event as bytes: with its length in front as four bytes, big-endian, if it is to be framed.
#[inline]
pub fn encode<'py>(
    py: Python<'py>,
    event: &Bound<'py, PyAny>,
    options: &EncodeOptions<'py>,
    framed: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    with_event(py, event, options, |message| {
        if !framed {
            return PyBytes::new_with(py, message.len(), |out| {
                message.write(out);
                Ok(())
            });
        }
        let prefix = message.frame_prefix()?;
        PyBytes::new_with(py, prefix.len() + message.len(), |out| {
            let (front, rest) = out.split_at_mut(prefix.len());
            front.copy_from_slice(&prefix);
            message.write(rest);
            Ok(())
        })
    })
}

/// Appends one event as a frame.
pub fn push_frame<'py>(
    py: Python<'py>,
    event: &Bound<'py, PyAny>,
    options: &EncodeOptions<'py>,
    out: &mut Vec<u8>,
) -> PyResult<()> {
    with_event(py, event, options, |message| {
        out.extend_from_slice(&message.frame_prefix()?);
        let start = out.len();
        out.resize(start + message.len(), 0);
        message.write(&mut out[start..]);
        Ok(())
    })
}

/// A message of which the size is known.
enum Sized<'a, 'py> {
    Flat(Flat<'py>),
    Gathered(&'a Gather),
}

impl Sized<'_, '_> {
    #[inline]
    fn len(&self) -> usize {
        match self {
            Self::Flat(flat) => flat.len(),
            Self::Gathered(gather) => gather.len(),
        }
    }

    /// Writes it into a place of its size.
    #[inline]
    fn write(&self, out: &mut [u8]) {
        match self {
            Self::Flat(flat) => flat.write(out),
            Self::Gathered(gather) => gather.write(out),
        }
    }

    fn frame_prefix(&self) -> PyResult<[u8; 4]> {
        match u32::try_from(self.len()) {
            Ok(len) => Ok(len.to_be_bytes()),
            Err(_) => Err(EncodeError::new_err("an event of more than 4 GiB has no frame")),
        }
    }
}

#[inline]
fn with_event<'py, T>(
    py: Python<'py>,
    event: &Bound<'py, PyAny>,
    options: &EncodeOptions<'py>,
    finish: impl FnOnce(Sized<'_, 'py>) -> PyResult<T>,
) -> PyResult<T> {
    if let Some(flat) = Flat::of(event, layouts(py)) {
        return finish(Sized::Flat(flat));
    }
    let mut encoder = Encoder::new(py, options);
    let mut slots = no_slots();
    let layout = encoder.read_event(event, &mut slots);
    encoder.out = SCRATCH.take();
    encoder.out.clear();
    let gathered = match layout.and_then(|layout| encoder.write_event(layout, &slots)) {
        Ok(()) => encoder.report(event),
        Err(stop) => encoder.again(event, stop),
    };
    let result = gathered.and_then(|()| finish(Sized::Gathered(&encoder.out)));
    if encoder.out.capacity() <= SCRATCH_LIMIT {
        SCRATCH.set(encoder.out);
    }
    result
}

/// The state of one encoding.
pub struct Encoder<'a, 'py> {
    py: Python<'py>,
    pub out: Gather,
    pub options: &'a EncodeOptions<'py>,
    /// How deep the JSON of what is being read nests, the event being the first level.
    pub depth: u32,
    /// The event has been through JSON and holds nothing but plain values.
    plain: bool,
    /// What has no place on this wire, with the steps to it, innermost first.
    lost: Vec<Lost>,
}

struct Lost {
    kind: &'static str,
    steps: Vec<Step>,
    detail: Cow<'static, str>,
}

impl<'a, 'py> Encoder<'a, 'py> {
    #[inline]
    fn new(py: Python<'py>, options: &'a EncodeOptions<'py>) -> Self {
        Self { py, out: Gather::new(), options, depth: 1, plain: false, lost: Vec::new() }
    }

    /// The values that an event has for the fields of its message.
    #[inline]
    fn read_event(
        &mut self,
        event: &Bound<'py, PyAny>,
        slots: &mut Slots<'py>,
    ) -> Result<&'static Layout, Stop> {
        let layouts = layouts(self.py);
        let (layout, view) = match layouts.of_model(event) {
            Some(layout) => (layout, View::of_model(event, layout.info)?),
            None => {
                let dict = event.cast_exact::<PyDict>().map_err(|_| Stop::Official)?;
                let layout = layouts.of_kind(self.kind(dict)?).ok_or(Stop::Official)?;
                (layout, View::of_wire(dict, layout.info))
            }
        };
        self.read(layout, &view, slots)?;
        if self.options.drop_raw_event {
            slots[RAW_EVENT] = None;
        }
        shape::settle(self, layout.message, slots)?;
        Ok(layout)
    }

    /// Gathers the message of an event.
    fn write_event(&mut self, layout: &'static Layout, slots: &Slots<'py>) -> Gathered {
        let Some(arm) = layout.arm else { return Err(Stop::Official) };
        self.out.tag(arm.number, WireType::Len);
        let open = self.out.open();
        self.base_event(layout, slots)?;
        self.fields(layout, 1, slots)?;
        self.out.close(open);
        Ok(())
    }

    /// The kind of a wire dict.
    #[inline]
    fn kind(&self, dict: &Bound<'py, PyDict>) -> Result<EventType, Stop> {
        let registry = registry();
        match capi::dict_get(dict, registry.type_key.bind(self.py)) {
            Some(name) => registry.kind(&name).map_or_else(|| self.unknown_kind(&name), Ok),
            None => Err(fault(not_an_event_reason(dict))),
        }
    }

    #[cold]
    fn unknown_kind(&self, name: &Bound<'py, PyAny>) -> Result<EventType, Stop> {
        let unknown = match name.cast_exact::<PyString>() {
            Ok(name) => {
                Err(fault(format!("the protobuf wire has no event {}", name.to_string_lossy())))
            }
            Err(_) => self.unfit("a str", name),
        };
        unknown.map_err(|stop| stop.inside(Step::Key("type".into())))
    }

    /// What all events have, as the first field.
    #[inline]
    fn base_event(&mut self, layout: &Layout, slots: &Slots<'py>) -> Gathered {
        let base = layout.base();
        if has_only_type(slots) {
            self.out.raw(base);
            return Ok(());
        }
        self.out.raw(&base[..1]);
        let open = self.out.open();
        // The type, if it is not 0.
        self.out.raw(&base[2..]);
        for (field, slot) in BASE_EVENT.fields[1..].iter().zip([TIMESTAMP, RAW_EVENT, METADATA]) {
            if let Some(value) = &slots[slot] {
                let mark = self.mark();
                let optional = layout.optional >> slot & 1 != 0;
                self.field(field, value, optional)
                    .map_err(|stop| stop.inside(Step::Key(field.key_text().into())))?;
                self.below(mark, || Step::Key(field.key_text().into()));
            }
        }
        self.out.close(open);
        Ok(())
    }

    /// The values that a view has for the fields of its message.
    #[inline]
    fn read(&mut self, layout: &Layout, view: &View<'py>, slots: &mut Slots<'py>) -> Gathered {
        view.entries(|entry| match entry {
            Entry::Field(at, field, value) => match layout.places[at] {
                Place::Slot(slot) => {
                    slots[usize::from(slot)] = Some(value.clone());
                    Ok(())
                }
                // A model whose tag was set to something else is for pydantic to write.
                Place::Arm if view.spelling == Form::Model && !json::is_constant(field, value) => {
                    Err(Stop::Official)
                }
                Place::Arm => Ok(()),
                Place::Nowhere => {
                    self.lose("unknown_property", &field.alias_text, NO_PLACE);
                    Ok(())
                }
            },
            Entry::Extra(key, value) => {
                self.extra(layout, key, value, slots);
                Ok(())
            }
        })
    }

    /// An entry that the class does not declare. The table may: it is ahead of the classes.
    #[cold]
    fn extra(
        &mut self,
        layout: &Layout,
        key: &Bound<'py, PyString>,
        value: &Bound<'py, PyAny>,
        slots: &mut Slots<'py>,
    ) {
        let key = key.to_string_lossy();
        match shape::slot(layout.message, &key) {
            Some(slot) if slots[slot].is_none() && !layout.outcome => {
                if !value.is_none() {
                    slots[slot] = Some(value.clone());
                }
            }
            _ => self.lose("unknown_property", &key, NO_PLACE),
        }
    }

    /// The fields of a message from the one at `first` on, in the order of their numbers.
    #[inline]
    fn fields(&mut self, layout: &Layout, first: usize, slots: &Slots<'py>) -> Gathered {
        for (at, field) in layout.message.fields.iter().enumerate().skip(first) {
            let Some(value) = &slots[at] else { continue };
            // Nearly all fields.
            let gathered =
                if let (Kind::Str, Label::Implicit | Label::Optional) = (field.kind, field.label) {
                    self.string(field, value)
                } else {
                    self.other_field(layout, at, value)
                };
            gathered
                .map_err(|stop| stop.inside(Step::Key(shape::key(layout.message, at).into())))?;
        }
        Ok(())
    }

    fn other_field(&mut self, layout: &Layout, at: usize, value: &Bound<'py, PyAny>) -> Gathered {
        let mark = self.lost.len();
        let levels = shape::levels(layout.message, at);
        self.depth += levels;
        self.field(&layout.message.fields[at], value, layout.optional >> at & 1 != 0)?;
        self.depth -= levels;
        self.below(mark, || Step::Key(shape::key(layout.message, at).into()));
        Ok(())
    }

    #[inline]
    fn field(
        &mut self,
        field: &'static Field,
        value: &Bound<'py, PyAny>,
        optional: bool,
    ) -> Gathered {
        match (field.kind, field.label) {
            (Kind::Str, Label::Repeated) => {
                self.list(value, |encoder, item| encoder.string(field, item))
            }
            (Kind::Str, _) => self.string(field, value),
            (Kind::Message(message), Label::Repeated) => {
                self.list(value, |encoder, item| encoder.message(field, message, item))
            }
            (Kind::Message(message), _) => self.message(field, message, value),
            (Kind::Value, _) => self.value_field(field, value, optional),
            (Kind::Struct, _) => self.struct_field(field, value),
            (Kind::Int64, _) => self.int64(field, value),
            (Kind::Bool, _) => match value.cast_exact::<PyBool>() {
                Ok(value) => {
                    self.out.tag(field.number, WireType::Varint);
                    self.out.varint(value.is_true().into());
                    Ok(())
                }
                Err(_) => self.unfit("a bool", value),
            },
            (Kind::Enum, _) => match shape::op_number(value) {
                Some(0) => Ok(()),
                Some(number) => {
                    self.out.tag(field.number, WireType::Varint);
                    self.out.varint(i64::from(number).cast_unsigned());
                    Ok(())
                }
                None => self.unfit("the name of a patch operation", value),
            },
        }
    }

    /// A field that holds an integer. JSON carries whatever stands there, and no run dies of it: here
    /// goes what a lenient reader makes of it, which is its number, or nothing.
    fn int64(&mut self, field: &Field, value: &Bound<'py, PyAny>) -> Gathered {
        let number = if let Ok(int) = value.cast_exact::<PyInt>() {
            capi::int_as_i64(int).filter(|int| int.unsigned_abs() <= SAFE_INTEGER.unsigned_abs())
        } else if let Ok(float) = value.cast_exact::<PyFloat>() {
            let float = capi::float_value(float);
            if !float.is_finite() {
                // Null in JSON, and so absent.
                return Ok(());
            }
            // JSON does not tell 2.0 from 2.
            let number = safe_integer(float);
            if number.is_some() && float.fract() != 0.0 {
                self.inexact(value, "is sent without its fraction")?;
            }
            number
        } else if let Ok(text) = value.cast_exact::<PyString>()
            && let Some(float) = text.to_str().ok().and_then(json_number)
            && float.fract() == 0.0
        {
            safe_integer(float)
        } else {
            if !self.plain {
                return Err(Stop::Official);
            }
            self.left_out(value);
            return Ok(());
        };
        match number {
            Some(int) => {
                self.out.tag(field.number, WireType::Varint);
                self.out.varint(int.cast_unsigned());
                Ok(())
            }
            None => self.inexact(value, "is not within +/-(2^53-1); left out"),
        }
    }

    #[cold]
    fn left_out(&mut self, value: &Bound<'py, PyAny>) {
        let detail =
            format!("an int is needed, not {}; left out", qualified_class_name(value)).into();
        self.lost.push(Lost { kind: "inexact_number", steps: Vec::new(), detail });
    }

    fn message(
        &mut self,
        field: &Field,
        message: &'static Message,
        value: &Bound<'py, PyAny>,
    ) -> Gathered {
        let modern = if message.union { shape::modern(value) } else { None };
        let value = modern.as_ref().unwrap_or(value);
        let mut slots = no_slots();
        self.deeper(|encoder| {
            let choice = layouts(encoder.py).choice(message);
            let layout = match encoder.fill(choice, value, &mut slots)? {
                Some(layout) if shape::settle(encoder, layout.message, &mut slots)? => layout,
                _ => {
                    encoder.lose_item(message);
                    return Ok(());
                }
            };
            encoder.out.tag(field.number, WireType::Len);
            let open = encoder.out.open();
            match layout.arm {
                None => encoder.fields(layout, 0, &slots)?,
                Some(arm) => {
                    encoder.out.tag(arm.number, WireType::Len);
                    let open = encoder.out.open();
                    encoder.fields(layout, 0, &slots)?;
                    encoder.out.close(open);
                }
            }
            encoder.out.close(open);
            Ok(())
        })
    }

    /// Reads an object that stands where `choice` may. `None` if it is of a kind that has no
    /// place there.
    pub fn fill(
        &mut self,
        choice: &'static Choice,
        value: &Bound<'py, PyAny>,
        slots: &mut Slots<'py>,
    ) -> Result<Option<&'static Layout>, Stop> {
        let (layout, view) = if let Ok(dict) = value.cast_exact::<PyDict>() {
            let Some(layout) = choice.of_wire(dict) else { return Ok(None) };
            (layout, View::of_wire(dict, layout.info))
        } else if let Some(layout) = choice.of_class(capi::type_key(value)) {
            (layout, View::of_model(value, layout.info)?)
        } else {
            return self.unfit("an object", value);
        };
        self.read(layout, &view, slots)?;
        Ok(Some(layout))
    }

    /// Every item of a list in the place of a repeated field.
    fn list(
        &mut self,
        value: &Bound<'py, PyAny>,
        mut each: impl FnMut(&mut Self, &Bound<'py, PyAny>) -> Gathered,
    ) -> Gathered {
        // What the list holds now; code that runs meanwhile may change it.
        let items = if let Ok(list) = value.cast_exact::<PyList>() {
            capi::list_items(list)
        } else if let Ok(tuple) = value.cast_exact::<PyTuple>() {
            tuple.iter().collect()
        } else {
            return self.unfit("a list", value);
        };
        self.deeper(|encoder| {
            for (at, item) in items.iter().enumerate() {
                let mark = encoder.lost.len();
                each(encoder, item).map_err(|stop| stop.inside(Step::Index(at)))?;
                encoder.below(mark, || Step::Index(at));
            }
            Ok(())
        })
    }

    /// One level of JSON deeper, and back.
    #[inline]
    pub fn deeper(&mut self, gather: impl FnOnce(&mut Self) -> Gathered) -> Gathered {
        if self.depth >= MAX_DEPTH {
            return Err(fault(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.depth += 1;
        gather(self)?;
        self.depth -= 1;
        Ok(())
    }

    /// Something in a described place that is not of the declared type. JSON may make it so (an
    /// Enum of str becomes its str); if it has been through JSON, it does not fit.
    #[cold]
    pub fn unfit<T>(&self, expected: &str, value: &Bound<'py, PyAny>) -> Result<T, Stop> {
        if self.plain {
            Err(fault(format!("{expected} is needed, not {}", qualified_class_name(value))))
        } else {
            Err(Stop::Official)
        }
    }

    /// The second attempt, on what JSON makes of the event.
    #[cold]
    fn again(&mut self, event: &Bound<'py, PyAny>, stop: Stop) -> PyResult<()> {
        if let Stop::Fault(fault) = stop {
            return Err(fault.into_encode_error(self.py));
        }
        let event = through_json(event, self.options)?;
        self.out.clear();
        self.lost.clear();
        self.depth = 1;
        self.plain = true;
        let mut slots = no_slots();
        let layout = self.read_event(&event, &mut slots);
        match layout.and_then(|layout| self.write_event(layout, &slots)) {
            Ok(()) => self.report(&event),
            Err(Stop::Fault(fault)) => Err(fault.into_encode_error(self.py)),
            Err(Stop::Official | Stop::TooDeep) => {
                Err(PyRuntimeError::new_err("agui_codec: JSON gave something that is not JSON"))
            }
        }
    }

    /// Notes what has no place on this wire.
    #[cold]
    pub fn lose(&mut self, kind: &'static str, key: &str, detail: &'static str) {
        self.lost.push(Lost { kind, steps: vec![Step::Key(key.into())], detail: detail.into() });
    }

    #[cold]
    fn lose_item(&mut self, message: &Message) {
        let detail = shape::unplaced(message).into();
        self.lost.push(Lost { kind: "unknown_member", steps: Vec::new(), detail });
    }

    /// Notes what has become of a number that this wire cannot carry, or refuses it.
    #[cold]
    pub fn inexact(&mut self, number: &Bound<'py, PyAny>, became: &str) -> Gathered {
        // Python limits how many digits it prints.
        let number = number.str().map_or_else(|_| "an integer".into(), |text| text.to_string());
        if self.options.exact_integers {
            let reason = "the protobuf wire cannot carry it exactly; send it as text";
            return Err(fault(format!("{number}: {reason}")));
        }
        let detail = format!("{number} {became}").into();
        self.lost.push(Lost { kind: "inexact_number", steps: Vec::new(), detail });
        Ok(())
    }

    /// Says of everything lost since the mark that it is below this step.
    #[inline]
    pub fn below(&mut self, mark: usize, step: impl Fn() -> Step) {
        if self.lost.len() > mark {
            for lost in &mut self.lost[mark..] {
                lost.steps.push(step());
            }
        }
    }

    pub fn mark(&self) -> usize {
        self.lost.len()
    }

    /// Forgets what was lost since the mark: the place is read again.
    pub fn forget(&mut self, mark: usize) {
        self.lost.truncate(mark);
    }

    /// Tells the user what was lost. Only when nothing more is read: this runs Python code.
    #[inline]
    fn report(&mut self, event: &Bound<'py, PyAny>) -> PyResult<()> {
        if self.lost.is_empty() { Ok(()) } else { self.report_lost(event) }
    }

    #[cold]
    fn report_lost(&mut self, event: &Bound<'py, PyAny>) -> PyResult<()> {
        let event_type = match info_like(event) {
            Some(info) => info.kind,
            None => View::of_event(event).and_then(|(_, kind)| kind),
        };
        let event_type = event_type.map(EventType::name);
        let reporter = Reporter::to(self.options.on_deviation.as_ref());
        for lost in std::mem::take(&mut self.lost) {
            let deviation = Deviation {
                kind: lost.kind.to_owned(),
                event_type: event_type.map(str::to_owned),
                path: path(&lost.steps),
                detail: lost.detail.into_owned(),
            };
            reporter.report(self.py, deviation)?;
        }
        Ok(())
    }
}

/// The integer part of a number, if every reader of JSON has that exactly.
fn safe_integer(float: f64) -> Option<i64> {
    (float.abs() <= SAFE_INTEGER as f64).then_some(float as i64)
}

/// The number that a text is, as JSON writes numbers.
#[cold]
fn json_number(text: &str) -> Option<f64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits.starts_with(|first: char| first.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

const NO_PLACE: &str = "the protobuf wire has no place for it; left out";

#[cold]
pub fn fault(reason: impl Into<String>) -> Stop {
    Stop::Fault(Box::new(Fault::new(reason)))
}

/// The event as its JSON reads: plain values only.
#[cold]
fn through_json<'py>(
    event: &Bound<'py, PyAny>,
    options: &EncodeOptions<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = event.py();
    let mut writer = Writer::new(Vec::new());
    if let Err(error) = json::write_event(&mut writer, event, options) {
        if error.is_instance_of::<AGUIError>(py) {
            return Err(error);
        }
        // What interrupts the program is not about the event.
        if !error.is_instance_of::<PyException>(py) {
            return Err(error);
        }
        let cause = json::cause_of(py, error, options);
        return Err(unwritable(py, "the event cannot be written as JSON", cause));
    }
    loads(py, &writer.bytes)
        .map_err(|cause| unwritable(py, "the JSON of the event cannot be read back", cause))
}

#[cold]
fn unwritable(py: Python<'_>, reason: &str, cause: PyErr) -> PyErr {
    let fault = Fault::new(format!("{reason} ({})", cause.value(py)));
    Fault { cause: Some(cause), ..fault }.into_encode_error(py)
}

/// What JSON text says.
pub fn loads<'py>(py: Python<'py>, json: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    py.import(intern!(py, "json"))?.call_method1(intern!(py, "loads"), (PyBytes::new(py, json),))
}
