//! Which keys a search may return.

use jasper::attributes::Expression;
use jasper::{Filter as RustFilter, Key, KeyFilter};
use jasper_core::BitSet;
use numpy::{PyArray1, PyArrayDescrMethods, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyList, PyString};

use crate::arrays::{self, in_use, key_array};
use crate::attributes;
use crate::errors::ParameterError;
use crate::index::Index;

/// Which keys a search may return. Make it once and use it in many searches: an index remembers what it looks up.
///
/// Wherever a filter is expected, keys or bools will do, as a list, an array, a series or the like; an expression on
/// attributes as a text, such as "year >= 2020 and lang in ('en', 'de')", or as a dictionary, such as
/// {"year": {"$gte": 2020}, "lang": {"$in": ["en", "de"]}}; and a list of such filters, one for each query.
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
    Where(Expression),
}

/// The filters of a search: none, one, or one for each query.
pub struct Filters {
    filters: Vec<Py<Filter>>,
    is_per_query: bool,
}

impl Filters {
    /// Those of the caller's argument.
    pub fn from_argument(argument: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(argument) = argument else {
            return Ok(Self { filters: Vec::new(), is_per_query: false });
        };
        let several = argument.cast::<PyList>().ok().filter(|list| list.iter().any(|one| is_filter(&one)));
        let filters = match several {
            Some(list) => list.iter().map(|one| Filter::from_argument(&one)).collect::<PyResult<_>>()?,
            None => vec![Filter::from_argument(argument)?],
        };
        Ok(Self { filters, is_per_query: several.is_some() })
    }

    /// As the library takes them.
    pub fn list(&self) -> Vec<RustFilter<'_>> {
        self.filters.iter().map(|filter| filter.get().as_filter()).collect()
    }

    /// The filter of a search with the filters of [`Self::list`].
    pub fn of<'a>(&self, list: &'a [RustFilter<'a>]) -> Option<RustFilter<'a>> {
        if self.is_per_query { Some(list.into()) } else { list.first().copied() }
    }
}

/// Whether an item of a list is a filter of its own, and not a key or a bool of one.
fn is_filter(item: &Bound<'_, PyAny>) -> bool {
    item.is_instance_of::<Filter>()
        || item.is_instance_of::<PyString>()
        || item.is_instance_of::<PyDict>()
        || item.is_instance_of::<PyList>()
        || item.is_instance_of::<PyUntypedArray>()
}

impl Filter {
    /// The filter of the caller's argument: a filter, a mask, or keys.
    pub fn from_argument(argument: &Bound<'_, PyAny>) -> PyResult<Py<Self>> {
        let py = argument.py();
        if let Ok(filter) = argument.cast::<Self>() {
            return Ok(filter.clone().unbind());
        }
        if let Some(expression) = attributes::expression(argument)? {
            return Py::new(py, Self(Kind::Where(expression)));
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
            Kind::Where(expression) => expression.into(),
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
    /// The keys whose attributes an expression selects: a text, or a dictionary. Errors name the column and the position.
    ///
    /// >>> import jasper
    /// >>> recent = jasper.Filter.where("year >= 2020 and lang in ('en', 'de')")
    /// >>> index = jasper.Index.build([[1.0], [2.0]], attributes={"year": [1999, 2024], "lang": ["en", "en"]})
    /// >>> index.search([1.0], 1, filter=recent).keys
    /// array([1])
    #[staticmethod]
    #[pyo3(name = "where")]
    fn by_attributes(expression: &Bound<'_, PyAny>) -> PyResult<Self> {
        match attributes::expression(expression)? {
            Some(expression) => Ok(Self(Kind::Where(expression))),
            None => Err(ParameterError::new_err("an expression is a str or a dict")),
        }
    }

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
        let mask = mask.try_readonly().map_err(|_| in_use("mask"))?;
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
            Kind::Where(expression) => {
                let text = expression.to_string().into_pyobject(py)?.into_any();
                return Ok((slf.get_type().getattr("where")?, (text,)));
            }
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
            Kind::Where(expression) => format!("<jasper.Filter where {expression}>"),
        }
    }
}
