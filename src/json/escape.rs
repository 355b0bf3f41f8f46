//! Writing the characters of a JSON string: find the next character to escape, copy what is
//! before it. RFC 8259 section 7 leaves a choice of escapes; these are the ones of `serde_json`
//! and so of pydantic: `\b \t \n \f \r \" \\`, and `\u00xx` in lower case for other controls.
//! U+007F, U+2028 and everything that is not ASCII stay as they are.
#![allow(unsafe_code)]

use crate::event::Fragment;

/// What a code point of one byte is written as: up to six bytes, and in the last place their
/// number.
static WRITTEN: [[u8; 8]; 256] = {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut table = [[0; 8]; 256];
    let mut code = 0;
    while code < 256 {
        let byte = code as u8;
        table[code] = match byte {
            0x08 => short(b'b'),
            b'\t' => short(b't'),
            b'\n' => short(b'n'),
            0x0c => short(b'f'),
            b'\r' => short(b'r'),
            b'"' | b'\\' => short(byte),
            0..0x20 => [b'\\', b'u', b'0', b'0', HEX[code >> 4], HEX[code & 15], 0, 6],
            0x20..0x80 => [byte, 0, 0, 0, 0, 0, 0, 1],
            _ => [0xc0 | byte >> 6, 0x80 | byte & 0x3f, 0, 0, 0, 0, 0, 2],
        };
        code += 1;
    }
    table
};

const fn short(letter: u8) -> [u8; 8] {
    [b'\\', letter, 0, 0, 0, 0, 0, 2]
}

/// Room that must be left behind the text: a step may store a whole vector of which only a part
/// counts.
const SLACK: usize = 16;

/// Appends `text`, which is UTF-8, as a string: escaped, in quotes.
#[inline]
pub fn push_string(out: &mut Vec<u8>, text: &[u8]) {
    push_enclosed::<false, 1, 1>(out, *b"\"", text, *b"\"");
}

/// Appends `text`, which is UTF-8, as the key of an entry: a comma before it, a colon behind.
#[inline]
pub fn push_key(out: &mut Vec<u8>, text: &[u8]) {
    push_enclosed::<false, 2, 2>(out, *b",\"", text, *b"\":");
}

/// Appends `text`, whose bytes are code points, escaped and as UTF-8.
pub fn push_latin1(out: &mut Vec<u8>, text: &[u8]) {
    push_enclosed::<true, 0, 0>(out, [], text, []);
}

/// `LATIN1`: the bytes are code points; those above U+007F become sequences of UTF-8.
#[inline]
fn push_enclosed<const LATIN1: bool, const B: usize, const A: usize>(
    out: &mut Vec<u8>,
    before: [u8; B],
    text: &[u8],
    after: [u8; A],
) {
    out.reserve(B + text.len() + A + SLACK);
    // SAFETY: there is room for everything written here: `before`, `text`, `after`, and the slack
    // that `copy_clean` asks for. The length is set to what has been initialised.
    let clean = unsafe {
        let start = out.len();
        let target = out.as_mut_ptr().add(start);
        target.cast::<[u8; B]>().write(before);
        let clean = copy_clean::<LATIN1>(text, target.add(B));
        if clean == text.len() {
            target.add(B + clean).cast::<[u8; A]>().write(after);
            out.set_len(start + B + clean + A);
            return;
        }
        out.set_len(start + B + clean);
        clean
    };
    push_rest::<LATIN1>(out, &text[clean..]);
    out.extend_from_slice(&after);
}

/// Appends what is left of a text from its first special character on.
#[inline(never)]
fn push_rest<const LATIN1: bool>(out: &mut Vec<u8>, mut rest: &[u8]) {
    while let Some((&special, after)) = rest.split_first() {
        let written = WRITTEN[special as usize];
        out.reserve(written.len() + after.len() + SLACK);
        // SAFETY: there is room for `written`, `after` and the slack, reserved in the line above.
        // All of `written` is stored, and what does not count of it is overwritten.
        let clean = unsafe {
            let start = out.len();
            let target = out.as_mut_ptr().add(start);
            target.cast::<[u8; 8]>().write(written);
            let len = usize::from(written[7]);
            let clean = copy_clean::<LATIN1>(after, target.add(len));
            out.set_len(start + len + clean);
            clean
        };
        rest = &after[clean..];
    }
}

