//! Handing over to pydantic: whole events, or values inside a wire dict.

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySet, PyString, PyTuple};

use super::document::Options;
use crate::errors::{Fault, Step};
use crate::event::registry;

/// What `event.model_dump_json(by_alias=True)` answers or raises.
pub fn document<'py>(event: &Bound<'py, PyAny>, options: &Options<'py>) -> PyResult<Bound<'py, PyString>> {
    let py = event.py();
    let arguments = PyDict::new(py);
    arguments.set_item(intern!(py, "by_alias"), true)?;
    if let Some(default) = &options.default {
        arguments.set_item(intern!(py, "fallback"), default)?;
    }
    if options.drop_raw_event {
arguments.set_item(intern!(py, "exclude"), PySet::new(py, ["raw_event"])?)?;
    }
    let text = event.call_method(intern!(py, "model_dump_json"), (), Some(&arguments))?;
    text.cast_into::<PyString>().map_err(|error| {
        PyTypeError::new_err(format!("model_dump_json of {}: {error}", event.get_type()))
    })
}

/// The JSON of a value inside a wire dict, as pydantic infers it.
pub fn value(value: &Bound<'_, PyAny>, options: &Options<'_>) -> Result<Vec<u8>, Fault> {
    to_json(value, options).map_err(|cause| {
        let py = value.py();
        let mut steps = Vec::new();
        let culprit = locate(value.clone(), options, &mut steps);
        steps.reverse();
        Fault {
            reason: format!("a value of type {} cannot be written as JSON ({})", type_name(&culprit), cause.value(py)),
            steps,
            cause: Some(cause),
        }
    })
}

fn to_json(value: &Bound<'_, PyAny>, options: &Options<'_>) -> PyResult<Vec<u8>> {
    let py = value.py();
    let arguments = PyDict::new(py);
    arguments.set_item(intern!(py, "by_alias"), true)?;
    arguments.set_item(intern!(py, "inf_nan_mode"), intern!(py, "null"))?;
    if let Some(default) = &options.default {
        arguments.set_item(intern!(py, "fallback"), default)?;
    }
    registry().to_json.bind(py).call((value,), Some(&arguments))?.extract()
}

/// Follows the containers down to the value that cannot be written.
#[cold]
fn locate<'py>(
    mut value: Bound<'py, PyAny>,
    options: &Options<'py>,
    steps: &mut Vec<Step>,
) -> Bound<'py, PyAny> {
    'down: while steps.len() < super::MAX_DEPTH as usize {
        if let Ok(dict) = value.cast::<PyDict>() {
            for (key, inner) in dict.copy().map(|copy| copy.into_iter()).into_iter().flatten() {
                if to_json(&inner, options).is_err() {
                    steps.push(Step::Key(key.str().map_or_else(|_| "?".into(), |key| key.to_string_lossy().into_owned())));
                    value = inner;
                    continue 'down;
                }
            }
        } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
            let items = value.try_iter().and_then(|items| items.collect::<PyResult<Vec<_>>>());
            for (at, inner) in items.unwrap_or_default().into_iter().enumerate() {
                if to_json(&inner, options).is_err() {
                    steps.push(Step::Index(at));
                    value = inner;
                    continue 'down;
                }
            }
        }
        break;
    }
    value
}

pub fn type_name(value: &Bound<'_, PyAny>) -> String {
    value.get_type().fully_qualified_name().map_or_else(|_| "?".into(), |name| name.to_string())
}
