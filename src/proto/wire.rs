//! The wire format of protobuf: tags, varints, lengths, groups. Knows nothing of messages.
//!
//! <https://protobuf.dev/programming-guides/encoding/>

/// How the payload of a field is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Len = 2,
    StartGroup = 3,
    EndGroup = 4,
    Fixed32 = 5,
}

/// Bytes that are no protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub reason: &'static str,
    /// The address of the byte where it shows. Payloads are slices of one buffer, so that the
    /// address tells the offset without every slice carrying its own.
    pub address: usize,
}

/// Reads from the front of some bytes.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[cold]
    fn malformed<T>(&self, reason: &'static str) -> Result<T, Malformed> {
        Err(Malformed { reason, address: self.rest.as_ptr() as usize })
    }

    /// The number of the next field and how it is delimited.
    #[inline]
    pub fn tag(&mut self) -> Result<(u32, WireType), Malformed> {
        let start = *self;
        let tag = self.varint32()?;
        let wire_type = match tag & 7 {
            0 => WireType::Varint,
            1 => WireType::Fixed64,
            2 => WireType::Len,
            3 => WireType::StartGroup,
            4 => WireType::EndGroup,
            5 => WireType::Fixed32,
            _ => return start.malformed("a wire type that does not exist"),
        };
        if tag >> 3 == 0 {
            return start.malformed("field number 0");
        }
        Ok((tag >> 3, wire_type))
    }

    /// A varint of at most 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        match self.rest {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for (at, &byte) in self.rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                if at == 9 && byte > 1 {
                    break;
                }
                self.rest = &self.rest[at + 1..];
                return Ok(value);
            }
        }
        if self.rest.len() < 10 {
            self.malformed("the bytes end inside a number")
        } else {
            self.malformed("a number of more than 64 bits")
        }
    }

    /// A tag or a length: 32 bits, five bytes.
    #[inline]
    fn varint32(&mut self) -> Result<u32, Malformed> {
        let start = *self;
        let value = self.varint()?;
        match u32::try_from(value) {
            Ok(value) if start.rest.len() - self.rest.len() <= 5 => Ok(value),
            _ => start.malformed("a tag or a length of more than 32 bits"),
        }
    }

    /// The payload of a field that has its length in front.
    #[inline]
    pub fn payload(&mut self) -> Result<&'a [u8], Malformed> {
        let start = *self;
        let len = self.varint32()? as usize;
        match self.rest.split_at_checked(len) {
            Some((payload, rest)) => {
                self.rest = rest;
                Ok(payload)
            }
            None => start.malformed("a length that goes past the end"),
        }
    }

    /// The payload of a field with exactly this tag, of one byte, and a length of one byte. If
    /// something else comes next, nothing is read.
    #[inline]
    pub fn short_payload(&mut self, tag: u8) -> Option<&'a [u8]> {
        match self.rest {
            [next, len @ 0..0x80, rest @ ..] if *next == tag => {
                let (payload, rest) = rest.split_at_checked(usize::from(*len))?;
                self.rest = rest;
                Some(payload)
            }
            _ => None,
        }
    }

    /// Key and value of an entry of a map as nearly all are written: these three tags of one byte,
    /// the key before the value, nothing else, and all lengths of one byte. If something else comes
    /// next, nothing is read.
    #[inline]
    pub fn short_entry(&mut self, entry: u8, key: u8, value: u8) -> Option<(&'a [u8], &'a [u8])> {
        let [entry_tag, len @ 2..0x80, key_tag, key_len, rest @ ..] = self.rest else {
            return None;
        };
        let (body, after) = rest.split_at_checked(usize::from(*len) - 2)?;
        let (key_bytes, body) = body.split_at_checked(usize::from(*key_len))?;
        let [value_tag, value_len, value_bytes @ ..] = body else { return None };
        let tags = [*entry_tag, *key_tag, *value_tag] == [entry, key, value];
        if !tags || value_bytes.len() != usize::from(*value_len) {
            return None;
        }
        self.rest = after;
        Some((key_bytes, value_bytes))
    }

    /// Eight bytes, little-endian.
    #[inline]
    pub fn fixed64(&mut self) -> Result<[u8; 8], Malformed> {
        match self.rest.split_first_chunk() {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(*bytes)
            }
            None => self.malformed("the bytes end inside a number"),
        }
    }

    /// Passes over the payload of a field after its tag, a group with all that is in it.
    pub fn skip(&mut self, number: u32, wire_type: WireType) -> Result<(), Malformed> {
        match wire_type {
            WireType::Varint => self.varint().map(drop),
            WireType::Fixed64 => self.fixed64().map(drop),
            WireType::Len => self.payload().map(drop),
            WireType::Fixed32 => match self.rest.split_first_chunk::<4>() {
                Some((_, rest)) => {
                    self.rest = rest;
                    Ok(())
                }
                None => self.malformed("the bytes end inside a number"),
            },
            WireType::StartGroup => self.skip_group(number),
            WireType::EndGroup => self.malformed("the end of a group that was not begun"),
        }
    }

    /// Groups nest, and a loop cannot overflow the stack as recursion could.
    fn skip_group(&mut self, number: u32) -> Result<(), Malformed> {
        let mut open = vec![number];
        while let Some(&innermost) = open.last() {
            if self.is_empty() {
                return self.malformed("the bytes end inside a group");
            }
            let start = *self;
            match self.tag()? {
                (number, WireType::StartGroup) => open.push(number),
                (number, WireType::EndGroup) if number == innermost => {
                    open.pop();
                }
                (_, WireType::EndGroup) => return start.malformed("the end of another group"),
                (number, wire_type) => self.skip(number, wire_type)?,
            }
        }
        Ok(())
    }
}

