//! Reading the characters of a JSON string (RFC 8259 section 7): find the quote that ends it, and
//! resolve escapes where there are any.
#![allow(unsafe_code)]

/// The clean text from some byte on, up to what ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Where the first quote, backslash or control character stands, or the input ends.
    pub end: usize,
    /// Whether all before it is ASCII.
    pub ascii: bool,
}

/// What is wrong with a string, and where.
#[derive(Debug, PartialEq, Eq)]
pub struct BadString {
    pub reason: &'static str,
    pub at: usize,
}

impl BadString {
    #[cold]
    fn new(reason: &'static str, at: usize) -> Self {
        Self { reason, at }
    }
}

/// Quotes, backslashes and control characters, which cannot stand in a string as they are.
const SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    let mut control = 0;
    while control < 0x20 {
        table[control] = true;
        control += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table
};

/// Looks for the end of the clean text that begins at `start`.
#[inline]
pub fn scan(bytes: &[u8], start: usize) -> Scan {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= 16 {
        // SAFETY: there are 16 bytes, as `scan_vectors` needs.
        return unsafe { sse2::scan(bytes, start) };
    }
    scan_words(bytes, start)
}

/// [`scan`], eight bytes at a time.
fn scan_words(bytes: &[u8], start: usize) -> Scan {
    let mut at = start;
    let mut high = 0;
    while let Some(word) = bytes.get(at..at + 8) {
        let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
        let found = swar::special(word);
        if found != 0 {
            let clean = found.trailing_zeros() / 8;
            // (A shift by all 64 bits is not a shift.)
            high |= if clean == 0 { 0 } else { word << (64 - clean * 8) };
            return Scan { end: at + clean as usize, ascii: high & swar::HIGH == 0 };
        }
        high |= word;
        at += 8;
    }
    let mut ascii = high & swar::HIGH == 0;
    while let Some(&byte) = bytes.get(at)
        && !SPECIAL[byte as usize]
    {
        ascii &= byte.is_ascii();
        at += 1;
    }
    Scan { end: at, ascii }
}

mod swar {
    const ONES: u64 = 0x0101_0101_0101_0101;
    pub const HIGH: u64 = 0x8080_8080_8080_8080;

    /// The high bit of byte i is set if byte i is special. Bits above the lowest set one may be
    /// wrong (a borrow runs upwards), the lowest never is.
    #[inline]
    pub fn special(word: u64) -> u64 {
        let zero_byte = |x: u64| x.wrapping_sub(ONES) & !x;
        let controls = word.wrapping_sub(ONES * 0x20) & !word;
        (controls | zero_byte(word ^ (ONES * 0x22)) | zero_byte(word ^ (ONES * 0x5c))) & HIGH
    }
}

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use super::Scan;
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128,
        _mm_set1_epi8,
    };

    /// Bit i of the results says that byte i is special, or is not ASCII.
    ///
    /// # Safety
    /// 16 bytes can be read at `source`.
    #[inline]
    // The load is one that needs no alignment.
    #[allow(clippy::cast_ptr_alignment)]
    unsafe fn step(source: *const u8) -> (u32, u32) {
        // SAFETY: as the caller promises. SSE2 is part of x86_64.
        unsafe {
            let bytes = _mm_loadu_si128(source.cast::<__m128i>());
            // Unsigned x <= 31 is min(x, 31) == x.
            let controls = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
            let quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x22));
            let slashes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x5c));
            let special = _mm_or_si128(controls, _mm_or_si128(quotes, slashes));
            let high = _mm_movemask_epi8(bytes).cast_unsigned();
            (_mm_movemask_epi8(special).cast_unsigned(), high)
        }
    }

    /// [`super::scan`], 16 bytes at a time.
    ///
    /// # Safety
    /// `bytes` has at least 16 of them.
    #[inline]
    pub unsafe fn scan(bytes: &[u8], start: usize) -> Scan {
        let len = bytes.len();
        let mut at = start;
        let mut high = 0;
        while at + 16 <= len {
            // SAFETY: the loop condition.
            let (special, not_ascii) = unsafe { step(bytes.as_ptr().add(at)) };
            if special != 0 {
                // The bits below the lowest set one.
                high |= not_ascii & (special ^ (special - 1)) >> 1;
                return Scan { end: at + special.trailing_zeros() as usize, ascii: high == 0 };
            }
            high |= not_ascii;
            at += 16;
        }
        if at >= len {
            return Scan { end: len, ascii: high == 0 };
        }
        // The last bytes are in the last vector, which begins before them.
        let back = len - 16;
        // SAFETY: there are at least 16 bytes, of which these are the last.
        let (special, not_ascii) = unsafe { step(bytes.as_ptr().add(back)) };
        let (special, not_ascii) = (special >> (at - back), not_ascii >> (at - back));
        if special == 0 {
            return Scan { end: len, ascii: (high | not_ascii) == 0 };
        }
        high |= not_ascii & (special ^ (special - 1)) >> 1;
        Scan { end: at + special.trailing_zeros() as usize, ascii: high == 0 }
    }
}

