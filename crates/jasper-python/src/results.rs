//! Results as Python objects: matches and reports.

use std::sync::{Mutex, PoisonError};

use jasper::{Key, Matches};
use numpy::{PyArray1, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use serde::Serialize;

use crate::arrays::key_array;
use crate::errors::Raise;
use crate::lock;

/// A report of the library: an object with its fields as attributes.
pub fn report<'py>(py: Python<'py>, report: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    static REPORT: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let text = serde_json::to_string(report).expect("reports have only string keys and numbers");
    let arguments = PyDict::new(py);
    arguments.set_item("object_hook", REPORT.import(py, "jasper.results", "Report")?)?;
    py.import(intern!(py, "json"))?.call_method("loads", (text,), Some(&arguments))
}

/// Keys and distances of a batch in one dimension.
type Arrays = (Py<PyArray1<i64>>, Py<PyArray1<f32>>);

/// Results of the last batches. Their memory is used again once nothing else refers to it, because filling new memory,
/// each page of which faults, takes a tenth of the time of a search on a GPU.
static KEPT: Mutex<Vec<Arrays>> = Mutex::new(Vec::new());

/// Number of batches of which results are kept.
const KEPT_BATCHES: usize = 4;

/// Largest number of results that are kept of a batch: 12 MiB.
const KEPT_LEN: usize = 1 << 20;

/// Arrays of shape `(queries, k)` to write results to. What they contain is unspecified.
pub fn arrays(py: Python<'_>, queries: usize, k: usize) -> PyResult<(Bound<'_, PyAny>, Bound<'_, PyAny>)> {
    let len = queries.saturating_mul(k);
    let (keys, distances) = match take(py, len) {
        Some(arrays) => arrays,
        None => {
            let new = py.detach(|| Matches::new(queries, k)).map_err(Raise::raise)?;
            let (keys, distances) = new.into_arrays();
            (key_array(py, keys).unbind(), PyArray1::from_vec(py, distances).unbind())
        }
    };
    // Views, which refer to the arrays that are kept.
    let views = (keys.bind(py).reshape([queries, k])?, distances.bind(py).reshape([queries, k])?);
    // Without the interpreter lock, counts of references are not exact.
    if len <= KEPT_LEN && !lock::is_free_threaded() {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = (kept.len() == KEPT_BATCHES).then(|| kept.remove(0));
        kept.push((keys, distances));
        drop(kept);
        drop(oldest);
    }
    Ok((views.0.into_any(), views.1.into_any()))
}

/// Removes arrays of this length to which nothing else refers from those that are kept.
#[expect(deprecated, reason = "what replaces `get_refcnt` is unsafe")]
fn take(py: Python<'_>, len: usize) -> Option<Arrays> {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let unused = kept.iter().position(|(keys, distances)| {
        keys.bind(py).len() == len && keys.get_refcnt(py) == 1 && distances.get_refcnt(py) == 1
    })?;
    Some(kept.remove(unused))
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
