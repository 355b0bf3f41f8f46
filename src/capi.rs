//! The few C-API calls that `PyO3` has no (cheap) safe form for.
//!
//! All `unsafe` that touches Python objects is in this file and `capi/`, so that the rest of the
//! crate can deny it. Everything here takes and returns `PyO3`'s own pointer types.
//!
//! References that a container owns are handed out by the walks of [`lent`] alone, which see to it
//! that none is used after Python code has run.
#![allow(unsafe_code)]

mod call;
mod lent;
mod once;

pub use call::{Arguments, Function, Method, function, method};
#[cfg(debug_assertions)]
pub use lent::epoch::count_frames;
pub use lent::{Lent, copy_list, list_items, walk, walk_all, walk_list};
pub use once::{import_once, once};

use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PySet, PyString, PyTuple, PyType};
use pyo3::{Borrowed, ffi};
use std::os::raw::c_int;
#[cfg(Py_GIL_DISABLED)]
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::{AtomicU32, Ordering};

/// The class of an object, as a number to compare or to look up.
#[inline]
pub fn type_key(obj: &Bound<'_, PyAny>) -> usize {
    // SAFETY: `obj` is a live object, and every object has a type.
    unsafe { ffi::Py_TYPE(obj.as_ptr()) as usize }
}

/// [`type_key`] of the instances of `class`.
#[inline]
pub fn class_key(class: &Bound<'_, PyType>) -> usize {
    class.as_ptr() as usize
}

/// Whether the class with one key is the class with the other, or derives from it.
#[inline]
pub fn is_subtype(class: usize, base: usize) -> bool {
    // SAFETY: both are addresses of live type objects; see `type_version`. Looks at the classes'
    // bases, and runs no Python code.
    unsafe { ffi::PyType_IsSubtype(class as *mut _, base as *mut _) != 0 }
}

/// Whether `obj` is exactly an instance of the class with this key, subclasses excluded.
macro_rules! exact {
    ($name:ident, $type:ident) => {
        #[inline]
        pub fn $name(obj: &Bound<'_, PyAny>) -> bool {
            // Only the address of the static type is taken, nothing is read through it.
            type_key(obj) == &raw mut ffi::$type as usize
        }
    };
}
exact!(is_exact_str, PyUnicode_Type);
exact!(is_exact_dict, PyDict_Type);
exact!(is_exact_list, PyList_Type);
exact!(is_exact_tuple, PyTuple_Type);
exact!(is_exact_int, PyLong_Type);
exact!(is_exact_float, PyFloat_Type);
exact!(is_exact_bool, PyBool_Type);

/// An object that is exactly a dict, as one.
#[inline]
pub fn exact_dict<'a, 'py>(obj: &'a Bound<'py, PyAny>) -> Option<&'a Bound<'py, PyDict>> {
    // SAFETY: the type was just compared.
    is_exact_dict(obj).then(|| unsafe { obj.cast_unchecked() })
}

/// Whether nothing has an object but the container that it is in and `object` itself, so that
/// nobody sees a change of it.
#[cfg(not(Py_GIL_DISABLED))]
#[inline]
pub fn is_only_in_its_place(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is alive.
    unsafe { ffi::Py_REFCNT(object.as_ptr()) == 2 }
}

/// The same. An object has two counts here: one of the thread that made it, which no other thread
/// changes, and one of all others. `Py_REFCNT` adds them, and may read the one before and the other
/// after a reference went from thread to thread. So only the thread that made the object gets a
/// yes, as with `PyUnstable_Object_IsUniquelyReferenced`; for any other the object is copied.
#[cfg(Py_GIL_DISABLED)]
pub fn is_only_in_its_place(object: &Bound<'_, PyAny>) -> bool {
    thread_local! {
        /// This thread, as objects have it: a new one says.
        static THREAD: usize = Python::attach(|py| maker(PyList::empty(py).as_any()));
    }
    fn maker(object: &Bound<'_, PyAny>) -> usize {
        // SAFETY: the object is alive. Another thread only ever replaces one that is not this
        // thread's by one that is not, either.
        unsafe {
            let field = &raw mut (*object.as_ptr()).ob_tid;
            AtomicUsize::from_ptr(field).load(Ordering::Relaxed)
        }
    }
    // SAFETY: the object is alive, and both counts are atomic. What other threads did with their
    // references happened before they gave them back.
    unsafe {
        let object_ptr = object.as_ptr();
        maker(object) == THREAD.with(|thread| *thread)
            && (*object_ptr).ob_ref_local.load(Ordering::Relaxed) == 2
            && (*object_ptr).ob_ref_shared.load(Ordering::Acquire) == 0
    }
}

