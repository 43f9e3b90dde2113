//! The index: opening, saving, moving, and what it holds.

use std::path::PathBuf;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use jasper::{Device, ElementKind, IndexStats, Key, Metric, OpenOptions};
use numpy::{PyArray1, PyArrayDescr, PyArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyString};

use crate::arrays::{self, Named, dtype_name, key_array, parse_dtype};
use crate::call::{self, Process};
use crate::device;
use crate::errors::{
    Error, FormatError, Integer, ParameterError, Raise, UnknownKeyError, count, exception, message,
};
use crate::lock;
use crate::options::{self, DeviceArgument, builder, placed_device};
use crate::results::report;

/// Vectors of an insert that does not look for Ctrl-C: it takes milliseconds.
const SMALL_INSERT: usize = 64;

/// A vector index: vectors of one type, each under a key from 0 to 2**63 - 1, searched for those nearest to a query.
///
/// Index(dim) is empty; Index.build builds one from vectors, and Index.open reads one from a file. metric is "l2"
/// (squared), "ip" (negated inner product) or "cosine" (1 - cos); dtype is float32, float16, uint8 or int8.
///
/// Every method may be called from any thread, and runs without the interpreter lock. Searches run while another thread
/// changes the index; changes wait for one another, and small ones of several threads are made together. A call that raises leaves the index as it was;
/// quantize may leave it without codes.
///
/// Long calls take progress: True shows bars of tqdm, or lines on standard error without it. A function is called with
/// the stage, the number done and the total. If it returns False, the call raises Cancelled; if it raises, the call
/// raises that exception. Ctrl-C raises KeyboardInterrupt.
///
/// >>> import jasper, numpy as np
/// >>> index = jasper.Index(2)
/// >>> index.insert([[0.0, 0.0], [3.0, 4.0]], keys=[7, 9])
/// array([7, 9])
/// >>> index.search([3.0, 3.0], k=2)
/// Matches(keys=array([9, 7]), distances=array([ 1., 18.], dtype=float32))
#[pyclass(frozen, weakref, module = "jasper")]
pub struct Index {
    /// `None` only if a move panicked.
    index: RwLock<Option<jasper::Index>>,
    process: Process,
    /// Held by changes that choose or set ids or keys, exclusively by those that look up ids first.
    ids: RwLock<()>,
    pub(crate) element: ElementKind,
    pub(crate) dimension: usize,
    pub(crate) metric: Metric,
}

impl Index {
    pub(crate) fn new(index: jasper::Index) -> Self {
        let IndexStats { element, dimension, metric, .. } = index.stats();
        Self {
            process: Process::current(),
            ids: RwLock::default(),
            element,
            dimension,
            metric,
            index: RwLock::new(Some(index)),
        }
    }

