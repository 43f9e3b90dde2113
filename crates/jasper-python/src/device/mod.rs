//! Arrays in the memory of CUDA devices: those of other libraries as queries and vectors, and results for these
//! libraries. The one module of this crate with unsafe code: addresses and streams are what those libraries say.

#![allow(unsafe_code)]

mod dlpack;

use std::sync::Arc;

use jasper::{Device, ElementKind, Metric, f16};
use jasper_core::DeviceError;
use jasper_cuda::prelude::*;
use jasper_cuda::{
    Buffer, Context, DeviceBatch, DeviceHit, Error as CudaError, ErrorKind, Stream, device_of,
    with_current_context_kept,
};
use jasper_vamana::SearchError;
use numpy::PyArray1;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyBufferError, PyNotImplementedError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};

use crate::arrays::{Scalar, dtype_name};
use crate::errors::{ParameterError, Raise};
use crate::index::Index;
use crate::results::matches;
use crate::search::Options;
use dlpack::{DataType, Exported, Imported, RawDevice};

const INT64: DataType = DataType { code: 0, bits: 64, lanes: 1 };
const FLOAT32: DataType = DataType { code: 2, bits: 32, lanes: 1 };
const BFLOAT16: DataType = DataType { code: 4, bits: 16, lanes: 1 };
/// `DLDataTypeCode` of floats and of bfloats.
const FLOATS: [u8; 2] = [2, 4];

/// Calls `work` and keeps the current CUDA context of this thread, which is the current device of other libraries.
pub fn keep_current<R>(work: impl FnOnce() -> R) -> R {
    with_current_context_kept(work)
}

/// The number of the per-thread default stream, whose meaning depends on the thread that uses it.
const PER_THREAD: u64 = 2;

fn cuda(error: CudaError) -> PyErr {
    match error.kind {
        ErrorKind::OtherStream => ParameterError::new_err(error.to_string()),
        _ => DeviceError::from(error).raise(),
    }
}

/// An array of another library in device memory.
pub struct DeviceArray<'py> {
    object: Bound<'py, PyAny>,
    device: usize,
}

/// What an array says of itself. Strides are in bytes.
struct Layout {
    address: u64,
    dtype: DataType,
    shape: Vec<usize>,
    strides: Vec<i64>,
    /// Keeps the memory, if the object does not.
    _owner: Option<Imported>,
}

impl<'py> DeviceArray<'py> {
    /// The object as an array in device memory, unless it is something else.
    pub fn new(object: &Bound<'py, PyAny>, what: &str) -> PyResult<Option<Self>> {
        let py = object.py();
        let array = |device| Ok(Some(Self { object: object.clone(), device }));
        if let Some(place) = object.getattr_opt(intern!(py, "__dlpack_device__"))? {
            let (kind, id): (i32, i32) = place.call0()?.extract()?;
            return match kind {
                dlpack::CPU | dlpack::CUDA_HOST => Ok(None),
                dlpack::CUDA | dlpack::CUDA_MANAGED => array(usize::try_from(id)?),
                other => Err(ParameterError::new_err(format!(
                    "{what} are on a device of DLPack type {other}; give arrays on the CPU or on a CUDA device"
                ))),
            };
        }
        let Some(interface) = object.getattr_opt(intern!(py, "__cuda_array_interface__"))? else {
            return Ok(None);
        };
        let (address, _) = data_of(&interface)?;
        match device_of(address).map_err(cuda)? {
            Some(device) => array(device),
            None => Err(ParameterError::new_err(format!("{what} are not in the memory of a CUDA device"))),
        }
    }

