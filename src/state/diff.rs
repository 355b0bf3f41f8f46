//! From two documents to the patch that turns one into the other.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use std::collections::HashMap;

use super::copy::{Uncopied, deep_copy};
use super::document::{Kind, string, type_name, utf8};
use super::equal::{Uncompared, equal, hash};
use super::operation::Refusal;
use super::{pointer, sequence};
use crate::json::MAX_DEPTH;

/// Why there is no patch.
enum Failure {
    Here(String, Option<PyErr>),
    Python(PyErr),
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<Uncopied> for Failure {
    fn from(error: Uncopied) -> Self {
        let (reason, cause) = error.into_parts();
        Self::Here(reason, cause)
    }
}

impl From<Uncompared> for Failure {
    fn from(error: Uncompared) -> Self {
        let (reason, cause) = error.into_parts();
        Self::Here(reason, cause)
    }
}

type Found<T> = Result<T, Failure>;
type Values<'a, 'py> = &'a [Bound<'py, PyAny>];

/// How many levels a comparison goes down; what is deeper is replaced whole if it differs. So the
/// stack of a small thread suffices, whose every level here is some hundred bytes more than where
/// values are only compared.
const DESCENT: u32 = 64;

/// The comparison of two documents.
struct Comparison<'py> {
    py: Python<'py>,
    operations: Vec<Bound<'py, PyDict>>,
    /// The pointer to the pair at hand.
    path: Vec<u8>,
}

/// What became of the members of a container, or of a part of them.
#[derive(Clone, Copy, Default)]
struct Outcome {
    /// Members that stayed, or changed further down.
    kept: usize,
    /// Members that were added, removed or replaced whole.
    changed: usize,
}

impl std::ops::AddAssign for Outcome {
    fn add_assign(&mut self, other: Self) {
        self.kept += other.kept;
        self.changed += other.changed;
    }
}

impl<'py> Comparison<'py> {
    fn push(&mut self, op: &Bound<'py, PyString>, value: Option<&Bound<'py, PyAny>>) -> Found<()> {
        let py = self.py;
        let operation = PyDict::new(py);
        operation.set_item(intern!(py, "op"), op)?;
        operation.set_item(intern!(py, "path"), string(py, &self.path)?)?;
        if let Some(value) = value {
            operation.set_item(intern!(py, "value"), deep_copy(value, MAX_DEPTH)?)?;
        }
        self.operations.push(operation);
        Ok(())
    }

    fn add(&mut self, value: &Bound<'py, PyAny>) -> Found<()> {
        self.push(intern!(self.py, "add"), Some(value))
    }

    fn remove(&mut self) -> Found<()> {
        self.push(intern!(self.py, "remove"), None)
    }

    fn replace(&mut self, value: &Bound<'py, PyAny>) -> Found<()> {
        self.push(intern!(self.py, "replace"), Some(value))
    }

    /// Runs `compare` one token further down.
    fn below<T>(
        &mut self,
        push: impl FnOnce(&mut Vec<u8>),
        compare: impl FnOnce(&mut Self) -> Found<T>,
    ) -> Found<T> {
        let length = self.path.len();
        push(&mut self.path);
        let done = compare(self)?;
        // On a failure the path stays, to say where.
        self.path.truncate(length);
        Ok(done)
    }

    /// Brings one value to the other. Says whether something of it was kept.
    fn values(
        &mut self,
        before: &Bound<'py, PyAny>,
        after: &Bound<'py, PyAny>,
        room: u32,
    ) -> Found<bool> {
        if before.is(after) {
            return Ok(true);
        }
        let start = self.operations.len();
        let descend = room > MAX_DEPTH - DESCENT;
        let outcome = match (Kind::of(before), Kind::of(after)) {
            (Kind::Object(before), Kind::Object(after)) if descend => {
                self.objects(before, after, deeper(room)?)?
            }
            (Kind::Array(before), Kind::Array(after)) if descend => {
                self.arrays(before, after, deeper(room)?)?
            }
            _ if equal(before, after, room)? => return Ok(true),
            _ => {
                self.replace(after)?;
                return Ok(false);
            }
        };
        // Where nothing stayed, the new value alone says it shorter.
        if outcome.kept == 0 && outcome.changed > 1 {
            self.operations.truncate(start);
            self.replace(after)?;
            return Ok(false);
        }
        Ok(true)
    }

    fn objects(
        &mut self,
        before: &Bound<'py, PyDict>,
        after: &Bound<'py, PyDict>,
        room: u32,
    ) -> Found<Outcome> {
        let mut outcome = Outcome::default();
        for (key, value) in before.copy()? {
            let other = after.get_item(&key)?;
            let key = member(&key)?;
            self.below(
                |path| pointer::push(path, &key),
                |this| match other {
                    None => {
                        outcome.changed += 1;
                        this.remove()
                    }
                    Some(other) => {
                        let kept = this.values(&value, &other, room)?;
                        outcome += Outcome { kept: kept.into(), changed: (!kept).into() };
                        Ok(())
                    }
                },
            )?;
        }
        for (key, value) in after.copy()? {
            if before.contains(&key)? {
                continue;
            }
            let key = member(&key)?;
            outcome.changed += 1;
            self.below(|path| pointer::push(path, &key), |this| this.add(&value))?;
        }
        Ok(outcome)
    }

