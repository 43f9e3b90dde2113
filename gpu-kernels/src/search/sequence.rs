//! Searches of two launches: a quantized search with its rerank, and a scan in parts. The first launch writes
//! candidates. They are the start points of the second, which computes their distances and expands nothing.

use jasper_core::ElementKind;

use super::{
    BeamArgs, CandidateArgs, DeviceHit, FilterArgs, QuantizedSearch, QuantizedSearchArgs, Search, SearchArgs,
    StartArgs,
};
use crate::graph::GraphArgs;
use crate::{DevicePtr, DevicePtrMut, Stream};

/// The rerank of a quantized search.
#[derive(Debug)]
pub struct Rerank<'a, S> {
    /// Candidates per query, at most the length of the frontier. With 0 there is no rerank, and results have estimated
    /// distances.
    pub len: u32,
    /// `[queries][len]`: memory for the slots of the candidates.
    pub candidates: DevicePtrMut<u32>,
    /// `[queries][k]`: memory for the results after the candidates, by estimated distance. They fill the places that
    /// the rerank leaves.
    pub estimated_hits: DevicePtrMut<DeviceHit>,
    /// `[queries][2]`: hops (always 0) and exact distances computed.
    pub costs: DevicePtrMut<u32>,
    /// The stream of the rerank, if not that of the search.
    pub rerank_stream: Option<RerankStream<'a, S>>,
}

/// A second stream, for reranks that read vectors in host memory: a few blocks saturate PCIe, and the rest of the
/// device searches meanwhile.
#[derive(Debug)]
pub struct RerankStream<'a, S> {
    /// The stream. It has high priority: otherwise its blocks would wait until all blocks of the search have started.
    pub stream: &'a S,
    /// Queries per launch, at least 1.
    pub queries_per_launch: u32,
}

/// Queues a quantized search of a graph of vectors of `element`, with up to `warps` warps per query. Results are the
/// candidates that pass the filter, by exact distances, then the other entries of the frontier, by estimated ones. They
/// are complete in the order of `stream`.
///
/// # Errors
/// Returns the device's error.
///
/// # Safety
/// - The requirements of [`Stream::launch`] hold on both streams.
/// - `query_rows` is null: query i is row i.
/// - If [`Rerank::len`] is 0, the buffers of [`Rerank`], rows, queries and squared norms may be null.
pub unsafe fn quantized_search<S: Stream>(
    stream: &S,
    args: QuantizedSearchArgs,
    rerank: Rerank<'_, S>,
    element: ElementKind,
    warps: u32,
) -> Result<(), S::Error> {
    let QuantizedSearchArgs { search, codes } = args;
    let kernel = QuantizedSearch::for_codes(&codes.shape, codes.level_bytes, search.beam.frontier_len, warps);
    if rerank.len == 0 {
        // SAFETY: upheld by the caller.
        return unsafe { stream.launch(&kernel, args) };
    }
    let first = SearchArgs {
        results: rerank.estimated_hits,
        candidates: CandidateArgs { slots: rerank.candidates, len: rerank.len, ..search.candidates },
        ..search
    };
    let estimated_hits = rerank.estimated_hits.cast_const();
    let second = SearchArgs {
        candidates: CandidateArgs { estimated_hits, ..CandidateArgs::NONE },
        costs: rerank.costs,
        ..search.scan_candidates(rerank.candidates.cast_const(), rerank.len)
    };
    let (row_bytes, frontier_len) = (search.graph.shape.row_bytes(), second.beam.frontier_len);
    let exact = Search::for_rows(element, second.form.op(), row_bytes, frontier_len, warps);
    // SAFETY: upheld by the caller; candidates are slots of the graph, or none, and all of a query differ.
    unsafe {
        stream.launch(&kernel, QuantizedSearchArgs { search: first, codes })?;
        let Some(RerankStream { stream: rerank_stream, queries_per_launch }) = rerank.rerank_stream else {
            return stream.launch(&exact, second);
        };
        rerank_stream.wait_for(stream)?;
        let launched = (0..second.queries_len).step_by(queries_per_launch as usize).try_for_each(|first| {
            let len = queries_per_launch.min(second.queries_len - first);
            rerank_stream.launch(&exact, second.for_queries(first as usize, len))
        });
        // This wait is queued after a failure as well, so that a wait for `stream` always includes the rerank stream.
        stream.wait_for(rerank_stream)?;
        launched
    }
}

