//! The encoder that Python sees.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyTuple, PyType};
use std::cell::Cell;
use std::sync::OnceLock;

use crate::accept::{Format, negotiate};
use crate::capi;
use crate::input::Callback;
use crate::json::{Options, Writer, write_event, write_model};
use crate::{proto, sse};

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

#[derive(Default)]
struct Settings {
    accept: Option<String>,
    default: Option<Py<PyAny>>,
    drop_raw_event: bool,
    protobuf_on_wildcard: bool,
    /// What `accept` came to.
    format: Format,
}

static DEFAULTS: Settings = Settings {
    accept: None,
    default: None,
    drop_raw_event: false,
    protobuf_on_wildcard: false,
    format: Format::Sse,
};

impl Settings {
    #[inline]
    fn options<'py>(&self, py: Python<'py>) -> Options<'py> {
        Options {
            default: self.default.as_ref().map(|default| default.bind(py).clone()),
            drop_raw_event: self.drop_raw_event,
        }
    }
}

/// The native half of `agui_codec.EventEncoder`.
#[pyclass(module = "agui_codec._native", subclass, frozen)]
pub struct EventEncoder {
    /// Set by `__init__`; without (a subclass that does not call it) the defaults hold.
    settings: OnceLock<Settings>,
}

impl EventEncoder {
    #[inline]
    fn settings(&self) -> &Settings {
        self.settings.get().unwrap_or(&DEFAULTS)
    }
}

/// One event as a frame of Server-Sent Events.
#[inline]
fn push_sse<'py>(
    writer: &mut Writer,
    event: &Bound<'py, PyAny>,
    options: &Options<'py>,
) -> PyResult<()> {
    sse::open(&mut writer.bytes);
    write_event(writer, event, options)?;
    sse::close(&mut writer.bytes);
    Ok(())
}

#[inline]
fn sse_str<'py>(event: &Bound<'py, PyAny>, options: &Options<'py>) -> PyResult<Bound<'py, PyAny>> {
    with_writer(|writer| push_sse(writer, event, options), |writer| to_str(event.py(), writer))
}

