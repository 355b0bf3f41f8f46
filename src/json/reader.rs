//! JSON text (RFC 8259) to Python values, as strictly as the grammar reads: no NaN, no byte order
//! mark, no half surrogate pairs, UTF-8 throughout. Of keys that occur twice in an object the last
//! wins, as in pydantic and in Python's json.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use std::borrow::Cow;

use super::MAX_DEPTH;
use super::pool::Workspace;
use super::unescape::{self, Scan};
use crate::capi;
use crate::event::{EventType, Unsupported};

/// Why reading stopped. The details are in [`Reader::trouble`], so that results stay small.
#[derive(Debug)]
pub struct ReadError;

/// What is wrong with a document.
#[derive(Debug)]
pub enum Trouble {
    /// It is no JSON, or deeper than the limit.
    Syntax { reason: Cow<'static, str>, at: usize },
    /// It is JSON, but not exactly what the class declares: pydantic decides.
    Unsupported,
    /// Python failed: it is out of memory, say.
    Python(PyErr),
}

pub type Read<'py> = Result<Bound<'py, PyAny>, ReadError>;

impl From<Unsupported> for ReadError {
    fn from(Unsupported: Unsupported) -> Self {
        Self
    }
}

/// What an event says of its own type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeField {
    Absent,
    NotAString,
    Known(EventType),
    Unknown,
}

/// A document, read from the front.
pub struct Reader<'a, 'py> {
    pub py: Python<'py>,
    pub bytes: &'a [u8],
    /// Where the reading is.
    pub at: usize,
    depth: u32,
    pub workspace: &'a mut Workspace,
    /// The elements of the arrays that are being read, those of the innermost last.
    pub items: Vec<Bound<'py, PyAny>>,
    /// Why the reading stopped, once it has. [`Trouble::Unsupported`] if nobody says otherwise.
    pub trouble: Trouble,
    /// The last `type` of the object on the first level.
    pub event_type: TypeField,
}

/// The bytes of a string, where it has no escapes.
#[derive(Clone, Copy)]
pub struct Plain<'a> {
    pub text: &'a [u8],
    start: usize,
    pub ascii: bool,
}

impl<'a, 'py> Reader<'a, 'py> {
    pub fn new(py: Python<'py>, bytes: &'a [u8], workspace: &'a mut Workspace) -> Self {
        Self {
            py,
            bytes,
            at: 0,
            depth: 0,
            workspace,
            items: Vec::new(),
            trouble: Trouble::Unsupported,
            event_type: TypeField::Absent,
        }
    }

    /// From the front again.
    pub fn restart(&mut self) {
        self.at = 0;
        self.depth = 0;
        self.items.clear();
        self.trouble = Trouble::Unsupported;
        self.event_type = TypeField::Absent;
    }

    #[cold]
    pub fn syntax(&mut self, reason: impl Into<Cow<'static, str>>, at: usize) -> ReadError {
        self.trouble = Trouble::Syntax { reason: reason.into(), at };
        ReadError
    }

    #[cold]
    pub fn python(&mut self, error: PyErr) -> ReadError {
        self.trouble = Trouble::Python(error);
        ReadError
    }

    /// Whether there is this byte at the place reached.
    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    pub fn at_string(&self) -> bool {
        self.peek() == Some(b'"')
    }

