//! One event, in either spelling, as one JSON document.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use super::official;
use super::writer::{Stop, Writer, Written, is_constant};
use crate::capi;
use crate::errors::{Fault, Step};
use crate::event::{Entry, Plan, Registry, Shape, View, registry};

/// How an encoder was asked to write.
#[derive(Default)]
pub struct Options<'py> {
    /// Called with a value that JSON cannot carry; what it returns is written instead.
    pub default: Option<Bound<'py, PyAny>>,
    pub drop_raw_event: bool,
}

/// Appends the event. On an error nothing usable has been appended.
pub fn write_event<'py>(
    writer: &mut Writer,
    event: &Bound<'py, PyAny>,
    options: &Options<'py>,
) -> PyResult<()> {
    writer.drop_raw_event = options.drop_raw_event;
    if write_model(writer, event) {
        return Ok(());
    }
    if let Ok(dict) = event.cast::<PyDict>() {
        return write_wire(writer, dict, options)
            .map_err(|fault| fault.into_encode_error(event.py()));
    }
    if event.hasattr(intern!(event.py(), "model_dump_json"))? {
        return write_official(writer, event, options);
    }
    let reason = format!(
        "an event is a model of ag_ui.core or a dict with a \"type\", not {}",
        official::type_name(event)
    );
    Err(Fault::new(reason).into_encode_error(event.py()))
}

/// Appends a model, if it holds only what this crate knows how to write; else nothing.
#[inline]
pub fn write_model(writer: &mut Writer, event: &Bound<'_, PyAny>) -> bool {
    let Some(plan) = registry().plan(capi::type_key(event)) else {
        return false;
    };
    let start = writer.bytes.len();
    let written = writer.model(event, plan).is_ok();
    if !written {
        writer.bytes.truncate(start);
        writer.depth = 0;
    }
    written
}

#[cold]
fn write_official<'py>(
    writer: &mut Writer,
    event: &Bound<'py, PyAny>,
    options: &Options<'py>,
) -> PyResult<()> {
    let text = official::document(event, options)?;
    let text = text.to_str()?;
    writer.ascii &= text.is_ascii();
    writer.bytes.extend_from_slice(text.as_bytes());
    Ok(())
}

fn write_wire<'py>(
    writer: &mut Writer,
    dict: &Bound<'py, PyDict>,
    options: &Options<'py>,
) -> Result<(), Box<Fault>> {
    if !capi::is_exact_dict(dict) {
        // A subclass may have an order of its own (OrderedDict), which a plain copy keeps.
        let plain = PyDict::new(dict.py());
        plain.update(dict.as_mapping()).map_err(|error| {
            Box::new(Fault {
                cause: Some(error),
                ..Fault::new("the dict cannot be read")
            })
        })?;
        return write_wire(writer, &plain, options);
    }
    let start = writer.bytes.len();
    match (Wire { writer, options }).event(dict) {
        Ok(()) => Ok(()),
        Err(Stop::Fault(fault)) => Err(fault),
        Err(Stop::Official) => {
            writer.bytes.truncate(start);
            writer.depth = 0;
            let plain = with_plain_keys(dict).map_err(Box::new)?;
            match (Wire { writer, options }).event(&plain) {
                Ok(()) => Ok(()),
                Err(Stop::Fault(fault)) => Err(fault),
                Err(Stop::Official) => Err(Box::new(Fault::new("the dict changed meanwhile"))),
            }
        }
    }
}

/// A copy in which a key of a subclass of str (a member of a str enum) is the str that it is.
#[cold]
fn with_plain_keys<'py>(dict: &Bound<'py, PyDict>) -> Result<Bound<'py, PyDict>, Fault> {
    let unreadable = |cause| Fault {
        cause: Some(cause),
        ..Fault::new("the dict cannot be read")
    };
    let plain = PyDict::new(dict.py());
    for (key, value) in dict.copy().map_err(unreadable)? {
        let Ok(key) = key.cast::<PyString>() else {
            let reason = format!(
                "a key of an event is a str, not {}",
                official::type_name(&key)
            );
            return Err(Fault::new(reason));
        };
        plain
            .set_item(PyString::new(dict.py(), &key.to_string_lossy()), value)
            .map_err(unreadable)?;
    }
    Ok(plain)
}

/// The writing of a wire dict. What the protocol describes is read by its description; everything
/// else is payload.
struct Wire<'a, 'py> {
    writer: &'a mut Writer,
    options: &'a Options<'py>,
}

fn fault(reason: impl Into<String>) -> Stop {
    Stop::Fault(Box::new(Fault::new(reason)))
}

