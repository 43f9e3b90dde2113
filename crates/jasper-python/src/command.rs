//! The command `jasper`, which the package installs beside the module.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command `jasper` with arguments, the first of which is its name, and returns its exit code.
#[pyfunction]
#[pyo3(name = "_command")]
pub fn command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| jasper_cli::run(arguments))
}
