//! What an encoder can be asked for.

use pyo3::prelude::*;

/// How an encoder was asked to write.
#[derive(Default)]
pub struct EncodeOptions<'py> {
    /// Called with a value that JSON cannot carry; what it returns is written instead.
    pub default: Option<Bound<'py, PyAny>>,
    pub drop_raw_event: bool,
    /// Refuse an integer that protobuf cannot carry exactly.
    pub exact_integers: bool,
    /// Called with what protobuf cannot carry.
    pub on_deviation: Option<Bound<'py, PyAny>>,
}
