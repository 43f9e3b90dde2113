//! Vectors and keys in arrays: checked, and borrowed where they can be.

use std::fmt::Display;
use std::io;
use std::ops::Range;

use jasper::{Element, ElementKind, Key, MatrixView, Target, VectorSource, Vectors, f16};
use jasper_graph::VectorError;
use numpy::{
    PyArray1, PyArrayDescr, PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn,
    PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PySlice, PyString, PyTuple};

use crate::call;
use crate::errors::{Error, ParameterError, Raise};
use crate::interop;

/// An element type of both Jasper and numpy.
pub trait Scalar: Element + numpy::Element {}
impl<T: Element + numpy::Element> Scalar for T {}

/// Evaluates an expression on what an [`Array`] or [`Rows`] holds, of whichever element type.
macro_rules! each {
    ($Any:ident($any:expr), $held:ident => $body:expr) => {
        match $any {
            $Any::F32($held) => $body,
            $Any::F16($held) => $body,
            $Any::U8($held) => $body,
            $Any::I8($held) => $body,
        }
    };
}
pub(crate) use each;

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

/// The element type of vectors to build an index from; float32 for lists of numbers.
pub fn element(vectors: &Bound<'_, PyAny>) -> PyResult<ElementKind> {
    let dtype = match described(vectors)? {
        Some((dtype, _)) => dtype,
        None if vectors.hasattr("__array__")? => {
            let array = numpy::get_array_module(vectors.py())?.call_method1("asarray", (vectors,))?;
            array.cast::<PyUntypedArray>()?.dtype()
        }
        None => return Ok(ElementKind::F32),
    };
    element_of(&dtype).ok_or_else(|| {
        let remedy = match dtype.kind() {
            b'b' | b'f' | b'i' | b'u' | interop::FOREIGN if !dtype.has_fields() => {
                "convert them with numpy.asarray(vectors, \"float32\"), or pass dtype=\"float32\" to Index.build"
            }
            b'O' => {
                "if they are lists of numbers, convert them with numpy.array(list(vectors), \"float32\"), or pass \
                 dtype=\"float32\" to Index.build"
            }
            _ => "give numbers",
        };
        ParameterError::new_err(format!(
            "vectors are {dtype}, and an index stores float32, float16, uint8 or int8; {remedy}"
        ))
    })
}

