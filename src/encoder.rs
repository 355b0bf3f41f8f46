//! The encoder that Python sees.

mod installed;

pub use installed::{patches, set_installed};

use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};
use std::cell::Cell;
use std::sync::OnceLock;

use crate::accept::{Format, negotiate};
use crate::capi;
use crate::errors::class_name;
use crate::input::{Callback, str_argument};
use crate::json::{EncodeOptions, Writer, write_event};
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

/// What an encoder was asked for.
#[derive(Default)]
struct Settings {
    accept: Option<String>,
    default: Option<Py<PyAny>>,
    on_deviation: Option<Py<PyAny>>,
    flags: Flags,
    /// What `accept` came to.
    format: Format,
}

#[derive(Clone, Copy, Default)]
struct Flags {
    drop_raw_event: bool,
    protobuf_on_wildcard: bool,
    exact_integers: bool,
}

static DEFAULTS: Settings = Settings {
    accept: None,
    default: None,
    on_deviation: None,
    flags: Flags { drop_raw_event: false, protobuf_on_wildcard: false, exact_integers: false },
    format: Format::Sse,
};

impl Settings {
    #[inline]
    fn options<'py>(&self, py: Python<'py>) -> EncodeOptions<'py> {
        let bound = |hook: &Option<Py<PyAny>>| hook.as_ref().map(|hook| hook.bind(py).clone());
        EncodeOptions {
            default: bound(&self.default),
            on_deviation: bound(&self.on_deviation),
            drop_raw_event: self.flags.drop_raw_event,
            exact_integers: self.flags.exact_integers,
        }
    }

    #[inline]
    fn encode<'py>(&self, event: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self.format {
            Format::Sse => self.encode_sse(event),
            Format::Protobuf(_) => Ok(self.encode_protobuf(event)?.into_any()),
        }
    }

    #[inline]
    fn encode_sse<'py>(&self, event: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = event.py();
        let options = self.options(py);
        with_writer(|writer| push_sse(writer, event, &options), |writer| to_str(py, writer))
    }

    #[inline]
    fn encode_binary<'py>(&self, event: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let py = event.py();
        match self.format {
            Format::Sse => with_writer(
                |writer| push_sse(writer, event, &self.options(py)),
                |writer| Ok(PyBytes::new(py, &writer.bytes)),
            ),
            Format::Protobuf(_) => self.encode_protobuf(event),
        }
    }

    #[inline]
    fn encode_protobuf<'py>(&self, event: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        proto::encode(event.py(), event, &self.options(event.py()), true)
    }

    fn encode_many<'py>(&self, events: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let py = events.py();
        let options = self.options(py);
        with_writer(
            |writer| {
                let events = events.try_iter().map_err(|error| {
                    let class = class_name(events);
                    let named = format!("events must be an iterable of events, not {class}");
                    let named = PyTypeError::new_err(named);
                    named.set_cause(py, Some(error));
                    named
                })?;
                for event in events {
                    match self.format {
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
    options: &EncodeOptions<'py>,
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

    #[pyo3(signature = (
        accept=None, *, default=None, drop_raw_event=false, protobuf_on_wildcard=false,
        exact_integers=false, on_deviation=None
    ))]
    fn __init__(
        &self,
        accept: Option<&Bound<'_, PyAny>>,
        default: Option<Callback>,
        drop_raw_event: bool,
        protobuf_on_wildcard: bool,
        exact_integers: bool,
        on_deviation: Option<Callback>,
    ) -> PyResult<()> {
        let accept = accept.map(|accept| str_argument("accept", accept)).transpose()?;
        let accept = accept.map(|accept| accept.to_string_lossy().into_owned());
        let format =
            accept.as_deref().map_or(Format::Sse, |accept| negotiate(accept, protobuf_on_wildcard));
        let (default, on_deviation) = (default.map(Py::from), on_deviation.map(Py::from));
        let flags = Flags { drop_raw_event, protobuf_on_wildcard, exact_integers };
        // A second call of `__init__` changes nothing.
        let _ = self.settings.set(Settings { accept, default, on_deviation, flags, format });
        Ok(())
    }

    /// The arguments of `__init__`, for copying and pickling.
    #[getter]
    fn _settings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Settings { accept, default, on_deviation, flags, format: _ } = self.settings();
        let settings = PyDict::new(py);
        settings.set_item(intern!(py, "accept"), accept)?;
        settings.set_item(intern!(py, "default"), default)?;
        settings.set_item(intern!(py, "drop_raw_event"), flags.drop_raw_event)?;
        settings.set_item(intern!(py, "protobuf_on_wildcard"), flags.protobuf_on_wildcard)?;
        settings.set_item(intern!(py, "exact_integers"), flags.exact_integers)?;
        settings.set_item(intern!(py, "on_deviation"), on_deviation)?;
        Ok(settings)
    }

    /// The arguments that are not the defaults.
    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let py = slf.py();
        let Settings { accept, default, on_deviation, flags, format: _ } = slf.get().settings();
        let mut given = Vec::new();
        if let Some(accept) = accept {
            given.push(PyString::new(py, accept).repr()?.to_string());
        }
        let flags = [
            ("drop_raw_event", flags.drop_raw_event),
            ("protobuf_on_wildcard", flags.protobuf_on_wildcard),
            ("exact_integers", flags.exact_integers),
        ];
        for (name, _) in flags.iter().filter(|(_, set)| *set) {
            given.push(format!("{name}=True"));
        }
        for (name, hook) in [("default", default), ("on_deviation", on_deviation)] {
            if let Some(hook) = hook {
                given.push(format!("{name}={}", hook.bind(py).repr()?));
            }
        }
        Ok(format!("{}({})", slf.get_type().name()?, given.join(", ")))
    }

    /// A hook that refers to its encoder makes a cycle. The hook's end of it is cleared by its owner.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Settings { default, on_deviation, .. } = self.settings();
        visit.call(default)?;
        visit.call(on_deviation)
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
    fn encode<'py>(&self, event: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.settings().encode(event)
    }

    /// One event as the text of an SSE frame, whatever was negotiated.
    ///
    /// Raises:
    ///     EncodeError: As `encode`.
    #[pyo3(signature = (event))]
    fn encode_sse<'py>(&self, event: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.settings().encode_sse(event)
    }

    /// What the official `encode` calls; subclasses of it override this.
    #[pyo3(signature = (event))]
    fn _encode_sse<'py>(&self, event: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.settings().encode_sse(event)
    }

    /// One event in the negotiated format, always as bytes.
    ///
    /// Raises:
    ///     EncodeError: As `encode`.
    #[pyo3(signature = (event))]
    fn encode_binary<'py>(&self, event: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        self.settings().encode_binary(event)
    }

    /// One event as a protobuf frame, whatever was negotiated: its length as four bytes,
    /// big-endian, and the `ag_ui.Event` message.
    ///
    /// Raises:
    ///     EncodeError: For what is no event, and for what the protobuf wire cannot carry; see
    ///         :func:`agui_codec.proto.encode`.
    #[pyo3(signature = (event))]
    fn encode_protobuf<'py>(&self, event: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        self.settings().encode_protobuf(event)
    }

    /// Events in the negotiated format, one frame behind the other.
    ///
    /// Args:
    ///     events: An iterable of event models and wire dicts.
    ///
    /// Raises:
    ///     EncodeError: As `encode`; then nothing is returned.
    #[pyo3(signature = (events))]
    fn encode_many<'py>(&self, events: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        self.settings().encode_many(events)
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
///
/// Example:
///     >>> to_json({"type": "STEP_STARTED", "step_name": "search"})
///     b'{"type":"STEP_STARTED","stepName":"search"}'
#[pyfunction]
#[pyo3(signature = (event, /))]
pub fn to_json<'py>(py: Python<'py>, event: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    with_writer(
        |writer| write_event(writer, event, &EncodeOptions::default()),
        |writer| Ok(PyBytes::new(py, &writer.bytes)),
    )
}
