//! Numbers as JSON text, in the layout that pydantic prints.

use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// Appends a float. NaN and the infinities have no JSON; they are null, as in pydantic.
#[inline]
pub fn push_f64(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() {
        out.extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
    } else {
        out.extend_from_slice(b"null");
    }
}

#[inline]
pub fn push_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

static FLOATS_AGREE: AtomicBool = AtomicBool::new(false);

/// Whether pydantic prints floats as this crate does. Their layout has changed between its
/// versions; where it differs, they are left to it.
#[inline]
pub fn floats_agree() -> bool {
    FLOATS_AGREE.load(Ordering::Relaxed)
}

/// Asks pydantic for the text of some floats. Called when the module is imported.
pub fn compare_floats(py: Python<'_>) -> PyResult<()> {
    let to_json = py.import("pydantic_core")?.getattr("to_json")?;
    let samples = [
        0.0,
        -0.0,
        1.0,
        1e15,
        1e16,
        1.5e16,
        1e17,
        1e21,
        1e22,
        1.0e-4,
        1e-5,
        1.5e-5,
        1e-6,
        1e-7,
        1.5e-7,
        5e-324,
        f64::MAX,
        f64::MIN_POSITIVE,
        0.1,
        123_456.789,
        1.0 / 3.0,
        9_007_199_254_740_993.0,
    ];
    for sample in samples {
        let theirs: Vec<u8> = to_json.call1((sample,))?.extract()?;
        let mut ours = Vec::new();
        push_f64(&mut ours, sample);
        if ours != theirs {
            return Ok(());
        }
    }
    FLOATS_AGREE.store(true, Ordering::Relaxed);
    Ok(())
}
