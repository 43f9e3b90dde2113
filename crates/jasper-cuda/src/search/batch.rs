//! Searches a batch of queries in host memory, in chunks: while the device searches some, the threads of the host
//! prepare others and copy out the results of earlier ones.
//!
//! ```text
//! threads of the pool, for each set of buffers that is ready, of up to MAX_CHUNKS_IN_FLIGHT:
//!     copy out the results of the chunk in it, if there is one
//!     take the next chunk of the queries, check them, write them to pinned memory, quantize them
//!     launch the search in the stream of the buffers
//! the calling thread, for each chunk in the order of the launches:
//!     wait for its stream; its buffers are ready again
//!     if nothing is launched: do as the threads of the pool, which may be busy with something else
//! queries left with fewer than k results by a filter or tombstones: the same again as a scan
//! ```

use std::cell::OnceCell;
use std::iter;
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};

use gpu_kernels::Stream as _;
use gpu_kernels::codes::QueryFactors;
use gpu_kernels::graph::NO_SLOT;
use gpu_kernels::search::DeviceHit;
use jasper_core::{BitSet, Element, ElementKind, Slot, VectorView, sync::lock, with_element};
use jasper_data::{ThreadPool, parallel};
use jasper_graph::{Graph, VectorError};
use jasper_quant::Quantizer;
use jasper_vamana::{MatchesMut, PendingQuery, QueryQueue, SearchError, SearchPlan, SearchReport};

use super::buffers::{QuantizedQueries, QueryBuffers, Results, SearchBuffers};
use super::filter_plans::FilterPlans;
use super::launch::{LaunchPointers, QueryQuantizer, SearchLaunch, SlotArray};
use super::results::first_keys;
use super::started::{StartedQueries, UNWRITTEN};
use crate::graph::SearchTables;

/// Most queries of a chunk per multiprocessor. All chunks in flight are more than the device searches concurrently,
/// which keeps it busy (docs/notebook/experiments.md#gpu-batches-from-the-host).
const QUERIES_PER_MULTIPROCESSOR: usize = 16;
/// Most bytes of the queries of a chunk, of its results, and of what their quantization takes on the device.
const CHUNK_BYTES: usize = 12 << 20;
/// Chunks that are prepared, searched for or copied out at the same time.
pub(crate) const MAX_CHUNKS_IN_FLIGHT: usize = 8;
/// If a batch has at least this many chunks, the first is a quarter as long as the others and the second half as long,
/// so that the device starts earlier.
const MIN_CHUNKS_FOR_SHORT_START: usize = 4;
/// Bytes per task of the thread pool.
const TASK_BYTES: usize = 32 << 10;
/// Up to this many tasks, one thread is faster than waking up the pool: to prepare queries, and to copy out results.
const MAX_TASKS_ALONE: usize = 8;
const MAX_RESULT_TASKS_ALONE: usize = 32;

/// A search of queries with one filter, or of those that are searched for in one way and have filters of their own.
pub(crate) struct BatchSearch<'a, 'r, B: SearchBuffers> {
    pub(crate) plans: Plans<'a, 'r, B::Stream>,
    /// The device copy of the plan's graph.
    pub(crate) graph: &'a SearchTables<B::Stream>,
    /// Threads of the host, for large chunks.
    pub(crate) pool: &'a ThreadPool,
}

/// The plans of the queries of a call.
pub(crate) enum Plans<'a, 'r, S: gpu_kernels::Stream> {
    /// One for all.
    One(&'a SearchPlan<'r>),
    /// One for each filter.
    OfFilters(&'a FilterPlans<'r, S>),
}

impl<S: gpu_kernels::Stream> Clone for Plans<'_, '_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: gpu_kernels::Stream> Copy for Plans<'_, '_, S> {}

impl<'a, 'r, S: gpu_kernels::Stream> Plans<'a, 'r, S> {
    /// Whether a query with `filled` hits may have more, which a scan would find.
    fn needs_scan(self, query: &PendingQuery<'_>, filled: usize) -> bool {
        match self {
            Self::One(plan) => plan.needs_scan(filled),
            Self::OfFilters(plans) => plans.needs_scan(query, filled),
        }
    }

    /// Whether the host decides which queries a vertex is a result of.
    fn has_changed(self, slot: Slot) -> bool {
        match self {
            Self::One(_) => false,
            Self::OfFilters(plans) => plans.has_changed(slot),
        }
    }