    /// The array as it is once the work queued before is complete; `stream` is made to wait for that.
    fn layout(&self, stream: &Stream, handle: u64, what: &str) -> PyResult<Layout> {
        let py = self.object.py();
        let buffer_error = |error: PyErr| {
            if error.is_instance_of::<PyBufferError>(py) {
                return ParameterError::new_err(format!("{what} cannot be read: {}", error.value(py)));
            }
            error
        };
        if let Some(export) = self.object.getattr_opt(intern!(py, "__dlpack__"))? {
            let arguments = PyDict::new(py);
            // In DLPack, 1 is the legacy default stream and 0 means nothing.
            arguments.set_item("stream", handle.max(1))?;
            // PyTorch exports only arrays of the current device.
            stream.context().make_current().map_err(cuda)?;
            let capsule = export.call((), Some(&arguments)).map_err(buffer_error)?;
            let tensor = Imported::take(capsule.cast::<PyCapsule>()?)?;
            let (dtype, shape) = (tensor.dtype(), tensor.shape()?);
            let width = i64::from(dtype.bits / 8);
            let strides = match tensor.strides()? {
                Some(strides) => strides.iter().map(|stride| stride * width).collect(),
                None => contiguous(&shape, width),
            };
            return Ok(Layout { address: tensor.address(), dtype, shape, strides, _owner: Some(tensor) });
        }
        let interface = self.object.getattr(intern!(py, "__cuda_array_interface__"))?;
        let field = |name| interface.get_item(name);
        let optional = |name| match interface.get_item(name) {
            Ok(value) if !value.is_none() => Some(value),
            _ => None,
        };
        if optional("mask").is_some() {
            return Err(ParameterError::new_err(format!("{what} have a mask; give arrays without one")));
        }
        if let Some(other) = optional("stream") {
            // SAFETY: the protocol says that this is a stream, which its array keeps alive.
            let other = unsafe { Stream::borrow(stream.context(), other.extract()?) }.map_err(cuda)?;
            stream.wait_for(&other).map_err(cuda)?;
        }
        let (address, _) = data_of(&interface)?;
        let dtype = dtype_of(&field("typestr")?.extract::<String>()?, what)?;
        let shape: Vec<usize> = field("shape")?.extract()?;
        let strides = match optional("strides") {
            Some(strides) => strides.extract()?,
            None => contiguous(&shape, i64::from(dtype.bits / 8)),
        };
        Ok(Layout { address, dtype, shape, strides, _owner: None })
    }

    /// A copy of the array in host memory: an array of numpy.
    pub fn to_host(&self, what: &str) -> PyResult<Bound<'py, PyAny>> {
        keep_current(|| {
            let py = self.object.py();
            let stream = Stream::new(&Context::open(self.device).map_err(cuda)?).map_err(cuda)?;
            let layout = self.layout(&stream, stream.handle(), what)?;
            let dtype = layout.numpy_dtype(what)?;
            let steps = layout.shape.iter().zip(&layout.strides);
            if layout.strides.iter().any(|&stride| stride < 0) {
                return Err(ParameterError::new_err(format!(
                    "{what} have negative strides; copy them first"
                )));
            }
            let last: i64 = steps.map(|(&len, stride)| len.saturating_sub(1) as i64 * stride).sum();
            let is_empty = layout.shape.contains(&0);
            let len = if is_empty { 0 } else { last as usize + usize::from(layout.dtype.bits / 8) };
            // SAFETY: the library that owns the array says that it spans these bytes. Both the object and the layout
            // live until the download is complete, which follows the work that the stream was made to wait for.
            let buffer: Buffer<u8> = unsafe { Buffer::borrow(&stream, layout.address, len) };
            let bytes = py.detach(|| keep_current(|| stream.download(&buffer))).map_err(cuda)?;
            let arguments =
                (layout.shape.clone(), dtype, PyArray1::from_vec(py, bytes), 0, layout.strides.clone());
            let array = numpy::get_array_module(py)?.call_method1("ndarray", arguments)?;
            match layout.dtype {
                BFLOAT16 => py.import("jasper._interop")?.call_method1("BFloat16", (array,)),
                _ => Ok(array),
            }
        })
    }

    /// The name of the device, as of that of an index.
    fn device(&self) -> Device {
        Device::cuda(self.device)
    }
}

/// The address in a `__cuda_array_interface__`, and whether it is read-only.
fn data_of(interface: &Bound<'_, PyAny>) -> PyResult<(u64, bool)> {
    interface.get_item("data")?.extract()
}

/// The strides of a contiguous array, in bytes.
fn contiguous(shape: &[usize], width: i64) -> Vec<i64> {
    let mut strides = vec![width; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1) as i64);
    }
    strides
}

