//! Building an index.

mod error;
mod nonzero;
mod plan;
mod report;
mod shards;

use std::ops::ControlFlow;
use std::path::Path;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use jasper_attributes::{Attributes, Frame};
use jasper_core::{
    BuildParams, BuildParamsBuilder, Effort, ElementKind, Key, Metric, ParamError, Progress, ProgressFn,
    Vectors, with_element,
};
use jasper_graph::{Graph, VectorError};
use jasper_quant::{Quantization, TrainError};
use jasper_vamana::{
    BuildSpec, Bytes, Checkpoints, CpuExecutor, InsertReport, ScalarQuantizer, UpdateError, cpu_name, ingest,
    link_on_host, remove_checkpoint,
};

#[cfg(doc)]
use crate::ErrorKind;
use crate::auto_quantize::CANDIDATES;
use crate::backend::{BuildDevice, plan_build};
use crate::error::{Result, built};
use crate::index::Callback;
use crate::inner::{CodeCheck, IndexInner};
use crate::{Device, Index, QuantizeMode};
pub(crate) use error::BuildError;
use plan::BuildPlan;
pub use report::BuildReport;

/// How vectors are quantized once the graph is built.
#[derive(Clone, Copy, Debug)]
enum QuantizeStep {
    Mode(QuantizeMode),
    /// The quantization of an index that is built again, which was checked or forced before. Left out if too few vectors
    /// are left to train on.
    Again(Quantization),
}