    /// Whether a scan [was short](PendingQuery::is_short), and there is another for that.
    fn is_short(self, query: &PendingQuery<'_>) -> bool {
        match self {
            Self::One(_) => false,
            Self::OfFilters(plans) => plans.is_short(query),
        }
    }

    /// Writes the hits of a query: of the vertices that were found, the keys that its filter allows. Returns their number.
    fn fill(self, query: &mut PendingQuery<'_>, found: impl Iterator<Item = (Slot, f32)>) -> usize {
        match self {
            Self::One(plan) => plan.fill(found, &mut query.out),
            Self::OfFilters(plans) => plans.fill(query, found),
        }
    }

    /// The graph of all plans.
    fn graph(self) -> &'a Graph {
        match self {
            Self::One(plan) => plan.graph,
            Self::OfFilters(plans) => plans.base().graph,
        }
    }
}

impl<B: SearchBuffers> BatchSearch<'_, '_, B> {
    /// Searches for the queries that it takes from `queue`, until there are none, by one plan. `sets` holds at least one set of
    /// buffers; `add` creates another.
    ///
    /// After an error, queries that it took and did not answer are in the queue again. Sets of buffers may still have a
    /// chunk in flight: synchronize their streams before using them again.
    pub(crate) fn search(
        &self,
        queue: &QueryQueue<'_>,
        sets: &mut Vec<B>,
        add: impl Fn() -> Result<B, SearchError>,
    ) -> Result<SearchReport, SearchError> {
        let Plans::One(plan) = self.plans else { unreachable!("each group of queries is run by itself") };
        let allowed_once = OnceCell::new();
        let allowed =
            || plan.key_filter_set().unwrap_or_else(|| allowed_once.get_or_init(|| allowed(plan, self.pool)));
        let multiprocessors = sets[0].stream().multiprocessors();
        let launch = |plan: &SearchPlan<'_>, queries| {
            SearchLaunch::new(plan, self.graph, allowed, multiprocessors, queries)
        };
        let answers = self.run_plan(plan, launch(plan, queue.queries_per_device())?, queue, sets, &add)?;
        let Answers { mut report, to_scan } = answers;
        if !to_scan.is_empty() {
            let rest = QueryQueue::of(to_scan);
            let scanned = launch(&plan.as_scan(), rest.queries_per_device())
                .and_then(|scan| self.run_plan(plan, scan, &rest, sets, &add))
                .inspect_err(|_| {
                    let mut unanswered = Vec::new();
                    rest.take(usize::MAX, &mut unanswered);
                    report += rest.failed_report();
                    queue.return_unanswered(unanswered, report);
                });
            report += scanned?.report;
        }
        Ok(report)
    }

    /// Runs one launch per chunk of the queries, which have one plan.
    fn run_plan<'q>(
        &self,
        plan: &SearchPlan<'_>,
        launch: SearchLaunch<'_, B::Stream>,
        queue: &QueryQueue<'q>,
        sets: &mut Vec<B>,
        add: impl Fn() -> Result<B, SearchError>,
    ) -> Result<Answers<'q>, SearchError> {
        let slots = launch.slots(sets[0].stream(), plan).map_err(SearchError::device)?;
        self.run(&launch, &slots, queue, sets, add)
    }

    /// Runs one launch per chunk of the queries. `slots` are those of the launch, from the stream of the first set.
    pub(super) fn run<'q>(
        &self,
        launch: &SearchLaunch<'_, B::Stream>,
        slots: &SlotArray<B::Stream>,
        queue: &QueryQueue<'q>,
        sets: &mut Vec<B>,
        add: impl Fn() -> Result<B, SearchError>,
    ) -> Result<Answers<'q>, SearchError> {
        let count = queue.queries_per_device();
        let chunk_len = chunk_len(count, launch, sets[0].stream().multiprocessors());
        // A thread of the pool must not wait for another.
        let is_alone = self.pool.current_thread_index().is_some();
        let wanted = if is_alone { 1 } else { count.div_ceil(chunk_len).clamp(1, MAX_CHUNKS_IN_FLIGHT) };
        while sets.len() < wanted {
            // Without memory for another, fewer are enough.
            let Ok(set) = add() else { break };
            sets.push(set);
        }
        let in_flight = wanted.min(sets.len());
        let sets = &mut sets[..in_flight];
        if in_flight > 1 && !slots.is_empty() {
            // The other streams read them too.
            sets[0].stream().synchronize().map_err(SearchError::device)?;
        }
        // With one set of buffers, or in a product, shorter chunks only add launches.
        let has_short_start =
            in_flight > 1 && !launch.is_product() && count.div_ceil(chunk_len) >= MIN_CHUNKS_FOR_SHORT_START;
        let run = RunningBatch {
            search: self,
            launch,
            slots,
            batch: Mutex::new(Batch::new(queue, chunk_len, has_short_start)),
        };
        if let [buffers] = &mut *sets {
            let mut ready = Some(Chunk::new(buffers));
            while let Some(mut chunk) = ready.and_then(|chunk| run.advance(chunk)) {
                ready = run.wait(&mut chunk).then_some(chunk);
            }
        } else {
            run.on_all_threads(
                sets.iter_mut().map(Chunk::new),
                starters(launch.row_bytes(), chunk_len, self.pool),
            );
        }
        let Batch { mut answers, error, mut unanswered, .. } =
            run.batch.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Some((_, error)) = error else { return Ok(answers) };
        // A launch that failed in part may still read the slots.
        sets.iter().for_each(|buffers| _ = buffers.stream().synchronize());
        unanswered.append(&mut answers.to_scan);
        queue.return_unanswered(unanswered, answers.report);
        Err(error)
    }

    /// Launches a search for queries without waiting for it.
    ///
    /// # Safety
    /// The tables are kept until the launch is complete, and the buffers are not used before.
    ///
    /// # Panics
    /// Panics unless the plan [`can_start`](super::started::can_start).
    pub(crate) unsafe fn start(
        &self,
        queries: &[VectorView<'_>],
        buffers: &mut B,
    ) -> Result<StartedQueries, SearchError> {
        let Plans::One(plan) = self.plans else { unreachable!("queries with filters are not started") };
        let multiprocessors = buffers.stream().multiprocessors();
        let no_slots = || unreachable!("neither a filter nor a scan");
        let launch = SearchLaunch::new(plan, self.graph, no_slots, multiprocessors, queries.len())?;
        let slot_array = launch.slots(buffers.stream(), plan).map_err(SearchError::device)?;
        let chunk = queries.iter().enumerate();
        let chunk: Vec<_> =
            chunk.map(|(row, &vector)| PendingQuery::new(row, vector, MatchesMut::default())).collect();
        self.submit_chunk(&launch, buffers, &slot_array, &chunk, Some(UNWRITTEN))?;
        Ok(StartedQueries::new(queries.len(), launch.k(), plan))
    }

    /// Prepares the queries of a chunk and launches its search. `unwritten` are results before they are written.
    fn submit_chunk(
        &self,
        launch: &SearchLaunch<'_, B::Stream>,
        buffers: &mut B,
        slots: &SlotArray<B::Stream>,
        chunk: &[PendingQuery<'_>],
        unwritten: Option<DeviceHit>,
    ) -> Result<(), SearchError> {
        let sizes = launch.sizes(chunk.len());
        let query_buffers = buffers.query_buffers(&sizes).map_err(SearchError::device)?;
        if let Plans::OfFilters(plans) = self.plans {
            let of_each = launch.of_each();
            for (i, query) in chunk.iter().enumerate() {
                let lists = &mut query_buffers.lists[i * of_each.lists..][..of_each.lists];
                let tests = &mut query_buffers.tests[i * of_each.tests..][..of_each.tests];
                plans.write_slots(query, launch.is_scan(), lists, tests);
            }
        }
        prepare(self.plans.graph(), chunk, query_buffers.queries, self.pool)?;
        let query_quantizer = launch.query_quantizer(chunk.len());
        if let Some(QueryQuantizer::Host(quantizer)) = query_quantizer {
            quantize(self.plans.graph().element(), quantizer, query_buffers);
        }
        let mut pointers = buffers.pointers(&sizes).map_err(SearchError::device)?;
        if let Some(QueryQuantizer::Device(quantizer)) = query_quantizer {
            let QuantizedQueries { queries, levels, query_factors } = buffers
                .quantize(self.graph.element(), quantizer, chunk.len())
                .map_err(SearchError::device)?;
            pointers = LaunchPointers { queries, levels, query_factors, ..pointers };
        }
        if let Some(unwritten) = unwritten {
            buffers.fill_results(unwritten).map_err(SearchError::device)?;
        }
        let streams = buffers.streams(launch.uses_rerank_stream()).map_err(SearchError::device)?;
        // SAFETY: the pointers are to `buffers`, which have these sizes, live as long as the value, and are not used
        // until the launch is complete, but for loads of results. The tables are borrowed until then, or kept by the
        // caller of `start`. So are the slots, which are complete: `run` has synchronized the stream that they are from,
        // or it is this one.
        unsafe { launch.enqueue(streams, slots, chunk.len(), pointers) }.map_err(SearchError::device)
    }

    /// Copies out the results of a chunk whose search is complete. Returns what it cost.
    fn collect_chunk(
        &self,
        launch: &SearchLaunch<'_, B::Stream>,
        buffers: &B,
        chunk: &mut [PendingQuery<'_>],
    ) -> SearchReport {
        let Results { results, costs } = buffers.results();
        let mut report = SearchReport::default();
        for (i, cost) in costs.chunks_exact(2).enumerate() {
            report.cost.hops += u64::from(cost[0]);
            report.cost.distances += u64::from(cost[1]);
            report.reranked += if i < chunk.len() { 0 } else { u64::from(cost[1]) };
        }
        if let (Plans::OfFilters(plans), true) = (self.plans, launch.leaves_out_distances()) {
            report.cost.distances += chunk.iter().map(|query| plans.scanned_slots(query)).sum::<u64>();
        }
        let (plans, k) = (self.plans, launch.k());
        let take = |(chunk, results): (&mut [PendingQuery<'_>], &[DeviceHit])| {
            for (query, results) in chunk.iter_mut().zip(results.chunks_exact(k)) {
                take_results(query, plans, results);
            }
        };
        let task_len = (TASK_BYTES / (k * size_of::<DeviceHit>())).max(1);
        if chunk.len() <= MAX_RESULT_TASKS_ALONE * task_len {
            take((chunk, results));
        } else {
            let tasks = chunk.chunks_mut(task_len).zip(results.chunks(task_len * k));
            parallel::map_on(Some(self.pool), tasks, take);
        }
        report
    }
}

/// The search of a batch, on which several threads work.
struct RunningBatch<'r, 'a, 'p, 'q, B: SearchBuffers> {
    search: &'r BatchSearch<'a, 'p, B>,
    launch: &'r SearchLaunch<'r, B::Stream>,
    slots: &'r SlotArray<B::Stream>,
    batch: Mutex<Batch<'r, 'q>>,
}

impl<'q, B: SearchBuffers> RunningBatch<'_, '_, '_, 'q, B> {
    /// Works on `chunks` until no queries are left. Threads of the pool begin with the first `starters` of them.
    fn on_all_threads<'s>(&self, chunks: impl DoubleEndedIterator<Item = Chunk<'s, 'q, B>>, starters: usize)
    where
        B: 's,
    {
        let (sender, receiver) = mpsc::channel();
        // The last is taken first.
        let ready = chunks.rev().map(|chunk| Launched { chunk, launched: sender.clone() });
        let ready = Mutex::new(ready.collect::<Vec<_>>());
        drop(sender);
        let advance = |Launched { chunk, launched }: Launched<'s, 'q, B>| {
            if let Some(chunk) = self.advance(chunk) {
                let next = Launched { chunk, launched: launched.clone() };
                // Nobody receives it only if the calling thread panicked.
                let _ = launched.send(next);
            }
        };
        let next_ready = || lock(&ready).pop();
        let advance_all = || iter::from_fn(next_ready).for_each(advance);
        self.search.pool.in_place_scope(|scope| {
            (0..starters).for_each(|_| scope.spawn(|_| advance_all()));
            loop {
                let mut next = receiver.try_recv().ok();
                if next.is_none() {
                    if let Some(ready) = next_ready() {
                        advance(ready);
                        continue;
                    }
                    // Each chunk in work holds a sender: without any, all queries are answered.
                    next = receiver.recv().ok();
                }
                let Some(Launched { mut chunk, launched }) = next else { return };
                if self.wait(&mut chunk) {
                    lock(&ready).push(Launched { chunk, launched });
                    scope.spawn(|_| advance_all());
                }
            }
        });
    }

    /// Copies out the results of a chunk, if it has queries, and launches the search of the next in its buffers.
    /// Returns the chunk that is launched, if there is one.
    fn advance<'s>(&self, mut chunk: Chunk<'s, 'q, B>) -> Option<Chunk<'s, 'q, B>>
    where
        B: 's,
    {
        let Self { search, launch, slots, batch } = self;
        if !chunk.queries.is_empty() {
            let mut report = search.collect_chunk(launch, chunk.buffers, &mut chunk.queries);
            let needs_scan = |query: &PendingQuery<'_>, filled| search.plans.needs_scan(query, filled);
            if launch.is_scan() {
                // If no slot is allowed, nothing was scanned: the launch only checked the queries.
                let is_done =
                    |query: &&PendingQuery<'_>| needs_scan(query, 0) && !search.plans.is_short(query);
                report.scanned = chunk.queries.iter().filter(is_done).count();
                chunk.queries.retain(|query| search.plans.is_short(query));
            } else {
                chunk.queries.retain(|query| needs_scan(query, query.filled));
            }
            let answers = &mut lock(batch).answers;
            answers.report += report;
            answers.to_scan.append(&mut chunk.queries);
        }
        let (queue, len) = lock(batch).next_len();
        queue.take(len, &mut chunk.queries);
        if chunk.queries.is_empty() {
            return None;
        }
        let submitted = search.submit_chunk(launch, chunk.buffers, slots, &chunk.queries, None);
        match submitted {
            Ok(()) => Some(chunk),
            Err(error) => {
                lock(batch).fail(&mut chunk, error);
                None
            }
        }
    }

    /// Waits for the search of a chunk. Returns whether it succeeded.
    fn wait(&self, chunk: &mut Chunk<'_, 'q, B>) -> bool {
        let waited = chunk.buffers.wait().map_err(SearchError::device);
        waited.map_err(|error| lock(&self.batch).fail(chunk, error)).is_ok()
    }
}

/// A set of buffers, and the queries whose search is launched in them.
struct Chunk<'s, 'q, B> {
    queries: Vec<PendingQuery<'q>>,
    buffers: &'s mut B,
}

impl<'s, B> Chunk<'s, '_, B> {
    fn new(buffers: &'s mut B) -> Self {
        Self { queries: Vec::new(), buffers }
    }
}

/// A chunk, and where it goes once its search is launched.
struct Launched<'s, 'q, B> {
    chunk: Chunk<'s, 'q, B>,
    launched: Sender<Self>,
}

/// What is known of the queries that were taken from a queue.
pub(super) struct Answers<'q> {
    pub(super) report: SearchReport,
    /// Queries for which a scan might find more hits.
    pub(super) to_scan: Vec<PendingQuery<'q>>,
}

