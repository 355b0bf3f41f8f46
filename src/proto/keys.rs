//! The keys of payload objects, which repeat: two hundred records of a snapshot have one set.

use pyo3::prelude::*;

use crate::capi;

/// Objects for keys that occurred before in the same event. It lives no longer than the decoding
/// of that event, so that no stream can fill a process with its keys.
#[derive(Default)]
pub struct KeyCache<'py> {
    slots: Option<Box<[Slot<'py>; SLOTS]>>,
    asked: u32,
}

type Slot<'py> = Option<(Words, Bound<'py, PyAny>)>;

/// As many as a byte tells apart. A snapshot with more keys than this repeats each less often.
const SLOTS: usize = 256;
/// Small objects, as most `metadata` are, do not repeat a key and are not worth the table.
const WITHOUT: u32 = 8;

impl<'py> KeyCache<'py> {
    /// The str of a key, `None` if it is not ASCII.
    #[inline]
    pub fn get(&mut self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(slots) = &mut self.slots else { return self.one_of_few(py, key) };
        let Some(words) = Words::of(key) else { return ascii(py, key) };
        // In its own place, or in the neighbour's, when two keys have one place.
        let own = words.hash();
        for at in [own, own ^ 1] {
            if let Some((known, string)) = &slots[usize::from(at)]
                && *known == words
            {
                return Ok(Some(string.clone()));
            }
        }
        let string = ascii(py, key)?;
        if let Some(string) = &string {
            let at = if slots[usize::from(own)].is_none() { own } else { own ^ 1 };
            slots[usize::from(at)] = Some((words, string.clone()));
        }
        Ok(string)
    }

    #[inline(never)]
    fn one_of_few(&mut self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.asked += 1;
        if self.asked == WITHOUT {
            self.slots = Some(Box::new([const { None }; SLOTS]));
        }
        ascii(py, key)
    }
}

fn ascii<'py>(py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyAny>>> {
    if key.is_ascii() { capi::ascii_str(py, key).map(Some) } else { Ok(None) }
}

/// A key of at most sixteen bytes in a form that is compared in two steps: its first and last
/// eight bytes, which overlap in a shorter one, and its length. Longer keys are seldom names.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Words {
    first: u64,
    last: u64,
    len: usize,
}

impl Words {
    #[inline]
    fn of(key: &[u8]) -> Option<Self> {
        let len = key.len();
        if len > 16 {
            return None;
        }
        let (first, last) = match (key.first_chunk::<8>(), key.last_chunk::<8>()) {
            (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
            _ => match (key.first_chunk::<4>(), key.last_chunk::<4>()) {
                (Some(first), Some(last)) => {
                    (u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into())
                }
                // Three bytes at most: the first, the middle one and the last.
                _ => match (key.first(), key.get(len / 2), key.last()) {
                    (Some(&first), Some(&middle), Some(&last)) => {
                        (u32::from_le_bytes([first, middle, last, 0]).into(), 0)
                    }
                    _ => (0, 0),
                },
            },
        };
        Some(Self { first, last, len })
    }

    #[inline]
    fn hash(self) -> u8 {
        let mixed = self.first.rotate_left(29) ^ self.last ^ self.len as u64;
        mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_tell_all_keys_apart() {
        let text: Vec<u8> = (b'a'..=b'z').collect();
        let mut seen = Vec::new();
        for len in 0..=16 {
            let words = Words::of(&text[..len]).unwrap();
            assert!(!seen.contains(&words));
            seen.push(words);
            for at in 0..len {
                let mut other = text[..len].to_vec();
                other[at] ^= 1;
                assert!(Words::of(&other) != Some(words), "{len} {at}");
            }
        }
        assert!(Words::of(&text[..17]).is_none());
    }
}