/// Resolves the string whose text begins at `start`, and of which `first` is the clean beginning.
/// The text is put into `out`, in place of what was there. The answer: where the closing quote
/// stands, and whether the text is ASCII. (Whether it is UTF-8 is not asked.)
pub fn unescape(
    bytes: &[u8],
    start: usize,
    first: Scan,
    out: &mut Vec<u8>,
) -> Result<Scan, BadString> {
    out.clear();
    let (mut start, mut clean, mut ascii) = (start, first, true);
    loop {
        out.extend_from_slice(&bytes[start..clean.end]);
        ascii &= clean.ascii;
        match bytes.get(clean.end) {
            Some(b'"') => return Ok(Scan { end: clean.end, ascii }),
            Some(b'\\') => {}
            Some(_) => return Err(BadString::new("a control character in a string", clean.end)),
            None => return Err(BadString::new("the string does not end", bytes.len())),
        }
        let at = clean.end;
        start = at + 2;
        let plain = match bytes.get(at + 1) {
            Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'b') => 0x08,
            Some(b'f') => 0x0c,
            Some(b'u') => {
                let (code, end) = code_point(bytes, at)?;
                ascii &= code.is_ascii();
                out.extend_from_slice(code.encode_utf8(&mut [0; 4]).as_bytes());
                start = end;
                clean = scan(bytes, start);
                continue;
            }
            Some(_) => return Err(BadString::new("an escape that JSON does not have", at)),
            None => return Err(BadString::new("the string does not end", bytes.len())),
        };
        out.push(plain);
        clean = scan(bytes, start);
    }
}

/// The character of the `\u` escape at `at`, or of the two that make a surrogate pair, and where
/// they end. Half a pair is no character, and there is no UTF-8 for it.
fn code_point(bytes: &[u8], at: usize) -> Result<(char, usize), BadString> {
    let lone = || BadString::new("half a surrogate pair", at);
    let unit = hex4(bytes, at + 2)?;
    if let Some(code) = char::from_u32(unit) {
        return Ok((code, at + 6));
    }
    if unit >= 0xdc00 || bytes.get(at + 6..at + 8) != Some(b"\\u") {
        return Err(lone());
    }
    let low = hex4(bytes, at + 8)?;
    if !(0xdc00..0xe000).contains(&low) {
        return Err(lone());
    }
    let code = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    Ok((char::from_u32(code).ok_or_else(lone)?, at + 12))
}

fn hex4(bytes: &[u8], at: usize) -> Result<u32, BadString> {
    let mut value = 0;
    for at in at..at + 4 {
        match bytes.get(at).map(|&byte| char::from(byte).to_digit(16)) {
            Some(Some(digit)) => value = value << 4 | digit,
            Some(None) => return Err(BadString::new("four hexadecimal digits are needed", at)),
            None => return Err(BadString::new("the string does not end", bytes.len())),
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The oracle: a byte at a time.
    fn slow(bytes: &[u8], start: usize) -> Scan {
        let special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
        let clean = bytes[start..].iter().take_while(|&&byte| !special(byte)).count();
        Scan { end: start + clean, ascii: bytes[start..start + clean].is_ascii() }
    }

    #[test]
    fn every_byte_at_every_place() {
        for byte in 0..=255u8 {
            for before in 0..36 {
                for after in [0, 1, 7, 8, 15, 16, 17] {
                    let bytes = [vec![b'a'; before], vec![byte], vec![b'"'; after]].concat();
                    for start in [0, before / 2, before] {
                        assert_eq!(scan(&bytes, start), slow(&bytes, start), "{bytes:?}");
                        assert_eq!(scan_words(&bytes, start), slow(&bytes, start), "{bytes:?}");
                    }
                }
            }
        }
        assert_eq!(scan(b"", 0), Scan { end: 0, ascii: true });
    }

    #[test]
    fn what_comes_after_the_end_does_not_count() {
        for len in 0..40 {
            let bytes =
                ["a".repeat(len).as_bytes(), b"\"\xff\xff\xff\xff\xff\xff\xff\xff"].concat();
            assert_eq!(scan(&bytes, 0), Scan { end: len, ascii: true });
            assert_eq!(scan_words(&bytes, 0), Scan { end: len, ascii: true });
        }
    }

    fn text(json: &str) -> Result<(String, bool), BadString> {
        let mut out = b"old".to_vec();
        let scan = unescape(json.as_bytes(), 0, scan(json.as_bytes(), 0), &mut out)?;
        assert_eq!(scan.end, json.len() - 1);
        Ok((String::from_utf8(out).unwrap(), scan.ascii))
    }

    #[test]
    fn escapes() {
        let ascii = |text: &str| Ok((text.to_owned(), true));
        let other = |text: &str| Ok((text.to_owned(), false));
        assert_eq!(text("\""), ascii(""));
        assert_eq!(text(r#"a\"b\\c\/d\b\f\n\r\te""#), ascii("a\"b\\c/d\u{8}\u{c}\n\r\te"));
        assert_eq!(text(r#"\u0041\u00e9\u6F22""#), other("Aé漢"));
        assert_eq!(text(r#"\u0000\u007f""#), ascii("\0\u{7f}"));
        assert_eq!(text(r#"\ud83c\udf78!""#), other("🍸!"));
        assert_eq!(text(r#"\uDBFF\uDFFF""#), other("\u{10ffff}"));
        assert_eq!(text(r#"ç\n""#), other("ç\n"));
    }

    #[test]
    fn what_is_no_string() {
        let bad = |json: &str| text(json).unwrap_err();
        for lone in
            [r#"\ud83d""#, r#"\udf78""#, r#"\ud83d\n""#, r#"\ud83d\ud83d""#, r#"\ud83dx\udf78""#]
        {
            assert_eq!(bad(lone), BadString { reason: "half a surrogate pair", at: 0 }, "{lone}");
        }
        for open in ["", "a", "\\", "\\u", "\\u00", "\\ud83d\\u", "\\ud83d\\udf7"] {
            assert_eq!(bad(open), BadString { reason: "the string does not end", at: open.len() });
        }
        assert_eq!(bad("ab\x1f\"").at, 2);
        assert_eq!(bad("ab\\x\"").at, 2);
        assert_eq!(bad("\\u00g0\"").at, 4);
        assert_eq!(bad("\\u+123\"").at, 2);
    }
}
