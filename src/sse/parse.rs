//! Reading `text/event-stream`, in whatever pieces it comes: section 9.2.6, "Interpreting an event
//! stream", of the WHATWG HTML standard (<https://html.spec.whatwg.org/#event-stream-interpretation>).
//!
//! Every byte is looked at once, however the stream is cut. An event whose only `data` line lies
//! whole in one chunk, with the blank line behind it, is handed out as a part of that chunk, without
//! a copy. What a chunk leaves unfinished is kept: of a line the value alone (and that only where it
//! counts), so that a comment of any length costs nothing.

use memchr::memchr2;

/// An event, as the stream spells it: bytes, which nobody has checked to be UTF-8.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The values of the `data` lines, joined with LF.
    pub data: &'a [u8],
    /// The value of the last `event` line; empty for none.
    pub event: &'a [u8],
    /// The value of the last `id` line in the stream so far; empty for none.
    pub id: &'a [u8],
    /// The value of the last `retry` line since the event before this one, in milliseconds.
    pub retry: Option<u64>,
    /// Where in the stream the value of the first `data` line begins.
    pub offset: u64,
    /// Whether `data` is one line, and so stands in the stream as it is here.
    pub contiguous: bool,
}

/// What a stream that has ended leaves behind. The standard discards it.
#[derive(Debug, PartialEq, Eq)]
pub enum Rest<'a> {
    Nothing,
    /// An event with data, whose blank line is missing and whose last line may be cut.
    Event(Frame<'a>),
    /// The beginning of a `data` line, whose value has not come.
    Fragment,
}

/// A line, or the data of an event, is longer than the limit.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// Where in the stream the line or the event's data begin.
    pub offset: u64,
}

/// A buffer that has grown beyond this is given back to the allocator after use.
const KEPT_CAPACITY: usize = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Data,
    Event,
    Id,
    Retry,
    /// A comment (its name is empty) or a field that the standard does not know.
    Ignored,
}

impl Field {
    const LONGEST_NAME: usize = b"event".len();

    /// Names are compared byte for byte: `DATA` is an unknown field.
    fn named(name: &[u8]) -> Self {
        match name {
            b"data" => Self::Data,
            b"event" => Self::Event,
            b"id" => Self::Id,
            b"retry" => Self::Retry,
            _ => Self::Ignored,
        }
    }
}

/// The part of a line that earlier chunks have brought.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Partial {
    /// Nothing: the next byte begins a line.
    None,
    /// Bytes in [`Parser::head`], without a colon so far.
    Head,
    /// The name and the colon are behind. `fresh`: no byte of the value is, so that one space may
    /// still come that does not belong to it.
    Value { field: Field, fresh: bool },
}

/// The state of a stream between two chunks.
pub struct Parser {
    /// How long a line without data, or the data of one event, may be.
    limit: usize,
    /// How much of a byte order mark has been seen; [`BOM`]'s length means that the time is over.
    bom: usize,
    /// The last line ended with CR: an LF that comes next belongs to it.
    after_cr: bool,
    partial: Partial,
    head: Vec<u8>,
    /// How many bytes of the unfinished line have been seen.
    line_len: usize,
    /// The data so far, and whether there was a line of it: an empty one counts.
    data: Vec<u8>,
    data_lines: usize,
    data_offset: u64,
    event: Vec<u8>,
    id: Vec<u8>,
    /// The value of an unfinished `event`, `id` or `retry` line.
    value: Vec<u8>,
    retry: Option<u64>,
    /// How many bytes the stream had before the chunk at hand.
    position: u64,
}

const BOM: [u8; 3] = [0xef, 0xbb, 0xbf];