/// A batch that is searched for.
struct Batch<'b, 'q> {
    queue: &'b QueryQueue<'q>,
    chunk_len: usize,
    /// Whether the first two chunks are shorter.
    has_short_start: bool,
    /// Chunks that were taken.
    taken: usize,
    answers: Answers<'q>,
    /// The first query of the first chunk with an error, and the error.
    error: Option<(usize, SearchError)>,
    /// The queries of chunks with errors.
    unanswered: Vec<PendingQuery<'q>>,
}

impl<'b, 'q> Batch<'b, 'q> {
    fn new(queue: &'b QueryQueue<'q>, chunk_len: usize, has_short_start: bool) -> Self {
        let answers = Answers { report: SearchReport::default(), to_scan: Vec::new() };
        Self { queue, chunk_len, has_short_start, taken: 0, answers, error: None, unanswered: Vec::new() }
    }

    /// The queue, and how many queries the next chunk takes from it: none after an error.
    fn next_len(&mut self) -> (&'b QueryQueue<'q>, usize) {
        let part = if self.has_short_start { 4 >> self.taken.min(2) } else { 1 };
        self.taken += 1;
        (self.queue, if self.error.is_some() { 0 } else { self.chunk_len.div_ceil(part) })
    }

    /// Notes the error of a chunk, whose queries are not answered. Queries leave the queue in order, so
    /// the first chunk with an error is among those that were taken, whichever thread comes first.
    fn fail<B>(&mut self, chunk: &mut Chunk<'_, 'q, B>, error: SearchError) {
        let row = chunk.queries.first().map_or(usize::MAX, |query| query.row);
        self.unanswered.append(&mut chunk.queries);
        if self.error.as_ref().is_none_or(|&(first, _)| row < first) {
            self.error = Some((row, error));
        }
    }
}

