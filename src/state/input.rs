//! The input of the next run, from what the runs so far add up to.

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::incoming::member;
use super::message::Role;
use super::pending::Plan;
use super::reduce::Reduction;
use super::wire;
use crate::errors::AGUIError;
use crate::event::{ClassInfo, FieldType};

/// What the caller says of the run.
pub struct Turn<'py> {
    pub run_id: Bound<'py, PyString>,
    pub thread_id: Option<Bound<'py, PyString>>,
    pub parent_run_id: Option<Bound<'py, PyString>>,
    pub resume: Option<Bound<'py, PyAny>>,
    pub tools: Option<Bound<'py, PyAny>>,
    pub context: Option<Bound<'py, PyAny>>,
    pub forwarded_props: Option<Bound<'py, PyAny>>,
    pub history: bool,
    pub protocol_version: Option<String>,
}

/// The wire dict of the input. Its run is expected from now on.
pub fn next<'py>(reduction: &mut Reduction, turn: Turn<'py>) -> PyResult<Bound<'py, PyDict>> {
    let py = turn.run_id.py();
    let thread_id = turn
        .thread_id
        .or_else(|| reduction.thread_id.as_ref().map(|id| id.bind(py).clone()))
        .ok_or_else(|| AGUIError::new_err("there was no run yet: thread_id is needed"))?;
    let input = PyDict::new(py);
    input.set_item(intern!(py, "threadId"), thread_id)?;
    input.set_item(intern!(py, "runId"), &turn.run_id)?;
    if let Some(version) = turn.protocol_version {
        input.set_item(intern!(py, "protocolVersion"), version)?;
    }
    if let Some(parent) = turn.parent_run_id {
        input.set_item(intern!(py, "parentRunId"), parent)?;
    }
    // Peers of 0.x require it, and a client's state is empty before there is one.
    let state = if reduction.has_state {
        wire::own(&reduction.state.get(py))?
    } else {
        PyDict::new(py).into_any()
    };
    input.set_item(intern!(py, "state"), state)?;
    let messages = PyList::empty(py);
    let mut brings = Vec::new();
    for slot in reduction.conversation.order() {
        let message = reduction.conversation.get(slot);
        if message.role == Role::Activity || (message.known && !turn.history) {
            continue;
        }
        if !message.known {
            brings.push(message.id.clone_ref(py));
        }
        messages.append(wire::own(message.wire(py)?.as_any())?)?;
    }
    input.set_item(intern!(py, "messages"), messages)?;
    // All three are required of an input by peers of 0.x.
    let tools = wire_list(py, turn.tools, "tools")?;
    input.set_item(intern!(py, "tools"), tools)?;
    let context = wire_list(py, turn.context, "context")?;
    input.set_item(intern!(py, "context"), context)?;
    let forwarded = match turn.forwarded_props {
        Some(forwarded) => wire::own(&forwarded)?,
        None => PyDict::new(py).into_any(),
    };
    input.set_item(intern!(py, "forwardedProps"), forwarded)?;
    let resume = turn.resume.filter(|resume| !resume.is_none());
    let given = resume.is_some();
    let resume = wire_list(py, resume, "resume")?;
    let answers = check_coverage(reduction.interrupts.pending(py), &resume)?;
    if given {
        input.set_item(intern!(py, "resume"), resume)?;
    }
    reduction.interrupts.plan(Plan { run_id: turn.run_id.unbind(), answers, brings });
    Ok(input)
}

/// Wire dicts of the objects in an iterable, which a field of the input is to hold.
fn wire_list<'py>(
    py: Python<'py>,
    values: Option<Bound<'py, PyAny>>,
    field: &str,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    let Some(values) = values else { return Ok(list) };
    let shape = item_shape(field);
    for value in values.try_iter()? {
        let value = value?;
        list.append(match shape {
            Some(shape) => wire::object(&value, shape)?.into_any(),
            None => wire::own(&value)?,
        })?;
    }
    Ok(list)
}

