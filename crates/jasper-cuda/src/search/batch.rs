//! A batch of queries through a device: by chunks, some of which are searched while others are prepared or taken in.

use std::cell::OnceCell;

use gpu_kernels::Stream as _;
use gpu_kernels::codes::QueryTerms;
use gpu_kernels::search::Answer;
use jasper_core::{BitSet, Element, NO_KEY, VectorId};
use jasper_data::ThreadPool;
use jasper_graph::{Graph, VectorError};
use jasper_quant::Quantizer;
use jasper_vamana::{MatchesMut, SearchError, SearchPlan, SearchReport, Strategy};
use rayon::prelude::*;

use super::context::{QueryBuffers, Results, SearchContext};
use super::device_batch::hit_from_answer;
use super::launch::{Coder, SearchLaunch, SlotArray};
use crate::DeviceGraph;

/// Queries of a chunk for each multiprocessor, at most: so that two chunks are more than it searches at once, and keep it busy
/// (measured: docs: experiments, vectors on the host).
const QUERIES_PER_MULTIPROCESSOR: usize = 24;
/// Bytes of queries, and of answers, of a chunk, at most.
const CHUNK_BYTES: usize = 32 << 20;
/// Waves in flight: two are searched while a third is reranked, and a fourth is prepared or taken in.
pub(crate) const MAX_CHUNKS_IN_FLIGHT: usize = 4;
/// Bytes that a thread prepares or takes in at once.
const PART_BYTES: usize = 32 << 10;
/// Parts that the calling thread has done before others are awake.
const PARTS_ALONE: usize = 8;

/// A query, and where its results go.
pub(crate) struct Task<'a, T> {
    row: usize,
    vector: &'a [T],
    out: MatchesMut<'a>,
    /// Number of results.
    filled: usize,
}

impl<'a, T: Element> Task<'a, T> {
    pub(crate) fn new(row: usize, vector: &'a [T], out: MatchesMut<'a>) -> Self {
        Self { row, vector, out, filled: 0 }
    }

    /// Takes the answers in. Where no vertex has several keys, its first is all there is to know.
    fn take(&mut self, plan: &SearchPlan<'_, T>, first_keys_do: bool, answers: &[Answer]) {
        if !first_keys_do {
            let slots = answers.iter().take_while(|answer| answer[3] != u32::MAX);
            let found = slots.map(|&[.., distance, slot]| (VectorId::new(slot), f32::from_bits(distance)));
            self.filled = plan.fill(found, &mut self.out);
            return;
        }
        let hits = answers.iter().map(|&answer| hit_from_answer(answer));
        self.filled = self.out.fill(hits.take_while(|hit| hit.key != NO_KEY));
    }
}

/// Where a plan is executed.
pub(crate) struct Batch<'a, 'r, T: Element, C: SearchContext<T>> {
    pub(crate) plan: &'a SearchPlan<'r, T>,
    /// The device's copy of the plan's graph.
    pub(crate) graph: &'a DeviceGraph<T, C::Stream>,
    /// Host threads, for what is much.
    pub(crate) pool: &'a ThreadPool,
}

impl<T: Element, C: SearchContext<T>> Batch<'_, '_, T, C> {
    /// Answers every task; `contexts` holds one context at least, and `add` makes another.
    ///
    /// After an error some contexts may still be at work, and are to be waited for before they are used again.
    pub(crate) fn answer(
        &self,
        mut tasks: Vec<Task<'_, T>>,
        contexts: &mut Vec<C>,
        add: impl Fn() -> Result<C, SearchError>,
    ) -> Result<SearchReport, SearchError> {
        let (plan, mut report) = (self.plan, SearchReport::default());
        let multiprocessors = contexts[0].stream().multiprocessors();
        let known = OnceCell::new();
        let allowed = || known.get_or_init(|| allowed(plan, self.pool));
        let launch = SearchLaunch::first(plan, self.graph, allowed, multiprocessors, tasks.len())?;
        self.run(&launch, &mut tasks, contexts, &add, &mut report)?;
        if plan.strategy() == Strategy::Scan {
            // Where there is nothing to find it was a scan of nothing, to look at the queries.
            report.scanned = if plan.wants_scan(0) { tasks.len() } else { 0 };
            return Ok(report);
        }
        tasks.retain(|task| plan.wants_scan(task.filled));
        report.scanned = tasks.len();
        if !tasks.is_empty() {
            let launch = SearchLaunch::scan(plan, self.graph, allowed(), multiprocessors, tasks.len());
            self.run(&launch, &mut tasks, contexts, &add, &mut report)?;
        }
        Ok(report)
    }

