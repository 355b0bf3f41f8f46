//! References that a container lends, and the walks that lend them.
//!
//! A dict or a list owns its items: a reference to one is good only until the container changes.
//! Python code can change it, and on free-threaded builds another thread can. So
//!
//! - items are only to be had in a walk, which holds the container's critical section;
//! - a [`Lent`] reference cannot leave its walk, and shows the object only to a closure, which
//!   must not run Python code; [`Lent::own`] makes a strong reference, for all that may;
//! - builds with debug assertions count the frames that Python evaluates, and panic where a
//!   reference is used after one.
//!
//! A critical section may end early, when the thread enters another one. So a walk inside a walk
//! ends what the outer one has lent, which debug builds check on every Python. Whatever goes on to
//! another container needs the strong reference that it takes ([`Lent::own`]); the walk itself asks
//! the container for each item anew.

use pyo3::prelude::*;
use pyo3::sync::critical_section::with_critical_section;
use pyo3::types::{PyDict, PyList};
use pyo3::{Borrowed, ffi};
use std::mem::MaybeUninit;
use std::os::raw::c_int;

/// A reference that a container lends.
#[derive(Clone, Copy)]
pub struct Lent<'a, 'py> {
    object: Borrowed<'a, 'py, PyAny>,
    #[cfg(debug_assertions)]
    epoch: epoch::Epoch,
}

impl<'py> Lent<'_, 'py> {
    /// # Safety
    /// A container owns the object, and its critical section is held for `'a`.
    #[inline]
    unsafe fn new(py: Python<'py>, object: *mut ffi::PyObject) -> Self {
        Self {
            // SAFETY: the caller's.
            object: unsafe { Borrowed::from_ptr(py, object) },
            #[cfg(debug_assertions)]
            epoch: epoch::now(),
        }
    }

    /// Shows the object to code that runs no Python.
    #[inline]
    pub fn read<R>(self, look: impl FnOnce(&Bound<'py, PyAny>) -> R) -> R {
        #[cfg(debug_assertions)]
        epoch::check(self.epoch);
        let result = look(&self.object);
        #[cfg(debug_assertions)]
        epoch::check(self.epoch);
        result
    }

    /// A strong reference.
    #[inline]
    pub fn own(self) -> Bound<'py, PyAny> {
        self.read(Bound::clone)
    }

    /// Whether it is this very object.
    #[inline]
    pub fn is<T>(self, other: &Bound<'_, T>) -> bool {
        self.read(|object| object.is(other))
    }

    #[inline]
    pub fn is_none(self) -> bool {
        self.read(PyAnyMethods::is_none)
    }
}

/// Holds the critical section of a container.
#[inline]
pub fn within<R>(container: &Bound<'_, PyAny>, work: impl FnOnce() -> R) -> R {
    with_critical_section(container, || {
        #[cfg(debug_assertions)]
        epoch::advance();
        work()
    })
}

/// An entry of a dict.
pub type Entry<'a, 'py> = (Lent<'a, 'py>, Lent<'a, 'py>);

/// Walks over a dict, whose critical section is held meanwhile.
#[inline]
pub fn walk<'py, R>(
    dict: &Bound<'py, PyDict>,
    look: impl for<'a> FnOnce(DictIter<'a, 'py>) -> R,
) -> R {
    within(dict, || look(DictIter::new(dict)))
}

/// The entries of a dict, in order.
pub struct DictIter<'a, 'py> {
    dict: &'a Bound<'py, PyDict>,
    position: ffi::Py_ssize_t,
    len: usize,
    left: usize,
}

impl<'a, 'py> DictIter<'a, 'py> {
    #[inline]
    fn new(dict: &'a Bound<'py, PyDict>) -> Self {
        let len = dict.len();
        Self { dict, position: 0, len, left: len }
    }

    /// Whether the dict still has as many items as at the start. Python code that ran meanwhile
    /// may have added or removed some; a walk that goes on then might never end.
    #[inline]
    pub fn unchanged(&self) -> bool {
        self.dict.len() == self.len
    }
}

