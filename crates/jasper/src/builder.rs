//! Building an index.

use std::path::Path;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use jasper_core::{
    BuildParams, BuildParamsBuilder, Element, Key, MatrixError, Metric, ParamError, ProgressFn, VectorSource,
    no_progress,
};
use jasper_graph::Graph;
use jasper_quant::Quantization;
use jasper_vamana::{
    BuildShape, Bytes, Checkpoints, CpuExecutor, Ingested, Linked, MemoryPlan, MemorySpace, PlanError,
    PoolError, SKETCHES, SearchCost, UpdateError, free_host_memory, ingest, link_on_host,
};

use crate::auto_quantize::{AutoQuantizeError, CANDIDATES};
use crate::backend::{CudaBuilder, first_available, plan_build};
use crate::{Device, DeviceError, Index, cpu_name};

/// An index could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A parameter is out of its bounds.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// The device cannot be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The dimension is impossible.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
    /// There is not as much memory as the build takes.
    #[error(transparent)]
    Memory(#[from] PlanError),
    /// The threads could not be started.
    #[error(transparent)]
    Threads(#[from] PoolError),
    /// Vectors or keys are invalid, vectors cannot be quantized, or the build was cancelled.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// No quantization suits the vectors.
    #[error(transparent)]
    AutoQuantize(#[from] AutoQuantizeError),
}

/// What a build did.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BuildReport {
    /// Where the graph was built: [`Device::Cpu`] or [`Device::Cuda`].
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serialize_name"))]
    pub device: Device,
    /// Name of that CPU or GPU.
    pub device_name: String,
    /// Keys in the index.
    pub keys: usize,
    /// Vectors that were identical to an earlier one, and share its vertex.
    pub identical: usize,
    /// Vertices that could not be reached, and were given an edge.
    pub reconnected: usize,
    /// What linking cost.
    pub cost: SearchCost,
}

/// How vectors are quantized once the graph is built.
#[derive(Clone, Copy, Debug)]
enum QuantizeStep {
    By(Quantization),
    Auto,
}

impl QuantizeStep {
    /// The codes that vectors may have, one at a time.
    fn candidates(&self) -> &[Quantization] {
        match self {
            Self::By(quantization) => slice::from_ref(quantization),
            Self::Auto => &CANDIDATES,
        }
    }
}

/// Builds an index.
///
/// ```
/// use jasper::{IndexBuilder, MatrixView, Metric};
/// let index = IndexBuilder::new(Metric::InnerProduct)
///     .max_degree(32)
///     .build_beam_width(64)
///     .keys(&[10, 20, 30])
///     .build(&MatrixView::new(&[1_i8, 2, 3, 4, 5, 6], 2)?)?;
/// assert_eq!(index.vector(20), Some(vec![3, 4]));
/// assert!(IndexBuilder::new(Metric::L2).alpha(0.5).build(&MatrixView::new(&[0_u8; 4], 2)?).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct IndexBuilder<'a> {
    metric: Metric,
    params: BuildParamsBuilder,
    threads: usize,
    device: Device,
    keys: Option<&'a [Key]>,
    checkpoints: Option<Checkpoints<'a>>,
    quantize: Option<QuantizeStep>,
    quantized_linking: bool,
}

impl<'a> IndexBuilder<'a> {
    /// A builder with the default parameters. The element type is that of the vectors given to [`Self::build`].
    pub fn new(metric: Metric) -> Self {
        Self {
            metric,
            params: BuildParams::builder(),
            threads: 0,
            device: Device::Auto,
            keys: None,
            checkpoints: None,
            quantize: None,
            quantized_linking: false,
        }
    }

    /// Maximum number of out-edges of a vertex, R; 64 by default. More edges cost memory (4 bytes each) and build time, and
    /// give recall where data has many intrinsic dimensions.
    pub fn max_degree(mut self, max_degree: usize) -> Self {
        self.params = self.params.max_degree(max_degree);
        self
    }

    /// Beam width of build searches, L; 128 by default. A wider beam costs build time and gives recall.
    pub fn build_beam_width(mut self, build_beam_width: usize) -> Self {
        self.params = self.params.build_beam_width(build_beam_width);
        self
    }

    /// The factor alpha of robust pruning, on squared distances; 1.2 by default. A larger one keeps more edges.
    pub fn alpha(mut self, alpha: f32) -> Self {
        self.params = self.params.alpha(alpha);
        self
    }

