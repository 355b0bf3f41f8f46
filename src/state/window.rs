//! The state events of a run while they are being collapsed.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::incoming::{Incoming, field};
use super::operation::{Patch, UnknownOp};
use super::patch::{self, MAX_VALUES};
use super::segment::{merge, rest};
use super::wire;
use crate::deviation::Deviation;
use crate::event::{EventType, Form, Unsupported, build, keys};

/// The state events since the beginning of the run. From the last snapshot on they are one document;
/// deltas that no snapshot precedes say nothing without the state before, and wait as they are.
#[derive(Default)]
pub struct Window {
    deltas: Vec<Py<PyAny>>,
    snapshot: Option<Snapshot>,
    /// Of all of them, merged.
    metadata: Option<Py<PyDict>>,
    /// Properties that the protocol does not describe, likewise.
    rest: Option<Py<PyDict>>,
}

struct Snapshot {
    event: Py<PyAny>,
    is_model: bool,
    /// The event alone says all that was said so far.
    is_whole: bool,
    /// The document with the deltas applied.
    document: Py<PyAny>,
    /// The document is a copy of our own, and not the event's.
    is_own: bool,
    /// The subagent that all of them name.
    owner: Option<Py<PyAny>>,
}

impl Window {
    /// Takes an event, and says whether it is a malformed patch, which is not taken.
    pub fn push(
        &mut self,
        incoming: &Incoming<'_>,
        deviations: &mut Vec<Deviation>,
    ) -> PyResult<bool> {
        let py = incoming.event.py();
        if incoming.kind == Some(EventType::StateSnapshot) {
            let document = incoming.view.get("snapshot");
            let document = document.ok_or_else(|| incoming.refusal("snapshot", "there is none"))?;
            let is_whole = self.metadata.is_none() && self.rest.is_none();
            self.note(incoming, deviations)?;
            self.deltas.clear();
            self.snapshot = Some(Snapshot {
                event: incoming.event.clone().unbind(),
                is_model: !incoming.event.is_instance_of::<PyDict>(),
                is_whole,
                document: document.unbind(),
                is_own: false,
                owner: field!(incoming, subagent_run_id).map(Bound::unbind),
            });
            return Ok(false);
        }
        if self.snapshot.is_none() {
            self.note(incoming, deviations)?;
            self.deltas.push(incoming.event.clone().unbind());
            return Ok(false);
        }
        let operations = field!(incoming, delta);
        let operations = operations.ok_or_else(|| incoming.refusal("delta", "there is none"))?;
        let Ok(operations) = Patch::read(&operations, UnknownOp::Drop) else { return Ok(true) };
        for (index, op) in &operations.unknown {
            deviations.push(Deviation {
                kind: "unknown_op".to_owned(),
                event_type: Some(incoming.name()),
                path: format!("delta[{index}].op"),
                detail: format!("there is no op {op:?} in RFC 6902; the operation was dropped"),
            });
        }
        self.note(incoming, deviations)?;
        let Some(snapshot) = &mut self.snapshot else { return Ok(false) };
        if !snapshot.is_own {
            snapshot.document = wire::own(snapshot.document.bind(py))?.unbind();
            snapshot.is_own = true;
        }
        snapshot.is_whole = false;
        match patch::apply(snapshot.document.bind(py), &operations, true, MAX_VALUES) {
            Ok(document) => snapshot.document = document.unbind(),
            Err(refusal) => deviations.push(Deviation {
                kind: "patch_not_applied".to_owned(),
                event_type: Some(incoming.name()),
                path: refusal.index.map_or("delta".to_owned(), |index| format!("delta[{index}]")),
                detail: format!("the patch does not apply and was left out: {}", refusal.message()),
            }),
        }
        let owner = field!(incoming, subagent_run_id);
        let same = match (&snapshot.owner, &owner) {
            (Some(old), Some(new)) => old.bind(py).eq(new)?,
            (old, new) => old.is_none() && new.is_none(),
        };
        if !same {
            snapshot.owner = None;
        }
        Ok(false)
    }

    /// Keeps what a state event says besides the state.
    fn note(&mut self, incoming: &Incoming<'_>, deviations: &mut Vec<Deviation>) -> PyResult<()> {
        if let Some(metadata) = incoming.metadata()? {
            merge(&mut self.metadata, &metadata)?;
        }
        match rest(incoming) {
            Ok(None) => {}
            Ok(Some(rest)) => merge(&mut self.rest, &rest)?,
            Err(Unsupported) => deviations.push(Deviation {
                kind: "unknown_property".to_owned(),
                event_type: Some(incoming.name()),
                path: String::new(),
                detail:
                    "members whose keys are not strings are left out where state events become one"
                        .to_owned(),
            }),
        }
        Ok(())
    }

    /// Gives out what there is, and begins anew.
    pub fn flush<'py>(
        &mut self,
        py: Python<'py>,
        out: &mut Vec<Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let window = std::mem::take(self);
        let Some(snapshot) = window.snapshot else {
            out.extend(window.deltas.into_iter().map(|event| event.into_bound(py)));
            return Ok(());
        };
        if snapshot.is_whole {
            out.push(snapshot.event.into_bound(py));
            return Ok(());
        }
        let keys = keys(py);
        let event = PyDict::new(py);
        let name = PyString::intern(py, EventType::StateSnapshot.name());
        event.set_item(keys.r#type.alias(py), name)?;
        event.set_item(keys.snapshot.alias(py), snapshot.document)?;
        if let Some(metadata) = window.metadata {
            event.set_item(keys.metadata.alias(py), metadata)?;
        }
        if let Some(owner) = snapshot.owner {
            event.set_item(keys.subagent_run_id.alias(py), owner)?;
        }
        if let Some(rest) = window.rest {
            event.update_if_missing(rest.bind(py).as_mapping())?;
        }
        let spelling = if snapshot.is_model { Form::Model } else { Form::Dict };
        out.push(build::event(event, spelling)?);
        Ok(())
    }
}