    fn arrays(
        &mut self,
        before: &Bound<'py, PyList>,
        after: &Bound<'py, PyList>,
        room: u32,
    ) -> Found<Outcome> {
        let before: Vec<_> = before.iter().collect();
        let after: Vec<_> = after.iter().collect();
        let shorter = before.len().min(after.len());
        let mut prefix = 0;
        while prefix < shorter && equal(&before[prefix], &after[prefix], room)? {
            prefix += 1;
        }
        let mut suffix = 0;
        while suffix < shorter - prefix
            && equal(&before[before.len() - 1 - suffix], &after[after.len() - 1 - suffix], room)?
        {
            suffix += 1;
        }
        let before = &before[prefix..before.len() - suffix];
        let after = &after[prefix..after.len() - suffix];
        let mut outcome = Outcome { kept: prefix + suffix, changed: 0 };
        let mut index = prefix;
        let (mut x, mut y) = (0, 0);
        for (next_x, next_y) in common(before, after, room)? {
            let (from, to) = (&before[x..next_x], &after[y..next_y]);
            outcome += self.gap(&mut index, from, to, room)?;
            outcome.kept += 1;
            index += 1;
            (x, y) = (next_x + 1, next_y + 1);
        }
        outcome += self.gap(&mut index, &before[x..], &after[y..], room)?;
        Ok(outcome)
    }

    /// Brings a run of elements to another with which it has nothing in common: pair by pair, then
    /// what is left of the longer one. `index` is where the run begins, then where it ends.
    fn gap(
        &mut self,
        index: &mut usize,
        before: Values<'_, 'py>,
        after: Values<'_, 'py>,
        room: u32,
    ) -> Found<Outcome> {
        let mut outcome = Outcome::default();
        let pairs = before.len().min(after.len());
        for (before, after) in before.iter().zip(after) {
            let at = *index;
            let kept = self.below(
                |path| pointer::push_index(path, at),
                |this| this.values(before, after, room),
            )?;
            outcome += Outcome { kept: kept.into(), changed: (!kept).into() };
            *index += 1;
        }
        for _ in &before[pairs..] {
            let at = *index;
            outcome.changed += 1;
            self.below(|path| pointer::push_index(path, at), Self::remove)?;
        }
        for value in &after[pairs..] {
            let at = *index;
            outcome.changed += 1;
            self.below(|path| pointer::push_index(path, at), |this| this.add(value))?;
            *index += 1;
        }
        Ok(outcome)
    }
}

fn deeper(room: u32) -> Found<u32> {
    room.checked_sub(1).ok_or_else(|| Failure::Here(super::too_deep(), None))
}

/// The key of a member, as bytes.
fn member(key: &Bound<'_, PyAny>) -> Found<Vec<u8>> {
    if let Ok(key) = key.cast::<PyString>() {
        return Ok(utf8(key)?.into_owned());
    }
    let reason = format!("a key of an object is a str, not {}", type_name(key));
    Err(Failure::Here(reason, None))
}

/// The positions of equal elements, from sequences of small numbers that stand for the elements.
fn common(before: Values<'_, '_>, after: Values<'_, '_>, room: u32) -> Found<Vec<(usize, usize)>> {
    // With one of them short there is nothing that a pairing in order would miss but equality.
    if before.is_empty() || after.is_empty() || (before.len() == 1 && after.len() == 1) {
        return Ok(Vec::new());
    }
    let mut classes = Classes::default();
    let before = classes.of(before, room)?;
    let fresh = classes.count;
    let after = classes.of(after, room)?;
    if after.iter().all(|&class| class >= fresh) {
        return Ok(Vec::new());
    }
    Ok(sequence::common(&before, &after))
}

/// Numbers for values, the same for equal ones.
#[derive(Default)]
struct Classes<'a, 'py> {
    known: HashMap<u64, Vec<(&'a Bound<'py, PyAny>, u32)>>,
    count: u32,
}

impl<'a, 'py> Classes<'a, 'py> {
    fn of(&mut self, values: Values<'a, 'py>, room: u32) -> Found<Vec<u32>> {
        values.iter().map(|value| self.class(value, room)).collect()
    }

    fn class(&mut self, value: &'a Bound<'py, PyAny>, room: u32) -> Found<u32> {
        let alike = self.known.entry(hash(value, room)?).or_default();
        for (other, class) in &*alike {
            if equal(value, other, room)? {
                return Ok(*class);
            }
        }
        alike.push((value, self.count));
        self.count += 1;
        Ok(self.count - 1)
    }
}

/// The JSON Patch (RFC 6902) that turns one document into another.
///
/// The law is ``apply_patch(before, create_patch(before, after)) == after``, where equality is that
/// of JSON: 1 and 1.0 are equal, True and 1 are not, the order of members is nothing. Objects are
/// compared by key, arrays by their common beginning and end and then as sequences, so that an
/// element put in or taken out is one operation. The cost is bounded: arrays with more than a
/// thousand differences are brought along element by element.
///
/// Args:
///     before: Plain JSON values, as for :func:`apply_patch`.
///     after: The same. What both share by identity is not looked at.
///
/// Returns:
///     The operations ``add``, ``remove`` and ``replace`` as dicts; an empty list if the documents
///     are equal. They share nothing with the documents.
///
/// Raises:
///     PatchError: A document is nested deeper than 254 levels, or a key is no str.
#[pyfunction]
#[pyo3(signature = (before, after))]
pub fn create_patch<'py>(
    before: &Bound<'py, PyAny>,
    after: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyList>> {
    let py = before.py();
    let mut comparison = Comparison { py, operations: Vec::new(), path: Vec::new() };
    match comparison.values(before, after, MAX_DEPTH) {
        Ok(_) => PyList::new(py, comparison.operations),
        Err(Failure::Python(error)) => Err(error),
        Err(Failure::Here(reason, cause)) => {
            let path = String::from_utf8_lossy(&comparison.path).into_owned();
            let reason = format!("at {path:?}: {reason}");
            Err(Box::new(Refusal { path, cause, ..*Refusal::whole(reason) }).into_error(py))
        }
    }
}