    /// Largest batch as a share of the vertices linked before it; 0.02 by default. GPUs build faster in larger batches, whose
    /// vertices do not see each other: up to 0.1 costs little recall.
    pub fn max_batch_share(mut self, share: f32) -> Self {
        self.params = self.params.max_batch_share(share);
        self
    }

    /// Links float vectors by copies that are rounded to bytes: the build reads a quarter of the bytes of f32, and long
    /// vectors build on a GPU in half the time or less. Searches and later inserts use the vectors themselves. Vectors of
    /// bytes are linked as they are.
    ///
    /// Every dimension is rounded in steps of the same size. Not for sets in which many vectors differ from their neighbors
    /// by less than a hundredth of the coordinates' range; under inner products, not for vectors that lie close together
    /// far from the origin, or most of which are a hundred times shorter than the longest.
    ///
    /// Takes a byte per coordinate of host memory, and a pass over the vectors. A checkpoint of such a build is one of `i8`.
    ///
    /// ```
    /// # use jasper::{IndexBuilder, MatrixView, Metric, SearchParams, bench::synthetic::Clusters};
    /// # let vectors: Vec<f32> = Clusters::new(16, 7).rows(1000, 0);
    /// # let vectors = MatrixView::new(&vectors, 16)?;
    /// let index = IndexBuilder::new(Metric::L2).quantized_linking().build(&vectors)?;
    /// assert_eq!(index.search(vectors.row(5), SearchParams::new(1))?[0].key, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn quantized_linking(mut self) -> Self {
        self.quantized_linking = true;
        self
    }

    /// Seed of the order in which vertices are linked. On the CPU, the same vectors, parameters and seed give the same index,
    /// byte for byte, with any number of threads.
    pub fn seed(mut self, seed: u64) -> Self {
        self.params = self.params.seed(seed);
        self
    }

    /// Threads of the index, for building and for batches of queries; 0, the default, means one per CPU.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Where to build; [`Device::Auto`] by default, a CUDA device with room for the build, or the CPU. [`BuildReport::device`]
    /// says which it was.
    ///
    /// [`Device::Cpu`] builds the same graph on every machine. So does a CUDA device from vectors of bytes; from floats, its
    /// sums round differently, and some edges differ. The index is in host memory after the build: see
    /// [`Index::to_device`].
    pub fn device(mut self, device: Device) -> Self {
        self.device = device;
        self
    }

    /// The key of each vector; 0, 1, 2 ... by default.
    pub fn keys(mut self, keys: &'a [Key]) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Quantizes the vectors once the graph is built: see [`Index::quantize`].
    pub fn quantize(mut self, quantization: Quantization) -> Self {
        self.quantize = Some(QuantizeStep::By(quantization));
        self
    }

    /// Quantizes the vectors with the quantization that suits them best: see [`Index::auto_quantize`]. If none does, the
    /// build fails; call [`Index::auto_quantize`] after the build to keep the index.
    ///
    /// ```
    /// # use jasper::{IndexBuilder, MatrixView, Metric, bench::synthetic::Clusters};
    /// # let vectors: Vec<f32> = Clusters::new(64, 7).rows(3000, 0);
    /// # let vectors = MatrixView::new(&vectors, 64)?;
    /// let index = IndexBuilder::new(Metric::L2).auto_quantize().build(&vectors)?;
    /// println!("{}", index.stats().quantization.expect("one was found"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn auto_quantize(mut self) -> Self {
        self.quantize = Some(QuantizeStep::Auto);
        self
    }

    /// Writes a checkpoint to `path` every so often, and when the build is cancelled; the same build then resumes from it,
    /// after a kill too. The index is that of an uninterrupted build, byte for byte, if distances are exact integers or the
    /// device is the same.
    ///
    /// The file takes up to 4 bytes per edge. It stays until it is removed, best after the index is saved:
    /// [`Checkpoints::remove`].
    ///
    /// ```
    /// # use std::{ops::ControlFlow, time::Duration};
    /// # use jasper::{IndexBuilder, MatrixView, Metric, Stage, bench::synthetic::Clusters};
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("vectors.checkpoint");
    /// # let vectors: Vec<f32> = Clusters::new(16, 7).rows(1000, 0);
    /// # let vectors = MatrixView::new(&vectors, 16)?;
    /// let builder = IndexBuilder::new(Metric::L2).checkpoint(&path, Duration::from_secs(300));
    /// let stopped = builder.build_with(&vectors, &mut |progress| match progress.stage {
    ///     Stage::Linking if progress.done > 500 => ControlFlow::Break(()),
    ///     _ => ControlFlow::Continue(()),
    /// });
    /// assert!(stopped.is_err() && path.exists());
    /// let index = builder.build(&vectors)?; // The second half.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn checkpoint(mut self, path: &'a Path, every: Duration) -> Self {
        self.checkpoints = Some(Checkpoints::new(path, every));
        self
    }

    /// Builds an index over `vectors`: a [`MatrixView`](crate::MatrixView), or a [`VectorFile`](crate::data::VectorFile),
    /// which is read piece by piece. Identical vectors share a vertex.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build<T: Element>(self, vectors: &dyn VectorSource<T>) -> Result<Index<T>, BuildError> {
        self.build_with(vectors, &mut no_progress).map(|(index, _)| index)
    }

    /// [`Self::build`] with a progress callback, and a report of what was done.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build_with<T: Element>(
        self,
        vectors: &dyn VectorSource<T>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<(Index<T>, BuildReport), BuildError> {
        let (count, dimension) = (vectors.len(), vectors.dimension());
        let params = self.params.build()?;
        let shape = BuildShape { rows: count, dimension, metric: self.metric, params };
        let cuda = self.open_device::<T>(count, dimension)?;
        self.plan_on::<T>(cuda.as_ref(), count, dimension)?
            .without(SKETCHES)
            .check(free_memory(cuda.as_ref())?)?;
        let executor = CpuExecutor::new(self.threads)?;
        let by_bytes = self.uses_quantized_linking::<T>();
        if let Some(checkpoints) = self.checkpoints {
            let checked = match by_bytes {
                true => checkpoints.check::<i8>(shape.quantized().metric, dimension, &params),
                false => checkpoints.check::<T>(shape.metric, dimension, &params),
            };
            checked.map_err(UpdateError::from)?;
        }
        // Kernels are compiled while vectors are read.
        let _kernels = cuda.as_ref().map(|cuda| match by_bytes {
            true => cuda.prepare::<i8>(&shape.quantized()),
            false => cuda.prepare::<T>(&shape),
        });
        let link = Link { cuda: cuda.as_ref(), executor: &executor, checkpoints: self.checkpoints };
        let ingested = ingest(&executor, vectors, self.keys, self.metric, params, progress)?;
        let linked = if by_bytes {
            let (ingested, saved) = ingested.quantize_vectors(&executor)?;
            link.run(ingested, progress)?.restore_vectors(saved)
        } else {
            link.run(ingested, progress)?
        };
        let (graph, built) = linked.finish();
        let report = BuildReport {
            device: cuda.as_ref().map_or(Device::Cpu, |cuda| Device::Cuda(cuda.ordinal())),
            device_name: cuda.as_ref().map_or_else(cpu_name, CudaBuilder::device_name),
            keys: built.keys,
            identical: built.identical,
            reconnected: built.reconnected,
            cost: built.cost,
        };
        let index = Index::new(graph, Arc::new(executor));
        match self.quantize {
            Some(QuantizeStep::By(quantization)) => index.quantize(quantization)?,
            Some(QuantizeStep::Auto) => drop(index.auto_quantize_with(progress)?),
            None => {}
        }
        Ok((index, report))
    }

    fn uses_quantized_linking<T: Element>(&self) -> bool {
        self.quantized_linking && !T::EXACT
    }

    /// An index without vectors, to [`Index::insert`] into.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn empty<T: Element>(self, dimension: usize) -> Result<Index<T>, BuildError> {
        self.device.find()?;
        let graph = Graph::new(self.metric, dimension, self.params.build()?)?;
        Ok(Index::new(graph, Arc::new(CpuExecutor::new(self.threads)?)))
    }

    /// Peak memory of a build of `count` vectors of `dimension` coordinates, on the host and on the device, part by part. A
    /// [`Device::Cuda`] need not exist; [`Device::Auto`] is where [`Self::build`] would build now.
    ///
    /// # Errors
    /// [`BuildError`]: a parameter is out of bounds.
    pub fn estimate_memory<T: Element>(
        self,
        count: usize,
        dimension: usize,
    ) -> Result<MemoryPlan, BuildError> {
        match self.device {
            Device::Auto => {
                self.plan_on::<T>(self.open_device::<T>(count, dimension)?.as_ref(), count, dimension)
            }
            Device::Cpu => self.plan::<T>(None, count, dimension),
            Device::Cuda(ordinal) => self.plan::<T>(Some(ordinal), count, dimension),
        }
    }

    /// [`Self::estimate_memory`], checked against the free memory of the host and the device, as [`Self::build`] does first.
    ///
    /// # Errors
    /// [`BuildError::Memory`]: there is not enough.
    pub fn check_memory<T: Element>(self, count: usize, dimension: usize) -> Result<MemoryPlan, BuildError> {
        let cuda = self.open_device::<T>(count, dimension)?;
        let plan = self.plan_on::<T>(cuda.as_ref(), count, dimension)?;
        plan.clone().without(SKETCHES).check(free_memory(cuda.as_ref())?)?;
        Ok(plan)
    }

    /// The CUDA device to build on, or `None` for the CPU.
    fn open_device<T: Element>(
        &self,
        count: usize,
        dimension: usize,
    ) -> Result<Option<CudaBuilder>, BuildError> {
        match self.device {
            Device::Cpu => Ok(None),
            Device::Cuda(ordinal) => Ok(Some(CudaBuilder::open(ordinal)?)),
            Device::Auto => {
                let fitting = first_available(|ordinal| {
                    let cuda = CudaBuilder::open(ordinal)?;
                    let free = cuda.free_memory()?;
                    let plan = self.plan::<T>(Some(ordinal), count, dimension);
                    let fits = plan.is_ok_and(|plan| plan.without(SKETCHES).check(free).is_ok());
                    Ok(fits.then_some(cuda))
                })?;
                Ok(fitting)
            }
        }
    }

    fn plan_on<T: Element>(
        &self,
        cuda: Option<&CudaBuilder>,
        count: usize,
        dimension: usize,
    ) -> Result<MemoryPlan, BuildError> {
        self.plan::<T>(cuda.map(CudaBuilder::ordinal), count, dimension)
    }

    /// What a build takes on a CUDA device, or on the CPU.
    fn plan<T: Element>(
        &self,
        cuda: Option<usize>,
        count: usize,
        dimension: usize,
    ) -> Result<MemoryPlan, BuildError> {
        let shape = BuildShape { rows: count, dimension, metric: self.metric, params: self.params.build()? };
        let candidates = self.quantize.as_ref().map_or(&[][..], QuantizeStep::candidates);
        let checked = candidates.iter().try_for_each(|quantization| quantization.check());
        checked.map_err(UpdateError::from)?;
        let plan = match self.uses_quantized_linking::<T>() {
            true => {
                let vectors = shape.vector_bytes::<T>() as u64;
                link_plan::<i8>(&shape.quantized(), cuda)?.part(
                    MemorySpace::Host,
                    "vectors as given",
                    vectors,
                )
            }
            false => link_plan::<T>(&shape, cuda)?,
        };
        if candidates.is_empty() {
            return Ok(plan);
        }
        let largest = |bytes: fn(Quantization, usize) -> usize| {
            candidates.iter().map(|&candidate| bytes(candidate, dimension) as u64).max().unwrap_or(0)
        };
        let plan = plan.part(MemorySpace::Host, "codes", count as u64 * largest(Quantization::bytes));
        Ok(plan.part(MemorySpace::Host, "quantizer", largest(Quantization::quantizer_bytes)))
    }
}

/// What linking takes.
fn link_plan<T: Element>(shape: &BuildShape, cuda: Option<usize>) -> Result<MemoryPlan, DeviceError> {
    cuda.map_or_else(|| Ok(shape.plan_on_host::<T>()), |ordinal| plan_build::<T>(shape, ordinal))
}

fn free_memory(cuda: Option<&CudaBuilder>) -> Result<Bytes, DeviceError> {
    cuda.map_or_else(|| Ok(Bytes { host: free_host_memory(), device: 0 }), CudaBuilder::free_memory)
}

/// Links vertices where the build runs.
#[derive(Clone, Copy)]
struct Link<'a> {
    cuda: Option<&'a CudaBuilder>,
    executor: &'a CpuExecutor,
    checkpoints: Option<Checkpoints<'a>>,
}

impl Link<'_> {
    fn run<T: Element>(
        self,
        ingested: Ingested<T>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Linked<T>, UpdateError> {
        match self.cuda {
            Some(cuda) => cuda.link(self.executor, ingested, self.checkpoints, progress),
            None => link_on_host(self.executor, ingested, self.checkpoints, progress),
        }
    }
}
