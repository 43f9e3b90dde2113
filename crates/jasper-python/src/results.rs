//! Results as Python objects: matches and reports.

use jasper::Key;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use serde::Serialize;

use crate::arrays::key_array;

/// A report of the library: an object with its fields as attributes.
pub fn report<'py>(py: Python<'py>, report: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    static REPORT: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let text = serde_json::to_string(report).expect("reports have only string keys and numbers");
    let arguments = PyDict::new(py);
    arguments.set_item("object_hook", REPORT.import(py, "jasper.results", "Report")?)?;
    py.import(intern!(py, "json"))?.call_method("loads", (text,), Some(&arguments))
}

/// Two arrays as matches.
pub fn matches<'py>(
    keys: impl IntoPyObject<'py>,
    distances: impl IntoPyObject<'py>,
    py: Python<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    static MATCHES: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    MATCHES.import(py, "jasper.results", "Matches")?.call1((keys, distances))
}

/// The matches of one query, or of several with `k` each.
pub fn matches_of<'py>(
    py: Python<'py>,
    (keys, distances): (Vec<Key>, Vec<f32>),
    shape: Option<[usize; 2]>,
) -> PyResult<Bound<'py, PyAny>> {
    let (keys, distances) = (key_array(py, keys), PyArray1::from_vec(py, distances));
    match shape {
        Some(shape) => matches(keys.reshape(shape)?, distances.reshape(shape)?, py),
        None => matches(keys, distances, py),
    }
}
