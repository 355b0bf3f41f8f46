//! The decoder that Python sees: bytes in any pieces to events.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use pyo3::{PyTraverseError, PyVisit, intern};

use crate::capi;
use crate::deviation::{Deviation, Reporter};
use crate::encoder::SSE_MEDIA_TYPE;
use crate::errors::{AGUIError, DecodeFault, Fault, Refused, Step};
use crate::event::Spelling;
use crate::input::with_bytes;
use crate::json::{NoEvent, Tools, decode, with_tools};
use crate::sse::parse::{Frame, Parser, Rest, TooLarge};

#[cold]
fn too_large(offset: u64, limit: usize) -> Box<DecodeFault> {
    let reason = format!("more than {limit} bytes (max_event_bytes) in one event or line");
    Box::new(DecodeFault::new(Refused::TooLarge, reason, offset))
}

#[cold]
fn truncated(offset: u64) -> Box<DecodeFault> {
    Box::new(DecodeFault::new(Refused::Truncated, "the stream ended inside an event", offset))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OnUnknown {
    Forward,
    Drop,
    Raise,
}

impl OnUnknown {
    fn named(name: &str) -> PyResult<Self> {
        match name {
            "forward" => Ok(Self::Forward),
            "drop" => Ok(Self::Drop),
            "raise" => Ok(Self::Raise),
            _ => Err(PyValueError::new_err(format!(
                "on_unknown is \"forward\", \"drop\" or \"raise\", not {name:?}"
            ))),
        }
    }
}

/// The media type of a content type: without parameters, in lower case (RFC 9110 section 8.3.1).
fn media_type(content_type: &str) -> String {
    let name = content_type.split(';').next().unwrap_or_default();
    name.trim().to_ascii_lowercase()
}

/// Decodes a stream of AG-UI events, whatever the pieces in which it comes.
///
/// ``feed`` takes the next bytes and returns the events that they complete; ``close`` says that
/// there are no more. The events are the same however the stream is cut. One decoder reads one
/// stream, and is not used by two threads at the same time.
///
/// Server-Sent Events are read as the WHATWG HTML standard says (section 9.2.6), with any line ends,
/// comments, and ``data`` in several lines; ``event``, ``id`` and ``retry`` mean nothing in AG-UI.
/// ``data`` has to be one JSON object with a string ``type``; see :func:`decode_event`.
///
/// An event of a type that the protocol does not have is a wire dict, as models too: so nothing
/// that it says is lost, and an encoder writes it as the document it was.
///
/// Args:
///     content_type: The ``Content-Type`` of the response, parameters and all:
///         ``text/event-stream``.
///     as_dict: Give wire dicts, with the keys of the protocol, instead of models of ``ag_ui.core``.
///         They are what ``json.loads`` gives; that they are as the protocol says is not checked.
///     max_event_bytes: How many bytes an event may have: the data of one event, or any one line of
///         the stream.
///     on_unknown: What becomes of an event of an unknown type: ``"forward"`` gives it as a wire
///         dict, ``"drop"`` reports it as a deviation, ``"raise"`` raises.
///     on_deviation: Called with a :class:`Deviation` for each event that was dropped. Without it
///         they are logged, at WARNING under the name ``agui_codec``.
///
/// Raises:
///     AGUIError: For another content type.
///     ValueError: For another ``on_unknown``.
#[pyclass(module = "agui_codec")]
pub struct EventDecoder {
    parser: Parser,
    spelling: Spelling,
    max_event_bytes: usize,
    on_unknown: OnUnknown,
    reporter: Reporter,
    /// How many events the stream has had.
    count: u64,
    /// The error after which nothing is read any more.
    failed: Option<Py<PyAny>>,
    closed: bool,
}

impl EventDecoder {
    fn check_usable(&self, py: Python<'_>) -> PyResult<()> {
        let Some(failed) = &self.failed else { return Ok(()) };
        let failed = failed.bind(py);
        // Or it would grow with each time it is raised.
        failed.setattr(intern!(py, "__traceback__"), py.None())?;
        Err(PyErr::from_value(failed.clone()))
    }

    /// Reads with `read`, which puts events into a list. An error is raised at once if there are
    /// none, else with the next call: what came before it is delivered.
    fn deliver<'py>(
        &mut self,
        py: Python<'py>,
        read: impl FnOnce(&mut Self, &Bound<'py, PyList>) -> PyResult<()>,
    ) -> PyResult<Bound<'py, PyList>> {
        self.check_usable(py)?;
        let events = PyList::empty(py);
        if let Err(error) = read(self, &events) {
            self.failed = Some(error.value(py).clone().into_any().unbind());
            if events.is_empty() {
                return Err(error);
            }
        }
        Ok(events)
    }
}

