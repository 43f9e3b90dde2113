//! How an index is made.

use std::sync::Arc;

#[cfg(feature = "cuda")]
use jasper_build::bulk_build_by;
use jasper_build::{BuildReport, CpuExecutor, InsertError, PoolError, bulk_build};
#[cfg(feature = "cuda")]
use jasper_core::VectorId;
use jasper_core::{
    BuildParams, BuildParamsBuilder, Element, Key, MatrixError, Metric, ParamError, ProgressFn, RowSource,
    silent,
};
use jasper_graph::Graph;

use crate::{Device, DeviceError, Index, MemoryEstimate};

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
    /// The threads could not be started.
    #[error(transparent)]
    Threads(#[from] PoolError),
    /// Rows or keys cannot be taken, or the build was cancelled.
    #[error(transparent)]
    Rows(#[from] InsertError),
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
}

impl<'a> IndexBuilder<'a> {
    pub(crate) fn new(metric: Metric) -> Self {
        Self { metric, params: BuildParams::builder(), threads: 0, device: Device::Auto, keys: None }
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

    /// Builds an index over `rows`: a [`jasper_core::MatrixView`], or a [`jasper_data::VectorFile`] that is read as it
    /// is stored. Rows that are identical share a vertex.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build<T: Element>(self, rows: &dyn RowSource<T>) -> Result<Index<T>, BuildError> {
        self.build_with(rows, &mut silent).map(|(index, _)| index)
    }

    /// [`Self::build`], telling `progress` how far it is and the caller what it did.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build_with<T: Element>(
        self,
        rows: &dyn RowSource<T>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<(Index<T>, BuildReport), BuildError> {
        let params = self.params.build()?;
        let executor = CpuExecutor::new(self.threads)?;
        let (graph, report) = match self.device {
            Device::Auto | Device::Cpu => {
                bulk_build(&executor, rows, self.keys, self.metric, params, progress)?
            }
            Device::Cuda(ordinal) => self.build_on_cuda(ordinal, &executor, params, rows, progress)?,
        };
        Ok((Index { graph, executor: Arc::new(executor) }, report))
    }

    /// Builds on a CUDA device.
    #[cfg(feature = "cuda")]
    fn build_on_cuda<T: Element>(
        self,
        ordinal: usize,
        executor: &CpuExecutor,
        params: BuildParams,
        rows: &dyn RowSource<T>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<(Graph<T>, BuildReport), BuildError> {
        let context =
            jasper_cuda::Context::open(ordinal).map_err(|error| DeviceError::Cuda { ordinal, error })?;
        let link = |graph: &mut Graph<T>, order: &[VectorId], progress: &mut ProgressFn<'_>| {
            jasper_cuda::link_on_device(&context, executor.pool(), graph, order, progress)
        };
        Ok(bulk_build_by(executor, link, rows, self.keys, self.metric, params, progress)?)
    }

    /// Refuses to: there is no CUDA.
    #[cfg(not(feature = "cuda"))]
    fn build_on_cuda<T: Element>(
        self,
        ordinal: usize,
        _: &CpuExecutor,
        _: BuildParams,
        _: &dyn RowSource<T>,
        _: &mut ProgressFn<'_>,
    ) -> Result<(Graph<T>, BuildReport), BuildError> {
        Err(DeviceError::NotBuilt(ordinal).into())
    }

    /// An index without vectors, for those that come with [`Index::insert`].
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn empty<T: Element>(self, dimension: usize) -> Result<Index<T>, BuildError> {
        self.device.check_insert()?;
        let graph = Graph::new(self.metric, dimension, self.params.build()?)?;
        Ok(Index { graph, executor: Arc::new(CpuExecutor::new(self.threads)?) })
    }

    /// What a build of `rows` vectors of `dimension` coordinates will take of host memory, before it is begun. What
    /// a CUDA device has no room for is refused when the build comes to it, with numbers.
    ///
    /// # Errors
    /// [`BuildError`] for parameters out of bounds.
    pub fn estimate_memory<T: Element>(
        self,
        rows: usize,
        dimension: usize,
    ) -> Result<MemoryEstimate, BuildError> {
        Ok(MemoryEstimate::of_build::<T>(rows, dimension, self.metric, &self.params.build()?))
    }
}
