//! Handing over to pydantic: whole events, or values inside a wire dict.

use pyo3::exceptions::{PyException, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use std::sync::{Mutex, PoisonError};

use super::big_stack;
use super::options::EncodeOptions;
use crate::capi;
use crate::errors::{Fault, Step, is_panic, qualified_class_name};
use crate::event::registry;

/// What `event.model_dump_json(by_alias=True)` answers or raises; `dump` is that method.
pub fn document<'py>(
    event: &Bound<'py, PyAny>,
    mut dump: Bound<'py, PyAny>,
    options: &EncodeOptions<'py>,
) -> PyResult<Bound<'py, PyString>> {
    let py = event.py();
    let bare = if options.drop_raw_event { without_raw_event(event)? } else { None };
    if let Some(bare) = &bare {
        dump = bare.getattr(intern!(py, "model_dump_json"))?;
    }
    let event = bare.as_ref().unwrap_or(event);
    let hook = match &options.default {
        Some(default) => {
            let hook = Hook { default: default.clone().unbind(), raised: Mutex::new(None) };
            Some(Bound::new(py, hook)?)
        }
        None => None,
    };
    let text =
        big_stack::dump_json(event, dump, hook.as_ref().map(Bound::as_any)).map_err(|error| {
            let raised = hook.and_then(|hook| hook.get().raised());
            explain(py, error, raised)
        })?;
    text.cast_into::<PyString>().map_err(|error| {
        PyTypeError::new_err(format!("model_dump_json of {}: {error}", qualified_class_name(event)))
    })
}

/// The user's `default`, which keeps what it raises: pydantic only quotes it.
#[pyclass(frozen)]
struct Hook {
    default: Py<PyAny>,
    raised: Mutex<Option<PyErr>>,
}

#[pymethods]
impl Hook {
    fn __call__<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = value.py();
        let answer = self.default.bind(py).call1((value,));
        if let Err(error) = &answer {
            let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
            *raised = Some(error.clone_ref(py));
        }
        answer
    }
}

impl Hook {
    fn raised(&self) -> Option<PyErr> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The error of pydantic's, with what the user's hook has raised for its cause.
#[cold]
fn explain(py: Python<'_>, error: PyErr, raised: Option<PyErr>) -> PyErr {
    match raised {
        // Ctrl-C and the like are not errors of the event.
        Some(raised) if !raised.is_instance_of::<PyException>(py) => raised,
        Some(raised) => {
            if !error.value(py).is(raised.value(py)) {
                error.set_cause(py, Some(raised));
            }
            error
        }
        // Pydantic's walk over a dict panics when the dict grows or shrinks meanwhile. It is no
        // `Exception` there.
        None if is_panic(py, &error) => {
            let changed = Fault::new("the event was changed while it was written");
            let changed = changed.into_encode_error(py);
            changed.set_cause(py, Some(error));
            changed
        }
        None => error,
    }
}

/// The cause of an error that pydantic raised: what the user's hook did, if there is one.
#[cold]
pub fn cause_of(py: Python<'_>, error: PyErr, options: &EncodeOptions<'_>) -> PyErr {
    let raised = if options.default.is_some() { error.cause(py) } else { None };
    raised.filter(|raised| raised.is_instance_of::<PyException>(py)).unwrap_or(error)
}

/// A copy of the event that has no `raw_event`, if it has one. (`exclude` would be an argument
/// that an overridden `model_dump_json` need not take.)
fn without_raw_event<'py>(event: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = event.py();
    let name = intern!(py, "raw_event");
    let raw_event = capi::instance_dict(event).and_then(|fields| capi::dict_get(&fields, name));
    if raw_event.is_none_or(|raw_event| raw_event.is_none()) {
        return Ok(None);
    }
    // A model, or anything else that has a `model_dump_json`.
    let copy = match event.getattr_opt(intern!(py, "model_copy"))? {
        Some(model_copy) => model_copy.call0()?,
        None => py.import(intern!(py, "copy"))?.call_method1(intern!(py, "copy"), (event,))?,
    };
    if let Some(fields) = capi::instance_dict(&copy) {
        fields.set_item(name, py.None())?;
    }
    Ok(Some(copy))
}

/// The JSON of a value inside a wire dict: what pydantic writes for it inside an event.
pub fn value(value: &Bound<'_, PyAny>, options: &EncodeOptions<'_>) -> Result<String, Fault> {
    in_event(value, options).map_err(|cause| {
        let py = value.py();
        let cause = cause_of(py, cause, options);
        let mut steps = Vec::new();
        let culprit = locate(value.clone(), options, &mut steps);
        steps.reverse();
        let reason = format!(
            "a value of type {} cannot be written as JSON ({})",
            qualified_class_name(&culprit),
            cause.value(py)
        );
        Fault { reason, steps, cause: Some(cause) }
    })
}

/// A value of a CUSTOM event is any JSON value, and required, so it is always there.
fn in_event(value: &Bound<'_, PyAny>, options: &EncodeOptions<'_>) -> PyResult<String> {
    let py = value.py();
    let arguments = PyDict::new(py);
    arguments.set_item(intern!(py, "name"), intern!(py, ""))?;
    arguments.set_item(intern!(py, "value"), value)?;
    let event = registry().custom_event.bind(py).call((), Some(&arguments))?;
    let dump = event.getattr(intern!(py, "model_dump_json"))?;
    let options = EncodeOptions { default: options.default.clone(), ..EncodeOptions::default() };
    let text = document(&event, dump, &options)?;
    let json = text.to_str()?;
    let inner = json.strip_prefix(r#"{"type":"CUSTOM","name":"","value":"#);
    let inner = inner.and_then(|rest| rest.strip_suffix('}'));
    inner.map(str::to_owned).ok_or_else(|| PyValueError::new_err(json.to_owned()))
}

/// Follows the containers down to the value that cannot be written.
#[cold]
fn locate<'py>(
    mut value: Bound<'py, PyAny>,
    options: &EncodeOptions<'py>,
    steps: &mut Vec<Step>,
) -> Bound<'py, PyAny> {
    let mut above = vec![value.clone()];
    while let Some((step, inner)) = first_refused(&value, options) {
        steps.push(step);
        value = inner;
        if above.iter().any(|container| container.is(&value)) {
            // Here a cycle closes.
            break;
        }
        above.push(value.clone());
    }
    value
}

/// The first item of a container that cannot be written.
fn first_refused<'py>(
    container: &Bound<'py, PyAny>,
    options: &EncodeOptions<'py>,
) -> Option<(Step, Bound<'py, PyAny>)> {
    if let Ok(dict) = container.cast::<PyDict>() {
        let (key, value) =
            dict.copy().ok()?.into_iter().find(|(_, value)| in_event(value, options).is_err())?;
        let key = key.str().map_or_else(|_| "?".into(), |key| key.to_string_lossy().into_owned());
        return Some((Step::Key(key), value));
    }
    if !container.is_instance_of::<PyList>() && !container.is_instance_of::<PyTuple>() {
        return None;
    }
    let items = container.try_iter().ok()?.collect::<PyResult<Vec<_>>>().ok()?;
    let at = items.iter().position(|item| in_event(item, options).is_err())?;
    Some((Step::Index(at), items[at].clone()))
}