/// What becomes of the events of a stream, apart from the parser that finds them.
struct Sink<'a, 'py> {
    spelling: Spelling,
    on_unknown: OnUnknown,
    reporter: &'a Reporter,
    count: &'a mut u64,
    events: &'a Bound<'py, PyList>,
    tools: &'a mut Tools,
}

impl Sink<'_, '_> {
    /// One event, as JSON.
    #[inline]
    fn json(&mut self, frame: &Frame<'_>) -> Result<(), NoEvent> {
        let decoded = match decode(self.events.py(), frame.data, self.spelling, self.tools) {
            Ok(decoded) => decoded,
            Err(mut error) => {
                if let NoEvent::NoJson(fault) | NoEvent::Fault(fault) = &mut error {
                    // Of data in several lines, where they begin.
                    fault.offset = frame.offset + if frame.contiguous { fault.offset } else { 0 };
                }
                return Err(error);
            }
        };
        if !decoded.known && self.on_unknown != OnUnknown::Forward {
            self.unknown(&decoded.event, frame.offset)?;
        } else {
            self.events.append(decoded.event)?;
        }
        *self.count += 1;
        Ok(())
    }

    #[cold]
    fn unknown(&self, event: &Bound<'_, PyAny>, offset: u64) -> Result<(), NoEvent> {
        let py = event.py();
        let name = event.get_item(intern!(py, "type"))?.extract::<String>()?;
        if self.on_unknown == OnUnknown::Raise {
            let mut fault = Fault::new(format!("{name:?} is no event type of this protocol"));
            fault.steps.push(Step::Key("type".into()));
            return Err(NoEvent::Fault(Box::new(DecodeFault {
                refused: Refused::Unknown,
                fault,
                offset,
            })));
        }
        self.reporter.report(
            py,
            Deviation {
                kind: "unknown_event".into(),
                event_type: Some(name),
                path: String::new(),
                detail: "an event of an unknown type was dropped".into(),
            },
        )?;
        Ok(())
    }
}

/// What stops the reading of a stream.
enum Halt {
    TooLarge(TooLarge),
    NoEvent(NoEvent),
}

impl From<TooLarge> for Halt {
    fn from(error: TooLarge) -> Self {
        Self::TooLarge(error)
    }
}

impl Halt {
    fn into_error(self, py: Python<'_>, limit: usize, event_index: u64) -> PyErr {
        match self {
            Self::TooLarge(TooLarge { offset }) => {
                too_large(offset, limit).into_error(py, Some(event_index))
            }
            Self::NoEvent(error) => error.into_error(py, Some(event_index)),
        }
    }
}

#[pymethods]
impl EventDecoder {
    #[new]
    #[pyo3(signature = (content_type="text/event-stream", *, as_dict=false, max_event_bytes=10_485_760, on_unknown="forward", on_deviation=None))]
    fn new(
        content_type: &str,
        as_dict: bool,
        max_event_bytes: usize,
        on_unknown: &str,
        on_deviation: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        if media_type(content_type) != SSE_MEDIA_TYPE {
            let reason = format!("no AG-UI stream has the content type {content_type:?}");
            return Err(AGUIError::new_err(reason));
        }
        Ok(Self {
            parser: Parser::new(max_event_bytes),
            spelling: if as_dict { Spelling::Wire } else { Spelling::Model },
            max_event_bytes,
            on_unknown: OnUnknown::named(on_unknown)?,
            reporter: Reporter::new(on_deviation),
            count: 0,
            failed: None,
            closed: false,
        })
    }

