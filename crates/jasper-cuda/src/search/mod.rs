//! Searches on a device.
//!
//! | module | holds |
//! | --- | --- |
//! | `batch` | queries in host memory, searched in overlapping chunks |
//! | `buffers` | the streams and buffers of a chunk in flight |
//! | `filtered` | queries that have filters of their own, searched for in groups |
//! | `filter_plans` | the plans of their filters, and the slots of these on the device |
//! | `column_filter` | a filter that kernels test by columns |
//! | `groups` | which queries share launches |
//! | `device_batch` | queries in device memory, launched without synchronizing |
//! | `idle` | the buffers of finished calls |
//! | `launch` | the launches of a search: beam search, rerank, or exact scan |
//! | `params` | launch parameters, and what searches cost |
//! | `results` | the hits of a query, from the results of the device |
//! | `started` | searches that are launched, then polled query by query |

mod batch;
mod buffers;
mod column_filter;
mod device_batch;
mod filter_plans;
mod filtered;
mod groups;
mod idle;
pub(crate) mod launch;
pub(crate) mod params;
mod results;
mod started;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use gpu_kernels::search::DeviceHit;
use gpu_kernels::{Buffer as _, Stream as _};
use jasper_core::{Element, VectorView};
use jasper_graph::Graph;
use jasper_vamana::{
    CostModel, CpuExecutor, Filter, Hit, Matches, MatchesMut, PendingQuery, QueryQueue, SearchError,
    SearchParams, SearchPlan, SearchReport, check_elements,
};

use crate::graph::{GraphSnapshot, SearchTables, SearchedGraph};
use crate::{Bytes, Context, DeviceGraph, PoolRetention, Result, Stream};
use batch::{BatchSearch, Plans};
use buffers::{PinnedSearchBuffers, SearchBuffers as _};
pub use device_batch::DeviceBatch;
use device_batch::SCRATCH_BYTES;
use filtered::FilteredSearch;
pub(crate) use idle::MAX_IDLE;
use idle::{IdleBuffers, Use};
use launch::check_shared_memory;
use params::cost_model;
pub use results::hit_from_device;
use started::{StartedQueries, can_start};

/// Most bytes of the queries and results of a [started](DeviceSearcher::start) search, of which many may be under way.
const MAX_STARTED_BYTES: usize = 4 << 20;

/// Searches graphs in device memory, with the results of the CPU executor.
///
/// Any number of threads may call all methods. Each call uses streams and pinned memory of its own, and leaves them to
/// later calls, up to 256 MiB of pinned and of device memory. A call that finds enough there allocates nothing, with
/// two exceptions: it has a predicate, or it scans the slots of a filter that allows more than 1/32 of them. Beam
/// searches with such a filter read its bitmap, which stays on the device.
///
/// A frontier has at most [`MAX_BEAM_WIDTH`](gpu_kernels::search::MAX_BEAM_WIDTH) entries; a larger `beam_width` is
/// refused. Each call evaluates a predicate for every live key. `docs/src/gpu-search.md#exactness` lists the cases in
/// which results may differ from those of the CPU. In all others they are the same, slot for slot if sums are exact.
///
/// Floats are summed in another order than on the CPU: a sum differs by at most `dimension` x 2^-23 of the sum of its
/// terms' absolute values, and vertices whose distances differ by less may change order.
pub struct DeviceSearcher {
    context: Context,
    /// Prepares the queries.
    cpu: Arc<CpuExecutor>,
    idle: Arc<IdleBuffers<PinnedSearchBuffers>>,
    /// Searches synchronize while a change allocates. Without it, each would have the pool free its memory.
    _retention: Option<PoolRetention>,
}

/// A graph on the host and its complete copy in device memory, as a search reads them.
#[derive(Clone, Copy, Debug)]
pub struct GraphView<'a> {
    host: &'a Graph,
    copy: &'a SearchTables<Stream>,
}

impl<'a> GraphView<'a> {
    /// All work on the copy must be complete.
    ///
    /// # Panics
    /// Panics if the graph and its copy have different numbers of slots or element types.
    pub(crate) fn new(host: &'a Graph, copy: &'a SearchTables<Stream>) -> Self {
        let of_copy = (copy.slots(), copy.element());
        assert_eq!((host.slots(), host.element()), of_copy, "a graph is searched with its own copy");
        Self { host, copy }
    }