/// Writes the results of the device to those of a query. Of a vertex with several keys, those
/// that the filter allows are results.
fn take_results<S: gpu_kernels::Stream>(
    query: &mut PendingQuery<'_>,
    plans: Plans<'_, '_, S>,
    results: &[DeviceHit],
) {
    let graph = plans.graph();
    query.is_short = false;
    let is_checked = |slot: Slot| graph.keys().has_further_keys(slot) || plans.has_changed(slot);
    query.filled = if results.iter().any(|hit| is_checked(Slot::new(hit.slot))) {
        let found = results.iter().take_while(|hit| hit.slot != NO_SLOT);
        let filled = plans.fill(query, found.map(|hit| (Slot::new(hit.slot), hit.distance)));
        query.is_short = filled < results.len() && results.last().is_some_and(|hit| hit.slot != NO_SLOT);
        filled
    } else {
        query.out.fill(first_keys(graph.metric(), results))
    };
}

/// Queries per chunk: limited by memory and by what keeps the device busy, and about equal for all chunks after a
/// [short start](MIN_CHUNKS_FOR_SHORT_START). In a product, more queries mean longer segments of rows per block
/// (`gpu_kernels::knn`), and so fewer insertions into the top-k lists.
fn chunk_len(
    queries: usize,
    launch: &SearchLaunch<'_, impl gpu_kernels::Stream>,
    multiprocessors: u32,
) -> usize {
    let bytes = launch.query_bytes().max(launch.k() * size_of::<DeviceHit>());
    let most =
        if launch.is_product() { usize::MAX } else { QUERIES_PER_MULTIPROCESSOR * multiprocessors as usize };
    let max_len = (CHUNK_BYTES / bytes).clamp(1, most);
    queries.div_ceil(queries.div_ceil(max_len).max(1)).max(1)
}