#[pymethods]
impl EventEncoder {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        Self { settings: OnceLock::new() }
    }

    #[pyo3(signature = (
        accept=None, *, default=None, drop_raw_event=false, protobuf_on_wildcard=false
    ))]
    fn __init__(
        &self,
        accept: Option<&Bound<'_, PyAny>>,
        default: Option<Callback>,
        drop_raw_event: bool,
        protobuf_on_wildcard: bool,
    ) {
        // The official encoder takes no notice of the argument; what is no header asks nothing.
        let accept: Option<String> = accept.and_then(|accept| accept.extract().ok());
        let format =
            accept.as_deref().map_or(Format::Sse, |accept| negotiate(accept, protobuf_on_wildcard));
        let default = default.map(Py::from);
        let settings = Settings { accept, default, drop_raw_event, protobuf_on_wildcard, format };
        // A second call of `__init__` changes nothing.
        let _ = self.settings.set(settings);
    }

    /// The arguments of `__init__`, for copying and pickling.
    #[getter]
    fn _settings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Settings { accept, default, drop_raw_event, protobuf_on_wildcard, format: _ } =
            self.settings();
        let settings = PyDict::new(py);
        settings.set_item(intern!(py, "accept"), accept)?;
        settings.set_item(intern!(py, "default"), default)?;
        settings.set_item(intern!(py, "drop_raw_event"), drop_raw_event)?;
        settings.set_item(intern!(py, "protobuf_on_wildcard"), protobuf_on_wildcard)?;
        Ok(settings)
    }

    /// A `default` hook that refers to its encoder makes a cycle. The hook's end of it is cleared
    /// by its owner.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.settings().default.as_ref().map_or(Ok(()), |default| visit.call(default))
    }

    /// The content type of what `encode` gives: ``text/event-stream``, or the protobuf media type
    /// in the spelling that the ``Accept`` header has.
    fn get_content_type(&self) -> &'static str {
        self.settings().format.content_type()
    }

    /// One event in the negotiated format: the text of an SSE frame, or the bytes of a protobuf
    /// frame.
    ///
    /// Args:
    ///     event: An event model, or a wire dict.
    ///
    /// Raises:
    ///     EncodeError: If it is neither, or cannot be written. (Of a model that JSON cannot carry,
    ///         pydantic's own error.)
    #[pyo3(signature = (event))]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        event: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let settings = self.settings();
        match settings.format {
            Format::Sse => sse_str(event, &settings.options(py)),
            Format::Protobuf(_) => Ok(self.encode_protobuf(py, event)?.into_any()),
        }
    }

    /// One event as the text of an SSE frame, whatever was negotiated.
    ///
    /// Raises:
    ///     EncodeError: As `encode`.
    #[pyo3(signature = (event))]
    fn encode_sse<'py>(
        &self,
        py: Python<'py>,
        event: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        sse_str(event, &self.settings().options(py))
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

    /// One event in the negotiated format, always as bytes.
    ///
    /// Raises:
    ///     EncodeError: As `encode`.
    #[pyo3(signature = (event))]
    fn encode_binary<'py>(
        &self,
        py: Python<'py>,
        event: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let settings = self.settings();
        match settings.format {
            Format::Sse => with_writer(
                |writer| push_sse(writer, event, &settings.options(py)),
                |writer| Ok(PyBytes::new(py, &writer.bytes)),
            ),
            Format::Protobuf(_) => self.encode_protobuf(py, event),
        }
    }

    /// One event as a protobuf frame, whatever was negotiated: its length as four bytes,
    /// big-endian, and the `ag_ui.Event` message.
    ///
    /// Raises:
    ///     EncodeError: For what is no event, and for what the protobuf wire cannot carry; see
    ///         :func:`agui_codec.proto.encode`.
    #[pyo3(signature = (event))]
    fn encode_protobuf<'py>(
        &self,
        py: Python<'py>,
        event: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        proto::encode(py, event, &self.settings().options(py), true)
    }

    /// Events in the negotiated format, one frame behind the other.
    ///
    /// Args:
    ///     events: An iterable of event models and wire dicts.
    ///
    /// Raises:
    ///     EncodeError: As `encode`; then nothing is returned.
    #[pyo3(signature = (events))]
    fn encode_many<'py>(
        &self,
        py: Python<'py>,
        events: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let settings = self.settings();
        let options = settings.options(py);
        with_writer(
            |writer| {
                for event in events.try_iter()? {
                    match settings.format {
                        Format::Sse => push_sse(writer, &event?, &options)?,
                        Format::Protobuf(_) => {
                            proto::push_frame(py, &event?, &options, &mut writer.bytes)?;
                        }
                    }
                }
                Ok(())
            },
            |writer| Ok(PyBytes::new(py, &writer.bytes)),
        )
    }
}

/// One event as a JSON document, without framing.
///
/// Args:
///     event: An event model, whose document is that of ``model_dump_json(by_alias=True)``. Or a
///         *wire dict*: its keys are those of the protocol, or the snake_case names of described
///         fields (``messageId`` wins over ``message_id`` if both are there); ``type`` may be the
///         member of ``EventType``. Optional described fields that are None are left out; None
///         inside payloads stays. Unknown keys and types pass through, and values are not checked
///         against their declared types: a codec forwards.
///
/// Returns:
///     The document, as UTF-8.
///
/// Raises:
///     EncodeError: For an object that is neither, a dict without ``type``, a value in a dict that
///         JSON cannot carry, or nesting deeper than ``MAX_DEPTH``; its ``path`` says where. For
///         models the error is pydantic's own (``PydanticSerializationError``).
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
    sse_str(event, &Options::default())
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
