//! Searches a batch of queries in host memory, in chunks that overlap: while the device searches some, the host
//! prepares the next and takes in the results of others.
//!
//! ```text
//! for each chunk of the queries:
//!     buffers = the next of up to MAX_CHUNKS_IN_FLIGHT sets of buffers, in turn
//!     if a chunk is in flight in them: wait for its stream, take in its results
//!     check the queries, write them to pinned memory, quantize them
//!     launch the search in the stream of the buffers
//! wait for the chunks in flight, take in their results
//! queries left with fewer than k results by a filter or tombstones: the same again as a scan
//! ```

use std::cell::OnceCell;

use gpu_kernels::Stream as _;
use gpu_kernels::codes::QueryFactors;
use gpu_kernels::graph::NO_SLOT;
use gpu_kernels::search::DeviceHit;
use jasper_core::{BitSet, Element, NO_KEY, Slot};
use jasper_data::ThreadPool;
use jasper_graph::{Graph, VectorError};
use jasper_quant::Quantizer;
use jasper_vamana::{MatchesMut, PendingQuery, SearchError, SearchPlan, SearchReport, Strategy};
use rayon::prelude::*;

use super::buffers::{QueryBuffers, Results, SearchBuffers};
use super::device_batch::hit_from_device;
use super::launch::{QueryQuantizer, SearchLaunch, SlotArray};
use super::started::{StartedQueries, UNWRITTEN};
use crate::DeviceGraph;

/// Most queries of a chunk per multiprocessor: two chunks are then more than it searches concurrently, which keeps it
/// busy (docs/src/experiments.md#gpu-vectors-in-host-memory-rerank-beside-the-traversal).
const QUERIES_PER_MULTIPROCESSOR: usize = 24;
/// Most bytes of the queries, and of the results, of a chunk.
const CHUNK_BYTES: usize = 32 << 20;
/// Chunks in flight: two are searched, one is reranked, and the host works on one.
pub(crate) const MAX_CHUNKS_IN_FLIGHT: usize = 4;
/// Bytes per task of the thread pool.
const TASK_BYTES: usize = 32 << 10;
/// Up to this many tasks, the calling thread alone is faster than waking up the pool.
const MAX_TASKS_ALONE: usize = 8;

/// A search plan, and where it is executed.
pub(crate) struct BatchSearch<'a, 'r, T: Element, B: SearchBuffers<T>> {
    pub(crate) plan: &'a SearchPlan<'r, T>,
    /// The device copy of the plan's graph.
    pub(crate) graph: &'a DeviceGraph<T, B::Stream>,
    /// Threads of the host, for large chunks.
    pub(crate) pool: &'a ThreadPool,
}

impl<T: Element, B: SearchBuffers<T>> BatchSearch<'_, '_, T, B> {
    /// Searches for every query. `sets` holds at least one set of buffers; `add` creates another.
    ///
    /// After an error, sets of buffers may still have a chunk in flight: synchronize their streams before using them
    /// again.
    pub(crate) fn search(
        &self,
        mut queries: Vec<PendingQuery<'_, T>>,
        sets: &mut Vec<B>,
        add: impl Fn() -> Result<B, SearchError>,
    ) -> Result<SearchReport, SearchError> {
        let mut report = SearchReport::default();
        let multiprocessors = sets[0].stream().multiprocessors();
        let (whole, allowed_once) = (self.plan, OnceCell::new());
        let allowed = || {
            whole.key_filter_set().unwrap_or_else(|| allowed_once.get_or_init(|| allowed(whole, self.pool)))
        };
        let mut plan = whole.clone();
        loop {
            let launch = SearchLaunch::new(&plan, self.graph, allowed, multiprocessors, queries.len())?;
            self.run(&launch, &mut queries, sets, &add, &mut report)?;
            if plan.strategy == Strategy::Scan {
                // If no slot is allowed, nothing was scanned: the launch only checked the queries.
                report.scanned = if plan.needs_scan(0) { queries.len() } else { 0 };
                return Ok(report);
            }
            queries.retain(|query| plan.needs_scan(query.filled));
            if queries.is_empty() {
                return Ok(report);
            }
            plan = plan.as_scan();
        }
    }

