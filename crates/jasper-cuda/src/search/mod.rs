//! Searches on a device.
//!
//! | module | holds |
//! | --- | --- |
//! | `batch` | a batch by chunks: prepared, searched, taken in |
//! | `launch` | the launch of a chunk: by the graph, or a scan |
//! | `context` | a chunk's way to the device and back |
//! | `on_device` | queries that lie there: launches that nobody waits for |

mod batch;
mod context;
mod device_batch;
pub(crate) mod launch;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Mutex, PoisonError};

use jasper_core::{Element, MatrixView};
use jasper_data::ThreadPool;
use jasper_graph::Graph;
use jasper_vamana::{Hit, Matches, MatchesMut, SearchError, SearchParams, SearchPlan, SearchReport};

use crate::profile::LaunchProfile;
use crate::{Context, DeviceGraph, MemoryPlan, Result, Stream, VectorStorage};
use batch::{Batch, Task};
use context::{PinnedSearchContext, SearchContext as _};
use device_batch::SCRATCH_BYTES;
pub use device_batch::{DeviceBatch, hit_from_answer};
use launch::{MAX_FRONTIER, check_shared_memory, default_kernel};

/// Searches graphs on a device: the answers of the CPU executor, from copies of graphs in device memory.
///
/// All methods take `&self`, and any number of threads may call them: each call has streams and pinned memory to itself,
/// which are kept for later calls. Once there were as many and as large calls before, a call takes no more of either, nor
/// device memory, but for a filter.
///
/// A frontier has at most [`gpu_kernels::search::MAX_BEAM_WIDTH`] entries, so that no larger `beam_width` is taken. Where
/// tombstones or a filter make the processor's frontier wider than that, this one stays at the bound: answers are then
/// those of the processor for a smaller `beam_width`. A filter is asked of every live key in every call.
///
/// In all other cases the answers are the same, id for id where sums are exact. Floats are added up in another order than
/// on the processor: a sum differs by at most `dimension` x 2^-23 of the sum of its terms' absolute values, and vertices
/// that are no farther apart than that may change order.
pub struct SearchContexts<T: Element> {
    context: Context,
    /// The contexts of calls that are over.
    idle: Mutex<Vec<Vec<PinnedSearchContext<T>>>>,
}

/// A graph on the host, and a copy that is whole in device memory: what a search reads.
#[derive(Clone, Copy, Debug)]
pub struct GraphView<'a, T: Element> {
    host: &'a Graph<T>,
    copy: &'a DeviceGraph<T>,
}

impl<'a, T: Element> GraphView<'a, T> {
    /// All work on the copy is done.
    ///
    /// # Panics
    /// If the host's graph has other slots than the copy.
    pub(crate) fn new(host: &'a Graph<T>, copy: &'a DeviceGraph<T>) -> Self {
        assert_eq!(host.slots(), copy.slots(), "a searcher is asked with the graph that it copied");
        Self { host, copy }
    }

    pub(crate) fn host(self) -> &'a Graph<T> {
        self.host
    }

    pub(crate) fn plan(self, params: SearchParams<'a>) -> Result<SearchPlan<'a, T>, SearchError> {
        SearchPlan::new(self.host, params, MAX_FRONTIER)
    }
}

impl<T: Element> SearchContexts<T> {
    /// Lanes to a device; they are made when calls need them.
    pub fn new(context: &Context) -> Self {
        Self { context: context.clone(), idle: Mutex::default() }
    }

    /// The device.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Searches for every row of `queries` and writes the results to `matches`, `k` entries per query. Large batches are
    /// prepared on `pool`.
    ///
    /// The answers to a query do not depend on how many are asked.
    ///
    /// # Errors
    /// [`SearchError`]; the contents of `matches` are then unspecified.
    pub fn answer(
        &self,
        graph: GraphView<'_, T>,
        pool: &ThreadPool,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
        matches: MatchesMut<'_>,
    ) -> Result<SearchReport, SearchError> {
        let plan = graph.plan(params)?;
        plan.check_size(queries.len(), &matches)?;
        let tasks = queries.rows().zip(matches.rows(params.k)).enumerate();
        let tasks = tasks.map(|(row, (vector, out))| Task::new(row, vector, out)).collect();
        self.run(&plan, graph.copy, pool, tasks)
    }

