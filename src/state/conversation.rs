//! The messages of a thread, found by id and kept in order.
//!
//! Nothing that a single event does takes time in proportion to the messages there are, save for a
//! snapshot of them all: ids are looked up in a dict, the order is a linked list.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList, PySet, PyString};
use std::sync::Arc;

use super::incoming::Incoming;
use super::message::{Call, Message, NamedCall, Open, Role};
use crate::capi;

/// No slot.
const NONE: u32 = u32::MAX;

struct Slot {
    /// Shared with the branches of this conversation until one of them writes to it.
    message: Arc<Message>,
    next: u32,
    /// The last of the tool messages that stand behind this one, as far as is known, and when that
    /// was so; see [`Conversation::epoch`].
    last_result: (u32, u32),
}

impl Slot {
    fn new(message: Arc<Message>, next: u32) -> Self {
        Self { message, next, last_result: (NONE, 0) }
    }
}

pub struct Conversation {
    slots: Vec<Slot>,
    first: u32,
    last: u32,
    /// Message id to slot. Of two messages with one id, the first.
    ids: Py<PyDict>,
    /// Tool call id to slot and position there, in one number.
    calls: Py<PyDict>,
    /// Changes when a tool message becomes another: what was known of rows of them is void then.
    epoch: u32,
}

/// The activity types that a snapshot has all messages of, so that those which it lacks are gone.
pub enum ActivityTypes<'py> {
    /// It does not say so.
    Unsaid,
    All,
    These(Bound<'py, PySet>),
}

impl<'py> ActivityTypes<'py> {
    /// What `@ag-ui/client` reads in `metadata["@ag-ui/client"].authoritativeActivityTypes`: null is
    /// all types, a list of str is these, and what is malformed is none.
    pub fn of(incoming: &Incoming<'py>) -> PyResult<Self> {
        let py = incoming.event.py();
        let Some(metadata) = incoming.metadata()? else { return Ok(Self::Unsaid) };
        let Some(said) = metadata.get_item(intern!(py, "@ag-ui/client"))? else {
            return Ok(Self::Unsaid);
        };
        let none = || Ok(Self::These(PySet::empty(py)?));
        let Ok(said) = said.cast_into::<PyDict>() else { return none() };
        match said.get_item(intern!(py, "authoritativeActivityTypes"))? {
            None => Ok(Self::Unsaid),
            Some(types) if types.is_none() => Ok(Self::All),
            Some(types) => match types.cast_into::<PyList>() {
                Ok(types) if types.iter().all(|name| name.is_instance_of::<PyString>()) => {
                    Ok(Self::These(PySet::new(py, types.iter())?))
                }
                _ => none(),
            },
        }
    }
}

/// A tool call: the slot of its message, and its position there.
#[derive(Clone, Copy)]
pub struct CallAt {
    pub slot: u32,
    position: u32,
}

fn look_up(dict: &Bound<'_, PyDict>, key: &Bound<'_, PyString>) -> Option<i64> {
    capi::int_as_i64(capi::dict_get(dict, key)?.cast::<PyInt>().ok()?)
}

impl Conversation {
    pub fn new(py: Python<'_>) -> Self {
        Self {
            slots: Vec::new(),
            first: NONE,
            last: NONE,
            ids: PyDict::new(py).unbind(),
            calls: PyDict::new(py).unbind(),
            epoch: 1,
        }
    }

    /// The slot of the message with this id.
    #[inline]
    pub fn find(&self, id: &Bound<'_, PyString>) -> Option<u32> {
        look_up(self.ids.bind(id.py()), id).and_then(|slot| u32::try_from(slot).ok())
    }

    pub fn find_call(&self, id: &Bound<'_, PyString>) -> Option<CallAt> {
        let at = look_up(self.calls.bind(id.py()), id)?;
        let slot = u32::try_from(at >> 32).ok()?;
        Some(CallAt { slot, position: u32::try_from(at & i64::from(u32::MAX)).ok()? })
    }

    pub fn get(&self, slot: u32) -> &Message {
        &self.slots[slot as usize].message
    }

    /// The message to write to: a copy of our own if a branch has it too.
    #[inline]
    pub fn get_mut(&mut self, py: Python<'_>, slot: u32) -> PyResult<&mut Message> {
        let message = &mut self.slots[slot as usize].message;
        if Arc::get_mut(message).is_none() {
            *message = Arc::new(message.clone_ref(py)?);
        }
        Ok(Arc::get_mut(message).expect("not shared, or just made"))
    }

