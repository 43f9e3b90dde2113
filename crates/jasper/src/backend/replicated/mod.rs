//! An index that several devices hold, each of them all of it.
//!
//! ```text
//! one query:  the device with the fewest queries in flight searches
//! a batch:    every device takes queries from a queue until it is empty
//! a change:   every device makes it, at the same time; the caller's writer lock orders the changes
//! ```
//!
//! A device that faults is left out: the others take over its queries, and later changes are made without it. The last
//! working device is kept, and its errors are returned to the caller.
//!
//! A change is deterministic, so it has the same result on every replica: all make it, or all refuse it. If it succeeds
//! on one and fails on another (a device faults, or the host has no memory for one more), those that failed are left
//! out. So those that remain are always equal.

#[cfg(test)]
mod tests;

use std::iter;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use jasper_core::{DeviceError, ProgressFn, Slot, VectorView, no_progress, sync};
use jasper_graph::Graph;
use jasper_quant::Quantizer;
use jasper_vamana::{
    ChangeHooks, CompactReport, ConsolidateReport, Explanation, Hit, InsertReport, MatchesMut, MemorySpace,
    NewVectors, OperationCounts, QueryQueue, SearchError, SearchParams, SearchReport, UpdateError,
};

use super::sources::in_memory;
use super::vote::Vote;
use super::{Backend, StartedSearch, joined_names};
use crate::Device;
use crate::error::Error;

/// Fewest queries of a batch per replica that searches for them. Less would not keep a GPU busy.
const FEWEST_QUERIES: usize = 2048;

/// Several backends with equal graphs.
pub(crate) struct Replicated {
    replicas: Vec<Replica>,
    /// Held while one is left out, so that one always remains.
    leaving: Mutex<()>,
}

/// The graph on one device.
struct Replica {
    backend: Arc<dyn Backend>,
    /// Number of queries whose searches have begun and not ended.
    in_flight: Arc<AtomicUsize>,
    /// Why it is left out.
    fault: OnceLock<Arc<DeviceError>>,
}

impl Replica {
    /// Calls `search` with its backend, which counts as a search for this number of queries meanwhile.
    fn search<R>(&self, queries: usize, search: impl FnOnce(&dyn Backend) -> R) -> R {
        let _in_flight = InFlight::new(&self.in_flight, queries);
        search(&*self.backend)
    }

    fn is_left_out(&self) -> bool {
        self.fault.get().is_some()
    }
}

/// Queries that are counted as in flight until it is dropped.
struct InFlight {
    count: Arc<AtomicUsize>,
    queries: usize,
}

impl InFlight {
    fn new(count: &Arc<AtomicUsize>, queries: usize) -> Self {
        count.fetch_add(queries, Relaxed);
        Self { count: Arc::clone(count), queries }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.count.fetch_sub(self.queries, Relaxed);
    }
}

/// A search of a replica.
struct StartedOnOne {
    search: Box<dyn StartedSearch>,
    /// Counted until the search has ended.
    #[expect(dead_code, reason = "held until it is dropped")]
    in_flight: InFlight,
}

impl StartedSearch for StartedOnOne {
    /// After a fault, a later search leaves the replica out.
    fn poll(&mut self, answer: &mut dyn FnMut(usize, Vec<Hit>)) -> Result<bool, SearchError> {
        self.search.poll(answer)
    }
}

/// The device failed, and not only this call.
fn is_fault(error: &DeviceError) -> bool {
    matches!(error, DeviceError::Failed { .. })
}

impl Replicated {
    /// Backends whose graphs are equal; there is at least one.
    pub(crate) fn new(backends: impl IntoIterator<Item = Arc<dyn Backend>>) -> Self {
        let replica = |backend| Replica { backend, in_flight: Arc::default(), fault: OnceLock::new() };
        Self { replicas: backends.into_iter().map(replica).collect(), leaving: Mutex::default() }
    }

