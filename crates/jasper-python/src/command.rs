//! The command `jasper`, which the package installs beside the module.

use std::ffi::OsString;
use std::path::PathBuf;
use std::{fs, io};

use pyo3::prelude::*;

/// Runs the command `jasper` with arguments, the first of which is its name, and returns its exit code. `dictionary` is
/// the folder with the files of `jasper demo`, if they are installed.
#[pyfunction]
#[pyo3(name = "_command", signature = (arguments, dictionary))]
pub fn command(py: Python<'_>, arguments: Vec<OsString>, dictionary: Option<PathBuf>) -> u8 {
    let read = |name: &str| match &dictionary {
        Some(folder) => Ok(fs::read(folder.join(name))?.into()),
        None => Err(io::Error::other(
            "the dictionary of the demonstration is not installed; run `pip install 'jasper-ann[demo]'`, or in a \
             clone `pip install ./crates/jasper-python/demo`",
        )),
    };
    py.detach(|| jasper_cli::run(arguments, &read))
}
