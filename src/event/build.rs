//! Making: instances of the SDK's models without running Python.
//!
//! Validators do not run here, so only values are taken that pydantic would accept as they are,
//! without coercion. Anything else is [`Unsupported`], and the caller asks the official validator.
//! What comes out cannot be told from what that gives: the instance dictionary in class order
//! with the defaults, the set of given names, extra fields, the enum's member for `type`.

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList, PyString, PyType};
use std::ffi::CStr;

use super::class_info::{Bounds, ClassInfo, FieldType, Form, validator};
use super::registry::{Registry, registry};
use super::subclass::made_like;
use super::view::Unsupported;
use crate::capi::{self, Arguments, Function};
use crate::errors::of_pydantic;

/// A model in the making.
pub struct Builder<'py> {
    pub info: &'static ClassInfo,
    fields: Bound<'py, PyDict>,
    extra: Bound<'py, PyDict>,
    /// One bit for each field that was given.
    seen: u64,
}

impl<'py> Builder<'py> {
    pub fn new(py: Python<'py>, info: &'static ClassInfo) -> Result<Self, Unsupported> {
        Ok(Self { info, fields: info.defaults.bind(py).copy()?, extra: PyDict::new(py), seen: 0 })
    }

    /// One that has come as far as another was; see [`Builder::so_far`].
    #[inline]
    pub fn resume(
        info: &'static ClassInfo,
        fields: &Bound<'py, PyDict>,
        given: u64,
    ) -> Result<Self, Unsupported> {
        Ok(Self { info, fields: fields.copy()?, extra: PyDict::new(fields.py()), seen: given })
    }

    /// The fields that have been given, with bits that say which, if they are all there is.
    #[cold]
    pub fn so_far(&self) -> Option<(Bound<'py, PyDict>, u64)> {
        if self.extra.is_empty() { Some((self.fields.copy().ok()?, self.seen)) } else { None }
    }

    /// Gives the field at `at` a value, which is checked against what the field declares. A dict
    /// in the place of a model becomes that model.
    #[inline]
    pub fn field(&mut self, at: usize, value: &Bound<'py, PyAny>) -> Result<(), Unsupported> {
        let field = &self.info.fields[at];
        let name = field.name.bind(value.py());
        self.mark(at)?;
        match accept(&field.shape, value)? {
            Some(other) => self.fields.set_item(name, other)?,
            None => self.fields.set_item(name, value)?,
        }
        Ok(())
    }

    /// Gives the field at `at` a value that is what the field takes.
    #[inline]
    pub fn put(&mut self, at: usize, value: &Bound<'py, PyAny>) -> Result<(), Unsupported> {
        let name = self.info.fields[at].name.bind(value.py());
        self.mark(at)?;
        self.fields.set_item(name, value)?;
        Ok(())
    }

    /// Gives the field at `at`, which has one possible value, that value.
    #[inline]
    pub fn tag(&mut self, at: usize) -> Result<(), Unsupported> {
        let field = &self.info.fields[at];
        let py = self.fields.py();
        let FieldType::Literal(choices) = &field.shape else { return Err(Unsupported) };
        let value = choices[0].1.bind(py);
        if field.default.as_ref().is_some_and(|default| default.is(value)) {
            // It is there already.
            return self.mark(at);
        }
        self.put(at, value)
    }

    /// Notes that the field is given. A field that is given twice is for pydantic to decide.
    #[inline]
    fn mark(&mut self, at: usize) -> Result<(), Unsupported> {
        let bit = 1 << at;
        if self.seen & bit != 0 {
            return Err(Unsupported);
        }
        self.seen |= bit;
        Ok(())
    }

    /// Gives the field that the key names a value. `expected` is where it may well be.
    #[inline]
    fn entry(
        &mut self,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        expected: &mut usize,
    ) -> Result<(), Unsupported> {
        let key = key.cast_exact::<PyString>().map_err(|_| Unsupported)?;
        match self.info.find_any(key, *expected) {
            Some((at, _)) => {
                *expected = at + 1;
                self.field(at, value)
            }
            None => self.extra(key, value),
        }
    }

    /// Adds a field that the class does not declare.
    pub fn extra(
        &mut self,
        key: &Bound<'py, PyString>,
        value: &Bound<'py, PyAny>,
    ) -> Result<(), Unsupported> {
        self.extra.set_item(key, value)?;
        Ok(())
    }

    pub fn finish(self) -> Result<Bound<'py, PyAny>, Unsupported> {
        let class = self.info.class.bind(self.fields.py());
        self.finish_as(class)
    }

    /// An instance of a class that is made as the described one is.
    fn finish_as(self, class: &Bound<'py, PyType>) -> Result<Bound<'py, PyAny>, Unsupported> {
        let py = self.fields.py();
        if self.info.no_default & !self.seen != 0 {
            return Err(Unsupported);
        }
        let given = self.info.given(py, self.seen)?;
        if !self.extra.is_empty() {
            for key in self.extra.keys() {
                given.add(key)?;
            }
        }
        let registry = registry();
        let none = py.None().into_bound(py);
        let slots = [
            (registry.extra.bind(py), self.extra.as_any()),
            (registry.fields_set.bind(py), given.as_any()),
            (registry.private.bind(py), &none),
        ];
        Ok(capi::new_model(class, &self.fields, slots)?)
    }
}

