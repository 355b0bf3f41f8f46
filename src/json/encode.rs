//! One event, in either spelling, as one JSON document.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use super::dict_out::DictWriter;
use super::options::EncodeOptions;
use super::writer::{Stop, Writer};
use super::{MAX_DEPTH, pydantic};
use crate::capi;
use crate::errors::{Fault, not_an_event_reason};
use crate::event::{info_like, registry};

/// Appends the event. On an error nothing usable has been appended.
pub fn write_event<'py>(
    writer: &mut Writer,
    event: &Bound<'py, PyAny>,
    options: &EncodeOptions<'py>,
) -> PyResult<()> {
    writer.drop_raw_event = options.drop_raw_event;
    if write_model(writer, event) {
        return Ok(());
    }
    let py = event.py();
    if let Ok(dict) = event.cast::<PyDict>() {
        return write_wire(writer, dict, options).map_err(|fault| fault.into_encode_error(py));
    }
    // A class has the function, but is no event.
    let is_class = event.is_instance_of::<PyType>();
    let dump = event.getattr_opt(intern!(py, "model_dump_json"))?.filter(|_| !is_class);
    let Some(dump) = dump else {
        return Err(Fault::new(not_an_event_reason(event)).into_encode_error(py));
    };
    let text = pydantic::document(event, dump, options)?;
    let text = text.to_str()?;
    writer.ascii &= text.is_ascii();
    writer.bytes.extend_from_slice(text.as_bytes());
    Ok(())
}

/// Appends a model, if it holds only what this crate knows how to write; else nothing.
#[inline]
pub fn write_model(writer: &mut Writer, event: &Bound<'_, PyAny>) -> bool {
    let info = registry().info(capi::type_key(event)).or_else(|| info_like(event));
    let Some(info) = info else { return false };
    let start = writer.bytes.len();
    let written = writer.model(event, info).is_ok();
    if !written {
        writer.bytes.truncate(start);
        writer.depth = 0;
    }
    written
}

fn write_wire<'py>(
    writer: &mut Writer,
    dict: &Bound<'py, PyDict>,
    options: &EncodeOptions<'py>,
) -> Result<(), Box<Fault>> {
    DictWriter { writer, options }.event(dict).map_err(|stop| match stop {
        Stop::Fault(fault) => fault,
        Stop::TooDeep => Box::new(Fault::new(format!("nested deeper than {MAX_DEPTH} levels"))),
        Stop::Official => Box::new(Fault::new("a key is not a str, or the dict has changed")),
    })
}
