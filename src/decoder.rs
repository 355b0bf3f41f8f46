//! The decoder that Python sees: bytes in any pieces to events.

use pyo3::Borrowed;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use pyo3::{PyTraverseError, PyVisit, intern};
use std::borrow::Cow;

use crate::accept::{PROTOBUF, PROTOBUF_OLD, SSE};
use crate::capi;
use crate::deviation::{Deviation, Reporter};
use crate::errors::{
    AGUIError, DecodeFault, Fault, NoEvent, Refused, Step, exclusive, shared, shown,
};
use crate::event::Form;
use crate::input::{Callback, str_argument, with_bytes};
use crate::json::{Decoded, LineTooLong, Lines, Loan, Workspace, decode};
use crate::proto::{self, Broken, Frames};
use crate::sse::parse::{Parser, Rest, TooLarge};

/// The argument, whose name is in the error if it is not a str.
struct ContentType<'a>(Cow<'a, str>);

impl<'a, 'py> FromPyObject<'a, 'py> for ContentType<'a> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let text = str_argument("content_type", &object)?.to_string_lossy().into_owned();
        Ok(Self(text.into()))
    }
}

/// How events stand in the stream.
enum Transport {
    Sse(Parser),
    JsonLines(Lines),
    Protobuf(Frames),
}

impl Transport {
    /// That of a content type: parameters do not matter, nor does case (RFC 9110 section 8.3.1).
    fn of(content_type: &str, limit: usize) -> Option<Self> {
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        match media_type.to_ascii_lowercase().as_str() {
            SSE => Some(Self::Sse(Parser::new(limit))),
            PROTOBUF | PROTOBUF_OLD => Some(Self::Protobuf(Frames::new(limit))),
            "application/x-ndjson" | "application/ndjson" | "application/jsonl" => {
                Some(Self::JsonLines(Lines::new(limit)))
            }
            _ => None,
        }
    }

    fn content_type(&self) -> &'static str {
        match self {
            Self::Sse(_) => SSE,
            Self::JsonLines(_) => "application/x-ndjson",
            Self::Protobuf(_) => PROTOBUF,
        }
    }
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

/// Decodes a stream of AG-UI events, whatever the pieces in which it comes.
///
/// ``feed`` takes the next bytes and returns the events that they complete; ``close`` says that
/// there are no more. The events are the same however the stream is cut. One decoder reads one
/// stream, and is not used by two threads at the same time.
///
/// Server-Sent Events are read as the WHATWG HTML standard says (section 9.2.6), with any line ends,
/// comments, and ``data`` in several lines; ``event``, ``id`` and ``retry`` mean nothing in AG-UI.
/// ``data`` has to be one JSON object with a string ``type``; see :func:`decode_event`. JSON Lines,
/// as recordings are kept, have such an object on each line. A protobuf stream is read as the page
/// "HTTP protobuf" of AG-UI 1.0 says: frames with their length in front as four bytes, big-endian.
///
/// An event of a type that the protocol does not have is a wire dict, as models too: so nothing
/// that it says is lost, and an encoder writes it as the document it was. (Over protobuf nothing
/// can be said of it, not even its type: there it is dropped unless ``on_unknown`` is ``"raise"``.)
///
/// Args:
///     content_type: The ``Content-Type`` of the response, parameters and all:
///         ``text/event-stream``, ``application/vnd.ag-ui.event+proto`` or (its older spelling)
///         ``application/x-ag-ui``; ``application/x-ndjson`` or ``application/jsonl``.
///     as_dict: Give wire dicts, with the keys of the protocol, instead of models of ``ag_ui.core``.
///         They are what ``json.loads`` gives; that they are as the protocol says is not checked.
///     max_event_bytes: How many bytes an event may have: the data of one event, or any one line of
///         the stream, or a frame without its length.
///     on_unknown: What becomes of an event of an unknown type: ``"forward"`` gives it as a wire
///         dict, ``"drop"`` reports it as a deviation, ``"raise"`` raises.
///     on_deviation: Called with a :class:`Deviation` for each event that was dropped, for each part
///         that protobuf has and the protocol has not, and for each ``[DONE]``. Without it they are
///         logged, at WARNING under the name ``agui_codec``.
///     allow_done: Pass over ``data: [DONE]``, with which servers in the manner of OpenAI's end
///         their streams, and report it as a deviation. Otherwise it is the error that it is in
///         AG-UI. It says nothing about the run, which its own events end.
///
/// Raises:
///     AGUIError: For another content type.
///     ValueError: For another ``on_unknown``.
///
/// Example:
///     >>> decoder = EventDecoder("text/event-stream", as_dict=True)
///     >>> decoder.feed(b'data: {"type":"STEP_STARTED",')
///     []
///     >>> decoder.feed(b'"stepName":"search"}\n\n')
///     [{'type': 'STEP_STARTED', 'stepName': 'search'}]
///     >>> decoder.close()
///     []
#[pyclass(module = "agui_codec")]
pub struct EventDecoder {
    transport: Transport,
    options: Options,
    /// How many events the stream has had.
    count: u64,
    /// How many bytes.
    position: u64,
    /// The error after which nothing is read any more.
    failed: Option<Py<PyAny>>,
    closed: bool,
}