/// The value of an object that is exactly a bool.
#[inline]
pub fn exact_bool(obj: &Bound<'_, PyAny>) -> Option<bool> {
    is_exact_bool(obj).then(|| obj.is(PyBool::new(obj.py(), true)))
}

/// The version tag of a class: it changes whenever an attribute of the class or of one of its
/// bases is set. 0 means that the class has none at the moment.
#[inline]
pub fn type_version(class: usize) -> u32 {
    // SAFETY: `class` is the address of a live type object: the caller has it from `type_key` or
    // `class_key` of something it holds. The field is aligned and only ever written whole.
    unsafe {
        let tag = &raw mut (*(class as *mut ffi::PyTypeObject)).tp_version_tag;
        AtomicU32::from_ptr(tag.cast()).load(Ordering::Relaxed)
    }
}

/// The instance dictionary, without the attribute look-up that `BaseModel.__getattr__` makes slow.
#[inline]
pub fn instance_dict<'py>(obj: &Bound<'py, PyAny>) -> Option<Bound<'py, PyDict>> {
    // SAFETY: returns a new reference, or null with an error set (the object has no `__dict__`).
    let dict = unsafe {
        Bound::from_owned_ptr_or_opt(
            obj.py(),
            ffi::PyObject_GenericGetDict(obj.as_ptr(), std::ptr::null_mut()),
        )
    };
    match dict {
        Some(dict) if is_exact_dict(&dict) => {
            // SAFETY: the type was just compared.
            Some(unsafe { dict.cast_into_unchecked() })
        }
        Some(_) => None,
        None => {
            drop(PyErr::take(obj.py()));
            None
        }
    }
}

/// What a slot descriptor (`BaseModel.__dict__["__pydantic_extra__"]`) reads from `obj`.
/// `None` if the slot is unset.
#[inline]
pub fn slot<'py>(
    descriptor: &Bound<'py, PyAny>,
    obj: &Bound<'py, PyAny>,
) -> Option<Bound<'py, PyAny>> {
    // SAFETY: `tp_descr_get` of a live descriptor, called with an object and its type as CPython
    // does; a member descriptor checks that the object is of its class. New reference or null.
    let value = unsafe {
        let get = (*ffi::Py_TYPE(descriptor.as_ptr())).tp_descr_get?;
        let class = ffi::Py_TYPE(obj.as_ptr()).cast();
        Bound::from_owned_ptr_or_opt(obj.py(), get(descriptor.as_ptr(), obj.as_ptr(), class))
    };
    if value.is_none() {
        drop(PyErr::take(obj.py()));
    }
    value
}