    /// The replicas that are not left out; at least one.
    fn in_use(&self) -> Vec<&Replica> {
        self.replicas.iter().filter(|replica| !replica.is_left_out()).collect()
    }

    /// The replica that answers what any of them could.
    fn first(&self) -> &Replica {
        self.in_use()[0]
    }

    /// Leaves a replica out, unless it is the last. Returns the error if it is.
    fn leave_out(&self, replica: &Replica, error: DeviceError) -> Result<(), DeviceError> {
        let _leaving = sync::lock(&self.leaving);
        if replica.is_left_out() {
            return Ok(());
        }
        if self.in_use().len() == 1 {
            return Err(error);
        }
        // Nobody else sets it while the lock is held.
        let _ = replica.fault.set(Arc::new(error));
        Ok(())
    }

    /// The replica with the fewest queries in flight.
    fn least_busy(&self) -> &Replica {
        let in_use = self.in_use();
        let fewest = in_use.into_iter().min_by_key(|replica| replica.in_flight.load(Relaxed));
        fewest.expect("one is never left out")
    }

    /// Searches on one replica for queries of a queue. If its device faults, those that it has not answered are in the
    /// queue again, which also counts what the others cost.
    fn search_some(
        &self,
        replica: &Replica,
        queue: &QueryQueue<'_>,
        params: SearchParams<'_>,
    ) -> Result<SearchReport, SearchError> {
        match replica.search(queue.queries_per_device(), |backend| backend.search_queue(queue, params)) {
            Err(SearchError::Device(error)) if is_fault(&error) => {
                self.leave_out(replica, error)?;
                Ok(SearchReport::default())
            }
            result => result,
        }
    }

    /// Makes a change on every replica at the same time.
    fn change_all<R: Send>(
        &self,
        hooks: ChangeHooks<'_>,
        make: impl Fn(&dyn Backend, ChangeHooks<'_>) -> Result<R, UpdateError> + Sync,
    ) -> Result<R, UpdateError> {
        let in_use = self.in_use();
        let change = |replica: usize, hooks: ChangeHooks<'_>| make(&*in_use[replica].backend, hooks);
        let results = Vote::make_all(in_use.len(), false, hooks, change);
        self.agree(&in_use, results.map_err(UpdateError::Thread)?)
    }

    /// The result of a change, after those that differ in it are left out.
    fn agree<R>(
        &self,
        replicas: &[&Replica],
        results: Vec<Result<R, UpdateError>>,
    ) -> Result<R, UpdateError> {
        let is_made = results.iter().any(Result::is_ok);
        let mut agreed = None;
        for (replica, result) in replicas.iter().zip(results) {
            match result {
                Err(UpdateError::Device(error)) if is_made || is_fault(&error) => {
                    if let Err(error) = self.leave_out(replica, error) {
                        agreed = Some(Err(error.into()));
                    }
                }
                Err(error) if is_made => {
                    let device = replica.backend.device().cuda_ordinals().first().copied().unwrap_or(0);
                    self.leave_out(replica, DeviceError::Failed { device, source: Box::new(error) })?;
                }
                result => drop(agreed.get_or_insert(result)),
            }
        }
        agreed.expect("the last replica is not left out")
    }
}

impl Backend for Replicated {
    fn device(&self) -> Device {
        Device::several(self.in_use().iter().map(|replica| replica.backend.device()))
    }

    fn device_name(&self) -> String {
        joined_names(self.in_use().iter().map(|replica| &*replica.backend))
    }

    fn is_on_cpu(&self) -> bool {
        self.replicas[0].backend.is_on_cpu()
    }

    fn device_bytes(&self) -> u64 {
        self.in_use().iter().map(|replica| replica.backend.device_bytes()).sum()
    }

    fn device_faults(&self) -> Vec<Arc<DeviceError>> {
        self.replicas.iter().filter_map(|replica| replica.fault.get().cloned()).collect()
    }

    fn replicas(&self) -> usize {
        self.in_use().len()
    }

