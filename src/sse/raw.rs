//! The parser of Server-Sent Events that Python sees, for streams of any kind.

use pyo3::prelude::*;
use pyo3::types::PyString;

use super::parse::{Frame, Parser, Rest, TooLarge};
use crate::errors::{AGUIError, DecodeFault, Refused, exclusive, shown};
use crate::input::with_bytes;

impl TooLarge {
    /// The same as a fault of a stream with this limit.
    #[cold]
    pub fn into_fault(self, limit: usize) -> DecodeFault {
        let reason = format!("more than {limit} bytes (max_event_bytes) in one event or line");
        DecodeFault::new(Refused::TooLarge, reason, Some(self.offset))
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
///
/// Example:
///     >>> ServerSentEvent(data="hello").event
///     'message'
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
    // The name that Python gives it.
    #[allow(non_upper_case_globals)]
    #[classattr]
    const __match_args__: (&'static str, &'static str, &'static str, &'static str) =
        ("event", "data", "id", "retry");

    #[new]
    #[pyo3(signature = (event="message", data="", id="", retry=None))]
    fn new(event: &str, data: &str, id: &str, retry: Option<u64>) -> Self {
        Self { event: event.to_owned(), data: data.to_owned(), id: id.to_owned(), retry }
    }

    /// What pickle makes it from again.
    fn __getnewargs__(&self) -> (&str, &str, &str, Option<u64>) {
        (&self.event, &self.data, &self.id, self.retry)
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
///
/// Example:
///     >>> parser = SSEParser()
///     >>> parser.feed(b"event: tick\ndata: 1\ndata: 2\n\n")
///     [ServerSentEvent(event='tick', data='1\n2', id='', retry=None)]
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
    fn feed(
        slf: &Bound<'_, Self>,
        py: Python<'_>,
        chunk: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<ServerSentEvent>> {
        let mut this = exclusive(slf)?;
        this.check_usable(py)?;
        if this.closed {
            return Err(AGUIError::new_err("the parser is closed"));
        }
        let mut events = Vec::new();
        let fed = with_bytes(chunk, |chunk| {
            Ok(this.parser.feed::<TooLarge>(chunk, |frame| {
                events.push(ServerSentEvent::of(&frame));
                Ok(())
            }))
        })?;
        this.count += events.len() as u64;
        if let Err(TooLarge { offset }) = fed {
            this.failed = Some(offset);
            if events.is_empty() {
                this.check_usable(py)?;
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
    fn close(slf: &Bound<'_, Self>, py: Python<'_>) -> PyResult<Vec<ServerSentEvent>> {
        let mut this = exclusive(slf)?;
        this.check_usable(py)?;
        let closed = std::mem::replace(&mut this.closed, true);
        match this.parser.rest() {
            Rest::Event(_) | Rest::Fragment if !closed => {
                let reason = "the stream ended inside an event";
                let offset = Some(this.parser.position());
                let fault = DecodeFault::new(Refused::Truncated, reason, offset);
                Err(fault.into_error(py, Some(this.count)))
            }
            _ => Ok(Vec::new()),
        }
    }

    fn __repr__(slf: &Bound<'_, Self>) -> String {
        shown(slf, |this| {
            let state = match (this.failed, this.closed) {
                (Some(_), _) => " failed",
                (None, true) => " closed",
                (None, false) => "",
            };
            let (count, bytes) = (this.count, this.parser.position());
            format!("<SSEParser events={count} bytes={bytes}{state}>")
        })
    }
}

impl SSEParser {
    fn check_usable(&self, py: Python<'_>) -> PyResult<()> {
        match self.failed {
            Some(offset) => {
                let fault = TooLarge { offset }.into_fault(self.max_event_bytes);
                Err(fault.into_error(py, Some(self.count)))
            }
            None => Ok(()),
        }
    }
}