/// Errors of the allocator and the like: the official path will meet them again, and report.
impl From<PyErr> for Unsupported {
    fn from(_: PyErr) -> Self {
        Self
    }
}

/// Whether a field of this shape takes the value as it is (`None`), or what it makes of it.
pub fn accept<'py>(
    shape: &'static FieldType,
    value: &Bound<'py, PyAny>,
) -> Result<Option<Bound<'py, PyAny>>, Unsupported> {
    let fits = match shape {
        FieldType::Str => capi::is_exact_str(value),
        FieldType::Any => true,
        FieldType::Bool => capi::is_exact_bool(value),
        FieldType::Nullable(inner) => {
            return if value.is_none() { Ok(None) } else { accept(inner, value) };
        }
        FieldType::Int(bounds) => match (value.cast_exact::<PyInt>(), bounds) {
            (Ok(_), Bounds::None) => true,
            (Ok(int), Bounds::Between(low, high)) => {
                capi::int_as_i64(int).is_some_and(|int| (*low..=*high).contains(&int))
            }
            (Err(_), _) => false,
        },
        FieldType::JsonPointer => match value.cast_exact::<PyString>() {
            Ok(pointer) => is_json_pointer(pointer.to_str()?),
            Err(_) => false,
        },
        FieldType::Map => {
            let dict = value.cast_exact::<PyDict>().map_err(|_| Unsupported)?;
            let only_str =
                capi::walk(dict, |mut items| items.all(|(key, _)| key.read(capi::is_exact_str)));
            // The validator makes a dict of its own, too.
            return if only_str { Ok(Some(dict.copy()?.into_any())) } else { Err(Unsupported) };
        }
        FieldType::Literal(choices) => {
            if choices.iter().any(|(_, object)| value.is(object)) {
                return Ok(None);
            }
            let text = value.cast_exact::<PyString>().map_err(|_| Unsupported)?.to_str()?;
            let choice = choices.iter().find(|(choice, _)| **choice == *text).ok_or(Unsupported)?;
            return Ok(Some(choice.1.bind(value.py()).clone()));
        }
        FieldType::Model(cell) => {
            if let Ok(dict) = value.cast_exact::<PyDict>() {
                let info = cell.info_for(cell.key).ok_or(Unsupported)?;
                return model(dict, info).map(Some);
            }
            cell.info_for(capi::type_key(value)).is_some()
        }
        FieldType::Tagged { discriminator, choices } => {
            let Ok(dict) = value.cast_exact::<PyDict>() else {
                return if is_member(value, choices) { Ok(None) } else { Err(Unsupported) };
            };
            let tag = capi::dict_get(dict, discriminator.bind(value.py())).ok_or(Unsupported)?;
            let cell = Registry::choice(choices, &tag).ok_or(Unsupported)?;
            let info = cell.info_for(cell.key).ok_or(Unsupported)?;
            return model(dict, info).map(Some);
        }
        FieldType::List { item, min } => {
            let list = value.cast_exact::<PyList>().map_err(|_| Unsupported)?;
            if list.len() < *min {
                return Err(Unsupported);
            }
            let own = PyList::empty(value.py());
            for value in list.iter() {
                own.append(accept(item, &value)?.unwrap_or(value))?;
            }
            return Ok(Some(own.into_any()));
        }
        FieldType::StrOrList(list) => {
            return if capi::is_exact_str(value) { Ok(None) } else { accept(list, value) };
        }
        FieldType::Unknown => false,
    };
    if fits { Ok(None) } else { Err(Unsupported) }
}

/// Whether the value is a model of the union whose tag still says so.
fn is_member(value: &Bound<'_, PyAny>, choices: &[(Box<str>, &'static super::Cell)]) -> bool {
    let key = capi::type_key(value);
    let Some(info) = choices.iter().find_map(|(_, cell)| cell.info_for(key)) else {
        return false;
    };
    let tag = info.tag.and_then(|at| {
        let name = info.fields[at].name.bind(value.py());
        capi::dict_get(&capi::instance_dict(value)?, name)
    });
    let (Some(tag), Some(text)) = (tag, info.tag_text()) else {
        return false;
    };
    tag.extract::<&str>().is_ok_and(|tag| tag == text)
}

/// RFC 6901 section 3: empty, or tokens that each follow a slash, with `~` only as `~0` or `~1`.
pub fn is_json_pointer(pointer: &str) -> bool {
    (pointer.is_empty() || pointer.starts_with('/'))
        && pointer.split('~').skip(1).all(|after| after.starts_with(['0', '1']))
}

