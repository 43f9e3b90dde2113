//! Where an index lives: in host memory, or on a CUDA device.

#[cfg(feature = "cuda")]
mod cuda;
#[cfg(not(feature = "cuda"))]
#[path = "cuda_stub.rs"]
mod cuda;

use std::sync::{PoisonError, RwLock};

use jasper_core::{Element, MatrixView};
use jasper_graph::Graph;
use jasper_vamana::{
    CompactReport, CpuExecutor, GraphLock, Hit, MatchesMut, SearchError, SearchParams, SearchReport,
    VectorStorage, compact,
};

use crate::{Device, DeviceError, UpdateError, cpu_name};
pub(crate) use cuda::{CudaBackend, CudaBuilder, CudaGraph, find, ordinals, plan_build, plan_graph};

/// The graph of an index, and what searches and changes it.
#[derive(Debug)]
pub(crate) enum Backend<T: Element> {
    Cpu(Box<RwLock<Graph<T>>>),
    /// The vectors, keys and tombstones are on the host too; the edges are on the device.
    Cuda(Box<CudaBackend<T>>),
}

/// Evaluates an expression on the executor and the locked graph of an index, in either place.
macro_rules! on_backend {
    ($index:expr, |$executor:ident, $graph:ident| $body:expr) => {
        match &$index.backend {
            $crate::backend::Backend::Cpu(graph) => {
                #[allow(unused_variables, unused_mut, reason = "not every expression uses both")]
                let ($executor, mut $graph) = (&*$index.executor, &**graph);
                $body
            }
            $crate::backend::Backend::Cuda(cuda) => {
                let _memory = cuda.pin_memory()?;
                #[allow(unused_variables, unused_mut, reason = "not every expression uses both")]
                let ($executor, mut $graph) = (cuda.executor(), cuda.graph());
                $body
            }
        }
    };
}
pub(crate) use on_backend;

impl<T: Element> Backend<T> {
    pub(crate) fn cpu(graph: Graph<T>) -> Self {
        Self::Cpu(Box::new(RwLock::new(graph)))
    }

