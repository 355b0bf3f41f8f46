//! A message in the making, read from its source once.
//!
//! Protobuf writes the length of a nested message before it, and the length is known only behind
//! it. So the contents are gathered without the lengths of nested messages, and beside them where
//! each length belongs and what it is; then the size of the whole is known, and the final bytes
//! are written in one go. Strings and numbers know their length at once and are gathered with it.

use super::wire::{WireType, push_tag, push_varint, varint_len};

/// A length that is missing from the contents.
#[derive(Clone, Copy)]
struct Gap {
    /// Where in the contents it belongs.
    at: usize,
    /// The length. While the message is open: how many bytes the lengths before it take.
    len: usize,
}

/// What has been gathered.
#[derive(Default)]
pub struct Gather {
    contents: Vec<u8>,
    gaps: Vec<Gap>,
    /// The bytes that the lengths of the closed messages take.
    lengths: usize,
}

/// A message that was opened and is to be closed.
#[must_use]
pub struct Open(usize);

/// A state to go back to.
pub struct Point {
    contents: usize,
    gaps: usize,
    lengths: usize,
}

impl Gather {
    pub fn clear(&mut self) {
        self.contents.clear();
        self.gaps.clear();
        self.lengths = 0;
    }

    /// What the buffers hold on to.
    pub fn capacity(&self) -> usize {
        self.contents.capacity() + self.gaps.capacity() * size_of::<Gap>()
    }

    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.contents.extend_from_slice(bytes);
    }

    #[inline]
    pub fn tag(&mut self, number: u32, wire_type: WireType) {
        push_tag(&mut self.contents, number, wire_type);
    }

    #[inline]
    pub fn varint(&mut self, value: u64) {
        push_varint(&mut self.contents, value);
    }

    /// The contents, to append a payload whose length has been written.
    #[inline]
    pub fn contents(&mut self) -> &mut Vec<u8> {
        &mut self.contents
    }

    /// Begins a nested message, after its tag.
    #[inline]
    pub fn open(&mut self) -> Open {
        self.gaps.push(Gap { at: self.contents.len(), len: self.lengths });
        Open(self.gaps.len() - 1)
    }

    /// Ends the message that was opened last.
    #[inline]
    pub fn close(&mut self, Open(index): Open) {
        let gap = &mut self.gaps[index];
        gap.len = self.contents.len() - gap.at + self.lengths - gap.len;
        self.lengths += varint_len(gap.len as u64);
    }

    pub fn point(&self) -> Point {
        Point { contents: self.contents.len(), gaps: self.gaps.len(), lengths: self.lengths }
    }

    /// Whether exactly these bytes were gathered since the point.
    pub fn is_since(&self, point: &Point, bytes: &[u8]) -> bool {
        self.gaps.len() == point.gaps + 1 && &self.contents[point.contents..] == bytes
    }

    /// Forgets what was gathered since the point, all of it closed.
    pub fn back_to(&mut self, point: &Point) {
        self.contents.truncate(point.contents);
        self.gaps.truncate(point.gaps);
        self.lengths = point.lengths;
    }

    /// The size of the whole, all messages being closed.
    #[inline]
    pub fn len(&self) -> usize {
        self.contents.len() + self.lengths
    }

    /// Writes the whole into a place of exactly its size.
    pub fn write(&self, mut out: &mut [u8]) {
        let mut from = 0;
        for gap in &self.gaps {
            out = put(out, &self.contents[from..gap.at]);
            from = gap.at;
            let mut len = gap.len;
            while len >= 0x80 {
                out = put(out, &[len as u8 | 0x80]);
                len >>= 7;
            }
            out = put(out, &[len as u8]);
        }
        put(out, &self.contents[from..]);
    }
}

#[inline]
fn put<'a>(out: &'a mut [u8], bytes: &[u8]) -> &'a mut [u8] {
    let (here, rest) = out.split_at_mut(bytes.len());
    here.copy_from_slice(bytes);
    rest
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
        for len in [0, 1, 123, 124, 125, 126, 127, 128, 129, 16_380, 16_384, 3_000_000] {
            let text = vec![7; len];
            let mut expected = text.clone();
            for depth in 0..6 {
                assert_eq!(nested(depth, &text), expected, "{len} {depth}");
                let mut outer = vec![0x0a];
                push_varint(&mut outer, expected.len() as u64);
                outer.extend_from_slice(&expected);
                expected = outer;
            }
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
        assert!(gather.is_since(&point, b"\x1ax"));
        gather.raw(b"\x22\x02yz");
        gather.close(outer);
        assert_eq!(written(&gather), b"\x0a\x07\x1a\x01x\x22\x02yz");
    }
}
