//! What the sources ask about the Python that the extension is built for.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Its version: `Py_3_13` and the like.
    pyo3_build_config::use_pyo3_cfgs();
    // Its DLL. On Windows an import says which one it is from; PyO3 does for what it declares.
    println!("cargo::rustc-check-cfg=cfg(python_dll, values(any()))");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("windows")
        && let Some(name) = pyo3_build_config::get().lib_name()
    {
        println!("cargo::rustc-cfg=python_dll=\"{name}\"");
    }
}