impl<'py> Wire<'_, 'py> {
    fn event(&mut self, dict: &Bound<'py, PyDict>) -> Written {
        let registry = registry();
        let Some(kind_name) = capi::dict_get(dict, registry.type_key.bind(dict.py())) else {
            return Err(fault("an event has a \"type\""));
        };
        let kind = registry.kind(&kind_name);
        if kind.is_none() && !kind_name.is_instance_of::<PyString>() {
            let reason = format!("a str is needed, not {}", official::type_name(&kind_name));
            return Err(fault(reason).inside(Step::Key("type".into())));
        }
        // Every kind has a plan, unless the class has come to hold something unknown.
        match registry.event(kind) {
            Some(plan) => self.object(dict, plan),
            None => self.payload(dict),
        }
    }

    /// A dict in the place of an object of the protocol.
    fn object(&mut self, dict: &Bound<'py, PyDict>, plan: &'static Plan) -> Written {
        let view = View::of_wire(dict, plan);
        let start = self.writer.bytes.len();
        if self.writer.depth == super::MAX_DEPTH {
            return Err(too_deep());
        }
        self.writer.depth += 1;
        let dropped = self.writer.dropped(plan);
        view.entries(|entry| match entry {
            Entry::Field(at, ..) if dropped == Some(at) => Ok(()),
            Entry::Field(_, field, value) => {
                if is_constant(field, value) {
                    self.writer
                        .bytes
                        .extend_from_slice(field.constant.as_deref().unwrap_or(b""));
                    return Ok(());
                }
                let start = self.writer.bytes.len();
                self.writer.bytes.extend_from_slice(&field.prefix);
                self.shape(&field.shape, value)
                    .map_err(|stop| stop.inside(Step::Key(field.alias_text.to_string())))?;
                self.writer.omit_null(start, field);
                Ok(())
            }
            Entry::Extra(key, value) => {
                self.writer.bytes.push(b',');
                let inside = |stop: Stop| stop.inside(Step::Key(key.to_string()));
                self.payload(key).map_err(inside)?;
                self.writer.bytes.push(b':');
                self.payload(value).map_err(inside)
            }
        })?;
        self.writer.depth -= 1;
        self.writer.close(start, *b"{}");
        Ok(())
    }

    /// A value in a described place. Objects of the protocol are read as such; that a value is of
    /// the declared type is not asked: a codec forwards, and only an enforcer judges.
    fn shape(&mut self, shape: &'static Shape, value: &Bound<'py, PyAny>) -> Written {
        match shape {
            Shape::Nullable(inner) => self.shape(inner, value),
            Shape::StrOrList(list) if !capi::is_exact_str(value) => self.shape(list, value),
            Shape::List { item, .. }
                if capi::is_exact_list(value) || capi::is_exact_tuple(value) =>
            {
                self.list(item, value)
            }
            Shape::Model(cell) => self.nested(value, cell.plan.get()),
            Shape::Tagged {
                discriminator,
                choices,
            } => {
                let plan = value.cast_exact::<PyDict>().ok().and_then(|dict| {
                    let key = PyString::intern(value.py(), discriminator);
                    Registry::choice(choices, &capi::dict_get(dict, &key)?)?
                        .plan
                        .get()
                });
                self.nested(value, plan)
            }
            _ => self.payload(value),
        }
    }

    fn nested(&mut self, value: &Bound<'py, PyAny>, plan: Option<&'static Plan>) -> Written {
        match (value.cast_exact::<PyDict>(), plan) {
            (Ok(dict), Some(plan)) => {
                let start = self.writer.bytes.len();
                let depth = self.writer.depth;
                match self.object(dict, plan) {
                    Err(Stop::Official) => {
                        // A key that is no str: as payload it may have a text.
                        self.writer.bytes.truncate(start);
                        self.writer.depth = depth;
                        self.payload(value)
                    }
                    written => written,
                }
            }
            _ => self.payload(value),
        }
    }

    fn list(&mut self, item: &'static Shape, value: &Bound<'py, PyAny>) -> Written {
        let start = self.writer.bytes.len();
        if self.writer.depth == super::MAX_DEPTH {
            return Err(too_deep());
        }
        self.writer.depth += 1;
        // What a tuple or a list holds now; code that runs meanwhile may change the list.
        let items = match value.cast::<PyTuple>() {
            Ok(tuple) => tuple.clone(),
            Err(_) => value
                .cast::<PyList>()
                .map_err(|_| Stop::Official)?
                .to_tuple(),
        };
        for (at, inner) in items.iter().enumerate() {
            self.writer.bytes.push(b',');
            self.shape(item, &inner)
                .map_err(|stop| stop.inside(Step::Index(at)))?;
        }
        self.writer.depth -= 1;
        self.writer.close(start, *b"[]");
        Ok(())
    }

    /// A value that is the user's own.
    fn payload(&mut self, value: &Bound<'py, PyAny>) -> Written {
        let start = self.writer.bytes.len();
        let depth = self.writer.depth;
        match self.writer.value(value) {
            Err(Stop::Official) => {
                self.writer.bytes.truncate(start);
                self.writer.depth = depth;
                let json = official::value(value, self.options)
                    .map_err(|fault| Stop::Fault(Box::new(fault)))?;
                if depth + nesting(json.as_bytes()) > super::MAX_DEPTH {
                    return Err(too_deep());
                }
                self.writer.ascii &= json.is_ascii();
                self.writer.bytes.extend_from_slice(json.as_bytes());
                Ok(())
            }
            written => written,
        }
    }
}

#[cold]
fn too_deep() -> Stop {
    fault(format!("nested deeper than {} levels", super::MAX_DEPTH))
}

/// How deep the containers of a JSON document nest.
#[cold]
fn nesting(json: &[u8]) -> u32 {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0u32, 0, false, false);
    for &byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}
