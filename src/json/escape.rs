//! Writing the characters of a JSON string: find the next character to escape, copy what is
//! before it. RFC 8259 section 7 leaves a choice of escapes; these are the ones of `serde_json`
//! and so of pydantic: `\b \t \n \f \r \" \\`, and `\u00xx` in lower case for other controls.
//! U+007F, U+2028 and everything that is not ASCII stay as they are.
#![allow(unsafe_code)]

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
/// counts, and an escape has six bytes.
const SLACK: usize = 16;

/// Appends `text`, which is UTF-8, escaped.
#[inline]
pub fn push_utf8(out: &mut Vec<u8>, text: &[u8]) {
    let mut rest = text;
    loop {
        out.reserve(rest.len() + SLACK);
        // SAFETY: there is room for `rest` and SLACK more, reserved in the line above.
        let clean = unsafe { copy_clean(out, rest) };
        if clean == rest.len() {
            return;
        }
        push_escape(out, rest[clean]);
        rest = &rest[clean + 1..];
    }
}

/// Appends the bytes of `text` up to the first that needs an escape, and says how many.
///
/// # Safety
/// `out` has room for `text.len() + SLACK` more bytes.
#[inline]
unsafe fn copy_clean(out: &mut Vec<u8>, text: &[u8]) -> usize {
    let len = text.len();
    // SAFETY (of all that follows): reads stay below `len`, as the loop conditions say; at most
    // 16 bytes are stored at an offset of at most `len`, for which the caller left room; the
    // length is set to what was initialised.
    unsafe {
        let source = text.as_ptr();
        let start = out.len();
        let target = out.as_mut_ptr().add(start);
        let mut at = 0;
        #[cfg(target_arch = "x86_64")]
        while len - at >= 16 {
            let found = sse2::step(source.add(at), target.add(at));
            if found != 0 {
                at += found.trailing_zeros() as usize;
                out.set_len(start + at);
                return at;
            }
            at += 16;
        }
        // The last bytes of a long text once more, in a step that overlaps the one before: they
        // are then clean or have been copied, and are copied again to the same place.
        #[cfg(target_arch = "x86_64")]
        if len >= 16 && at < len {
            let last = len - 16;
            let found = sse2::step(source.add(last), target.add(last));
            let at = if found == 0 { len } else { last + found.trailing_zeros() as usize };
            out.set_len(start + at);
            return at;
        }
        while len - at >= 8 {
            let word = source.add(at).cast::<[u8; 8]>().read();
            target.add(at).cast::<[u8; 8]>().write(word);
            let found = swar::step(u64::from_le_bytes(word));
            if found != 0 {
                at += found.trailing_zeros() as usize / 8;
                out.set_len(start + at);
                return at;
            }
            at += 8;
        }
        if len >= 8 && at < len {
            let last = len - 8;
            let word = source.add(last).cast::<[u8; 8]>().read();
            target.add(last).cast::<[u8; 8]>().write(word);
            let found = swar::step(u64::from_le_bytes(word));
            let at = if found == 0 { len } else { last + found.trailing_zeros() as usize / 8 };
            out.set_len(start + at);
            return at;
        }
        if len >= 4 && len < 8 {
            // Two halves that may overlap make one word.
            let low = source.cast::<[u8; 4]>().read();
            let high = source.add(len - 4).cast::<[u8; 4]>().read();
            let word =
                u64::from(u32::from_le_bytes(low)) | u64::from(u32::from_le_bytes(high)) << 32;
            if swar::step(word) == 0 {
                target.cast::<[u8; 4]>().write(low);
                target.add(len - 4).cast::<[u8; 4]>().write(high);
                out.set_len(start + len);
                return len;
            }
        }
        while at < len {
            let byte = *source.add(at);
            if ESCAPE[byte as usize] != 0 {
                break;
            }
            target.add(at).write(byte);
            at += 1;
        }
        out.set_len(start + at);
        at
    }
}

#[cold]
fn push_escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match ESCAPE[byte as usize] {
        b'u' => {
            let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&digits);
        }
        letter => out.extend_from_slice(&[b'\\', letter]),
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
    for block in text.chunks(64) {
        // An escape has 6 bytes, a UTF-8 sequence at most 4.
        out.reserve(block.len() * 6);
        for &unit in block {
            let code: u32 = unit.into();
            // SAFETY: at most four bytes are written for each code point of the block, or an
            // escape, which reserves for itself; then so many bytes are initialised.
            unsafe {
                let end = out.as_mut_ptr().add(out.len());
                let written = if code < 0x80 {
                    let byte = code.to_le_bytes()[0];
                    if ESCAPE[byte as usize] != 0 {
                        push_escape(out, byte);
                        continue;
                    }
                    end.write(byte);
                    1
                } else if code < 0x800 {
                    end.write(0xc0 | (code >> 6) as u8);
                    end.add(1).write(0x80 | (code & 0x3f) as u8);
                    2
                } else if code < 0x1_0000 {
                    if (0xd800..0xe000).contains(&code) {
                        return Err(LoneSurrogate);
                    }
                    end.write(0xe0 | (code >> 12) as u8);
                    end.add(1).write(0x80 | ((code >> 6) & 0x3f) as u8);
                    end.add(2).write(0x80 | (code & 0x3f) as u8);
                    3
                } else {
                    end.write(0xf0 | (code >> 18) as u8);
                    end.add(1).write(0x80 | ((code >> 12) & 0x3f) as u8);
                    end.add(2).write(0x80 | ((code >> 6) & 0x3f) as u8);
                    end.add(3).write(0x80 | (code & 0x3f) as u8);
                    4
                };
                out.set_len(out.len() + written);
            }
        }
    }
    Ok(())
}

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128,
        _mm_set1_epi8, _mm_storeu_si128,
    };

    /// Copies 16 bytes; bit i of the result says that byte i needs an escape.
    ///
    /// # Safety
    /// 16 bytes can be read at `source` and written at `target`.
    #[inline]
    pub unsafe fn step(source: *const u8, target: *mut u8) -> u32 {
        // SAFETY: as the caller promises. SSE2 is part of x86_64.
        unsafe {
            let bytes = _mm_loadu_si128(source.cast::<__m128i>());
            _mm_storeu_si128(target.cast::<__m128i>(), bytes);
            // Unsigned x <= 31 is min(x, 31) == x.
            let controls = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
            let quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x22));
            let slashes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x5c));
            let found = _mm_or_si128(controls, _mm_or_si128(quotes, slashes));
            _mm_movemask_epi8(found).cast_unsigned()
        }
    }
}

mod swar {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;

    /// The high bit of byte i is set if byte i needs an escape. Bits above the lowest set one may
    /// be wrong (a borrow runs upwards), the lowest never is.
    #[inline]
    pub fn step(word: u64) -> u64 {
        let zero_byte = |x: u64| x.wrapping_sub(ONES) & !x;
        let controls = word.wrapping_sub(ONES * 0x20) & !word;
        let quotes = zero_byte(word ^ (ONES * 0x22));
        let slashes = zero_byte(word ^ (ONES * 0x5c));
        (controls | quotes | slashes) & HIGH
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
                c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
                c => out.push(c),
            }
        }
        out.into_bytes()
    }

    fn check(text: &str) {
        let want = scalar(text);
        let mut out = b"kept".to_vec();
        push_utf8(&mut out, text.as_bytes());
        assert_eq!(&out[4..], want, "{text:?}");
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
