//! Applying a JSON Patch (RFC 6902) to plain Python values.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::HashSet;

use super::copy::{Copier, Uncopied};
use super::document::{Container, string, type_name, utf8};
use super::equal::equal;
use super::operation::{Fault, Op, Operation, Patch, Refusal, UnknownOp};
use super::pointer;
use super::undo::{Change, Claim, UndoLog};
use crate::capi;
use crate::json::MAX_DEPTH;

type Done<T> = Result<T, Fault>;

/// How many values one patch may make unless the caller says otherwise: a hundred megabytes of
/// them, and more than states have.
pub const MAX_VALUES: usize = 1_000_000;

/// The tokens of a path, escaped as they stand there.
type Tokens<'a> = &'a [&'a [u8]];

/// A document while a patch is applied to it.
struct Draft<'py> {
    root: Bound<'py, PyAny>,
    mode: Mode<'py>,
    /// What was done, while something may still fail.
    log: UndoLog<'py>,
    logging: bool,
    /// Makes the values of operations, as many as one patch may.
    copier: Copier,
    max_values: usize,
}

enum Mode<'py> {
    /// Containers are copied before they are changed, once.
    Copying(Owned<'py>),
    /// They are changed themselves.
    InPlace,
    /// Those that nobody else has are changed themselves, others are copied before.
    Consuming(Owned<'py>),
}

/// The containers that this patch may change, as it made them or nobody else has them. It keeps them, so that an address cannot
/// come to mean another one.
#[derive(Default)]
struct Owned<'py> {
    containers: Vec<Bound<'py, PyAny>>,
    /// The addresses, once there are too many to look through.
    addresses: HashSet<usize>,
}

impl<'py> Owned<'py> {
    const FEW: usize = 16;

    fn has(&self, value: &Bound<'py, PyAny>) -> bool {
        if self.containers.len() <= Self::FEW {
            self.containers.iter().any(|container| container.is(value))
        } else {
            self.addresses.contains(&(value.as_ptr() as usize))
        }
    }

    fn push(&mut self, value: Bound<'py, PyAny>) {
        if self.containers.len() == Self::FEW {
            self.addresses.extend(self.containers.iter().map(|value| value.as_ptr() as usize));
        }
        if self.containers.len() >= Self::FEW {
            self.addresses.insert(value.as_ptr() as usize);
        }
        self.containers.push(value);
    }
}

/// A place directly below a container.
enum Place<'py> {
    Member(Bound<'py, PyDict>, Bound<'py, pyo3::types::PyString>),
    Element(Bound<'py, pyo3::types::PyList>, Index),
}

/// Where in an array.
#[derive(Clone, Copy)]
enum Index {
    At(usize),
    /// `-`: behind the last element.
    End,
    /// Not the grammar of an index.
    Malformed,
}

/// The pointer to what the first `count` tokens lead to, for messages.
#[cold]
fn quoted(tokens: Tokens<'_>, count: usize) -> String {
    let pointer: Vec<u8> =
        tokens[..count].iter().flat_map(|token| [b"/", *token].concat()).collect();
    format!("{:?}", super::shortened(&String::from_utf8_lossy(&pointer)))
}

/// There is nothing where the token at `at` leads.
#[cold]
fn nothing(place: &Place<'_>, tokens: Tokens<'_>, at: usize) -> Fault {
    let token = String::from_utf8_lossy(tokens[at]);
    Fault::new(match place {
        Place::Member(..) => {
            format!("the object at {} has no member {token:?}", quoted(tokens, at))
        }
        Place::Element(_, Index::Malformed) => {
            format!("{token:?} is no index of the array at {}", quoted(tokens, at))
        }
        Place::Element(array, _) => format!(
            "the array at {} has {} elements, and none at {token:?}",
            quoted(tokens, at),
            array.len()
        ),
    })
}

/// The place that the token at `at` names in `container`.
fn place<'py>(container: Container<'py>, token: &[u8]) -> Done<Place<'py>> {
    Ok(match container {
        Container::Object(object) => {
            let key = string(object.py(), &pointer::unescape(token))?;
            Place::Member(object, key)
        }
        Container::Array(array) => {
            let index = match pointer::index(token) {
                Some(index) => Index::At(index),
                None if token == b"-" => Index::End,
                None => Index::Malformed,
            };
            Place::Element(array, index)
        }
    })
}