fn item_shape(field: &str) -> Option<&'static FieldType> {
    let mut shape = wire::input_shape()?;
    while let FieldType::Nullable(inner) = shape {
        shape = inner;
    }
    let FieldType::Model(cell) = shape else { return None };
    let info: &'static ClassInfo = cell.info.get()?;
    let mut shape = wire::field_shape(info, field)?;
    while let FieldType::Nullable(inner) = shape {
        shape = inner;
    }
    match shape {
        FieldType::List { item, .. } => Some(item),
        _ => None,
    }
}

/// Every pending interrupt is answered exactly once, and nothing else is. The ids of the answered.
fn check_coverage(
    pending: &Bound<'_, PyList>,
    resume: &Bound<'_, PyList>,
) -> PyResult<Vec<Py<PyString>>> {
    let py = pending.py();
    let text = |object: &Bound<'_, PyAny>, id: Option<Bound<'_, PyAny>>| {
        id.and_then(|id| id.cast_into::<PyString>().ok().map(Bound::unbind)).ok_or_else(|| {
            AGUIError::new_err(format!("resume: an entry without an interruptId: {object}"))
        })
    };
    let answers = PyDict::new(py);
    for entry in resume {
        let id = text(&entry, member!(&entry, interrupt_id))?;
        if answers.contains(&id)? {
            return Err(AGUIError::new_err(format!("resume answers {:?} twice", id.bind(py))));
        }
        answers.set_item(&id, &entry)?;
    }
    let mut answered = Vec::new();
    let mut unanswered = Vec::new();
    for interrupt in pending {
        let id = text(&interrupt, member!(&interrupt, id))?;
        let Some(entry) = answers.get_item(&id)? else {
            unanswered.push(format!("{:?}", id.bind(py)));
            continue;
        };
        answers.del_item(&id)?;
        let cancels =
            member!(&entry, status).is_some_and(|status| status.eq("cancelled").unwrap_or(false));
        if let Some(expires) = member!(&interrupt, expires_at)
            && !cancels
            && has_expired(&expires)?
        {
            return Err(AGUIError::new_err(format!(
                "interrupt {:?} expired at {expires} and can only be cancelled",
                id.bind(py)
            )));
        }
        answered.push(id);
    }
    if !unanswered.is_empty() {
        return Err(AGUIError::new_err(format!(
            "resume has to answer every pending interrupt, and {} is not",
            unanswered.join(", ")
        )));
    }
    if let Some((id, _)) = answers.iter().next() {
        return Err(AGUIError::new_err(format!("resume answers {id:?}, which is not pending")));
    }
    Ok(answered)
}

/// Whether an ISO 8601 time is past. One that cannot be read is not.
fn has_expired(expires: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = expires.py();
    let Ok(text) = expires.extract::<String>() else { return Ok(false) };
    let module = py.import(intern!(py, "datetime"))?;
    let class = module.getattr(intern!(py, "datetime"))?;
    let utc = module.getattr(intern!(py, "timezone"))?.getattr(intern!(py, "utc"))?;
    // Python reads the Z only since 3.11.
    let text = text.strip_suffix(['Z', 'z']).map_or(text.clone(), |text| format!("{text}+00:00"));
    let mut time = match class.call_method1(intern!(py, "fromisoformat"), (text,)) {
        Ok(time) => time,
        Err(error) if error.is_instance_of::<PyValueError>(py) => return Ok(false),
        Err(error) => return Err(error),
    };
    if time.getattr(intern!(py, "tzinfo"))?.is_none() {
        let zone = PyDict::new(py);
        zone.set_item(intern!(py, "tzinfo"), &utc)?;
        time = time.call_method(intern!(py, "replace"), (), Some(&zone))?;
    }
    time.le(class.call_method1(intern!(py, "now"), (utc,))?)
}
