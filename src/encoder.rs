//! The encoder that Python sees.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyTuple, PyType};
use std::cell::Cell;
use std::sync::OnceLock;

use crate::capi;
use crate::json::{Options, Writer, write_event, write_model};
use crate::sse;

/// The content type of Server-Sent Events.
pub const SSE_MEDIA_TYPE: &str = "text/event-stream";

thread_local! {
    /// The buffer of the last call on this thread, to be used again. It is taken while in use, so
    /// a call from within a call (a `default` hook that encodes) gets one of its own.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A larger buffer is given back to the allocator after use.
const SCRATCH_LIMIT: usize = 1 << 20;

/// Runs `write` on a writer over the thread's buffer, then `finish` on what was written.
#[inline]
fn with_writer<T>(
    write: impl FnOnce(&mut Writer) -> PyResult<()>,
    finish: impl FnOnce(&Writer) -> PyResult<T>,
) -> PyResult<T> {
    let mut bytes = SCRATCH.take();
    bytes.clear();
    let mut writer = Writer::new(bytes);
    let result = write(&mut writer).and_then(|()| finish(&writer));
    if writer.bytes.capacity() <= SCRATCH_LIMIT {
        SCRATCH.set(writer.bytes);
    }
    result
}

/// A str of what was written.
#[inline]
fn to_str<'py>(py: Python<'py>, writer: &Writer) -> PyResult<Bound<'py, PyAny>> {
    if writer.ascii {
        capi::ascii_str(py, &writer.bytes)
    } else {
        capi::utf8_str(py, &writer.bytes)
    }
}

struct Settings {
    default: Option<Py<PyAny>>,
    drop_raw_event: bool,
}

/// The native half of `agui_codec.EventEncoder`.
#[pyclass(module = "agui_codec._native", subclass, frozen)]
pub struct EventEncoder {
    /// Set by `__init__`; without (a subclass that does not call it) the defaults hold.
    settings: OnceLock<Settings>,
}

impl EventEncoder {
    #[inline]
    fn options<'py>(&self, py: Python<'py>) -> Options<'py> {
        match self.settings.get() {
            Some(Settings { default: None, drop_raw_event: false }) | None => Options::default(),
            Some(settings) => Options {
                default: settings.default.as_ref().map(|default| default.bind(py).clone()),
                drop_raw_event: settings.drop_raw_event,
            },
        }
    }
}

/// Appends one event as one frame.
#[inline]
fn frame<'py>(
    writer: &mut Writer,
    event: &Bound<'py, PyAny>,
    options: &Options<'py>,
) -> PyResult<()> {
    sse::open(&mut writer.bytes);
    write_event(writer, event, options)?;
    sse::close(&mut writer.bytes);
    Ok(())
}

#[pymethods]
impl EventEncoder {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        Self { settings: OnceLock::new() }
    }

    #[pyo3(signature = (accept=None, *, default=None, drop_raw_event=false))]
    fn __init__(
        &self,
        accept: Option<&Bound<'_, PyAny>>,
        default: Option<Py<PyAny>>,
        drop_raw_event: bool,
    ) {
        let _ = accept;
        // A second call of `__init__` changes nothing.
        let _ = self.settings.set(Settings { default, drop_raw_event });
    }

    /// The keyword arguments of `__init__`, for copying and pickling.
    #[getter]
    fn _settings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let settings = PyDict::new(py);
        if let Some(set) = self.settings.get() {
            settings.set_item(intern!(py, "default"), &set.default)?;
            settings.set_item(intern!(py, "drop_raw_event"), set.drop_raw_event)?;
        }
        Ok(settings)
    }

    /// A `default` hook that refers to its encoder makes a cycle. The hook's end of it is cleared
    /// by its owner.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.settings.get() {
            Some(Settings { default: Some(default), .. }) => visit.call(default),
            _ => Ok(()),
        }
    }

    fn get_content_type(&self) -> &'static str {
        SSE_MEDIA_TYPE
    }

    #[pyo3(signature = (event))]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        event: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.encode_sse(py, event)
    }

    #[pyo3(signature = (event))]
    fn encode_sse<'py>(
        &self,
        py: Python<'py>,
        event: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        with_writer(|writer| frame(writer, event, &self.options(py)), |writer| to_str(py, writer))
    }

    /// What the official `encode` calls; subclasses of it override this.
    #[pyo3(signature = (event))]
    fn _encode_sse<'py>(
        &self,
        py: Python<'py>,
        event: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.encode_sse(py, event)
    }

    #[pyo3(signature = (event))]
    fn encode_binary<'py>(
        &self,
        py: Python<'py>,
        event: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        with_writer(
            |writer| frame(writer, event, &self.options(py)),
            |writer| Ok(PyBytes::new(py, &writer.bytes)),
        )
    }

    #[pyo3(signature = (events))]
    fn encode_many<'py>(
        &self,
        py: Python<'py>,
        events: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        with_writer(
            |writer| {
                let options = self.options(py);
                for event in events.try_iter()? {
                    frame(writer, &event?, &options)?;
                }
                Ok(())
            },
            |writer| Ok(PyBytes::new(py, &writer.bytes)),
        )
    }
}

#[pyfunction]
#[pyo3(signature = (event, /))]
pub fn to_json<'py>(py: Python<'py>, event: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    with_writer(
        |writer| write_event(writer, event, &Options::default()),
        |writer| Ok(PyBytes::new(py, &writer.bytes)),
    )
}

/// `encode` of the official class, once `install()` has put it there. The instance holds the
/// encoder that does the work, unless it was made before: then the defaults hold.
#[pyfunction]
#[pyo3(signature = (encoder, event))]
pub fn official_encode<'py>(
    py: Python<'py>,
    encoder: &Bound<'py, PyAny>,
    event: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    static OFFICIAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let official = OFFICIAL.import(py, "ag_ui.encoder", "EventEncoder")?;
    if capi::type_key(encoder) != capi::class_key(official) {
        // A subclass may do its own framing there, which the official `encode` would use.
        let name = intern!(py, "_encode_sse");
        if !encoder.get_type().getattr(name)?.is(&official.getattr(name)?) {
            return encoder.call_method1(name, (event,));
        }
    }
    let ours = capi::instance_dict(encoder)
        .and_then(|attributes| capi::dict_get(&attributes, intern!(py, "_agui_codec")));
    if let Some(ours) = ours {
        return ours.cast::<EventEncoder>()?.get().encode(py, event);
    }
    with_writer(|writer| frame(writer, event, &Options::default()), |writer| to_str(py, writer))
}

/// `BaseModel.model_dump_json` of the SDK's events. With exactly `by_alias=True` it is ours.
#[pyfunction]
#[pyo3(signature = (event, /, *args, **kwargs))]
pub fn model_dump_json<'py>(
    event: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = event.py();
    if let Some(kwargs) = kwargs
        && args.is_empty()
        && kwargs.len() == 1
        && let Some(by_alias) = kwargs.get_item(intern!(py, "by_alias"))?
        && by_alias.is(PyBool::new(py, true))
    {
        let mut text = None;
        with_writer(
            |writer| {
                if write_model(writer, event) {
                    text = Some(to_str(py, writer)?);
                }
                Ok(())
            },
            |_| Ok(()),
        )?;
        if let Some(text) = text {
            return Ok(text);
        }
    }
    let official = crate::event::model_dump_json(py)?;
    let mut all = vec![event.clone()];
    all.extend(args.iter());
    official.call(PyTuple::new(py, all)?, kwargs)
}