impl QuantizeStep {
    /// The quantizations that vectors may have, one at a time.
    fn candidates(&self) -> &[Quantization] {
        match self {
            Self::Mode(QuantizeMode::Checked(quantization) | QuantizeMode::Forced(quantization))
            | Self::Again(quantization) => slice::from_ref(quantization),
            Self::Mode(QuantizeMode::Auto(_)) => &CANDIDATES,
            Self::Mode(QuantizeMode::None | QuantizeMode::Sketches) => &[],
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
///     .build(MatrixView::new(&[1_i8, 2, 3, 4, 5, 6], 2)?)?;
/// assert_eq!(index.vector(20), Some(vec![3.0, 4.0]));
/// assert!(IndexBuilder::new(Metric::L2).alpha(0.5).build(MatrixView::new(&[0_u8; 4], 2)?).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct IndexBuilder<'a> {
    metric: Metric,
    params: BuildParamsBuilder,
    threads: Option<usize>,
    device: Device,
    shards: Option<usize>,
    keys: Option<&'a [Key]>,
    attributes: Option<&'a Frame>,
    checkpoints: Option<Checkpoints<'a>>,
    quantize: Option<QuantizeStep>,
    exact_linking: bool,
    skip_zero_vectors: bool,
    keep_on_host: bool,
    progress: Callback,
}

impl<'a> IndexBuilder<'a> {
    /// A builder with the default parameters. The element type is that of the vectors given to [`Self::build`].
    pub fn new(metric: Metric) -> Self {
        Self {
            metric,
            params: BuildParams::builder().effort(Effort::Adaptive),
            threads: None,
            device: Device::AUTO,
            shards: None,
            keys: None,
            attributes: None,
            checkpoints: None,
            quantize: None,
            exact_linking: false,
            skip_zero_vectors: false,
            keep_on_host: false,
            progress: Callback::default(),
        }
    }

    /// A builder with the metric and the parameters of a graph.
    pub(crate) fn like(graph: &Graph) -> Self {
        Self { params: (*graph.params()).into(), ..Self::new(graph.metric()) }
    }

    /// Maximum number of out-edges of a vertex, R; 64 by default. More edges cost memory (4 bytes each) and build time,
    /// and raise recall on data of many intrinsic dimensions.
    pub fn max_degree(mut self, max_degree: usize) -> Self {
        self.params = self.params.max_degree(max_degree);
        self
    }

    /// The build beam width, L: that of searches for the neighbors of a new vector. A bulk build with L2 or cosine
    /// searches twice with half of it. A wider beam costs build time and raises recall.
    ///
    /// By default it is 128, and a build doubles it once or twice if its searches miss neighbors: see
    /// [`BuildReport::build_beam_width`]. Later inserts search with the width that the build has chosen, and raise it in
    /// the same way while the index grows. A width that is given stays.
    pub fn build_beam_width(mut self, build_beam_width: usize) -> Self {
        self.params = self.params.build_beam_width(build_beam_width);
        self
    }

    /// The factor alpha of robust pruning, on squared distances. A larger one keeps more edges. By default it is 1.2,
    /// and a build raises it to 1.8 where that finds more: see [`BuildReport::alpha`].
    pub fn alpha(mut self, alpha: f32) -> Self {
        self.params = self.params.alpha(alpha);
        self
    }

    /// Largest batch as a share of the vertices linked before it; 0.04 by default. GPUs build faster in larger batches,
    /// but vertices of a batch do not find each other. Up to 0.1 costs little recall. No batch has more than 200,000
    /// vertices.
    pub fn max_batch_share(mut self, share: f32) -> Self {
        self.params = self.params.max_batch_share(share);
        self
    }

    /// Whether the edges of float vectors are chosen by exact distances, in this build and in later changes of the
    /// index; false by default.
    ///
    /// If not, the builder quantizes float vectors to 8 bits per coordinate (SQ8). For a sample of them it takes the
    /// 100 nearest others by SQ8, compares the 10 nearest of these by SQ8 with the 10 nearest by exact distances, and
    /// chooses edges by SQ8 distances if at least 85% agree. Typically they do not where neighbors differ by less than
    /// about 1% of the coordinates' range. SQ8 is a quarter of the bytes of f32 to read, and recall is the same.
    /// [`BuildReport::exact_linking`] says which distances were used. Large inserts and consolidations on a CUDA device
    /// do the same; on the CPU they use exact distances.
    ///
    /// The SQ8 vectors take a byte per coordinate of host memory during the build, and of device memory during a
    /// change. On a device, searches for the neighbors of vectors of 256 dimensions and more read 4 bits
    /// per coordinate (SQ4), rounded from SQ8, if there is room for them. A checkpoint of such a build is one of `i8`.
    /// Searches of the index never use them. Distances of u8 and i8 vectors are
    /// always exact. The setting is not saved: see
    /// [`OpenOptions::exact_linking`](crate::OpenOptions::exact_linking).
    ///
    /// ```
    /// # use jasper::{IndexBuilder, MatrixView, Metric};
    /// # use jasper_core::synthetic::Clusters;
    /// # let vectors: Vec<f32> = Clusters::new(16, 7).rows(1000, 0);
    /// # let vectors = MatrixView::new(&vectors, 16)?;
    /// let builder = IndexBuilder::new(Metric::L2);
    /// let is_exact = |index: jasper::Index| index.stats().build.map(|report| report.exact_linking);
    /// assert_eq!(is_exact(builder.build(vectors)?), Some(false));
    /// assert_eq!(is_exact(builder.exact_linking(true).build(vectors)?), Some(true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn exact_linking(mut self, exact_linking: bool) -> Self {
        self.exact_linking = exact_linking;
        self
    }

    /// Seed of the order in which vertices are linked. On the CPU, the same vectors, parameters and seed give the same
    /// index, byte for byte, with any number of threads.
    pub fn seed(mut self, seed: u64) -> Self {
        self.params = self.params.seed(seed);
        self
    }

    /// Threads for the build and later changes, and as many for batches of queries, at least 1; `None`, the default, means one per CPU,
    /// and more than that are not started.
    pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Where the index is built, and then is. The default, [`Device::AUTO`], builds on the first CUDA device with
    /// room, or else on the CPU, and leaves the index in host memory. [`BuildReport::device`] says where it was built.
    ///
    /// An index that was built on a named device, and does not fit there, is [in the error](crate::Error::into_index):
    ///
    /// ```no_run
    /// # use jasper::{Device, IndexBuilder, MatrixView, Metric};
    /// # let vectors = MatrixView::new(&[0_u8, 1, 2, 3], 2)?;
    /// let built = IndexBuilder::new(Metric::L2).device(Device::cuda(0)).build(vectors);
    /// let index = built.or_else(|error| error.into_index())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Of several devices, the first builds one graph, which all then hold; if they are [sharded](Device::sharded), each
    /// builds one shard.
    ///
    /// [`Device::CPU`] builds the same graph on every machine. So does a CUDA device from vectors of bytes; from
    /// floats, its sums round differently, searches for the neighbors of long vectors read 4 bits per coordinate, and
    /// some edges differ.
    pub fn device(mut self, device: Device) -> Self {
        self.device = device;
        self
    }

    /// Whether the index stays in host memory, wherever it is built; false by default. This saves moving an index that
    /// is only written to a file.
    pub fn keep_on_host(mut self, keep_on_host: bool) -> Self {
        self.keep_on_host = keep_on_host;
        self
    }

    /// Number of shards, at most 256. `None`, the default, means 1, or one per device if they are
    /// [sharded](Device::sharded). The index has one graph per shard, with the vectors of some keys, which
    /// [several devices](Device::cuda_set) build at the same time and hold together. The number stays as it is, and
    /// devices may be fewer: they get the shards in turn.
    ///
    /// ```
    /// # use jasper::{Device, IndexBuilder, MatrixView, Metric, SearchParams};
    /// # use jasper_core::synthetic::Clusters;
    /// # let vectors: Vec<f32> = Clusters::new(16, 7).rows(1000, 0);
    /// # let vectors = MatrixView::new(&vectors, 16)?;
    /// let index = IndexBuilder::new(Metric::L2).shards(4).build(vectors)?;
    /// assert_eq!((index.stats().shards, index.len()), (4, 1000));
    /// assert_eq!(index.search(vectors.row(7), SearchParams::new(1))?[0].key, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shards(mut self, shards: impl Into<Option<usize>>) -> Self {
        self.shards = shards.into();
        self
    }

