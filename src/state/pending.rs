//! What a run leaves for the other side to answer: interrupts and tool calls.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySet, PyString};

use super::incoming::member;
use super::wire;
use crate::capi;
use crate::errors::AGUIError;

/// The input that was made for a run which has not started yet.
pub struct Plan {
    pub run_id: Py<PyString>,
    /// The interrupts that it answers.
    pub answers: Vec<Py<PyString>>,
    /// The ids of the messages that it brings to the other side.
    pub brings: Vec<Py<PyString>>,
}

/// The interrupts of the last RUN_FINISHED with an interrupt outcome, as the protocol says. One is
/// pending until a run that was started to answer it has finished; a run that was not, or that
/// failed, leaves it. The TypeScript client forgets all of them at any RUN_FINISHED, so that a run
/// beside them (a second tab, a background task) loses the question that the agent waits for
/// (ag-ui #2437); and without the answers counting, an interrupt that was resolved would be asked
/// for by every input after it. The conformance corpus has no stream that tells the three apart.
pub struct Interrupts {
    /// Wire dicts.
    pending: Py<PyList>,
    /// The interrupts that the current run answers.
    answers: Vec<Py<PyString>>,
    plan: Option<Plan>,
}

impl Interrupts {
    pub fn new(py: Python<'_>) -> Self {
        Self { pending: PyList::empty(py).unbind(), answers: Vec::new(), plan: None }
    }

    pub fn plan(&mut self, plan: Plan) {
        self.plan = Some(plan);
    }

    /// The wire dicts of those that are pending.
    pub fn pending<'a, 'py>(&'a self, py: Python<'py>) -> &'a Bound<'py, PyList> {
        self.pending.bind(py)
    }

    /// Returns the messages that the plan for this run said it would bring.
    pub fn run_started(
        &mut self,
        run_id: &Bound<'_, PyString>,
        input: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Py<PyString>>> {
        let py = run_id.py();
        self.answers.clear();
        let mut brings = Vec::new();
        if let Some(plan) = &self.plan
            && plan.run_id.bind(py).as_any().eq(run_id)?
            && let Some(plan) = self.plan.take()
        {
            self.answers = plan.answers;
            brings = plan.brings;
        }
        let resume = input.and_then(|input| member!(input, resume));
        if let Some(resume) = resume.and_then(|resume| resume.cast_into::<PyList>().ok()) {
            for entry in resume {
                let id = member!(&entry, interrupt_id);
                if let Some(Ok(id)) = id.map(Bound::cast_into::<PyString>) {
                    self.answers.push(id.unbind());
                }
            }
        }
        Ok(brings)
    }

    /// A run finished without interrupts: those that it was started to answer are done.
    pub fn run_finished(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.answers.is_empty() || self.pending.bind(py).is_empty() {
            return Ok(());
        }
        let answers = PySet::new(py, &self.answers)?;
        let left = PyList::empty(py);
        for interrupt in self.pending.bind(py) {
            let id = member!(&interrupt, id).and_then(|id| id.cast_into::<PyString>().ok());
            if !id.is_some_and(|id| answers.contains(id).unwrap_or(false)) {
                left.append(interrupt)?;
            }
        }
        self.pending = left.unbind();
        Ok(())
    }

    /// A run finished with these interrupts.
    pub fn raised(&mut self, interrupts: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let Some(Ok(interrupts)) = interrupts.map(|list| list.cast::<PyList>()) else {
            return Err(AGUIError::new_err("RUN_FINISHED: outcome.interrupts: a list is needed"));
        };
        let pending = PyList::empty(interrupts.py());
        for interrupt in interrupts {
            pending.append(match wire::interrupt_shape() {
                Some(shape) => wire::object(&interrupt, shape)?.into_any(),
                None => wire::own(&interrupt)?,
            })?;
        }
        self.pending = pending.unbind();
        Ok(())
    }

    /// A list for the caller, of models or of wire dicts.
    pub fn list<'py>(&self, py: Python<'py>, as_dict: bool) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for interrupt in self.pending.bind(py) {
            let interrupt = wire::own(&interrupt)?.cast_into()?;
            list.append(if as_dict {
                interrupt.into_any()
            } else {
                wire::model(&interrupt, wire::interrupt_shape(), "Interrupt")?
            })?;
        }
        Ok(list)
    }

    pub fn fork(&self, py: Python<'_>) -> Self {
        Self {
            pending: self.pending.clone_ref(py),
            answers: self.answers.iter().map(|id| id.clone_ref(py)).collect(),
            plan: None,
        }
    }
}

/// The tool calls of the current run, or of the last one.
pub struct ToolCalls {
    /// Those that started, in order, as keys.
    started: Py<PyDict>,
    answered: Py<PyDict>,
    /// Those that the outcome named.
    named: Option<Py<PyList>>,
}

impl ToolCalls {
    pub fn new(py: Python<'_>) -> Self {
        Self { started: PyDict::new(py).unbind(), answered: PyDict::new(py).unbind(), named: None }
    }

    pub fn reset(&mut self, py: Python<'_>) {
        *self = Self::new(py);
    }

    pub fn started(&mut self, id: &Bound<'_, PyString>) -> PyResult<()> {
        self.started.bind(id.py()).set_item(id, id.py().None())
    }

    pub fn answered(&mut self, id: &Bound<'_, PyString>) -> PyResult<()> {
        self.answered.bind(id.py()).set_item(id, id.py().None())
    }

    /// The producer's own list counts, unless it is empty.
    pub fn named(&mut self, ids: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.named = match ids.map(|ids| ids.cast::<PyList>()) {
            Some(Ok(ids)) if !ids.is_empty() => Some(capi::copy_list(ids, ids.len())?.unbind()),
            _ => None,
        };
        Ok(())
    }

    pub fn pending<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        if let Some(named) = &self.named {
            let named = named.bind(py);
            return capi::copy_list(named, named.len());
        }
        let pending = PyList::empty(py);
        for id in self.started.bind(py).call_method0(intern!(py, "copy"))?.try_iter()? {
            let id = id?;
            if !self.answered.bind(py).contains(&id)? {
                pending.append(id)?;
            }
        }
        Ok(pending)
    }

    pub fn fork(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(Self {
            started: self.started.bind(py).copy()?.unbind(),
            answered: self.answered.bind(py).copy()?.unbind(),
            named: self.named.as_ref().map(|named| named.clone_ref(py)),
        })
    }
}
