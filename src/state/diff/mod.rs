//! From two documents to the patch that turns one into the other.

mod align;
mod costs;
mod plan;
mod sequence;
mod tree;
mod write;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use self::plan::Plan;
use self::tree::Tree;
use self::write::Writer;
use super::copy::{Uncopied, deep_copy};
use super::document::Kind;
use super::equal::Uncompared;
use super::operation::Refusal;
use crate::json::MAX_DEPTH;

/// Why there is no patch.
enum Failure {
    Here(String, Option<PyErr>),
    Python(PyErr),
}

impl Failure {
    fn too_deep() -> Self {
        Self::Here(super::too_deep(), None)
    }
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

/// The JSON Patch (RFC 6902) that turns one document into another, in as few bytes as can be found
/// in linear time.
///
/// The law is ``apply_patch(before, create_patch(before, after)) == after``, where equality is that
/// of JSON: 1 and 1.0 are equal, True and 1 are not, the order of members is nothing. Objects are
/// compared by key, and the elements of arrays are aligned, so that one put in or taken out is one
/// operation. A value that is gone from one place and is new at another moves. At each object and
/// array, the new value is written whole where that is shorter as compact JSON.
///
/// Args:
///     before: Plain JSON values, as for :func:`apply_patch`.
///     after: The same. What both share by identity is not looked at.
///
/// Returns:
///     The operations ``add``, ``remove``, ``replace`` and ``move`` as dicts; an empty list if the
///     documents are equal. They share nothing with the documents.
///
/// Raises:
///     PatchError: A document is nested deeper than 254 levels, or a key is no str.
///
/// Example:
///     >>> create_patch({"name": "n", "todo": [1, 2]}, {"name": "n", "todo": [2]})
///     [{'op': 'remove', 'path': '/todo/0'}]
#[pyfunction]
#[pyo3(signature = (before, after))]
pub fn create_patch<'py>(
    before: &Bound<'py, PyAny>,
    after: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyList>> {
    let py = before.py();
    let refused = |failure, path: &[u8]| match failure {
        Failure::Python(error) => error,
        Failure::Here(reason, cause) => {
            let path = String::from_utf8_lossy(path).into_owned();
            let reason = format!("at {path:?}: {reason}");
            Box::new(Refusal { path, cause, ..*Refusal::whole(reason) }).into_error(py)
        }
    };
    if before.is(after) {
        return Ok(PyList::empty(py));
    }
    match (Kind::of(before), Kind::of(after)) {
        (Kind::Array(_), Kind::Array(_)) | (Kind::Object(_), Kind::Object(_)) => {}
        _ => {
            let operations = scalars(before, after).map_err(|failure| refused(failure, b""))?;
            return PyList::new(py, operations);
        }
    }
    match Plan::new(before, after) {
        Ok(plan) => {
            let mut writer = Writer::new(py, &plan);
            match writer.write() {
                Ok(()) => PyList::new(py, writer.operations),
                Err(failure) => Err(refused(failure, &writer.path)),
            }
        }
        Err(failed) => {
            let (failure, plan) = *failed;
            let mut writer = Writer::new(py, &plan);
            writer.point_to_last();
            Err(refused(failure, &writer.path))
        }
    }
}

/// The patch for documents that are not containers of one kind.
fn scalars<'py>(
    before: &Bound<'py, PyAny>,
    after: &Bound<'py, PyAny>,
) -> Found<Option<Bound<'py, PyDict>>> {
    let py = before.py();
    if Tree::default().same(before, after, MAX_DEPTH)? {
        return Ok(None);
    }
    let operation = PyDict::new(py);
    operation.set_item(intern!(py, "op"), intern!(py, "replace"))?;
    operation.set_item(intern!(py, "path"), intern!(py, ""))?;
    operation.set_item(intern!(py, "value"), deep_copy(after, MAX_DEPTH)?)?;
    Ok(Some(operation))
}