    /// The keys, one per vector, all different; 0, 1, 2 ... by default.
    pub fn keys(mut self, keys: &'a [Key]) -> Self {
        self.keys = Some(keys);
        self
    }

    /// The attributes of the keys, a row per vector; none by default. Searches [filter](crate::SearchParams::filter) by
    /// them.
    ///
    /// ```
    /// # use jasper::{IndexBuilder, MatrixView, Metric, SearchParams};
    /// use jasper::attributes::{Expression, Frame};
    ///
    /// let attributes = Frame::new(3).column("year", [1999, 2010, 2024])?.column("lang", ["en", "de", "en"])?;
    /// let index = IndexBuilder::new(Metric::L2)
    ///     .attributes(&attributes)
    ///     .build(MatrixView::new(&[1_u8, 2, 3, 4, 5, 6], 2)?)?;
    /// let filter: Expression = "year >= 2000 and lang = 'en'".parse()?;
    /// assert_eq!(index.search(&[1_u8, 2], SearchParams::new(3).filter(&filter))?[0].key, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn attributes(mut self, attributes: &'a Frame) -> Self {
        self.attributes = Some(attributes);
        self
    }

    /// Whether a build leaves out vectors of length zero if the metric is [`Metric::Cosine`], by which they have no
    /// distance; false by default: the build fails, and names the first. Other vectors keep the keys that they would have.
    /// [`BuildReport::skipped`] says how many were left out. Reads the vectors once more.
    ///
    /// ```
    /// # use jasper::{IndexBuilder, MatrixView, Metric};
    /// let vectors = MatrixView::new(&[3.0_f32, 4.0, 0.0, 0.0, 1.0, 0.0], 2)?;
    /// let builder = IndexBuilder::new(Metric::Cosine);
    /// assert!(builder.build(vectors).is_err());
    /// let index = builder.skip_zero_vectors(true).build(vectors)?;
    /// assert!(index.contains(0) && !index.contains(1) && index.contains(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn skip_zero_vectors(mut self, skip: bool) -> Self {
        self.skip_zero_vectors = skip;
        self
    }

    /// Quantizes the vectors once the graph is built: see [`Index::quantize`]. If codes are refused or a trial of several
    /// fails, so does the build; call [`Index::quantize`] after the build to keep the index.
    ///
    /// ```
    /// # use jasper::{Device, IndexBuilder, MatrixView, Metric, QuantizeMode};
    /// # use jasper_core::synthetic::Clusters;
    /// # let vectors: Vec<f32> = Clusters::new(64, 7).rows(3000, 0);
    /// # let vectors = MatrixView::new(&vectors, 64)?;
    /// // If it makes searches faster on the device that builds the index.
    /// let auto = QuantizeMode::Auto(Device::AUTO);
    /// let index = IndexBuilder::new(Metric::L2).quantize(auto).build(vectors)?;
    /// println!("{:?}", index.stats().quantization);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn quantize(mut self, mode: impl Into<QuantizeMode>) -> Self {
        let mode = mode.into();
        self.quantize = (mode != QuantizeMode::None).then_some(QuantizeStep::Mode(mode));
        self
    }

    /// Quantizes the vectors as those of an index that is built again.
    pub(crate) fn quantize_again(mut self, quantization: Quantization) -> Self {
        self.quantize = Some(QuantizeStep::Again(quantization));
        self
    }

    /// Writes a checkpoint to `path` at intervals of `every`, and when the build is cancelled. If `path` has a
    /// checkpoint, the build resumes from it, even if the process was killed. The index is that of an uninterrupted
    /// build, byte for byte, if sums are exact integers or the device is the same and has as much free memory.
    ///
    /// The file takes up to 4 bytes per edge. [`Self::remove_checkpoint`] removes it, which is best done after the
    /// index is saved.
    ///
    /// ```
    /// # use jasper::{IndexBuilder, MatrixView, Metric, Stage};
    /// # use jasper_core::synthetic::Clusters;
    /// # use std::{ops::ControlFlow, time::Duration};
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("vectors.checkpoint");
    /// # let vectors: Vec<f32> = Clusters::new(16, 7).rows(1000, 0);
    /// # let vectors = MatrixView::new(&vectors, 16)?;
    /// let builder = IndexBuilder::new(Metric::L2).checkpoint(&path, Duration::from_secs(300));
    /// let stop = |progress: jasper::Progress| match progress.stage {
    ///     Stage::Linking if progress.done > 500 => ControlFlow::Break(()),
    ///     _ => ControlFlow::Continue(()),
    /// };
    /// assert!(builder.clone().with_progress(stop).build(vectors).is_err() && path.exists());
    /// let index = builder.build(vectors)?; // The rest.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn checkpoint(mut self, path: &'a (impl AsRef<Path> + ?Sized), every: Duration) -> Self {
        self.checkpoints = Some(Checkpoints::new(path.as_ref(), every));
        self
    }

    /// Removes the [checkpoint](Self::checkpoint), if there is one, and the temporary file of one that was being
    /// written.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::Io`] if a file cannot be removed.
    pub fn remove_checkpoint(&self) -> Result<()> {
        Ok(self.checkpoints.map_or(Ok(()), |checkpoints| remove_checkpoint(checkpoints.path()))?)
    }

    /// Builds one graph.
    pub(super) fn build_graph(
        &self,
        executor: &Arc<CpuExecutor>,
        vectors: Vectors<'_>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<(Graph, BuildReport)> {
        let spec = self.spec(vectors.element(), vectors.len(), vectors.dimension())?;
        let BuildPlan { exact_linking, cuda, .. } = self.choose(&spec)?;
        if let Some(checkpoints) = self.checkpoints {
            checkpoints.check(spec.element, spec.metric, spec.dimension, &spec.params)?;
        }
        // The driver compiles while vectors are read.
        if let Some(cuda) = &cuda {
            cuda.preload_kernels(&spec, exact_linking);
        }
        let ingested = ingest(executor, vectors, self.keys, spec.metric, spec.params, progress)?;
        let quantized = match &cuda {
            Some(cuda) if !exact_linking => cuda.quantize(executor, &ingested.graph)?,
            _ => None,
        };
        let is_refused = cuda.is_some() && !exact_linking && quantized.is_none();
        let cuda = match &cuda {
            Some(cuda) if is_refused => self.if_exact_linking_fits(&spec, cuda)?,
            cuda => cuda.as_ref(),
        };
        let mut exact_linking = exact_linking || is_refused;
        let linked = match cuda {
            Some(cuda) => cuda.link(executor, ingested, quantized, self.checkpoints, progress)?,
            None => {
                let quantizer = if exact_linking {
                    None
                } else {
                    ScalarQuantizer::by_trial(&ingested.graph, executor.pool(), progress)?
                };
                exact_linking = quantizer.is_none();
                link_on_host(executor, ingested, quantizer.as_ref(), self.checkpoints, progress)?
            }
        };
        let missed = linked.missed;
        let (graph, InsertReport { keys: vectors, duplicates, reconnected, cost, .. }) = linked.finish();
        let edges: usize = graph.keys().vertices().map(|slot| graph.adjacency().neighbors(slot).len()).sum();
        let report = BuildReport {
            device: cuda.map_or(Device::CPU, |cuda| Device::cuda(cuda.ordinal())),
            device_name: cuda.map_or_else(cpu_name, BuildDevice::device_name),
            vectors,
            duplicates,
            skipped: 0,
            reconnected,
            mean_degree: edges as f64 / (vectors - duplicates).max(1) as f64,
            exact_linking,
            build_beam_width: graph.params().build_beam_width(),
            alpha: graph.params().alpha(),
            missed_neighbors: missed,
            cost,
        };
        Ok((graph, report))
    }

    /// The device, if the vectors themselves can be linked there: they take more of its memory than bytes. Otherwise
    /// `None`, for the CPU, if the device was to be chosen automatically.
    fn if_exact_linking_fits<'c>(
        &self,
        spec: &BuildSpec,
        device: &'c BuildDevice,
    ) -> Result<Option<&'c BuildDevice>> {
        let free = Bytes { host: u64::MAX, device: device.free_memory()?.device };
        match plan_build(spec, true, device.ordinal())?.check(free) {
            Ok(()) => Ok(Some(device)),
            Err(_) if self.device.is_auto() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The builder with a callback, which receives progress reports of the build and may cancel it.
    pub fn with_progress(mut self, report: impl FnMut(Progress) -> ControlFlow<()> + Send + 'static) -> Self {
        self.progress = Callback::new(report);
        self
    }

    /// Builds an index over `vectors`, of their element type: a [`MatrixView`](crate::MatrixView), or a
    /// [`VectorFile`](crate::VectorFile), which is read chunk by chunk. Identical vectors share a vertex.
    ///
    /// The index is then on the [device](Self::device) that was named, or else in host memory, where the CPU searches
    /// it. [`IndexStats::build`](crate::IndexStats::build) says what the build did.
    ///
    /// # Errors
    /// Fails with
    /// - [`ErrorKind::InvalidParameter`] if a parameter is out of its bounds, or options exclude each other;
    /// - [`ErrorKind::InvalidInput`] or [`ErrorKind::DuplicateKey`] for vectors, keys and attributes that
    ///   [`Index::insert`] refuses, and for a quantization that [`Index::quantize`] refuses;
    /// - [`ErrorKind::OutOfMemory`] before anything is allocated, if there is less memory than [`Self::memory_plan`]
    ///   says;
    /// - [`ErrorKind::OutOfThreads`] or [`ErrorKind::Io`] if threads cannot be started, or vectors or the checkpoint
    ///   cannot be read;
    /// - [`ErrorKind::InvalidFile`] if the checkpoint is damaged, or that of another build;
    /// - [`ErrorKind::Device`], or [`ErrorKind::OutOfMemory`], if the device cannot be used or has no room: the error
    ///   [has the index](crate::Error::into_index) if it was built;
    /// - [`ErrorKind::Cancelled`] by the progress callback.
    pub fn build<'v>(&self, vectors: impl Into<Vectors<'v>>) -> Result<Index> {
        self.build_any(vectors.into())
    }

    /// Not generic, so that this crate has the only copy of the machine code of builds.
    fn build_any(&self, vectors: Vectors<'_>) -> Result<Index> {
        vectors.require_matrix()?;
        self.placed(self.build_on_host(vectors, &mut self.progress.report())?.into())
    }

    /// Creates an index without vectors, for [`Index::insert`], where [`Self::build`] would leave it.
    ///
    /// # Errors
    /// As [`Self::build`]; with [`ErrorKind::InvalidParameter`] also if keys, a checkpoint or a quantization are set.
    pub fn empty(&self, element: ElementKind, dimension: usize) -> Result<Index> {
        let needs_vectors = [
            (self.keys.is_some(), "keys"),
            (self.attributes.is_some_and(|attributes| !attributes.is_empty()), "attributes"),
            (self.checkpoints.is_some(), "checkpoint"),
            (self.quantize.is_some(), "quantize"),
        ];
        if let Some((_, option)) = needs_vectors.into_iter().find(|&(is_set, _)| is_set) {
            return Err(BuildError::Empty(option).into());
        }
        self.device.find()?;
        self.placed(self.empty_on_host(element, dimension)?.into())
    }

    pub(crate) fn empty_on_host(&self, element: ElementKind, dimension: usize) -> Result<IndexInner> {
        let params = self.params.build()?;
        let executor = Arc::new(CpuExecutor::new(self.threads)?);
        let graph = || Graph::new(element, self.metric, dimension, params);
        let index = match self.shard_count()? {
            1 => IndexInner::new(graph()?, executor, self.exact_linking),
            shards => {
                let graphs = (0..shards).map(|_| graph()).collect::<Result<Vec<_>, _>>()?;
                IndexInner::from_shards(graphs, executor, self.exact_linking)
            }
        };
        if let Some(columns) = self.attributes {
            index.changes.set_attributes(&[], columns)?;
        }
        Ok(index)
    }

    /// A new index, moved to the device that the options name.
    pub(crate) fn placed(&self, index: Index) -> Result<Index> {
        if self.keep_on_host || self.device.is_auto() {
            return Ok(index);
        }
        index.moved_to_device(self.device).map_err(built)
    }

    fn spec(&self, element: ElementKind, rows: usize, dimension: usize) -> Result<BuildSpec, ParamError> {
        Ok(BuildSpec { rows, element, dimension, metric: self.metric, params: self.params.build()? })
    }
}

