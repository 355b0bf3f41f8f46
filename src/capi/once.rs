//! Objects that are made at their first use and kept.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::type_object::PyTypeCheck;

/// The value of `cell`, which `make` makes at the first call.
///
/// `make` may run Python code, and that may come back here: a finalizer, a profiler, a module that
/// is imported. So no lock is held meanwhile, as `PyOnceLock::get_or_try_init` would. Should the
/// value be made more than once, all get the one that was there first.
#[inline]
pub fn once<'a, T>(
    cell: &'a PyOnceLock<T>,
    py: Python<'_>,
    make: impl FnOnce() -> PyResult<T>,
) -> PyResult<&'a T> {
    if let Some(value) = cell.get(py) {
        return Ok(value);
    }
    let value = make()?;
    Ok(cell.get_or_init(py, move || value))
}

/// What `module` calls `name`, imported at the first call.
#[inline]
pub fn import_once<'a, 'py, T: PyTypeCheck>(
    cell: &'a PyOnceLock<Py<T>>,
    py: Python<'py>,
    module: &str,
    name: &str,
) -> PyResult<&'a Bound<'py, T>> {
    let object = once(cell, py, || Ok(py.import(module)?.getattr(name)?.cast_into()?.unbind()))?;
    Ok(object.bind(py))
}
