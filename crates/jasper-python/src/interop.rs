//! Arrays of other libraries, in host memory, and Arrow: as arrays of numpy, without a copy, and results back.

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyInt, PyList, PyType};

use crate::device::DeviceArray;

/// The kind of a dtype that numpy does not have itself, such as bfloat16.
pub const FOREIGN: u8 = b'V';

/// The object, or an array of numpy over the memory of an array of another library. Arrays on a device are copied to host
/// memory. `what` names it in messages.
pub fn to_numpy<'py>(object: &Bound<'py, PyAny>, what: &str) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let is_plain = match object.cast_exact::<PyUntypedArray>() {
        Ok(array) => array.dtype().kind() != FOREIGN,
        Err(_) => object.is_instance_of::<PyList>() || object.is_instance_of::<PyInt>(),
    };
    if is_plain {
        return Ok(object.clone());
    }
    if let Some(array) = DeviceArray::new(object, what)? {
        return array.to_host(what);
    }
    py.import(intern!(py, "jasper._interop"))?.call_method1(intern!(py, "to_numpy"), (object, what))
}

/// Whether vectors are read as another type than their `dtype`, which says what to store them as.
pub fn is_bfloat16(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    static BFLOAT16: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    if object.is_instance_of::<PyUntypedArray>() {
        return Ok(false);
    }
    object.is_instance(BFLOAT16.import(object.py(), "jasper._interop", "BFloat16")?)
}

/// Matches in the library of the queries.
pub fn matches_like<'py>(
    queries: &Bound<'py, PyAny>,
    found: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = queries.py();
    if queries.is_instance_of::<PyUntypedArray>() || !queries.hasattr(intern!(py, "__dlpack__"))? {
        return Ok(found.clone());
    }
    py.import(intern!(py, "jasper._interop"))?.call_method1("matches_like", (queries, found))
}