/// Copies the bytes of `text` up to the first special one, and says how many: one that needs an
/// escape or, of Latin-1, two bytes.
///
/// The last bytes are looked at in a step that overlaps the one before: what was copied already
/// is clean, and is copied once more to the same place.
///
/// # Safety
/// `text.len() + SLACK` bytes can be written at `target`.
#[inline]
unsafe fn copy_clean<const LATIN1: bool>(text: &[u8], target: *mut u8) -> usize {
    /// What is in the place of bytes that are not there.
    const NONE: u64 = 0x2020_2020_2020_2020;
    let len = text.len();
    let source = text.as_ptr();
    // SAFETY: reads and writes stay below `len`, as the conditions say.
    let (found, half) = unsafe {
        if len >= 16 {
            return copy_clean_long::<LATIN1>(text, target);
        }
        // The first and the last so many bytes.
        let ends = |half: usize| (source, target, source.add(len - half), target.add(len - half));
        if len >= 8 {
            let (source, target, last, last_target) = ends(8);
            let low = u64::from_le_bytes(copy::<8>(source, target));
            let high = u64::from_le_bytes(copy::<8>(last, last_target));
            (first_special::<LATIN1>(low, high), 8)
        } else if len >= 4 {
            let (source, target, last, last_target) = ends(4);
            let low = u32::from_le_bytes(copy::<4>(source, target));
            let high = u32::from_le_bytes(copy::<4>(last, last_target));
            (first_special::<LATIN1>(u64::from(low) | u64::from(high) << 32, NONE), 4)
        } else if len >= 2 {
            let (source, target, last, last_target) = ends(2);
            let low = u16::from_le_bytes(copy::<2>(source, target));
            let high = u16::from_le_bytes(copy::<2>(last, last_target));
            let both = u64::from(low) | u64::from(high) << 16;
            (first_special::<LATIN1>(both | NONE << 32, NONE), 2)
        } else if len == 1 {
            let [byte] = copy::<1>(source, target);
            (first_special::<LATIN1>(u64::from(byte) | NONE << 8, NONE), 1)
        } else {
            return 0;
        }
    };
    if found < half {
        found
    } else if found < 2 * half {
        // Of the last bytes, only those count that are not among the first.
        found + len - 2 * half
    } else {
        len
    }
}

/// [`copy_clean`] of at least 16 bytes.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe fn copy_clean_long<const LATIN1: bool>(text: &[u8], target: *mut u8) -> usize {
    let len = text.len();
    let source = text.as_ptr();
    let mut at = 0;
    loop {
        // SAFETY: reads stay below `len`, writes below `len` too.
        let block = unsafe { copy::<16>(source.add(at), target.add(at)) };
        let (low, high) = (u128::from_le_bytes(block) as u64, u128::from_le_bytes(block) >> 64);
        let found = first_special::<LATIN1>(low, high as u64);
        if found < 16 {
            return at + found;
        }
        match len - at {
            16 => return len,
            left if left >= 32 => at += 16,
            _ => at = len - 16,
        }
    }
}

/// Copies some bytes.
///
/// # Safety
/// `N` bytes can be read at `source` and written at `target`.
#[inline]
unsafe fn copy<const N: usize>(source: *const u8, target: *mut u8) -> [u8; N] {
    // SAFETY: as the caller promises; arrays of bytes have no alignment.
    unsafe {
        let bytes = source.cast::<[u8; N]>().read();
        target.cast::<[u8; N]>().write(bytes);
        bytes
    }
}

/// The place of the first special byte among 16, of which the lowest of `low` is the first. If
/// there is none, 16.
#[inline]
#[cfg(target_arch = "x86_64")]
fn first_special<const LATIN1: bool>(low: u64, high: u64) -> usize {
    use std::arch::x86_64::_mm_set_epi64x;
    // SAFETY: SSE2 is part of x86_64.
    let found =
        unsafe { special_bits::<LATIN1>(_mm_set_epi64x(high.cast_signed(), low.cast_signed())) };
    (found | 1 << 16).trailing_zeros() as usize
}

/// Whether none of the bytes, which are ASCII, is special.
#[inline]
fn is_clean(bytes: &[u8; 16]) -> bool {
    // (By way of a number, the bytes would be put into it one by one.)
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of x86_64; there are 16 bytes.
    unsafe {
        use std::arch::x86_64::_mm_loadu_si128;
        special_bits::<false>(_mm_loadu_si128(bytes.as_ptr().cast())) == 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let both = u128::from_le_bytes(*bytes);
        first_special::<false>(both as u64, (both >> 64) as u64) == bytes.len()
    }
}

