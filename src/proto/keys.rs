//! The keys of payload objects, which repeat: two hundred records of a snapshot have one set.

use pyo3::prelude::*;

use crate::capi;

/// Objects for keys that occurred before in the same event. It lives no longer than the decoding
/// of that event, so that no stream can fill a process with its keys.
#[derive(Default)]
pub struct KeyCache<'py> {
    slots: Vec<Option<(Words, Bound<'py, PyAny>)>>,
    asked: u32,
}

/// A power of two. A snapshot with more keys than this repeats each less often.
const SLOTS: usize = 256;
/// Small objects, as most `metadata` are, do not repeat a key and are not worth the table.
const WITHOUT: u32 = 8;

impl<'py> KeyCache<'py> {
    /// The str of an ASCII key.
    #[inline]
    pub fn get(&mut self, py: Python<'py>, key: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        self.asked += 1;
        if self.asked <= WITHOUT {
            return capi::ascii_str(py, key);
        }
        let Some(words) = Words::of(key) else { return capi::ascii_str(py, key) };
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, || None);
        }
        let slot = &mut self.slots[words.hash() % SLOTS];
        if let Some((known, string)) = slot
            && *known == words
        {
            return Ok(string.clone());
        }
        let string = capi::ascii_str(py, key)?;
        *slot = Some((words, string.clone()));
        Ok(string)
    }
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
                _ => (key.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)), 0),
            },
        };
        Some(Self { first, last, len })
    }

    #[inline]
    fn hash(self) -> usize {
        let mixed = self.first.rotate_left(29) ^ self.last ^ self.len as u64;
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize
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
