//! The operations of a JSON Patch (RFC 6902 section 4), as wire dicts or as models of the SDK.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use super::document::{type_name, utf8};
use super::pointer;
use crate::capi;
use crate::errors::PatchError;
use crate::event::registry;

/// A patch that is malformed, or well-formed and does not apply.
#[derive(Debug)]
pub struct Refusal {
    /// Which operation, if it is one.
    pub index: Option<usize>,
    pub path: String,
    pub reason: String,
    pub cause: Option<PyErr>,
    pub op: &'static str,
}

impl Refusal {
    /// Something about the patch as a whole.
    #[cold]
    pub fn whole(reason: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            index: None,
            path: String::new(),
            reason: reason.into(),
            cause: None,
            op: "",
        })
    }

    /// What is wrong with the operation at `index`.
    #[cold]
    pub fn at(index: usize, operation: &Operation<'_>, fault: Fault) -> Box<Self> {
        let path = if fault.in_from { operation.from.as_ref() } else { Some(&operation.path) };
        Box::new(Self {
            index: Some(index),
            path: path.map_or_else(String::new, |path| path.to_string_lossy().into_owned()),
            reason: fault.reason,
            cause: fault.cause,
            op: operation.op.name(),
        })
    }

    pub fn message(&self) -> String {
        match self.index {
            None => self.reason.clone(),
            Some(index) if self.op.is_empty() => format!("operation {index}: {}", self.reason),
            Some(index) => {
                let path = super::shortened(&self.path);
                format!("operation {index} ({} {path:?}): {}", self.op, self.reason)
            }
        }
    }

    /// The PatchError that says so.
    #[cold]
    pub fn into_error(self, py: Python<'_>) -> PyErr {
        let error = PatchError::new_err(self.message());
        let value = error.value(py);
        let set = value
            .setattr(intern!(py, "operation_index"), self.index)
            .and_then(|()| value.setattr(intern!(py, "path"), &self.path))
            .and_then(|()| value.setattr(intern!(py, "reason"), &self.reason));
        error.set_cause(py, self.cause);
        set.err().unwrap_or(error)
    }
}

/// Why one operation fails.
#[derive(Debug)]
pub struct Fault {
    pub reason: String,
    pub cause: Option<PyErr>,
    /// It is about `from`, not `path`.
    pub in_from: bool,
}

impl Fault {
    #[cold]
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), cause: None, in_from: false }
    }

    #[cold]
    pub fn of_parts((reason, cause): (String, Option<PyErr>)) -> Self {
        Self { reason, cause, in_from: false }
    }
}

/// What Python raised on the way.
impl From<PyErr> for Fault {
    #[cold]
    fn from(error: PyErr) -> Self {
        Self { reason: "Python refused".to_owned(), cause: Some(error), in_from: false }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Add,
    Remove,
    Replace,
    Move,
    Copy,
    Test,
}

impl Op {
    const ALL: [Self; 6] =
        [Self::Add, Self::Remove, Self::Replace, Self::Move, Self::Copy, Self::Test];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Remove => "remove",
            Self::Replace => "replace",
            Self::Move => "move",
            Self::Copy => "copy",
            Self::Test => "test",
        }
    }

    fn of(name: &Bound<'_, PyString>) -> Option<Self> {
        let capi::Text::Ascii(name) = capi::text(name) else { return None };
        Self::ALL.into_iter().find(|op| op.name().as_bytes() == name)
    }
}

/// A well-formed operation: the pointers are such, and what the `op` needs is there.
pub struct Operation<'py> {
    pub op: Op,
    pub path: Bound<'py, PyString>,
    pub from: Option<Bound<'py, PyString>>,
    pub value: Option<Bound<'py, PyAny>>,
}

impl Operation<'_> {
    /// Whether it puts another document in the place of the whole one.
    pub fn is_of_root(&self) -> bool {
        self.path.is_empty().unwrap_or(false)
    }
}

/// A patch, every operation of which is well-formed.
pub struct Patch<'py> {
    pub operations: Vec<Operation<'py>>,
    /// The positions of operations with an `op` that RFC 6902 does not have, if those were to be
    /// left out, and what it was.
    pub unknown: Vec<(usize, String)>,
}

/// What becomes of an operation whose `op` RFC 6902 does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownOp {
    /// The patch is malformed (RFC 6902 section 4).
    Refuse,
    /// It is left out, and the rest applies (what AG-UI asks of a consumer).
    Drop,
}

