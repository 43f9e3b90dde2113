//! Searches a batch of queries in host memory, in chunks: while the device searches some, the threads of the host
//! prepare others and take in the results of those before.
//!
//! ```text
//! each of up to MAX_CHUNKS_IN_FLIGHT sets of buffers, on threads of the pool:
//!     take the next chunk of the queries
//!     check the queries, write them to pinned memory, quantize them
//!     launch the search in the stream of the buffers
//! the calling thread, for each chunk in the order of their launches:
//!     wait for its stream; on a thread of the pool, take in its results and go on with the next chunk
//! queries left with fewer than k results by a filter or tombstones: the same again as a scan
//! ```

use std::cell::OnceCell;
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};

use gpu_kernels::Stream as _;
use gpu_kernels::codes::QueryFactors;
use gpu_kernels::graph::NO_SLOT;
use gpu_kernels::search::DeviceHit;
use jasper_core::{BitSet, Element, NO_KEY, Slot};
use jasper_data::ThreadPool;
use jasper_graph::{Graph, VectorError};
use jasper_quant::Quantizer;
use jasper_vamana::{MatchesMut, PendingQuery, QueryQueue, SearchError, SearchPlan, SearchReport, Strategy};
use rayon::prelude::*;

use super::buffers::{QuantizedQueries, QueryBuffers, Results, SearchBuffers};
use super::device_batch::hit_from_device;
use super::launch::{LaunchPointers, QueryQuantizer, SearchLaunch, SlotArray};
use super::started::{StartedQueries, UNWRITTEN};
use crate::DeviceGraph;
use crate::context::lock;