    /// Copies a graph to a device; none where [`Device::Auto`] finds no device with room for it, and on the CPU.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub(crate) fn upload(
        graph: &Graph<T>,
        executor: &CpuExecutor,
        device: Device,
        storage: Option<VectorStorage>,
    ) -> Result<Option<CudaGraph<T>>, DeviceError> {
        let upload = |ordinal| CudaGraph::upload(graph, executor.pool(), ordinal, storage);
        match device {
            Device::Cpu => Ok(None),
            Device::Cuda(ordinal) => upload(ordinal).map(Some),
            Device::Auto => first_available(|ordinal| upload(ordinal).map(Some)),
        }
    }

    /// Reads the host's graph. Its edges are as old as the last [`Self::read_edges`].
    pub(crate) fn read<R>(&self, read: impl FnOnce(&Graph<T>) -> R) -> R {
        match self {
            Self::Cpu(graph) => GraphLock::read(&&**graph, read),
            Self::Cuda(cuda) => cuda.read(read),
        }
    }

    /// Copies edges from the device to the host's graph, unless they are there already. The caller holds the writer lock.
    ///
    /// # Errors
    /// [`DeviceError`]; the index is as it was.
    pub(crate) fn read_edges(&self, executor: &CpuExecutor) -> Result<(), DeviceError> {
        match self {
            Self::Cpu(_) => Ok(()),
            Self::Cuda(cuda) => cuda.read_edges(executor.pool()),
        }
    }

    /// The graph, whose edges were [read](Self::read_edges) before.
    pub(crate) fn into_graph(self) -> Graph<T> {
        match self {
            Self::Cpu(graph) => graph.into_inner().unwrap_or_else(PoisonError::into_inner),
            Self::Cuda(cuda) => cuda.into_graph(),
        }
    }

    /// [`Device::Cpu`] or [`Device::Cuda`].
    pub(crate) fn device(&self) -> Device {
        match self {
            Self::Cpu(_) => Device::Cpu,
            Self::Cuda(cuda) => Device::Cuda(cuda.ordinal()),
        }
    }

    pub(crate) fn device_name(&self) -> String {
        match self {
            Self::Cpu(_) => cpu_name(),
            Self::Cuda(cuda) => cuda.device_name(),
        }
    }

    /// The widest beam of its searches.
    pub(crate) fn max_beam_width(&self) -> usize {
        match self {
            Self::Cpu(_) => usize::MAX,
            Self::Cuda(cuda) => cuda.max_beam_width(),
        }
    }

    /// Where searches read vectors.
    pub(crate) fn vector_storage(&self) -> VectorStorage {
        match self {
            Self::Cpu(_) => VectorStorage::Host,
            Self::Cuda(cuda) => cuda.vector_storage(),
        }
    }

    pub(crate) fn device_bytes(&self) -> u64 {
        match self {
            Self::Cpu(_) => 0,
            Self::Cuda(cuda) => cuda.bytes(),
        }
    }

    /// Whether the executor can insert and consolidate.
    ///
    /// # Errors
    /// [`DeviceError`]: build parameters or vectors are beyond what kernels take.
    pub(crate) fn check_updates(&self) -> Result<(), DeviceError> {
        match self {
            Self::Cpu(_) => Ok(()),
            Self::Cuda(cuda) => cuda.check_updates(),
        }
    }

    pub(crate) fn compact(&self) -> Result<CompactReport, UpdateError> {
        match self {
            Self::Cpu(graph) => Ok(compact(&mut graph.write().unwrap_or_else(PoisonError::into_inner))?),
            Self::Cuda(cuda) => Ok(cuda.compact()?),
        }
    }

    pub(crate) fn search(
        &self,
        executor: &CpuExecutor,
        query: &[T],
        params: SearchParams<'_>,
    ) -> Result<Vec<Hit>, SearchError> {
        match self {
            Self::Cpu(graph) => GraphLock::read(&&**graph, |graph| executor.answer_one(graph, query, params)),
            Self::Cuda(cuda) => cuda.search(executor.pool(), query, params),
        }
    }

    pub(crate) fn search_batch(
        &self,
        executor: &CpuExecutor,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
        matches: MatchesMut<'_>,
    ) -> Result<SearchReport, SearchError> {
        match self {
            Self::Cpu(graph) => {
                GraphLock::read(&&**graph, |graph| executor.answer(graph, queries, params, matches))
            }
            Self::Cuda(cuda) => cuda.search_batch(executor.pool(), queries, params, matches),
        }
    }
}

/// What the first CUDA device gives that is there and has room; none where no device does. A device that fails is an error.
///
/// # Errors
/// [`DeviceError`].
pub(crate) fn first_available<R>(
    mut try_device: impl FnMut(usize) -> Result<Option<R>, DeviceError>,
) -> Result<Option<R>, DeviceError> {
    for ordinal in unless_unavailable(ordinals())?.unwrap_or_default() {
        if let Some(found) = unless_unavailable(try_device(ordinal))?.flatten() {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn unless_unavailable<R>(result: Result<R, DeviceError>) -> Result<Option<R>, DeviceError> {
    match result {
        Err(DeviceError::Unavailable { .. }) => Ok(None),
        result => result.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_device_that_is_absent_or_full_is_passed_over() {
        let source = || "a reason".into();
        assert!(matches!(unless_unavailable(Ok(7)), Ok(Some(7))));
        let unavailable = DeviceError::Unavailable { device: 1, source: source() };
        assert!(matches!(unless_unavailable::<()>(Err(unavailable)), Ok(None)));
        for error in [DeviceError::Failed { device: 1, source: source() }, DeviceError::NotCompiled(1)] {
            assert!(unless_unavailable::<()>(Err(error)).is_err());
        }
    }
}