/// One vector, of shape `(dimension,)`, or several, of shape `(n, dimension)`, in memory: borrowed, or a converted copy.
pub enum Array<'py> {
    F32(PyReadonlyArrayDyn<'py, f32>),
    F16(PyReadonlyArrayDyn<'py, f16>),
    U8(PyReadonlyArrayDyn<'py, u8>),
    I8(PyReadonlyArrayDyn<'py, i8>),
}

/// The vectors of an [`Array`], for a call that does not hold the interpreter lock.
#[derive(Clone, Copy)]
pub enum Rows<'a> {
    F32(MatrixView<'a, f32>),
    F16(MatrixView<'a, f16>),
    U8(MatrixView<'a, u8>),
    I8(MatrixView<'a, i8>),
}

impl<'py> Array<'py> {
    /// Vectors that a call converts to the type of the index. Numbers that no index stores become float32. `what` names the
    /// vectors in messages.
    pub fn new(object: &Bound<'py, PyAny>, what: &str) -> PyResult<Self> {
        Self::of(&interop::to_numpy(object, what)?, None, what)
    }

    /// Vectors of this element type, or their own.
    fn of(object: &Bound<'py, PyAny>, element: Option<ElementKind>, what: &str) -> PyResult<Self> {
        if let Some(array) = Self::borrow(object, element, what)? {
            return Ok(array);
        }
        let py = object.py();
        let array = whole_array(object, what)?;
        if let Some(array) = Self::borrow(&array, element, what)? {
            return Ok(array);
        }
        let element = element.or_else(|| element_of(&array.dtype())).unwrap_or(ElementKind::F32);
        // A copy, which is contiguous and aligned.
        let interop = py.import(intern!(py, "jasper._interop"))?;
        let converted =
            interop.call_method1(intern!(py, "converted"), (&array, dtype_name(element), what))?;
        Self::borrow(&converted, None, what)?.ok_or_else(|| {
            let shape = array.shape();
            ParameterError::new_err(format!(
                "{what} have shape {shape:?}; it must be (n, dimension), or (dimension,) for one"
            ))
        })
    }

    /// Borrows an array that is contiguous, if its element type is this, or any of an index.
    fn borrow(
        object: &Bound<'py, PyAny>,
        element: Option<ElementKind>,
        what: &str,
    ) -> PyResult<Option<Self>> {
        /// `None` if the array has another byte order.
        fn readonly<'py, T: Scalar>(
            array: &Bound<'py, PyUntypedArray>,
            what: &str,
        ) -> PyResult<Option<PyReadonlyArrayDyn<'py, T>>> {
            let array = array.cast::<PyArrayDyn<T>>().ok();
            array.map(|array| array.try_readonly()).transpose().map_err(|_| in_use(what))
        }
        let Ok(array) = object.cast::<PyUntypedArray>() else { return Ok(None) };
        let Some(own) = element_of(&array.dtype()) else { return Ok(None) };
        let is_ready = array.is_c_contiguous() && array.is_aligned() && matches!(array.ndim(), 1 | 2);
        if !is_ready || element.is_some_and(|element| element != own) {
            return Ok(None);
        }
        Ok(match own {
            ElementKind::F32 => readonly(array, what)?.map(Self::F32),
            ElementKind::F16 => readonly(array, what)?.map(Self::F16),
            ElementKind::U8 => readonly(array, what)?.map(Self::U8),
            ElementKind::I8 => readonly(array, what)?.map(Self::I8),
        })
    }

    fn shape(&self) -> &[usize] {
        each!(Self(self), array => array.shape())
    }

    /// Whether this is one vector.
    pub fn is_one(&self) -> bool {
        self.shape().len() == 1
    }

    /// A copy, which the caller does not change.
    pub fn copy(&self) -> PyResult<Py<PyAny>> {
        each!(Self(self), array => Ok(array.as_any().call_method0("copy")?.unbind()))
    }

    /// The vectors.
    pub fn rows(&self) -> PyResult<Rows<'_>> {
        fn view<'a, T: Scalar>(array: &'a PyReadonlyArrayDyn<'_, T>) -> PyResult<MatrixView<'a, T>> {
            let dimension = *array.shape().last().expect("an array of one or two dimensions");
            MatrixView::new(array.as_slice()?, dimension).map_err(|error| VectorError::from(error).raise())
        }
        Ok(match self {
            Self::F32(array) => Rows::F32(view(array)?),
            Self::F16(array) => Rows::F16(view(array)?),
            Self::U8(array) => Rows::U8(view(array)?),
            Self::I8(array) => Rows::I8(view(array)?),
        })
    }

    /// The vector, if it is one.
    pub fn one(&self) -> PyResult<Rows<'_>> {
        if self.is_one() {
            return self.rows();
        }
        let shape = self.shape();
        Err(ParameterError::new_err(format!("query has shape {shape:?}; it must be (dimension,)")))
    }
}

impl Rows<'_> {
    /// Number of vectors.
    pub fn len(&self) -> usize {
        each!(Self(self), rows => rows.len())
    }

    /// Some of the vectors.
    pub fn slice(&self, range: Range<usize>) -> Self {
        match self {
            Self::F32(rows) => Self::F32(rows.slice(range)),
            Self::F16(rows) => Self::F16(rows.slice(range)),
            Self::U8(rows) => Self::U8(rows.slice(range)),
            Self::I8(rows) => Self::I8(rows.slice(range)),
        }
    }
}

impl<'a> From<Rows<'a>> for Vectors<'a> {
    fn from(rows: Rows<'a>) -> Self {
        each!(Rows(rows), rows => rows.into())
    }
}

impl<'a> From<Rows<'a>> for Target<'a> {
    /// The first vector.
    fn from(rows: Rows<'a>) -> Self {
        each!(Rows(rows), rows => rows.row(0).into())
    }
}

/// Vectors to store.
pub enum Input<'py> {
    /// In memory.
    Array(Array<'py>),
    /// To be read chunk by chunk.
    Chunks(Chunks),
}

/// An object of shape `(n, dimension)` with a dtype and slices: an array that is not contiguous, or data in a file.
pub struct Chunks {
    object: Py<PyAny>,
    element: ElementKind,
    len: usize,
    dimension: usize,
}

impl<'py> Input<'py> {
    /// Vectors of this element type; by default their own, or float32 if no index stores that.
    pub fn new(object: &Bound<'py, PyAny>, element: Option<ElementKind>) -> PyResult<Self> {
        let object = &interop::to_numpy(object, "vectors")?;
        if let Some(array) = Array::borrow(object, element, "vectors")? {
            return Ok(Self::Array(array));
        }
        match described(object)? {
            Some((dtype, shape)) if let [len, dimension] = shape[..] => {
                let own = if interop::is_bfloat16(object)? { None } else { element_of(&dtype) };
                let element = element.or(own).unwrap_or(ElementKind::F32);
                Ok(Self::Chunks(Chunks { object: object.clone().unbind(), element, len, dimension }))
            }
            _ => Ok(Self::Array(Array::of(object, element, "vectors")?)),
        }
    }

