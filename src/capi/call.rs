//! Functions and methods for Python that see the arguments of a call where the caller has put them.
//! `PyO3` makes a tuple and a dict of them for a function that takes any keywords, and cannot add
//! methods to a class that exists already.

use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
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
#[derive(Clone, Copy)]
pub struct Arguments<'a, 'py> {
    values: &'a [Borrowed<'a, 'py, PyAny>],
    positional: usize,
    names: Option<Borrowed<'a, 'py, PyTuple>>,
    py: Python<'py>,
}

impl<'a, 'py> Arguments<'a, 'py> {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The one argument, if there is one and it stands alone or under this name.
    #[inline]
    pub fn only(&self, name: &str) -> Option<Borrowed<'a, 'py, PyAny>> {
        let [value] = self.values else { return None };
        let named = |names: Borrowed<'a, 'py, PyTuple>| {
            names.get_item(0).is_ok_and(|it| it.eq(name).unwrap_or(false))
        };
        (self.positional == 1 || self.names.is_some_and(named)).then_some(*value)
    }

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

    /// Calls `callable` with `first` and then these arguments.
    pub fn pass_on_with(
        &self,
        first: &Bound<'py, PyAny>,
        callable: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut values = Vec::with_capacity(1 + self.values.len());
        values.push(Borrowed::from(first));
        values.extend_from_slice(self.values);
        let all = Arguments { values: &values, positional: 1 + self.positional, ..*self };
        all.pass_on(callable, 0)
    }

    /// Arguments that all have a name, one of `names` for each value.
    pub fn by_name(
        names: &'a Bound<'py, PyTuple>,
        values: &'a [Borrowed<'a, 'py, PyAny>],
    ) -> Option<Self> {
        let (py, fits) = (names.py(), names.len() == values.len());
        fits.then(|| Self { values, positional: 0, names: Some(names.as_borrowed()), py })
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

/// Such a method.
pub trait Method {
    const NAME: &'static CStr;
    /// As [`Function::DOC`], with `$self` as the first parameter.
    const DOC: &'static CStr;

    fn call<'py>(
        this: &Bound<'py, PyAny>,
        arguments: &Arguments<'_, 'py>,
    ) -> PyResult<Bound<'py, PyAny>>;
}

/// The object for a method, to be set as an attribute of the class. Calling it on an instance makes
/// neither a frame nor a bound method.
pub fn method<'py, M: Method>(class: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
    let definition = ffi::PyMethodDef {
        ml_name: M::NAME.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: enter_method::<M> },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: M::DOC.as_ptr(),
    };
    // SAFETY: as for `function`. The descriptor checks that what it is called on is an instance of
    // the class.
    unsafe {
        let definition = Box::leak(Box::new(definition));
        let descriptor = ffi::PyDescr_NewMethod(class.as_type_ptr(), definition);
        Bound::from_owned_ptr_or_err(class.py(), descriptor)
    }
}

/// What CPython calls for a function.
unsafe extern "C" fn enter<F: Function>(
    _module: *mut ffi::PyObject,
    values: *const *mut ffi::PyObject,
    positional: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls it, with the arguments of a call.
    unsafe { answer(values, positional, names, |arguments| F::call(arguments)) }
}

/// What CPython calls for a method.
unsafe extern "C" fn enter_method<M: Method>(
    this: *mut ffi::PyObject,
    values: *const *mut ffi::PyObject,
    positional: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: CPython calls it, with the arguments of a call; the caller owns `this` meanwhile.
    unsafe {
        answer(values, positional, names, |arguments| {
            M::call(&Borrowed::from_ptr(arguments.py, this), arguments)
        })
    }
}

/// # Safety
/// This thread is attached, and `values` holds the positional arguments and then those whose names
/// are in the tuple `names`, which may be null. The caller owns them all.
#[inline]
unsafe fn answer(
    values: *const *mut ffi::PyObject,
    positional: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
    call: impl for<'a, 'py> FnOnce(&Arguments<'a, 'py>) -> PyResult<Bound<'py, PyAny>>,
) -> *mut ffi::PyObject {
    // SAFETY: the caller's. `Borrowed` is a pointer to an object, and a token.
    unsafe {
        let py = Python::assume_attached();
        let names = (!names.is_null()).then(|| Borrowed::from_ptr(py, names).cast_unchecked());
        let positional = positional.cast_unsigned();
        let count = positional + names.map_or(0, |names: Borrowed<'_, '_, PyTuple>| names.len());
        let values =
            if count == 0 { &[] } else { std::slice::from_raw_parts(values.cast(), count) };
        let arguments = Arguments { values, positional, names, py };
        let result = std::panic::catch_unwind(AssertUnwindSafe(|| call(&arguments)));
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