impl<'py> Place<'py> {
    /// How many members the container has.
    fn len(&self) -> usize {
        match self {
            Self::Member(object, _) => object.len(),
            Self::Element(array, _) => array.len(),
        }
    }

    fn get(&self) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self {
            Self::Member(object, key) => object.get_item(key),
            Self::Element(array, Index::At(index)) => Ok(capi::list_get(array, *index)),
            Self::Element(..) => Ok(None),
        }
    }

    /// Puts a value where there already is one.
    fn set(&self, value: &Bound<'py, PyAny>) -> PyResult<()> {
        match self {
            Self::Member(object, key) => object.set_item(key, value),
            Self::Element(array, Index::At(index)) => array.set_item(*index, value),
            Self::Element(..) => Ok(()),
        }
    }
}

#[cold]
fn leaf(value: &Bound<'_, PyAny>, tokens: Tokens<'_>, at: usize) -> Fault {
    let what = type_name(value);
    Fault::new(format!("nothing is below the {what} at {}", quoted(tokens, at)))
}

impl<'py> Draft<'py> {
    /// What a pointer leads to.
    fn get(&self, tokens: Tokens<'_>) -> Done<Bound<'py, PyAny>> {
        let mut value = self.root.clone();
        for (at, token) in tokens.iter().enumerate() {
            let container = Container::of(&value).ok_or_else(|| leaf(&value, tokens, at))?;
            let place = place(container, token)?;
            value = place.get()?.ok_or_else(|| nothing(&place, tokens, at))?;
        }
        Ok(value)
    }

    /// The place that a pointer which is not empty names, in a container that may be changed.
    fn writable(&mut self, tokens: Tokens<'_>) -> Done<Place<'py>> {
        let Some(mut container) = Container::of(&self.root) else {
            return Err(leaf(&self.root, tokens, 0));
        };
        if let Some(own) = self.mode.own(&container)? {
            self.set_root(own.as_any().clone());
            container = own;
        }
        let last = tokens.len() - 1;
        for (at, token) in tokens[..last].iter().enumerate() {
            let place = place(container, token)?;
            let value = place.get()?.ok_or_else(|| nothing(&place, tokens, at))?;
            container = Container::of(&value).ok_or_else(|| leaf(&value, tokens, at + 1))?;
            // So that there are no more references than the container's and its parent's.
            drop(value);
            if let Some(own) = self.mode.own(&container)? {
                self.put(place, container.as_any().clone(), own.as_any().clone())?;
                container = own;
            }
        }
        place(container, tokens[last])
    }

    fn set_root(&mut self, value: Bound<'py, PyAny>) {
        let old = std::mem::replace(&mut self.root, value);
        if !matches!(self.mode, Mode::Copying(_)) {
            self.log.push(Change::Root(old), 0);
        }
    }

    /// Section 4.1.
    fn add(&mut self, tokens: Tokens<'_>, value: Bound<'py, PyAny>) -> Done<()> {
        if tokens.is_empty() {
            self.set_root(value);
            return Ok(());
        }
        let place = self.writable(tokens)?;
        match &place {
            Place::Member(object, key) => {
                let len = object.len();
                let old = object.get_item(key)?;
                undisturbed(object.len() == len)?;
                object.set_item(key, &value)?;
                let len = len + usize::from(old.is_none());
                let change = || Change::Set(object.clone(), key.clone(), old, value);
                self.note(object.len(), len, change)
            }
            Place::Element(array, index) => {
                let len = array.len();
                let index = match *index {
                    Index::At(index) if index <= len => index,
                    Index::End => len,
                    Index::At(_) | Index::Malformed => {
                        return Err(nothing(&place, tokens, tokens.len() - 1));
                    }
                };
                array.insert(index, &value)?;
                let change = || Change::Inserted(array.clone(), index, value);
                self.note(array.len(), len + 1, change)
            }
        }
    }

    /// Section 4.2. A document that is removed itself leaves null, since nothing is no document.
    fn remove(&mut self, tokens: Tokens<'_>) -> Done<Bound<'py, PyAny>> {
        if tokens.is_empty() {
            let old = self.root.clone();
            self.set_root(old.py().None().into_bound(old.py()));
            return Ok(old);
        }
        let place = self.writable(tokens)?;
        let len = place.len();
        let old = place.get()?.ok_or_else(|| nothing(&place, tokens, tokens.len() - 1))?;
        undisturbed(place.len() == len)?;
        match &place {
            Place::Member(object, key) => {
                self.keep_order(object);
                object.del_item(key)?;
                let change = || Change::Removed(object.clone(), key.clone(), old.clone());
                self.note(object.len(), len - 1, change)?;
            }
            Place::Element(array, index) => {
                if let Index::At(index) = *index {
                    array.del_item(index)?;
                    let change = || Change::RemovedItem(array.clone(), index, old.clone());
                    self.note(array.len(), len - 1, change)?;
                }
            }
        }
        Ok(old)
    }

    /// Section 4.3.
    fn replace(&mut self, tokens: Tokens<'_>, value: Bound<'py, PyAny>) -> Done<()> {
        if tokens.is_empty() {
            self.set_root(value);
            return Ok(());
        }
        let place = self.writable(tokens)?;
        let len = place.len();
        let old = place.get()?.ok_or_else(|| nothing(&place, tokens, tokens.len() - 1))?;
        undisturbed(place.len() == len)?;
        self.put(place, old, value)
    }

    /// Puts a value in the place of another.
    fn put(
        &mut self,
        place: Place<'py>,
        old: Bound<'py, PyAny>,
        value: Bound<'py, PyAny>,
    ) -> Done<()> {
        let len = place.len();
        place.set(&value)?;
        let now = place.len();
        let change = || match place {
            Place::Member(object, key) => Change::Set(object, key, Some(old), value),
            Place::Element(array, Index::At(index)) => Change::SetItem(array, index, old, value),
            Place::Element(array, _) => Change::SetItem(array, 0, old, value),
        };
        self.note(now, len, change)
    }

    /// Sections 4.4: the value itself moves, no copy of it.
    fn relocate(&mut self, from: Tokens<'_>, path: Tokens<'_>) -> Done<()> {
        let in_from = |fault| Fault { in_from: true, ..fault };
        if from == path {
            return self.get(from).map(drop).map_err(in_from);
        }
        if path.starts_with(from) {
            self.get(from).map_err(in_from)?;
            return Err(Fault::new("a value cannot be moved into itself"));
        }
        let value = self.remove(from).map_err(in_from)?;
        self.add(path, value)
    }

    fn apply(&mut self, operation: &Operation<'py>) -> Done<()> {
        let path = utf8(&operation.path)?;
        let path: Vec<&[u8]> = tokens(&path)?;
        let from = operation.from.as_ref().map(utf8).transpose()?;
        let from: Vec<&[u8]> = from.as_deref().map_or(Ok(Vec::new()), tokens)?;
        // What is put at the end of the path may be as deep as is left.
        let room = MAX_DEPTH.saturating_sub(u32::try_from(path.len()).unwrap_or(u32::MAX));
        match (operation.op, &operation.value) {
            (Op::Add, Some(value)) => {
                let value = self.copied(value, room)?;
                self.add(&path, value)
            }
            (Op::Replace, Some(value)) => {
                let value = self.copied(value, room)?;
                self.replace(&path, value)
            }
            (Op::Remove, _) => self.remove(&path).map(drop),
            (Op::Move, _) => self.relocate(&from, &path),
            (Op::Copy, _) => {
                let value = self.get(&from).map_err(|fault| Fault { in_from: true, ..fault })?;
                let value = self.copied(&value, room)?;
                self.add(&path, value)
            }
            (Op::Test, Some(value)) => {
                let found = self.get(&path)?;
                match equal(&found, value, MAX_DEPTH) {
                    Ok(true) => Ok(()),
                    Ok(false) => Err(differs(&found, value)),
                    Err(error) => Err(Fault::of_parts(error.into_parts())),
                }
            }
            (Op::Add | Op::Replace | Op::Test, None) => Err(Fault::new("there is no value")),
        }
    }

    fn copied(&mut self, value: &Bound<'py, PyAny>, room: u32) -> Done<Bound<'py, PyAny>> {
        self.copier.copy(value, room).map_err(|error| match error {
            Uncopied::TooMany => {
                Fault::new(format!("the patch makes more than {} values", self.max_values))
            }
            error => Fault::of_parts(error.into_parts()),
        })
    }
}

/// Refuses to go on where Python code that just ran, or another thread, changed the document.
fn undisturbed(is_so: bool) -> Done<()> {
    if is_so { Ok(()) } else { Err(Fault::new("the document was changed while it was patched")) }
}

#[cold]
fn differs(found: &Bound<'_, PyAny>, expected: &Bound<'_, PyAny>) -> Fault {
    let short = |value: &Bound<'_, PyAny>| {
        let text = value.repr().map(|text| super::shortened(&text.to_string_lossy()).into_owned());
        text.unwrap_or_else(|_| type_name(value))
    };
    Fault::new(format!("the value is {}, not {}", short(found), short(expected)))
}

fn tokens(path: &[u8]) -> Done<Vec<&[u8]>> {
    let tokens: Vec<&[u8]> =
        pointer::tokens(path).map_err(|error| Fault::new(error.reason()))?.collect();
    if tokens.len() > MAX_DEPTH as usize {
        return Err(Fault::new(super::too_deep()));
    }
    Ok(tokens)
}

impl<'py> Mode<'py> {
    /// The container to change in the place of this one, if it is another.
    fn own(&mut self, container: &Container<'py>) -> Done<Option<Container<'py>>> {
        match self {
            Self::Copying(owned) if owned.has(container.as_any()) => Ok(None),
            Self::Copying(owned) => {
                let copy = container.shallow_copy()?;
                owned.push(copy.as_any().clone());
                Ok(Some(copy))
            }
            Self::InPlace if container.is_plain() => Ok(None),
            Self::InPlace => Err(Fault::new(format!(
                "only a plain dict or list is changed in place, not {}",
                type_name(container.as_any())
            ))),
            Self::Consuming(owned) if owned.has(container.as_any()) => Ok(None),
            Self::Consuming(owned) => {
                let is_ours =
                    container.is_plain() && capi::is_only_in_its_place(container.as_any());
                let copy = if is_ours { None } else { Some(container.shallow_copy()?) };
                owned.push(copy.as_ref().unwrap_or(container).as_any().clone());
                Ok(copy)
            }
        }
    }
}

impl<'py> Draft<'py> {
    fn new(root: Bound<'py, PyAny>, mode: Mode<'py>, max_values: usize) -> Self {
        let copier = Copier { left: max_values };
        Self { root, mode, log: UndoLog::default(), logging: false, copier, max_values }
    }

    /// Notes what was done, if it may have to be taken back. The container had `len` members after
    /// it, unless somebody else changed it, too; now it has `now`.
    fn note(&mut self, now: usize, len: usize, change: impl FnOnce() -> Change<'py>) -> Done<()> {
        if matches!(self.mode, Mode::Copying(_)) {
            return Ok(());
        }
        if self.logging || now != len {
            self.log.push(change(), len);
            return undisturbed(now == len);
        }
        Ok(())
    }

    /// In the caller's own document its members keep their order when a patch is taken back. That
    /// costs a list of all keys; a document that only grows and shrinks by deltas goes without.
    fn keep_order(&mut self, object: &Bound<'py, PyDict>) {
        if self.logging && matches!(self.mode, Mode::InPlace) {
            self.log.keep_order(object);
        }
    }

    /// Applies a patch, whole or not at all.
    fn apply_all(&mut self, patch: &Patch<'py>) -> Result<(), Box<Refusal>> {
        let changes = !matches!(self.mode, Mode::Copying(_));
        let last = patch.operations.len().saturating_sub(1);
        for (index, operation) in patch.operations.iter().enumerate() {
            // One operation is all or nothing itself, but for the two halves of a move.
            self.logging = changes && (last > 0 || operation.op == Op::Move);
            let mut done = self.apply(operation);
            if changes && index == last && done.is_ok() {
                done = undisturbed(self.log.is_undisturbed());
            }
            if let Err(fault) = done {
                let mut refusal = Refusal::at(index, operation, fault);
                if changes && let Err(error) = self.log.roll_back(&mut self.root) {
                    refusal.reason.push_str("; and what was done before could not be undone");
                    refusal.cause = Some(error);
                }
                return Err(refusal);
            }
        }
        Ok(())
    }
}

/// Applies a patch that has been read, whole or not at all. In place, the document comes back
/// unless an operation replaced the root. `max_values` is as for [`apply_patch`].
pub fn apply<'py>(
    document: &Bound<'py, PyAny>,
    patch: &Patch<'py>,
    in_place: bool,
    max_values: usize,
) -> Result<Bound<'py, PyAny>, Box<Refusal>> {
    let mut claim = None;
    let mode = if in_place {
        claim = Claim::on(document);
        if claim.is_none() {
            return Err(Refusal::whole("the document is being patched in place already"));
        }
        Mode::InPlace
    } else {
        Mode::Copying(Owned::default())
    };
    let mut draft = Draft::new(document.clone(), mode, max_values);
    draft.apply_all(patch)?;
    // What was replaced or removed goes now: its finalizers may run Python, when all is done.
    drop(claim);
    let Draft { root, .. } = draft;
    Ok(root)
}

/// [`apply`] to a document that is given away: of its containers those are changed that nobody else
/// has, so that a document which grows by a member at a time is not copied each time. If the patch
/// does not apply, the document is what it was, but for where removed members stand in their objects.
pub fn apply_to_own<'py>(
    document: Bound<'py, PyAny>,
    patch: &Patch<'py>,
    max_values: usize,
) -> (Bound<'py, PyAny>, Result<(), Box<Refusal>>) {
    let mut draft = Draft::new(document, Mode::Consuming(Owned::default()), max_values);
    let done = draft.apply_all(patch);
    let Draft { root, .. } = draft;
    (root, done)
}

/// A document with a JSON Patch applied (RFC 6902), atomically.
///
/// Args:
///     document: Plain JSON values: dict, list, str, int, float, bool, None. Subclasses of dict and
///         list are read as such, and where they are changed become plain ones; anything else, a
///         tuple for one, is a leaf.
///     patch: A list of operations, each a dict as on the wire or a model of ``ag_ui.core``.
///     in_place: Change the document itself instead of a copy. Each part of it must then occur in
///         it once, and what is changed must be a plain dict or list.
///     max_values: The most values that the patch may make: every scalar, array and object that
///         ``add``, ``replace`` and ``copy`` put into the document counts as one. A short patch of
///         a peer that copies the document into itself again and again would otherwise fill the
///         memory.
///
/// Returns:
///     The patched document. Without ``in_place`` it is a new one where something changed, and
///     shares the rest with ``document``, which never changes: treat both as values. It shares
///     nothing with the patch. With ``in_place`` it is ``document``, unless an operation replaced
///     the root (with any JSON value; removing the root leaves None).
///
/// Raises:
///     PatchError: The patch is malformed or does not apply, or makes more than ``max_values``; it
///         names the operation, the path and the reason. The document is as it was before, also
///         with ``in_place``. There it is also an error if Python code that runs meanwhile or
///         another thread changes the document: what they did stays, and nothing of the patch does.
///
/// Example:
///     >>> apply_patch({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}])
///     {'a': [1, 2]}
#[pyfunction]
#[pyo3(signature = (document, patch, *, in_place=false, max_values=1_000_000))]
pub fn apply_patch<'py>(
    document: &Bound<'py, PyAny>,
    patch: &Bound<'py, PyAny>,
    in_place: bool,
    max_values: usize,
) -> PyResult<Bound<'py, PyAny>> {
    Patch::read(patch, UnknownOp::Refuse)
        .and_then(|patch| apply(document, &patch, in_place, max_values))
        .map_err(|refusal| refusal.into_error(document.py()))
}