/// Queues a scan of the start points of `search`, split into `parts` that are searched at once: for few queries, which
/// would leave most of a device idle. The nearest of each part are candidates of a second search.
///
/// # Errors
/// Of the device.
///
/// # Panics
/// If there are fewer than two parts, or fewer start points than parts, unless each query has a list of its own.
///
/// # Safety
/// - The requirements of [`Stream::launch`] hold for a search of vectors of `element`.
/// - All queries have the same start points, which are distinct, or each a list, of which each slot is in one part.
/// - `candidates` has room for `k` slots per part and query.
pub unsafe fn scan_in_parts<S: Stream>(
    stream: &S,
    search: SearchArgs,
    parts: u32,
    candidates: DevicePtrMut<u32>,
    element: ElementKind,
    warps: u32,
) -> Result<(), S::Error> {
    let (parts, stride, len) = if search.start.lists.is_null() {
        let len = search.graph.start_points_len;
        assert!((2..=len).contains(&parts), "{len} start points in {parts} parts");
        let stride = len.div_ceil(parts);
        // Rounding up may leave fewer.
        (len.div_ceil(stride), stride, len)
    } else {
        // The host knows how long the lists are, whose distances the costs are without.
        assert!(parts > 1, "{parts} parts");
        (parts, 0, 0)
    };
    let first = SearchArgs {
        results: DevicePtrMut::null(),
        costs: DevicePtrMut::null(),
        candidates: CandidateArgs { slots: candidates, len: search.k, ..search.candidates },
        queries_len: search.queries_len * parts,
        k: 0,
        beam: BeamArgs { width: search.k, frontier_len: search.k, ..search.beam },
        start: StartArgs { parts, stride, ..search.start },
        ..search
    };
    // The candidates have passed the tests.
    let filter = FilterArgs { tests: DevicePtr::null(), ..search.filter };
    let mut second =
        SearchArgs { filter, ..search }.scan_candidates(candidates.cast_const(), parts * search.k);
    second.start.distances_so_far = len;
    let kernel = Search::for_rows(element, search.form.op(), search.graph.shape.row_bytes(), search.k, warps);
    // SAFETY: upheld by the caller. Each part writes `k` candidates, distinct slots of the graph or none.
    unsafe {
        stream.launch(&kernel, first)?;
        stream.launch(&kernel, second)
    }
}

impl SearchArgs {
    /// The same search among candidates of each query, `[queries][len]`. It expands nothing.
    pub(crate) fn scan_candidates(self, candidates: DevicePtr<u32>, len: u32) -> Self {
        // Without a filter, every candidate may be a result, so `k` entries are enough.
        let allows_all = self.filter.allowed.is_null() && self.filter.tests.is_null();
        let frontier_len = if allows_all { self.k } else { self.k.max(len) };
        Self {
            graph: GraphArgs { start_points: candidates, start_points_len: len, ..self.graph },
            // A team has a mailbox for each expansion, in which it passes start points on as well.
            beam: BeamArgs { expansions: self.beam.expansions, ..BeamArgs::scan(frontier_len) },
            start: StartArgs { lists: DevicePtr::null(), stride: len, ..self.start },
            ..self
        }
    }

    /// The search for `len` of the queries, from `first` on.
    pub(crate) fn for_queries(&self, first: usize, len: u32) -> Self {
        let start_points = self.graph.start_points.add(first * self.start.stride as usize);
        let Self { mut filter, mut start, mut candidates, .. } = *self;
        if !filter.tests.is_null() {
            filter.tests = filter.tests.add(first * filter.tests_per_query as usize);
        }
        if !start.lists.is_null() {
            start.lists = start.lists.add(first * start.lists_per_query as usize);
        }
        if !candidates.estimated_hits.is_null() {
            candidates.estimated_hits = candidates.estimated_hits.add(first * self.k as usize);
        }
        Self {
            graph: GraphArgs { start_points, ..self.graph },
            queries: self.queries.add(first * self.graph.shape.row_bytes() as usize),
            results: self.results.add(first * self.k as usize),
            costs: if self.costs.is_null() { self.costs } else { self.costs.add(2 * first) },
            queries_len: len,
            filter,
            start,
            candidates,
            ..*self
        }
    }
}