/// The text of a str.
pub enum Text<'a> {
    /// ASCII, which is also its UTF-8.
    Ascii(&'a [u8]),
    /// Code points of one byte each, at least one above U+007F.
    Latin1(&'a [u8]),
    /// Code points of two bytes each.
    Ucs2(&'a [u16]),
    /// Code points of four bytes each.
    Ucs4(&'a [u32]),
}

/// The characters of a str, in the form in which CPython stores them.
#[inline]
pub fn text<'a>(string: &'a Bound<'_, PyString>) -> Text<'a> {
    match usual_ascii(string) {
        Some(text) => Text::Ascii(text),
        None => other_text(string),
    }
}

/// The characters of a str that stand right behind it and are all ASCII.
#[inline]
fn usual_ascii<'a>(string: &'a Bound<'_, PyString>) -> Option<&'a [u8]> {
    let ptr = string.as_ptr();
    // SAFETY: `ptr` is a str. The data live as long as the str does, which is immutable. Right
    // behind the struct are the data of a str that has only ASCII; any other has them farther off,
    // or elsewhere, or nowhere yet: a legacy str before Python 3.12 may not be "ready".
    unsafe {
        let data = data_of_ascii(ptr);
        let is_usual = match COMPACT_ASCII {
            Some((byte, bits)) => {
                let state = &raw const (*ptr.cast::<ffi::PyASCIIObject>()).state;
                *state.cast::<u8>().add(byte) & bits == bits
            }
            None => ffi::PyUnicode_DATA(ptr) == data.cast(),
        };
        if !is_usual {
            return None;
        }
        let len = ffi::PyUnicode_GET_LENGTH(ptr).cast_unsigned();
        Some(std::slice::from_raw_parts(data, len))
    }
}

/// Where in the `state` of a str `compact` and `ascii` are, the byte and the bits, as the public
/// headers of all versions so far have it. `PyO3` has no opinion on them from Python 3.14 on, where
/// it calls CPython for what is one comparison.
const COMPACT_ASCII: Option<(usize, u8)> = if cfg!(any(target_endian = "big", Py_3_16)) {
    None
} else if cfg!(not(Py_GIL_DISABLED)) {
    // unsigned int interned:2, kind:3, compact:1, ascii:1
    Some((0, 0b0110_0000))
} else if cfg!(all(Py_3_14, not(windows))) {
    // unsigned char interned; unsigned int kind:3, compact:1, ascii:1
    Some((1, 0b0001_1000))
} else {
    None
};

/// Where the characters of a compact str are that are all ASCII.
///
/// # Safety
/// `string` is a str.
#[inline]
unsafe fn data_of_ascii(string: *mut ffi::PyObject) -> *mut u8 {
    // SAFETY: the caller's: the data of such a str come right behind the struct.
    unsafe { string.cast::<ffi::PyASCIIObject>().add(1).cast() }
}

#[inline(never)]
fn other_text<'a>(string: &'a Bound<'_, PyString>) -> Text<'a> {
    let ptr = string.as_ptr();
    // SAFETY: as above. `PyUnicode_READY` makes a legacy str ready, and does nothing to any other.
    unsafe {
        ffi::PyUnicode_READY(ptr);
        let len = ffi::PyUnicode_GET_LENGTH(ptr).cast_unsigned();
        let data = ffi::PyUnicode_DATA(ptr);
        match ffi::PyUnicode_KIND(ptr) {
            ffi::PyUnicode_1BYTE_KIND => {
                let text = std::slice::from_raw_parts(data.cast(), len);
                // An instance of a subclass has its characters elsewhere, ASCII or not.
                if data != ptr.cast::<ffi::PyCompactUnicodeObject>().add(1).cast()
                    && text.is_ascii()
                {
                    Text::Ascii(text)
                } else {
                    Text::Latin1(text)
                }
            }
            ffi::PyUnicode_2BYTE_KIND => Text::Ucs2(std::slice::from_raw_parts(data.cast(), len)),
            _ => Text::Ucs4(std::slice::from_raw_parts(data.cast(), len)),
        }
    }
}

/// [`text`] of an object that is exactly a str.
#[inline]
pub fn exact_text<'a>(obj: &'a Bound<'_, PyAny>) -> Option<Text<'a>> {
    if !is_exact_str(obj) {
        return None;
    }
    // SAFETY: the type was just compared.
    Some(text(unsafe { obj.cast_unchecked() }))
}

/// The characters of an object that is exactly a str, and all ASCII. `None` also for the odd str
/// that has them elsewhere than right behind itself, as up to Python 3.11 there may be.
#[inline]
pub fn ascii<'a>(obj: &'a Bound<'_, PyAny>) -> Option<&'a [u8]> {
    if !is_exact_str(obj) {
        return None;
    }
    // SAFETY: the type was just compared.
    usual_ascii(unsafe { obj.cast_unchecked() })
}

/// Whether two texts are the same. Short ones, as names and ids are, without a call of `memcmp`.
#[inline]
pub fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    const WORD: usize = 8;
    const HALF: usize = 4;
    let len = a.len();
    if len != b.len() {
        return false;
    }
    // The first bytes and the last ones, which may overlap.
    match len {
        0..HALF => a.iter().zip(b).all(|(a, b)| a == b),
        HALF..WORD => a[..HALF] == b[..HALF] && a[len - HALF..] == b[len - HALF..],
        WORD..=16 => a[..WORD] == b[..WORD] && a[len - WORD..] == b[len - WORD..],
        _ => a == b,
    }
}

/// Whether two strs have the same characters. Equal strs are stored in the same form.
#[inline]
pub fn same_text(a: &Bound<'_, PyString>, b: &Bound<'_, PyString>) -> bool {
    if a.is(b) {
        return true;
    }
    match (text(a), text(b)) {
        (Text::Ascii(a), Text::Ascii(b)) | (Text::Latin1(a), Text::Latin1(b)) => a == b,
        (Text::Ucs2(a), Text::Ucs2(b)) => a == b,
        (Text::Ucs4(a), Text::Ucs4(b)) => a == b,
        _ => false,
    }
}

/// The text of an instance of a subclass of str (a member of an enum, say) as a plain str, so that
/// hashing and comparing it runs no Python code. A plain str is itself.
#[inline]
pub fn plain_str<'py>(string: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyString>> {
    if is_exact_str(string) {
        return Ok(string.clone());
    }
    // SAFETY: `string` is a str; returns a new reference to an exact str, or null.
    unsafe {
        let plain = ffi::PyUnicode_FromObject(string.as_ptr());
        Ok(Bound::from_owned_ptr_or_err(string.py(), plain)?.cast_into_unchecked())
    }
}

/// A str of bytes that the caller knows to be ASCII: no scan, one copy.
#[inline]
pub fn ascii_str<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    debug_assert!(bytes.is_ascii());
    // The empty str and those of one character are shared objects.
    if let [byte] = *bytes {
        // SAFETY: a new reference, or null with an error set.
        return unsafe {
            Bound::from_owned_ptr_or_err(py, ffi::PyUnicode_FromOrdinal(byte.into()))
        };
    }
    if bytes.is_empty() {
        return Ok(PyString::new(py, "").into_any());
    }
    // SAFETY: a new str of `len` one-byte characters, of which every one is written before the
    // str is seen by anyone else. No character is above the announced maximum of 127.
    unsafe {
        let string = ffi::PyUnicode_New(bytes.len().cast_signed(), 127);
        let string = Bound::from_owned_ptr_or_err(py, string)?;
        let data = data_of_ascii(string.as_ptr());
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len());
        Ok(string)
    }
}

