//! One walk over an object of the protocol: what is known is judged, what is unknown removed.
//!
//! What the protocol says of an object comes from its class, and two rules say what the JSON schema
//! adds to the SDK's classes: a tag with one possible value must be there though the classes have a
//! default for it (`ClassInfo::required`), and `encryptedValueType` (1.1) may stand where
//! `encryptedValue` may. A walk over a clean object allocates nothing.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use std::fmt::Write;

use crate::capi;
use crate::event::build::is_json_pointer;
use crate::event::class_info::Bounds;
use crate::event::{Cell, ClassInfo, Field, FieldType, Form, Registry, registry};
use crate::stream::quoted;

/// What becomes of a value.
pub enum Judged<'py> {
    Keep,
    Replace(Bound<'py, PyAny>),
    /// It cannot be recognised, and goes: the field if that is optional, the element of a list,
    /// else what contains it.
    Drop,
    /// An optional field that holds None, where that means absence.
    Absent,
}

/// A known value that the protocol forbids.
#[derive(Debug)]
pub struct Malformed {
    pub path: String,
    pub reason: String,
}

/// Something that was removed.
pub struct Removal {
    pub kind: &'static str,
    pub path: String,
    pub detail: String,
}

/// A step from an object to a value in it.
#[derive(Clone, Copy)]
enum Step {
    Field(&'static str),
    Index(usize),
}

type Verdict<'py> = Result<Judged<'py>, Box<Malformed>>;

/// A walk in progress.
#[derive(Default)]
pub struct Judge {
    path: Vec<Step>,
    pub removed: Vec<Removal>,
    /// Whether None in an optional field of a dict is absence, as in what is yet to be sent, or
    /// the null that a peer wrote.
    pub none_is_absence: bool,
}

const CHANGED: &str = "it changed while it was read";

impl Judge {
    /// Judges a wire dict by its class, which its tag has chosen.
    #[inline]
    pub fn object<'py>(
        &mut self,
        dict: &Bound<'py, PyDict>,
        info: &'static ClassInfo,
    ) -> Verdict<'py> {
        self.entries(dict, info, info.tag)
    }

    /// `known` is the field that needs no look any more.
    #[inline]
    fn entries<'py>(
        &mut self,
        dict: &Bound<'py, PyDict>,
        info: &'static ClassInfo,
        known: Option<usize>,
    ) -> Verdict<'py> {
        capi::walk(dict, |mut items| {
            let mut seen = 0_u64;
            let mut expected = 0;
            let mut own: Option<Bound<'py, PyDict>> = None;
            while let Some((key, value)) = items.next() {
                let found = key.read(|key| info.find(key, expected, Form::Dict));
                if let Some(at) = found {
                    seen |= 1 << at;
                    expected = at + 1;
                    let is_str = matches!(&info.fields[at].shape, FieldType::Str);
                    if is_str && value.read(capi::is_exact_str) || known == Some(at) {
                        continue;
                    }
                }
                // Judging may run Python code: key and value are held meanwhile.
                let (key, value) = (key.own(), value.own());
                let Ok(key) = key.cast_exact::<PyString>() else {
                    let reason = format!("the key {} is not a string", quoted(&key));
                    return Err(self.malformed(&[], reason).into());
                };
                let judged = match found {
                    Some(at) => self.field(&info.fields[at], &value)?,
                    None => self.unknown(info, key, &value)?,
                };
                if !matches!(judged, Judged::Keep) {
                    if !items.unchanged() {
                        return Err(self.malformed(&[], CHANGED).into());
                    }
                    let own = match &own {
                        Some(own) => own,
                        None => own.insert(dict.copy().map_err(|e| self.failed(&e))?),
                    };
                    let edited = match judged {
                        Judged::Keep => Ok(()),
                        Judged::Replace(value) => own.set_item(key, value),
                        Judged::Absent => capi::discard(own, key),
                        Judged::Drop => {
                            let required = info
                                .find(key, 0, Form::Dict)
                                .is_some_and(|at| info.required & (1 << at) != 0);
                            if required {
                                return Ok(Judged::Drop);
                            }
                            capi::discard(own, key)
                        }
                    };
                    edited.map_err(|error| self.failed(&error))?;
                }
                if !items.unchanged() {
                    return Err(self.malformed(&[], CHANGED).into());
                }
            }
            let missing = info.required & !seen;
            if missing != 0 {
                let alias: &'static str =
                    &info.fields[missing.trailing_zeros() as usize].alias_text;
                return Err(self.malformed(&[Step::Field(alias)], "required, but missing").into());
            }
            Ok(own.map_or(Judged::Keep, |own| Judged::Replace(own.into_any())))
        })
    }

    /// A described field.
    fn field<'py>(&mut self, field: &'static Field, value: &Bound<'py, PyAny>) -> Verdict<'py> {
        let mark = self.removed.len();
        self.path.push(Step::Field(&field.alias_text));
        let judged = self.value(&field.shape, value);
        let judged = match judged {
            // A subtype that only a later version knows makes the event one of that version.
            Err(_) if &*field.alias_text == "subtype" && value.is_instance_of::<PyString>() => {
                Ok(Judged::Drop)
            }
            other => other,
        };
        if let Ok(Judged::Drop) = judged {
            self.forget(mark);
            self.remove("unknown_member", format!("removed the unknown {}", member_text(value)));
        }
        self.path.pop();
        judged
    }

    /// An entry that the class does not describe.
    #[cold]
    fn unknown<'py>(
        &mut self,
        info: &'static ClassInfo,
        key: &Bound<'py, PyString>,
        value: &Bound<'py, PyAny>,
    ) -> Verdict<'py> {
        let text = key.to_string_lossy();
        // RFC 6902 section 4: members that an operation does not define are ignored.
        let open = info.tag.is_some_and(|tag| &*info.fields[tag].alias_text == "op");
        if open {
            return Ok(Judged::Keep);
        }
        if text == "encryptedValueType"
            && info.fields.iter().any(|field| &*field.alias_text == "encryptedValue")
        {
            self.path.push(Step::Field("encryptedValueType"));
            let judged = if value.is_none() && self.none_is_absence {
                Ok(Judged::Absent)
            } else {
                self.value(&FieldType::Str, value)
            };
            self.path.pop();
            return judged;
        }
        let mut path = self.text(&[]);
        push_key(&mut path, &text);
        let named = info.fields.iter().find(|field| *field.name_text == *text);
        let hint = named.map_or_else(String::new, |field| {
            format!(" (a wire dict has {} under {})", field.name_text, field.alias_text)
        });
        self.removed.push(Removal {
            kind: "unknown_property",
            path,
            detail: format!("removed an unknown property{hint}"),
        });
        // Not a field, and so optional.
        Ok(Judged::Absent)
    }

    fn value<'py>(&mut self, shape: &'static FieldType, value: &Bound<'py, PyAny>) -> Verdict<'py> {
        let fits = match shape {
            FieldType::Any | FieldType::Unknown => true,
            FieldType::Str => value.is_instance_of::<PyString>(),
            FieldType::JsonPointer => match value.cast::<PyString>() {
                Ok(pointer) if is_json_pointer(&pointer.to_string_lossy()) => true,
                Ok(_) => {
                    return Err(self
                        .malformed(&[], format!("{} is no JSON Pointer", quoted(value)))
                        .into());
                }
                Err(_) => false,
            },
            FieldType::Bool => value.is_instance_of::<PyBool>(),
            FieldType::Int(bounds) => return self.int(bounds, value),
            FieldType::Map => value.is_instance_of::<PyDict>(),
            FieldType::Literal(choices) => {
                let text = value.cast::<PyString>().map(|text| text.to_string_lossy());
                if text.is_ok_and(|text| choices.iter().any(|(choice, _)| **choice == *text)) {
                    true
                } else {
                    return Err(self.no_choice(choices, value).into());
                }
            }
            FieldType::Nullable(_) if value.is_none() => {
                if self.none_is_absence {
                    return Ok(Judged::Absent);
                }
                false
            }
            FieldType::Nullable(inner) => return self.value(inner, value),
            FieldType::Model(cell) => return self.model(cell, shape, value),
            FieldType::Tagged { discriminator, choices } => {
                return self.tagged(discriminator, choices, shape, value);
            }
            FieldType::List { item, min } => return self.list(item, *min, shape, value),
            FieldType::StrOrList(_) if value.is_instance_of::<PyString>() => true,
            FieldType::StrOrList(list) if value.is_instance_of::<PyList>() => {
                return self.value(list, value);
            }
            FieldType::StrOrList(_) => false,
        };
        if fits { Ok(Judged::Keep) } else { Err(self.misfit(shape, value).into()) }
    }

    fn int<'py>(&mut self, bounds: &Bounds, value: &Bound<'py, PyAny>) -> Verdict<'py> {
        let (low, high) = match bounds {
            Bounds::None => (i64::MIN, i64::MAX),
            Bounds::Between(low, high) => (*low, *high),
        };
        // An integral number is an integer to JSON however it is written: 2.0, too.
        let whole = match value.cast::<PyInt>() {
            Ok(_) if value.is_instance_of::<PyBool>() => {
                return Err(self
                    .malformed(&[], format!("expected an integer, got {}", describe(value)))
                    .into());
            }
            Ok(int) => capi::int_as_i64(int),
            Err(_) => match value.cast::<PyFloat>().map(capi::float_value) {
                // The cast saturates, and is compared with the bounds.
                Ok(float) if float.fract() == 0.0 => Some(float as i64),
                _ => {
                    return Err(self.misfit(&FieldType::Int(Bounds::None), value).into());
                }
            },
        };
        if whole.is_some_and(|whole| (low..=high).contains(&whole)) {
            return Ok(Judged::Keep);
        }
        Err(self
            .malformed(&[], format!("{} is not between {low} and {high}", quoted(value)))
            .into())
    }

    fn model<'py>(
        &mut self,
        cell: &'static Cell,
        shape: &'static FieldType,
        value: &Bound<'py, PyAny>,
    ) -> Verdict<'py> {
        match (value.cast::<PyDict>(), cell.info.get()) {
            (Ok(dict), Some(info)) => self.entries(dict, info, None),
            (Ok(_), None) => Ok(Judged::Keep),
            (Err(_), _) if is_clean_model(value) => Ok(Judged::Keep),
            (Err(_), _) => Err(self.misfit(shape, value).into()),
        }
    }

    fn tagged<'py>(
        &mut self,
        discriminator: &'static Py<PyString>,
        choices: &'static [(Box<str>, &'static Cell)],
        shape: &'static FieldType,
        value: &Bound<'py, PyAny>,
    ) -> Verdict<'py> {
        let Ok(dict) = value.cast::<PyDict>() else {
            return if is_clean_model(value) {
                Ok(Judged::Keep)
            } else {
                Err(self.misfit(shape, value).into())
            };
        };
        let key = discriminator.bind(value.py());
        let name = || Step::Field(tag_name(choices));
        // Without a tag it is no member of a later version, but a broken one of this.
        let Some(tag) = capi::dict_get(dict, key) else {
            return Err(self.malformed(&[name()], "required, but missing").into());
        };
        if !tag.is_instance_of::<PyString>() {
            let reason = format!("expected a string, got {}", describe(&tag));
            return Err(self.malformed(&[name()], reason).into());
        }
        if let Some(cell) = Registry::choice(choices, &tag) {
            return cell.info.get().map_or(Ok(Judged::Keep), |info| self.object(dict, info));
        }
        // Whatever it may be, what all members have must be as it is in all of them: an id.
        let identified = choices.iter().all(|(_, cell)| {
            let info = cell.info.get();
            info.is_some_and(|info| {
                info.fields
                    .iter()
                    .any(|field| &*field.alias_text == "id" && field.default.is_none())
            })
        });
        if identified {
            let id = capi::dict_get(dict, &PyString::intern(value.py(), "id"));
            if !id.is_some_and(|id| id.is_instance_of::<PyString>()) {
                return Err(self.malformed(&[Step::Field("id")], "expected a string").into());
            }
        }
        Ok(Judged::Drop)
    }

    fn list<'py>(
        &mut self,
        item: &'static FieldType,
        min: usize,
        shape: &'static FieldType,
        value: &Bound<'py, PyAny>,
    ) -> Verdict<'py> {
        let Ok(list) = value.cast::<PyList>() else { return Err(self.misfit(shape, value).into()) };
        let len = list.len();
        if len < min {
            return Err(self.malformed(&[], format!("expected at least {min}, got {len}")).into());
        }
        let mut own: Option<Bound<'py, PyList>> = None;
        for (index, value) in list.iter().enumerate() {
            let mark = self.removed.len();
            self.path.push(Step::Index(index));
            let judged = self.value(item, &value)?;
            if let Judged::Drop = judged {
                self.forget(mark);
                self.remove(
                    "unknown_member",
                    format!("removed the unknown {}", member_text(&value)),
                );
            }
            self.path.pop();
            if own.is_none() && !matches!(judged, Judged::Keep) {
                own = Some(capi::copy_list(list, index).map_err(|error| self.failed(&error))?);
            }
            if let Some(own) = &own {
                let appended = match judged {
                    Judged::Keep => own.append(value),
                    Judged::Replace(other) => own.append(other),
                    Judged::Drop | Judged::Absent => Ok(()),
                };
                appended.map_err(|error| self.failed(&error))?;
            }
        }
        Ok(own.map_or(Judged::Keep, |own| Judged::Replace(own.into_any())))
    }

    /// What is dropped whole takes what was removed inside it along.
    fn forget(&mut self, mark: usize) {
        self.removed.truncate(mark);
    }

    #[cold]
    fn remove(&mut self, kind: &'static str, detail: String) {
        let path = self.text(&[]);
        self.removed.push(Removal { kind, path, detail });
    }

    fn text(&self, last: &[Step]) -> String {
        let mut path = String::new();
        for step in self.path.iter().chain(last) {
            match step {
                Step::Field(name) => push_key(&mut path, name),
                Step::Index(index) => {
                    let _ = write!(path, "[{index}]");
                }
            }
        }
        path
    }

    #[cold]
    fn malformed(&self, last: &[Step], reason: impl Into<String>) -> Malformed {
        Malformed { path: self.text(last), reason: reason.into() }
    }

    #[cold]
    fn failed(&self, error: &PyErr) -> Malformed {
        self.malformed(&[], error.to_string())
    }

    #[cold]
    fn misfit(&self, shape: &FieldType, value: &Bound<'_, PyAny>) -> Malformed {
        self.malformed(&[], format!("expected {}, got {}", noun(shape), describe(value)))
    }

    #[cold]
    fn no_choice(&self, choices: &[(Box<str>, Py<PyAny>)], value: &Bound<'_, PyAny>) -> Malformed {
        let choices: Vec<_> = choices.iter().map(|(choice, _)| format!("'{choice}'")).collect();
        let expected = choices.join(" or ");
        self.malformed(&[], format!("expected {expected}, got {}", quoted(value)))
    }
}