impl<'a, 'py> Iterator for DictIter<'a, 'py> {
    type Item = Entry<'a, 'py>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        // Saves the last call, which would only say that there is no more.
        self.left = self.left.checked_sub(1)?;
        let mut key = MaybeUninit::uninit();
        let mut value = MaybeUninit::uninit();
        // SAFETY: the dict is alive. `PyDict_Next` checks the position against the dict as it is
        // now, and unless it returns 0 sets both to references that the dict owns. The walk holds
        // its critical section.
        unsafe {
            let position = &raw mut self.position;
            if dict_next(self.dict, position, key.as_mut_ptr(), value.as_mut_ptr()) == 0 {
                return None;
            }
            let (key, value) = (key.assume_init(), value.assume_init());
            std::hint::assert_unchecked(!key.is_null() && !value.is_null());
            let py = self.dict.py();
            Some((Lent::new(py, key), Lent::new(py, value)))
        }
    }
}

/// `PyDict_Next`. Before Python 3.13 it only calls a function that does the work, which the public
/// headers declare as well: where Python is a shared library, the jump from the one to the other
/// through its table is a fifth of the time. (On Windows there is no such table.)
///
/// # Safety
/// As for `PyDict_Next`.
#[inline]
unsafe fn dict_next(
    dict: &Bound<'_, PyDict>,
    position: *mut ffi::Py_ssize_t,
    key: *mut *mut ffi::PyObject,
    value: *mut *mut ffi::PyObject,
) -> c_int {
    #[cfg(any(windows, Py_3_13))]
    // SAFETY: the caller's.
    unsafe {
        ffi::PyDict_Next(dict.as_ptr(), position, key, value)
    }
    #[cfg(not(any(windows, Py_3_13)))]
    {
        unsafe extern "C" {
            fn _PyDict_Next(
                dict: *mut ffi::PyObject,
                position: *mut ffi::Py_ssize_t,
                key: *mut *mut ffi::PyObject,
                value: *mut *mut ffi::PyObject,
                hash: *mut ffi::Py_hash_t,
            ) -> c_int;
        }
        // SAFETY: the caller's; the hash may be null.
        unsafe { _PyDict_Next(dict.as_ptr(), position, key, value, std::ptr::null_mut()) }
    }
}

/// Shows all entries of a dict that has `N` of them. None for any other.
#[inline]
pub fn walk_all<'py, R, const N: usize>(
    dict: &Bound<'py, PyDict>,
    look: impl for<'a> FnOnce([Entry<'a, 'py>; N]) -> Option<R>,
) -> Option<R> {
    within(dict, || {
        if dict.len() != N {
            return None;
        }
        let mut keys = [MaybeUninit::uninit(); N];
        let mut values = [MaybeUninit::uninit(); N];
        let mut position = 0;
        // SAFETY: as for `DictIter`.
        unsafe {
            for (key, value) in keys.iter_mut().zip(&mut values) {
                let (key, value) = (key.as_mut_ptr(), value.as_mut_ptr());
                if dict_next(dict, &raw mut position, key, value) == 0 {
                    return None;
                }
            }
            let item = |ptr: MaybeUninit<*mut ffi::PyObject>| {
                let ptr = ptr.assume_init();
                std::hint::assert_unchecked(!ptr.is_null());
                Lent::new(dict.py(), ptr)
            };
            look(std::array::from_fn(|at| (item(keys[at]), item(values[at]))))
        }
    })
}

/// Walks over a list, whose critical section is held meanwhile.
#[inline]
pub fn walk_list<'py, R>(
    list: &Bound<'py, PyList>,
    look: impl for<'a> FnOnce(ListIter<'a, 'py>) -> R,
) -> R {
    within(list, || look(ListIter { list, index: 0, len: list.len() }))
}

/// The items of a list, up to where it ends when that is reached, or to one that C code, which is
/// making the list, has not set yet.
pub struct ListIter<'a, 'py> {
    list: &'a Bound<'py, PyList>,
    index: usize,
    len: usize,
}

