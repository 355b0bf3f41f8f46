//! Frames: messages in a stream, each with its length in front as four bytes, big-endian.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::errors::{DecodeFault, NoEvent, Refused, exclusive, shown};
use crate::input::with_bytes;

/// The bytes of a length.
pub const PREFIX: usize = 4;

/// Why a stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A frame announces more bytes than the limit. Nothing of it was kept.
    TooLarge { len: usize, max: usize },
    /// The stream ended inside a length.
    InLength { got: usize },
    /// The stream ended inside a message.
    InMessage { got: usize, of: usize },
}

impl Broken {
    /// The same as a fault at this byte of the stream.
    #[cold]
    pub fn into_fault(self, offset: Option<u64>) -> DecodeFault {
        let (refused, reason) = match self {
            Self::TooLarge { len, max } => {
                (Refused::TooLarge, format!("a frame of {len} bytes; the limit is {max} bytes"))
            }
            Self::InLength { got } => (
                Refused::Truncated,
                format!(
                    "the stream ended inside the length of a frame, after {got} of {PREFIX} bytes"
                ),
            ),
            Self::InMessage { got, of } => (
                Refused::Truncated,
                format!("the stream ended inside a frame, after {got} of {of} bytes"),
            ),
        };
        DecodeFault::new(refused, reason, offset)
    }
}

impl From<Broken> for NoEvent {
    fn from(broken: Broken) -> Self {
        broken.into_fault(None).into()
    }
}

/// Cuts a stream of bytes into messages, however it comes in pieces.
///
/// Work grows with the bytes fed: a message that is whole in one piece is handed on where it
/// lies, of any other each byte is copied once. Memory grows with the bytes that have come, not
/// with the length that a frame announces.
pub struct Frames {
    max: usize,
    /// A frame that has begun and not ended, its length included.
    held: Vec<u8>,
    broken: Option<Broken>,
}

impl Frames {
    pub fn new(max: usize) -> Self {
        Self { max, held: Vec::new(), broken: None }
    }

    /// How many bytes of a frame that has begun are kept.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Takes the next bytes of the stream and hands on every message that is now whole. After a
    /// frame that is too long, or an error of `each`, the stream is broken for good.
    pub fn feed<E: From<Broken>>(
        &mut self,
        mut chunk: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        loop {
            if let Some(broken) = self.broken {
                return Err(broken.into());
            }
            if self.held.is_empty() {
                match self.end(chunk)? {
                    Some(end) if end <= chunk.len() => {
                        each(&chunk[PREFIX..end])?;
                        chunk = &chunk[end..];
                    }
                    _ => {
                        self.held.extend_from_slice(chunk);
                        return Ok(());
                    }
                }
            } else {
                let end = self.held_end()?.unwrap_or(PREFIX);
                let (here, rest) = chunk.split_at(chunk.len().min(end - self.held.len()));
                self.held.extend_from_slice(here);
                chunk = rest;
                match self.held_end()? {
                    Some(end) if end == self.held.len() => {
                        each(&self.held[PREFIX..])?;
                        // Not cleared: a buffer as long as the longest frame is not to be kept.
                        self.held = Vec::new();
                    }
                    _ if chunk.is_empty() => return Ok(()),
                    _ => {}
                }
            }
        }
    }

    /// The end of the stream.
    pub fn close(&mut self) -> Result<(), Broken> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        let got = self.held.len();
        match self.held_end()? {
            _ if got == 0 => Ok(()),
            None => Err(Broken::InLength { got }),
            Some(end) => Err(Broken::InMessage { got: got - PREFIX, of: end - PREFIX }),
        }
    }

    fn held_end(&mut self) -> Result<Option<usize>, Broken> {
        let held = std::mem::take(&mut self.held);
        let end = self.end(&held);
        if end.is_ok() {
            self.held = held;
        }
        end
    }

    /// Where the frame ends that begins here, if its length is there.
    fn end(&mut self, frame: &[u8]) -> Result<Option<usize>, Broken> {
        let Some(prefix) = frame.first_chunk::<PREFIX>() else { return Ok(None) };
        let len = u32::from_be_bytes(*prefix) as usize;
        if len > self.max {
            let broken = Broken::TooLarge { len, max: self.max };
            self.broken = Some(broken);
            return Err(broken);
        }
        Ok(Some(PREFIX + len))
    }
}

/// Cuts a stream of bytes into the messages of its frames.
///
/// Args:
///     max_frame_bytes: The longest message that is accepted, in bytes.
///
/// A frame is a message with its length in front as four bytes, big-endian. The stream may come
/// in any pieces. After an error the reader cannot be used on: where the next frame would begin is
/// not known.
///
/// Example:
///     >>> from agui_codec import proto
///     >>> message = proto.encode({"type": "STEP_STARTED", "stepName": "a"})
///     >>> frame = len(message).to_bytes(4, "big") + message
///     >>> proto.FrameReader().feed(frame) == [message]
///     True
#[pyclass(module = "agui_codec.proto")]
pub struct FrameReader {
    frames: Frames,
}