/// What becomes of events.
struct Options {
    spelling: Form,
    max_event_bytes: usize,
    on_unknown: OnUnknown,
    reporter: Reporter,
    allow_done: bool,
}

/// What servers in the manner of OpenAI's send as the last event of a stream.
const DONE: &[u8] = b"[DONE]";

impl EventDecoder {
    fn check_usable(&self, py: Python<'_>) -> PyResult<()> {
        let Some(failed) = &self.failed else { return Ok(()) };
        let failed = failed.bind(py);
        // Or it would grow with each time it is raised.
        failed.setattr(intern!(py, "__traceback__"), py.None())?;
        Err(PyErr::from_value(failed.clone()))
    }

    /// What feeding a closed decoder raises. A mistake of the caller's, not of the stream's, and so
    /// not kept.
    #[cold]
    fn closed_error(&self, py: Python<'_>) -> PyErr {
        let failed = self.check_usable(py).err();
        failed.unwrap_or_else(|| AGUIError::new_err("the decoder is closed"))
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

impl EventDecoder {
    /// Runs `work` with the transport, the number of bytes before, and where the events go.
    fn read<'py>(
        &mut self,
        events: &Bound<'py, PyList>,
        work: impl FnOnce(&mut Transport, u64, &mut Sink<'_, 'py>) -> Result<(), Halt>,
    ) -> PyResult<()> {
        let Self { transport, options, count, position, .. } = self;
        let mut loan = Loan::default();
        let mut sink = Sink { options, count, events, workspace: loan.workspace() };
        work(transport, *position, &mut sink).map_err(|halt| {
            let error = match halt {
                Halt::TooLarge(offset) => {
                    TooLarge { offset }.into_fault(self.options.max_event_bytes).into()
                }
                Halt::Broken(broken) => broken.into_fault(Some(self.position)).into(),
                Halt::NoEvent(error) => error,
            };
            error.into_error(events.py(), Some(self.count))
        })
    }
}

/// Where the events of a stream go.
struct Sink<'a, 'py> {
    options: &'a Options,
    count: &'a mut u64,
    events: &'a Bound<'py, PyList>,
    workspace: &'a mut Workspace,
}

impl Sink<'_, '_> {
    /// One event, as JSON that begins at this byte of the stream. What is not contiguous is spread
    /// over several lines, and a fault in it is reported where it begins.
    #[inline]
    fn json(&mut self, document: &[u8], offset: u64, contiguous: bool) -> Result<(), Halt> {
        let py = self.events.py();
        let decoded = decode(py, document, self.options.spelling, self.workspace);
        let Decoded { event, known } = match decoded {
            Ok(decoded) => decoded,
            Err(error) => return self.no_event(error, document, offset, contiguous),
        };
        if known || self.options.on_unknown == OnUnknown::Forward {
            self.events.append(event)?;
        } else {
            self.unknown(&event, offset)?;
        }
        *self.count += 1;
        Ok(())
    }