/// The type that numpy writes as `typestr`.
fn dtype_of(typestr: &str, what: &str) -> PyResult<DataType> {
    let dtype = || {
        let (order, rest) = typestr.split_at_checked(1)?;
        let (kind, bytes) = rest.split_at_checked(1)?;
        let code = ["i", "u", "f"].iter().position(|known| *known == kind)?;
        let bytes: u8 = bytes.parse().ok()?;
        let is_native = matches!(order, "<" | "=") || order == "|" && bytes == 1;
        is_native.then_some(DataType { code: code as u8, bits: bytes.checked_mul(8)?, lanes: 1 })
    };
    dtype().ok_or_else(|| {
        ParameterError::new_err(format!(
            "{what} have the type {typestr}; on a device they must be numbers in the byte order of the machine"
        ))
    })
}

const fn data_type(element: ElementKind) -> DataType {
    let (code, bits) = match element {
        ElementKind::F32 => (2, 32),
        ElementKind::F16 => (2, 16),
        ElementKind::U8 => (1, 8),
        ElementKind::I8 => (0, 8),
    };
    DataType { code, bits, lanes: 1 }
}

impl Layout {
    /// The name of the type in numpy, which has only the bits of a bfloat16.
    fn numpy_dtype(&self, what: &str) -> PyResult<String> {
        if self.dtype == BFLOAT16 {
            return Ok("uint16".to_owned());
        }
        let DataType { code, bits, lanes } = self.dtype;
        match (["int", "uint", "float"].get(usize::from(code)), lanes) {
            (Some(name), 1) if bits >= 8 => Ok(format!("{name}{bits}")),
            _ => Err(ParameterError::new_err(format!(
                "{what} are of a type that numpy has not; convert them first"
            ))),
        }
    }

    /// Whether kernels can read it as rows of `T`.
    fn is_ready<T: Scalar>(&self, dimension: usize) -> bool {
        let row = dimension * size_of::<T>();
        self.dtype == data_type(T::KIND)
            && row.is_multiple_of(16)
            && self.address.is_multiple_of(16)
            && self.strides.last() == Some(&(size_of::<T>() as i64))
            && (self.shape.len() == 1 || self.shape[0] <= 1 || self.strides[0] == row as i64)
    }
}

/// The stream of an argument, a number or an object with one, and what keeps it.
fn handle_of(stream: &Bound<'_, PyAny>) -> PyResult<u64> {
    let py = stream.py();
    let mut handle = None;
    for name in ["cuda_stream", "ptr"] {
        if handle.is_none() {
            handle = stream.getattr_opt(name)?;
        }
    }
    if handle.is_none()
        && let Some(method) = stream.getattr_opt(intern!(py, "__cuda_stream__"))?
    {
        let (_, value): (u32, u64) = method.call0()?.extract()?;
        handle = Some(value.into_bound_py_any(py)?);
    }
    let handle = handle.unwrap_or_else(|| stream.clone()).extract::<u64>().map_err(|_| {
        ParameterError::new_err(format!(
            "stream ({stream}) must be the number of a CUDA stream, or an object with cuda_stream, ptr or __cuda_stream__"
        ))
    })?;
    if handle == PER_THREAD {
        return Err(ParameterError::new_err(
            "stream (2), the per-thread default stream, is not supported; give another",
        ));
    }
    Ok(handle)
}

/// The results of a search, in device memory.
struct Results {
    /// The hits, complete in the order of the stream, in which their memory is freed.
    hits: Option<(Buffer<DeviceHit>, Stream)>,
    /// Keeps the stream.
    _stream: Py<PyAny>,
}

impl Results {
    /// Makes a stream of this number wait for the hits. As DLPack numbers them, none is the legacy default stream, and
    /// -1 asks for no wait.
    fn wait_in(&self, consumer: Option<i64>) -> PyResult<()> {
        let handle = consumer.unwrap_or(0).max(1) as u64;
        if let Some((_, stream)) = &self.hits
            && consumer != Some(-1)
            && handle != stream.handle().max(1)
        {
            // SAFETY: the consumer says that this is a stream of its own, and calls from the thread that works with it.
            let consumer = unsafe { Stream::borrow(stream.context(), handle) }.map_err(cuda)?;
            consumer.wait_for(stream).map_err(cuda)?;
        }
        Ok(())
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        keep_current(|| self.hits = None);
    }
}

