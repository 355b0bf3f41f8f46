//! The SDK's classes, with what is known of each, and the objects that the crate needs from Python.
//! Filled once, when the module is imported, and never changed: classes that users define are
//! not in it, so it keeps none of them alive.

use pyo3::exceptions::PyImportError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};
use std::collections::HashMap;
use std::sync::OnceLock;

use super::EventType;
use super::class_info::{Cell, ClassInfo, FieldType, base_model};
use super::classes::{Classes, PointerMap};
use super::learn::Learner;
use crate::capi;

static REGISTRY: OnceLock<Registry> = OnceLock::new();

pub struct Registry {
    classes: Classes,
    /// The event class of each kind.
    events: [&'static Cell; EventType::COUNT],
    /// The class of what all events have, which describes events of a type that the SDK does not know.
    pub(super) base_event: &'static Cell,
    kinds: PointerMap<EventType>,
    /// The `type` of each kind, interned.
    names: Vec<Py<PyString>>,
    /// The slots of a model: its extra fields, the names of the fields that were given, and its
    /// private attributes.
    pub extra: Py<PyAny>,
    pub fields_set: Py<PyAny>,
    pub private: Py<PyAny>,
    /// The class of enum classes.
    pub enum_type: usize,
    /// A class with a field of any JSON value, for values that only pydantic can write.
    pub custom_event: Py<PyAny>,

    /// The version of the protocol that the SDK declares, `MAJOR.MINOR`; None before 1.0.
    protocol_version: Option<String>,

    /// The interned key `type`.
    pub type_key: Py<PyString>,
    /// The interned keys of all classes by their text, for who reads them from bytes.
    pub aliases: HashMap<Box<[u8]>, Py<PyString>>,
}

/// The registry, which importing the module has filled.
///
/// # Panics
/// Before that.
#[inline]
pub fn registry() -> &'static Registry {
    REGISTRY.get().expect("filled when the module is imported")
}

/// The version of the protocol that the installed SDK speaks, which is what we declare to peers; None
/// if it is older than the declaration.
pub fn protocol_version() -> Option<&'static str> {
    registry().protocol_version.as_deref()
}

/// What of `ag-ui-protocol` this package is made for, as pyproject.toml says it.
const NEEDED: &str = ">=1.0,<2";

/// Classes that are not as expected are those of another SDK; that it is missing says itself.
#[cold]
fn unknown_sdk(py: Python<'_>, error: PyErr) -> PyErr {
    if error.is_instance_of::<PyImportError>(py) {
        return error;
    }
    let found = py.import("importlib.metadata").and_then(|metadata| {
        metadata.call_method1("version", ("ag-ui-protocol",))?.extract::<String>()
    });
    let found = found.map_or("an unknown version".to_owned(), |found| format!("version {found}"));
    let text = format!(
        "agui_codec needs ag-ui-protocol {NEEDED}, and cannot read the classes of {found}, \
         which is installed"
    );
    let unknown = PyImportError::new_err(text);
    unknown.set_cause(py, Some(error));
    unknown
}

impl Registry {
    /// Learns the SDK's classes. Called when the module is imported.
    pub fn fill(py: Python<'_>) -> PyResult<()> {
        if REGISTRY.get().is_some() {
            return Ok(());
        }
        Self::learn(py).map_err(|error| unknown_sdk(py, error))
    }

