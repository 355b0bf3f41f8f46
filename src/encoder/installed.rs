//! The methods that `install()` puts on the official encoder and on the SDK's events. They run no
//! Python code of ours, and making an official encoder does not make one of ours unless its
//! arguments ask for something.

use pyo3::Borrowed;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyString, PyType};
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{EventEncoder, Flags, Settings, to_str, with_writer};
use crate::accept::{Format, negotiate};
use crate::capi::{self, Arguments, Method, method};
use crate::event::{model_dump_json, set_our_model_dump_json};
use crate::json::write_model;

/// The options of `install()`.
static DROP_RAW_EVENT: AtomicBool = AtomicBool::new(false);
static PROTOBUF_ON_WILDCARD: AtomicBool = AtomicBool::new(false);
static EXACT_INTEGERS: AtomicBool = AtomicBool::new(false);

/// Keeps the options of `install()`.
#[pyfunction]
#[pyo3(signature = (*, drop_raw_event, protobuf_on_wildcard, exact_integers))]
pub fn set_installed(drop_raw_event: bool, protobuf_on_wildcard: bool, exact_integers: bool) {
    DROP_RAW_EVENT.store(drop_raw_event, Ordering::Relaxed);
    PROTOBUF_ON_WILDCARD.store(protobuf_on_wildcard, Ordering::Relaxed);
    EXACT_INTEGERS.store(exact_integers, Ordering::Relaxed);
}

fn installed() -> Flags {
    Flags {
        drop_raw_event: DROP_RAW_EVENT.load(Ordering::Relaxed),
        protobuf_on_wildcard: PROTOBUF_ON_WILDCARD.load(Ordering::Relaxed),
        exact_integers: EXACT_INTEGERS.load(Ordering::Relaxed),
    }
}

/// A class, the name of a method of it, and what `install()` puts there.
type ClassMethod = (Py<PyType>, &'static str, Py<PyAny>);

/// What `install()` sets: the class, the name, and the method. Made once.
#[pyfunction]
pub fn patches(py: Python<'_>) -> PyResult<Vec<ClassMethod>> {
    static METHODS: PyOnceLock<Vec<ClassMethod>> = PyOnceLock::new();
    let methods = capi::once(&METHODS, py, || {
        let encoder = official(py)?;
        let events = py.import("ag_ui.core.events")?.getattr("BaseEvent")?;
        let events = events.cast_into::<PyType>()?;
        let dump = method::<ModelDumpJson>(&events)?;
        let mut methods = vec![(events.unbind(), "model_dump_json", dump.unbind())];
        for (name, method) in [
            ("__init__", method::<Init>(encoder)?),
            ("encode", method::<Encode>(encoder)?),
            ("encode_sse", method::<EncodeSse>(encoder)?),
            ("_encode_sse", method::<OwnEncodeSse>(encoder)?),
            ("encode_binary", method::<EncodeBinary>(encoder)?),
            ("encode_protobuf", method::<EncodeProtobuf>(encoder)?),
            ("encode_many", method::<EncodeMany>(encoder)?),
            ("get_content_type", method::<GetContentType>(encoder)?),
        ] {
            methods.push((encoder.clone().unbind(), name, method.unbind()));
        }
        PyResult::Ok(methods)
    })?;
    // Of those that are kept: they may have been made more than once.
    if let Some((_, _, dump)) = methods.first() {
        set_our_model_dump_json(dump.bind(py));
    }
    let copy = |(class, name, method): &(Py<PyType>, &'static str, Py<PyAny>)| {
        (class.clone_ref(py), *name, method.clone_ref(py))
    };
    Ok(methods.iter().map(copy).collect())
}

fn official(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static OFFICIAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    capi::import_once(&OFFICIAL, py, "ag_ui.encoder", "EventEncoder")
}

/// Calls `work` with the settings of an official encoder: those of the encoder of ours that it
/// holds, else the options of `install()`.
#[inline]
fn with_settings<T>(
    encoder: &Bound<'_, PyAny>,
    work: impl FnOnce(&Settings) -> PyResult<T>,
) -> PyResult<T> {
    let ours = capi::instance_dict(encoder)
        .and_then(|attributes| capi::dict_get(&attributes, intern!(encoder.py(), "_agui_codec")));
    // PyO3 releases references only in threads that it has attached itself.
    Python::attach(|_| match ours {
        Some(ours) => work(ours.cast::<EventEncoder>()?.get().settings()),
        None => work(&Settings { flags: installed(), ..Settings::default() }),
    })
}

/// Whether the class overrides what the official `encode` calls, to do its own framing.
#[inline]
fn frames_itself(encoder: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = encoder.py();
    let official = official(py)?;
    if capi::type_key(encoder) == capi::class_key(official) {
        return Ok(false);
    }
    let name = intern!(py, "_encode_sse");
    Ok(!encoder.get_type().getattr(name)?.is(&official.getattr(name)?))
}

/// The one argument of a method.
#[inline]
fn argument<'a, 'py>(
    arguments: &Arguments<'a, 'py>,
    method: &CStr,
    name: &str,
) -> PyResult<Borrowed<'a, 'py, PyAny>> {
    arguments.only(name).ok_or_else(|| {
        let method = method.to_string_lossy();
        PyTypeError::new_err(format!("EventEncoder.{method}() takes one argument, {name}"))
    })
}

/// A method of one argument that hands it to a method of the settings.
macro_rules! method {
    ($class:ident, $name:literal, $argument:literal, $doc:literal, $work:ident) => {
        struct $class;

        impl Method for $class {
            const NAME: &'static CStr = $name;
            const DOC: &'static CStr = $doc;

            fn call<'py>(
                this: &Bound<'py, PyAny>,
                arguments: &Arguments<'_, 'py>,
            ) -> PyResult<Bound<'py, PyAny>> {
                let argument = argument(arguments, Self::NAME, $argument)?;
                Ok(with_settings(this, |settings| settings.$work(&argument))?.into_any())
            }
        }
    };
}