    /// Runs one launch per chunk of the queries, using the sets of buffers in turn.
    fn run(
        &self,
        launch: &SearchLaunch<'_, T, B::Stream>,
        queries: &mut [PendingQuery<'_, T>],
        sets: &mut Vec<B>,
        add: impl Fn() -> Result<B, SearchError>,
        report: &mut SearchReport,
    ) -> Result<(), SearchError> {
        let chunk_len = chunk_len(queries.len(), launch, sets[0].stream().multiprocessors());
        let chunks = queries.len().div_ceil(chunk_len);
        while sets.len() < chunks.min(MAX_CHUNKS_IN_FLIGHT) {
            sets.push(add()?);
        }
        let sets = &mut sets[..chunks.min(MAX_CHUNKS_IN_FLIGHT)];
        let slot_arrays: Result<Vec<_>, _> =
            sets.iter().map(|buffers| launch.slots(buffers.stream(), self.plan)).collect();
        let slot_arrays = slot_arrays.map_err(SearchError::device)?;
        let mut in_flight: [Option<&mut [PendingQuery<'_, T>]>; MAX_CHUNKS_IN_FLIGHT] = Default::default();
        for (number, chunk) in queries.chunks_mut(chunk_len).enumerate() {
            let at = number % sets.len();
            if let Some(complete) = in_flight[at].take() {
                self.collect_chunk(launch, &mut sets[at], complete, report)?;
            }
            self.submit_chunk(launch, &mut sets[at], &slot_arrays[at], chunk, None)?;
            in_flight[at] = Some(chunk);
        }
        for (buffers, complete) in sets.iter_mut().zip(in_flight) {
            if let Some(complete) = complete {
                self.collect_chunk(launch, buffers, complete, report)?;
            }
        }
        Ok(())
    }

    /// Launches a search for queries without waiting for it. The graph is marked as having asynchronous readers.
    ///
    /// # Panics
    /// Panics unless the plan [`can_start`](super::started::can_start).
    pub(crate) fn start(&self, queries: &[&[T]], buffers: &mut B) -> Result<StartedQueries, SearchError> {
        let plan = self.plan;
        let multiprocessors = buffers.stream().multiprocessors();
        let no_slots = || unreachable!("neither a filter nor a scan");
        let launch = SearchLaunch::new(plan, self.graph, no_slots, multiprocessors, queries.len())?;
        let slot_array = launch.slots(buffers.stream(), plan).map_err(SearchError::device)?;
        let chunk = queries.iter().enumerate();
        let chunk: Vec<_> =
            chunk.map(|(row, vector)| PendingQuery::new(row, vector, MatchesMut::default())).collect();
        self.graph.mark_async_reader();
        self.submit_chunk(&launch, buffers, &slot_array, &chunk, Some(UNWRITTEN))?;
        Ok(StartedQueries::new(queries.len(), launch.k(), plan.min_hits()))
    }

    /// Prepares the queries of a chunk and launches its search. `unwritten` are results before they are written.
    fn submit_chunk(
        &self,
        launch: &SearchLaunch<'_, T, B::Stream>,
        buffers: &mut B,
        slot_array: &SlotArray<B::Stream>,
        chunk: &[PendingQuery<'_, T>],
        unwritten: Option<DeviceHit>,
    ) -> Result<(), SearchError> {
        let (sizes, row_len) = (launch.sizes(chunk.len()), launch.row_len());
        let query_buffers = buffers.query_buffers(&sizes).map_err(SearchError::device)?;
        prepare(self.plan.graph, chunk, query_buffers.queries, row_len, self.pool)?;
        let query_quantizer = launch.query_quantizer(chunk.len());
        if let Some(QueryQuantizer::Host(quantizer)) = query_quantizer {
            quantize(quantizer, query_buffers, row_len);
        }
        let mut pointers = buffers.pointers(&sizes).map_err(SearchError::device)?;
        if let Some(QueryQuantizer::Device(quantizer)) = query_quantizer {
            let codes = buffers.quantize(quantizer, chunk.len()).map_err(SearchError::device)?;
            (pointers.levels, pointers.query_factors) = codes;
        }
        if let Some(unwritten) = unwritten {
            buffers.fill_results(unwritten).map_err(SearchError::device)?;
        }
        let streams = buffers.streams(launch.uses_rerank_stream()).map_err(SearchError::device)?;
        // SAFETY: the pointers are to `buffers`, which have these sizes, live as long as the value, and are not used
        // until the launch is complete, but for loads of results. The graph is borrowed until then, or marked as
        // having asynchronous readers: changing or dropping it then synchronizes the device.
        unsafe { launch.enqueue(streams, slot_array, chunk.len(), pointers) }.map_err(SearchError::device)
    }

    /// Waits for the search of a chunk and takes in its results.
    fn collect_chunk(
        &self,
        launch: &SearchLaunch<'_, T, B::Stream>,
        buffers: &mut B,
        chunk: &mut [PendingQuery<'_, T>],
        report: &mut SearchReport,
    ) -> Result<(), SearchError> {
        let Results { results, costs } = buffers.wait_results().map_err(SearchError::device)?;
        for (i, cost) in costs.chunks_exact(2).enumerate() {
            report.cost.hops += u64::from(cost[0]);
            report.cost.distances += u64::from(cost[1]);
            report.reranked += if i < chunk.len() { 0 } else { u64::from(cost[1]) };
        }
        let (plan, k) = (self.plan, launch.k());
        let shared_keys = plan.graph.keys().duplicate_keys() > 0;
        let take = |(chunk, results): (&mut [PendingQuery<'_, T>], &[DeviceHit])| {
            for (query, results) in chunk.iter_mut().zip(results.chunks_exact(k)) {
                take_results(query, plan, shared_keys, results);
            }
        };
        let task_len = (TASK_BYTES / (k * size_of::<DeviceHit>())).max(1);
        if chunk.len() <= MAX_TASKS_ALONE * task_len {
            take((chunk, results));
        } else {
            let tasks = (chunk.par_chunks_mut(task_len), results.par_chunks(task_len * k));
            self.pool.install(|| tasks.into_par_iter().for_each(take));
        }
        Ok(())
    }
}

/// Writes the results of the device to those of a query. The device reports the first key of a vertex: with
/// `shared_keys`, where vertices have several, the host looks them up.
fn take_results<T: Element>(
    query: &mut PendingQuery<'_, T>,
    plan: &SearchPlan<'_, T>,
    shared_keys: bool,
    results: &[DeviceHit],
) {
    query.filled = if shared_keys {
        let found = results.iter().take_while(|hit| hit.slot != NO_SLOT);
        plan.fill(found.map(|hit| (Slot::new(hit.slot), hit.distance)), &mut query.out)
    } else {
        let hits = results.iter().map(|hit| hit_from_device(*hit));
        query.out.fill(hits.take_while(|hit| hit.key != NO_KEY))
    };
}

/// Queries per chunk: limited by memory and by what keeps the device busy, and about equal for all chunks. In a product,
/// more queries mean longer segments of rows per block (`gpu_kernels::knn`), and so fewer insertions into the top-k
/// lists.
fn chunk_len<T: Element>(
    queries: usize,
    launch: &SearchLaunch<'_, T, impl gpu_kernels::Stream>,
    multiprocessors: u32,
) -> usize {
    let bytes = (launch.row_len() * size_of::<T>()).max(launch.k() * size_of::<DeviceHit>());
    let most =
        if launch.is_product() { usize::MAX } else { QUERIES_PER_MULTIPROCESSOR * multiprocessors as usize };
    let max_len = (CHUNK_BYTES / bytes).clamp(1, most);
    queries.div_ceil(queries.div_ceil(max_len).max(1)).max(1)
}

/// Checks and normalizes the queries of a chunk and writes them to `out`, `[queries][row_len]`.
///
/// # Errors
/// Returns [`VectorError`] for the first invalid query.
fn prepare<T: Element>(
    graph: &Graph<T>,
    chunk: &[PendingQuery<'_, T>],
    out: &mut [T],
    row_len: usize,
    pool: &ThreadPool,
) -> Result<(), VectorError> {
    let prepare = |(chunk, out): (&[PendingQuery<'_, T>], &mut [T])| {
        let mut prepared = Vec::new();
        chunk.iter().zip(out.chunks_exact_mut(row_len)).try_for_each(|(query, out)| {
            graph.vectors().prepare(query.row, query.vector, &mut prepared)?;
            out.copy_from_slice(&prepared);
            Ok(())
        })
    };
    let task_len = (TASK_BYTES / (row_len * size_of::<T>())).max(1);
    if chunk.len() <= MAX_TASKS_ALONE * task_len {
        return prepare((chunk, out));
    }
    let tasks = (chunk.par_chunks(task_len), out.par_chunks_mut(task_len * row_len));
    let results: Vec<_> = pool.install(|| tasks.into_par_iter().map(prepare).collect());
    results.into_iter().collect()
}

/// Quantizes the queries of a chunk on the host.
fn quantize<T: Element>(quantizer: &dyn Quantizer, buffers: QueryBuffers<'_, T>, row_len: usize) {
    let QueryBuffers { queries, levels, query_factors } = buffers;
    let words = levels.len() / query_factors.len().max(1);
    let dimension = quantizer.dimension();
    let mut values = vec![0.0; queries.len() / row_len * dimension];
    for (values, row) in values.chunks_exact_mut(dimension).zip(queries.chunks_exact(row_len)) {
        T::slice_to_f32(&row[..dimension], values);
    }
    let query_codes = quantizer.queries(&mut values);
    for (query, (levels, query_factors)) in
        query_codes.iter().zip(levels.chunks_exact_mut(words).zip(query_factors))
    {
        bytemuck::cast_slice_mut(levels).copy_from_slice(query.levels());
        *query_factors = QueryFactors::from(*query.factors());
    }
}

/// The slots that may be results, by one evaluation of the filter per live key.
pub(crate) fn allowed<T: Element>(plan: &SearchPlan<'_, T>, pool: &ThreadPool) -> BitSet {
    let slots = plan.graph.slots();
    let word = |word: usize| {
        let slots = word * 32..slots.min(word * 32 + 32);
        slots.fold(0, |bits, slot| bits | u32::from(plan.allows(Slot::from_index(slot))) << (slot % 32))
    };
    let words = pool.install(|| (0..slots.div_ceil(32)).into_par_iter().with_min_len(64).map(word).collect());
    BitSet::from_words(words)
}