    #[inline]
    pub fn open(&mut self, py: Python<'_>, slot: u32) -> PyResult<&mut Open> {
        self.get_mut(py, slot)?.open(py)
    }

    /// The name of a tool call, and its arguments so far.
    pub fn named_call<'py>(&self, py: Python<'py>, at: CallAt) -> PyResult<Option<NamedCall<'py>>> {
        self.get(at.slot).call(py, at.position as usize)
    }

    /// The tool call, to write to.
    pub fn call(&mut self, py: Python<'_>, at: CallAt) -> PyResult<Option<&mut Call>> {
        Ok(self.open(py, at.slot)?.call(at.position as usize))
    }

    /// Adds a tool call to an assistant message.
    pub fn add_call(
        &mut self,
        slot: u32,
        id: &Bound<'_, PyString>,
        name: &Bound<'_, PyString>,
    ) -> PyResult<CallAt> {
        let py = id.py();
        let position = self.open(py, slot)?.add_call(id, name)?;
        let at = CallAt { slot, position: u32::try_from(position).unwrap_or(u32::MAX) };
        self.index_call(id, at)?;
        Ok(at)
    }

    fn index_call(&self, id: &Bound<'_, PyString>, at: CallAt) -> PyResult<()> {
        let packed = u64::from(at.slot) << 32 | u64::from(at.position);
        self.calls.bind(id.py()).set_item(id, packed)
    }

    /// Enters a message and its tool calls into the indices. The first of an id keeps it.
    fn index(&self, py: Python<'_>, slot: u32) -> PyResult<()> {
        let message = self.get(slot);
        let id = message.id.bind(py);
        if self.find(id).is_none() {
            self.ids.bind(py).set_item(id, slot)?;
        }
        for (position, id) in message.call_ids(py).iter().enumerate() {
            if self.find_call(id).is_none() {
                let position = u32::try_from(position).unwrap_or(u32::MAX);
                self.index_call(id, CallAt { slot, position })?;
            }
        }
        Ok(())
    }

    /// Puts a message behind the one in `slot`.
    fn insert_behind(&mut self, py: Python<'_>, slot: u32, message: Message) -> PyResult<u32> {
        let new = u32::try_from(self.slots.len()).unwrap_or(NONE);
        let next = if slot == NONE { self.first } else { self.slots[slot as usize].next };
        self.slots.push(Slot::new(Arc::new(message), next));
        if slot == NONE {
            self.first = new;
        } else {
            self.slots[slot as usize].next = new;
        }
        if self.last == slot {
            self.last = new;
        }
        self.index(py, new)?;
        Ok(new)
    }

    /// Puts a message at the end.
    pub fn push(&mut self, py: Python<'_>, message: Message) -> PyResult<u32> {
        self.insert_behind(py, self.last, message)
    }

    /// Puts a tool message behind the assistant message that made the call and the tool messages
    /// already there; without such an assistant message at the end.
    pub fn push_result(
        &mut self,
        call_id: &Bound<'_, PyString>,
        message: Message,
    ) -> PyResult<u32> {
        let py = call_id.py();
        let owner = self.find_call(call_id).map(|at| at.slot);
        let Some(owner) = owner.filter(|&slot| self.get(slot).role == Role::Assistant) else {
            return self.push(py, message);
        };
        let mut slot = match self.slots[owner as usize].last_result {
            (slot, epoch) if epoch == self.epoch => slot,
            _ => owner,
        };
        loop {
            let next = self.slots[slot as usize].next;
            if next == NONE || self.get(next).role != Role::Tool {
                break;
            }
            slot = next;
        }
        let new = self.insert_behind(py, slot, message)?;
        self.slots[owner as usize].last_result = (new, self.epoch);
        Ok(new)
    }

    /// Puts a message in the place of another with the same id.
    pub fn replace(&mut self, py: Python<'_>, slot: u32, message: Message) -> PyResult<()> {
        for id in self.get(slot).call_ids(py) {
            if self.find_call(&id).is_some_and(|at| at.slot == slot) {
                self.calls.bind(py).del_item(id)?;
            }
        }
        if self.get(slot).role == Role::Tool && message.role != Role::Tool {
            self.epoch += 1;
        }
        self.slots[slot as usize].message = Arc::new(message);
        self.index(py, slot)
    }

    /// Slots in the order of the conversation.
    pub fn order(&self) -> impl Iterator<Item = u32> {
        let mut slot = self.first;
        std::iter::from_fn(move || {
            if slot == NONE {
                return None;
            }
            let this = slot;
            slot = self.slots[slot as usize].next;
            Some(this)
        })
    }

    /// All messages. Those that were not written to since the last time are the same objects.
    pub fn list<'py>(&self, py: Python<'py>, as_dict: bool) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for slot in self.order() {
            list.append(self.get(slot).output(py, as_dict)?)?;
        }
        Ok(list)
    }

    /// Merges a snapshot of the conversation: messages that it has are replaced where they stand,
    /// those it lacks dropped, unseen ones appended in its order. Activity and reasoning messages
    /// that it lacks stay, unless it carries any of their kind; of activities it may say itself which
    /// ones it has all of. Returns the ids of what changed.
    pub fn merge<'py>(
        &mut self,
        py: Python<'py>,
        snapshot: Vec<Message>,
        activity_types: &ActivityTypes<'py>,
    ) -> PyResult<Vec<Bound<'py, PyString>>> {
        let lacks = |role| !snapshot.iter().any(|message| message.role == role);
        let (activities_stay, reasoning_stays) = (lacks(Role::Activity), lacks(Role::Reasoning));
        let stay = |message: &Message| match (message.role, activity_types) {
            (Role::Activity, ActivityTypes::Unsaid) => activities_stay,
            (Role::Activity, ActivityTypes::These(types)) => {
                !message.activity_type(py).is_some_and(|name| types.contains(name).unwrap_or(false))
            }
            (Role::Reasoning, _) => reasoning_stays,
            _ => false,
        };
        // Where each id stands in the snapshot; of two with one id the last counts.
        let positions = PyDict::new(py);
        for (position, message) in snapshot.iter().enumerate() {
            positions.set_item(&message.id, position)?;
        }
        let position = |id: &Py<PyString>| usize::try_from(look_up(&positions, id.bind(py))?).ok();
        let kept: Vec<Arc<Message>> = self
            .order()
            .filter(|&slot| position(&self.get(slot).id).is_some() || stay(self.get(slot)))
            .map(|slot| Arc::clone(&self.slots[slot as usize].message))
            .collect();
        let mut changed: Vec<_> = Vec::new();
        for slot in self.order() {
            let message = self.get(slot);
            if position(&message.id).is_none() && !stay(message) {
                changed.push(message.id.bind(py).clone());
            }
        }
        let order: Vec<usize> =
            snapshot.iter().filter_map(|message| position(&message.id)).collect();
        let mut snapshot: Vec<Option<Message>> = snapshot.into_iter().map(Some).collect();
        let mut merged = Self::new(py);
        for message in kept {
            match position(&message.id) {
                None => {
                    merged.push_shared(py, message)?;
                }
                Some(at) => {
                    if let Some(message) = snapshot[at].take() {
                        changed.push(message.id.bind(py).clone());
                        merged.push(py, message)?;
                    }
                }
            }
        }
        for at in order {
            if let Some(message) = snapshot[at].take() {
                changed.push(message.id.bind(py).clone());
                merged.push(py, message)?;
            }
        }
        *self = merged;
        Ok(changed)
    }

    fn push_shared(&mut self, py: Python<'_>, message: Arc<Message>) -> PyResult<()> {
        let new = u32::try_from(self.slots.len()).unwrap_or(NONE);
        if self.last == NONE {
            self.first = new;
        } else {
            self.slots[self.last as usize].next = new;
        }
        self.slots.push(Slot::new(message, NONE));
        self.last = new;
        self.index(py, new)
    }

    /// A branch: the messages are shared until written to.
    pub fn fork(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(Self {
            slots: self
                .slots
                .iter()
                .map(|slot| Slot { message: Arc::clone(&slot.message), ..*slot })
                .collect(),
            first: self.first,
            last: self.last,
            ids: self.ids.bind(py).copy()?.unbind(),
            calls: self.calls.bind(py).copy()?.unbind(),
            epoch: self.epoch,
        })
    }
}
