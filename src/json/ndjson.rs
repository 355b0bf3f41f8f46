//! JSON Lines: a document a line. Recordings are kept like that, and logs.

use memchr::memchr;

/// A line is longer than the limit. It begins at this byte of the stream.
#[derive(Debug, PartialEq, Eq)]
pub struct LineTooLong(pub u64);

/// Cuts a stream of bytes into lines, however it comes in pieces. Lines end with LF or CRLF; those
/// that are empty or blank are passed over, and so is a byte order mark at the very beginning, which
/// editors write. A line that lies whole in one piece is not copied.
pub struct Lines {
    limit: usize,
    /// A line that has begun and not ended.
    held: Vec<u8>,
    /// Where it begins.
    start: u64,
}

/// A buffer that has grown beyond this is given back to the allocator after use.
const KEPT_CAPACITY: usize = 1 << 20;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// What a line that begins at `start` says, and where that begins; None for a blank one.
#[inline]
fn document(line: &[u8], start: u64) -> Option<(&[u8], u64)> {
    let (line, start) = match line.strip_prefix(BOM) {
        Some(line) if start == 0 => (line, BOM.len() as u64),
        _ => (line, start),
    };
    let blank = line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
    (!blank).then_some((line, start))
}

impl Lines {
    pub fn new(limit: usize) -> Self {
        Self { limit, held: Vec::new(), start: 0 }
    }

    /// Takes the next bytes, and calls `sink` with every line that they complete and with where it
    /// begins. After an error the stream is not to be read on.
    pub fn feed<E: From<LineTooLong>>(
        &mut self,
        chunk: &[u8],
        mut sink: impl FnMut(&[u8], u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = chunk;
        while let Some(end) = memchr(b'\n', rest) {
            let line = if self.held.is_empty() {
                &rest[..end]
            } else {
                self.hold(&rest[..end])?;
                &self.held
            };
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.len() > self.limit {
                return Err(LineTooLong(self.start).into());
            }
            if let Some((line, start)) = document(line, self.start) {
                sink(line, start)?;
            }
            self.start += self.held.len().max(end) as u64 + 1;
            if self.held.capacity() > KEPT_CAPACITY {
                self.held = Vec::new();
            }
            self.held.clear();
            rest = &rest[end + 1..];
        }
        if !rest.is_empty() {
            self.hold(rest)?;
        }
        Ok(())
    }

    /// What is left at the end of the stream, if anything: a line without its line end.
    pub fn rest(&self) -> Option<(&[u8], u64)> {
        document(&self.held, self.start)
    }

    fn hold(&mut self, part: &[u8]) -> Result<(), LineTooLong> {
        // (One more, for a CR that may turn out to belong to the line end.)
        if self.held.len() + part.len() > self.limit.saturating_add(1) {
            return Err(LineTooLong(self.start));
        }
        self.held.extend_from_slice(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Read = (Vec<(String, u64)>, Option<String>, Option<LineTooLong>);

    fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limit: usize) -> Read {
        let mut lines = Lines::new(limit);
        let mut found = Vec::new();
        let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
        for piece in pieces {
            let fed = lines.feed(piece, |line, start| {
                found.push((text(line), start));
                Ok(())
            });
            if let Err(error) = fed {
                return (found, None, Some(error));
            }
        }
        let rest = lines.rest().map(|(line, start)| format!("{}@{start}", text(line)));
        (found, rest, None)
    }

    #[test]
    fn the_same_however_it_is_cut() {
        let stream = b"{\"a\":1}\n\n[2]\r\n\r\n  \n\"abcdef\"\nrest".as_slice();
        for limit in [1, 2, 3, 4, 7, 8, 100] {
            let whole = read([stream], limit);
            for cut in 0..=stream.len() {
                assert_eq!(read([&stream[..cut], &stream[cut..]], limit), whole, "{limit} {cut}");
            }
            assert_eq!(read(stream.chunks(1), limit), whole, "{limit}");
        }
        let (lines, rest, _) = read([stream], 100);
        let expected = [("{\"a\":1}", 0), ("[2]", 9), ("\"abcdef\"", 19)];
        assert_eq!(lines, expected.map(|(line, start)| (line.to_owned(), start)));
        assert_eq!(rest.as_deref(), Some("rest@28"));
    }

    #[test]
    fn one_byte_order_mark_at_the_beginning_and_blank_lines() {
        let stream = b"\xef\xbb\xbf1\n\xef\xbb\xbf2\n \t\r\n\r\n\x0c\n \r".as_slice();
        for limit in [3, 4, 5, 100] {
            let whole = read([stream], limit);
            for cut in 0..=stream.len() {
                assert_eq!(read([&stream[..cut], &stream[cut..]], limit), whole, "{limit} {cut}");
            }
            assert_eq!(read(stream.chunks(1), limit), whole, "{limit}");
        }
        let expected = [("1", 3), ("\u{feff}2", 5), ("\u{c}", 16)];
        let expected = expected.map(|(line, start)| (line.to_owned(), start)).into();
        assert_eq!(read([stream], 100), (expected, None, None));
        assert_eq!(read([b"\xef\xbb\xbf".as_slice()], 100), (vec![], None, None));
    }

    #[test]
    fn a_line_without_end_is_refused_before_it_is_kept() {
        let (lines, _, error) = read([b"1\n".as_slice(), &[b'x'; 1000]], 10);
        assert_eq!((lines.len(), error), (1, Some(LineTooLong(2))));
    }
}