    /// Calls the index without the interpreter lock.
    pub(crate) fn call<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&jasper::Index) -> PyResult<R> + Send,
    ) -> PyResult<R> {
        self.process.check()?;
        lock::released(py, || self.locked(call))
    }

    /// The keys that a caller names by themselves or by ids. Ids that the index does not have are left out if
    /// `ignore_missing`.
    pub(crate) fn named(
        &self,
        py: Python<'_>,
        given: &Bound<'_, PyAny>,
        ignore_missing: bool,
    ) -> PyResult<Vec<Key>> {
        let ids = match Named::new(given)? {
            Named::Keys(keys) => return Ok(keys),
            Named::Ids(ids) => ids,
        };
        self.call(py, |index| {
            let found = ids.iter().map(|id| match index.key_of(id) {
                None if !ignore_missing => {
                    Err(UnknownKeyError::new_err(format!("id {id:?} is not in the index")))
                }
                found => Ok(found),
            });
            found.filter_map(Result::transpose).collect()
        })
    }

    /// The key that a caller names by itself or by its id.
    pub(crate) fn named_one(&self, py: Python<'_>, given: &Bound<'_, PyAny>) -> PyResult<Key> {
        match given.is_instance_of::<PyString>() {
            true => Ok(self.named(py, given, false)?[0]),
            false => arrays::key(given),
        }
    }

    /// Held while a change chooses or sets ids or keys.
    pub(crate) fn share_ids(&self) -> RwLockReadGuard<'_, ()> {
        self.ids.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Held while ids are looked up for a change, and it is made.
    pub(crate) fn lock_ids(&self) -> RwLockWriteGuard<'_, ()> {
        self.ids.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the index as [`call::long`] does.
    pub(crate) fn long<R: Send, E: Raise>(
        &self,
        py: Python<'_>,
        progress: Option<Py<PyAny>>,
        call: impl FnOnce(&jasper::Index) -> Result<R, E> + Send,
    ) -> PyResult<R> {
        self.process.check()?;
        call::long(py, progress, |progress| {
            self.locked(|index| call(&index.with_progress(progress)).map_err(Raise::raise))
        })
    }

    /// [`Self::long`] for a call that reads another index.
    pub(crate) fn long_with<R: Send, E: Raise>(
        &self,
        py: Python<'_>,
        other: &Self,
        progress: Option<Py<PyAny>>,
        call: impl FnOnce(&jasper::Index, &jasper::Index) -> Result<R, E> + Send,
    ) -> PyResult<R> {
        if std::ptr::eq(self, other) {
            return Err(ParameterError::new_err("an index cannot be merged into itself"));
        }
        self.process.check()?;
        call::long(py, progress, |progress| {
            let call = |index: &jasper::Index, other: &jasper::Index| {
                call(&index.with_progress(progress), other).map_err(Raise::raise)
            };
            // In one order, whichever is merged into the other, or two merges and two moves could wait for each other.
            if std::ptr::from_ref(self) < std::ptr::from_ref(other) {
                self.locked(|index| other.locked(|other| call(index, other)))
            } else {
                other.locked(|other| self.locked(|index| call(index, other)))
            }
        })
    }

    /// Inserts this number of vectors as [`Self::long`] does, but without progress reports if there are few and no
    /// callback, so that the index may combine the insert with those of other threads.
    pub(crate) fn small_or_long<R: Send>(
        &self,
        py: Python<'_>,
        progress: Option<Py<PyAny>>,
        vectors: usize,
        insert: impl FnOnce(&jasper::Index) -> Result<R, jasper::Error> + Send,
    ) -> PyResult<R> {
        if progress.is_some() || vectors > SMALL_INSERT {
            return self.long(py, progress, insert);
        }
        self.process.check()?;
        py.detach(|| self.locked(|index| insert(index).map_err(Raise::raise)))
    }

    fn locked<R>(&self, call: impl FnOnce(&jasper::Index) -> PyResult<R>) -> PyResult<R> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let index = index.as_ref().ok_or_else(lost)?;
        if index.device() == Device::CPU {
            return call(index);
        }
        // Other libraries of this thread find their device as they left it.
        device::keep_current(|| call(index))
    }
}

impl Drop for Index {
    /// Without the interpreter lock: it may take a while, and searches of asyncio that end meanwhile take the lock.
    fn drop(&mut self) {
        let index = self.index.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if self.process != Process::current() {
            // Its threads are those of another process, and are not waited for.
            std::mem::forget(index);
        } else {
            Python::attach(|py| py.detach(|| device::keep_current(|| drop(index))));
        }
    }
}

fn lost() -> PyErr {
    Error::new_err("the index was lost when it failed to move to another device; open it again")
}

#[pymethods]
impl Index {
    #[new]
    #[pyo3(signature = (dim, *, metric = "l2", dtype = None, max_degree = None, build_beam_width = None, alpha = None,
                        max_batch_share = None, seed = None, threads = None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments")]
    fn empty(
        dim: Integer,
        metric: &str,
        dtype: Option<&Bound<'_, PyAny>>,
        max_degree: Option<Integer>,
        build_beam_width: Option<Integer>,
        alpha: Option<f32>,
        max_batch_share: Option<f32>,
        seed: Option<Integer>,
        threads: Option<Integer>,
    ) -> PyResult<Self> {
        let element = dtype.map_or(Ok(ElementKind::F32), parse_dtype)?;
        let builder = builder(metric, max_degree, build_beam_width, alpha, max_batch_share, seed, threads)?;
        let index = builder.device(Device::CPU).empty(element, count("dim", dim)?);
        Ok(Self::new(index.map_err(Raise::raise)?))
    }