    /// Takes the tasks through the device by chunks, each in its context.
    fn run(
        &self,
        launch: &SearchLaunch<'_, T, C::Stream>,
        tasks: &mut [Task<'_, T>],
        contexts: &mut Vec<C>,
        add: impl Fn() -> Result<C, SearchError>,
        report: &mut SearchReport,
    ) -> Result<(), SearchError> {
        let together = chunk_len(tasks.len(), launch, contexts[0].stream().multiprocessors());
        let chunks = tasks.len().div_ceil(together);
        while contexts.len() < chunks.min(MAX_CHUNKS_IN_FLIGHT) {
            contexts.push(add()?);
        }
        let contexts = &mut contexts[..chunks.min(MAX_CHUNKS_IN_FLIGHT)];
        let slot_array: Result<Vec<_>, _> =
            contexts.iter().map(|context| launch.upload_slots(context.stream())).collect();
        let slot_array = slot_array.map_err(SearchError::device)?;
        let mut flying: [Option<&mut [Task<'_, T>]>; MAX_CHUNKS_IN_FLIGHT] = Default::default();
        for (turn, chunk) in tasks.chunks_mut(together).enumerate() {
            let at = turn % contexts.len();
            if let Some(landed) = flying[at].take() {
                self.take(launch, &mut contexts[at], landed, report)?;
            }
            self.send(launch, &mut contexts[at], &slot_array[at], chunk)?;
            flying[at] = Some(chunk);
        }
        for (context, landed) in contexts.iter_mut().zip(flying) {
            if let Some(landed) = landed {
                self.take(launch, context, landed, report)?;
            }
        }
        Ok(())
    }

    /// Prepares a chunk and launches its search.
    fn send(
        &self,
        launch: &SearchLaunch<'_, T, C::Stream>,
        context: &mut C,
        slot_array: &SlotArray<C::Stream>,
        chunk: &[Task<'_, T>],
    ) -> Result<(), SearchError> {
        let (sizes, row_len) = (launch.sizes(chunk.len()), launch.row_len());
        let prepared = context.query_buffers(&sizes).map_err(SearchError::device)?;
        prepare(self.plan.graph(), chunk, prepared.queries, row_len, self.pool)?;
        let coder = launch.coder(chunk.len());
        if let Some(Coder::Host(quantizer)) = coder {
            code(quantizer, prepared, row_len);
        }
        let mut pointers = context.pointers(&sizes).map_err(SearchError::device)?;
        if let Some(Coder::Device(quantizer)) = coder {
            let coded = context.code(quantizer, chunk.len()).map_err(SearchError::device)?;
            (pointers.levels, pointers.terms) = coded;
        }
        let (stream, rerank_stream) =
            context.streams(launch.uses_rerank_stream()).map_err(SearchError::device)?;
        // SAFETY: the context's pointers have the sizes that it was asked for, live with it, and are left alone until the
        // launch has run; the graph is borrowed, and whoever drops it waits for the device.
        unsafe { launch.enqueue(stream, rerank_stream, slot_array, chunk.len(), pointers) }
            .map_err(SearchError::device)
    }

    /// Waits for a chunk and takes its answers in.
    fn take(
        &self,
        launch: &SearchLaunch<'_, T, C::Stream>,
        context: &mut C,
        chunk: &mut [Task<'_, T>],
        report: &mut SearchReport,
    ) -> Result<(), SearchError> {
        let Results { answers, work } = context.wait_results().map_err(SearchError::device)?;
        for (i, work) in work.chunks_exact(2).enumerate() {
            report.cost.hops += u64::from(work[0]);
            report.cost.distances += u64::from(work[1]);
            report.reranked += if i < chunk.len() { 0 } else { u64::from(work[1]) };
        }
        let (plan, k) = (self.plan, launch.k());
        let first_keys_do = plan.graph().keys().shared() == 0;
        let take = |(chunk, answers): (&mut [Task<'_, T>], &[Answer])| {
            for (task, answers) in chunk.iter_mut().zip(answers.chunks_exact(k)) {
                task.take(plan, first_keys_do, answers);
            }
        };
        let together = (PART_BYTES / (k * size_of::<Answer>())).max(1);
        if chunk.len() <= PARTS_ALONE * together {
            take((chunk, answers));
        } else {
            let parts = (chunk.par_chunks_mut(together), answers.par_chunks(together * k));
            self.pool.install(|| parts.into_par_iter().for_each(take));
        }
        Ok(())
    }
}

/// Queries of a chunk: no more than memory is for, and of all chunks about the same.
fn chunk_len<T: Element>(
    queries: usize,
    launch: &SearchLaunch<'_, T, impl gpu_kernels::Stream>,
    multiprocessors: u32,
) -> usize {
    let bytes = (launch.row_len() * size_of::<T>()).max(launch.k() * size_of::<Answer>());
    let most = (CHUNK_BYTES / bytes).clamp(1, QUERIES_PER_MULTIPROCESSOR * multiprocessors as usize);
    queries.div_ceil(queries.div_ceil(most).max(1)).max(1)
}

/// Writes the queries of a chunk to `out`, row after row. The first that cannot be searched for is told.
fn prepare<T: Element>(
    graph: &Graph<T>,
    chunk: &[Task<'_, T>],
    out: &mut [T],
    row_len: usize,
    pool: &ThreadPool,
) -> Result<(), VectorError> {
    let prepare = |(chunk, out): (&[Task<'_, T>], &mut [T])| {
        let mut prepared = Vec::new();
        chunk.iter().zip(out.chunks_exact_mut(row_len)).try_for_each(|(task, out)| {
            graph.vectors().prepare(task.row, task.vector, &mut prepared)?;
            out.copy_from_slice(&prepared);
            Ok(())
        })
    };
    let together = (PART_BYTES / (row_len * size_of::<T>())).max(1);
    if chunk.len() <= PARTS_ALONE * together {
        return prepare((chunk, out));
    }
    let parts = (chunk.par_chunks(together), out.par_chunks_mut(together * row_len));
    let results: Vec<_> = pool.install(|| parts.into_par_iter().map(prepare).collect());
    results.into_iter().collect()
}

/// Codes the queries of a chunk.
fn code<T: Element>(quantizer: &dyn Quantizer, prepared: QueryBuffers<'_, T>, row_len: usize) {
    let QueryBuffers { queries, levels, terms } = prepared;
    let words = levels.len() / terms.len().max(1);
    let rows = queries.chunks_exact(row_len).flat_map(|row| &row[..quantizer.dimension()]);
    let mut values: Vec<f32> = rows.map(|x| x.to_f32()).collect();
    let coded = quantizer.queries(&mut values);
    for (query, (levels, terms)) in coded.iter().zip(levels.chunks_exact_mut(words).zip(terms)) {
        bytemuck::cast_slice_mut(levels).copy_from_slice(query.levels());
        *terms = QueryTerms::from(*query.terms());
    }
}

/// The slots that may be answers. Cost: the filter is asked of every live key.
pub(crate) fn allowed<T: Element>(plan: &SearchPlan<'_, T>, pool: &ThreadPool) -> BitSet {
    let slots = plan.graph().slots();
    let word = |word: usize| {
        let slots = word * 32..slots.min(word * 32 + 32);
        slots.fold(0, |bits, slot| bits | u32::from(plan.allows(VectorId::from_index(slot))) << (slot % 32))
    };
    let words = pool.install(|| (0..slots.div_ceil(32)).into_par_iter().with_min_len(64).map(word).collect());
    BitSet::from_words(words)
}