    #[inline]
    pub fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// One document: the value, and nothing but white space around it.
    #[inline]
    pub fn document(&mut self, read: impl FnOnce(&mut Self) -> Read<'py>) -> Read<'py> {
        self.skip_space();
        let value = read(self)?;
        self.skip_space();
        if self.at < self.bytes.len() {
            return Err(self.syntax("something follows the JSON document", self.at));
        }
        Ok(value)
    }

    /// Any value, of which the first byte is at hand.
    pub fn value(&mut self) -> Read<'py> {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true", |py| PyBool::new(py, true).to_owned().into_any()),
            Some(b'f') => self.word(b"false", |py| PyBool::new(py, false).to_owned().into_any()),
            Some(b'n') => self.word(b"null", |py| py.None().into_bound(py)),
            _ => Err(self.no_value()),
        }
    }

    #[cold]
    fn no_value(&mut self) -> ReadError {
        let rest = &self.bytes[self.at..];
        let reason = match rest {
            [] if self.at == 0 => "the document is empty".into(),
            [] => "the document ends where a value should be".into(),
            [0xef, 0xbb, 0xbf, ..] if self.at == 0 => "a byte order mark is no JSON".into(),
            _ if rest.starts_with(b"NaN") || rest.starts_with(b"Infinity") => {
                "NaN and Infinity are no JSON".into()
            }
            [byte, ..] => Cow::Owned(format!("{} where a value should be", shown(*byte))),
        };
        self.syntax(reason, self.at)
    }

    #[inline]
    fn word(
        &mut self,
        word: &'static [u8],
        value: impl FnOnce(Python<'py>) -> Bound<'py, PyAny>,
    ) -> Read<'py> {
        if !self.bytes[self.at..].starts_with(word) {
            let same = self.bytes[self.at..].iter().zip(word).take_while(|(a, b)| a == b).count();
            return Err(self.syntax("no value begins like this", self.at + same));
        }
        self.at += word.len();
        Ok(value(self.py))
    }

    /// One level deeper.
    #[inline]
    pub fn enter(&mut self) -> Result<(), ReadError> {
        if self.depth == MAX_DEPTH {
            return Err(self.syntax(format!("nested deeper than {MAX_DEPTH} levels"), self.at));
        }
        self.depth += 1;
        Ok(())
    }

    /// Goes into the array or object at hand. The answer is whether it has anything.
    #[inline]
    pub fn open(&mut self, close: u8) -> Result<bool, ReadError> {
        self.enter()?;
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(close) {
            self.close();
            return Ok(false);
        }
        Ok(true)
    }

    #[inline]
    fn close(&mut self) {
        self.at += 1;
        self.depth -= 1;
    }

    /// Passes what follows an element. The answer is whether there is another one.
    #[inline]
    pub fn another(&mut self, close: u8) -> Result<bool, ReadError> {
        let mut next = self.peek();
        if next != Some(b',') && next != Some(close) {
            self.skip_space();
            next = self.peek();
        }
        if next == Some(b',') {
            self.at += 1;
            self.skip_space();
            return Ok(true);
        }
        if next == Some(close) {
            self.close();
            return Ok(false);
        }
        Err(self.no_comma(close))
    }

    #[cold]
    fn no_comma(&mut self, close: u8) -> ReadError {
        let reason = match self.peek() {
            None => format!("the document ends inside {}", container(close)),
            Some(byte) => format!("{} where ',' or {} should be", shown(byte), shown(close)),
        };
        self.syntax(reason, self.at)
    }

    /// Passes the colon after a key.
    #[inline]
    pub fn colon(&mut self) -> Result<(), ReadError> {
        if self.peek() != Some(b':') {
            self.skip_space();
            if self.peek() != Some(b':') {
                return Err(self.syntax("a ':' should follow the key", self.at));
            }
        }
        self.at += 1;
        self.skip_space();
        Ok(())
    }

    #[inline(never)]
    fn array(&mut self) -> Read<'py> {
        Ok(self.list(Self::value)?.into_any())
    }

    /// The array at hand, as a list of what `element` reads.
    #[inline]
    pub fn list(
        &mut self,
        element: impl Fn(&mut Self) -> Read<'py>,
    ) -> Result<Bound<'py, PyList>, ReadError> {
        let first = self.items.len();
        if self.open(b']')? {
            loop {
                let value = element(self)?;
                self.items.push(value);
                if !self.another(b']')? {
                    break;
                }
            }
        }
        capi::list_from(self.py, &mut self.items, first).map_err(|error| self.python(error))
    }

    /// An object as a dict.
    #[inline(never)]
    fn object(&mut self) -> Read<'py> {
        let dict = PyDict::new(self.py);
        if self.open(b'}')? {
            loop {
                let key = self.key()?;
                self.colon()?;
                let value = self.value()?;
                dict.set_item(&key, &value).map_err(|error| self.python(error))?;
                if !self.another(b'}')? {
                    break;
                }
            }
        }
        Ok(dict.into_any())
    }

    /// The key at hand, as an object that is shared between documents.
    #[inline]
    pub fn key(&mut self) -> Result<Bound<'py, PyString>, ReadError> {
        let Some([b'"', rest @ ..]) = self.bytes.get(self.at..) else {
            return Err(self.no_key());
        };
        let mut len = 0;
        let expected = self.workspace.keys.expected(self.py, |key| {
            len = key.len();
            rest.get(len) == Some(&b'"') && capi::same_bytes(key, &rest[..len])
        });
        match expected {
            Some(key) => {
                self.at += len + 2;
                Ok(key)
            }
            None => self.other_key(),
        }
    }

    #[inline(never)]
    fn other_key(&mut self) -> Result<Bound<'py, PyString>, ReadError> {
        match self.plain() {
            Some(Plain { text, ascii: true, .. }) => {
                let key = self.workspace.keys.get(self.py, text);
                key.map_err(|error| self.python(error))
            }
            Some(Plain { text, start, .. }) => {
                let key = self.wide(start, start + text.len())?;
                key.cast_into().map_err(|_| ReadError)
            }
            None => self.odd_key(),
        }
    }

    #[cold]
    fn odd_key(&mut self) -> Result<Bound<'py, PyString>, ReadError> {
        let key = self.string()?;
        // The registry's own object, should an escape spell one of the protocol's keys.
        let key = key.cast_into::<PyString>().map_err(|_| ReadError)?;
        match capi::text(&key) {
            capi::Text::Ascii(text) => {
                self.workspace.keys.get(self.py, text).map_err(|error| self.python(error))
            }
            _ => Ok(key),
        }
    }

    #[cold]
    fn no_key(&mut self) -> ReadError {
        let reason = match self.peek() {
            None => "the document ends inside an object".into(),
            Some(byte) => format!("{} where a key should be", shown(byte)),
        };
        self.syntax(reason, self.at)
    }

    /// The string at hand, if it has no escapes. Otherwise nothing is passed.
    #[inline]
    pub fn plain(&mut self) -> Option<Plain<'a>> {
        let start = self.at + 1;
        let Scan { end, ascii } = unescape::scan(self.bytes, start);
        if self.bytes.get(end) == Some(&b'"') {
            self.at = end + 1;
            return Some(Plain { text: &self.bytes[start..end], start, ascii });
        }
        None
    }

    /// The string at hand.
    #[inline]
    pub fn string(&mut self) -> Read<'py> {
        let start = self.at + 1;
        let first = unescape::scan(self.bytes, start);
        if self.bytes.get(first.end) == Some(&b'"') {
            self.at = first.end + 1;
            let text = &self.bytes[start..first.end];
            return if first.ascii {
                capi::ascii_str(self.py, text).map_err(|error| self.python(error))
            } else {
                self.wide(start, first.end)
            };
        }
        self.escaped(start, first)
    }

    /// A string that is not ASCII, between these two places.
    fn wide(&mut self, start: usize, end: usize) -> Read<'py> {
        let text = &self.bytes[start..end];
        if std::str::from_utf8(text).is_err() {
            return Err(self.not_utf8(start, end));
        }
        capi::utf8_str(self.py, text).map_err(|error| self.python(error))
    }

    #[cold]
    fn not_utf8(&mut self, start: usize, end: usize) -> ReadError {
        let valid = self.bytes[start..end].utf8_chunks().next().map_or(0, |it| it.valid().len());
        self.syntax("bytes that are no UTF-8", start + valid)
    }

    #[inline(never)]
    fn escaped(&mut self, start: usize, first: Scan) -> Read<'py> {
        let scratch = &mut self.workspace.scratch;
        let whole = match unescape::unescape(self.bytes, start, first, scratch) {
            Ok(whole) => whole,
            Err(bad) => return Err(self.syntax(bad.reason, bad.at)),
        };
        let string = if whole.ascii {
            capi::ascii_str(self.py, scratch)
        } else if std::str::from_utf8(scratch).is_ok() {
            capi::utf8_str(self.py, scratch)
        } else {
            return Err(self.not_utf8(start, whole.end));
        };
        let string = string.map_err(|error| self.python(error))?;
        self.at = whole.end + 1;
        Ok(string)
    }

    /// The number at hand: an int unless it has a fraction or an exponent.
    fn number(&mut self) -> Read<'py> {
        let start = self.at;
        let negative = self.peek() == Some(b'-');
        self.at += usize::from(negative);
        let first = self.at;
        let value = self.digits(0);
        let digits = self.at - first;
        if digits == 0 {
            return Err(self.syntax("a digit should follow the minus sign", self.at));
        }
        if digits > 1 && self.bytes[first] == b'0' {
            return Err(self.syntax("a number with a leading zero", first));
        }
        match self.peek() {
            Some(b'.') => return self.fraction(start, value, digits),
            Some(b'e' | b'E') => return self.float(start),
            _ => {}
        }
        if digits < 19 {
            let value = value.cast_signed();
            let value = if negative { -value } else { value };
            return match value.into_pyobject(self.py) {
                Ok(int) => Ok(int.into_any()),
                Err(never) => match never {},
            };
        }
        let text = self.number_text(start);
        let int = self.py.get_type::<PyInt>().call1((text,));
        int.map_err(|_| {
            let reason = format!("an integer of {digits} digits, which is more than Python reads");
            self.syntax(reason, start)
        })
    }

    /// A number with a point, of which the digits before it are read. Nearly all have few enough
    /// digits for an exact way (W. D. Clinger, "How to read floating point numbers accurately"): the
    /// integer that the digits make and the power of ten are doubles both, and so their quotient is
    /// rounded once.
    fn fraction(&mut self, start: usize, integer: u64, integer_digits: usize) -> Read<'py> {
        const POWERS: [f64; 20] = [
            1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
            1e16, 1e17, 1e18, 1e19,
        ];
        self.at += 1;
        let first = self.at;
        let digits = self.digits(integer);
        let places = self.at - first;
        if places == 0 {
            return Err(self.no_digit());
        }
        let exact = integer_digits + places <= 19 && digits <= 1 << 53;
        if exact && !matches!(self.peek(), Some(b'e' | b'E')) {
            let value = digits as f64 / POWERS[places];
            let value = if self.bytes[start] == b'-' { -value } else { value };
            return Ok(PyFloat::new(self.py, value).into_any());
        }
        self.float(start)
    }

    /// A number that is read up to its exponent, or to its end.
    fn float(&mut self, start: usize) -> Read<'py> {
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            let first = self.at;
            self.digits(0);
            if self.at == first {
                return Err(self.no_digit());
            }
        }
        // Correctly rounded; what is too large is infinite, as it is for pydantic and json.
        match self.number_text(start).parse::<f64>() {
            Ok(value) => Ok(PyFloat::new(self.py, value).into_any()),
            Err(_) => Err(self.syntax("no number", start)),
        }
    }

    /// Passes the digits at hand. The answer is the number that they make behind those of `value`,
    /// which is wrong after 19 digits, and then not used.
    #[inline]
    fn digits(&mut self, mut value: u64) -> u64 {
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            self.at += 1;
        }
        value
    }

    #[cold]
    fn no_digit(&mut self) -> ReadError {
        self.syntax("a number needs a digit here", self.at)
    }

    /// What was passed since `start`, which is ASCII.
    fn number_text(&self, start: usize) -> &'a str {
        std::str::from_utf8(&self.bytes[start..self.at]).unwrap_or_default()
    }
}

fn container(close: u8) -> &'static str {
    if close == b'}' { "an object" } else { "an array" }
}

/// A byte for a message.
fn shown(byte: u8) -> String {
    if byte.is_ascii_graphic() {
        format!("'{}'", char::from(byte))
    } else {
        format!("byte {byte:#04x}")
    }
}
