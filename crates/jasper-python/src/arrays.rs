//! Vectors and keys in arrays: checked, and borrowed where they can be.

use std::fmt::Display;
use std::io;
use std::ops::Range;

use jasper::error::VectorError;
use jasper::{Element, ElementKind, Key, MatrixView, VectorSource};
use numpy::{
    PyArray1, PyArrayDescr, PyArrayDescrMethods, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2,
    PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PySequence, PySlice};

use crate::call;
use crate::errors::{Error, ParameterError, Raise};
use crate::interop;

/// An element type of both Jasper and numpy.
pub trait Scalar: Element + numpy::Element {}
impl<T: Element + numpy::Element> Scalar for T {}

/// The name of an element type in numpy.
pub const fn dtype_name(element: ElementKind) -> &'static str {
    match element {
        ElementKind::F32 => "float32",
        ElementKind::F16 => "float16",
        ElementKind::U8 => "uint8",
        ElementKind::I8 => "int8",
    }
}

/// The element type of a numpy dtype, in either byte order.
fn element_of(dtype: &Bound<'_, PyArrayDescr>) -> Option<ElementKind> {
    match (dtype.kind(), dtype.itemsize()) {
        (b'f', 4) => Some(ElementKind::F32),
        (b'f', 2) => Some(ElementKind::F16),
        (b'u', 1) => Some(ElementKind::U8),
        (b'i', 1) => Some(ElementKind::I8),
        _ => None,
    }
}

/// The element type that a dtype, or the name of one, stands for.
pub fn parse_dtype(dtype: &Bound<'_, PyAny>) -> PyResult<ElementKind> {
    let element = PyArrayDescr::new(dtype.py(), dtype).ok().and_then(|dtype| element_of(&dtype));
    element.ok_or_else(|| {
        ParameterError::new_err(format!("dtype ({dtype}) must be float32, float16, uint8 or int8"))
    })
}

/// The element type of vectors to build an index from; float32 for lists of numbers. `what` names them in messages.
pub fn element(vectors: &Bound<'_, PyAny>, what: &str) -> PyResult<ElementKind> {
    let array = match described(vectors)? {
        Some((dtype, _)) => dtype,
        None if vectors.hasattr("__array__")? => {
            let array = numpy::get_array_module(vectors.py())?.call_method1("asarray", (vectors,))?;
            array.cast::<PyUntypedArray>()?.dtype()
        }
        None => return Ok(ElementKind::F32),
    };
    element_of(&array).ok_or_else(|| {
        let remedy = remedy(&array, what, ElementKind::F32);
        let or = if is_convertible(&array) { ", or pass dtype=\"float32\" to Index.build" } else { "" };
        ParameterError::new_err(format!(
            "{what} are {array}, and an index stores float32, float16, uint8 or int8; {remedy}{or}"
        ))
    })
}

/// Whether values of a type may be numbers, or are some of another library.
fn is_convertible(dtype: &Bound<'_, PyArrayDescr>) -> bool {
    matches!(dtype.kind(), b'b' | b'f' | b'i' | b'u' | b'O' | interop::FOREIGN) && !dtype.has_fields()
}

/// How to convert an array of a type to an element type, for messages.
fn remedy(dtype: &Bound<'_, PyArrayDescr>, what: &str, element: ElementKind) -> String {
    let name = dtype_name(element);
    if !is_convertible(dtype) {
        return format!("give numbers of {name}");
    }
    match dtype.kind() {
        b'O' => {
            format!("if they are lists of numbers, convert them with numpy.array(list({what}), \"{name}\")")
        }
        _ if element.is_integer() => format!(
            "build the index with their type, or bring them into its range and then convert them with \
             numpy.asarray({what}, \"{name}\")"
        ),
        _ => format!("convert them with numpy.asarray({what}, \"{name}\")"),
    }
}