method!(
    EncodeSse,
    c"encode_sse",
    "event",
    c"encode_sse($self, event)
--

As :meth:`agui_codec.EventEncoder.encode_sse`.",
    encode_sse
);
method!(
    OwnEncodeSse,
    c"_encode_sse",
    "event",
    c"_encode_sse($self, event)
--

What `encode` calls in a subclass that overrides this.",
    encode_sse
);
method!(
    EncodeBinary,
    c"encode_binary",
    "event",
    c"encode_binary($self, event)
--

As :meth:`agui_codec.EventEncoder.encode_binary`.",
    encode_binary
);
method!(
    EncodeProtobuf,
    c"encode_protobuf",
    "event",
    c"encode_protobuf($self, event)
--

As :meth:`agui_codec.EventEncoder.encode_protobuf`.",
    encode_protobuf
);
method!(
    EncodeMany,
    c"encode_many",
    "events",
    c"encode_many($self, events)
--

As :meth:`agui_codec.EventEncoder.encode_many`.",
    encode_many
);

struct Encode;

impl Method for Encode {
    const NAME: &'static CStr = c"encode";
    const DOC: &'static CStr = c"encode($self, event)
--

As :meth:`agui_codec.EventEncoder.encode`.";

    fn call<'py>(
        this: &Bound<'py, PyAny>,
        arguments: &Arguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let event = argument(arguments, Self::NAME, "event")?;
        if frames_itself(this)? {
            return this.call_method1(intern!(this.py(), "_encode_sse"), (event,));
        }
        with_settings(this, |settings| settings.encode(&event))
    }
}

struct GetContentType;

impl Method for GetContentType {
    const NAME: &'static CStr = c"get_content_type";
    const DOC: &'static CStr = c"get_content_type($self)
--

As :meth:`agui_codec.EventEncoder.get_content_type`.";

    fn call<'py>(
        this: &Bound<'py, PyAny>,
        arguments: &Arguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if !arguments.is_empty() {
            let reason = "EventEncoder.get_content_type() takes no arguments";
            return Err(PyTypeError::new_err(reason));
        }
        let content_type = with_settings(this, |settings| Ok(settings.format.content_type()))?;
        Ok(PyString::intern(this.py(), content_type).into_any())
    }
}

struct Init;

impl Method for Init {
    const NAME: &'static CStr = c"__init__";
    const DOC: &'static CStr =
        c"__init__($self, accept=None, *, default=None, drop_raw_event=..., \
protobuf_on_wildcard=..., exact_integers=..., on_deviation=None)
--

As :class:`agui_codec.EventEncoder`; where an option is not given, that of ``install()`` holds.";

    fn call<'py>(
        this: &Bound<'py, PyAny>,
        arguments: &Arguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        static INIT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let py = this.py();
        let asks_nothing = || {
            let Some(accept) = arguments.only("accept") else { return false };
            accept.cast::<PyString>().map_or(true, |accept| {
                let wildcards = installed().protobuf_on_wildcard;
                negotiate(&accept.to_string_lossy(), wildcards) == Format::Sse
            })
        };
        if arguments.is_empty() || asks_nothing() {
            return Ok(py.None().into_bound(py));
        }
        arguments.pass_on_with(this, capi::import_once(&INIT, py, "agui_codec.install", "_init")?)
    }
}

/// `BaseModel.model_dump_json` of the SDK's events. With exactly `by_alias=True` it is ours.
struct ModelDumpJson;

impl Method for ModelDumpJson {
    const NAME: &'static CStr = c"model_dump_json";
    const DOC: &'static CStr = c"model_dump_json($self, **kwargs)
--

As ``pydantic.BaseModel.model_dump_json``, sooner with ``by_alias=True`` alone.";

    fn call<'py>(
        event: &Bound<'py, PyAny>,
        arguments: &Arguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = event.py();
        if arguments.positional().is_empty()
            && let Some(by_alias) = arguments.only("by_alias")
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
        arguments.pass_on_with(event, model_dump_json(py)?)
    }
}