    /// The vectors, for a call that does not hold the interpreter lock.
    pub fn source(&self) -> PyResult<Source<'_>> {
        Ok(match self {
            Self::Array(array) => Source::Memory(array.rows()?),
            Self::Chunks(chunks) => Source::Chunks(chunks),
        })
    }
}

/// The vectors that a call reads.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    Memory(Rows<'a>),
    Chunks(&'a Chunks),
}

impl Source<'_> {
    /// Number of vectors.
    pub fn len(&self) -> usize {
        match self {
            Self::Memory(rows) => rows.len(),
            Self::Chunks(chunks) => chunks.len,
        }
    }
}

impl<'a> From<Source<'a>> for Vectors<'a> {
    fn from(source: Source<'a>) -> Self {
        match source {
            Source::Memory(rows) => rows.into(),
            Source::Chunks(chunks) => match chunks.element {
                ElementKind::F32 => Self::from_source::<f32>(chunks),
                ElementKind::F16 => Self::from_source::<f16>(chunks),
                ElementKind::U8 => Self::from_source::<u8>(chunks),
                ElementKind::I8 => Self::from_source::<i8>(chunks),
            },
        }
    }
}

impl<T: Scalar> VectorSource<T> for Chunks {
    fn len(&self) -> usize {
        self.len
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn read(&self, range: Range<usize>, out: &mut [T]) -> io::Result<()> {
        call::attach(|py| self.copy(py, range, out)).map_err(io::Error::other)
    }
}

impl Chunks {
    fn copy<T: Scalar>(&self, py: Python<'_>, range: Range<usize>, out: &mut [T]) -> PyResult<()> {
        py.check_signals()?;
        let Range { start, end } = range;
        let chunk = self.object.bind(py).get_item(PySlice::new(py, start as isize, end as isize, 1))?;
        let chunk = interop::to_numpy(&chunk, "vectors")?;
        let expected = (range.len(), self.dimension);
        each!(Array(Array::of(&chunk, Some(T::KIND), "vectors")?), array => {
            if array.shape() != <[usize; 2]>::from(expected) {
                let shape = array.getattr(intern!(py, "shape"))?;
                let message = format!("vectors[{start}:{end}] has shape {shape}, expected {expected:?}");
                return Err(ParameterError::new_err(message));
            }
            out.copy_from_slice(bytemuck::cast_slice(array.as_slice()?));
        });
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

/// Keys of the caller, or ids to look up: values of the column of ids.
pub enum Named {
    Keys(Vec<Key>),
    Ids(Vec<String>),
}

impl Named {
    /// Those of one integer or string, an array or a list.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(id) = object.cast::<PyString>() {
            return Ok(Self::Ids(vec![id.to_str()?.to_owned()]));
        }
        let is_list = object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>();
        if is_list && object.get_item(0).is_ok_and(|first| first.is_instance_of::<PyString>()) {
            let refused = |_| ParameterError::new_err("some keys are strings; either all are, or none");
            return object.extract().map(Self::Ids).map_err(refused);
        }
        if is_list || object.is_instance_of::<PyInt>() {
            return keys(object).map(Self::Keys);
        }
        let array = whole_array(&interop::to_numpy(object, "keys")?, "keys")?;
        // Strings of one width or of any, and objects.
        let may_have_ids = matches!(array.dtype().kind(), b'U' | b'T' | b'O') && !array.is_empty();
        match may_have_ids.then(|| array.call_method0("tolist")?.extract()) {
            Some(Ok(ids)) => Ok(Self::Ids(ids)),
            _ => keys(&array).map(Self::Keys),
        }
    }
}

/// The error of an array that a search writes its results to, for as long as it runs.
pub fn in_use(what: &str) -> PyErr {
    Error::new_err(format!("{what} cannot be read: another search writes its results there"))
}

/// Keys given as one integer, an array or a list. Python's keys are not negative, so that -1 can mean none.
pub fn keys(object: &Bound<'_, PyAny>) -> PyResult<Vec<Key>> {
    let object = interop::to_numpy(object, "keys")?;
    if let Ok(array) = object.cast::<PyArray1<i64>>() {
        let keys = array.try_readonly().map_err(|_| in_use("keys"))?;
        return keys.as_array().iter().map(|&key| checked(key)).collect();
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
