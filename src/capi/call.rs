//! Functions for Python that see the arguments of a call where the caller has put them. `PyO3`
//! makes a tuple and a dict of them for a function that takes any keywords.

use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{Borrowed, ffi};
use std::any::Any;
use std::ffi::CStr;
use std::panic::AssertUnwindSafe;

/// Such a function.
pub trait Function {
    const NAME: &'static CStr;
    /// What `help()` shows, the signature in front as CPython reads it.
    const DOC: &'static CStr;

    fn call<'py>(arguments: &Arguments<'_, 'py>) -> PyResult<Bound<'py, PyAny>>;
}

/// The arguments of a call.
pub struct Arguments<'a, 'py> {
    values: &'a [Borrowed<'a, 'py, PyAny>],
    positional: usize,
    names: Option<Borrowed<'a, 'py, PyTuple>>,
    py: Python<'py>,
}

impl<'a, 'py> Arguments<'a, 'py> {
    #[inline]
    pub fn positional(&self) -> &'a [Borrowed<'a, 'py, PyAny>] {
        &self.values[..self.positional]
    }

    /// Names and values of those that have a name.
    #[inline]
    pub fn named(
        &self,
    ) -> impl Iterator<Item = (Borrowed<'a, 'py, PyAny>, Borrowed<'a, 'py, PyAny>)> {
        let values = &self.values[self.positional..];
        // SAFETY: there is one name for each value; the tuple of names is immutable and owns them.
        let name = |names: Borrowed<'a, 'py, PyTuple>, at: usize| unsafe {
            Borrowed::from_ptr(self.py, ffi::PyTuple_GET_ITEM(names.as_ptr(), at.cast_signed()))
        };
        let names = self.names;
        values.iter().enumerate().filter_map(move |(at, value)| Some((name(names?, at), *value)))
    }

    /// Calls `callable` with these arguments but the first `skip` positional ones.
    ///
    /// References that were dropped on the way here are released: `PyO3` keeps those of a thread
    /// that it has not attached itself until it does.
    pub fn pass_on(
        &self,
        callable: &Bound<'py, PyAny>,
        skip: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let values = &self.values[skip.min(self.positional)..];
        let positional = self.positional.saturating_sub(skip);
        let names = self.names.map_or(std::ptr::null_mut(), Borrowed::as_ptr);
        // SAFETY: the values and names of a call, as they came. `Borrowed` is a pointer to an
        // object. Returns a new reference, or null with an error set.
        Python::attach(|_| unsafe {
            let values = values.as_ptr().cast();
            let result = ffi::PyObject_Vectorcall(callable.as_ptr(), values, positional, names);
            Bound::from_owned_ptr_or_err(self.py, result)
        })
    }
}

/// The object for a function, as one of the module.
pub fn function<'py, F: Function>(module: &Bound<'py, PyModule>) -> PyResult<Bound<'py, PyAny>> {
    let definition = ffi::PyMethodDef {
        ml_name: F::NAME.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: enter::<F> },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: F::DOC.as_ptr(),
    };
    let name = module.name()?;
    // SAFETY: the definition is used as long as the function lives, and so is never freed. Its
    // flags say what `enter` is. Returns a new reference, or null with an error set.
    unsafe {
        let definition = Box::leak(Box::new(definition));
        let function = ffi::PyCFunction_NewEx(definition, module.as_ptr(), name.as_ptr());
        Bound::from_owned_ptr_or_err(module.py(), function)
    }
}

/// What CPython calls.
unsafe extern "C" fn enter<F: Function>(
    _module: *mut ffi::PyObject,
    values: *const *mut ffi::PyObject,
    positional: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls it, so this thread is attached, and `values` holds the positional
    // arguments and then those whose names are in the tuple `names`, which may be null. The caller
    // owns them all until this returns. `Borrowed` is a pointer to an object, and a token.
    unsafe {
        let py = Python::assume_attached();
        let names = (!names.is_null()).then(|| Borrowed::from_ptr(py, names).cast_unchecked());
        let positional = positional.cast_unsigned();
        let count = positional + names.map_or(0, |names: Borrowed<'_, '_, PyTuple>| names.len());
        let values =
            if count == 0 { &[] } else { std::slice::from_raw_parts(values.cast(), count) };
        let arguments = Arguments { values, positional, names, py };
        let result = std::panic::catch_unwind(AssertUnwindSafe(|| F::call(&arguments)));
        match result {
            Ok(Ok(object)) => object.into_ptr(),
            Ok(Err(error)) => raise(error),
            Err(panic) => raise(panicked(&*panic)),
        }
    }
}

#[cold]
fn raise(error: PyErr) -> *mut ffi::PyObject {
    // Attached anew, `PyO3` releases what the error held at once.
    Python::attach(|py| error.restore(py));
    std::ptr::null_mut()
}

/// A panic as `PyO3` raises it.
#[cold]
fn panicked(panic: &(dyn Any + Send)) -> PyErr {
    let message = panic.downcast_ref::<&str>().copied();
    let message = message.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    PanicException::new_err(message.unwrap_or("a panic in Rust").to_owned())
}