#[pymethods]
impl FrameReader {
    #[new]
    #[pyo3(signature = (max_frame_bytes=10_485_760))]
    fn new(max_frame_bytes: usize) -> Self {
        Self { frames: Frames::new(max_frame_bytes) }
    }

    /// Takes the next bytes of the stream.
    ///
    /// Args:
    ///     chunk: A ``bytes``, ``bytearray`` or ``memoryview``, of any length.
    ///
    /// Returns:
    ///     The messages that are now whole, each as ``bytes`` without its length.
    ///
    /// Raises:
    ///     FrameTooLargeError: If a frame announces more than ``max_frame_bytes``. It is raised as
    ///         soon as the length is read, before anything of the frame is kept; messages before
    ///         it are returned first, and the next call raises.
    #[pyo3(signature = (chunk))]
    fn feed<'py>(
        slf: &Bound<'py, Self>,
        chunk: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        let mut this = exclusive(slf)?;
        let py = chunk.py();
        let messages = PyList::empty(py);
        with_bytes(chunk, |chunk| {
            let fed = this.frames.feed(chunk, |message| {
                Ok::<_, NoEvent>(messages.append(PyBytes::new(py, message))?)
            });
            match fed {
                Err(NoEvent::Fault(_)) if !messages.is_empty() => Ok(()),
                fed => fed.map_err(|error| error.into_error(py, None)),
            }
        })?;
        Ok(messages)
    }

    /// Says that the stream has ended.
    ///
    /// Returns:
    ///     An empty list: a message that is whole was returned when it was.
    ///
    /// Raises:
    ///     TruncatedStreamError: If the stream ended inside a frame. It says how many bytes of the
    ///         frame had come.
    ///     FrameTooLargeError: If a frame was too long and no call has said so yet.
    fn close<'py>(slf: &Bound<'py, Self>, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut this = exclusive(slf)?;
        this.frames.close().map_err(|broken| broken.into_fault(None).into_error(py, None))?;
        Ok(PyList::empty(py))
    }

    fn __repr__(slf: &Bound<'_, Self>) -> String {
        shown(slf, |this| {
            let Frames { max, held, broken } = &this.frames;
            let state = if broken.is_some() { " failed" } else { "" };
            let held = held.len();
            format!("<FrameReader held={held} max_frame_bytes={max}{state}>")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(message: &[u8]) -> Vec<u8> {
        [&u32::try_from(message.len()).unwrap().to_be_bytes()[..], message].concat()
    }

    fn read(pieces: &[&[u8]], max: usize) -> (Vec<Vec<u8>>, Result<(), Broken>) {
        let mut frames = Frames::new(max);
        let mut messages = Vec::new();
        for piece in pieces {
            if let Err(broken) = frames.feed(piece, |message| {
                messages.push(message.to_vec());
                Ok(())
            }) {
                return (messages, Err(broken));
            }
        }
        (messages, frames.close())
    }

    #[test]
    fn any_two_cuts() {
        let expected: Vec<Vec<u8>> = vec![b"one".into(), vec![], vec![7; 300], b"end".into()];
        let stream: Vec<u8> = expected.iter().flat_map(|message| frame(message)).collect();
        for first in 0..=stream.len() {
            for second in (first..=stream.len()).step_by(7) {
                let pieces = [&stream[..first], &stream[first..second], &stream[second..]];
                assert_eq!(read(&pieces, 300), (expected.clone(), Ok(())), "{first} {second}");
            }
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(read(&bytes, 300), (expected, Ok(())));
    }

    #[test]
    fn tails_are_counted() {
        let stream = frame(b"hello");
        for end in 1..stream.len() {
            let expected = match end {
                1..4 => Broken::InLength { got: end },
                _ => Broken::InMessage { got: end - 4, of: 5 },
            };
            assert_eq!(read(&[&stream[..end]], 10), (vec![], Err(expected)));
        }
    }

    #[test]
    fn too_long_is_seen_at_once_and_keeps_nothing() {
        let stream = [frame(b"fine"), vec![0xff; 4], vec![1; 1000]].concat();
        let broken = Broken::TooLarge { len: 0xffff_ffff, max: 4 };
        assert_eq!(read(&[&stream], 4), (vec![b"fine".to_vec()], Err(broken)));
        for piece in 1..9 {
            let pieces: Vec<&[u8]> = stream.chunks(piece).collect();
            assert_eq!(read(&pieces, 4), (vec![b"fine".to_vec()], Err(broken)));
        }
        let mut frames = Frames::new(4);
        assert_eq!(frames.feed(&[0, 0, 0], |_| Ok::<_, Broken>(())), Ok(()));
        assert!(frames.feed(&[9, 1, 2, 3], |_| Ok::<_, Broken>(())).is_err());
        assert!(frames.held.is_empty());
        assert!(frames.feed(&frame(b"ok"), |_| Ok::<_, Broken>(())).is_err());
        assert!(frames.close().is_err());
    }
}