/// Passes over the fields of a message, whatever they are.
pub fn walk(message: &[u8]) -> Result<(), Malformed> {
    let mut reader = Reader::new(message);
    while !reader.is_empty() {
        let (number, wire_type) = reader.tag()?;
        reader.skip(number, wire_type)?;
    }
    Ok(())
}

/// The bytes that a varint takes: one for each seven bits begun.
#[inline]
pub fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Writes a varint into a place of exactly its length.
#[inline]
pub fn write_varint(out: &mut [u8], mut value: u64) {
    let Some((last, rest)) = out.split_last_mut() else { return };
    for byte in rest {
        *byte = value as u8 | 0x80;
        value >>= 7;
    }
    *last = value as u8;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varint(value: u64) -> Vec<u8> {
        let mut out = vec![0; varint_len(value)];
        write_varint(&mut out, value);
        out
    }

    #[test]
    fn varints_of_every_length() {
        for bits in 0..64 {
            for value in [1u64 << bits, (1u64 << bits) - 1, u64::MAX >> bits] {
                let bytes = varint(value);
                assert_eq!(bytes.len(), varint_len(value), "{value}");
                let mut reader = Reader::new(&bytes);
                assert_eq!(reader.varint(), Ok(value));
                assert!(reader.is_empty());
                for cut in 0..bytes.len() {
                    assert!(Reader::new(&bytes[..cut]).varint().is_err());
                }
            }
        }
    }

    #[test]
    fn numbers_that_are_too_long() {
        let mut long = vec![0xff; 9];
        long.push(2);
        assert_eq!(
            Reader::new(&long).varint().unwrap_err().reason,
            "a number of more than 64 bits"
        );
        assert!(Reader::new(&[0x80; 11]).varint().is_err());
        // A tag may not have a sixth byte, and is 32 bits.
        assert!(Reader::new(&[0x88, 0x80, 0x80, 0x80, 0x80, 0]).tag().is_err());
        assert!(Reader::new(&[0x88, 0x80, 0x80, 0x80, 0x10]).tag().is_err());
        assert_eq!(Reader::new(&[0x88, 0]).tag(), Ok((1, WireType::Varint)));
        assert!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x0f]).payload().is_err());
    }

    #[test]
    fn tags_that_do_not_exist() {
        for tag in [[0x00], [0x02], [0x0e], [0x0f]] {
            assert!(Reader::new(&tag).tag().is_err(), "{tag:?}");
        }
    }

    #[test]
    fn groups_are_skipped_whole() {
        // Field 1 in group 3 in group 2, then group 2 ends.
        let group = [0x13, 0x1b, 0x08, 0x01, 0x1c, 0x14];
        assert_eq!(walk(&group), Ok(()));
        for cut in 1..group.len() {
            assert!(walk(&group[..cut]).is_err(), "{cut}");
        }
        assert_eq!(walk(&[0x14]).unwrap_err().reason, "the end of a group that was not begun");
        assert_eq!(walk(&[0x13, 0x1c]).unwrap_err().reason, "the end of another group");
        let deep = [0x0b].repeat(100_000);
        assert!(walk(&deep).is_err());
        assert_eq!(walk(&[deep, [0x0c].repeat(100_000)].concat()), Ok(()));
    }

    #[test]
    fn the_address_tells_the_offset() {
        let bytes = [0x0a, 0x05, 0x01];
        let malformed = walk(&bytes).unwrap_err();
        assert_eq!(malformed.address - bytes.as_ptr() as usize, 1);
    }
}