    /// Opens an index: a file that Index.save or the command `jasper` has written, its bytes, or a file object; or the
    /// folder of a durable index.
    ///
    /// With mmap, the file is mapped, not read: pages come as searches access them, checksums are not verified, and the
    /// file must stay as it is.
    ///
    /// device, vector_storage and sharded are those of Index.to_device, as if called afterwards, but faster: a device is
    /// opened while the file is read.
    ///
    /// With follow, the path is the folder of a durable index that another process has open and changes. The index makes
    /// the same changes, some 50 ms later, and no others; catch_up makes them at once.
    ///
    /// Raises FileNotFoundError or another OSError; FormatError if it is not an index or is damaged; DeviceError or
    /// OutOfMemoryError if the device cannot have it.
    #[staticmethod]
    #[pyo3(signature = (file, *, mmap = false, device = DeviceArgument(Device::CPU), vector_storage = None,
                        sharded = false, threads = None, exact_linking = false, follow = false, progress = None),
           text_signature = "(file, *, mmap=False, device=\"cpu\", vector_storage=None, sharded=False, \
                             threads=None, exact_linking=False, follow=False, progress=None)")]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments")]
    fn open(
        py: Python<'_>,
        file: &Bound<'_, PyAny>,
        mmap: bool,
        device: DeviceArgument,
        vector_storage: Option<&str>,
        sharded: bool,
        threads: Option<Integer>,
        exact_linking: bool,
        follow: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let options =
            OpenOptions::new().mapped(mmap).threads(options::threads(threads)?).exact_linking(exact_linking);
        let options = options.device(placed_device(device, vector_storage, sharded)?).follow(follow);
        let bytes = match file.getattr_opt("read")? {
            Some(read) => read.call0()?,
            None => file.clone(),
        };
        let index = if let Ok(bytes) = bytes.cast::<PyBytes>() {
            let bytes = bytes.as_bytes();
            call::long(py, progress, |progress| {
                check_keys(options.with_progress(progress).open_bytes(bytes).map_err(Raise::raise)?)
            })
        } else {
            let path: PathBuf = bytes.extract()?;
            call::long(py, progress, |progress| {
                check_keys(options.with_progress(progress).open(path).map_err(Raise::raise)?)
            })
        };
        index.map(Self::new)
    }

    /// Saves the index to a path, or to an object with a method `write`, which may take a part at a time. A file at the
    /// path is replaced in one step.
    ///
    /// With durable, the path is that of a new folder. Open it to get a durable index: every change is on disk before
    /// its call returns, and after a crash the folder opens with exactly these changes.
    ///
    /// Searches go on meanwhile; changes wait. Raises OSError; the old file is unchanged then.
    #[pyo3(signature = (file, *, durable = false, progress = None))]
    fn save(
        &self,
        py: Python<'_>,
        file: &Bound<'_, PyAny>,
        durable: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        if durable {
            let folder: PathBuf = file.extract()?;
            return self.long(py, progress, |index| index.save_durable(&folder).map(drop));
        }
        if file.hasattr("write")? {
            let bytes = self.bytes(py, progress)?;
            return py.import("jasper._files")?.call_method1("write_all", (file, bytes)).map(drop);
        }
        let path: PathBuf = file.extract()?;
        self.long(py, progress, |index| index.save(&path).map(drop))
    }

    /// Writes a snapshot of a durable index and empties its journal, so that it opens faster. Snapshots are also taken
    /// from time to time.
    ///
    /// Searches go on meanwhile; changes wait. Raises OSError, or FormatError if the index is not durable.
    #[pyo3(signature = (*, progress = None))]
    fn snapshot(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<()> {
        self.long(py, progress, |index| index.snapshot())
    }

    /// Makes at once the changes that the index follows: see Index.open. Returns how many it made, which is 0 if the index
    /// follows no other.
    ///
    /// Raises OSError or FormatError.
    fn catch_up(&self, py: Python<'_>) -> PyResult<usize> {
        self.long(py, None, |index| index.catch_up())
    }

    /// Pickles the index as its file. It is in host memory when it is unpickled.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let open = slf.get_type().getattr("open")?;
        Ok((open, (slf.get().bytes(slf.py(), None)?,)))
    }

    /// Moves the index to "cpu", "cuda", "cuda:1" or "auto", the first GPU with room or else the CPU, and returns it.
    /// Waits for searches that have begun.
    ///
    /// vector_storage is the memory from which a GPU reads vectors: "device", its own, or "host". By default that is the
    /// device if the index fits there, or else the host if the index is quantized.
    ///
    /// Several GPUs are a list such as ["cuda:0", "cuda:1"], or "cuda:0,1", or "cuda:all". Each of them then holds all of
    /// the index, for more queries per second; or, if sharded, a part of it, for which an index of one graph is built
    /// again.
    ///
    /// Raises DeviceError or OutOfMemoryError; the index then stays where it was.
    #[pyo3(signature = (device, *, vector_storage = None, sharded = false))]
    fn to_device<'py>(
        slf: Bound<'py, Self>,
        device: DeviceArgument,
        vector_storage: Option<&str>,
        sharded: bool,
    ) -> PyResult<Bound<'py, Self>> {
        let device = placed_device(device, vector_storage, sharded)?;
        let this = slf.get();
        this.process.check()?;
        let moved = || {
            let mut place = this.index.write().unwrap_or_else(PoisonError::into_inner);
            let index = place.take().ok_or_else(lost)?;
            let moved = index.to_device(device);
            let (index, result) = match moved {
                Ok(index) => (index, Ok(())),
                Err(error) => {
                    let raised = exception(&error)(message(&error));
                    (error.into_index().map_err(Raise::raise)?, Err(raised))
                }
            };
            *place = Some(index);
            result
        };
        slf.py().detach(|| device::keep_current(moved))?;
        Ok(slf)
    }

    /// All keys, in no particular order: an array of int64.
    pub(crate) fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        Ok(key_array(py, self.call(py, |index| Ok(index.keys()))?))
    }

    /// The vectors of keys, or of ids, of shape (n, dim), as they are stored: at unit length if the metric is "cosine" and they
    /// are floats. Raises UnknownKeyError.
    fn vectors<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let keys = self.named(py, keys, false)?;
        let rows = self.call(py, |index| {
            let mut rows = Vec::with_capacity(keys.len() * self.dimension);
            for &key in &keys {
                rows.extend(vector(index, key)?);
            }
            Ok(rows)
        })?;
        self.stored(PyArray1::from_vec(py, rows).reshape([keys.len(), self.dimension])?.into_any())
    }

    /// The vector of a key, or of an id. Raises UnknownKeyError, which is a KeyError.
    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let key = self.named_one(py, key)?;
        self.stored(PyArray1::from_vec(py, self.call(py, |index| vector(index, key))?).into_any())
    }

    /// Whether a key, or an id, is in the index.
    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        if let Ok(id) = key.cast::<PyString>() {
            return Ok(self.key_of(py, id.to_str()?)?.is_some());
        }
        match arrays::key(key) {
            Ok(key) => self.call(py, |index| Ok(index.contains(key))),
            Err(_) => Ok(false),
        }
    }

    /// Iterates over the keys, in no particular order.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.keys(py)?.call_method0("tolist")?.try_iter()
    }

    /// Number of keys.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.call(py, |index| Ok(index.len()))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (len, device) = self.call(py, |index| Ok((index.len(), index.device())))?;
        let (dim, metric, dtype) = (self.dimension, self.metric.name(), dtype_name(self.element));
        Ok(format!(
            "<jasper.Index of {len} vectors, dim={dim}, metric={metric:?}, dtype={dtype}, device={:?}>",
            device.to_string()
        ))
    }

    /// Number of coordinates of a vector.
    #[getter]
    fn dim(&self) -> usize {
        self.dimension
    }

    /// The distance between vectors: "l2", "ip" or "cosine".
    #[getter]
    fn metric(&self) -> &'static str {
        self.metric.name()
    }

    /// The type of a coordinate.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDescr>> {
        PyArrayDescr::new(py, dtype_name(self.element))
    }

    /// Where the index is: "cpu" or "cuda:0" and so on.
    #[getter]
    fn device(&self, py: Python<'_>) -> PyResult<String> {
        self.call(py, |index| Ok(index.device().to_string()))
    }

    /// The device that the index is on: a report with device, name, bytes (of device memory that the index takes),
    /// max_beam_width, and faults. These are the messages of devices of several that faulted and are left out; the others
    /// answer all searches.
    ///
    /// >>> import jasper
    /// >>> jasper.Index(8).device_info.bytes
    /// 0
    #[getter]
    fn device_info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let info = self.call(py, |index| Ok(index.device_info()))?;
        let fields = serde_json::json!({
            "device": info.device.to_string(),
            "name": info.name,
            "bytes": info.bytes,
            "max_beam_width": info.max_beam_width,
            "faults": info.faults.iter().map(|fault| message(fault)).collect::<Vec<_>>(),
        });
        report(py, &fields)
    }

    /// Waits until a GPU has compiled the kernels of a single search. Until then, the host answers searches for up to 16
    /// queries. Raises DeviceError.
    fn warm_up(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, |index| index.warm_up().map_err(Raise::raise))
    }

    /// Bytes of its vectors, edges, codes, sketches and attributes. While the index is on a GPU, the host does not hold the edges.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<usize> {
        self.call(py, |index| {
            let stats = index.stats();
            let beside = stats.code_bytes + stats.sketch_bytes + stats.attribute_bytes;
            Ok(stats.vector_bytes + stats.graph_bytes + beside)
        })
    }

    /// Counts, sizes and parameters: keys, live_vertices, deleted_keys, tombstones, free_slots, max_degree, shards,
    /// next_key, quantization, vector_bytes and others.
    ///
    /// >>> import jasper
    /// >>> jasper.Index(8, max_degree=32).stats.max_degree
    /// 32
    #[getter]
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        report(py, &self.call(py, |index| Ok(index.stats()))?)
    }
}

