//! Where an index lives: in host memory, or on a CUDA device.

#[cfg(feature = "cuda")]
mod cuda;
#[cfg(not(feature = "cuda"))]
#[path = "cuda_stub.rs"]
mod cuda;
mod host;

use std::sync::Arc;
use std::time::Duration;

use jasper_core::{Element, Key, MatrixView, ProgressFn, Slot, VectorSource};
use jasper_graph::Graph;
use jasper_vamana::{
    CompactReport, ConsolidateReport, Hit, InsertReport, MatchesMut, MemorySpace, OnConflict, SearchCost,
    SearchError, SearchParams, SearchReport,
};

use crate::bench::DevicePeaks;
use crate::{Device, DeviceError, UpdateError};
pub(crate) use cuda::{BuildDevice, SearchPreload, UploadedGraph, check_device, plan_build, plan_graph};
pub(crate) use host::HostBackend;

/// The graph of an index, and the operations that search and change it. Callers of methods that change it hold the
/// writer lock.
pub(crate) trait Backend<T: Element>: Send + Sync {
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

    /// Calls `read` once, with the host's graph. Its edges are as of the last [`Self::sync_host_edges`].
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
    fn sync_host_edges(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// The graph. The caller holds the only reference, and has [synced](Self::sync_host_edges) the edges.
    fn into_graph(self: Arc<Self>) -> Graph<T>;

    /// Searches for one query.
    fn search(&self, query: &[T], params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError>;

    /// Searches for several queries.
    fn search_rows(
        &self,
        queries: &[&[T]],
        params: SearchParams<'_>,
        matches: MatchesMut<'_>,
    ) -> Result<SearchReport, SearchError>;

    /// Inserts vectors, or replaces those of keys that are there, and links them.
    ///
    /// # Errors
    /// Returns [`UpdateError`]; the index is unchanged.
    fn insert(
        &self,
        vectors: &dyn VectorSource<T>,
        keys: &[Key],
        on_conflict: OnConflict,
        progress: &mut ProgressFn<'_>,
    ) -> Result<InsertReport, UpdateError>;

    /// Removes tombstones from the graph, and repairs the edges of their neighbors.
    ///
    /// # Errors
    /// Returns [`UpdateError`]; the index is unchanged.
    fn consolidate(&self, progress: &mut ProgressFn<'_>) -> Result<ConsolidateReport, UpdateError>;

    /// Moves vertices into free slots, and frees the memory after them.
    ///
    /// # Errors
    /// Returns [`UpdateError`]; a device that fails meanwhile leaves its copy unusable.
    fn compact(&self) -> Result<CompactReport, UpdateError>;

    /// Removes the out-edges of some vertices, calls `work`, and restores the edges.
    ///
    /// # Errors
    /// Returns [`DeviceError`]; `work` may then not have been called.
    fn without_edges(&self, vertices: &[Slot], work: &mut dyn FnMut()) -> Result<(), DeviceError>;

    /// Queues a search for queries in device memory.
    #[cfg(feature = "cuda")]
    fn search_on_device(
        &self,
        _stream: &jasper_cuda::Stream,
        _params: SearchParams<'_>,
        _arrays: jasper_cuda::DeviceBatch<'_, T>,
    ) -> Result<(), SearchError> {
        Err(DeviceError::OnCpu.into())
    }

    /// The time of a batch on a device, without transfers, and the cost of each query. `None` on the CPU.
    fn profile(
        &self,
        _queries: MatrixView<'_, T>,
        _params: SearchParams<'_>,
    ) -> Result<Option<(Duration, Vec<SearchCost>)>, SearchError> {
        Ok(None)
    }

    /// Measures the peaks of the device. `None` on the CPU.
    fn peaks(&self) -> Result<Option<DevicePeaks>, DeviceError> {
        Ok(None)
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
