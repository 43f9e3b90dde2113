//! Building an index.

use std::error::Error as _;
use std::ffi::CString;
use std::path::PathBuf;
use std::time::Duration;

use jasper::{Device, ElementKind, MemorySpace};
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;

use crate::arrays::{self, Input, element, parse_dtype};
use crate::attributes::optional_frame;
use crate::call;
use crate::device;
use crate::errors::{Integer, ParameterError, Raise, count, message};
use crate::index::Index;
use crate::interop;
use crate::options::{DeviceArgument, builder, quantize_mode};
use crate::results::report;

#[pymethods]
impl Index {
    /// Builds an index.
    ///
    /// vectors is an array of shape (n, dim), or anything with a shape, a dtype and slices, such as a memory map or an
    /// HDF5 data set, which is read chunk by chunk. A contiguous array of float32, float16, uint8 or int8 is read in
    /// place, also one of a library with DLPack. A column of Arrow whose values are lists of one length needs pyarrow.
    /// Arrays on a device are copied to host memory first. Vectors of bfloat16 are stored as float16, or as float32 if
    /// some are too long or too short for it: see dtype of the index.
    ///
    /// keys
    ///     The key of each vector; 0, 1, 2 ... by default.
    /// attributes
    ///     Values to filter by: a dictionary of columns, one value per vector, or a data frame of pandas, polars or Arrow, or
    ///     a list with a dictionary per vector. A column is of bools, integers, floats, times, strings or lists of strings,
    ///     None where there is no value.
    /// ids
    ///     The column of attributes whose strings each name one vector: see Index.key_of.
    /// dtype
    ///     Converts the vectors to this type while they are read.
    /// max_degree
    ///     Largest number of edges of a vector, 64 by default.
    /// build_beam_width
    ///     Build beam width, L. By default 128, doubled once or twice if searches miss neighbors.
    /// alpha
    ///     Factor of pruning; a larger one keeps more edges. By default 1.2, and 1.8 where searches miss many neighbors
    ///     and rows have few edges.
    /// max_batch_share
    ///     Largest batch as a share of the vectors before it, 0.04 by default. No batch has more than 200,000 vectors.
    /// seed
    ///     Seed of the order in which vectors are linked.
    /// threads
    ///     Number of threads, at most one per CPU, which is the default.
    /// device
    ///     Where to build: "cpu", a GPU such as "cuda" or "cuda:1", or several as for Index.to_device. The index is then on the
    ///     GPUs that were named; should it not fit there, it stays in host memory, with a RuntimeWarning. "auto" builds
    ///     on the first GPU with room, or else on the CPU, and leaves the index in host memory.
    /// sharded
    ///     Whether several GPUs build and hold one shard of the index each: see Index.to_device.
    /// shards
    ///     The number of shards, wherever they are built. Each has the vectors of some keys, and is saved as a file of
    ///     the folder that Index.save then makes.
    /// exact_linking
    ///     Choose edges by exact distances instead of 8-bit copies (SQ8).
    /// skip_zero_vectors
    ///     If the metric is "cosine", leave out zero vectors, which have no distance, instead of raising ParameterError.
    ///     The others keep the keys that they would have.
    /// quantization
    ///     Quantizes the vectors after the build: see Index.quantize.
    /// checkpoint, checkpoint_interval
    ///     A file to which the build writes its state at intervals, in seconds, and from which it resumes. Remove it
    ///     after the index is saved.
    ///
    /// Raises ParameterError, DuplicateKeyError, OutOfMemoryError (before anything is allocated) or DeviceError.
    ///
    /// >>> import jasper, numpy as np
    /// >>> vectors = np.random.default_rng(0).integers(0, 9, (1000, 16), dtype=np.uint8)
    /// >>> len(jasper.Index.build(vectors, metric="cosine", keys=np.arange(1000, 2000)))
    /// 1000
    #[staticmethod]
    #[pyo3(signature = (vectors, *, keys = None, attributes = None, ids = None, metric = "l2", dtype = None, max_degree = None, build_beam_width = None,
                        alpha = None, max_batch_share = None, seed = None, threads = None,
                        device = DeviceArgument(Device::AUTO), sharded = false, shards = None,
                        exact_linking = false, skip_zero_vectors = false, quantization = None, checkpoint = None, checkpoint_interval = 300.0,
                        progress = None),
           text_signature = "(vectors, *, keys=None, attributes=None, ids=None, metric=\"l2\", dtype=None, max_degree=None, \
                             build_beam_width=None, alpha=None, max_batch_share=None, seed=None, threads=None, \
                             device=\"auto\", sharded=False, shards=None, exact_linking=False, \
                             skip_zero_vectors=False, quantization=None, checkpoint=None, checkpoint_interval=300.0, progress=None)")]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments")]
    fn build(
        py: Python<'_>,
        vectors: &Bound<'_, PyAny>,
        keys: Option<&Bound<'_, PyAny>>,
        attributes: Option<&Bound<'_, PyAny>>,
        ids: Option<&str>,
        metric: &str,
        dtype: Option<&Bound<'_, PyAny>>,
        max_degree: Option<Integer>,
        build_beam_width: Option<Integer>,
        alpha: Option<f32>,
        max_batch_share: Option<f32>,
        seed: Option<Integer>,
        threads: Option<Integer>,
        device: DeviceArgument,
        sharded: bool,
        shards: Option<Integer>,
        exact_linking: bool,
        skip_zero_vectors: bool,
        quantization: Option<&str>,
        checkpoint: Option<PathBuf>,
        checkpoint_interval: f64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let vectors = &interop::to_numpy(vectors, "vectors")?;
        let keys = keys.map(arrays::keys).transpose()?;
        let mut builder =
            builder(metric, max_degree, build_beam_width, alpha, max_batch_share, seed, threads)?
                .device(device.0.sharded(sharded))
                .shards(shards.map(|shards| count("shards", shards)).transpose()?)
                .exact_linking(exact_linking)
                .skip_zero_vectors(skip_zero_vectors);
        if let Some(keys) = &keys {
            builder = builder.keys(keys);
        }
        builder = builder.quantize(quantize_mode(quantization, Device::AUTO, false)?);
        if let Some(path) = &checkpoint {
            let interval = Duration::try_from_secs_f64(checkpoint_interval).map_err(|_| {
                ParameterError::new_err(format!(
                    "checkpoint_interval ({checkpoint_interval}) must be a number of seconds, at least 0"
                ))
            })?;
            builder = builder.checkpoint(path, interval);
        }
        let element = dtype.map_or_else(|| element(vectors), parse_dtype)?;
        let vectors = Input::new(vectors, Some(element))?;
        if matches!(&vectors, Input::Array(array) if array.is_one()) {
            return Err(ParameterError::new_err(
                "vectors are in one dimension; they must have shape (n, dim)",
            ));
        }
        let source = vectors.source()?;
        let attributes = optional_frame(attributes, source.len(), ids)?;
        if let Some(attributes) = &attributes {
            builder = builder.attributes(attributes);
        }
        let index = call::long(py, progress, |progress| {
            kept(builder.with_progress(progress).build(source)).map_err(Raise::raise)
        })?;
        Self::built(py, index)
    }

    /// The most memory that Index.build takes with these arguments: a report with host_bytes, device_bytes, and parts,
    /// each with its memory, name and bytes. A build checks that there is as much before it begins. A move of the index
    /// to the device comes afterwards, and is not included: Index.build warns if there is too little memory for it.
    ///
    /// >>> import jasper
    /// >>> jasper.Index.memory_plan(1_000_000, 96, dtype="float16", device="cpu").device_bytes
    /// 0
    #[staticmethod]
    #[pyo3(signature = (rows, dim, *, metric = "l2", dtype = None, max_degree = None, build_beam_width = None,
                        max_batch_share = None, device = DeviceArgument(Device::AUTO), sharded = false,
                        shards = None, exact_linking = false, quantization = None),
           text_signature = "(rows, dim, *, metric=\"l2\", dtype=None, max_degree=None, build_beam_width=None, \
                             max_batch_share=None, device=\"auto\", sharded=False, shards=None, \
                             exact_linking=False, quantization=None)")]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments")]
    fn memory_plan<'py>(
        py: Python<'py>,
        rows: Integer,
        dim: Integer,
        metric: &str,
        dtype: Option<&Bound<'py, PyAny>>,
        max_degree: Option<Integer>,
        build_beam_width: Option<Integer>,
        max_batch_share: Option<f32>,
        device: DeviceArgument,
        sharded: bool,
        shards: Option<Integer>,
        exact_linking: bool,
        quantization: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (rows, dim) = (count("rows", rows)?, count("dim", dim)?);
        let builder = builder(metric, max_degree, build_beam_width, None, max_batch_share, None, None)?
            .device(device.0.sharded(sharded))
            .shards(shards.map(|shards| count("shards", shards)).transpose()?)
            .exact_linking(exact_linking);
        let builder = builder.quantize(quantize_mode(quantization, Device::AUTO, false)?);
        let element = dtype.map_or(Ok(ElementKind::F32), parse_dtype)?;
        let plan = py.detach(|| device::keep_current(|| builder.memory_plan(element, rows, dim)));
        let plan = plan.map_err(Raise::raise)?;
        let fields = serde_json::json!({
            "host_bytes": plan.total(MemorySpace::Host),
            "device_bytes": plan.total(MemorySpace::Device),
            "parts": plan.parts(),
        });
        report(py, &fields)
    }

    /// Builds a new index over the same vectors and keys, with the same parameters and quantization, without deleted
    /// keys, tuned searches or journal. device is that of Index.build. Only host memory is read, so this saves the index
    /// after a GPU failed. Takes the time of a build.
    ///
    /// >>> import jasper, numpy as np
    /// >>> index = jasper.Index.build(np.random.default_rng(0).random((1000, 16), dtype=np.float32))
    /// >>> len(index.rebuild("cpu"))
    /// 1000
    #[pyo3(signature = (device = DeviceArgument(Device::CPU), *, progress = None),
           text_signature = "($self, device=\"cpu\", *, progress=None)")]
    fn rebuild(&self, py: Python<'_>, device: DeviceArgument, progress: Option<Py<PyAny>>) -> PyResult<Self> {
        let rebuilt = self.long(py, progress, |index| kept(index.rebuild(device.0)))?;
        Self::built(py, rebuilt)
    }
}

impl Index {
    /// An index that was built, with a warning if it could not be moved to its device.
    fn built(py: Python<'_>, (index, warning): (jasper::Index, Option<CString>)) -> PyResult<Self> {
        if let Some(warning) = warning {
            // If warnings are errors, the index must not be lost.
            PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &warning, 1)
                .unwrap_or_else(|error| error.write_unraisable(py, None));
        }
        Ok(Self::new(index))
    }
}

/// Keeps an index that was built and could not be moved to its device, because a build may have taken hours, and adds a
/// warning.
fn kept(
    built: Result<jasper::Index, jasper::Error>,
) -> Result<(jasper::Index, Option<CString>), jasper::Error> {
    let error = match built {
        Ok(index) => return Ok((index, None)),
        Err(error) => error,
    };
    let reason = error.source().map(message).unwrap_or_default();
    let warning = format!("the index was built and stays in host memory: {reason}");
    Ok((error.into_index()?, CString::new(warning).ok()))
}