/// A str of bytes that the caller knows to be UTF-8: one pass to see what form it takes, one to
/// fill it. CPython's own decoder validates, and grows as it goes.
pub fn utf8_str<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    debug_assert!(std::str::from_utf8(bytes).is_ok());
    // The highest lead byte tells the highest range: a str must have the narrowest form it can.
    // (The loop over a block compiles to a few vector instructions.)
    let (mut highest, mut len) = (0, 0);
    for block in bytes.chunks(128) {
        let mut starts = 0;
        for &byte in block {
            highest = highest.max(byte);
            starts += u8::from(byte & 0xc0 != 0x80);
        }
        len += usize::from(starts);
    }
    if highest < 0x80 {
        return ascii_str(py, bytes);
    }
    if len < 2 {
        return Ok(PyString::from_bytes(py, bytes)?.into_any());
    }
    let max_char = match highest {
        0..=0xc3 => 0xff,
        0xc4..=0xef => 0xffff,
        _ => 0x10_ffff,
    };
    // SAFETY: a new str of `len` characters in the form that `max_char` asks for; exactly as many
    // are written as there are bytes that start one, before the str is seen by anyone else.
    unsafe {
        let string = ffi::PyUnicode_New(len.cast_signed(), max_char);
        let string = Bound::from_owned_ptr_or_err(py, string)?;
        let data = ffi::PyUnicode_DATA(string.as_ptr());
        match max_char {
            0xff => decode_utf8::<u8>(bytes, data.cast()),
            0xffff => decode_utf8::<u16>(bytes, data.cast()),
            _ => decode_utf8::<u32>(bytes, data.cast()),
        }
        Ok(string)
    }
}

