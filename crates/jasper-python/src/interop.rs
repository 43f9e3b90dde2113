//! Arrays of other libraries, in host memory, and Arrow: as arrays of numpy, without a copy, and results back.

use numpy::PyUntypedArray;
use pyo3::intern;
use pyo3::prelude::*;

use crate::device::DeviceArray;

/// The object, or an array of numpy over the memory of an array of another library. Arrays on a device are copied to host
/// memory. `what` names it in messages.
pub fn to_numpy<'py>(object: &Bound<'py, PyAny>, what: &str) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    if object.is_instance_of::<PyUntypedArray>() {
        return Ok(object.clone());
    }
    if let Some(array) = DeviceArray::new(object, what)? {
        return array.to_host(what);
    }
    for protocol in ["__dlpack__", "__arrow_c_array__", "__arrow_c_stream__"] {
        if object.hasattr(protocol)? {
            return py.import(intern!(py, "jasper._interop"))?.call_method1("to_numpy", (object, what));
        }
    }
    Ok(object.clone())
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