    /// One event, as a protobuf message that begins at this byte of the stream.
    #[inline]
    fn protobuf(&mut self, message: &[u8], offset: u64) -> Result<(), Halt> {
        let py = self.events.py();
        match proto::decode(py, message, self.options.spelling, &self.options.reporter) {
            Ok(event) => self.events.append(event)?,
            Err(NoEvent::Fault(fault))
                if fault.refused == Refused::Unknown
                    && self.options.on_unknown != OnUnknown::Raise =>
            {
                self.report(py, None)?;
            }
            Err(NoEvent::Fault(mut fault)) => {
                fault.offset = Some(offset + fault.offset.unwrap_or(0));
                return Err(NoEvent::Fault(fault).into());
            }
            Err(error) => return Err(error.into()),
        }
        *self.count += 1;
        Ok(())
    }

    /// What became no event is an error, unless it is the marker that may be passed over.
    #[cold]
    fn no_event(
        &self,
        mut error: NoEvent,
        document: &[u8],
        offset: u64,
        contiguous: bool,
    ) -> Result<(), Halt> {
        if self.options.allow_done && document.trim_ascii() == DONE {
            let deviation = Deviation {
                kind: "done".into(),
                event_type: None,
                path: String::new(),
                detail: "[DONE], which is no event, was passed over".into(),
            };
            return Ok(self.options.reporter.report(self.events.py(), deviation)?);
        }
        if let NoEvent::Fault(fault) = &mut error {
            let inside = fault.offset.filter(|_| contiguous).unwrap_or(0);
            fault.offset = Some(offset + inside);
        }
        Err(error.into())
    }

    #[cold]
    fn unknown(&self, event: &Bound<'_, PyAny>, offset: u64) -> Result<(), NoEvent> {
        let py = event.py();
        let name = event.get_item(intern!(py, "type"))?.extract::<String>()?;
        if self.options.on_unknown == OnUnknown::Raise {
            let mut fault = Fault::new(format!("{name:?} is no event type of this protocol"));
            fault.steps.push(Step::Key("type".into()));
            let offset = Some(offset);
            return Err(DecodeFault { refused: Refused::Unknown, fault, offset }.into());
        }
        Ok(self.report(py, Some(name))?)
    }