    fn learn(py: Python<'_>) -> PyResult<()> {
        let core = py.import("ag_ui.core.events")?;
        let base = core.getattr("ConfiguredBaseModel")?.cast_into::<PyType>()?;
        let event_type = core.getattr("EventType")?;
        let mut classes = Classes::default();
        let mut kinds = PointerMap::default();
        let mut names = Vec::new();
        let mut learner = Learner::new(&mut classes, &base)?;
        let base_event = learner.class(&core.getattr("BaseEvent")?.cast_into()?)?;
        let mut events = [base_event; EventType::COUNT];
        // The members of the union are the event classes, whatever they are called.
        let union = core.getattr("Event")?;
        let members = py.import("typing")?.call_method1("get_args", (union,))?.get_item(0)?;
        let members = py.import("typing")?.call_method1("get_args", (members,))?;
        for class in members.try_iter()? {
            let cell = learner.class(&class?.cast_into()?)?;
            let kind = cell.info.get().and_then(ClassInfo::tag_text).map(str::as_bytes);
            if let Some(kind) = kind.and_then(EventType::from_name) {
                events[kind as usize] = cell;
            }
        }
        for &kind in EventType::ALL {
            let name = PyString::intern(py, kind.name());
            if let Ok(member) = event_type.get_item(&name) {
                kinds.insert(member, kind);
            }
            names.push(name.clone().unbind());
            kinds.insert(name.into_any(), kind);
        }
        let infos = classes.cells.iter().filter_map(|cell| cell.info.get());
        let aliases = infos
            .flat_map(|info| &info.fields)
            .map(|field| (field.alias_text.as_bytes().into(), field.alias.clone_ref(py)))
            .collect();
        let slot = |name: &str| -> PyResult<Py<PyAny>> {
            let slots = base_model(py)?.getattr(intern!(py, "__dict__"))?;
            let found = slots.get_item(name).map_err(|_| {
                PyImportError::new_err(format!(
                    "agui_codec: pydantic's BaseModel has no slot {name}"
                ))
            })?;
            Ok(found.unbind())
        };
        let registry = Self {
            classes,
            events,
            base_event,
            kinds,
            names,
            extra: slot("__pydantic_extra__")?,
            fields_set: slot("__pydantic_fields_set__")?,
            private: slot("__pydantic_private__")?,
            enum_type: py.import("enum")?.getattr("EnumMeta")?.as_ptr() as usize,

            custom_event: core.getattr("CustomEvent")?.unbind(),
            protocol_version: py
                .import("ag_ui.core")?
                .getattr_opt("PROTOCOL_VERSION")?
                .map(|version| version.extract())
                .transpose()?,
            type_key: PyString::intern(py, "type").unbind(),
            aliases,
        };
        // Another thread may have been first; then its registry is as good.
        let _ = REGISTRY.set(registry);
        Ok(())
    }

    /// What is known of exactly the class with this key, if it may be used now.
    #[inline]
    pub fn info(&self, key: usize) -> Option<&'static ClassInfo> {
        self.classes.get(key)?.info_for(key)
    }

    /// What is known of the event class of this type, for reading a wire dict: it is not the class
    /// that writes it, so the class's guards do not matter.
    #[inline]
    pub fn event(&self, kind: Option<EventType>) -> Option<&'static ClassInfo> {
        match kind {
            Some(kind) => self.events[kind as usize].info.get(),
            None => self.base_event.info.get(),
        }
    }

    /// The kind that a `type` names: a member of `EventType`, or its value as a str.
    #[inline]
    pub fn kind(&self, value: &Bound<'_, PyAny>) -> Option<EventType> {
        if let Some(kind) = self.kinds.get(value.as_ptr() as usize) {
            return Some(kind);
        }
        match capi::text(value.cast().ok()?) {
            capi::Text::Ascii(name) => EventType::from_name(name),
            _ => None,
        }
    }

    /// The kind of a wire dict.
    pub fn kind_of(&self, event: &Bound<'_, PyDict>) -> Option<EventType> {
        self.kind(&capi::dict_get(event, self.type_key.bind(event.py()))?)
    }

    /// The kind of a `type` that is one of the registry's own objects.
    #[inline]
    pub fn interned_kind(&self, value: &Bound<'_, PyAny>) -> Option<EventType> {
        self.kinds.get(value.as_ptr() as usize)
    }

    /// The `type` of events of this kind, as wire dicts have it.
    #[inline]
    pub fn kind_name<'py>(&self, py: Python<'py>, kind: EventType) -> &Bound<'py, PyString> {
        self.names[kind as usize].bind(py)
    }

    /// The member of a tagged union that a discriminator names.
    pub fn choice(
        choices: &[(Box<str>, &'static Cell)],
        tag: &Bound<'_, PyAny>,
    ) -> Option<&'static Cell> {
        let tag = tag.cast::<PyString>().ok()?;
        let capi::Text::Ascii(text) = capi::text(tag) else {
            return None;
        };
        choices.iter().find(|(name, _)| name.as_bytes() == text).map(|(_, cell)| *cell)
    }

    /// What was not learned, as `Class` or `Class.field`: pydantic treats it, slowly. Nothing, with
    /// the SDK and the pydantic that this crate was tested with.
    pub fn unlearned(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let mut unlearned = Vec::new();
        for (cell, class) in self.classes.cells.iter().zip(&self.classes.map.objects) {
            let class = class.bind(py).getattr(intern!(py, "__name__"))?.extract::<String>()?;
            match cell.info.get() {
                None => unlearned.push(class),
                Some(info) => unlearned.extend(
                    info.fields
                        .iter()
                        .filter(|field| matches!(field.shape, FieldType::Unknown))
                        .map(|field| format!("{class}.{}", field.name_text)),
                ),
            }
        }
        Ok(unlearned)
    }
}
