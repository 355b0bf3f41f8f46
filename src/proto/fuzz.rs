//! What the fuzzer calls; see `fuzz/Cargo.toml`.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};

use super::{decode, encode};
use crate::deviation::Reporter;
use crate::errors::NoEvent;
use crate::event::{Form, Registry};
use crate::json::{EncodeOptions, Writer, write_event};

/// Panics unless the bytes are an event to every part of this crate, or no event with a reason.
pub fn decode_any(data: &[u8]) {
    Python::initialize();
    Python::attach(|py| {
        Registry::fill(py).expect("the SDK can be imported");
        // What is dropped is logged, here all the time.
        let logging = py.import(intern!(py, "logging")).expect("a module of Python");
        logging.call_method1(intern!(py, "disable"), (50,)).expect("a level");
        // pydantic looks for a frame of Python above it.
        let data = data.to_vec();
        let check = move |_: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| judge(&data);
        let check = PyCFunction::new_closure(py, None, None, check).expect("a function");
        let frame = py.eval(c"lambda check: check()", None, None).expect("a function");
        frame.call1((check,)).expect("no error of Python");
    });
}

fn judge(data: &[u8]) {
    Python::attach(|py| {
        let reporter = Reporter::new(None);
        let read_as = |data: &[u8], spelling| match decode(py, data, spelling, &reporter) {
            Ok(event) => Some(event),
            Err(NoEvent::Fault(_)) => None,
            Err(NoEvent::Python(error)) => panic!("{error}"),
        };
        let read = |data: &[u8]| read_as(data, Form::Dict);
        let model = read_as(data, Form::Model);
        let Some(event) = read(data) else { return assert!(model.is_none()) };
        let options = EncodeOptions::default();
        let json = |event: &Bound<'_, PyAny>| {
            let mut writer = Writer::new(Vec::new());
            write_event(&mut writer, event, &options).expect("JSON");
            writer.bytes
        };
        let bytes = encode(py, &event, &options, false).expect("protobuf");
        if let Some(model) = model {
            let of_model = encode(py, &model, &options, false).expect("protobuf");
            assert!(of_model.as_bytes() == bytes.as_bytes(), "{event} {model}");
        }
        let Some(again) = read(bytes.as_bytes()) else { panic!("{event} became {bytes}") };
        let more = encode(py, &again, &options, false).expect("protobuf");
        assert!(more.as_bytes() == bytes.as_bytes(), "{event} {again}");
        // These have no place on this wire: a member of an outcome that one of its name does not
        // have, and the list of parts, all of them unknown and dropped, of an unknown role.
        let text = format!("{event}");
        let excused = ["_FINISHED'", "'content': []"].iter().any(|it| text.contains(it));
        assert!(json(&event) == json(&again) || excused, "{event} {again}");
    });
}