/// Most queries of a chunk per multiprocessor. All chunks in flight are more than the device searches concurrently, which
/// keeps it busy (docs/src/experiments.md#gpu-batches-from-the-host).
const QUERIES_PER_MULTIPROCESSOR: usize = 16;
/// Most bytes of the queries, and of the results, of a chunk.
const CHUNK_BYTES: usize = 16 << 20;
/// Chunks that are prepared, searched or taken in at the same time.
pub(crate) const MAX_CHUNKS_IN_FLIGHT: usize = 8;
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
    /// Searches for the queries that it takes from `queue`, until there are none. `sets` holds at least one set of
    /// buffers; `add` creates another.
    ///
    /// After an error, queries that it took and did not answer are in the queue again. Sets of buffers may still have a
    /// chunk in flight: synchronize their streams before using them again.
    pub(crate) fn search(
        &self,
        queue: &QueryQueue<'_, T>,
        sets: &mut Vec<B>,
        add: impl Fn() -> Result<B, SearchError>,
    ) -> Result<SearchReport, SearchError> {
        let (plan, allowed_once) = (self.plan, OnceCell::new());
        let allowed =
            || plan.key_filter_set().unwrap_or_else(|| allowed_once.get_or_init(|| allowed(plan, self.pool)));
        let multiprocessors = sets[0].stream().multiprocessors();
        let launch = |plan: &SearchPlan<'_, T>, queries| {
            SearchLaunch::new(plan, self.graph, allowed, multiprocessors, queries)
        };
        let Answers { mut report, answered, left } =
            self.run(&launch(plan, queue.share())?, queue, sets, &add)?;
        if plan.strategy == Strategy::Scan {
            // If no slot is allowed, nothing was scanned: the launch only checked the queries.
            report.scanned = if plan.needs_scan(0) { answered } else { 0 };
        } else if !left.is_empty() {
            report.scanned = left.len();
            let scan = launch(&plan.as_scan(), left.len())?;
            let rest = QueryQueue::of(left);
            let scanned = self.run(&scan, &rest, sets, &add).inspect_err(|_| {
                let mut unanswered = Vec::new();
                rest.take(usize::MAX, &mut unanswered);
                queue.put_back(unanswered);
            });
            report += scanned?.report;
        }
        Ok(report)
    }

    /// Runs one launch per chunk of the queries.
    fn run<'q>(
        &self,
        launch: &SearchLaunch<'_, T, B::Stream>,
        queue: &QueryQueue<'q, T>,
        sets: &mut Vec<B>,
        add: impl Fn() -> Result<B, SearchError>,
    ) -> Result<Answers<'q, T>, SearchError> {
        let count = queue.share();
        let chunk_len = chunk_len(count, launch, sets[0].stream().multiprocessors());
        let in_flight = count.div_ceil(chunk_len).clamp(1, MAX_CHUNKS_IN_FLIGHT);
        while sets.len() < in_flight {
            sets.push(add()?);
        }
        // A thread of the pool must not wait for another.
        let is_alone = in_flight == 1 || self.pool.current_thread_index().is_some();
        let sets = &mut sets[..if is_alone { 1 } else { in_flight }];
        let slot_arrays: Result<Vec<_>, _> =
            sets.iter().map(|buffers| launch.slots(buffers.stream(), self.plan)).collect();
        let slot_arrays = slot_arrays.map_err(SearchError::device)?;
        let batch =
            Mutex::new(Batch { queue, chunk_len, taken: 0, answers: Answers::default(), error: None });
        let (sender, launched) = mpsc::channel();
        self.pool.in_place_scope(|scope| {
            let batch = &batch;
            let advance = |chunk| match is_alone {
                true => self.advance(launch, batch, chunk),
                false => scope.spawn(move |_| self.advance(launch, batch, chunk)),
            };
            for (buffers, slots) in sets.iter_mut().zip(&slot_arrays) {
                let launched = sender.clone();
                advance(Chunk { number: 0, queries: Vec::new(), buffers, slots, launched });
            }
            drop(sender);
            for mut chunk in launched {
                match chunk.buffers.wait() {
                    Ok(()) => advance(chunk),
                    Err(error) => lock(batch).fail(&mut chunk, SearchError::device(error)),
                }
            }
        });
        let Batch { answers, error, .. } = batch.into_inner().unwrap_or_else(PoisonError::into_inner);
        match error {
            Some((_, error)) => {
                queue.put_back(answers.left);
                Err(error)
            }
            None => Ok(answers),
        }
    }

    /// Takes in the results of the chunk in a set of buffers, if there is one, and launches the search of the next.
    fn advance<'q>(
        &self,
        launch: &SearchLaunch<'_, T, B::Stream>,
        batch: &Mutex<Batch<'_, 'q, T>>,
        mut chunk: Chunk<'_, 'q, T, B>,
    ) {
        if !chunk.queries.is_empty() {
            let answered = chunk.queries.len();
            let report = self.collect_chunk(launch, chunk.buffers, &mut chunk.queries);
            chunk.queries.retain(|query| self.plan.needs_scan(query.filled));
            let answers = &mut lock(batch).answers;
            answers.report += report;
            answers.answered += answered;
            answers.left.append(&mut chunk.queries);
        }
        lock(batch).take(&mut chunk);
        if chunk.queries.is_empty() {
            return;
        }
        match self.submit_chunk(launch, chunk.buffers, chunk.slots, &chunk.queries, None) {
            Ok(()) => {
                let launched = chunk.launched.clone();
                // The receiver is alive until the last sender is dropped.
                let _ = launched.send(chunk);
            }
            Err(error) => lock(batch).fail(&mut chunk, error),
        }
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
            let QuantizedQueries { queries, levels, query_factors } =
                buffers.quantize(quantizer, chunk.len()).map_err(SearchError::device)?;
            pointers = LaunchPointers { queries, levels, query_factors, ..pointers };
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

    /// Takes in the results of a chunk whose search is complete. Returns what it cost.
    fn collect_chunk(
        &self,
        launch: &SearchLaunch<'_, T, B::Stream>,
        buffers: &B,
        chunk: &mut [PendingQuery<'_, T>],
    ) -> SearchReport {
        let Results { results, costs } = buffers.results();
        let mut report = SearchReport::default();
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
        report
    }
}

/// A set of buffers, and the chunk whose search is launched in them.
struct Chunk<'s, 'q, T: Element, B: SearchBuffers<T>> {
    number: usize,
    queries: Vec<PendingQuery<'q, T>>,
    buffers: &'s mut B,
    slots: &'s SlotArray<B::Stream>,
    /// Where chunks go once they are launched.
    launched: Sender<Self>,
}

/// What is known of the queries that were taken from a queue.
struct Answers<'q, T> {
    report: SearchReport,
    /// Number of queries whose results are there.
    answered: usize,
    /// Queries for which a scan might find more hits; after an error, also those that are not answered.
    left: Vec<PendingQuery<'q, T>>,
}

impl<T> Default for Answers<'_, T> {
    fn default() -> Self {
        Self { report: SearchReport::default(), answered: 0, left: Vec::new() }
    }
}

/// A batch that is searched for.
struct Batch<'b, 'q, T> {
    queue: &'b QueryQueue<'q, T>,
    chunk_len: usize,
    /// Chunks that were taken.
    taken: usize,
    answers: Answers<'q, T>,
    /// The number of the first chunk with an error, and the error.
    error: Option<(usize, SearchError)>,
}

impl<'q, T: Element> Batch<'_, 'q, T> {
    /// Moves the next queries into a chunk, unless there are none or an error.
    fn take<B: SearchBuffers<T>>(&mut self, chunk: &mut Chunk<'_, 'q, T, B>) {
        if self.error.is_none() {
            self.queue.take(self.chunk_len, &mut chunk.queries);
        }
        self.taken += 1;
        chunk.number = self.taken;
    }

    /// Notes the error of a chunk, whose queries are not answered. As chunks are taken in order, the first that has an
    /// error is among those that were taken, whatever thread comes first.
    fn fail<B: SearchBuffers<T>>(&mut self, chunk: &mut Chunk<'_, 'q, T, B>, error: SearchError) {
        self.answers.left.append(&mut chunk.queries);
        if self.error.as_ref().is_none_or(|(first, _)| chunk.number < *first) {
            self.error = Some((chunk.number, error));
        }
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
