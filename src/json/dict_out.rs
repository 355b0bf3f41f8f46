//! Writing wire dicts. What the protocol describes is read by its description; everything else is
//! payload, the user's own. That a value is of the declared type is not asked: a codec forwards,
//! and only an enforcer judges.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use super::big_stack::nests_deeper;
use super::options::EncodeOptions;
use super::writer::{Stop, Writer, Written, is_constant};
use super::{MAX_DEPTH, escape, pydantic};
use crate::capi;
use crate::errors::{Fault, Step, not_an_event_reason, qualified_class_name};
use crate::event::{ClassInfo, Entry, FieldType, Form, Registry, View, registry};

pub struct DictWriter<'a, 'py> {
    pub writer: &'a mut Writer,
    pub options: &'a EncodeOptions<'py>,
}

#[cold]
fn fault(reason: impl Into<String>) -> Stop {
    Stop::Fault(Box::new(Fault::new(reason)))
}

impl<'py> DictWriter<'_, 'py> {
    pub fn event(&mut self, dict: &Bound<'py, PyDict>) -> Written {
        let registry = registry();
        let type_key = registry.type_key.bind(dict.py());
        // `type` usually comes first: seeing that is cheaper than a look-up.
        let first = capi::walk(dict, |mut items| {
            items.next().filter(|(key, _)| key.is(type_key)).map(|(_, value)| value.own())
        });
        let kind_name = first.or_else(|| capi::dict_get(dict, type_key));
        let Some(kind_name) = kind_name else {
            return Err(fault(not_an_event_reason(dict)));
        };
        let kind = registry.kind(&kind_name);
        if kind.is_none() && !kind_name.is_instance_of::<PyString>() {
            let reason = format!("a str is needed, not {}", qualified_class_name(&kind_name));
            return Err(fault(reason).inside(Step::Key("type".into())));
        }
        // Every type has a class that was learned, unless the class has come to hold something unknown.
        match registry.event(kind) {
            Some(info) => self.described(dict, info),
            None => self.payload(dict),
        }
    }

    /// A dict in the place of an object of the protocol. One of a subclass is read through a plain
    /// copy: the C-API does not see the order that an `OrderedDict` has.
    fn described(&mut self, dict: &Bound<'py, PyDict>, info: &'static ClassInfo) -> Written {
        let written = if capi::is_exact_dict(dict) {
            self.object(dict, info)
        } else {
            let copy = PyDict::new(dict.py());
            if let Err(cause) = copy.update(dict.as_mapping()) {
                let unreadable = Fault::new("the dict cannot be read");
                return Err(Stop::Fault(Box::new(Fault { cause: Some(cause), ..unreadable })));
            }
            self.object(&copy, info)
        };
        match written {
            Err(Stop::Official) => Err(fault(surprise_in(dict))),
            written => written,
        }
    }

    fn object(&mut self, dict: &Bound<'py, PyDict>, info: &'static ClassInfo) -> Written {
        let view = View::of_wire(dict, info);
        let start = self.writer.bytes.len();
        self.writer.descend()?;
        let dropped = self.writer.dropped(info);
        view.entries(|entry| match entry {
            Entry::Field(at, ..) if dropped == Some(at) => Ok(()),
            Entry::Field(_, field, value) => {
                if let Some(constant) = &field.constant
                    && is_constant(field, value)
                {
                    escape::push_fragment(&mut self.writer.bytes, constant);
                    return Ok(());
                }
                let start = self.writer.bytes.len();
                escape::push_fragment(&mut self.writer.bytes, &field.prefix);
                if let Err(stop) = self.shape(&field.shape, value) {
                    return Err(stop.inside(Step::Key(field.alias_text.to_string())));
                }
                self.writer.omit_null(start, field);
                Ok(())
            }
            Entry::Extra(key, value) => {
                if dropped.is_some() && info.find(key, 0, Form::Model) == dropped {
                    return Ok(());
                }
                let start = self.writer.bytes.len();
                self.writer.bytes.push(b',');
                let written = self.payload(key).and_then(|()| {
                    self.writer.bytes.push(b':');
                    let start = self.writer.bytes.len();
                    self.payload(value)?;
                    Ok(&self.writer.bytes[start..] == b"null")
                });
                let is_null = written.map_err(|stop| stop.inside(Step::Key(key.to_string())))?;
                // The other spelling of a field that the dict has, too.
                if is_null
                    && let Some(at) = info.find(key, 0, Form::Model)
                    && info.fields[at].omit_none
                {
                    self.writer.bytes.truncate(start);
                }
                Ok(())
            }
        })?;
        self.writer.depth -= 1;
        self.writer.close(start, *b"{}");
        Ok(())
    }

    /// A value in a described place.
    #[inline]
    fn shape(&mut self, shape: &'static FieldType, value: &Bound<'py, PyAny>) -> Written {
        if capi::is_exact_str(value) { self.payload(value) } else { self.nested(shape, value) }
    }

    fn nested(&mut self, shape: &'static FieldType, value: &Bound<'py, PyAny>) -> Written {
        match shape {
            FieldType::Nullable(inner) | FieldType::StrOrList(inner) => self.shape(inner, value),
            FieldType::List { item, .. }
                if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() =>
            {
                self.list(item, value)
            }
            FieldType::Model(cell) => match (value.cast::<PyDict>(), cell.info.get()) {
                (Ok(dict), Some(info)) => self.described(dict, info),
                _ => self.payload(value),
            },
            FieldType::Tagged { discriminator, choices } => match value.cast::<PyDict>() {
                Ok(dict) => {
                    let cell = capi::dict_get(dict, discriminator.bind(value.py()))
                        .and_then(|tag| Registry::choice(choices, &tag));
                    match cell.and_then(|cell| cell.info.get()) {
                        Some(info) => self.described(dict, info),
                        None => self.payload(value),
                    }
                }
                Err(_) => self.payload(value),
            },
            _ => self.payload(value),
        }
    }

    fn list(&mut self, item: &'static FieldType, value: &Bound<'py, PyAny>) -> Written {
        let start = self.writer.bytes.len();
        self.writer.descend()?;
        // What the list or tuple holds now: code that runs meanwhile may change the list.
        let items = match value.cast::<PyTuple>() {
            Ok(tuple) => tuple.iter().collect(),
            Err(_) => capi::list_items(value.cast().map_err(|_| Stop::Official)?),
        };
        for (at, inner) in items.iter().enumerate() {
            self.writer.bytes.push(b',');
            self.shape(item, inner).map_err(|stop| stop.inside(Step::Index(at)))?;
        }
        self.writer.depth -= 1;
        self.writer.close(start, *b"[]");
        Ok(())
    }

    /// A value that is the user's own.
    #[inline]
    fn payload(&mut self, value: &Bound<'py, PyAny>) -> Written {
        let start = self.writer.bytes.len();
        let depth = self.writer.depth;
        match self.writer.value(value) {
            Err(Stop::Official) => {
                self.writer.bytes.truncate(start);
                self.writer.depth = depth;
                self.official_payload(value)
            }
            written => written,
        }
    }

    #[cold]
    fn official_payload(&mut self, value: &Bound<'py, PyAny>) -> Written {
        // Refused without asking pydantic, which would say so much later.
        if nests_deeper(value, MAX_DEPTH - self.writer.depth) {
            return Err(Stop::TooDeep);
        }
        let json =
            pydantic::value(value, self.options).map_err(|fault| Stop::Fault(Box::new(fault)))?;
        if self.writer.depth + nesting(json.as_bytes()) > MAX_DEPTH {
            return Err(Stop::TooDeep);
        }
        self.writer.ascii &= json.is_ascii();
        self.writer.bytes.extend_from_slice(json.as_bytes());
        Ok(())
    }
}

/// What kept a dict from being read.
#[cold]
fn surprise_in(dict: &Bound<'_, PyDict>) -> String {
    match dict.keys().iter().find(|key| !key.is_instance_of::<PyString>()) {
        Some(key) => format!("a key is a str, not {}", qualified_class_name(&key)),
        None => "the dict was changed while it was read".into(),
    }
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

#[cfg(test)]
mod tests {
    use super::nesting;

    #[test]
    fn nesting_counts_containers_outside_strings() {
        for (json, depth) in [
            ("1", 0),
            ("[]", 1),
            (r#"{"a":[{}],"b":[]}"#, 3),
            (r#"["[[{\"["]"#, 1),
            ("[[],[[]]]", 3),
        ] {
            assert_eq!(nesting(json.as_bytes()), depth, "{json}");
        }
    }
}