/// Writes the code points of a text.
///
/// # Safety
/// `bytes` is UTF-8, none of its code points is above `T`, and there is room for all at `target`.
unsafe fn decode_utf8<T: Copy + From<u8> + TryFrom<u32>>(bytes: &[u8], mut target: *mut T) {
    let mut rest = bytes;
    // SAFETY: one unit is written for each code point; UTF-8 does not end within a sequence.
    unsafe {
        while !rest.is_empty() {
            // ASCII goes over in blocks, then up to the next sequence.
            while let Some((block, after)) = rest.split_first_chunk::<16>()
                && is_ascii(block)
            {
                for (at, byte) in block.iter().enumerate() {
                    target.add(at).write(T::from(*byte));
                }
                target = target.add(block.len());
                rest = after;
            }
            while let Some((&byte @ 0..0x80, after)) = rest.split_first() {
                target.write(T::from(byte));
                target = target.add(1);
                rest = after;
            }
            // Wide characters mostly come in rows as well.
            while let Some((&lead @ 0x80.., after)) = rest.split_first() {
                let tail = |at: usize| u32::from(after.get_unchecked(at) & 0x3f);
                let (code, more) = match lead {
                    0..=0xdf => (u32::from(lead & 0x1f) << 6 | tail(0), 1),
                    0xe0..=0xef => (u32::from(lead & 0x0f) << 12 | tail(0) << 6 | tail(1), 2),
                    _ => {
                        let lead = u32::from(lead & 0x07);
                        (lead << 18 | tail(0) << 12 | tail(1) << 6 | tail(2), 3)
                    }
                };
                target.write(T::try_from(code).unwrap_or(T::from(b'?')));
                target = target.add(1);
                rest = after.get_unchecked(more..);
            }
        }
    }
}

#[inline]
fn is_ascii(block: &[u8; 16]) -> bool {
    // As a number the block would be taken apart in that form, when it is widened, byte by byte.
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_loadu_si128, _mm_movemask_epi8};
        // SAFETY: SSE2 is part of x86_64; there are 16 bytes.
        unsafe { _mm_movemask_epi8(_mm_loadu_si128(block.as_ptr().cast())) == 0 }
    }
    #[cfg(not(target_arch = "x86_64"))]
    block.is_ascii()
}

/// The value of an int, if 64 bits hold it.
#[inline]
pub fn int_as_i64(int: &Bound<'_, PyInt>) -> Option<i64> {
    let mut overflow: c_int = 0;
    // SAFETY: `int` is an int, for which this cannot fail other than by overflow.
    let value = unsafe { ffi::PyLong_AsLongLongAndOverflow(int.as_ptr(), &raw mut overflow) };
    (overflow == 0).then_some(value)
}

#[inline]
pub fn float_value(float: &Bound<'_, PyFloat>) -> f64 {
    // SAFETY: `float` is a float.
    unsafe { ffi::PyFloat_AS_DOUBLE(float.as_ptr()) }
}

/// A list of what is in `items` from `first` on, which is taken from there. It is made at once in
/// its size, where appending would allocate again and again.
#[inline]
pub fn list_from<'py>(
    py: Python<'py>,
    items: &mut Vec<Bound<'py, PyAny>>,
    first: usize,
) -> PyResult<Bound<'py, PyList>> {
    let new = &items[first..];
    // SAFETY: a new list of that many unset items, each of which is set before anyone else sees the
    // list. The references go over to it: `items` no longer has them.
    unsafe {
        let list = ffi::PyList_New(new.len().cast_signed());
        let list = Bound::from_owned_ptr_or_err(py, list)?.cast_into_unchecked();
        for (index, item) in (0..).zip(new) {
            ffi::PyList_SET_ITEM(list.as_ptr(), index, item.as_ptr());
        }
        items.set_len(first);
        Ok(list)
    }
}

/// The item of a list at `index`, if the list reaches there and C code has set it.
#[inline]
pub fn list_get<'py>(list: &Bound<'py, PyList>, index: usize) -> Option<Bound<'py, PyAny>> {
    lent::within(list, || {
        if index >= list.len() {
            return None;
        }
        // SAFETY: the index was just checked, and nobody changes the list between that and here.
        // A list owns its items; a strong reference is taken.
        unsafe {
            let item = ffi::PyList_GET_ITEM(list.as_ptr(), index.cast_signed());
            Bound::from_borrowed_ptr_or_opt(list.py(), item)
        }
    })
}

