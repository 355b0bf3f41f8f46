//! The binary transport: events as protobuf, alone or as frames of a stream.
//!
//! The contract is `proto/ag_ui/*.proto`; [`table`] is generated from it, and encoding and
//! decoding both walk it. What differs between JSON and protobuf beyond the table is in [`shape`].

mod decode;
mod encode;
mod flat;
mod frame;
#[cfg(fuzzing)]
pub mod fuzz;
mod gather;
mod layout;
mod schema;
mod shape;
// Generated, in a layout of its own.
#[rustfmt::skip]
mod table;
mod text;
mod value;
mod value_in;
mod wire;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

pub use decode::decode;
pub use encode::{encode, push_frame};
pub use frame::{Broken, FrameReader, Frames, PREFIX};

use crate::deviation::Reporter;
use crate::event::Form;
use crate::input::{Callback, with_bytes};
use crate::json::EncodeOptions;

/// One event as an ``ag_ui.Event`` message, without a length in front.
///
/// Args:
///     event: An event model of ``ag_ui.core``, or a wire dict.
///     exact_integers: Refuse an integer that a double cannot carry. Otherwise the nearest double is
///         sent, and null for what is beyond the range of doubles: what JavaScript reads from JSON.
///     on_deviation: Called with a :class:`agui_codec.Deviation` for each property, patch member and
///         content part that the wire has no place for and that is left out, and for each number
///         that is changed or left out. Without it they are logged, at WARNING under the name
///         ``agui_codec``. What it raises comes through.
///
/// Returns:
///     The message, byte for byte as ``@ag-ui/proto`` writes it.
///
/// Raises:
///     EncodeError: For what is not an event, for an event type that the protobuf wire does not
///         have, a value that is not of its field's type, a lone surrogate, nesting deeper than
///         ``MAX_DEPTH``, or, with ``exact_integers``, an integer that a double cannot carry. Its
///         ``path`` says where.
///
/// Example:
///     >>> from agui_codec import proto
///     >>> proto.encode({"type": "STEP_STARTED", "stepName": "a"}).hex()
///     '7a070a02080e120161'
#[pyfunction]
#[pyo3(signature = (event, *, exact_integers=false, on_deviation=None))]
pub fn proto_encode<'py>(
    py: Python<'py>,
    event: &Bound<'py, PyAny>,
    exact_integers: bool,
    on_deviation: Option<Callback>,
) -> PyResult<Bound<'py, PyBytes>> {
    let on_deviation = on_deviation.map(|callback| Py::from(callback).into_bound(py));
    encode(
        py,
        event,
        &EncodeOptions { exact_integers, on_deviation, ..EncodeOptions::default() },
        false,
    )
}

/// The event of one ``ag_ui.Event`` message, without a length in front.
///
/// Args:
///     data: A ``bytes``, ``bytearray`` or ``memoryview``.
///     as_dict: Answer with a wire dict instead of a model of ``ag_ui.core``.
///     on_deviation: Called with a :class:`agui_codec.Deviation` for each content part of an unknown
///         kind, which is dropped. Without it they are logged, at WARNING under the name
///         ``agui_codec``. Of more than a hundred in one event the rest are reported as a number.
///
/// Returns:
///     The event. A wire dict is not validated beyond what makes the bytes an event.
///
/// Raises:
///     UnknownEventError: For a well-formed event of a type that this version does not know.
///     DecodeError: For anything else that is no event, also for one that the model's class
///         refuses (then the ``ValidationError`` is its cause). Its ``offset`` and ``path`` say
///         where.
///
/// Example:
///     >>> from agui_codec import proto
///     >>> proto.decode(bytes.fromhex("7a070a02080e120161"), as_dict=True)
///     {'type': 'STEP_STARTED', 'stepName': 'a'}
#[pyfunction]
#[pyo3(signature = (data, *, as_dict=false, on_deviation=None))]
pub fn proto_decode<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    as_dict: bool,
    on_deviation: Option<Callback>,
) -> PyResult<Bound<'py, PyAny>> {
    let spelling = if as_dict { Form::Dict } else { Form::Model };
    with_bytes(data, |data| {
        let event = decode(py, data, spelling, &Reporter::new(on_deviation));
        event.map_err(|error| error.into_error(py, None))
    })
}
