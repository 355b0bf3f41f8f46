//! A message in the making, read from its source once.
//!
//! Protobuf writes the length of a nested message before it, and the length is known only behind
//! it. Room is kept for a length of one byte. A message that turns out to be longer is moved up by
//! the byte or two that are missing, if it is still short; in front of a long one its length stays
//! missing, and is put in when the size of the whole is known and the final bytes are written. So no
//! byte is moved more often than short messages nest in one another.

use super::wire::{WireType, varint_len, write_varint};

/// A nested message that is open, or whose length is missing from the contents.
#[derive(Clone, Copy)]
struct Gap {
    /// Where in the contents its length belongs.
    at: usize,
    /// The length. While the message is open: `Gather::missing` as it was before.
    len: usize,
    /// 0, or the tag of the one field of the message, which is a message itself: then both lengths
    /// belong here, with the tag between them, and `len` is the inner one.
    within: u8,
}

/// A message up to this length is moved.
const SHORT: usize = 1024;

/// What has been gathered.
pub struct Gather {
    /// The contents, and room for more behind them: what is written next costs one look at how
    /// much there is, however many pieces it has.
    buffer: Vec<u8>,
    /// Where the contents end.
    end: usize,
    gaps: Vec<Gap>,
    /// How many bytes the lengths that are missing take beyond the room that was kept.
    missing: usize,
}

impl Default for Gather {
    fn default() -> Self {
        Self::new()
    }
}

/// A message that was opened and is to be closed.
#[must_use]
pub struct Open(usize);

/// A state to go back to.
pub struct Point {
    end: usize,
    gaps: usize,
    missing: usize,
}

impl Gather {
    pub const fn new() -> Self {
        Self { buffer: Vec::new(), end: 0, gaps: Vec::new(), missing: 0 }
    }

    pub fn clear(&mut self) {
        self.end = 0;
        self.gaps.clear();
        self.missing = 0;
    }

    /// What the buffers hold on to.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity() + self.gaps.capacity() * size_of::<Gap>()
    }

    /// The place of the next so many bytes, for the caller to fill.
    #[inline]
    pub fn room(&mut self, len: usize) -> &mut [u8] {
        let start = self.end;
        self.end += len;
        if self.end > self.buffer.len() {
            self.grow();
        }
        &mut self.buffer[start..self.end]
    }

    #[cold]
    fn grow(&mut self) {
        self.buffer.resize((2 * self.end).max(256), 0);
    }

    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
    }

    #[inline]
    pub fn tag(&mut self, number: u32, wire_type: WireType) {
        self.varint(u64::from(number << 3 | wire_type as u32));
    }

    #[inline]
    pub fn varint(&mut self, value: u64) {
        write_varint(self.room(varint_len(value)), value);
    }

    /// The tag of a string, or of a message that is known whole, and its length.
    #[inline]
    pub fn header(&mut self, number: u32, len: usize) {
        if number < 16 && len < 0x80 {
            // Nearly always one byte each.
            let tag = (number << 3 | WireType::Len as u32) as u8;
            self.raw(&[tag, len as u8]);
        } else {
            self.tag(number, WireType::Len);
            self.varint(len as u64);
        }
    }

    /// Begins a nested message, after its tag.
    #[inline]
    pub fn open(&mut self) -> Open {
        self.open_within(0)
    }

    /// Begins a nested message, after its tag, and in it the one field that it has, a message with
    /// this tag.
    #[inline]
    pub fn open_within(&mut self, within: u8) -> Open {
        let gap = Gap { at: self.end, len: self.missing, within };
        self.room(gap.kept());
        self.gaps.push(gap);
        Open(self.gaps.len() - 1)
    }

    /// Ends the message that was opened last.
    #[inline]
    pub fn close(&mut self, Open(index): Open) {
        let mut gap = self.gaps[index];
        let start = gap.at + gap.kept();
        gap.len = self.end - start + self.missing - gap.len;
        if gap.len + 2 >= 0x80 {
            return self.close_longer(index, gap);
        }
        self.gaps.truncate(index);
        let len = gap.len as u8;
        match &mut self.buffer[gap.at..start] {
            [outer, tag, inner] => (*outer, *tag, *inner) = (len + 2, gap.within, len),
            kept => kept[0] = len,
        }
    }

    #[inline(never)]
    fn close_longer(&mut self, index: usize, gap: Gap) {
        let more = gap.taken() - gap.kept();
        if gap.len > SHORT {
            self.gaps[index] = gap;
            self.missing += more;
            return;
        }
        // Nothing is missing in a message that is short itself: this gap is the last one.
        self.gaps.truncate(index);
        let (start, end) = (gap.at + gap.kept(), self.end);
        self.room(more);
        self.buffer.copy_within(start..end, start + more);
        gap.write(&mut self.buffer[gap.at..]);
    }

    pub fn point(&self) -> Point {
        Point { end: self.end, gaps: self.gaps.len(), missing: self.missing }
    }

    /// Whether exactly these bytes were gathered since the point.
    pub fn is_since(&self, point: &Point, bytes: &[u8]) -> bool {
        self.gaps.len() == point.gaps && &self.buffer[point.end..self.end] == bytes
    }

    /// Forgets what was gathered since the point, all of it closed.
    pub fn back_to(&mut self, point: &Point) {
        self.end = point.end;
        self.gaps.truncate(point.gaps);
        self.missing = point.missing;
    }

    /// The size of the whole, all messages being closed.
    #[inline]
    pub fn len(&self) -> usize {
        self.end + self.missing
    }

    /// Writes the whole into a place of exactly its size.
    pub fn write(&self, mut out: &mut [u8]) {
        let mut from = 0;
        for gap in &self.gaps {
            let (here, rest) = out.split_at_mut(gap.at - from);
            here.copy_from_slice(&self.buffer[from..gap.at]);
            from = gap.at + gap.kept();
            out = gap.write(rest);
        }
        out.copy_from_slice(&self.buffer[from..self.end]);
    }
}

