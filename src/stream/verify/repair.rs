//! Endings: the events that close what is open, and the repair of a stream whose producer forgot
//! them.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::open::Owner;
use super::{EventVerifier, Phase, Refusal};
use crate::deviation::Deviation;
use crate::errors::Violation;
use crate::event::{EventType, Form, Key, build, keys, registry};
use crate::stream::{Item, Output, quoted};

/// What repair does about an event that is refused.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing: it stays refused.
    None,
    /// The event goes. It says nothing but that something has ended.
    Drop,
    /// The event goes, and with it what it says.
    Lose,
    /// What it finds open is closed first.
    Close,
}

/// Something open, and the event that closes it.
pub struct Ending<'py> {
    kind: EventType,
    noun: &'static str,
    id: Bound<'py, PyString>,
    owner: Owner<'py>,
}

impl<'py> Ending<'py> {
    fn key(&self, py: Python<'_>) -> &'static Key {
        use EventType as K;
        let keys = keys(py);
        match self.kind {
            K::ToolCallEnd => &keys.tool_call_id,
            K::StepFinished => &keys.step_name,
            K::SubagentFinished => &keys.subagent_run_id,
            _ => &keys.message_id,
        }
    }

    /// The event. It has the tag of the owner, which always agrees.
    fn event(&self, spelling: Form) -> PyResult<Bound<'py, PyAny>> {
        let py = self.id.py();
        let event = PyDict::new(py);
        event.set_item(registry().type_key.bind(py), registry().kind_name(py, self.kind))?;
        event.set_item(self.key(py).alias(py), &self.id)?;
        if let Some(owner) = &self.owner {
            event.set_item(keys(py).subagent_run_id.alias(py), owner)?;
        }
        build::event(event, spelling)
    }
}

impl EventVerifier {
    /// The endings of all that is open: what is said and called, then the reasoning, then the steps
    /// and the subagents, the innermost first.
    pub(super) fn endings<'py>(&self, py: Python<'py>) -> Vec<Ending<'py>> {
        use EventType as K;
        let mut endings = Vec::new();
        for (open, owners, kind) in [
            (&self.texts, &self.text_owners, K::TextMessageEnd),
            (&self.tools, &self.tool_owners, K::ToolCallEnd),
            (&self.reasonings, &self.reasoning_owners, K::ReasoningMessageEnd),
            (&self.spans, &self.reasoning_owners, K::ReasoningEnd),
        ] {
            for id in open.ids(py) {
                let owner = owners.get(&id).flatten();
                endings.push(Ending { kind, noun: open.noun, id, owner });
            }
        }
        let steps = self.steps.bind(py).keys();
        for step in steps.iter().rev() {
            if let Ok((owner, id)) = step.extract() {
                endings.push(Ending { kind: K::StepFinished, noun: "step", id, owner });
            }
        }
        let mut subagents: Vec<_> = self.subagents.ids(py).collect();
        subagents.reverse();
        let noun = self.subagents.noun;
        endings.extend(subagents.into_iter().map(|id| Ending {
            kind: K::SubagentFinished,
            noun,
            id,
            owner: None,
        }));
        endings
    }

    /// The events of the endings, as models or wire dicts.
    pub(super) fn ending_events_as<'py>(
        &self,
        py: Python<'py>,
        spelling: Form,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        if self.phase != Phase::Running {
            return Ok(Vec::new());
        }
        self.endings(py).iter().map(|ending| ending.event(spelling)).collect()
    }

    /// What becomes of a refused event. What is reported may raise, and has changed nothing then.
    #[cold]
    pub(super) fn mend<'py>(
        &mut self,
        item: &Item<'py>,
        violation: Violation,
        remedy: Remedy,
    ) -> Result<Output<'py>, Refusal> {
        let py = item.event.py();
        match remedy {
            Remedy::None => Err(Refusal::Violation(violation, remedy)),
            Remedy::Drop | Remedy::Lose => {
                let kind = if remedy == Remedy::Drop { "repair" } else { "repair_loss" };
                self.note(item, kind, format!("dropped the event: {}", violation.reason))?;
                Ok(Output::Nothing)
            }
            Remedy::Close => {
                let endings = match item.kind {
                    Some(EventType::RunFinished) => self.endings(py),
                    _ => self.again(item).into_iter().collect(),
                };
                let mut events = Vec::with_capacity(endings.len() + 1);
                for ending in &endings {
                    events.push(ending.event(item.spelling)?);
                }
                for Ending { kind, noun, id, .. } in &endings {
                    let what = format!("the {noun} {} was left open", quoted(id));
                    self.note(item, "repair", format!("{what}; put its {} before", kind.name()))?;
                }
                for Ending { kind, id, owner, .. } in &endings {
                    match kind {
                        EventType::TextMessageEnd => self.texts.remove(id)?,
                        EventType::ToolCallEnd => self.tools.remove(id)?,
                        EventType::ReasoningMessageEnd => self.reasonings.remove(id)?,
                        EventType::ReasoningEnd => self.spans.remove(id)?,
                        EventType::StepFinished => self.steps.bind(py).del_item((owner, id))?,
                        _ => {
                            self.subagents.remove(id)?;
                            self.closed_subagents.insert(id)?;
                        }
                    }
                }
                self.verify(item)?;
                events.push(item.event.clone());
                Ok(Output::Many(events))
            }
        }
    }

    /// The ending of what an event would open again.
    fn again<'py>(&self, item: &Item<'py>) -> Option<Ending<'py>> {
        use EventType as K;
        let py = item.event.py();
        let keys = keys(py);
        let tag = || item.view.read(&keys.subagent_run_id)?.cast_into::<PyString>().ok();
        let (kind, noun, key) = match item.kind? {
            K::TextMessageStart => (K::TextMessageEnd, self.texts.noun, &keys.message_id),
            K::ToolCallStart => (K::ToolCallEnd, self.tools.noun, &keys.tool_call_id),
            K::ReasoningMessageStart => {
                (K::ReasoningMessageEnd, self.reasonings.noun, &keys.message_id)
            }
            K::ReasoningStart => (K::ReasoningEnd, self.spans.noun, &keys.message_id),
            K::StepStarted => (K::StepFinished, "step", &keys.step_name),
            _ => return None,
        };
        let id = super::plain(item.read(key)?.cast().ok()?)?;
        let owner = match kind {
            K::TextMessageEnd => self.text_owners.get(&id).flatten(),
            K::ToolCallEnd => self.tool_owners.get(&id).flatten(),
            K::StepFinished => tag().and_then(|tag| super::plain(&tag)),
            _ => self.reasoning_owners.get(&id).flatten(),
        };
        Some(Ending { kind, noun, id, owner })
    }

    fn note(&self, item: &Item<'_>, kind: &str, detail: String) -> PyResult<()> {
        self.reporter.report(
            item.event.py(),
            Deviation {
                kind: kind.to_owned(),
                event_type: Some(item.type_name()),
                path: String::new(),
                detail,
            },
        )
    }
}