/// An array of results in the memory of a CUDA device, for libraries that read DLPack or the CUDA array interface. It is
/// complete in the order of the stream of its search, and of that in which DLPack's consumer asks for it.
#[pyclass(frozen, name = "_DeviceArray", module = "jasper._native")]
pub struct ResultArray {
    results: Arc<Results>,
    address: u64,
    device: RawDevice,
    dtype: DataType,
    shape: Vec<i64>,
    /// In elements.
    strides: Vec<i64>,
}

#[pymethods]
impl ResultArray {
    /// The array as a capsule of DLPack.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<i64>,
        max_version: Option<&Bound<'py, PyAny>>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = max_version;
        if copy == Some(true) || dl_device.is_some_and(|device| device != (self.device.kind, self.device.id))
        {
            return Err(PyNotImplementedError::new_err(
                "results are exported where they are, without a copy",
            ));
        }
        keep_current(|| self.results.wait_in(stream))?;
        let exported = Exported {
            address: self.address,
            device: self.device,
            dtype: self.dtype,
            shape: self.shape.clone(),
            strides: self.strides.clone(),
            _owner: Arc::clone(&self.results),
        };
        exported.into_capsule(py)
    }

    /// The type and number of the device, as DLPack numbers them.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (self.device.kind, self.device.id)
    }

    /// The array as libraries without DLPack read it.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let width = i64::from(self.dtype.bits / 8);
        let interface = PyDict::new(py);
        interface.set_item("shape", PyTuple::new(py, &self.shape)?)?;
        interface.set_item("strides", PyTuple::new(py, self.strides.iter().map(|stride| stride * width))?)?;
        interface.set_item("typestr", if self.dtype == INT64 { "<i8" } else { "<f4" })?;
        interface.set_item("data", (self.address, false))?;
        interface.set_item("version", 3)?;
        if let Some((_, stream)) = &self.results.hits {
            interface.set_item("stream", stream.handle().max(1))?;
        }
        Ok(interface)
    }
}