impl Gap {
    /// The room that is kept for what belongs here.
    #[inline]
    fn kept(self) -> usize {
        if self.within == 0 { 1 } else { 3 }
    }

    /// The room that it takes, now that `len` is the length.
    #[inline]
    fn taken(self) -> usize {
        let inner = varint_len(self.len as u64);
        if self.within == 0 {
            return inner;
        }
        varint_len(self.outer()) + 1 + inner
    }

    #[inline]
    fn outer(self) -> u64 {
        (1 + varint_len(self.len as u64) + self.len) as u64
    }

    /// Writes what belongs here, and gives back what is behind it.
    #[inline]
    fn write(self, mut out: &mut [u8]) -> &mut [u8] {
        if self.within != 0 {
            let (len, rest) = out.split_at_mut(varint_len(self.outer()));
            write_varint(len, self.outer());
            rest[0] = self.within;
            out = &mut rest[1..];
        }
        let (len, rest) = out.split_at_mut(varint_len(self.len as u64));
        write_varint(len, self.len as u64);
        rest
    }
}

/// Copies bytes into a place of their size. Short ones without a call: what is copied here is
/// mostly short, and the call costs more than the copy.
#[inline]
pub fn copy(to: &mut [u8], from: &[u8]) {
    const WORD: usize = 8;
    const HALF: usize = 4;
    let len = from.len();
    if len > 2 * WORD {
        to.copy_from_slice(from);
    } else if len >= WORD {
        // The first eight and the last eight, which may overlap.
        to[..WORD].copy_from_slice(&from[..WORD]);
        to[len - WORD..len].copy_from_slice(&from[len - WORD..]);
    } else if len >= HALF {
        to[..HALF].copy_from_slice(&from[..HALF]);
        to[len - HALF..len].copy_from_slice(&from[len - HALF..]);
    } else {
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(gather: &Gather) -> Vec<u8> {
        let mut out = vec![0; gather.len()];
        gather.write(&mut out);
        out
    }

    /// A message of field 1, that many times in another, and the text innermost.
    fn nested(depth: usize, text: &[u8]) -> Vec<u8> {
        let mut gather = Gather::default();
        let mut open = Vec::new();
        for _ in 0..depth {
            gather.tag(1, WireType::Len);
            open.push(gather.open());
        }
        gather.raw(text);
        while let Some(message) = open.pop() {
            gather.close(message);
        }
        written(&gather)
    }

    #[test]
    fn lengths_count_the_lengths_inside() {
        let near = 1015..=1025;
        let far = [0, 1, 123, 124, 125, 126, 127, 128, 129, 16_380, 16_384, 3_000_000];
        for len in near.chain(far) {
            let text = vec![7; len];
            let mut expected = text.clone();
            for depth in 0..6 {
                assert_eq!(nested(depth, &text), expected, "{len} {depth}");
                let mut len = vec![0; varint_len(expected.len() as u64)];
                write_varint(&mut len, expected.len() as u64);
                expected = [&[0x0a], &len[..], &expected].concat();
            }
        }
    }

    #[test]
    fn two_lengths_in_one_gap() {
        for len in [0, 1, 124, 125, 126, 127, 128, 200, 1023, 1024, 1025, 16_380, 16_400] {
            let text = vec![7; len];
            let mut gather = Gather::new();
            gather.tag(1, WireType::Len);
            let outer = gather.open();
            gather.tag(1, WireType::Len);
            let inner = gather.open_within(0x0a);
            gather.raw(&text);
            gather.close(inner);
            gather.close(outer);
            assert_eq!(written(&gather), nested(3, &text), "{len}");
        }
    }

    #[test]
    fn short_copies() {
        let from: Vec<u8> = (0..40).collect();
        for len in 0..from.len() {
            let mut to = vec![0xff; len];
            copy(&mut to, &from[..len]);
            assert_eq!(to, from[..len]);
        }
    }

    #[test]
    fn siblings_and_going_back() {
        let mut gather = Gather::default();
        gather.tag(1, WireType::Len);
        let outer = gather.open();
        let point = gather.point();
        for text in [&b"ab"[..], b"", b"cde"] {
            gather.tag(2, WireType::Len);
            let inner = gather.open();
            gather.raw(text);
            gather.close(inner);
        }
        assert!(!gather.is_since(&point, b"\x12ab"));
        gather.back_to(&point);
        gather.tag(3, WireType::Len);
        let inner = gather.open();
        gather.raw(b"x");
        gather.close(inner);
        assert!(!gather.is_since(&point, b"\x1ax"));
        assert!(gather.is_since(&gather.point(), b""));
        gather.raw(b"\x22\x02yz");
        gather.close(outer);
        assert_eq!(written(&gather), b"\x0a\x07\x1a\x01x\x22\x02yz");
    }
}
