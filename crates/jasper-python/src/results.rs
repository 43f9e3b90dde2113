//! Results as Python objects: matches and reports.

use jasper::Key;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
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
    static NEW: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    // The constructor of the class is a function of Python, which takes longer than that of tuples.
    let new =
        NEW.get_or_try_init(py, || Ok::<_, PyErr>(py.get_type::<PyTuple>().getattr("__new__")?.unbind()))?;
    new.bind(py).call1((MATCHES.import(py, "jasper.results", "Matches")?, (keys, distances)))
}

/// The matches of one query, or of several with `k` each.
pub fn matches_of<'py>(
    py: Python<'py>,
    (keys, distances): (Vec<Key>, Vec<f32>),
    shape: Option<[usize; 2]>,
) -> PyResult<Bound<'py, PyAny>> {
    match shape {
        Some(shape) => {
            let (keys, distances) = (key_array(py, keys), PyArray1::from_vec(py, distances));
            matches(keys.reshape(shape)?, distances.reshape(shape)?, py)
        }
        // Copying a few entries takes less time than making the objects that would own them.
        None => {
            let keys: &[i64] = bytemuck::cast_slice(&keys);
            matches(PyArray1::from_slice(py, keys), PyArray1::from_slice(py, &distances), py)
        }
    }
}