impl IndexBuilder<'_> {
    /// Builds an index in host memory.
    pub(crate) fn build_on_host(
        &self,
        vectors: Vectors<'_>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<IndexInner> {
        if self.skip_zero_vectors && self.metric == Metric::Cosine {
            let built = with_element!(vectors.element(), T => {
                vectors.with_source::<T, _>(|source| self.build_nonzero(vectors, source, progress))
            });
            built.map_err(VectorError::from)?
        } else {
            self.build_all(vectors, progress)
        }
    }

    /// Builds an index of all vectors.
    fn build_all(&self, vectors: Vectors<'_>, progress: &mut ProgressFn<'_>) -> Result<IndexInner> {
        let next;
        let entries = match (self.attributes, self.keys) {
            (Some(attributes), Some(keys)) => Some((keys, attributes)),
            (Some(attributes), None) => {
                next = (0..vectors.len() as Key).collect::<Vec<_>>();
                Some((&next[..], attributes))
            }
            (None, _) => None,
        };
        if let Some((keys, attributes)) = entries {
            Attributes::default().check(keys, attributes, false)?;
        }
        let executor = Arc::new(CpuExecutor::new(self.threads)?);
        let (mut index, report) = match self.shard_count()? {
            1 => {
                let (graph, report) = self.build_graph(&executor, vectors, progress)?;
                (IndexInner::new(graph, executor, self.exact_linking), report)
            }
            shards => self.build_shards(&executor, vectors, shards, progress)?,
        };
        if let Some((keys, attributes)) = entries {
            index.changes.set_attributes(keys, attributes)?;
        }
        match self.quantize {
            Some(QuantizeStep::Again(quantization)) => {
                match index.quantize_by(quantization, CodeCheck::Skip, progress) {
                    Err(UpdateError::Quantize(TrainError::TooFewVectors { .. })) => {}
                    quantized => quantized?,
                }
            }
            Some(QuantizeStep::Mode(QuantizeMode::Auto(device))) if device.is_auto() => {
                drop(index.auto_quantize(report.device, progress)?)
            }
            Some(QuantizeStep::Mode(mode)) => drop(index.quantize_as(mode, progress)?),
            None => {}
        }
        index.build_report = Some(report);
        Ok(index)
    }
}