/// A list of one object.
#[inline]
pub fn list_of<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
    // SAFETY: a new list of one item, which is set, with a reference of its own, before anyone
    // else sees the list.
    unsafe {
        let list = Bound::from_owned_ptr_or_err(object.py(), ffi::PyList_New(1))?;
        ffi::PyList_SET_ITEM(list.as_ptr(), 0, object.clone().into_ptr());
        Ok(list.cast_into_unchecked())
    }
}

/// The item of a tuple at `index`.
#[inline]
pub fn tuple_item<'a, 'py>(
    tuple: &'a Bound<'py, PyTuple>,
    index: usize,
) -> Option<Borrowed<'a, 'py, PyAny>> {
    if index >= tuple.len() {
        return None;
    }
    // SAFETY: the index was just checked; a tuple is immutable and owns its items.
    unsafe {
        let item = ffi::PyTuple_GET_ITEM(tuple.as_ptr(), index.cast_signed());
        Some(Borrowed::from_ptr(tuple.py(), item))
    }
}

/// Removes a key that was there; code of the caller's may have taken it away since.
pub fn discard<'py>(dict: &Bound<'py, PyDict>, key: impl IntoPyObject<'py>) -> PyResult<()> {
    match dict.del_item(key) {
        Err(error) if error.is_instance_of::<PyKeyError>(dict.py()) => Ok(()),
        removed => removed,
    }
}

/// The value under a str key, as a strong reference. An error (a key in the dict that is no str
/// and whose comparison raises) counts as absence.
#[inline]
pub fn dict_get<'py>(
    dict: &Bound<'py, PyDict>,
    key: &Bound<'py, PyString>,
) -> Option<Bound<'py, PyAny>> {
    let mut value = std::ptr::null_mut();
    // SAFETY: both are alive; on 1 a new reference is in `value`, on 0 and -1 it is null.
    unsafe {
        let found = ffi::compat::PyDict_GetItemRef(dict.as_ptr(), key.as_ptr(), &raw mut value);
        if found < 0 {
            drop(PyErr::take(dict.py()));
        }
        Bound::from_owned_ptr_or_opt(dict.py(), value)
    }
}

/// A new set with the items of another.
#[inline]
pub fn copy_set<'py>(set: &Bound<'py, PySet>) -> PyResult<Bound<'py, PySet>> {
    // SAFETY: returns a new reference to a set, or null with an error set.
    unsafe {
        let copy = Bound::from_owned_ptr_or_err(set.py(), ffi::PySet_New(set.as_ptr()))?;
        Ok(copy.cast_into_unchecked())
    }
}

/// A new instance of a class of models, without a call of Python code. `extra` and the two other
/// slots are those of `BaseModel`, as [`slot`] reads them.
pub fn new_model<'py>(
    class: &Bound<'py, PyType>,
    fields: &Bound<'py, PyDict>,
    slots: [(&Bound<'py, PyAny>, &Bound<'py, PyAny>); 3],
) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    // SAFETY: `tp_alloc` of a live class that makes its instances as `object` does, which then
    // calls it likewise. `object.__new__` would go on to make room for attributes, which the
    // dictionary set next replaces. Then the setters of `__dict__` and of the slots, as assigning
    // to them does. The descriptors check that the object is of their class.
    unsafe {
        let type_object = class.as_type_ptr();
        let new = (*type_object).tp_new.map(|new| new as usize);
        let object_new = ffi::PyBaseObject_Type.tp_new.map(|new| new as usize);
        let Some(alloc) = (*type_object).tp_alloc.filter(|_| new == object_new) else {
            return Err(PyTypeError::new_err("the class has a __new__ of its own"));
        };
        let model = Bound::from_owned_ptr_or_err(py, alloc(type_object, 0))?;
        let set =
            ffi::PyObject_GenericSetDict(model.as_ptr(), fields.as_ptr(), std::ptr::null_mut());
        if set != 0 {
            return Err(PyErr::fetch(py));
        }
        for (descriptor, value) in slots {
            let set = (*ffi::Py_TYPE(descriptor.as_ptr())).tp_descr_set;
            let done = set.map(|set| set(descriptor.as_ptr(), model.as_ptr(), value.as_ptr()));
            if done != Some(0) {
                return Err(PyErr::fetch(py));
            }
        }
        Ok(model)
    }
}
