//! The extension module `jasper._native`: [`jasper`] for Python.
//!
//! Doc comments of the items that Python sees are their docstrings, so they are written for its users.

#![deny(unsafe_code)]

mod arrays;
mod attributes;
mod build;
mod call;
mod command;
#[cfg(feature = "cuda")]
mod device;
#[cfg(not(feature = "cuda"))]
#[path = "device_stub.rs"]
mod device;
mod errors;
mod filter;
mod functions;
mod import;
mod index;
mod interop;
mod lock;
mod options;
mod pages;
mod results;
mod search;
mod submit;
mod update;

use pyo3::prelude::*;

/// Vector indexes, compiled from Rust. Use the package `jasper`.
#[pymodule(gil_used = false)]
mod _native {
    use super::*;

    #[pymodule_export]
    use super::{
        command::command,
        filter::Filter,
        functions::{devices, exact_search, recall},
        index::Index,
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        call::count_forks(module.py())?;
        lock::init(module.py())?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