    /// The answers to one query: `k`, or as many as there are.
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn answer_one(
        &self,
        graph: GraphView<'_, T>,
        pool: &ThreadPool,
        query: &[T],
        params: SearchParams<'_>,
    ) -> Result<Vec<Hit>, SearchError> {
        let plan = graph.plan(params)?;
        let mut matches = Matches::new(1, params.k.min(graph.host.keys().len()))?;
        self.run(&plan, graph.copy, pool, vec![Task::new(0, query, matches.as_mut())])?;
        Ok(matches.hits(0).collect())
    }

    /// Queues a search of queries that are on the device, and does not wait: answers are there in the order of `stream`,
    /// which made the arrays. Whoever changes the graph waits for it first.
    ///
    /// Distances are those of [`Self::answer`]: where the index has codes the device codes the queries, and gives exact
    /// distances to what was found behind that. The memory for it, some 256 MB at most beside a filter, is the call's own, so that
    /// launches of several streams run at the same time. It comes from the device's pool and goes back behind the search:
    /// who launches often holds [`PoolRetention`](crate::PoolRetention), so that the pool keeps it.
    ///
    /// What a filter or tombstones leave short is not completed by a scan: that would take a look at the answers. A vertex
    /// with several keys is one answer, by its first key, even where a filter lets only another of them through.
    ///
    /// # Errors
    /// [`SearchError`].
    ///
    /// # Panics
    /// If another stream made one of the arrays, or `stream` is of another device.
    pub fn launch(
        &self,
        graph: GraphView<'_, T>,
        pool: &ThreadPool,
        stream: &Stream,
        params: SearchParams<'_>,
        arrays: DeviceBatch<'_, T>,
    ) -> Result<(), SearchError> {
        let here = self.context.device().ordinal;
        assert_eq!(stream.context().device().ordinal, here, "a graph is searched where it is");
        stream.check_owner(arrays.queries);
        stream.check_owner(arrays.answers);
        stream.check_owner(arrays.work);
        let plan = graph.plan(params)?;
        // SAFETY: the stream made the arrays, as was just checked; the copy is the host's, whole on the device, and who changes
        // or drops it waits for the device.
        unsafe { device_batch::launch(&plan, graph.copy, pool, stream, arrays, SCRATCH_BYTES) }
    }

    fn run(
        &self,
        plan: &SearchPlan<'_, T>,
        graph: &DeviceGraph<T>,
        pool: &ThreadPool,
        tasks: Vec<Task<'_, T>>,
    ) -> Result<SearchReport, SearchError> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let add = || PinnedSearchContext::new(&self.context).map_err(SearchError::device);
        let mut contexts = idle().pop().unwrap_or_default();
        if contexts.is_empty() {
            contexts.push(add()?);
        }
        let report = Batch { plan, graph, pool }.answer(tasks, &mut contexts, add);
        // An error leaves chunks in flight, whose contexts are of use again when those have landed.
        if contexts.iter().all(|context| report.is_ok() || context.stream().synchronize().is_ok()) {
            idle().push(contexts);
        }
        report
    }
}

impl<T: Element> DeviceGraph<T> {
    /// Whether the device searches it, and a start on that: the kernel of usual searches is loaded.
    ///
    /// # Errors
    /// [`Error::Rows`](crate::Error::Rows) when a row does not fit into a block, with numbers;
    /// [`Error::Ptx`](crate::Error::Ptx) when the device is too old for the kernels.
    pub fn check_search(&self, context: &Context) -> Result<()> {
        check_shared_memory(self, SearchParams::new(10).beam_width, context.device().shared_per_block)?;
        context.warm_up(&default_kernel(self))
    }
}

