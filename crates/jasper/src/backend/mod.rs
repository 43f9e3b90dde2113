//! Where an index lives: in host memory, or on one or several CUDA devices.

#[cfg(feature = "cuda")]
mod cuda;
#[cfg(not(feature = "cuda"))]
#[path = "cuda_stub.rs"]
mod cuda;
#[cfg(test)]
pub(crate) mod faulty;
mod host;
mod replicated;
mod sharded;
mod sources;
mod vote;

use std::collections::BTreeSet;
use std::io;
use std::panic::resume_unwind;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use jasper_core::{DeviceError, Key, ProgressFn, Slot, VectorView};
use jasper_graph::Graph;
use jasper_quant::Quantizer;
use jasper_vamana::{
    ChangeHooks, CompactReport, ConsolidateReport, Explanation, Filter, Hit, InsertReport, Matches,
    MatchesMut, MemorySpace, NewVectors, OperationCounts, QueryQueue, SearchError, SearchParams,
    SearchReport, UpdateError,
};

use crate::Device;
use crate::error::Error;
#[cfg(feature = "cuda")]
pub(crate) use cuda::DeviceArrays;
pub(crate) use cuda::{
    BuildDevice, DeviceGraph, OpeningDevice, check_device, cuda_backend, ordinals, plan_build, plan_graph,
    upload_graph,
};
pub(crate) use host::HostBackend;
pub(crate) use replicated::Replicated;
pub(crate) use sharded::{MAX_SHARDS, Sharded, shard_of};
pub(crate) use sources::{RowsByShard, ShardVectors, in_memory};
pub(crate) use vote::Vote;

/// A search that has begun.
pub(crate) trait StartedSearch: Send {
    /// Calls `answer` with the number and the hits of each query that is answered since the last call. Returns whether
    /// the search has ended; queries that are not answered then have to be searched for again, with
    /// [`Backend::search_batch`].
    fn poll(&mut self, answer: &mut dyn FnMut(usize, Vec<Hit>)) -> Result<bool, SearchError>;
}

/// The graph of an index, and the operations that search and change it. Callers of methods that change it hold the
/// writer lock.
pub(crate) trait Backend: Send + Sync {
    /// Where the graph is.
    fn device(&self) -> Device;

    /// Name of the CPU or GPU.
    fn device_name(&self) -> String;

    /// Whether the CPU searches.
    fn is_on_cpu(&self) -> bool {
        self.device() == Device::CPU
    }

    /// Bytes of device memory; 0 on the CPU.
    fn device_bytes(&self) -> u64 {
        0
    }

    /// Number of devices that each have the whole graph.
    fn replicas(&self) -> usize {
        1
    }

    /// The devices whose graph differs from that of the first.
    ///
    /// # Errors
    /// Returns [`Error`].
    fn differing_replicas(&self, _progress: &mut ProgressFn<'_>) -> Result<Vec<Device>, Error> {
        Ok(Vec::new())
    }

    /// Errors of devices that are left out because of them.
    fn device_faults(&self) -> Vec<Arc<DeviceError>> {
        Vec::new()
    }

    /// Where searches read vectors.
    fn vector_storage(&self) -> MemorySpace;

    /// Whether searches of every replica and shard read vectors there.
    fn stores_vectors_in(&self, storage: MemorySpace) -> bool {
        self.vector_storage() == storage
    }

    /// The widest beam of searches.
    fn max_beam_width(&self) -> usize;

    /// The backends of the shards, if the vectors are in several graphs. Methods that read one graph then read that of
    /// the first shard.
    fn shards(&self) -> &[Arc<dyn Backend>] {
        &[]
    }

    /// Calls `read` once, with the host's graph. Its edges are meaningless unless
    /// [synced](Self::sync_host_edges).
    fn read_graph(&self, read: &mut dyn FnMut(&Graph));

    /// Calls `change` once for each [replica](Self::replicas) of each shard, in their order, to change vectors, keys or
    /// codes on the host, and updates the devices.
    ///
    /// # Errors
    /// Returns [`DeviceError`]; the change is undone.
    fn change_graph(&self, change: &mut dyn FnMut(&mut Graph)) -> Result<(), DeviceError>;