/// One vector or several, in memory: borrowed, or a converted copy.
pub enum Array<'py, T: Scalar> {
    /// Of shape `(dimension,)`.
    One(PyReadonlyArray1<'py, T>),
    /// Of shape `(n, dimension)`.
    Many(PyReadonlyArray2<'py, T>),
}

impl<'py, T: Scalar> Array<'py, T> {
    /// Vectors to search for. Floats are converted to those of the index. `what` names them in messages.
    pub fn queries(object: &Bound<'py, PyAny>, what: &str) -> PyResult<Self> {
        Self::new(object, what, |dtype| T::KIND.is_integer() || dtype.kind() != b'f')
    }

    /// Borrows an array, or converts what is not one. Its element type must be `T` where `is_strict` says so.
    fn new(
        object: &Bound<'py, PyAny>,
        what: &str,
        is_strict: impl FnOnce(&Bound<'py, PyArrayDescr>) -> bool,
    ) -> PyResult<Self> {
        let object = &interop::to_numpy(object, what)?;
        if let Some(array) = Self::borrow(object, what)? {
            return Ok(array);
        }
        let py = object.py();
        let array = whole_array(object, what)?;
        let dtype = array.dtype();
        // Numbers of Python have no type that could be wrong, only values.
        let is_list = object.is_instance_of::<PySequence>() && !object.hasattr(intern!(py, "__array__"))?;
        let is_number = matches!(dtype.kind(), b'f' | b'i' | b'u');
        let is_exact = if is_list { !is_number } else { is_strict(&dtype) };
        if is_exact {
            check_element::<T>(&dtype, what)?;
        }
        if !matches!(array.ndim(), 1 | 2) {
            return Err(wrong_shape(what, array.shape()));
        }
        if let Some(array) = Self::borrow(&array, what)? {
            return Ok(array);
        }
        // A copy, which is contiguous and aligned.
        let interop = py.import(intern!(py, "jasper._interop"))?;
        let converted =
            interop.call_method1(intern!(py, "converted"), (&array, dtype_name(T::KIND), what))?;
        Self::borrow(&converted, what)?.ok_or_else(|| wrong_shape(what, array.shape()))
    }

    /// Borrows an array of this type that is contiguous.
    fn borrow(object: &Bound<'py, PyAny>, what: &str) -> PyResult<Option<Self>> {
        let busy = |_| Error::new_err(format!("{what} are in use as the results of another search"));
        let Ok(array) = object.cast::<PyUntypedArray>() else { return Ok(None) };
        if !array.is_c_contiguous() || !array.is_aligned() {
            return Ok(None);
        }
        let borrowed = match array.ndim() {
            1 => object.cast().ok().map(|array| array.try_readonly().map(Self::One)),
            2 => object.cast().ok().map(|array| array.try_readonly().map(Self::Many)),
            _ => None,
        };
        borrowed.transpose().map_err(busy)
    }

    /// Whether this is one vector.
    pub fn is_one(&self) -> bool {
        matches!(self, Self::One(_))
    }

    /// The vector, if it is one.
    pub fn one(&self) -> PyResult<&[T]> {
        match self {
            Self::One(array) => Ok(array.as_slice()?),
            Self::Many(array) => Err(ParameterError::new_err(format!(
                "query has shape {:?}; it must be (dimension,)",
                array.shape()
            ))),
        }
    }

    /// The vectors, for a call that does not hold the interpreter lock.
    pub fn view(&self) -> PyResult<MatrixView<'_, T>> {
        let (slice, dimension) = match self {
            Self::One(array) => (array.as_slice()?, array.len()),
            Self::Many(array) => (array.as_slice()?, array.shape()[1]),
        };
        MatrixView::new(slice, dimension).map_err(|error| VectorError::from(error).raise())
    }
}

/// Vectors to store.
pub enum Vectors<'py, T: Scalar> {
    /// In memory.
    Array(Array<'py, T>),
    /// To be read chunk by chunk.
    Chunks(Chunks),
}

/// An object of shape `(n, dimension)` with a dtype and slices: an array that is not contiguous, or data in a file.
pub struct Chunks {
    object: Py<PyAny>,
    len: usize,
    dimension: usize,
    convert: bool,
}

impl<'py, T: Scalar> Vectors<'py, T> {
    /// Vectors of the element type of the index, or of any that can be converted if `convert`.
    pub fn new(object: &Bound<'py, PyAny>, convert: bool) -> PyResult<Self> {
        let object = &interop::to_numpy(object, "vectors")?;
        if let Some(array) = Array::borrow(object, "vectors")? {
            return Ok(Self::Array(array));
        }
        let convert = convert || !T::KIND.is_integer() && interop::is_bfloat16(object)?;
        let chunks = match described(object)? {
            Some((dtype, shape)) if let [len, dimension] = shape[..] => {
                if !convert {
                    check_element::<T>(&dtype, "vectors")?;
                }
                Chunks { object: object.clone().unbind(), len, dimension, convert }
            }
            _ => return Ok(Self::Array(Array::new(object, "vectors", |_| !convert)?)),
        };
        Ok(Self::Chunks(chunks))
    }

    /// The vectors, for a call that does not hold the interpreter lock.
    pub fn source(&self) -> PyResult<Source<'_, T>> {
        Ok(match self {
            Self::Array(array) => Source::Memory(array.view()?),
            Self::Chunks(chunks) => Source::Chunks(chunks),
        })
    }
}

