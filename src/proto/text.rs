//! The code points of a str as UTF-8, without the copy that CPython would keep in the str.

use crate::json::LoneSurrogate;

/// How many bytes the code points take in UTF-8.
#[inline]
pub fn utf8_len<T: Copy + Into<u32>>(points: &[T]) -> Result<usize, LoneSurrogate> {
    let mut len = points.len();
    let mut surrogates = 0;
    // Without a branch, so that many are counted at once.
    for &point in points {
        let point = point.into();
        len += usize::from(point > 0x7f) + usize::from(point > 0x7ff) + usize::from(point > 0xffff);
        surrogates += usize::from(point & !0x7ff == 0xd800);
    }
    if surrogates == 0 { Ok(len) } else { Err(LoneSurrogate) }
}

/// Writes the code points, of which none is a surrogate, into a place of the size that they take.
pub fn write_utf8<T: Copy + Into<u32>>(mut out: &mut [u8], points: &[T]) {
    for &point in points {
        let char = char::from_u32(point.into()).unwrap_or(char::REPLACEMENT_CHARACTER);
        let len = char.encode_utf8(out).len();
        out = &mut out[len..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_point() {
        for point in 0..=0x0010_ffff_u32 {
            let len = utf8_len(&[point]);
            match char::from_u32(point) {
                Some(char) => {
                    let mut out = vec![0; len.unwrap()];
                    write_utf8(&mut out, &[point]);
                    assert_eq!(out, char.to_string().as_bytes());
                }
                None => assert_eq!(len, Err(LoneSurrogate)),
            }
        }
    }

    #[test]
    fn mixed_text() {
        let text = "a\u{e9}\u{20ac}\u{1f378}z";
        let points: Vec<u32> = text.chars().map(u32::from).collect();
        assert_eq!(utf8_len(&points), Ok(text.len()));
        let mut out = vec![0; text.len()];
        write_utf8(&mut out, &points);
        assert_eq!(out, text.as_bytes());
    }
}