    pub(crate) fn host(self) -> &'a Graph {
        self.host
    }
}

impl DeviceSearcher {
    /// Searches on the device of `context`. The threads of `cpu` prepare the queries of large batches.
    pub fn new(context: &Context, cpu: Arc<CpuExecutor>) -> Self {
        let retention = PoolRetention::small(context).ok();
        Self { context: context.clone(), cpu, idle: Arc::default(), _retention: retention }
    }

    /// The CUDA context.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// How a search for `queries` queries is executed on this device.
    ///
    /// # Errors
    /// Returns the errors of [`SearchPlan::new`].
    pub fn plan<'a>(
        &self,
        graph: GraphView<'a>,
        params: SearchParams<'a>,
        queries: usize,
    ) -> Result<SearchPlan<'a>, SearchError> {
        SearchPlan::new(graph.host, params, queries, self.cost_model(graph))
    }

    fn cost_model(&self, graph: GraphView<'_>) -> CostModel {
        cost_model(self.context.device().multiprocessors, graph.copy.vector_storage())
    }

    /// Searches for each of `queries` and writes the results to `matches`, `k` entries per query.
    ///
    /// The results of a query do not depend on the other queries. With a filter, they may depend on how many there are. If
    /// each query has a filter of its own, all are planned by themselves, and searched for in few launches.
    ///
    /// # Errors
    /// Returns [`SearchError`]; the contents of `matches` are then unspecified.
    pub fn search_batch(
        &self,
        graph: GraphView<'_>,
        queries: &[VectorView<'_>],
        params: SearchParams<'_>,
        matches: MatchesMut<'_>,
    ) -> Result<SearchReport, SearchError> {
        params.check_filters(queries.len())?;
        check_elements(graph.host, queries)?;
        self.search_queue(graph, &QueryQueue::new(queries, params.k, matches, 1)?, params)
    }

    /// Searches for the queries that it takes from `queue`, from which others may take some meanwhile, until there are
    /// none. `queue` has the `k` of `params`.
    ///
    /// # Errors
    /// Returns [`SearchError`]; queries that it took and did not answer are then in the queue again.
    pub fn search_queue(
        &self,
        graph: GraphView<'_>,
        queue: &QueryQueue<'_>,
        params: SearchParams<'_>,
    ) -> Result<SearchReport, SearchError> {
        if let Some(Filter::PerQuery(_)) = params.filter {
            return self.run_filtered(graph, params, queue);
        }
        self.run(&self.plan(graph, params, queue.queries_per_device())?, graph.copy, queue)
    }

    /// Launches a search for several queries and returns without waiting for it. `None` if [`Self::search_batch`] has
    /// to do it: with a filter, for scans, and for more than 4 MiB of queries or results.
    ///
    /// The results are as of the call, and of this `snapshot` of the graph.
    ///
    /// # Errors
    /// Returns [`SearchError`].
    pub fn start(
        &self,
        graph: &Arc<SearchedGraph>,
        queries: &[VectorView<'_>],
        params: SearchParams<'_>,
    ) -> Result<Option<StartedSearch>, SearchError> {
        if let Some(Filter::PerQuery(_)) = params.filter {
            return Ok(None);
        }
        let (searched, snapshot) = (graph, graph.snapshot(params.filter));
        let graph = snapshot.view()?;
        check_elements(graph.host, queries)?;
        let plan = self.plan(graph, params, queries.len())?;
        let bytes = graph.copy.row_bytes() as usize + params.k * size_of::<DeviceHit>();
        if !can_start(&plan) || queries.len() * bytes > MAX_STARTED_BYTES {
            return Ok(None);
        }
        let of = Use::new(queries.len());
        let mut idle = self.idle.take(of);
        let buffers = idle.pop();
        put_back(&self.idle, of, idle);
        let buffers = match buffers {
            Some(buffers) => buffers,
            None => PinnedSearchBuffers::new(&self.context, of)?,
        };
        let mut used = UsedBuffers { buffers: Some(buffers), idle: Arc::clone(&self.idle), of };
        let plans = Plans::One(&plan);
        let search = BatchSearch { plans, graph: graph.copy, pool: self.cpu.search_pool() };
        // SAFETY: after an error, and when the result is dropped, the stream of the buffers is synchronized, before the
        // snapshot is dropped, which keeps the tables.
        let queries = unsafe { search.start(queries, used.get_mut())? };
        Ok(Some(StartedSearch { queries, used, snapshot, _graph: Arc::clone(searched) }))
    }

    /// Searches for one query. Returns `k` hits, or fewer if there are fewer.
    ///
    /// # Errors
    /// Returns [`SearchError`].
    pub fn search_one(
        &self,
        graph: GraphView<'_>,
        query: VectorView<'_>,
        params: SearchParams<'_>,
    ) -> Result<Vec<Hit>, SearchError> {
        params.check_filters(1)?;
        check_elements(graph.host, &[query])?;
        let params = params.of_query(0);
        let of_one = params.filter.map(|filter| [filter]);
        let mut matches = Matches::new(1, params.k.min(graph.host.keys().len()))?;
        let pending = PendingQuery::new(0, query, matches.as_mut());
        let queue = QueryQueue::of(vec![pending]);
        match (&of_one, params.filter) {
            // Columns on the device are for filters of each query, of which this is one.
            (Some(of_one), Some(Filter::Where(expression)))
                if graph.host.keys().attributes().bind(expression)?.clauses(&mut Vec::new()) =>
            {
                self.run_filtered(graph, params.filter(&of_one[..]), &queue)?
            }
            _ => self.run(&self.plan(graph, params, 1)?, graph.copy, &queue)?,
        };
        Ok(matches.hits(0).collect())
    }

    /// Queues a search for queries in device memory and returns without synchronizing. The results are available in the
    /// order of `stream`, which allocated the arrays. Changing the graph waits for the search.
    ///
    /// Distances are those of [`Self::search_batch`]: with codes, the device quantizes the queries, traverses the graph
    /// by estimated distances and reranks by exact ones. Temporary memory, at most about 256 MB plus that of a filter,
    /// is allocated per call from the device's memory pool and freed in stream order, so that searches in different
    /// streams run concurrently. For repeated launches, hold a [`PoolRetention`](crate::PoolRetention): the pool then
    /// keeps the memory.
    ///
    /// Unlike [`Self::search_batch`], results that a filter or tombstones leave short are not completed by a scan,
    /// because that depends on the results. A vertex with several keys is one result, with its first key, and none
    /// if a filter only admits another of them.
    ///
    /// # Errors
    /// Returns [`SearchError`] if parameters are invalid or have a filter for each query, queries have another element type
    /// than the graph, the arrays do not have the shapes of [`DeviceBatch`], or the device fails.
    ///
    /// # Panics
    /// Panics if another stream allocated one of the arrays, or `stream` is on another device.
    pub fn enqueue<T: Element>(
        &self,
        graph: GraphView<'_>,
        stream: &Stream,
        params: SearchParams<'_>,
        arrays: DeviceBatch<'_, T>,
    ) -> Result<(), SearchError> {
        let here = self.context.device().ordinal;
        assert_eq!(stream.context().device().ordinal, here, "the stream is on the device of the graph");
        stream.check_owner(arrays.queries);
        stream.check_owner(arrays.results);
        stream.check_owner(arrays.costs);
        if let Some(Filter::PerQuery(_)) = params.filter {
            return Err(SearchError::EnqueuedFilters);
        }
        let plan = self.plan(graph, params, arrays.queries.len() / graph.copy.row_len())?;
        // SAFETY: the stream allocated the arrays, as checked. The copy is complete, and held until it is marked as read:
        // whatever the launch reads is written or freed after a synchronization of the device.
        unsafe {
            device_batch::launch(&plan, graph.copy, self.cpu.search_pool(), stream, arrays, SCRATCH_BYTES)
        }
    }

    /// Searches by one plan.
    fn run(
        &self,
        plan: &SearchPlan<'_>,
        graph: &SearchTables<Stream>,
        queue: &QueryQueue<'_>,
    ) -> Result<SearchReport, SearchError> {
        let search = BatchSearch { plans: Plans::One(plan), graph, pool: self.cpu.search_pool() };
        self.with_buffers(queue, |sets, add| search.search(queue, sets, add))
    }

    /// Searches by the filter of each query.
    fn run_filtered(
        &self,
        graph: GraphView<'_>,
        params: SearchParams<'_>,
        queue: &QueryQueue<'_>,
    ) -> Result<SearchReport, SearchError> {
        let search = FilteredSearch {
            host: graph.host,
            graph: graph.copy,
            params,
            cost_model: self.cost_model(graph),
            pool: self.cpu.search_pool(),
        };
        self.with_buffers(queue, |sets, add| search.search(queue, sets, add))
    }

    /// Calls `search` with a set of buffers, and a function that makes another.
    fn with_buffers(
        &self,
        queue: &QueryQueue<'_>,
        search: impl FnOnce(
            &mut Vec<PinnedSearchBuffers>,
            &dyn Fn() -> Result<PinnedSearchBuffers, SearchError>,
        ) -> Result<SearchReport, SearchError>,
    ) -> Result<SearchReport, SearchError> {
        let of = Use::new(queue.queries_per_device());
        let add = || PinnedSearchBuffers::new(&self.context, of).map_err(SearchError::device);
        let mut sets = self.idle.take(of);
        if sets.is_empty() {
            sets.push(add()?);
        }
        let report = search(&mut sets, &add);
        // After an error chunks may be in flight: their buffers can be reused once these are complete.
        if sets.iter().all(|buffers| report.is_ok() || buffers.stream().synchronize().is_ok()) {
            put_back(&self.idle, of, sets);
        }
        report
    }
}

/// Keeps buffers without work in flight for later calls.
fn put_back(idle: &IdleBuffers<PinnedSearchBuffers>, of: Use, sets: Vec<PinnedSearchBuffers>) {
    let bytes = sets.iter().map(PinnedSearchBuffers::bytes);
    let bytes = bytes.fold(Bytes::default(), |sum, bytes| Bytes {
        device: sum.device + bytes.device,
        host: sum.host + bytes.host,
    });
    if !sets.is_empty() {
        idle.put(of, sets, bytes);
    }
}

/// A search that was [started](DeviceSearcher::start). Dropping it waits for the launch.
pub struct StartedSearch {
    queries: StartedQueries,
    // In this order: the drop of the buffers waits for the launch, which reads the snapshot, which leads to the graph.
    used: UsedBuffers,
    snapshot: Arc<GraphSnapshot>,
    _graph: Arc<SearchedGraph>,
}

impl StartedSearch {
    /// Calls `answer` with the index and the hits of each query whose results have been written since the last call.
    /// Returns whether the launch is complete. Queries that are not answered by then have to be searched for with
    /// [`DeviceSearcher::search_batch`]: they have fewer than `k` hits because of tombstones.
    ///
    /// # Errors
    /// Returns the error of the device.
    pub fn poll(&mut self, answer: &mut dyn FnMut(usize, Vec<Hit>)) -> Result<bool, SearchError> {
        self.queries.poll(self.used.get_mut(), self.snapshot.host(), answer)
    }
}

/// Buffers in use, which are put back when this is dropped.
struct UsedBuffers {
    buffers: Option<PinnedSearchBuffers>,
    idle: Arc<IdleBuffers<PinnedSearchBuffers>>,
    of: Use,
}

impl UsedBuffers {
    fn get_mut(&mut self) -> &mut PinnedSearchBuffers {
        self.buffers.as_mut().expect("only the drop takes it")
    }
}

impl Drop for UsedBuffers {
    fn drop(&mut self) {
        // After a fault they are not used again.
        let buffers = self.buffers.take().filter(|buffers| buffers.stream().synchronize().is_ok());
        put_back(&self.idle, self.of, buffers.into_iter().collect());
    }
}

impl DeviceGraph {
    /// Checks that the device can search the graph.
    ///
    /// # Errors
    /// Returns [`ErrorKind::RowTooLong`](crate::ErrorKind::RowTooLong) if a search needs more shared memory than a
    /// block has, and the errors of [`Context::check_kernels`].
    pub fn check_search(&self, context: &Context) -> Result<()> {
        let beam_width = SearchParams::new(10).effective_beam_width();
        check_shared_memory(self, beam_width, context.device().shared_per_block)
            .map_err(|kind| context.fail(kind))?;
        context.check_kernels()
    }
}

impl fmt::Debug for DeviceSearcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceSearcher({})", self.context.device())
    }
}