/// The model that `info` describes with the entries of a dict: what validating the dict would give.
pub fn model<'py>(
    dict: &Bound<'py, PyDict>,
    info: &'static ClassInfo,
) -> Result<Bound<'py, PyAny>, Unsupported> {
    let mut builder = Builder::new(dict.py(), info)?;
    let mut expected = 0;
    capi::walk(dict, |mut items| {
        while let Some((key, value)) = items.next() {
            // Making an object and looking at a class may run Python code.
            builder.entry(&key.own(), &value.own(), &mut expected)?;
            if !items.unchanged() {
                return Err(Unsupported);
            }
        }
        Ok(())
    })?;
    builder.finish()
}

/// The event that a wire dict describes, in the spelling asked for. What is not exactly as
/// declared is judged by the official validator, whose error comes through unchanged.
pub fn event(dict: Bound<'_, PyDict>, spelling: Form) -> PyResult<Bound<'_, PyAny>> {
    if spelling == Form::Dict {
        return Ok(dict.into_any());
    }
    let registry = registry();
    let kind = capi::dict_get(&dict, registry.type_key.bind(dict.py()))
        .and_then(|kind| registry.kind(&kind));
    let info = kind.and_then(|kind| registry.event(Some(kind))).filter(|info| info.is_current());
    if let Some(info) = info
        && let Ok(model) = model(&dict, info)
    {
        return Ok(model);
    }
    officially(&dict, "Event")
}

/// What the official validator of `official`, a name in `ag_ui.core`, makes of a wire dict.
#[cold]
pub fn officially<'py>(
    dict: &Bound<'py, PyDict>,
    official: &'static str,
) -> PyResult<Bound<'py, PyAny>> {
    let py = dict.py();
    let validated = validator(py, official)?.call_method1(intern!(py, "validate_python"), (dict,));
    validated.map_err(|error| of_pydantic(py, error))
}

/// The model that a dict with the keys of the wire stands for, as the official validator makes it
/// where it is not exactly as declared.
pub fn validated<'py>(
    dict: &Bound<'py, PyAny>,
    info: &'static ClassInfo,
) -> PyResult<Bound<'py, PyAny>> {
    if let Ok(exact) = dict.cast_exact::<PyDict>()
        && info.is_current()
        && let Ok(model) = model(exact, info)
    {
        return Ok(model);
    }
    let py = dict.py();
    let validated = info.class.bind(py).call_method1(intern!(py, "model_validate"), (dict,));
    validated.map_err(|error| of_pydantic(py, error))
}

/// `make_event`, of which [`DOC`](Function::DOC) says more.
pub struct MakeEvent;

impl Function for MakeEvent {
    const NAME: &'static CStr = c"make_event";
    const DOC: &'static CStr = c"make_event(cls, /, **fields)
--

``cls(**fields)``, sooner.

Args:
    cls: A model class of ``ag_ui.core``, or any other class.
    **fields: The fields, by their names or by their keys on the wire.

Returns:
    The instance that ``cls(**fields)`` would give. Values that need pydantic (to be coerced,
    or refused) are handed to the class itself, as is a class that this package does not know.

Raises:
    pydantic.ValidationError: As the class itself does.

Example:
    >>> from ag_ui.core import StepStartedEvent
    >>> make_event(StepStartedEvent, step_name=\"search\") == StepStartedEvent(step_name=\"search\")
    True";

    #[inline]
    fn call<'py>(arguments: &Arguments<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
        let [cls] = arguments.positional() else { return Err(not_one(arguments)) };
        if let Ok(class) = cls.cast::<PyType>()
            && let Some(info) =
                registry().info(capi::class_key(&class)).or_else(|| made_like(&class))
            && let Ok(event) = named(&class, info, arguments)
        {
            return Ok(event);
        }
        arguments.pass_on(cls, 1)
    }
}

/// An instance of `class`, which is the described class or one like it, with the named arguments.
#[inline]
fn named<'py>(
    class: &Bound<'py, PyType>,
    info: &'static ClassInfo,
    arguments: &Arguments<'_, 'py>,
) -> Result<Bound<'py, PyAny>, Unsupported> {
    let mut builder = Builder::new(class.py(), info)?;
    let mut expected = 0;
    for (key, value) in arguments.named() {
        builder.entry(&key, &value, &mut expected)?;
    }
    builder.finish_as(class)
}

/// As Python says it of a function of its own.
#[cold]
fn not_one(arguments: &Arguments<'_, '_>) -> PyErr {
    PyTypeError::new_err(match arguments.positional().len() {
        0 => "make_event() missing 1 required positional argument: 'cls'".to_owned(),
        given => format!("make_event() takes 1 positional argument but {given} were given"),
    })
}

#[cfg(test)]
mod tests {
    use super::is_json_pointer;

    #[test]
    fn pointers() {
        for pointer in ["", "/", "/a", "/a~0b/~1", "/~01", "//", "/é"] {
            assert!(is_json_pointer(pointer), "{pointer}");
        }
        for other in ["a", "#/a", "/~", "/~2", "/a~", "~0", "/~~0"] {
            assert!(!is_json_pointer(other), "{other}");
        }
    }
}
