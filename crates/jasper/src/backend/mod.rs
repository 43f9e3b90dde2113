//! Where an index lives: in host memory, or on a CUDA device.

#[cfg(feature = "cuda")]
mod cuda;
#[cfg(not(feature = "cuda"))]
#[path = "cuda_stub.rs"]
mod cuda;
mod host;

use std::fmt::Debug;
use std::sync::Arc;

use jasper_core::{Element, Key, MatrixView, ProgressFn, Slot, VectorSource};
use jasper_graph::Graph;
use jasper_vamana::{
    CompactReport, ConsolidateReport, CpuExecutor, Hit, InsertReport, MatchesMut, MemorySpace, OnConflict,
    SearchError, SearchParams, SearchReport,
};

use crate::{Device, DeviceError, UpdateError};
#[cfg(feature = "cuda")]
pub(crate) use cuda::CudaBackend;
pub(crate) use cuda::{BuildDevice, check_device, plan_build, plan_graph, upload};
pub(crate) use host::HostBackend;

/// Combines the copy of a graph on a device with the graph: the second half of a move, which cannot fail. The flag is
/// `exact_linking`.
pub(crate) type Combine<T> = Box<dyn FnOnce(Graph<T>, Arc<CpuExecutor>, bool) -> Arc<dyn Backend<T>>>;

/// The graph of an index, and the operations that search and change it. Callers of methods that change it hold the
/// writer lock.
pub(crate) trait Backend<T: Element>: Debug + Send + Sync {
    /// [`Device::Cpu`] or [`Device::Cuda`].
    fn device(&self) -> Device;

    /// Name of the CPU or GPU.
    fn device_name(&self) -> String;

    /// Bytes of device memory; 0 on the CPU.
    fn device_bytes(&self) -> u64 {
        0
    }

    /// Where searches read vectors.
    fn vector_storage(&self) -> MemorySpace;

    /// The widest beam of searches.
    fn max_beam_width(&self) -> usize;

    /// Calls `read` once, with the host's graph. Its edges are as of the last [`Self::read_edges`].
    fn read_graph(&self, read: &mut dyn FnMut(&Graph<T>));

    /// Calls `change` once, to change vectors, keys or codes on the host, and updates the device.
    ///
    /// # Errors
    /// Returns [`DeviceError`]; the change is undone.
    fn change_graph(&self, change: &mut dyn FnMut(&mut Graph<T>)) -> Result<(), DeviceError>;

    /// Copies edges from the device to the host's graph, unless they are there already.
    ///
    /// # Errors
    /// Returns [`DeviceError`]; the index is unchanged.
    fn read_edges(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// The graph. The caller holds the only reference, and has [read](Self::read_edges) the edges.
    fn into_graph(self: Arc<Self>) -> Graph<T>;

    fn search(&self, query: &[T], params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError>;

    fn search_rows(
        &self,
        queries: &[&[T]],
        params: SearchParams<'_>,
        matches: MatchesMut<'_>,
    ) -> Result<SearchReport, SearchError>;

    fn insert(
        &self,
        vectors: &dyn VectorSource<T>,
        keys: &[Key],
        on_conflict: OnConflict,
        progress: &mut ProgressFn<'_>,
    ) -> Result<InsertReport, UpdateError>;

    fn consolidate(&self, progress: &mut ProgressFn<'_>) -> Result<ConsolidateReport, UpdateError>;

    fn compact(&self) -> Result<CompactReport, UpdateError>;

    /// Removes the out-edges of some vertices, calls `work`, and restores the edges.
    ///
    /// # Errors
    /// Returns [`DeviceError`]; `work` may then not have been called.
    fn without_edges(&self, vertices: &[Slot], work: &mut dyn FnMut()) -> Result<(), DeviceError>;

    #[cfg(feature = "cuda")]
    fn as_cuda(&self) -> Option<&CudaBackend<T>> {
        None
    }
}

impl<T: Element> dyn Backend<T> {
    /// [`Self::search_rows`] of a matrix.
    pub(crate) fn search_batch(
        &self,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
        matches: MatchesMut<'_>,
    ) -> Result<SearchReport, SearchError> {
        self.search_rows(&queries.rows().collect::<Vec<_>>(), params, matches)
    }

    /// [`Self::read_graph`] with a result.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&Graph<T>) -> R) -> R {
        let (mut read, mut result) = (Some(read), None);
        self.read_graph(&mut |graph| result = read.take().map(|read| read(graph)));
        result.expect("the backend has a graph")
    }

    /// As [`Self::change_graph`], with a result.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut Graph<T>) -> R) -> Result<R, DeviceError> {
        let (mut change, mut result) = (Some(change), None);
        self.change_graph(&mut |graph| result = change.take().map(|change| change(graph)))?;
        Ok(result.expect("the backend makes the change"))
    }
}

/// The first CUDA device for which `try_device` returns a value. Devices that are absent or full are skipped; a device
/// that fails is an error.
///
/// # Errors
/// Returns [`DeviceError`].
pub(crate) fn first_available<R>(
    mut try_device: impl FnMut(usize) -> Result<Option<R>, DeviceError>,
) -> Result<Option<R>, DeviceError> {
    for ordinal in unless_unavailable(cuda::ordinals())?.unwrap_or_default() {
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