/// The vectors that a call reads.
pub enum Source<'a, T> {
    Memory(MatrixView<'a, T>),
    Chunks(&'a Chunks),
}

impl<T: Scalar> VectorSource<T> for Source<'_, T> {
    fn len(&self) -> usize {
        match self {
            Self::Memory(view) => view.len(),
            Self::Chunks(chunks) => chunks.len,
        }
    }

    fn dimension(&self) -> usize {
        match self {
            Self::Memory(view) => view.dimension(),
            Self::Chunks(chunks) => chunks.dimension,
        }
    }

    fn read(&self, range: Range<usize>, out: &mut [T]) -> io::Result<()> {
        match self {
            Self::Memory(view) => view.read(range, out),
            Self::Chunks(chunks) => call::attach(|py| chunks.read(py, range, out)).map_err(io::Error::other),
        }
    }

    fn concurrent(&self) -> Option<&(dyn VectorSource<T> + Sync)> {
        match self {
            Self::Memory(view) => Some(view),
            Self::Chunks(_) => None,
        }
    }

    fn in_memory(&self) -> Option<MatrixView<'_, T>> {
        match self {
            Self::Memory(view) => Some(*view),
            Self::Chunks(_) => None,
        }
    }
}

impl Chunks {
    fn read<T: Scalar>(&self, py: Python<'_>, range: Range<usize>, out: &mut [T]) -> PyResult<()> {
        py.check_signals()?;
        let Range { start, end } = range;
        let chunk = self.object.bind(py).get_item(PySlice::new(py, start as isize, end as isize, 1))?;
        let array = Array::<T>::new(&chunk, "vectors", |_| !self.convert)?;
        let view = array.view()?;
        if array.is_one() || (view.len(), view.dimension()) != (range.len(), self.dimension) {
            let shape = (view.len(), view.dimension());
            let expected = (range.len(), self.dimension);
            let message = format!("vectors[{start}:{end}] has shape {shape:?}, expected {expected:?}");
            return Err(ParameterError::new_err(message));
        }
        view.rows().zip(out.chunks_exact_mut(self.dimension)).for_each(|(row, out)| out.copy_from_slice(row));
        Ok(())
    }
}

/// The dtype and shape of an object that has those of numpy.
fn described<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<(Bound<'py, PyArrayDescr>, Vec<usize>)>> {
    let py = object.py();
    let (Some(dtype), Some(shape)) =
        (object.getattr_opt(intern!(py, "dtype"))?, object.getattr_opt(intern!(py, "shape"))?)
    else {
        return Ok(None);
    };
    Ok(PyArrayDescr::new(py, dtype).ok().zip(shape.extract().ok()))
}

