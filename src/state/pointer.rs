//! JSON Pointer (RFC 6901), on bytes.
//!
//! Bytes, because a Python str may hold lone surrogates and a pointer must still reach such a key:
//! whoever calls passes UTF-8, in which they may stand as three bytes each. `/` and `~` are never
//! part of a longer sequence there.

use std::borrow::Cow;

/// Why a text is no JSON Pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Neither empty nor with a slash in front.
    NoSlash,
    /// A tilde that is neither `~0` nor `~1`.
    Tilde,
}

impl Malformed {
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NoSlash => "a JSON Pointer is empty or starts with a slash (RFC 6901)",
            Self::Tilde => "a tilde in a JSON Pointer is written ~0, a slash ~1 (RFC 6901)",
        }
    }
}

/// The reference tokens of a pointer, still escaped. The empty pointer, the whole document, has none.
///
/// # Errors
/// A text that the grammar of RFC 6901 section 3 does not produce.
pub fn tokens(pointer: &[u8]) -> Result<impl Iterator<Item = &[u8]>, Malformed> {
    if !matches!(pointer, [] | [b'/', ..]) {
        return Err(Malformed::NoSlash);
    }
    for at in memchr::memchr_iter(b'~', pointer) {
        if !matches!(pointer.get(at + 1), Some(b'0' | b'1')) {
            return Err(Malformed::Tilde);
        }
    }
    // Before the first slash there is nothing, which is not a token.
    Ok(pointer.split(|&byte| byte == b'/').skip(1))
}

/// The text that a token stands for (section 4): first `~1`, then `~0`, so that `~01` is `~1`.
pub fn unescape(token: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'~', token).is_none() {
        return Cow::Borrowed(token);
    }
    let mut text = Vec::with_capacity(token.len());
    let mut rest = token.iter();
    while let Some(&byte) = rest.next() {
        text.push(match byte {
            b'~' => match rest.next() {
                Some(b'1') => b'/',
                _ => b'~',
            },
            byte => byte,
        });
    }
    Cow::Owned(text)
}

/// Appends a slash and the token for `text`.
pub fn push(pointer: &mut Vec<u8>, text: &[u8]) {
    pointer.push(b'/');
    let mut from = 0;
    for at in memchr::memchr2_iter(b'~', b'/', text) {
        pointer.extend_from_slice(&text[from..at]);
        pointer.extend_from_slice(if text[at] == b'~' { b"~0" } else { b"~1" });
        from = at + 1;
    }
    pointer.extend_from_slice(&text[from..]);
}

/// Appends a slash and the token for an array index.
pub fn push_index(pointer: &mut Vec<u8>, index: usize) {
    pointer.push(b'/');
    pointer.extend_from_slice(itoa::Buffer::new().format(index).as_bytes());
}

/// The array index that a token names: `0 / ( %x31-39 *(%x30-39) )`, ASCII digits and nothing else.
/// An index that no array reaches is `usize::MAX`.
pub fn index(token: &[u8]) -> Option<usize> {
    match token {
        [b'0'] => Some(0),
        [b'1'..=b'9', rest @ ..] if rest.iter().all(u8::is_ascii_digit) => Some(
            token
                .iter()
                .try_fold(0_usize, |index, digit| {
                    index.checked_mul(10)?.checked_add(usize::from(digit - b'0'))
                })
                .unwrap_or(usize::MAX),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pointer: &str) -> Result<Vec<String>, Malformed> {
        let tokens = tokens(pointer.as_bytes())?;
        Ok(tokens.map(|token| String::from_utf8(unescape(token).into_owned()).unwrap()).collect())
    }

    #[test]
    fn the_examples_of_rfc_6901() {
        for (pointer, expected) in [
            ("", vec![]),
            ("/foo", vec!["foo"]),
            ("/foo/0", vec!["foo", "0"]),
            ("/", vec![""]),
            ("/a~1b", vec!["a/b"]),
            ("/c%d", vec!["c%d"]),
            ("/e^f", vec!["e^f"]),
            ("/g|h", vec!["g|h"]),
            ("/i\\j", vec!["i\\j"]),
            ("/k\"l", vec!["k\"l"]),
            ("/ ", vec![" "]),
            ("/m~0n", vec!["m~n"]),
            ("/~01", vec!["~1"]),
            ("/~10/", vec!["/0", ""]),
        ] {
            assert_eq!(read(pointer), Ok(expected.iter().map(|&token| token.to_owned()).collect()));
        }
    }

    #[test]
    fn what_is_no_pointer() {
        for pointer in ["a", "#/a", "~0", " /a"] {
            assert_eq!(read(pointer), Err(Malformed::NoSlash), "{pointer}");
        }
        for pointer in ["/~2", "/a~", "/~~0", "/~", "/~a/b"] {
            assert_eq!(read(pointer), Err(Malformed::Tilde), "{pointer}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for text in ["", "a", "/", "~", "~1", "a/b~c//~~", "ü/漢"] {
            let mut pointer = Vec::new();
            push(&mut pointer, text.as_bytes());
            push_index(&mut pointer, 10);
            let pointer = String::from_utf8(pointer).unwrap();
            assert_eq!(read(&pointer), Ok(vec![text.to_owned(), "10".to_owned()]));
        }
    }

    #[test]
    fn indices() {
        for (token, expected) in
            [("0", 0), ("7", 7), ("10", 10), ("99999999999999999999", usize::MAX)]
        {
            assert_eq!(index(token.as_bytes()), Some(expected));
        }
        for token in ["", "-", "01", "00", "+1", "-1", "1.0", "1e0", " 1", "1 ", "1_0", "١", "a"] {
            assert_eq!(index(token.as_bytes()), None, "{token}");
        }
    }
}
