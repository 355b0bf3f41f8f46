//! The native half of `agui_codec`: what Python can see of it.

mod accept;
mod capi;
mod decoder;
mod deviation;
mod encoder;
mod errors;
mod event;
mod input;
mod json;
mod proto;
mod sse;
mod state;
mod stream;

/// For the targets in `fuzz/`.
#[cfg(fuzzing)]
pub use proto::fuzz::decode_any as fuzz_proto_decode;

#[pyo3::pymodule(gil_used = false)]
mod _native {
    use pyo3::prelude::*;
    #[cfg(debug_assertions)]
    use pyo3::types::PyDict;

    use super::event::build::MakeEvent;

    #[pymodule_export]
    use super::decoder::{EventDecoder, decode_event};
    #[pymodule_export]
    use super::deviation::Deviation;
    #[pymodule_export]
    use super::encoder::{EventEncoder, patches, set_installed, to_json};
    #[pymodule_export]
    use super::proto::{FrameReader, proto_decode, proto_encode};
    #[pymodule_export]
    use super::state::{
        Change, Compactor, EventReducer, apply_patch, compact_events, create_patch,
    };
    #[pymodule_export]
    use super::stream::{
        ChunkExpander, EventEnforcer, EventVerifier, LegacyDowngrader, LegacyUpgrader, Pipeline,
        downgrade_input, enforce_input, upgrade_input,
    };
    #[pymodule_export]
    const MAX_DEPTH: u32 = super::json::MAX_DEPTH;
    #[pymodule_export]
    const SSE_MEDIA_TYPE: &str = super::accept::SSE;
    #[pymodule_export]
    use super::sse::{SSEParser, ServerSentEvent};
    /// Built without optimisation.
    #[pymodule_export]
    const DEBUG_BUILD: bool = cfg!(debug_assertions);

    /// What of the SDK's classes was not recognised and is left to pydantic.
    #[pyfunction]
    fn unlearned(py: Python<'_>) -> PyResult<Vec<String>> {
        super::event::registry().unlearned(py)
    }

    /// Uses a reference that a dict lends after a call of Python code, as nothing may: the tests
    /// of builds with debug assertions see that it is noticed.
    #[cfg(debug_assertions)]
    #[pyfunction]
    fn use_lent_after_call(dict: &Bound<'_, PyDict>, callable: &Bound<'_, PyAny>) -> PyResult<()> {
        super::capi::walk(dict, |mut items| {
            let entry = items.next();
            callable.call0()?;
            entry.map(|(_, value)| value.own());
            Ok(())
        })
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        #[cfg(debug_assertions)]
        super::capi::count_frames();
        super::event::Registry::fill(module.py())?;
        super::json::compare_floats(module.py())?;
        super::errors::add_to(module)?;
        module.add("make_event", super::capi::function::<MakeEvent>(module)?)?;
        // The version of the crate, and so of the package.
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        Ok(())
    }
}