impl Index {
    /// Searches for queries on a device, and leaves the results there.
    pub(crate) fn search_on_device<'py>(
        &self,
        queries: &DeviceArray<'py>,
        options: &Options,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = queries.object.py();
        let here = self.call(py, |index| Ok(index.device()))?;
        if here != queries.device() {
            return Err(ParameterError::new_err(format!(
                "queries are on {} and the index on {here}; move one of them",
                queries.device()
            )));
        }
        let interop = py.import("jasper._interop")?;
        keep_current(|| {
            let context = Context::open(queries.device).map_err(cuda)?;
            let followed = match stream {
                Some(stream) => stream.clone(),
                None => interop.call_method1("current_stream", (&queries.object, queries.device))?,
            };
            let handle = handle_of(&followed)?;
            // SAFETY: a stream that the caller gives, or the current one of the library of the queries. The results
            // keep its object.
            let borrowed = unsafe { Stream::borrow(&context, handle) }.map_err(cuda)?;
            let enqueue = match self.element {
                ElementKind::F32 => Self::enqueue::<f32>,
                ElementKind::F16 => Self::enqueue::<f16>,
                ElementKind::U8 => Self::enqueue::<u8>,
                ElementKind::I8 => Self::enqueue::<i8>,
            };
            let found = enqueue(self, queries, options, &borrowed, handle, &followed);
            if stream.is_none() || found.is_err() {
                // Also after an error: queued work may still read the queries.
                let done = py.detach(|| keep_current(|| borrowed.synchronize()));
                if found.is_ok() {
                    done.map_err(cuda)?;
                }
            }
            let (keys, distances) = found?;
            let like = |array: ResultArray| {
                interop.call_method1("from_dlpack", (&queries.object, Bound::new(py, array)?))
            };
            matches(like(keys)?, like(distances)?, py)
        })
    }

    /// Queues the search.
    fn enqueue<'py, T: Scalar>(
        &self,
        queries: &DeviceArray<'py>,
        options: &Options,
        stream: &Stream,
        handle: u64,
        stream_object: &Bound<'py, PyAny>,
    ) -> PyResult<(ResultArray, ResultArray)> {
        let py = queries.object.py();
        let mut layout = queries.layout(stream, handle, "queries")?;
        let (is_one, len) = match layout.shape[..] {
            [dimension] if dimension == self.dimension => (true, 1),
            [len, dimension] if dimension == self.dimension => (false, len),
            _ => {
                let (shape, dimension) = (&layout.shape, self.dimension);
                return Err(ParameterError::new_err(format!(
                    "queries have shape {shape:?}; it must be (n, {dimension}), or ({dimension},) for one"
                )));
            }
        };
        let is_float = FLOATS.contains(&layout.dtype.code);
        if layout.dtype != data_type(T::KIND) && (T::KIND.is_integer() || !is_float) {
            let name = dtype_name(T::KIND);
            return Err(ParameterError::new_err(format!(
                "queries are not of the type of the index, {name}; convert them to {name}"
            )));
        }
        let normalize = self.metric == Metric::Cosine && !T::KIND.is_integer();
        let row_len = (self.dimension * size_of::<T>()).next_multiple_of(16) / size_of::<T>();
        let mut rows = None;
        if normalize || !layout.is_ready::<T>(self.dimension) {
            let arguments =
                (&queries.object, self.dimension, row_len, dtype_name(T::KIND), normalize, handle);
            let prepared = py.import("jasper._interop")?.call_method1("prepared", arguments)?;
            let prepared = DeviceArray { object: prepared, device: queries.device };
            layout = prepared.layout(stream, handle, "queries")?;
            rows = Some(prepared);
        }
        // SAFETY: the library that owns the rows says that they are there; they are contiguous, of this type and aligned
        // to 16 bytes, as checked or as they were prepared. The objects of the rows live until the end of this call.
        // Beyond it, the caller keeps queries for a stream that it gave, which is also the stream that rows were
        // allocated in; without one, the stream is synchronized before `search_on_device` returns.
        let rows_on_device: Buffer<T> = unsafe { Buffer::borrow(stream, layout.address, len * row_len) };
        let results = self.call(py, |index| {
            let k = options.k;
            let filters = options.filters();
            let params = options.params(index, len, &filters)?;
            params.check().map_err(Raise::raise)?;
            let hits = len.checked_mul(k).filter(|hits| hits.checked_mul(size_of::<DeviceHit>()).is_some());
            let hits = hits.ok_or_else(|| SearchError::Memory { queries: len, k }.raise())?;
            let mut results = stream.allocate(hits).map_err(cuda)?;
            let mut costs = stream.allocate(len * 2).map_err(cuda)?;
            if len > 0 {
                let arrays =
                    DeviceBatch { queries: &rows_on_device, results: &mut results, costs: &mut costs };
                index.search_on_device(stream, params, arrays).map_err(Raise::raise)?;
            }
            Ok(results)
        })?;
        drop((rows, layout));
        let (address, device) = (results.address(), queries.device as i32);
        let results = Arc::new(Results {
            hits: Some((results, stream.clone())),
            _stream: stream_object.clone().unbind(),
        });
        let k = options.k as i64;
        let shape = if is_one { vec![k] } else { vec![len as i64, k] };
        let array = |offset, dtype: DataType| {
            let step = (size_of::<DeviceHit>() * 8 / usize::from(dtype.bits)) as i64;
            ResultArray {
                results: Arc::clone(&results),
                address: address + offset,
                device: RawDevice { kind: dlpack::CUDA, id: device },
                dtype,
                shape: shape.clone(),
                strides: if is_one { vec![step] } else { vec![step * k, step] },
            }
        };
        let distance = std::mem::offset_of!(DeviceHit, distance) as u64;
        Ok((array(0, INT64), array(distance, FLOAT32)))
    }
}
