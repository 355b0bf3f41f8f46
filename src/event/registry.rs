//! The SDK's classes, each with its plan, and the objects that the crate needs from Python.
//! Filled once, when the module is imported, and never changed: classes that users define are
//! not in it, so it keeps none of them alive.

use pyo3::exceptions::PyImportError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};
use std::collections::HashMap;
use std::sync::OnceLock;

use super::plan::{self, Cell, Learner, Plan};
use super::{EventKind, Shape};
use crate::capi;

static REGISTRY: OnceLock<Registry> = OnceLock::new();

pub struct Registry {
    classes: Classes,
    /// The event class of each kind.
    events: [&'static Cell; EventKind::COUNT],
    /// What all events have: the plan of events of a type that the SDK does not know.
    pub(super) base_event: &'static Cell,
    kinds: PointerMap<EventKind>,
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
        let mut events = [base_event; EventKind::COUNT];
        // The members of the union are the event classes, whatever they are called.
        let union = core.getattr("Event")?;
        let members = py.import("typing")?.call_method1("get_args", (union,))?.get_item(0)?;
        let members = py.import("typing")?.call_method1("get_args", (members,))?;
        for class in members.try_iter()? {
            let cell = learner.class(&class?.cast_into()?)?;
            let kind = cell.plan.get().and_then(Plan::tag_text).map(str::as_bytes);
            if let Some(kind) = kind.and_then(EventKind::from_name) {
                events[kind as usize] = cell;
            }
        }
        for &kind in EventKind::ALL {
            let name = PyString::intern(py, kind.name());
            if let Ok(member) = event_type.get_item(&name) {
                kinds.insert(member, kind);
            }
            names.push(name.clone().unbind());
            kinds.insert(name.into_any(), kind);
        }
        let plans = classes.cells.iter().filter_map(|cell| cell.plan.get());
        let aliases = plans
            .flat_map(|plan| &plan.fields)
            .map(|field| (field.alias_text.as_bytes().into(), field.alias.clone_ref(py)))
            .collect();
        let slot = |name: &str| -> PyResult<Py<PyAny>> {
            let slots = plan::base_model(py)?.getattr(intern!(py, "__dict__"))?;
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

    /// The plan for instances of exactly the class with this key, if it may be used now.
    #[inline]
    pub fn plan(&self, key: usize) -> Option<&'static Plan> {
        self.classes.get(key)?.plan_for(key)
    }

    /// The plan of the event class of this kind, for reading a wire dict: it is not the class
    /// that writes it, so the class's guards do not matter.
    #[inline]
    pub fn event(&self, kind: Option<EventKind>) -> Option<&'static Plan> {
        match kind {
            Some(kind) => self.events[kind as usize].plan.get(),
            None => self.base_event.plan.get(),
        }
    }

    /// The kind that a `type` names: a member of `EventType`, or its value as a str.
    #[inline]
    pub fn kind(&self, value: &Bound<'_, PyAny>) -> Option<EventKind> {
        if let Some(kind) = self.kinds.get(value.as_ptr() as usize) {
            return Some(kind);
        }
        match capi::text(value.cast().ok()?) {
            capi::Text::Ascii(name) => EventKind::from_name(name),
            _ => None,
        }
    }

    /// The kind of a wire dict.
    pub fn kind_of(&self, event: &Bound<'_, PyDict>) -> Option<EventKind> {
        self.kind(&capi::dict_get(event, self.type_key.bind(event.py()))?)
    }

    /// The kind of a `type` that is one of the registry's own objects.
    #[inline]
    pub fn interned_kind(&self, value: &Bound<'_, PyAny>) -> Option<EventKind> {
        self.kinds.get(value.as_ptr() as usize)
    }

    /// The `type` of events of this kind, as wire dicts have it.
    #[inline]
    pub fn kind_name<'py>(&self, py: Python<'py>, kind: EventKind) -> &Bound<'py, PyString> {
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
            match cell.plan.get() {
                None => unlearned.push(class),
                Some(plan) => unlearned.extend(
                    plan.fields
                        .iter()
                        .filter(|field| matches!(field.shape, Shape::Unknown))
                        .map(|field| format!("{class}.{}", field.name_text)),
                ),
            }
        }
        Ok(unlearned)
    }
}

/// The learned classes by their key.
#[derive(Default)]
pub struct Classes {
    map: PointerMap<&'static Cell>,
    cells: Vec<&'static Cell>,
}

impl Classes {
    #[inline]
    pub fn get(&self, key: usize) -> Option<&'static Cell> {
        self.map.get(key)
    }

    pub fn insert(&mut self, class: &Bound<'_, PyType>) -> &'static Cell {
        // Cells live as long as the process, like the classes that they are about.
        let cell: &'static Cell =
            Box::leak(Box::new(Cell { key: capi::class_key(class), plan: OnceLock::new() }));
        self.map.insert(class.clone().into_any(), cell);
        self.cells.push(cell);
        cell
    }
}

/// A map from Python objects, by identity. It keeps the objects, so that an address cannot come
/// to mean another one. Open addressing, at most a quarter full.
struct PointerMap<T> {
    slots: Vec<Option<(usize, T)>>,
    objects: Vec<Py<PyAny>>,
}

impl<T> Default for PointerMap<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), objects: Vec::new() }
    }
}

impl<T: Copy> PointerMap<T> {
    /// Objects are aligned to 16 bytes; Fibonacci hashing takes what is above.
    #[inline]
    fn start(&self, key: usize) -> usize {
        let hash = (key >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize);
        (hash >> (usize::BITS / 2)) & (self.slots.len() - 1)
    }

    #[inline]
    fn get(&self, key: usize) -> Option<T> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = self.start(key);
        loop {
            match self.slots[at] {
                Some((found, value)) if found == key => return Some(value),
                Some(_) => at = (at + 1) & (self.slots.len() - 1),
                None => return None,
            }
        }
    }

    fn insert(&mut self, object: Bound<'_, PyAny>, value: T) {
        if self.objects.len() * 4 >= self.slots.len() {
            let size = (self.slots.len() * 2).max(64);
            let old = std::mem::replace(&mut self.slots, vec![None; size]);
            for (key, value) in old.into_iter().flatten() {
                self.place(key, value);
            }
        }
        self.place(object.as_ptr() as usize, value);
        self.objects.push(object.unbind());
    }

    fn place(&mut self, key: usize, value: T) {
        let mut at = self.start(key);
        while self.slots[at].is_some() {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = Some((key, value));
    }
}
