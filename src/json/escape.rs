//! Writing the characters of a JSON string: find the next character to escape, copy what is
//! before it. RFC 8259 section 7 leaves a choice of escapes; these are the ones of `serde_json`
//! and so of pydantic: `\b \t \n \f \r \" \\`, and `\u00xx` in lower case for other controls.
//! U+007F, U+2028 and everything that is not ASCII stay as they are.
#![allow(unsafe_code)]

use crate::event::Fragment;

/// What a byte is written as: itself (0), `\u00xx` (`u`), or a backslash and this letter.
const ESCAPE: [u8; 256] = {
    let mut table = [0; 256];
    let mut control = 0;
    while control < 0x20 {
        table[control] = b'u';
        control += 1;
    }
    table[0x08] = b'b';
    table[b'\t' as usize] = b't';
    table[b'\n' as usize] = b'n';
    table[0x0c] = b'f';
    table[b'\r' as usize] = b'r';
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table
};

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
        if LATIN1 && special >= 0x80 {
            out.extend_from_slice(&[0xc0 | special >> 6, 0x80 | special & 0x3f]);
        } else {
            let (escape, len) = escape(special);
            out.extend_from_slice(&escape[..len]);
        }
        out.reserve(after.len() + SLACK);
        // SAFETY: there is room for `after` and the slack, reserved in the line above.
        let clean = unsafe {
            let start = out.len();
            let clean = copy_clean::<LATIN1>(after, out.as_mut_ptr().add(start));
            out.set_len(start + clean);
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
    let len = text.len();
    let source = text.as_ptr();
    // SAFETY: reads stay below `len`, as the conditions say, and what is
    // written stays below `len + 16`, for which the caller left room.
    unsafe {
        if len >= 16 {
            copy_clean_long::<LATIN1>(text, target)
        } else if len >= 8 {
            let found = swar::step::<LATIN1>(copy_word(source, target));
            if found != 0 {
                return found.trailing_zeros() as usize / 8;
            }
            let last = len - 8;
            let found = swar::step::<LATIN1>(copy_word(source.add(last), target.add(last)));
            if found == 0 { len } else { last + found.trailing_zeros() as usize / 8 }
        } else if len >= 4 {
            // Two halves make one word; of the second, only what the first has not counts.
            let (low, high) =
                (copy_half(source, target), copy_half(source.add(len - 4), target.add(len - 4)));
            let found = swar::step::<LATIN1>(u64::from(low) | u64::from(high) << 32);
            match found.trailing_zeros() as usize / 8 {
                _ if found == 0 => len,
                at @ 0..4 => at,
                at => len - 4 + (at - 4),
            }
        } else {
            let mut at = 0;
            while at < len
                && ESCAPE[*source.add(at) as usize] == 0
                && !(LATIN1 && *source.add(at) >= 0x80)
            {
                target.add(at).write(*source.add(at));
                at += 1;
            }
            at
        }
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
    // SAFETY: reads stay below `len`, writes below `len` too.
    unsafe {
        loop {
            #[cfg(target_arch = "x86_64")]
            let (found, per_byte) = (sse2::step::<LATIN1>(source.add(at), target.add(at)), 1);
            #[cfg(not(target_arch = "x86_64"))]
            let (found, per_byte) = {
                let low = swar::step::<LATIN1>(copy_word(source.add(at), target.add(at)));
                let high = swar::step::<LATIN1>(copy_word(source.add(at + 8), target.add(at + 8)));
                // In one number of 128 bits the lowest set bit is still the first byte's.
                (u128::from(low) | u128::from(high) << 64, 8)
            };
            if found != 0 {
                return at + found.trailing_zeros() as usize / per_byte;
            }
            match len - at {
                16 => return len,
                left if left >= 32 => at += 16,
                _ => at = len - 16,
            }
        }
    }
}

/// Copies 8 bytes, and gives them as a number whose lowest byte is the first.
///
/// # Safety
/// 8 bytes can be read at `source` and written at `target`.
#[inline]
unsafe fn copy_word(source: *const u8, target: *mut u8) -> u64 {
    // SAFETY: as the caller promises; arrays of bytes have no alignment.
    unsafe {
        let word = source.cast::<[u8; 8]>().read();
        target.cast::<[u8; 8]>().write(word);
        u64::from_le_bytes(word)
    }
}

/// Copies 4 bytes, and gives them as a number whose lowest byte is the first.
///
/// # Safety
/// 4 bytes can be read at `source` and written at `target`.
#[inline]
unsafe fn copy_half(source: *const u8, target: *mut u8) -> u32 {
    // SAFETY: as the caller promises; arrays of bytes have no alignment.
    unsafe {
        let half = source.cast::<[u8; 4]>().read();
        target.cast::<[u8; 4]>().write(half);
        u32::from_le_bytes(half)
    }
}

/// The escape of a byte that needs one, and its length.
#[inline]
fn escape(byte: u8) -> ([u8; 6], usize) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match ESCAPE[byte as usize] {
        b'u' => {
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
            ([b'\\', b'u', b'0', b'0', high, low], 6)
        }
        letter => ([b'\\', letter, 0, 0, 0, 0], 2),
    }
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

/// A surrogate code point: it has no UTF-8.
#[derive(Debug, PartialEq, Eq)]
pub struct LoneSurrogate;

/// Appends the code points `text`, escaped and as UTF-8.
pub fn push_code_points<T: Copy + Into<u32>>(
    out: &mut Vec<u8>,
    text: &[T],
) -> Result<(), LoneSurrogate> {
    for block in text.chunks(8) {
        // Mostly, of a text with some wide characters most are ASCII.
        if let Ok(block) = <&[T; 8]>::try_from(block)
            && block.iter().fold(0, |all, &unit| all | unit.into()) < 0x80
        {
            let bytes = block.map(|unit| unit.into() as u8);
            if swar::step::<false>(u64::from_le_bytes(bytes)) == 0 {
                out.extend_from_slice(&bytes);
                continue;
            }
        }
        // An escape has six bytes, a UTF-8 sequence at most four.
        let mut bytes = [0; 8 * 6];
        let mut len = 0;
        for &unit in block {
            let code: u32 = unit.into();
            match u8::try_from(code) {
                Ok(byte @ 0..0x80) if ESCAPE[byte as usize] == 0 => {
                    bytes[len] = byte;
                    len += 1;
                }
                Ok(byte @ 0..0x80) => {
                    let (escape, escape_len) = escape(byte);
                    bytes[len..len + 6].copy_from_slice(&escape);
                    len += escape_len;
                }
                _ => {
                    let char = char::from_u32(code).ok_or(LoneSurrogate)?;
                    len += char.encode_utf8(&mut bytes[len..]).len();
                }
            }
        }
        out.extend_from_slice(&bytes[..len]);
    }
    Ok(())
}

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128,
        _mm_set1_epi8, _mm_storeu_si128,
    };

    /// Copies 16 bytes; bit i of the result says that byte i is special.
    ///
    /// # Safety
    /// 16 bytes can be read at `source` and written at `target`.
    #[inline]
    #[allow(clippy::cast_ptr_alignment, reason = "both are read and written unaligned")]
    pub unsafe fn step<const LATIN1: bool>(source: *const u8, target: *mut u8) -> u32 {
        // SAFETY: as the caller promises. SSE2 is part of x86_64.
        unsafe {
            let bytes = _mm_loadu_si128(source.cast::<__m128i>());
            _mm_storeu_si128(target.cast::<__m128i>(), bytes);
            // Unsigned x <= 31 is min(x, 31) == x.
            let controls = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
            let quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x22));
            let slashes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x5c));
            let found = _mm_or_si128(controls, _mm_or_si128(quotes, slashes));
            // Of each byte, the highest bit is looked at.
            let found = if LATIN1 { _mm_or_si128(found, bytes) } else { found };
            _mm_movemask_epi8(found).cast_unsigned()
        }
    }
}

mod swar {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;

    /// The high bit of byte i is set if byte i is special. Bits above the lowest set one may
    /// be wrong (a borrow runs upwards), the lowest never is.
    #[inline]
    pub fn step<const LATIN1: bool>(word: u64) -> u64 {
        let zero_byte = |x: u64| x.wrapping_sub(ONES) & !x;
        let controls = word.wrapping_sub(ONES * 0x20) & !word;
        let quotes = zero_byte(word ^ (ONES * 0x22));
        let slashes = zero_byte(word ^ (ONES * 0x5c));
        let high = if LATIN1 { word } else { 0 };
        (controls | quotes | slashes | high) & HIGH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