/// A bit for each byte, which says that it is special.
///
/// # Safety
/// None needed, but that of the instructions, which x86_64 has.
#[inline]
#[cfg(target_arch = "x86_64")]
unsafe fn special_bits<const LATIN1: bool>(bytes: std::arch::x86_64::__m128i) -> i32 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };
    // SAFETY: SSE2 is part of x86_64.
    unsafe {
        // Unsigned x <= 31 is min(x, 31) == x.
        let controls = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
        let quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x22));
        let slashes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x5c));
        let found = _mm_or_si128(controls, _mm_or_si128(quotes, slashes));
        // Of each byte, the highest bit is looked at.
        _mm_movemask_epi8(if LATIN1 { _mm_or_si128(found, bytes) } else { found })
    }
}

#[cfg(not(target_arch = "x86_64"))]
use portable_first_special as first_special;

/// [`first_special`] in plain arithmetic.
#[inline]
#[cfg(any(test, not(target_arch = "x86_64")))]
fn portable_first_special<const LATIN1: bool>(low: u64, high: u64) -> usize {
    // In one number of 128 bits the lowest set bit is still the first byte's.
    let (low, high) = (specials::<LATIN1>(low), specials::<LATIN1>(high));
    (u128::from(low) | u128::from(high) << 64).trailing_zeros() as usize / 8
}

/// The high bit of byte i is set if byte i is special. Bits above the lowest set one may be wrong
/// (a borrow runs upwards), the lowest never is.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline]
fn specials<const LATIN1: bool>(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zero_byte = |x: u64| x.wrapping_sub(ONES) & !x;
    let controls = word.wrapping_sub(ONES * 0x20) & !word;
    let quotes = zero_byte(word ^ (ONES * 0x22));
    let slashes = zero_byte(word ^ (ONES * 0x5c));
    let high = if LATIN1 { word } else { 0 };
    (controls | quotes | slashes | high) & HIGH
}

/// Appends a piece of a document that was made ready.
#[inline]
pub fn push_fragment(out: &mut Vec<u8>, fragment: &Fragment) {
    out.reserve(Fragment::CAPACITY);
    // SAFETY: there is room for the whole array, reserved in the line above. Copying all of it is
    // a few vector moves; of it, only the fragment counts.
    unsafe {
        let start = out.len();
        out.as_mut_ptr().add(start).cast::<[u8; Fragment::CAPACITY]>().write(fragment.bytes);
        out.set_len(start + fragment.len);
    }
}

/// Half of a surrogate pair, which UTF-8 cannot carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoneSurrogate;

/// Appends the code points `text`, escaped and as UTF-8.
pub fn push_code_points<T: Copy + Into<u32>>(
    out: &mut Vec<u8>,
    text: &[T],
) -> Result<(), LoneSurrogate> {
    const BLOCK: usize = 16;
    for block in text.chunks(BLOCK) {
        // Mostly, of a text with some wide characters most are ASCII.
        if let Ok(block) = <&[T; BLOCK]>::try_from(block)
            && block.iter().fold(0, |all, &unit| all | unit.into()) < 0x80
        {
            let mut bytes = [0; BLOCK];
            for (byte, &unit) in bytes.iter_mut().zip(block) {
                *byte = unit.into() as u8;
            }
            if is_clean(&bytes) {
                out.extend_from_slice(&bytes);
                continue;
            }
        }
        // An escape has six bytes, a UTF-8 sequence at most four; eight are stored.
        let mut bytes = [0; BLOCK * 6 + 2];
        let mut len = 0;
        for &unit in block {
            let code: u32 = unit.into();
            match u8::try_from(code) {
                Ok(byte) => {
                    let written = WRITTEN[byte as usize];
                    bytes[len..len + 8].copy_from_slice(&written);
                    len += usize::from(written[7]);
                }
                Err(_) => {
                    let (sequence, size) = utf8(code)?;
                    bytes[len..len + 4].copy_from_slice(&sequence.to_le_bytes());
                    len += size;
                }
            }
        }
        out.extend_from_slice(&bytes[..len]);
    }
    Ok(())
}