    fn vector_storage(&self) -> MemorySpace {
        self.first().backend.vector_storage()
    }

    fn stores_vectors_in(&self, storage: MemorySpace) -> bool {
        self.in_use().iter().all(|replica| replica.backend.stores_vectors_in(storage))
    }

    fn max_beam_width(&self) -> usize {
        let widths = self.replicas.iter().map(|replica| replica.backend.max_beam_width());
        widths.min().unwrap_or(usize::MAX)
    }

    fn read_graph(&self, read: &mut dyn FnMut(&Graph)) {
        self.first().backend.read_graph(read);
    }

    fn change_graph(&self, change: &mut dyn FnMut(&mut Graph)) -> Result<(), DeviceError> {
        let in_use = self.in_use();
        let results = in_use.iter().map(|replica| Ok(replica.backend.change_graph(change)?)).collect();
        self.agree(&in_use, results).map_err(|error| match error {
            UpdateError::Device(error) => error,
            _ => unreachable!("changes of graphs return errors of devices"),
        })
    }

    fn sync_host_edges(&self) -> Result<(), DeviceError> {
        loop {
            let replica = self.first();
            match replica.backend.sync_host_edges() {
                Err(error) if is_fault(&error) => self.leave_out(replica, error)?,
                result => return result,
            }
        }
    }

    fn into_graphs(self: Arc<Self>) -> Vec<Graph> {
        let this = Arc::into_inner(self).expect("the caller holds the only reference");
        let first = this.replicas.into_iter().find(|replica| !replica.is_left_out());
        first.expect("one is never left out").backend.into_graphs()
    }

    fn warm_up(&self) -> Result<(), DeviceError> {
        self.in_use().into_iter().try_for_each(|replica| match replica.backend.warm_up() {
            Err(error) if is_fault(&error) => self.leave_out(replica, error),
            result => result,
        })
    }

    fn preload_code_kernels(&self, quantizer: &dyn Quantizer) -> Option<Box<dyn Send>> {
        let preload = |replica: &Replica| replica.backend.preload_code_kernels(quantizer);
        Some(Box::new(self.in_use().into_iter().map(preload).collect::<Vec<_>>()))
    }

    fn explain(&self, params: SearchParams<'_>, queries: usize) -> Result<Explanation, SearchError> {
        self.least_busy().backend.explain(params, queries)
    }

    fn search_one(&self, query: VectorView<'_>, params: SearchParams<'_>) -> Result<Vec<Hit>, SearchError> {
        loop {
            let replica = self.least_busy();
            match replica.search(1, |backend| backend.search_one(query, params)) {
                Err(SearchError::Device(error)) if is_fault(&error) => self.leave_out(replica, error)?,
                result => return result,
            }
        }
    }