impl<'py> Patch<'py> {
    /// Reads a list of operations.
    pub fn read(patch: &Bound<'py, PyAny>, unknown_op: UnknownOp) -> Result<Self, Box<Refusal>> {
        let mut read = Self { operations: Vec::new(), unknown: Vec::new() };
        if let Ok(list) = patch.cast::<PyList>() {
            read.operations.reserve(list.len());
            for (index, operation) in list.iter().enumerate() {
                read.push(index, &operation, unknown_op)?;
            }
        } else if let Ok(tuple) = patch.cast::<PyTuple>() {
            for (index, operation) in tuple.iter().enumerate() {
                read.push(index, &operation, unknown_op)?;
            }
        } else {
            let reason = format!("a patch is a list of operations, not {}", type_name(patch));
            return Err(Refusal::whole(reason));
        }
        Ok(read)
    }

    fn push(
        &mut self,
        index: usize,
        operation: &Bound<'py, PyAny>,
        unknown_op: UnknownOp,
    ) -> Result<(), Box<Refusal>> {
        let refusal =
            |reason: String| Box::new(Refusal { index: Some(index), ..*Refusal::whole(reason) });
        match Operation::read(operation) {
            Ok(operation) => self.operations.push(operation),
            Err(Unread::UnknownOp(op)) if unknown_op == UnknownOp::Drop => {
                self.unknown.push((index, op));
            }
            Err(Unread::UnknownOp(op)) => {
                return Err(refusal(format!("there is no op {op:?} in RFC 6902")));
            }
            Err(Unread::Malformed { path, reason }) => {
                return Err(Box::new(Refusal { path, ..*refusal(reason) }));
            }
        }
        Ok(())
    }
}

enum Unread {
    UnknownOp(String),
    Malformed { path: String, reason: String },
}

#[cold]
fn malformed(reason: impl Into<String>) -> Unread {
    Unread::Malformed { path: String::new(), reason: reason.into() }
}

impl<'py> Operation<'py> {
    fn read(operation: &Bound<'py, PyAny>) -> Result<Self, Unread> {
        let py = operation.py();
        if let Ok(members) = operation.cast::<PyDict>() {
            return Self::of_members(members);
        }
        if registry().info(capi::type_key(operation)).is_some()
            && let Some(fields) = capi::instance_dict(operation)
        {
            return Self::of_members(&fields);
        }
        // A model of some other class, which pydantic knows how to read.
        let dump = operation.getattr(intern!(py, "model_dump")).map_err(|_| {
            malformed(format!("an operation is an object, not {}", type_name(operation)))
        })?;
        let options = PyDict::new(py);
        let dumped = options
            .set_item(intern!(py, "by_alias"), true)
            .and_then(|()| dump.call((), Some(&options)))
            .map_err(|error| malformed(format!("an operation that cannot be read: {error}")))?;
        match dumped.cast::<PyDict>() {
            Ok(members) => Self::of_members(members),
            Err(_) => Err(malformed("an operation is an object")),
        }
    }

    /// Members that the `op` does not need are ignored (section 4).
    fn of_members(members: &Bound<'py, PyDict>) -> Result<Self, Unread> {
        let py = members.py();
        let op = capi::dict_get(members, intern!(py, "op"))
            .ok_or_else(|| malformed("an operation has an \"op\""))?;
        let name = op
            .cast::<PyString>()
            .map_err(|_| malformed(format!("\"op\" is a str, not {}", type_name(&op))))?;
        let Some(op) = Op::of(name) else {
            return Err(Unread::UnknownOp(name.to_string_lossy().into_owned()));
        };
        let path = capi::dict_get(members, intern!(py, "path"))
            .ok_or_else(|| malformed(format!("{} needs a \"path\"", op.name())))?;
        let path = location("path", path)?;
        let from = if matches!(op, Op::Move | Op::Copy) {
            let from = capi::dict_get(members, intern!(py, "from"))
                .or_else(|| capi::dict_get(members, intern!(py, "from_")))
                .ok_or_else(|| malformed(format!("{} needs a \"from\"", op.name())))?;
            Some(location("from", from)?)
        } else {
            None
        };
        let value = if matches!(op, Op::Add | Op::Replace | Op::Test) {
            let value = capi::dict_get(members, intern!(py, "value"))
                .ok_or_else(|| malformed(format!("{} needs a \"value\"", op.name())))?;
            Some(value)
        } else {
            None
        };
        Ok(Self { op, path, from, value })
    }
}

/// A JSON Pointer.
fn location<'py>(member: &str, pointer: Bound<'py, PyAny>) -> Result<Bound<'py, PyString>, Unread> {
    let pointer = pointer.cast_into::<PyString>().map_err(|error| {
        malformed(format!("{member:?} is a str, not {}", type_name(&error.into_inner())))
    })?;
    let reason = match utf8(&pointer) {
        Ok(bytes) => match pointer::tokens(&bytes) {
            Ok(_) => None,
            Err(error) => Some(error.reason().to_owned()),
        },
        Err(error) => Some(error.to_string()),
    };
    match reason {
        None => Ok(pointer),
        Some(reason) => Err(Unread::Malformed {
            path: pointer.to_string_lossy().into_owned(),
            reason: format!("{member:?}: {reason}"),
        }),
    }
}
