//! Which keys a search may return.

use jasper::{BitSet, Filter as RustFilter, Key, KeyFilter};
use numpy::{PyArray1, PyArrayDescrMethods, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::IntoPyDict;

use crate::arrays::{self, key_array};
use crate::errors::ParameterError;
use crate::index::Index;

/// Which keys a search may return. Make it once and use it in many searches: an index remembers what it looks up.
///
/// Wherever a filter is expected, keys or bools will do, as a list, an array, a series or the like.
///
/// >>> import jasper, numpy as np
/// >>> vectors = np.eye(4, dtype=np.float32)
/// >>> index = jasper.Index.build(vectors)
/// >>> index.search(vectors[0], 2, filter=jasper.Filter.keys([1, 3])).keys
/// array([1, 3])
/// >>> index.search(vectors[0], 1, filter=jasper.Filter.keys([0], exclude=True)).keys
/// array([1])
#[pyclass(frozen, module = "jasper")]
pub struct Filter(Kind);

enum Kind {
    Include(KeyFilter),
    /// The excluded keys, and a predicate of those that are not.
    Exclude(KeyFilter, Box<dyn Fn(Key) -> bool + Send + Sync>),
}

impl Filter {
    /// The filter of the caller's argument: a filter, a mask, or keys.
    pub fn from_argument(argument: &Bound<'_, PyAny>) -> PyResult<Py<Self>> {
        let py = argument.py();
        if let Ok(filter) = argument.cast::<Self>() {
            return Ok(filter.clone().unbind());
        }
        let selection = selection(argument)?;
        let is_mask = selection.dtype().kind() == b'b';
        let filter = if is_mask { Self::mask(&selection)? } else { Self::keys(&selection, false)? };
        Py::new(py, filter)
    }

    /// The filter as the library takes it.
    pub fn as_filter(&self) -> RustFilter<'_> {
        match &self.0 {
            Kind::Include(keys) => keys.into(),
            Kind::Exclude(_, accepts) => RustFilter::Predicate(accepts),
        }
    }
}

/// What selects keys, as an array of numpy: of bools, or of keys.
fn selection<'py>(given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = given.py();
    if let Ok(array) = given.cast_exact::<PyUntypedArray>()
        && array.ndim() == 1
        && array.dtype().kind() != b'O'
    {
        return Ok(array.clone());
    }
    let interop = py.import(intern!(py, "jasper._interop"))?;
    Ok(interop.call_method1(intern!(py, "selection"), (given,))?.cast_into()?)
}

#[pymethods]
impl Filter {
    /// The keys of an array or list, or all but those if `exclude`. Keys that an index does not have are ignored.
    #[staticmethod]
    #[pyo3(signature = (keys, *, exclude = false))]
    fn keys(keys: &Bound<'_, PyAny>, exclude: bool) -> PyResult<Self> {
        let keys: KeyFilter = arrays::keys(keys)?.into_iter().collect();
        Ok(Self(if exclude {
            let excluded = keys.clone();
            Kind::Exclude(keys, Box::new(move |key| !excluded.contains(key)))
        } else {
            Kind::Include(keys)
        }))
    }

    /// The keys whose entry in an array of bools is true: key 0 at position 0, and so on. Larger keys do not pass.
    #[staticmethod]
    fn mask(mask: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mask = selection(mask)?;
        let Ok(mask) = mask.cast::<PyArray1<bool>>() else {
            let (dtype, shape) = (mask.dtype(), mask.shape());
            return Err(ParameterError::new_err(format!(
                "mask is {dtype} of shape {shape:?}; it must be bools in one dimension"
            )));
        };
        let mask = mask.try_readonly()?;
        let keys =
            mask.as_array().indexed_iter().filter_map(|(key, &passes)| passes.then_some(key)).collect();
        let keys: BitSet = keys;
        Ok(Self(Kind::Include(keys.into())))
    }

    /// The keys of `index` that a function selects. It is called once, with an array of all keys, and returns an array
    /// of bools. Keys inserted later do not pass.
    ///
    /// >>> import jasper, numpy as np
    /// >>> vectors = np.eye(4, dtype=np.float32)
    /// >>> index = jasper.Index.build(vectors)
    /// >>> odd = jasper.Filter.matching(index, lambda keys: keys % 2 == 1)
    /// >>> index.search(vectors[0], 2, filter=odd).keys
    /// array([1, 3])
    #[staticmethod]
    fn matching(index: &Bound<'_, Index>, predicate: &Bound<'_, PyAny>) -> PyResult<Self> {
        let keys = index.get().keys(index.py())?;
        let passes = selection(&predicate.call1((&keys,))?)?;
        if !passes.cast::<PyArray1<bool>>().is_ok_and(|passes| passes.len() == keys.len()) {
            return Err(ParameterError::new_err("predicate must return an array of one bool per key"));
        }
        Self::keys(&keys.get_item(passes)?, false)
    }

    /// Pickles the filter as its keys.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyAny>,))> {
        let py = slf.py();
        let mut make = slf.get_type().getattr("keys")?;
        let keys = match &slf.get().0 {
            Kind::Include(keys) => keys,
            Kind::Exclude(keys, _) => {
                let exclude = [("exclude", true)].into_py_dict(py)?;
                make = py.import("functools")?.getattr("partial")?.call((make,), Some(&exclude))?;
                keys
            }
        };
        Ok((make, (key_array(py, keys.keys().collect()).into_any(),)))
    }

    fn __repr__(&self) -> String {
        match &self.0 {
            Kind::Include(keys) => format!("<jasper.Filter of {} keys>", keys.len()),
            Kind::Exclude(keys, _) => format!("<jasper.Filter of all but {} keys>", keys.len()),
        }
    }
}