impl Parser {
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            bom: 0,
            after_cr: false,
            partial: Partial::None,
            head: Vec::new(),
            line_len: 0,
            data: Vec::new(),
            data_lines: 0,
            data_offset: 0,
            event: Vec::new(),
            id: Vec::new(),
            value: Vec::new(),
            retry: None,
            position: 0,
        }
    }

    /// How many bytes have been fed.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Takes the next bytes of the stream, and calls `sink` with every event that they complete.
    /// After an error, be it of the sink, the parser is not to be fed again.
    pub fn feed<E: From<TooLarge>>(
        &mut self,
        chunk: &[u8],
        mut sink: impl FnMut(Frame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut at = self.skip_bom(chunk)?;
        // The event's data, where it is one line that stands whole in this chunk.
        let mut single: Option<(usize, usize)> = None;
        while let Some(&first) = chunk.get(at) {
            if self.after_cr {
                self.after_cr = false;
                if first == b'\n' {
                    at += 1;
                    continue;
                }
            }
            // The blank line, without the cost of a search.
            let end = match first {
                b'\n' | b'\r' => Some(at),
                _ => memchr2(b'\n', b'\r', &chunk[at..]).map(|found| at + found),
            };
            let Some(end) = end else { break };
            if end == at && self.partial == Partial::None {
                if self.data_lines > 0 {
                    sink(self.frame(single.map(|(start, end)| &chunk[start..end])))?;
                    self.retry = None;
                }
                single = None;
                self.reset_event();
            } else if self.partial != Partial::None {
                self.take(&chunk[at..end], at)?;
                self.end_line(end)?;
            } else if chunk[at..end].starts_with(b"data:") {
                let start = at + 5 + usize::from(chunk[at + 5] == b' ');
                if let Some((start, end)) = single.take() {
                    self.data.extend_from_slice(&chunk[start..end]);
                }
                self.begin_data(start)?;
                if self.data_lines == 1 {
                    self.check(self.data_offset, end - start)?;
                    single = Some((start, end));
                } else {
                    self.push_data(&chunk[start..end])?;
                }
            } else {
                if &chunk[at..end] == b"data"
                    && let Some((start, end)) = single.take()
                {
                    self.data.extend_from_slice(&chunk[start..end]);
                }
                self.take(&chunk[at..end], at)?;
                self.end_line(end)?;
            }
            self.after_cr = chunk[end] == b'\r';
            at = end + 1;
        }
        if let Some((start, end)) = single {
            self.data.extend_from_slice(&chunk[start..end]);
        }
        if at < chunk.len() {
            self.take(&chunk[at..], at)?;
        }
        self.position += chunk.len() as u64;
        Ok(())
    }

    /// What is left at the end of the stream. Lines without `data` make no event, so `event` and `id`
    /// lines alone leave nothing, also where the last one is cut.
    pub fn rest(&self) -> Rest<'_> {
        let begun = match self.partial {
            Partial::None => (1..BOM.len()).contains(&self.bom),
            Partial::Head => b"data".starts_with(&self.head),
            Partial::Value { field, .. } => field == Field::Data,
        };
        if self.data_lines > 0 {
            Rest::Event(self.frame(None))
        } else if begun {
            Rest::Fragment
        } else {
            Rest::Nothing
        }
    }

    /// Passes over the byte order mark, of which a stream may have one, at its very beginning.
    #[inline]
    fn skip_bom(&mut self, chunk: &[u8]) -> Result<usize, TooLarge> {
        let mut at = 0;
        while self.bom < BOM.len() && at < chunk.len() {
            if chunk[at] == BOM[self.bom] {
                self.bom += 1;
                at += 1;
            } else {
                // What looked like one begins a line; a part of it may have come earlier.
                let earlier = self.bom - at;
                self.bom = BOM.len();
                let position = std::mem::take(&mut self.position);
                if earlier > 0 {
                    self.take(&BOM[..earlier], 0)?;
                }
                self.position = position;
                return Ok(0);
            }
        }
        Ok(at)
    }

    #[inline]
    fn frame<'a>(&'a self, single: Option<&'a [u8]>) -> Frame<'a> {
        Frame {
            data: single.unwrap_or(&self.data),
            event: &self.event,
            id: &self.id,
            retry: self.retry,
            offset: self.data_offset,
            contiguous: self.data_lines == 1,
        }
    }

    #[inline]
    fn reset_event(&mut self) {
        self.data_lines = 0;
        if self.data.capacity() > KEPT_CAPACITY {
            self.data = Vec::new();
        }
        self.data.clear();
        self.event.clear();
    }

    /// A line of data begins, whose value is at `at` in the chunk.
    #[inline]
    fn begin_data(&mut self, at: usize) -> Result<(), TooLarge> {
        if self.data_lines == 0 {
            self.data_offset = self.position + at as u64;
        } else {
            self.check(self.data_offset, self.data.len() + 1)?;
            self.data.push(b'\n');
        }
        self.data_lines += 1;
        Ok(())
    }

    fn push_data(&mut self, value: &[u8]) -> Result<(), TooLarge> {
        self.check(self.data_offset, self.data.len() + value.len())?;
        self.data.extend_from_slice(value);
        Ok(())
    }

    #[inline]
    fn check(&self, offset: u64, len: usize) -> Result<(), TooLarge> {
        if len > self.limit { Err(TooLarge { offset }) } else { Ok(()) }
    }

    /// Takes a part of a line, which stands at `at` in the chunk and holds no line end.
    fn take(&mut self, mut part: &[u8], mut at: usize) -> Result<(), TooLarge> {
        let line_start = (self.position + at as u64).wrapping_sub(self.line_len as u64);
        self.line_len += part.len();
        if self.partial == Partial::None {
            self.partial = Partial::Head;
        }
        if self.partial == Partial::Head {
            let room = Field::LONGEST_NAME + 1 - self.head.len();
            let window = &part[..part.len().min(room)];
            let colon = window.iter().position(|&byte| byte == b':');
            let field = match colon {
                Some(colon) => {
                    self.head.extend_from_slice(&part[..colon]);
                    Field::named(&self.head)
                }
                // Longer than any name that means something.
                None if part.len() >= room => Field::Ignored,
                None => {
                    // Too short for a limit to matter.
                    self.head.extend_from_slice(part);
                    return Ok(());
                }
            };
            let passed = colon.map_or(part.len(), |colon| colon + 1);
            self.head.clear();
            part = &part[passed..];
            at += passed;
            self.partial = Partial::Value { field, fresh: true };
        }
        let Partial::Value { field, fresh } = &mut self.partial else { return Ok(()) };
        let field = *field;
        let begins = *fresh && !part.is_empty();
        if begins {
            *fresh = false;
            if part[0] == b' ' {
                part = &part[1..];
                at += 1;
            }
        }
        match field {
            Field::Data => {
                if begins {
                    self.begin_data(at)?;
                }
                self.push_data(part)
            }
            Field::Ignored => self.check(line_start, self.line_len),
            Field::Event | Field::Id | Field::Retry => {
                self.check(line_start, self.line_len)?;
                self.value.extend_from_slice(part);
                Ok(())
            }
        }
    }

    /// The line that was taken ends at `at` in the chunk.
    fn end_line(&mut self, at: usize) -> Result<(), TooLarge> {
        self.line_len = 0;
        let (field, fresh) = match std::mem::replace(&mut self.partial, Partial::None) {
            Partial::None => return Ok(()),
            // A name alone is a field with an empty value.
            Partial::Head => (Field::named(&self.head), true),
            Partial::Value { field, fresh } => (field, fresh),
        };
        self.head.clear();
        match field {
            Field::Data if fresh => self.begin_data(at)?,
            Field::Data | Field::Ignored => {}
            Field::Event => self.event.clone_from(&self.value),
            Field::Id if self.value.contains(&0) => {}
            Field::Id => self.id.clone_from(&self.value),
            Field::Retry => {
                // Digits alone; more than fit are more than anyone would wait.
                if !self.value.is_empty() && self.value.iter().all(u8::is_ascii_digit) {
                    let digits = std::str::from_utf8(&self.value).unwrap_or_default();
                    self.retry = Some(digits.parse().unwrap_or(u64::MAX));
                }
            }
        }
        self.value.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame that owns what it says: data, event, id, retry, offset.
    type Owned = (String, String, String, Option<u64>, u64);

    #[derive(Debug, PartialEq)]
    struct Outcome {
        frames: Vec<Owned>,
        error: Option<TooLarge>,
        rest: String,
    }

    fn owned(frame: &Frame<'_>) -> Owned {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        (text(frame.data), text(frame.event), text(frame.id), frame.retry, frame.offset)
    }

    fn parse<'a>(chunks: impl IntoIterator<Item = &'a [u8]>, limit: usize) -> Outcome {
        let mut parser = Parser::new(limit);
        let mut frames = Vec::new();
        for chunk in chunks {
            let fed = parser.feed(chunk, |frame| {
                frames.push(owned(&frame));
                Ok(())
            });
            if let Err(error) = fed {
                return Outcome { frames, error: Some(error), rest: String::new() };
            }
        }
        let rest = match parser.rest() {
            Rest::Event(frame) => format!("{:?}", owned(&frame)),
            other => format!("{other:?}"),
        };
        Outcome { frames, error: None, rest }
    }

    fn data(stream: &[u8]) -> Vec<String> {
        parse([stream], 1000).frames.into_iter().map(|frame| frame.0).collect()
    }

    /// The oracle: the standard's algorithm, a line at a time over the whole.
    fn standard(stream: &[u8]) -> Vec<(String, String, String, Option<u64>)> {
        let text = String::from_utf8(stream.to_vec()).unwrap();
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let (mut data, mut event, mut id, mut retry) =
            (String::new(), String::new(), String::new(), None);
        let mut frames = Vec::new();
        let lines: Vec<&str> = text.split('\n').collect();
        for line in &lines[..lines.len() - 1] {
            if line.is_empty() {
                if !data.is_empty() {
                    data.pop();
                    frames.push((data, event, id.clone(), retry.take()));
                }
                (data, event) = (String::new(), String::new());
                continue;
            }
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match name {
                "data" => data.extend([value, "\n"]),
                "event" => event = value.into(),
                "id" if !value.contains('\0') => id = value.into(),
                "retry" if value.bytes().all(|b| b.is_ascii_digit()) => {
                    retry = value.parse().ok().or(retry);
                }
                _ => {}
            }
        }
        frames
    }

    const STREAMS: &[&str] = &[
        "data: {\"a\":1}\n\ndata: {\"b\":2}\n\n",
        "data: a\r\n\r\ndata: b\r\n\r\n",
        "data: a\r\rdata: b\r\r",
        "data: a\r\n\rdata: b\r\r\n\r\ndata: c\n\r",
        "\u{feff}data: a\n\n\u{feff}data: b\n\ndata: \u{feff}c\n\n",
        "\u{feff}\u{feff}data: a\n\ndata: b\n\n",
        ":\n\n: ka\n\ndata: 1\n: mid\ndata: 2\n:\n\n: after\n",
        "data:{}\ndata: {}\ndata:  x\ndata\nDATA: x\n data: x\ndata :x\n\n",
        "data\n\ndata\ndata\n\ndata:\n\ndata: \n\n",
        "event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\nevent\ndata: 113411\n\n",
        ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
        "id: 7\0\nid: 8\n\nretry: 100\nretry: 2x\nretry:\n\ndata: a\n\ndata: b\nid: 9\nretry: 5\n\n",
        "data: YHOO\ndata: +2\ndata: 10\n\n",
        "data: ç š 漢 😀 👩\u{200d}👧\n\nevent: ç\ndata: x\u{2028}y\u{85}z\u{b}\u{c}\n\n",
        "id: a\n\nevent: lost\n\ndata: kept\n\ndata: unfinished\ndata: too",
        "datum: 1\nda: 2\neventful: 3\nretrying: 4\ndata: 5\n\nd",
        "data: cut\n\nevent: next\n",
        "data: cut\n\nid: next",
        "\n\r\n\n\r\r\ndata\r\n\ndat",
    ];

    #[test]
    fn as_the_standard_reads() {
        for stream in STREAMS {
            let frames: Vec<_> = parse([stream.as_bytes()], 1000)
                .frames
                .into_iter()
                .map(|(data, event, id, retry, _)| (data, event, id, retry))
                .collect();
            assert_eq!(frames, standard(stream.as_bytes()), "{stream:?}");
        }
    }

    #[test]
    fn the_same_however_it_is_cut() {
        let mut random = 1u64;
        for stream in STREAMS.iter().map(|stream| stream.as_bytes()) {
            for limit in [0, 1, 2, 3, 5, 8, 12, 1000] {
                let whole = parse([stream], limit);
                for cut in 0..=stream.len() {
                    assert_eq!(
                        parse([&stream[..cut], &stream[cut..]], limit),
                        whole,
                        "cut at {cut}"
                    );
                }
                assert_eq!(parse(stream.chunks(1), limit), whole, "in single bytes");
                for _ in 0..50 {
                    let mut pieces = Vec::new();
                    let mut left = stream;
                    while !left.is_empty() {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let (piece, others) =
                            left.split_at((random >> 40) as usize % 9 % (left.len() + 1));
                        pieces.push(piece);
                        left = others;
                    }
                    assert_eq!(parse(pieces, limit), whole);
                }
            }
        }
    }

    #[test]
    fn dispatched_at_the_blank_line() {
        for end in ["\n\n", "\r\r", "\r\n\r", "\n\r"] {
            assert_eq!(data(format!("data: a{end}").as_bytes()), ["a"], "{end:?}");
        }
        assert_eq!(data(b"data: a\r\n"), [""; 0]);
    }

    #[test]
    fn a_whole_line_is_not_copied() {
        let chunk = b"id: 1\ndata: abc\nevent: e\n\n";
        let fed = Parser::new(1000).feed::<TooLarge>(chunk, |frame| {
            assert_eq!(frame.data.as_ptr(), chunk[12..].as_ptr());
            assert_eq!((frame.offset, frame.contiguous), (12, true));
            Ok(())
        });
        assert_eq!(fed, Ok(()));
    }

    #[test]
    fn the_end_of_the_stream() {
        let rest = |stream: &str| parse([stream.as_bytes()], 1000).rest;
        for nothing in [
            "",
            "\u{feff}",
            "data: a\n\n",
            ": ping",
            "id: 1\n",
            "retry: 1",
            "x: y\n",
            ": a\n\r",
            "event: x",
            "event: x\n",
            "event: x\nid: 1\n",
            "event: x\r\n: c",
            "id",
            "i",
            "event",
            "e",
            "datum",
            "x",
            "data: a\n\nevent: end\n",
            "event: x\nid: 1",
        ] {
            assert_eq!(rest(nothing), "Nothing", "{nothing:?}");
        }
        for fragment in ["d", "data", "data:", "event: x\nd", "event: x\ndata:"] {
            assert_eq!(rest(fragment), "Fragment", "{fragment:?}");
        }
        assert!(rest("data: ").contains("\"\""));
        assert!(rest("data\n").contains("\"\""));
        assert!(rest("data: a\ndata: b\n: c").contains("a\\nb"));
    }

    #[test]
    fn limits() {
        let error = |stream: &[u8]| parse([stream], 10).error.map(|error| error.offset);
        // As long as allowed.
        assert_eq!(error(b"data: 0123456789\n\ndata:0123456789\n\n"), None);
        assert_eq!(error(b"data: 01234\ndata: 6789\n\n"), None);
        // A line that does not end, of each kind.
        assert_eq!(error(b"data: 0123456789a"), Some(6));
        assert_eq!(error(b"0123456789a"), Some(0));
        assert_eq!(error(b"\n: 3456789ab"), Some(1));
        assert_eq!(error(b"\nid: 56789ab"), Some(1));
        // Lines of data that do not end.
        assert_eq!(error(&b"data:\n".repeat(13)), Some(5));
        assert_eq!(error(&b"data\n".repeat(13)), Some(4));
        assert_eq!(error(&b"data: x\n".repeat(6)), Some(6));
        // Many small events in one chunk are no large event.
        assert_eq!(parse([b"data: x\n\n".repeat(1000).as_slice()], 10).frames.len(), 1000);
    }

    #[test]
    fn memory_is_bounded() {
        let mut parser = Parser::new(1000);
        let piece = [b'x'; 64];
        let mut fed = 0;
        while parser.feed::<TooLarge>(&piece, |_| Ok(())).is_ok() {
            fed += piece.len();
        }
        assert!(fed <= 1000);
        assert!(parser.head.capacity() + parser.value.capacity() + parser.data.capacity() < 4000);
        // One chunk beyond the limit is not copied at all.
        let mut parser = Parser::new(1000);
        let chunk = [b"data: ".as_slice(), &b"x".repeat(100_000)].concat();
        assert!(parser.feed::<TooLarge>(&chunk, |_| Ok(())).is_err());
        assert_eq!(parser.data.capacity(), 0);
    }

    #[test]
    fn large_buffers_are_given_back() {
        let mut parser = Parser::new(10 << 20);
        for piece in [b"data: ".as_slice(), &vec![b'x'; 3 << 20], b"\n\n"] {
            assert_eq!(parser.feed::<TooLarge>(piece, |_| Ok(())), Ok(()));
        }
        assert!(parser.data.capacity() <= KEPT_CAPACITY);
    }
}