/// The array of an object, all of it. What only has slices is read as one.
fn whole_array<'py>(object: &Bound<'py, PyAny>, what: &str) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = object.py();
    let has_slices_only = !object.hasattr(intern!(py, "__array__"))? && described(object)?.is_some();
    let whole = if has_slices_only { &object.get_item(PySlice::full(py))? } else { object };
    let array = numpy::get_array_module(py)?.call_method1(intern!(py, "asarray"), (whole,));
    let array = array.map_err(|error| {
        // What numpy says of lists of different lengths.
        if error.is_instance_of::<PyValueError>(py) && !error.is_instance_of::<Error>(py) {
            return ParameterError::new_err(format!(
                "{what} cannot be read as an array: {}",
                error.value(py)
            ));
        }
        error
    })?;
    let array = array.cast_into::<PyUntypedArray>()?;
    if array.dtype().kind() == interop::FOREIGN && !object.is(&array) {
        return whole_array(&interop::to_numpy(&array, what)?, what);
    }
    Ok(array)
}

fn check_element<T: Scalar>(dtype: &Bound<'_, PyArrayDescr>, what: &str) -> PyResult<()> {
    match element_of(dtype) {
        Some(element) if element == T::KIND => Ok(()),
        _ => Err(wrong_dtype(dtype, what, T::KIND)),
    }
}

fn wrong_dtype(dtype: &Bound<'_, PyArrayDescr>, what: &str, expected: ElementKind) -> PyErr {
    let (name, remedy) = (dtype_name(expected), remedy(dtype, what, expected));
    ParameterError::new_err(format!("{what} are {dtype}, and those of the index {name}; {remedy}"))
}

fn wrong_shape(what: &str, shape: &[usize]) -> PyErr {
    ParameterError::new_err(format!(
        "{what} have shape {shape:?}; it must be (n, dimension), or (dimension,) for one"
    ))
}

/// Keys given as one integer, an array or a list. Python's keys are not negative, so that -1 can mean none.
pub fn keys(object: &Bound<'_, PyAny>) -> PyResult<Vec<Key>> {
    let object = interop::to_numpy(object, "keys")?;
    if let Ok(array) = object.cast::<PyArray1<i64>>() {
        return array.readonly().as_array().iter().map(|&key| checked(key)).collect();
    }
    let py = object.py();
    let numpy = numpy::get_array_module(py)?;
    let array = numpy.call_method1(intern!(py, "asarray"), (object,))?.cast_into::<PyUntypedArray>()?;
    let kind = array.dtype().kind();
    if array.ndim() > 1 || !(matches!(kind, b'i' | b'u') || array.is_empty()) {
        let (dtype, shape) = (array.dtype(), array.shape());
        return Err(ParameterError::new_err(format!(
            "keys are {dtype} of shape {shape:?}; give integers from 0 to 2**63 - 1, in one dimension"
        )));
    }
    if kind == b'u' && !array.is_empty() {
        checked(array.call_method0("max")?.extract::<u64>()?)?;
    }
    let array = array.call_method1("astype", ("int64",))?.call_method1("reshape", (-1,))?;
    keys(&array)
}

fn checked(key: impl TryInto<i64> + Copy + Display) -> PyResult<Key> {
    let checked = key.try_into().ok().and_then(|key| Key::try_from(key).ok());
    checked.ok_or_else(|| ParameterError::new_err(format!("key {key} must be from 0 to 2**63 - 1")))
}

/// One key, given as an integer.
pub fn key(object: &Bound<'_, PyAny>) -> PyResult<Key> {
    let key = object.extract::<i64>().ok().and_then(|key| Key::try_from(key).ok());
    key.ok_or_else(|| ParameterError::new_err(format!("key {object} must be an integer from 0 to 2**63 - 1")))
}

/// An array of keys, which are below 2^63 or [`NO_KEY`](jasper::NO_KEY), which becomes -1.
pub fn key_array(py: Python<'_>, keys: Vec<Key>) -> Bound<'_, PyArray1<i64>> {
    PyArray1::from_vec(py, bytemuck::cast_vec(keys))
}
