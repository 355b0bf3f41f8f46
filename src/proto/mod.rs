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
use crate::event::Spelling;
use crate::input::with_bytes;
use crate::json::Options;

/// One event as an ``ag_ui.Event`` message, without a length in front.
///
/// Args:
///     event: An event model of ``ag_ui.core``, or a wire dict.
///
/// Returns:
///     The message, byte for byte as ``@ag-ui/proto`` writes it.
///
/// Raises:
///     EncodeError: For what is no event, for an event type that the protobuf wire does not have,
///         a value that is not of its field's type, an integer that a double cannot carry, half a
///         surrogate pair, or nesting deeper than ``MAX_DEPTH``. Its ``path`` says where.
///
/// Properties, patch members and content parts that the wire has no place for are left out, and
/// logged at WARNING under the name ``agui_codec``.
#[pyfunction]
#[pyo3(signature = (event))]
pub fn proto_encode<'py>(
    py: Python<'py>,
    event: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    encode(py, event, &Options::default(), false)
}

/// The event of one ``ag_ui.Event`` message, without a length in front.
///
/// Args:
///     data: A ``bytes``, ``bytearray`` or ``memoryview``.
///     as_dict: Answer with a wire dict instead of a model of ``ag_ui.core``.
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
/// Content parts of a kind that is not known are dropped, and logged at WARNING under the name
/// ``agui_codec``.
#[pyfunction]
#[pyo3(signature = (data, *, as_dict=false))]
pub fn proto_decode<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    as_dict: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let spelling = if as_dict { Spelling::Wire } else { Spelling::Model };
    with_bytes(data, |data| {
        let event = decode(py, data, spelling, &Reporter::new(None));
        event.map_err(|error| error.into_error(py, None))
    })
}
