//! Functions that need no index: exact search, recall and devices.

use jasper::{Key, MatrixView, Metric, Vectors};
use jasper_core::recall::{Truth, mean_recall};
use jasper_data::{exact_knn, pool_builder};
use numpy::{PyArray2, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arrays::{Array, Rows, each, in_use};
use crate::call;
use crate::errors::{Error, Integer, ParameterError, Raise, count, parse};
use crate::interop;
use crate::options::threads as threads_of;
use crate::results::{matches_of, report};

/// Finds the k rows of base nearest to each of queries by computing every distance.
///
/// base has shape (n, dim) and type float32, float16, uint8 or int8, or becomes float32; queries has shape (m, dim), or
/// (dim,) for one, and is converted to the type of base. Returns Matches of shape (m, k) or (k,), whose keys are row
/// numbers. k is at most n.
///
/// >>> import jasper, numpy as np
/// >>> base = np.array([[0.0], [1.0], [3.0]], dtype=np.float32)
/// >>> jasper.exact_search(base, [[2.9]], k=2).keys
/// array([[2, 1]])
#[pyfunction]
#[pyo3(signature = (base, queries, k = Integer::from(10), *, metric = "l2", threads = None, progress = None),
           text_signature = "(base, queries, k=10, *, metric=\"l2\", threads=None, progress=None)")]
pub fn exact_search<'py>(
    py: Python<'py>,
    base: &Bound<'py, PyAny>,
    queries: &Bound<'py, PyAny>,
    k: Integer,
    metric: &str,
    threads: Option<Integer>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (k, metric) = (count("k", k)?, parse::<Metric>(metric)?);
    let threads = threads_of(threads)?;
    let (base, given) = (Array::new(base, "base")?, Array::new(queries, "queries")?);
    let (base, rows) = (base.rows()?, given.rows()?);
    let found = call::long(py, progress, |mut progress| {
        let pool = pool_builder(threads).build().map_err(|error| Error::new_err(error.to_string()))?;
        each!(Rows(base), base => {
            let search = |queries: MatrixView<'_, _>| exact_knn(base, queries, k, metric, &pool, &mut progress);
            let found = Vectors::from(rows).with_matrix(search);
            found.map_err(|error| ParameterError::new_err(error.to_string()))?.map_err(Raise::raise)
        })
    })?;
    let keys = found.ids().iter().map(|&id| Key::from(id)).collect();
    let distances = found.distances().unwrap_or_default().to_vec();
    let found = matches_of(py, (keys, distances), (!given.is_one()).then_some([rows.len(), k]))?;
    interop::matches_like(queries, &found)
}

/// The mean recall of search results: the share of the true k nearest keys, or those that tie with the last of them,
/// that are among the first k found. k is the width of found by default.
///
/// found and truth are Matches or arrays of keys, of shape (n, width). With the distances of truth, ties count.
///
/// >>> import jasper
/// >>> jasper.recall([[1, 2], [3, 4]], [[1, 5], [4, 3]])
/// 0.75
#[pyfunction]
#[pyo3(signature = (found, truth, k = None))]
pub fn recall(found: &Bound<'_, PyAny>, truth: &Bound<'_, PyAny>, k: Option<Integer>) -> PyResult<f64> {
    let (mut keys, _, width) = neighbors(found, "found")?;
    let (ids, distances, depth) = neighbors(truth, "truth")?;
    let k = k.map_or(Ok(width), |k| count("k", k))?;
    if k == 0 || k > width || k > depth {
        let message =
            format!("k ({k}) must be between 1 and the width of found ({width}) and truth ({depth})");
        return Err(ParameterError::new_err(message));
    }
    let (queries, truths) = (keys.len() / width, ids.len() / depth);
    if queries != truths || queries == 0 {
        let message =
            format!("found has {queries} rows and truth {truths}; there must be as many, and at least one");
        return Err(ParameterError::new_err(message));
    }
    keys = keys.chunks_exact(width).flat_map(|row| &row[..k]).copied().collect();
    Ok(mean_recall(&keys, k, |query| {
        let row = query * depth..(query + 1) * depth;
        // Places without a neighbor are at the end.
        let end = ids[row.clone()].iter().position(|&id| id == jasper::NO_KEY).unwrap_or(depth);
        let row = row.start..row.start + end;
        Truth { ids: &ids[row.clone()], distances: distances.as_ref().map(|all| &all[row]) }
    }))
}

/// The keys and, if there are any, distances of matches of several queries, and their number per query.
pub fn neighbors(object: &Bound<'_, PyAny>, what: &str) -> PyResult<(Vec<Key>, Option<Vec<f32>>, usize)> {
    let (keys, distances) = match object.cast::<PyTuple>() {
        Ok(pair) if pair.len() == 2 => (pair.get_item(0)?, Some(pair.get_item(1)?)),
        _ => (object.clone(), None),
    };
    let wrong =
        || ParameterError::new_err(format!("{what} must be Matches, or an array of keys, in two dimensions"));
    let keys = contiguous(&keys, "int64")?.cast_into::<PyArray2<i64>>().map_err(|_| wrong())?;
    let (shape, keys) = ([keys.shape()[0], keys.shape()[1]], keys.try_readonly().map_err(|_| in_use(what))?);
    let distances = distances.map(|distances| {
        let distances =
            contiguous(&distances, "float32")?.cast_into::<PyArray2<f32>>().map_err(|_| wrong())?;
        if distances.shape() != shape {
            return Err(wrong());
        }
        Ok(distances.try_readonly().map_err(|_| in_use(what))?.as_slice()?.to_vec())
    });
    Ok((bytemuck::cast_slice(keys.as_slice()?).to_vec(), distances.transpose()?, shape[1]))
}

fn contiguous<'py>(object: &Bound<'py, PyAny>, dtype: &str) -> PyResult<Bound<'py, PyAny>> {
    numpy::get_array_module(object.py())?.call_method1("ascontiguousarray", (object, dtype))
}

/// The CUDA devices: reports with device, name, compute_capability and memory_bytes. Empty without a GPU or a driver.
#[pyfunction]
pub fn devices(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    #[cfg(feature = "cuda")]
    let devices = py
        .detach(jasper_cuda::DeviceProperties::list)
        .unwrap_or_default()
        .into_iter()
        .map(DeviceReport::from);
    #[cfg(not(feature = "cuda"))]
    let devices = std::iter::empty::<()>();
    devices.map(|device| report(py, &device)).collect()
}

#[cfg(feature = "cuda")]
#[derive(serde::Serialize)]
struct DeviceReport {
    device: String,
    name: String,
    compute_capability: String,
    memory_bytes: usize,
    multiprocessors: u32,
}

#[cfg(feature = "cuda")]
impl From<jasper_cuda::DeviceProperties> for DeviceReport {
    fn from(info: jasper_cuda::DeviceProperties) -> Self {
        let (major, minor) = info.compute_capability;
        Self {
            device: jasper::Device::cuda(info.ordinal).to_string(),
            name: info.name,
            compute_capability: format!("{major}.{minor}"),
            memory_bytes: info.memory,
            multiprocessors: info.multiprocessors,
        }
    }
}