    /// Copies edges from the device to the host's graph, unless they are there already.
    ///
    /// # Errors
    /// Returns [`DeviceError`]; the index is unchanged.
    fn sync_host_edges(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// The graph, or that of each shard. The caller holds the only reference, and has [synced](Self::sync_host_edges)
    /// the edges.
    fn into_graphs(self: Arc<Self>) -> Vec<Graph>;

    /// Waits until a device searches, and not the host in its place.
    ///
    /// # Errors
    /// Returns [`DeviceError`].
    fn warm_up(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Starts to compile most of what a device launches to search by the codes of `quantizer`. Dropping the result waits
    /// for the kernels in progress, and leaves out the others. A failure is reported by those searches.
    fn preload_code_kernels(&self, _quantizer: &dyn Quantizer) -> Option<Box<dyn Send>> {
        None
    }

    /// How a search for several queries would be executed; if each has a filter, that for the first.
    fn explain(&self, params: SearchParams<'_>, queries: usize) -> Result<Explanation, SearchError>;

    /// Searches for one query.
    fn search_one(&self, query: VectorView<'_>, params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError>;

    /// Searches for several queries. Writes all entries of `matches`.
    fn search_batch(
        &self,
        queries: &[VectorView<'_>],
        params: SearchParams<'_>,
        matches: MatchesMut<'_>,
    ) -> Result<SearchReport, SearchError>;

    /// Searches for the queries that it takes from `queue`, from which others may take some meanwhile, until there are
    /// none. After an error, those that it took and did not answer are in the queue again.
    fn search_queue(
        &self,
        queue: &QueryQueue<'_>,
        params: SearchParams<'_>,
    ) -> Result<SearchReport, SearchError> {
        let mut sum = SearchReport::default();
        loop {
            let mut chunk = Vec::new();
            queue.take(QUEUE_CHUNK, &mut chunk);
            if chunk.is_empty() {
                return Ok(sum);
            }
            let vectors: Vec<_> = chunk.iter().map(|query| query.vector).collect();
            let filters: Vec<Filter<'_>> = match params.filter {
                Some(Filter::PerQuery(all)) => chunk.iter().map(|query| all[query.row]).collect(),
                _ => Vec::new(),
            };
            let params = if filters.is_empty() { params } else { params.filter(&filters[..]) };
            let search = |matches: MatchesMut<'_>| self.search_batch(&vectors, params, matches);
            match Matches::filled(vectors.len(), params.k, search) {
                Ok(found) => {
                    sum += *found.report();
                    chunk.iter_mut().zip(found.iter()).for_each(|(query, hits)| _ = query.out.fill(hits));
                }
                Err(error) => {
                    let error = error.map_row(|row| chunk[row].row);
                    queue.return_unanswered(chunk, sum);
                    return Err(error);
                }
            }
        }
    }

    /// Begins to search for several queries, and does not wait for it. `None` if they have to be searched for with
    /// [`Self::search_batch`].
    fn start_search(
        &self,
        _queries: &[VectorView<'_>],
        _params: SearchParams<'_>,
    ) -> Result<Option<Box<dyn StartedSearch>>, SearchError> {
        Ok(None)
    }

    /// Inserts vectors, or replaces those of keys that are there, and links them.
    ///
    /// # Errors
    /// Returns [`UpdateError`]; the index is unchanged.
    fn insert(&self, new: NewVectors<'_>, hooks: ChangeHooks<'_>) -> Result<InsertReport, UpdateError>;

    /// Removes tombstones from the graph, and repairs the edges of their neighbors.
    ///
    /// # Errors
    /// Returns [`UpdateError`]; the index is unchanged.
    fn consolidate(&self, hooks: ChangeHooks<'_>) -> Result<ConsolidateReport, UpdateError>;

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
        _arrays: DeviceArrays<'_>,
    ) -> Result<(), SearchError> {
        Err(DeviceError::OnCpu.into())
    }

    /// The time of a batch on a device, without transfers, and the cost of each query. `None` on the CPU.
    fn profile(
        &self,
        _queries: &[VectorView<'_>],
        _params: SearchParams<'_>,
    ) -> Result<Option<(Duration, Vec<OperationCounts>)>, SearchError> {
        Ok(None)
    }
}

impl dyn Backend + '_ {
    /// The backends of single graphs: those of the shards, or this one, which is then the only shard.
    pub(crate) fn shards_or_self(&self) -> Vec<&dyn Backend> {
        match self.shards() {
            [] => vec![self],
            shards => shards.iter().map(|shard| &**shard).collect(),
        }
    }

    /// The number of the shard that has a key, or would have it.
    pub(crate) fn shard_of(&self, key: Key) -> usize {
        match self.shards() {
            [] => 0,
            shards => shard_of(key, shards.len()),
        }
    }

    /// Calls `read` with the graph that has a key, or would have it.
    pub(crate) fn read_with<R>(&self, key: Key, read: impl FnOnce(&Graph) -> R) -> R {
        self.shards_or_self()[self.shard_of(key)].read(read)
    }

    /// Refuses what needs one graph, if there are several.
    pub(crate) fn require_one_graph(&self, what: &'static str) -> Result<(), DeviceError> {
        if self.shards().is_empty() { Ok(()) } else { Err(DeviceError::Sharded(what)) }
    }

    /// [`Self::read_graph`] with a result.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&Graph) -> R) -> R {
        let (mut read, mut result) = (Some(read), None);
        self.read_graph(&mut |graph| result = read.take().map(|read| read(graph)));
        result.expect("the backend has a graph")
    }

    /// As [`Self::change_graph`], with a result.
    pub(crate) fn change<R>(&self, mut change: impl FnMut(&mut Graph) -> R) -> Result<R, DeviceError> {
        let mut result = None;
        self.change_graph(&mut |graph| result = Some(change(graph)))?;
        Ok(result.expect("the backend makes the change"))
    }
}

/// The names of the devices of several backends, each once.
fn joined_names<'a>(backends: impl Iterator<Item = &'a dyn Backend>) -> String {
    let names: BTreeSet<String> = backends.map(Backend::device_name).collect();
    Vec::from_iter(names).join(" and ")
}

/// Queries that a backend takes from a queue at once, if it does not divide batches itself.
const QUEUE_CHUNK: usize = 1024;

/// Calls `first` on this thread and each of `others` on another, all at the same time. Returns the results in this order.
///
/// # Errors
/// Returns the error of the operating system if it refuses a thread. None is called then, since they may wait for each
/// other.
pub(crate) fn at_once<R: Send>(
    first: impl FnOnce() -> R,
    others: impl IntoIterator<Item = impl FnOnce() -> R + Send>,
) -> io::Result<Vec<R>> {
    let others: Vec<_> = others.into_iter().collect();
    let mut results: Vec<Option<R>> = others.iter().map(|_| None).collect();
    let tasks = others.into_iter().zip(&mut results);
    let tasks = tasks.map(|(other, result)| -> Task<'_> { Box::new(move || *result = Some(other())) });
    let (mut first, mut of_first) = (Some(first), None);
    call_at_once(&mut || of_first = first.take().map(|first| first()), tasks.collect())?;
    Ok(of_first.into_iter().chain(results.into_iter().flatten()).collect())
}

type Task<'a> = Box<dyn FnOnce() + Send + 'a>;

/// [`at_once`], compiled once for all results.
fn call_at_once<'a>(first: &mut dyn FnMut(), others: Vec<Task<'a>>) -> io::Result<()> {
    let are_called = OnceLock::<bool>::new();
    thread::scope(|scope| {
        let spawn = |other: Task<'a>| {
            let are_called = &are_called;
            let when_called = move || _ = (*are_called.wait()).then(other);
            thread::Builder::new().spawn_scoped(scope, when_called)
        };
        let others: io::Result<Vec<_>> = others.into_iter().map(spawn).collect();
        let _ = are_called.set(others.is_ok());
        let others = others?;
        first();
        others.into_iter().for_each(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        Ok(())
    })
}

/// The first CUDA device for which `try_device` returns a value. Devices that are absent or full are skipped; a device
/// that fails is an error.
///
/// # Errors
/// Returns [`DeviceError`].
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
    use std::env;
    use std::process::Command;

    use super::*;

    /// In a process of its own, in which no thread can be started.
    #[test]
    fn none_is_called_if_a_thread_is_refused() {
        const CHILD: &str = "JASPER_TEST_REFUSED_THREAD";
        let call = || at_once(|| 1, [|| 2, || 3]);
        if env::var_os(CHILD).is_some() {
            assert!(call().is_err());
            return;
        }
        assert_eq!(call().unwrap(), [1, 2, 3]);
        let test = "backend::tests::none_is_called_if_a_thread_is_refused";
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", test, "--test-threads", "1"])
            // The test runs on the first thread.
            .env("RUST_MIN_STACK", (1_u64 << 46).to_string())
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
        assert!(String::from_utf8_lossy(&child.stdout).contains("1 passed"));
    }

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
