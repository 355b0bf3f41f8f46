//! What the fuzzer calls; see `fuzz/Cargo.toml`.

use pyo3::intern;
use pyo3::prelude::*;

use super::{decode, encode};
use crate::deviation::Reporter;
use crate::errors::NoEvent;
use crate::event::{Registry, Spelling};
use crate::json::{Options, Writer, write_event};

/// Panics unless the bytes are an event to every part of this crate, or no event with a reason.
pub fn decode_any(data: &[u8]) {
    Python::initialize();
    Python::attach(|py| {
        Registry::fill(py).expect("the SDK can be imported");
        // What is dropped is logged, here all the time.
        let logging = py.import(intern!(py, "logging")).expect("a module of Python");
        logging.call_method1(intern!(py, "disable"), (50,)).expect("a level");
        let reporter = Reporter::new(None);
        let read = |data: &[u8]| decode(py, data, Spelling::Wire, &reporter);
        let event = match read(data) {
            Ok(event) => event,
            Err(NoEvent::Fault(_)) => return,
            Err(NoEvent::Python(error)) => panic!("{error}"),
        };
        let options = Options::default();
        write_event(&mut Writer::new(Vec::new()), &event, &options).expect("JSON");
        let bytes = encode(py, &event, &options, false).expect("protobuf");
        let Ok(again) = read(bytes.as_bytes()) else { panic!("{event} became {bytes}") };
        // Members of an outcome that has no name have no place, and others may move into it.
        let has_outcome = event.contains("outcome").expect("a dict");
        let is_finished = format!("{event}").contains("FINISHED");
        assert!(is_finished && !has_outcome || event.eq(&again).expect("dicts"), "{event} {again}");
    });
}