/// A graph that does not change, on a device to be searched there: its copy, and contexts.
pub struct Searcher<T: Element> {
    contexts: SearchContexts<T>,
    graph: DeviceGraph<T>,
    plan: MemoryPlan,
}

impl<T: Element> Searcher<T> {
    /// Copies `graph` to a device, and its vectors to the place that is wanted; where none is, as
    /// [`DeviceGraph::plan_within`] says. The host's part runs on the threads of the pool that this is called in.
    ///
    /// Cost: one launch over the graph; some tenths of a second more where the device was not in use, or the driver
    /// compiles the kernel of usual searches for the first time.
    ///
    /// # Errors
    /// [`Error::Plan`](crate::Error::Plan) when it does not fit, and [`Error::Rows`](crate::Error::Rows) when a row does
    /// not, with numbers; [`Error::Ptx`](crate::Error::Ptx) when the device is too old for the kernels.
    pub fn new(context: &Context, graph: &Graph<T>, vectors: Option<VectorStorage>) -> Result<Self> {
        let (vectors, plan) = DeviceGraph::<T>::plan_within(graph, vectors, context.free_memory()?)?;
        let stream = Stream::new(context)?;
        let copy = DeviceGraph::upload(&stream, graph, vectors)?;
        stream.synchronize()?;
        copy.check_search(context)?;
        Ok(Self { contexts: SearchContexts::new(context), graph: copy, plan })
    }

    /// The device.
    pub fn context(&self) -> &Context {
        self.contexts.context()
    }

    /// The graph on the device.
    pub fn graph(&self) -> &DeviceGraph<T> {
        &self.graph
    }

    /// What the graph takes, by part.
    pub fn memory(&self) -> &MemoryPlan {
        &self.plan
    }

    /// See [`SearchContexts::answer`]; `graph` is the one that was copied.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// If `graph` has other slots than the copy.
    pub fn answer(
        &self,
        graph: &Graph<T>,
        pool: &ThreadPool,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
        matches: MatchesMut<'_>,
    ) -> Result<SearchReport, SearchError> {
        self.contexts.answer(GraphView::new(graph, &self.graph), pool, queries, params, matches)
    }

    /// See [`SearchContexts::answer_one`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As [`Self::answer`].
    pub fn answer_one(
        &self,
        graph: &Graph<T>,
        pool: &ThreadPool,
        query: &[T],
        params: SearchParams<'_>,
    ) -> Result<Vec<Hit>, SearchError> {
        self.contexts.answer_one(GraphView::new(graph, &self.graph), pool, query, params)
    }

    /// See [`SearchContexts::launch`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As [`Self::answer`], and as there.
    pub fn launch(
        &self,
        graph: &Graph<T>,
        pool: &ThreadPool,
        stream: &Stream,
        params: SearchParams<'_>,
        arrays: DeviceBatch<'_, T>,
    ) -> Result<(), SearchError> {
        self.contexts.launch(GraphView::new(graph, &self.graph), pool, stream, params, arrays)
    }

    /// See [`SearchContexts::profile`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As [`Self::answer`].
    pub fn profile(
        &self,
        graph: &Graph<T>,
        pool: &ThreadPool,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
    ) -> Result<LaunchProfile, SearchError> {
        self.contexts.profile(GraphView::new(graph, &self.graph), pool, queries, params)
    }
}

impl<T: Element> fmt::Debug for Searcher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Searcher({} slots of {} on {})", self.graph.slots(), T::KIND, self.context().device())
    }
}

impl<T: Element> fmt::Debug for SearchContexts<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SearchContexts({})", self.context.device())
    }
}

impl<T: Element> Drop for Searcher<T> {
    fn drop(&mut self) {
        // Launches in streams of others may still read the graph.
        let _ = self.context().synchronize();
    }
}
