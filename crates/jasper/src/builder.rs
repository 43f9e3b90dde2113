//! How an index is made.

use std::path::Path;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use jasper_core::{
    BuildParams, BuildParamsBuilder, Element, Key, MatrixError, Metric, ParamError, ProgressFn, VectorId,
    VectorSource, no_progress,
};
use jasper_graph::Graph;
use jasper_quant::Quantization;
use jasper_vamana::{
    BuildReport, BuildShape, Checkpoints, CpuExecutor, InsertError, MemoryPlan, MemorySpace, PlanError,
    PoolError, QuantizeError, SKETCHES, bulk_build_by, link_quantized,
};

use crate::site::{self, Site};
use crate::trial::{self, TrialError};
use crate::{Device, DeviceError, Index};

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
    /// Rows or keys cannot be taken, or the build was cancelled.
    #[error(transparent)]
    Rows(#[from] InsertError),
    /// Rows cannot be coded.
    #[error(transparent)]
    Quantize(#[from] QuantizeError),
    /// No code was found that suits.
    #[error(transparent)]
    Trial(#[from] TrialError),
}

/// What codes vectors once they are linked.
#[derive(Clone, Copy, Debug)]
enum Coding {
    /// This.
    By(Quantization),
    /// What a trial finds.
    ByTrial,
}

impl Coding {
    /// The codes that vectors may have on the way, one at a time.
    fn codes(&self) -> &[Quantization] {
        match self {
            Self::By(code) => slice::from_ref(code),
            Self::ByTrial => &trial::CODES,
        }
    }
}

/// Settings of a build; made by [`Index::builder`].
///
/// ```
/// use jasper::{Index, MatrixView, Metric};
/// let index = Index::builder(Metric::InnerProduct)
///     .max_degree(32)
///     .build_beam_width(64)
///     .keys(&[10, 20, 30])
///     .build(&MatrixView::new(&[1_i8, 2, 3, 4, 5, 6], 2)?)?;
/// assert_eq!(index.vector(20), Some(&[3, 4][..]));
/// assert!(Index::builder(Metric::L2).alpha(0.5).build(&MatrixView::new(&[0_u8; 4], 2)?).is_err());
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
    coding: Option<Coding>,
    quantized_linking: bool,
}

impl<'a> IndexBuilder<'a> {
    pub(crate) fn new(metric: Metric) -> Self {
        Self {
            metric,
            params: BuildParams::builder(),
            threads: 0,
            device: Device::Auto,
            keys: None,
            checkpoints: None,
            coding: None,
            quantized_linking: false,
        }
    }

    /// Most out-edges of a vertex, R; 64 if not set. More costs memory (4 bytes an edge) and build time, and gives
    /// recall where data has many dimensions of its own.
    pub fn max_degree(mut self, max_degree: usize) -> Self {
        self.params = self.params.max_degree(max_degree);
        self
    }

    /// Frontier of build searches, L; 128 if not set. More costs build time, and gives recall.
    pub fn build_beam_width(mut self, build_beam_width: usize) -> Self {
        self.params = self.params.build_beam_width(build_beam_width);
        self
    }

    /// Slack of the prune rule on squared distances; 1.2 if not set. More keeps more edges.
    pub fn alpha(mut self, alpha: f32) -> Self {
        self.params = self.params.alpha(alpha);
        self
    }

    /// Largest batch as a share of the vertices linked before it; 0.02 if not set. A device builds faster by larger ones,
    /// of vertices that do not see each other: up to 0.1 costs little recall.
    pub fn max_batch_share(mut self, share: f32) -> Self {
        self.params = self.params.max_batch_share(share);
        self
    }

    /// Links by rows rounded to bytes, where vectors are floats: builds read a quarter of what they do of f32, and a device
    /// takes half the time and less where rows are long. Searches, and later inserts, go by the vectors as they are.
    ///
    /// Steps are learnt from the vectors, the same for all dimensions: not for sets in which many vectors differ from their
    /// neighbours by less than a hundredth of what coordinates range over, and under inner products not for vectors that lie
    /// close together far from the origin, or most of which are a hundred times shorter than the longest. Vectors of bytes are
    /// linked as they are.
    ///
    /// Takes a byte a coordinate of host memory while it links, and a pass over the rows. A checkpoint of such a build is one
    /// of `i8`.
    ///
    /// ```
    /// # use jasper::{Index, MatrixView, Metric, SearchParams, synthetic::Clusters};
    /// # let rows: Vec<f32> = Clusters::new(16, 7).rows(1000, 0);
    /// # let rows = MatrixView::new(&rows, 16)?;
    /// let index = Index::builder(Metric::L2).quantized_linking().build(&rows)?;
    /// assert_eq!(index.search(rows.row(5), SearchParams::new(1))?[0].key, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn quantized_linking(mut self) -> Self {
        self.quantized_linking = true;
        self
    }

    /// Seed of the order in which vertices are linked. The same data, parameters and seed give the same index, byte
    /// for byte, on any number of threads.
    pub fn seed(mut self, seed: u64) -> Self {
        self.params = self.params.seed(seed);
        self
    }

    /// Threads of the index, for building and for batches of queries; 0, if not set, means one for each processor.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Where to build; [`Device::Auto`] if not set. A CUDA device needs room for vectors and graph; where sums do not
    /// round, as those of bytes never do, it builds the same index as the processor, byte for byte. The index is then on
    /// the host: see [`Index::to_device`].
    pub fn device(mut self, device: Device) -> Self {
        self.device = device;
        self
    }

    /// The key of each row; the row numbers if not set.
    pub fn keys(mut self, keys: &'a [Key]) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Codes the vectors when they are linked: see [`Index::quantize`]. None if not set.
    pub fn quantize(mut self, code: Quantization) -> Self {
        self.coding = Some(Coding::By(code));
        self
    }

    /// Codes the vectors when they are linked, by the code that suits them best: see [`crate::trial`]. A set of which
    /// no rows can be held out, or that no code suits, is an error of the build; [`Index::quantize_by_trial`] behind
    /// one leaves the index.
    ///
    /// ```
    /// # use jasper::{Index, MatrixView, Metric, synthetic::Clusters};
    /// # let rows: Vec<f32> = Clusters::new(64, 7).rows(3000, 0);
    /// # let rows = MatrixView::new(&rows, 64)?;
    /// let index = Index::builder(Metric::L2).quantize_by_trial().build(&rows)?;
    /// println!("{}", index.stats().quantization.expect("a trial found one"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn quantize_by_trial(mut self) -> Self {
        self.coding = Some(Coding::ByTrial);
        self
    }

    /// Writes down how far the build is, in a file at `path`, `every` so often and when it is cancelled; the same build
    /// then goes on from there, after a kill as well. Where sums do not round the index is that of a build without a
    /// stop, byte for byte, on any device; for floats on the same device.
    ///
    /// The file takes up to 4 bytes for each of `max_degree` edges a vertex. It stays until it is removed, which is best
    /// done when the index is saved: [`Checkpoints::remove`].
    ///
    /// ```
    /// # use std::{ops::ControlFlow, time::Duration};
    /// # use jasper::{Index, MatrixView, Metric, Stage, synthetic::Clusters};
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("vectors.checkpoint");
    /// # let rows: Vec<f32> = Clusters::new(16, 7).rows(1000, 0);
    /// # let rows = MatrixView::new(&rows, 16)?;
    /// let builder = Index::builder(Metric::L2).checkpoint(&path, Duration::from_secs(300));
    /// let stopped = builder.build_with(&rows, &mut |progress| match progress.stage {
    ///     Stage::Linking if progress.done > 500 => ControlFlow::Break(()),
    ///     _ => ControlFlow::Continue(()),
    /// });
    /// assert!(stopped.is_err() && path.exists());
    /// let index = builder.build(&rows)?; // The second half.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn checkpoint(mut self, path: &'a Path, every: Duration) -> Self {
        self.checkpoints = Some(Checkpoints::new(path, every));
        self
    }

    /// Builds an index over `rows`: a [`jasper_core::MatrixView`], or a [`jasper_data::VectorFile`] that is read as it
    /// is stored. Rows that are identical share a vertex.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build<T: Element>(self, rows: &dyn VectorSource<T>) -> Result<Index<T>, BuildError> {
        self.build_with(rows, &mut no_progress).map(|(index, _)| index)
    }

    /// [`Self::build`], telling `progress` how far it is and the caller what it did.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build_with<T: Element>(
        self,
        rows: &dyn VectorSource<T>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<(Index<T>, BuildReport), BuildError> {
        let params = self.params.build()?;
        let site = Site::open(self.device)?;
        self.check_memory::<T>(rows.len(), rows.dimension())?;
        let executor = CpuExecutor::new(self.threads)?;
        let shape = BuildShape { rows: rows.len(), dimension: rows.dimension(), metric: self.metric, params };
        let quantized_linking = self.uses_quantized_linking::<T>();
        if let Some(checkpoints) = self.checkpoints {
            let checked = match quantized_linking {
                true => checkpoints.check::<i8>(shape.quantized().metric, shape.dimension, &params),
                false => checkpoints.check::<T>(shape.metric, shape.dimension, &params),
            };
            checked.map_err(InsertError::from)?;
        }
        #[cfg(feature = "cuda")]
        let _ahead = match quantized_linking {
            true => site.prepare::<i8>(&shape.quantized()),
            false => site.prepare::<T>(&shape),
        };
        let link =
            |graph: &mut Graph<T>, order: &[VectorId], progress: &mut ProgressFn<'_>| match quantized_linking
            {
                true => link_quantized(&executor, graph, |bytes| {
                    site.link(&executor, bytes, order, self.checkpoints, progress)
                }),
                false => site.link(&executor, graph, order, self.checkpoints, progress),
            };
        let (graph, report) = bulk_build_by(&executor, link, rows, self.keys, self.metric, params, progress)?;
        let mut index = Index { graph, executor: Arc::new(executor), vectors: None };
        match self.coding {
            Some(Coding::By(code)) => index.quantize(code)?,
            Some(Coding::ByTrial) => drop(index.quantize_by_trial(progress)?),
            None => {}
        }
        Ok((index, report))
    }

    fn uses_quantized_linking<T: Element>(&self) -> bool {
        self.quantized_linking && !T::EXACT
    }

    /// An index without vectors, for those that come with [`Index::insert`].
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn empty<T: Element>(self, dimension: usize) -> Result<Index<T>, BuildError> {
        self.device.find()?;
        let graph = Graph::new(self.metric, dimension, self.params.build()?)?;
        Ok(Index { graph, executor: Arc::new(CpuExecutor::new(self.threads)?), vectors: None })
    }

    /// What a build of `rows` vectors of `dimension` coordinates will take at its peak, of the host and of the device,
    /// by part. Cost: none; the device need not be there.
    ///
    /// # Errors
    /// [`BuildError`] for parameters out of bounds.
    pub fn estimate_memory<T: Element>(
        self,
        rows: usize,
        dimension: usize,
    ) -> Result<MemoryPlan, BuildError> {
        let shape = BuildShape { rows, dimension, metric: self.metric, params: self.params.build()? };
        let codes = self.coding.as_ref().map_or(&[][..], Coding::codes);
        codes.iter().try_for_each(|code| code.check()).map_err(QuantizeError::from)?;
        let plan = match self.uses_quantized_linking::<T>() {
            true => site::plan_quantized::<T>(&shape, self.device)?,
            false => site::plan::<T>(&shape, self.device)?,
        };
        if codes.is_empty() {
            return Ok(plan);
        }
        let largest = |bytes: fn(Quantization, usize) -> usize| {
            codes.iter().map(|&code| bytes(code, dimension) as u64).max().unwrap_or(0)
        };
        let plan = plan.part(MemorySpace::Host, "codes", rows as u64 * largest(Quantization::bytes));
        Ok(plan.part(MemorySpace::Host, "quantizer", largest(Quantization::quantizer_bytes)))
    }

    /// [`Self::estimate_memory`], if there is so much free now, here and on the device: what a build asks before it reads
    /// the first row.
    ///
    /// # Errors
    /// [`BuildError::Memory`], with the numbers, and those of the estimate.
    pub fn check_memory<T: Element>(self, rows: usize, dimension: usize) -> Result<MemoryPlan, BuildError> {
        let plan = self.estimate_memory::<T>(rows, dimension)?;
        plan.clone().without(SKETCHES).check(Site::open(self.device)?.free_memory()?)?;
        Ok(plan)
    }
}