/// The UTF-8 of a code point from U+0080 on, the first byte lowest, and how many bytes it has.
#[inline]
fn utf8(code: u32) -> Result<(u32, usize), LoneSurrogate> {
    let tail = |shift: u32| 0x80 | code >> shift & 0x3f;
    if code < 0x800 {
        return Ok((0xc0 | code >> 6 | tail(0) << 8, 2));
    }
    if (0xd800..0xe000).contains(&code) {
        return Err(LoneSurrogate);
    }
    if code < 0x1_0000 {
        return Ok((0xe0 | code >> 12 | tail(6) << 8 | tail(0) << 16, 3));
    }
    Ok((0xf0 | code >> 18 | tail(12) << 8 | tail(6) << 16 | tail(0) << 24, 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_point_as_utf8() {
        for code in 0x80..=u32::from(char::MAX) {
            let expected = char::from_u32(code).map(|char| char.to_string().into_bytes());
            let ours = utf8(code).map(|(bytes, size)| bytes.to_le_bytes()[..size].to_vec());
            assert_eq!(ours.ok(), expected);
        }
    }

    /// The oracle: one character at a time, as the RFC's grammar reads.
    fn scalar(text: &str) -> Vec<u8> {
        let mut out = String::new();
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                c if c < ' ' => out.extend(format!("\\u{:04x}", c as u32).chars()),
                c => out.push(c),
            }
        }
        out.into_bytes()
    }

    fn check(text: &str) {
        let want = scalar(text);
        let mut out = b"kept".to_vec();
        push_string(&mut out, text.as_bytes());
        push_key(&mut out, text.as_bytes());
        let quoted = [b"\"", want.as_slice(), b"\""].concat();
        assert_eq!(out, [b"kept", quoted.as_slice(), b",", &quoted, b":"].concat(), "{text:?}");
        if let Ok(latin1) = text.chars().map(u8::try_from).collect::<Result<Vec<u8>, _>>() {
            let mut out = Vec::new();
            push_latin1(&mut out, &latin1);
            assert_eq!(out, want, "{text:?}");
        }
        let points: Vec<u32> = text.chars().map(u32::from).collect();
        let mut out = Vec::new();
        assert_eq!(push_code_points(&mut out, &points), Ok(()));
        assert_eq!(out, want, "{text:?}");
    }

    #[test]
    fn every_byte_at_every_place() {
        for special in (0..0x80u8).map(char::from).chain(['é', '漢', '😀', '\u{2028}']) {
            for before in 0..40 {
                for after in [0, 1, 7, 8, 15, 16, 17] {
                    let text = format!("{}{special}{}", "a".repeat(before), "b".repeat(after));
                    check(&text);
                }
            }
        }
    }

    #[test]
    fn the_first_special_byte_of_16() {
        for byte in 0..=255 {
            for at in 0..16 {
                // Behind it are bytes of every kind.
                let mut block: [u8; 16] = std::array::from_fn(|index| (index * 17) as u8);
                block[..at].fill(b'a');
                block[at] = byte;
                let low = u64::from_le_bytes(block[..8].try_into().unwrap());
                let high = u64::from_le_bytes(block[8..].try_into().unwrap());
                let scalar = |wide: bool| {
                    let special = |byte: u8| {
                        let escaped = byte < 0x20 || byte == b'"' || byte == b'\\';
                        escaped || wide && byte >= 0x80
                    };
                    block.iter().position(|&byte| special(byte)).unwrap_or(16)
                };
                assert_eq!(first_special::<false>(low, high), scalar(false), "{block:?}");
                assert_eq!(first_special::<true>(low, high), scalar(true), "{block:?}");
                assert_eq!(portable_first_special::<false>(low, high), scalar(false), "{block:?}");
                assert_eq!(portable_first_special::<true>(low, high), scalar(true), "{block:?}");
            }
        }
    }

    #[test]
    fn runs_of_escapes_and_boundaries() {
        for len in 0..70 {
            check(&"\u{1}".repeat(len));
            check(&"\\\"".repeat(len));
            check(&"ab\n".repeat(len));
            check(&"é\t漢".repeat(len));
        }
    }

    #[test]
    fn utf8_bytes_are_never_escapes() {
        // 0x80..0xff differ from the special bytes only by their high bit.
        for code in (0x80..0x3000u32).filter_map(char::from_u32) {
            check(&format!("{code}12345678{code}"));
        }
    }

    #[test]
    fn surrogates_are_refused() {
        for code in [0xd800u32, 0xdbff, 0xdc00, 0xdfff] {
            assert_eq!(push_code_points(&mut Vec::new(), &[97, code]), Err(LoneSurrogate));
        }
    }
}