    fn search_batch(
        &self,
        queries: &[VectorView<'_>],
        params: SearchParams<'_>,
        matches: MatchesMut<'_>,
    ) -> Result<SearchReport, SearchError> {
        params.check_filters(queries.len())?;
        let replica_count = self.in_use().len().min(queries.len() / FEWEST_QUERIES).max(1);
        let queue = QueryQueue::new(queries, params.k, matches, replica_count)?;
        let mut sum = SearchReport::default();
        loop {
            let mut replicas = self.in_use();
            replicas.sort_by_key(|replica| replica.in_flight.load(Relaxed));
            replicas.truncate(replica_count);
            let searched: Vec<_> = thread::scope(|scope| {
                let search = |replica| self.search_some(replica, &queue, params);
                let others: Vec<_> = replicas[1..]
                    .iter()
                    .filter_map(|&replica| {
                        // Without a thread for it, the others search for all.
                        thread::Builder::new().spawn_scoped(scope, move || search(replica)).ok()
                    })
                    .collect();
                let first = search(replicas[0]);
                let others = others.into_iter().map(|other| other.join().expect("a search panicked"));
                iter::once(first).chain(others).collect()
            });
            for report in searched {
                sum += report?;
            }
            // A device that faults may put its queries back after the others have ended.
            if queue.is_empty() {
                sum += queue.failed_report();
                return Ok(sum);
            }
        }
    }

    fn start_search(
        &self,
        queries: &[VectorView<'_>],
        params: SearchParams<'_>,
    ) -> Result<Option<Box<dyn StartedSearch>>, SearchError> {
        loop {
            let replica = self.least_busy();
            let in_flight = InFlight::new(&replica.in_flight, queries.len());
            match replica.backend.start_search(queries, params) {
                Err(SearchError::Device(error)) if is_fault(&error) => self.leave_out(replica, error)?,
                Ok(Some(search)) => return Ok(Some(Box::new(StartedOnOne { search, in_flight }))),
                other => return other,
            }
        }
    }

    fn insert(&self, new: NewVectors<'_>, hooks: ChangeHooks<'_>) -> Result<InsertReport, UpdateError> {
        let NewVectors { vectors, keys, on_conflict, attributes, .. } = new;
        let mut buffer = None;
        let vectors = in_memory(vectors, &mut buffer)?;
        self.change_all(hooks, |backend, hooks| {
            let new = NewVectors::new(vectors(), keys, on_conflict).with_attributes(attributes);
            backend.insert(new, hooks)
        })
    }

    fn consolidate(&self, hooks: ChangeHooks<'_>) -> Result<ConsolidateReport, UpdateError> {
        self.change_all(hooks, |backend, hooks| backend.consolidate(hooks))
    }

    fn compact(&self) -> Result<CompactReport, UpdateError> {
        self.change_all(ChangeHooks::new(&mut no_progress), |backend, _| backend.compact())
    }

    fn without_edges(&self, vertices: &[Slot], work: &mut dyn FnMut()) -> Result<(), DeviceError> {
        fn nested(
            replicas: &[&Replica],
            vertices: &[Slot],
            work: &mut dyn FnMut(),
        ) -> Result<(), DeviceError> {
            let Some((first, rest)) = replicas.split_first() else {
                work();
                return Ok(());
            };
            let mut inner = Ok(());
            first.backend.without_edges(vertices, &mut || inner = nested(rest, vertices, work))?;
            inner
        }
        nested(&self.in_use(), vertices, work)
    }

    fn differing_replicas(&self, progress: &mut ProgressFn<'_>) -> Result<Vec<Device>, Error> {
        let mut checksums = Vec::new();
        for replica in self.in_use() {
            match replica.backend.sync_host_edges() {
                Err(error) if is_fault(&error) => self.leave_out(replica, error)?,
                Err(error) => return Err(error.into()),
                Ok(()) => {
                    checksums.push((replica, replica.backend.read(|graph| graph.checksum(progress))?));
                }
            }
        }
        let first = checksums.first().map(|&(_, checksum)| checksum);
        let differs = |&(_, checksum): &(&Replica, u32)| Some(checksum) != first;
        Ok(checksums.iter().filter(|of| differs(of)).map(|(replica, _)| replica.backend.device()).collect())
    }

    #[cfg(feature = "cuda")]
    fn search_on_device(
        &self,
        stream: &jasper_cuda::Stream,
        params: SearchParams<'_>,
        arrays: super::DeviceArrays<'_>,
    ) -> Result<(), SearchError> {
        let device = Device::cuda(stream.context().device().ordinal);
        let in_use = self.in_use();
        // If no replica is there, the first one refuses the stream.
        let there = in_use.iter().find(|replica| replica.backend.device() == device).unwrap_or(&in_use[0]);
        there.backend.search_on_device(stream, params, arrays)
    }

    fn profile(
        &self,
        queries: &[VectorView<'_>],
        params: SearchParams<'_>,
    ) -> Result<Option<(Duration, Vec<OperationCounts>)>, SearchError> {
        self.first().backend.profile(queries, params)
    }
}
