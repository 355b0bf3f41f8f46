//! What the sources ask about the Python that the extension is built for: its version, as
//! `Py_3_13` and the like.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    pyo3_build_config::use_pyo3_cfgs();
}