impl ListIter<'_, '_> {
    /// Whether the list still has as many items as at the start.
    #[inline]
    pub fn unchanged(&self) -> bool {
        self.list.len() == self.len
    }
}

impl<'a, 'py> Iterator for ListIter<'a, 'py> {
    type Item = Lent<'a, 'py>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.index >= self.list.len() {
            return None;
        }
        // SAFETY: the index was just checked; a list owns its items, and the walk holds its
        // critical section.
        unsafe {
            let item = ffi::PyList_GET_ITEM(self.list.as_ptr(), self.index.cast_signed());
            self.index += 1;
            (!item.is_null()).then(|| Lent::new(self.list.py(), item))
        }
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len.saturating_sub(self.index), None)
    }
}

/// The items of a list as they are at one moment.
#[inline]
pub fn list_items<'py>(list: &Bound<'py, PyList>) -> Vec<Bound<'py, PyAny>> {
    walk_list(list, |items| items.map(Lent::own).collect())
}

/// A new list of the first `len` items of a list, or of all if it has fewer.
///
/// Making it may run the garbage collector before Python 3.12, and Python's own copies of a list
/// take its length before that: a finalizer that shortens the list makes them read beyond its end.
#[inline]
pub fn copy_list<'py>(list: &Bound<'py, PyList>, len: usize) -> PyResult<Bound<'py, PyList>> {
    if cfg!(Py_3_12) {
        return Ok(list.get_slice(0, len));
    }
    if len >= list.len() {
        // The new list is there before the length is read, and growing it runs no collector.
        let copy = PyList::empty(list.py());
        copy.set_slice(0, 0, list)?;
        return Ok(copy);
    }
    let mut items = walk_list(list, |items| items.take(len).map(Lent::own).collect());
    super::list_from(list.py(), &mut items, 0)
}

/// How many frames Python has evaluated in this thread, by a hook that is there in builds with debug
/// assertions alone, and how many walks were begun.
#[cfg(debug_assertions)]
pub mod epoch {
    use pyo3::ffi;
    use std::cell::Cell;
    use std::os::raw::c_int;

    pub type Epoch = u64;

    thread_local! {
        static EPOCH: Cell<Epoch> = const { Cell::new(0) };
    }

    pub fn now() -> Epoch {
        EPOCH.get()
    }

    pub fn advance() {
        EPOCH.set(EPOCH.get() + 1);
    }

    pub fn check(lent: Epoch) {
        assert!(
            lent == now(),
            "a lent reference was used after Python code had run, or in a walk inside its own"
        );
    }

    #[cfg(not(windows))]
    mod hook {
        use super::{advance, c_int, ffi};

        type Frame = *mut std::ffi::c_void;
        type Evaluate =
            unsafe extern "C" fn(*mut ffi::PyThreadState, Frame, c_int) -> *mut ffi::PyObject;

        unsafe extern "C" {
            fn _PyEval_EvalFrameDefault(
                thread: *mut ffi::PyThreadState,
                frame: Frame,
                throw: c_int,
            ) -> *mut ffi::PyObject;
            fn _PyInterpreterState_SetEvalFrameFunc(
                interpreter: *mut ffi::PyInterpreterState,
                evaluate: Evaluate,
            );
        }

        unsafe extern "C" fn count(
            thread: *mut ffi::PyThreadState,
            frame: Frame,
            throw: c_int,
        ) -> *mut ffi::PyObject {
            advance();
            // SAFETY: the arguments of CPython's own function of this form (PEP 523), passed on.
            unsafe { _PyEval_EvalFrameDefault(thread, frame, throw) }
        }

        pub fn install() {
            // SAFETY: called while the module is imported, so this thread is attached.
            unsafe {
                _PyInterpreterState_SetEvalFrameFunc(ffi::PyInterpreterState_Get(), count);
            }
        }
    }

    /// Counts from here on.
    pub fn count_frames() {
        #[cfg(not(windows))]
        hook::install();
    }
}