    #[cold]
    fn report(&self, py: Python<'_>, event_type: Option<String>) -> PyResult<()> {
        let deviation = Deviation {
            kind: "unknown_event".into(),
            event_type,
            path: String::new(),
            detail: "an event of an unknown type was dropped".into(),
        };
        self.options.reporter.report(py, deviation)
    }
}

/// What stops the reading of a stream.
enum Halt {
    /// This many bytes are allowed; those that begin here are more.
    TooLarge(u64),
    Broken(Broken),
    NoEvent(NoEvent),
}

impl From<TooLarge> for Halt {
    fn from(error: TooLarge) -> Self {
        Self::TooLarge(error.offset)
    }
}

impl From<LineTooLong> for Halt {
    fn from(LineTooLong(offset): LineTooLong) -> Self {
        Self::TooLarge(offset)
    }
}

impl From<Broken> for Halt {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl From<NoEvent> for Halt {
    fn from(error: NoEvent) -> Self {
        Self::NoEvent(error)
    }
}

impl From<PyErr> for Halt {
    fn from(error: PyErr) -> Self {
        Self::NoEvent(error.into())
    }
}

#[pymethods]
impl EventDecoder {
    #[new]
    #[pyo3(
        signature = (content_type=ContentType(SSE.into()), *, as_dict=false,
            max_event_bytes=10_485_760, on_unknown="forward", on_deviation=None, allow_done=false),
        text_signature = "(content_type='text/event-stream', *, as_dict=False, \
            max_event_bytes=10485760, on_unknown='forward', on_deviation=None, allow_done=False)"
    )]
    fn new(
        content_type: ContentType<'_>,
        as_dict: bool,
        max_event_bytes: usize,
        on_unknown: &str,
        on_deviation: Option<Callback>,
        allow_done: bool,
    ) -> PyResult<Self> {
        let ContentType(content_type) = content_type;
        let Some(transport) = Transport::of(&content_type, max_event_bytes) else {
            let reason = format!("no AG-UI stream has the content type {content_type:?}");
            return Err(AGUIError::new_err(reason));
        };
        let options = Options {
            spelling: if as_dict { Form::Dict } else { Form::Model },
            max_event_bytes,
            on_unknown: OnUnknown::named(on_unknown)?,
            reporter: Reporter::new(on_deviation),
            allow_done,
        };
        Ok(Self { transport, options, count: 0, position: 0, failed: None, closed: false })
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
    ///     AGUIError: If the decoder has been closed.
    #[pyo3(signature = (chunk, /))]
    pub fn feed<'py>(
        slf: &Bound<'py, Self>,
        py: Python<'py>,
        chunk: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let mut this = exclusive(slf)?;
        if this.closed {
            return Err(this.closed_error(py));
        }
        with_bytes(chunk, |chunk| {
            this.deliver(py, |decoder, events| {
                decoder.read(events, |transport, position, sink| match transport {
                    Transport::Sse(parser) => parser
                        .feed(chunk, |frame| sink.json(frame.data, frame.offset, frame.contiguous)),
                    Transport::JsonLines(lines) => {
                        lines.feed(chunk, |line, offset| sink.json(line, offset, true))
                    }
                    Transport::Protobuf(frames) => {
                        let mut start = position - frames.held() as u64;
                        let fed = frames.feed(chunk, |message| {
                            let offset = start + proto::PREFIX as u64;
                            start = offset + message.len() as u64;
                            sink.protobuf(message, offset)
                        });
                        fed.map_err(|halt| match halt {
                            Halt::Broken(broken) => {
                                NoEvent::from(broken.into_fault(Some(start))).into()
                            }
                            halt => halt,
                        })
                    }
                })?;
                decoder.position += chunk.len() as u64;
                Ok(())
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
    fn close<'py>(slf: &Bound<'py, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut this = exclusive(slf)?;
        this.deliver(py, |decoder, events| {
            if std::mem::replace(&mut decoder.closed, true) {
                return Ok(());
            }
            decoder.read(events, |transport, position, sink| {
                let truncated = |why: &str| {
                    let reason = format!("the stream ended inside an event{why}");
                    Halt::NoEvent(NoEvent::new(Refused::Truncated, reason, Some(position)))
                };
                let last = match transport {
                    Transport::Sse(parser) => match parser.rest() {
                        Rest::Nothing => return Ok(()),
                        Rest::Fragment => return Err(truncated("")),
                        Rest::Event(frame) => sink.json(frame.data, frame.offset, frame.contiguous),
                    },
                    Transport::JsonLines(lines) => match lines.rest() {
                        None => return Ok(()),
                        Some((line, offset)) => sink.json(line, offset, true),
                    },
                    Transport::Protobuf(frames) => return Ok(frames.close()?),
                };
                last.map_err(|halt| match halt {
                    Halt::NoEvent(NoEvent::Fault(fault)) if fault.refused == Refused::NoJson => {
                        truncated(&format!(": {}", fault.fault.reason))
                    }
                    halt => halt,
                })
            })
        })
    }

    fn __repr__(slf: &Bound<'_, Self>) -> String {
        shown(slf, |this| {
            let state = match (&this.failed, this.closed) {
                (Some(_), _) => " failed",
                (None, true) => " closed",
                (None, false) => "",
            };
            let (content_type, count, bytes) =
                (this.transport.content_type(), this.count, this.position);
            format!("<EventDecoder {content_type} events={count} bytes={bytes}{state}>")
        })
    }

    /// The error that the next call will raise, if reading has failed; else None.
    #[getter]
    pub fn error(slf: &Bound<'_, Self>, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let this = shared(slf)?;
        Ok(this.failed.as_ref().map(|failed| failed.clone_ref(py)))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.options.reporter.traverse(&visit)?;
        visit.call(&self.failed)
    }

    fn __clear__(&mut self) {
        self.options.reporter.clear();
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
///
/// Example:
///     >>> decode_event('{"type":"STEP_STARTED","stepName":"search"}').step_name
///     'search'
///     >>> decode_event(b'{"type":"STEP_STARTED","stepName":"search"}', as_dict=True)
///     {'type': 'STEP_STARTED', 'stepName': 'search'}
#[pyfunction]
#[pyo3(signature = (data, /, *, as_dict=false))]
pub fn decode_event<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    as_dict: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let spelling = if as_dict { Form::Dict } else { Form::Model };
    let mut loan = Loan::default();
    let mut read = |document: &[u8]| decode(py, document, spelling, loan.workspace());
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
                    let fault = DecodeFault { refused: Refused::NoJson, fault, offset: None };
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