/// Chunks that are prepared at first. The threads of the pool share the work on a chunk of long queries, which the
/// device can then begin with while they prepare the next.
fn starters(row_bytes: usize, chunk_len: usize, pool: &ThreadPool) -> usize {
    match chunk_len * row_bytes / TASK_BYTES {
        0..=MAX_TASKS_ALONE => MAX_CHUNKS_IN_FLIGHT,
        tasks => (2 * pool.current_num_threads() / tasks).clamp(2, MAX_CHUNKS_IN_FLIGHT),
    }
}

/// Checks and normalizes the queries of a chunk and writes them to `out`, `[queries][row_bytes]`.
///
/// # Errors
/// Returns [`VectorError`] for the first invalid query.
fn prepare(
    graph: &Graph,
    chunk: &[PendingQuery<'_>],
    out: &mut [u8],
    pool: &ThreadPool,
) -> Result<(), VectorError> {
    let row_bytes = graph.vectors().row_bytes();
    let task_len = (TASK_BYTES / row_bytes).max(1);
    if chunk.len() <= MAX_TASKS_ALONE * task_len {
        return prepare_task(graph, chunk, out);
    }
    let tasks = chunk.chunks(task_len).zip(out.chunks_mut(task_len * row_bytes));
    let prepare = |(chunk, out): (&[PendingQuery<'_>], &mut [u8])| prepare_task(graph, chunk, out);
    parallel::map_on(Some(pool), tasks, prepare).into_iter().collect()
}

/// [`prepare`] on this thread.
fn prepare_task(graph: &Graph, chunk: &[PendingQuery<'_>], out: &mut [u8]) -> Result<(), VectorError> {
    let rows = out.chunks_exact_mut(graph.vectors().row_bytes());
    with_element!(graph.element(), T => {
        let mut prepared = Vec::new();
        chunk.iter().zip(rows).try_for_each(|(query, out)| {
            graph.vectors().prepare::<T>(query.row, query.vector.of(), &mut prepared)?;
            out.copy_from_slice(bytemuck::cast_slice(&prepared));
            Ok(())
        })
    })
}

/// Quantizes the queries of a chunk on the host.
fn quantize(element: ElementKind, quantizer: &dyn Quantizer, buffers: QueryBuffers<'_>) {
    let QueryBuffers { queries, levels, query_factors, .. } = buffers;
    let words = levels.len() / query_factors.len().max(1);
    let dimension = quantizer.dimension();
    let mut values = vec![0.0; query_factors.len() * dimension];
    let rows = queries.chunks_exact(element.row_bytes(dimension));
    for (values, row) in values.chunks_exact_mut(dimension).zip(rows) {
        with_element!(element, T => {
            T::slice_to_f32(&bytemuck::cast_slice::<u8, T>(row)[..dimension], values);
        });
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
pub(crate) fn allowed(plan: &SearchPlan<'_>, pool: &ThreadPool) -> BitSet {
    let slots = plan.graph.slots();
    let word = |word: usize| {
        let slots = word * 32..slots.min(word * 32 + 32);
        slots.fold(0, |bits, slot| bits | u32::from(plan.allows(Slot::from_index(slot))) << (slot % 32))
    };
    let mut words = vec![0; slots.div_ceil(32)];
    parallel::install(pool, || parallel::fill(&mut words, word));
    BitSet::from_words(words)
}