/// What the tag of a union is called.
fn tag_name(choices: &'static [(Box<str>, &'static Cell)]) -> &'static str {
    let info = choices.first().and_then(|(_, cell)| cell.info.get());
    info.and_then(|info| info.tag.map(|tag| &*info.fields[tag].alias_text)).unwrap_or("type")
}

fn push_key(path: &mut String, key: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(key);
}

fn noun(shape: &FieldType) -> &'static str {
    match shape {
        FieldType::Str | FieldType::JsonPointer | FieldType::Literal(_) => "a string",
        FieldType::Int(_) => "an integer",
        FieldType::Bool => "a boolean",
        FieldType::Any | FieldType::Unknown => "a value",
        FieldType::Map | FieldType::Model(_) | FieldType::Tagged { .. } => "an object",
        FieldType::List { .. } => "a list",
        FieldType::StrOrList(_) => "a string or a list",
        FieldType::Nullable(inner) => noun(inner),
    }
}

/// A value in words, as JSON calls it.
#[cold]
fn describe(value: &Bound<'_, PyAny>) -> String {
    if value.is_none() {
        return "null".to_owned();
    }
    if value.is_instance_of::<PyDict>() {
        return "object".to_owned();
    }
    if value.is_instance_of::<PyList>() {
        return "list".to_owned();
    }
    quoted(value)
}

