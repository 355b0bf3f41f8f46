//! Pydantic and the stack: it takes a kilobyte for a level, several for a model, and does not look
//! at what is left, so that within its limit of 254 levels it crashes a thread with a small stack.
#![allow(unsafe_code)]

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyFrozenSet, PyList, PySet, PyString, PyTuple};

use crate::capi::{self, Arguments};
use crate::event::{base_model, registry};

/// So many levels fit on any stack.
const SHALLOW: u32 = 16;
/// So much is enough for all the levels.
const ENOUGH: usize = 1 << 20;

/// `event.model_dump_json(by_alias=True)`, and with the `fallback` if there is one, on the stack of a
/// thread of its own if this one's is too small for how deep the event nests. The context variables
/// there are the caller's; a serializer of the user's that runs there does not see the caller's
/// thread-local data, nor has it the caller's `RLock`s.
pub fn dump_json<'py>(
    event: &Bound<'py, PyAny>,
    dump: Bound<'py, PyAny>,
    fallback: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    static BY_ALIAS: PyOnceLock<Py<PyTuple>> = PyOnceLock::new();
    let py = event.py();
    let by_alias = intern!(py, "by_alias");
    let fits = stack_left().is_some_and(|left| left >= ENOUGH) || !nests_deeper(event, SHALLOW);
    if fits && fallback.is_none() {
        let names = capi::once(&BY_ALIAS, py, || PyTuple::new(py, [by_alias]).map(Bound::unbind))?;
        let yes = PyBool::new(py, true).to_owned();
        let values = [yes.as_any().as_borrowed()];
        if let Some(arguments) = Arguments::by_name(names.bind(py), &values) {
            return arguments.pass_on(&dump, 0);
        }
    }
    let arguments = PyDict::new(py);
    arguments.set_item(by_alias, true)?;
    if let Some(fallback) = fallback {
        arguments.set_item(intern!(py, "fallback"), fallback)?;
    }
    if fits {
        return dump.call((), Some(&arguments));
    }
    let context = py.import("contextvars")?.call_method0("copy_context")?;
    let run = context.getattr("run")?.unbind();
    let (dump, arguments) = (dump.unbind(), arguments.unbind());
    let call = move || Python::attach(|py| run.call(py, (dump,), Some(arguments.bind(py))));
    let answer = py.detach(|| {
        let thread = std::thread::Builder::new().stack_size(4 * ENOUGH).spawn(call);
        thread.map(std::thread::JoinHandle::join)
    })?;
    match answer {
        Ok(text) => text.map(|text| text.into_bound(py)),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Whether containers nest more than `levels` deep in a value, or a cycle goes on for ever: lists,
/// tuples, dicts, sets, and the fields of models and of dataclasses.
pub fn nests_deeper(value: &Bound<'_, PyAny>, levels: u32) -> bool {
    let deeper = |inner: &Bound<'_, PyAny>| match levels.checked_sub(1) {
        Some(levels) => nests_deeper(inner, levels),
        None => true,
    };
    // A leaf is no level; most values are one of these.
    if value.is_none() || value.is_instance_of::<PyString>() || capi::is_exact_int(value) {
        return false;
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        return levels == 0 || dict.values().iter().any(|inner| deeper(&inner));
    }
    if let Ok(list) = value.cast::<PyList>() {
        return levels == 0 || capi::list_items(list).iter().any(deeper);
    }
    if let Ok(tuple) = value.cast::<PyTuple>() {
        return levels == 0 || tuple.iter().any(|inner| deeper(&inner));
    }
    if value.is_instance_of::<PySet>() || value.is_instance_of::<PyFrozenSet>() {
        return levels == 0
            || value
                .to_owned()
                .try_iter()
                .is_ok_and(|items| items.flatten().any(|inner| deeper(&inner)));
    }
    // Of other objects, pydantic looks into models and dataclasses only. Their fields are a level;
    // that they are in a dict makes it no other.
    let class = value.get_type();
    let is_model =
        base_model(value.py()).is_ok_and(|base| class.is_subclass(base).unwrap_or(false));
    if !is_model && !class.hasattr(intern!(value.py(), "__dataclass_fields__")).unwrap_or(false) {
        return false;
    }
    let extra = registry().extra.bind(value.py());
    let extra = if is_model { capi::slot(extra, value) } else { None };
    let extra = extra.filter(|extra| !extra.is_none());
    let fields = capi::instance_dict(value);
    fields.is_some_and(|fields| nests_deeper(&fields, levels))
        || extra.is_some_and(|extra| nests_deeper(&extra, levels))
}

/// How much of this thread's stack is left, where that can be told.
fn stack_left() -> Option<usize> {
    let here = 0_u8;
    let here = (&raw const here).addr();
    STACK_END.with(|end| end.map(|end| here.saturating_sub(end)))
}

thread_local! {
    /// The lowest address of this thread's stack. Asking for it again and again would cost more than
    /// writing a small event: Linux reads a file of its own for the main thread.
    static STACK_END: Option<usize> = stack_end();
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn stack_end() -> Option<usize> {
    let mut attributes = std::mem::MaybeUninit::uninit();
    let mut address = std::ptr::null_mut();
    let mut size = 0;
    // SAFETY: the attributes are read and destroyed only where they were filled.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let mut attributes = attributes.assume_init();
        let got =
            libc::pthread_attr_getstack(&raw const attributes, &raw mut address, &raw mut size);
        libc::pthread_attr_destroy(&raw mut attributes);
        (got == 0).then(|| address.addr())
    }
}

#[cfg(target_os = "macos")]
fn stack_end() -> Option<usize> {
    // SAFETY: both take a live thread, and cannot fail. The address is the highest.
    unsafe {
        let thread = libc::pthread_self();
        let start = libc::pthread_get_stackaddr_np(thread).addr();
        Some(start - libc::pthread_get_stacksize_np(thread))
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "macos")))]
fn stack_end() -> Option<usize> {
    None
}