    /// Take the next bytes of the stream.
    ///
    /// Args:
    ///     chunk: Any number of bytes: ``bytes``, or anything that has a buffer of them.
    ///
    /// Returns:
    ///     The events that they complete, in order.
    ///
    /// Raises:
    ///     DecodeError: For an event that is none; with the event's index and the byte offset in
    ///         the stream. If the chunk has events before that one, they are returned, and the error
    ///         is raised by the next call. From then on every call raises it.
    ///     FrameTooLargeError: For an event longer than ``max_event_bytes``; likewise.
    ///     UnknownEventError: For an event of an unknown type, with ``on_unknown="raise"``; likewise.
    #[pyo3(signature = (chunk, /))]
    fn feed<'py>(
        &mut self,
        py: Python<'py>,
        chunk: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        with_bytes(chunk, |chunk| {
            self.deliver(py, |decoder, events| {
                if decoder.closed {
                    return Err(AGUIError::new_err("the decoder is closed"));
                }
                let fed = with_tools(|tools| {
                    let mut sink = Sink {
                        spelling: decoder.spelling,
                        on_unknown: decoder.on_unknown,
                        reporter: &decoder.reporter,
                        count: &mut decoder.count,
                        events,
                        tools,
                    };
                    let parser = &mut decoder.parser;
                    parser.feed(chunk, |frame| sink.json(&frame).map_err(Halt::NoEvent))
                });
                fed.map_err(|halt| halt.into_error(py, decoder.max_event_bytes, decoder.count))
            })
        })
    }

    /// Say that the stream has ended.
    ///
    /// Returns:
    ///     The last event, if the blank line after it is missing but its JSON is complete. (The
    ///     standard discards it, AG-UI's own client does not.)
    ///
    /// Raises:
    ///     TruncatedStreamError: If the stream ended inside an event.
    ///     DecodeError: As by ``feed``, for the last event, or for one before.
    fn close<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.deliver(py, |decoder, events| {
            if std::mem::replace(&mut decoder.closed, true) {
                return Ok(());
            }
            let frame = match decoder.parser.rest() {
                Rest::Nothing => return Ok(()),
                Rest::Fragment(offset) => {
                    return Err(truncated(offset).into_error(py, Some(decoder.count)));
                }
                Rest::Event(frame) => frame,
            };
            let position = decoder.parser.position();
            let result = with_tools(|tools| {
                let mut sink = Sink {
                    spelling: decoder.spelling,
                    on_unknown: decoder.on_unknown,
                    reporter: &decoder.reporter,
                    count: &mut decoder.count,
                    events,
                    tools,
                };
                sink.json(&frame)
            });
            result.map_err(|error| match error {
                NoEvent::NoJson(_) => truncated(position).into_error(py, Some(decoder.count)),
                error => error.into_error(py, Some(decoder.count)),
            })
        })
    }

    /// The error that the next call will raise, if reading has failed; else None.
    #[getter]
    fn error(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.failed.as_ref().map(|failed| failed.clone_ref(py))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.reporter.traverse(&visit)?;
        visit.call(&self.failed)
    }

    fn __clear__(&mut self) {
        self.reporter.clear();
        self.failed = None;
    }
}

/// One event from one JSON document.
///
/// The JSON is read strictly (RFC 8259): no NaN or Infinity, no byte order mark, no half surrogate
/// pairs, valid UTF-8, at most ``MAX_DEPTH`` levels. Numbers keep their value: an int of any size is
/// exact, a number with a fraction or an exponent is the nearest float. Of equal keys the last wins.
///
/// Args:
///     data: The document; a str, or bytes in UTF-8.
///     as_dict: Give a wire dict, as ``json.loads`` does, instead of a model of ``ag_ui.core``.
///
/// Returns:
///     A model that is equal to what pydantic's validator of ``ag_ui.core.Event`` gives: what that
///     would coerce is coerced, since it is asked where anything is not exactly as declared. An event
///     of a type that the protocol does not have is a wire dict, which carries all it says.
///
/// Raises:
///     DecodeError: For anything that is not a JSON object with a string ``type``, or (as a model)
///         that pydantic refuses; then pydantic's error is the cause. ``path`` says where in the
///         event, ``offset`` at which byte of the document.
#[pyfunction]
#[pyo3(signature = (data, /, *, as_dict=false))]
pub fn decode_event<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    as_dict: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let spelling = if as_dict { Spelling::Wire } else { Spelling::Model };
    let read = |document: &[u8]| with_tools(|tools| decode(py, document, spelling, tools));
    let decoded = if let Ok(text) = data.cast::<PyString>() {
        match capi::text(text) {
            capi::Text::Ascii(document) => read(document),
            _ => match text.to_str() {
                Ok(document) => read(document.as_bytes()),
                Err(error) => {
                    let fault = Fault {
                        cause: Some(error),
                        ..Fault::new("half a surrogate pair in a str")
                    };
                    let fault = DecodeFault { refused: Refused::Malformed, fault, offset: 0 };
                    return Err(fault.into_error(py, None));
                }
            },
        }
    } else {
        with_bytes(data, |document| Ok(read(document)))?
    };
    match decoded {
        Ok(decoded) => Ok(decoded.event),
        Err(error) => Err(error.into_error(py, None)),
    }
}

/// An event of a ``text/event-stream``, as the WHATWG HTML standard defines it.
///
/// Args:
///     event: The event's type; ``"message"`` if the stream does not name one.
///     data: The values of the ``data`` lines, joined with LF.
///     id: The last event ID of the stream so far; empty for none.
///     retry: The reconnection time in milliseconds that the stream asked for since the event
///         before; None if it did not.
#[pyclass(module = "agui_codec", frozen, eq, hash, get_all)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerSentEvent {
    event: String,
    data: String,
    id: String,
    retry: Option<u64>,
}