/// A member of a union in words: by its tag.
#[cold]
fn member_text(value: &Bound<'_, PyAny>) -> String {
    let Ok(dict) = value.cast::<PyDict>() else { return describe(value) };
    for tag in ["role", "op", "type"] {
        if let Ok(Some(said)) = dict.get_item(tag) {
            return format!("{tag} {}", quoted(&said));
        }
    }
    describe(value)
}

/// Whether a model is surely as its class declares and has nothing unknown in it. What is not is
/// judged as the wire dict that it would be written as.
pub fn is_clean_model(model: &Bound<'_, PyAny>) -> bool {
    let registry = registry();
    let Some(info) = registry.info(capi::type_key(model)) else { return false };
    let py = model.py();
    let extra = capi::slot(registry.extra.bind(py), model);
    let no_extra = extra.is_some_and(|extra| {
        extra.is_none() || extra.cast::<PyDict>().is_ok_and(PyDictMethods::is_empty)
    });
    let Some(fields) = capi::instance_dict(model).filter(|_| no_extra) else { return false };
    let mut judge = Judge::default();
    let mut expected = 0;
    let mut count = 0;
    capi::walk(&fields, |mut items| {
        items.all(|(key, value)| {
            let at = key.read(|key| info.find(key, expected, Form::Model));
            let Some(at) = at else { return false };
            expected = at + 1;
            count += 1;
            let field = &info.fields[at];
            match &field.shape {
                FieldType::Str if value.read(capi::is_exact_str) => true,
                FieldType::Nullable(_) if value.is_none() => field.omit_none,
                shape => matches!(judge.value(shape, &value.own()), Ok(Judged::Keep)),
            }
        })
    }) && count == info.fields.len()
}