impl Index {
    /// An array of float32 as one of the type of the index.
    fn stored<'py>(&self, array: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self.element {
            ElementKind::F32 => Ok(array),
            element => array.call_method1(intern!(array.py(), "astype"), (dtype_name(element),)),
        }
    }

    /// The bytes of the file that a save writes.
    fn bytes<'py>(&self, py: Python<'py>, progress: Option<Py<PyAny>>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.long(py, progress, |index| index.to_bytes())?;
        Ok(PyBytes::new(py, &bytes))
    }
}

/// Checks that Python has all keys of an index that another program may have made.
pub(crate) fn check_keys(index: jasper::Index) -> PyResult<jasper::Index> {
    match index.keys().into_iter().find(|&key| i64::try_from(key).is_err()) {
        Some(key) => Err(FormatError::new_err(format!(
            "the index has the key {key}, and keys in Python are below 2**63; open it in Rust, or build it with other keys"
        ))),
        None => Ok(index),
    }
}

/// The vector of a key.
fn vector(index: &jasper::Index, key: Key) -> PyResult<Vec<f32>> {
    index.vector(key).ok_or_else(|| {
        if index.contains(key) {
            return Error::new_err("the vectors of the index were dropped");
        }
        UnknownKeyError::new_err(format!("key {key} is not in the index"))
    })
}