#[pymethods]
impl ServerSentEvent {
    #[classattr]
    const __match_args__: (&'static str, &'static str, &'static str, &'static str) =
        ("event", "data", "id", "retry");

    #[new]
    #[pyo3(signature = (event="message", data="", id="", retry=None))]
    fn new(event: &str, data: &str, id: &str, retry: Option<u64>) -> Self {
        Self { event: event.to_owned(), data: data.to_owned(), id: id.to_owned(), retry }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let quoted = |text: &str| -> PyResult<String> {
            Ok(PyString::new(py, text).repr()?.to_string_lossy().into_owned())
        };
        let retry = self.retry.map_or_else(|| "None".to_owned(), |retry| retry.to_string());
        Ok(format!(
            "ServerSentEvent(event={}, data={}, id={}, retry={retry})",
            quoted(&self.event)?,
            quoted(&self.data)?,
            quoted(&self.id)?
        ))
    }
}

impl ServerSentEvent {
    /// Bytes that are no UTF-8 become U+FFFD, as the standard decodes.
    fn of(frame: &Frame<'_>) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Self {
            event: if frame.event.is_empty() { "message".into() } else { text(frame.event) },
            data: text(frame.data),
            id: text(frame.id),
            retry: frame.retry,
        }
    }
}

/// Reads any ``text/event-stream``, whatever the pieces in which it comes and whatever its data.
///
/// Follows the WHATWG HTML standard (section 9.2.6, "Interpreting an event stream"): CR, LF and CRLF
/// end lines, and nothing else does; one byte order mark at the start is passed over, and so are
/// comments and unknown fields; bytes that are no UTF-8 become U+FFFD. An event is given as soon as
/// its blank line is there.
///
/// Args:
///     max_event_bytes: How many bytes the data of one event, or any one line, may have.
#[pyclass(module = "agui_codec")]
pub struct SSEParser {
    parser: Parser,
    max_event_bytes: usize,
    count: u64,
    /// Where the error was after which nothing is read any more.
    failed: Option<u64>,
    closed: bool,
}

#[pymethods]
impl SSEParser {
    #[new]
    #[pyo3(signature = (*, max_event_bytes=10_485_760))]
    fn new(max_event_bytes: usize) -> Self {
        Self {
            parser: Parser::new(max_event_bytes),
            max_event_bytes,
            count: 0,
            failed: None,
            closed: false,
        }
    }

    /// Take the next bytes of the stream.
    ///
    /// Args:
    ///     chunk: Any number of bytes: ``bytes``, or anything that has a buffer of them.
    ///
    /// Returns:
    ///     The events that they complete, in order.
    ///
    /// Raises:
    ///     FrameTooLargeError: For an event or a line longer than ``max_event_bytes``. If the chunk
    ///         has events before that, they are returned, and the error is raised by the next call.
    ///         From then on every call raises it.
    #[pyo3(signature = (chunk, /))]
    fn feed(&mut self, py: Python<'_>, chunk: &Bound<'_, PyAny>) -> PyResult<Vec<ServerSentEvent>> {
        self.check_usable(py)?;
        if self.closed {
            return Err(AGUIError::new_err("the parser is closed"));
        }
        let mut events = Vec::new();
        let fed = with_bytes(chunk, |chunk| {
            Ok(self.parser.feed::<TooLarge>(chunk, |frame| {
                events.push(ServerSentEvent::of(&frame));
                Ok(())
            }))
        })?;
        self.count += events.len() as u64;
        if let Err(TooLarge { offset }) = fed {
            self.failed = Some(offset);
            if events.is_empty() {
                self.check_usable(py)?;
            }
        }
        Ok(events)
    }

    /// Say that the stream has ended.
    ///
    /// Returns:
    ///     Nothing: an empty list. An event is complete with its blank line.
    ///
    /// Raises:
    ///     TruncatedStreamError: If the stream ended inside an event, which the standard discards.
    ///     FrameTooLargeError: As by ``feed``.
    fn close(&mut self, py: Python<'_>) -> PyResult<Vec<ServerSentEvent>> {
        self.check_usable(py)?;
        let closed = std::mem::replace(&mut self.closed, true);
        match self.parser.rest() {
            Rest::Event(_) | Rest::Fragment(_) if !closed => {
                Err(truncated(self.parser.position()).into_error(py, Some(self.count)))
            }
            _ => Ok(Vec::new()),
        }
    }
}

impl SSEParser {
    fn check_usable(&self, py: Python<'_>) -> PyResult<()> {
        match self.failed {
            Some(offset) => {
                Err(too_large(offset, self.max_event_bytes).into_error(py, Some(self.count)))
            }
            None => Ok(()),
        }
    }
}
