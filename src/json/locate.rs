//! Finding a place in a JSON text without reading what is before it: for the tag that tells which
//! class an object is of, and for the byte at which an error is reported. Nothing is judged here:
//! on malformed text the answer is some place or none, and reading finds the fault.

use super::unescape;

/// Passes white space.
fn space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(at) {
        at += 1;
    }
    at
}

/// Where the string at `at` ends, and its closing quote with it.
#[inline]
fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut end = unescape::scan(bytes, at + 1).end;
    while *bytes.get(end)? != b'"' {
        // An escape, or a control character.
        end = unescape::scan(bytes, end + if bytes[end] == b'\\' { 2 } else { 1 }).end;
    }
    Some(end + 1)
}

/// Where the value at `at` ends.
fn value_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0usize;
    loop {
        match bytes.get(at)? {
            b'"' => at = string_end(bytes, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                at += 1;
            }
            _ => at += 1,
        }
        if depth == 0 && matches!(bytes.get(at)?, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t')
        {
            return Some(at);
        }
    }
}

/// Where the members of the object at `at` stand, in order: their keys, as they are spelled, and
/// where their values begin. `visit` says whether to go on.
fn members<'a>(
    bytes: &'a [u8],
    at: usize,
    mut visit: impl FnMut(&'a [u8], usize) -> bool,
) -> Option<()> {
    let mut at = space(bytes, at + 1);
    while *bytes.get(at)? == b'"' {
        let end = string_end(bytes, at)?;
        let colon = space(bytes, end);
        if *bytes.get(colon)? != b':' {
            return None;
        }
        let value = space(bytes, colon + 1);
        if !visit(&bytes[at + 1..end - 1], value) {
            break;
        }
        let after = space(bytes, value_end(bytes, value)?);
        if *bytes.get(after)? != b',' {
            break;
        }
        at = space(bytes, after + 1);
    }
    Some(())
}

/// The first value under `key` (which has no character to escape) in the object at `at`, if it is a
/// string without escapes.
#[inline]
pub fn first_text<'a>(bytes: &'a [u8], at: usize, key: &[u8]) -> Option<&'a [u8]> {
    let mut found = None;
    members(bytes, at, |name, value| {
        if name == key {
            found = Some(value);
        }
        found.is_none()
    });
    let start = found?;
    if *bytes.get(start)? != b'"' {
        return None;
    }
    let end = unescape::scan(bytes, start + 1).end;
    (*bytes.get(end)? == b'"').then(|| &bytes[start + 1..end])
}

/// Where the last value under `key` begins, in the object at `at`.
#[cold]
pub fn member(bytes: &[u8], at: usize, key: &[u8]) -> Option<usize> {
    let mut found = None;
    if *bytes.get(at)? == b'{' {
        members(bytes, at, |name, value| {
            if name == key {
                found = Some(value);
            }
            true
        });
    }
    found
}

/// Where an element of the array at `at` begins.
#[cold]
pub fn element(bytes: &[u8], at: usize, index: usize) -> Option<usize> {
    if *bytes.get(at)? != b'[' {
        return None;
    }
    let mut at = space(bytes, at + 1);
    for _ in 0..index {
        at = space(bytes, value_end(bytes, at)?);
        if *bytes.get(at)? != b',' {
            return None;
        }
        at = space(bytes, at + 1);
    }
    Some(at)
}

/// Where the document begins, behind white space.
pub fn start(bytes: &[u8]) -> usize {
    space(bytes, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &[u8] =
        br#" {"a\\\"b" : {"type":"X,}]"}, "list":[1 ,[2,"]"], {"k":-1.5e3 }] ,"type" : "T" , "n":null,"list":[0]}"#;

    fn rest(at: Option<usize>) -> &'static str {
        at.map_or("", |at| std::str::from_utf8(&DOCUMENT[at..]).unwrap())
    }

    #[test]
    fn places() {
        let at = start(DOCUMENT);
        assert_eq!(at, 1);
        assert_eq!(first_text(DOCUMENT, at, b"type"), Some(b"T".as_slice()));
        assert_eq!(first_text(DOCUMENT, at, b"n"), None);
        assert_eq!(first_text(DOCUMENT, at, b"absent"), None);
        assert!(rest(member(DOCUMENT, at, b"n")).starts_with("null"));
        // The last of two.
        assert_eq!(rest(member(DOCUMENT, at, b"list")), "[0]}");
        let list = DOCUMENT.iter().position(|&byte| byte == b'[').unwrap();
        assert!(rest(element(DOCUMENT, list, 1)).starts_with("[2,"));
        let object = element(DOCUMENT, list, 2).unwrap();
        assert!(rest(member(DOCUMENT, object, b"k")).starts_with("-1.5e3"));
        assert_eq!(element(DOCUMENT, list, 3), None);
        assert_eq!(element(DOCUMENT, object, 0), None);
        assert_eq!(member(DOCUMENT, list, b"k"), None);
    }

    #[test]
    fn malformed_text_is_survived() {
        for end in 0..DOCUMENT.len() {
            for text in [&DOCUMENT[..end], &DOCUMENT[end..]] {
                first_text(text, 0, b"nothing");
                member(text, 0, b"nothing");
                element(text, 0, 7);
            }
        }
        for text in [
            "",
            "{",
            "{\"",
            "{\"a",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":\"\\",
            "{\"a\":]",
            "[",
            "[,",
            "[1",
        ] {
            first_text(text.as_bytes(), 0, b"a");
            element(text.as_bytes(), 0, 2);
        }
    }
}
