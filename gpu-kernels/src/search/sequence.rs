//! A quantized search and its rerank: two launches. The second takes the candidates of the first as start points, and
//! expands no vertex.

use jasper_core::ElementKind;

use super::{DeviceHit, QuantizedSearch, QuantizedSearchArgs, Search, SearchArgs};
use crate::graph::GraphArgs;
use crate::{DevicePtrMut, Stream};

/// The rerank of a quantized search.
#[derive(Debug)]
pub struct Rerank<'a, S> {
    /// Candidates per query, at most the beam width. With 0 there is no rerank, and results have estimated distances.
    pub len: u32,
    /// `[queries][len]`: the candidates.
    pub candidates: DevicePtrMut<u32>,
    /// `[queries][k]`: the results after the candidates, by estimated distance. They fill the places that the rerank
    /// leaves.
    pub fallback: DevicePtrMut<DeviceHit>,
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
    let kernel = QuantizedSearch::for_codes(&codes.shape, codes.level_bytes, search.beam_width, warps);
    if rerank.len == 0 {
        // SAFETY: the caller's promise.
        return unsafe { stream.launch(&kernel, args) };
    }
    let first = SearchArgs {
        results: rerank.fallback,
        candidates: rerank.candidates,
        candidates_len: rerank.len,
        ..search
    };
    // If every candidate may be a result, a beam of `k` is enough.
    let beam_width = if search.allowed.is_null() { search.k } else { search.k.max(rerank.len) };
    let second = SearchArgs {
        graph: GraphArgs {
            start_points: rerank.candidates.cast_const(),
            start_points_len: rerank.len,
            ..search.graph
        },
        fallback: rerank.fallback.cast_const(),
        costs: rerank.costs,
        expanded: DevicePtrMut::null(),
        beam_width,
        max_hops: 0,
        visited_slots: 0,
        start_points_stride: rerank.len,
        ..search
    };
    let exact =
        Search::for_rows(element, search.form.measure(), search.graph.shape.row_bytes(), beam_width, warps);
    // SAFETY: the caller's promise; candidates are slots of the graph or `NO_SLOT`, and the slots of a query are
    // distinct.
    unsafe {
        stream.launch(&kernel, QuantizedSearchArgs { search: first, codes })?;
        let Some(RerankStream { stream: rerank_stream, queries_per_launch }) = rerank.rerank_stream else {
            return stream.launch(&exact, second);
        };
        rerank_stream.wait_for(stream)?;
        let launched = (0..second.queries_len).step_by(queries_per_launch as usize).try_for_each(|first| {
            let len = queries_per_launch.min(second.queries_len - first);
            rerank_stream.launch(&exact, part(&second, first as usize, len))
        });
        // This wait is queued after a failure as well, so that a wait for `stream` always includes the rerank stream.
        stream.wait_for(rerank_stream)?;
        launched
    }
}

/// The search for `len` of the queries, from `first` on, each of which begins at start points of its own.
fn part(all: &SearchArgs, first: usize, len: u32) -> SearchArgs {
    let start_points = all.graph.start_points.add(first * all.start_points_stride as usize);
    SearchArgs {
        graph: GraphArgs { start_points, ..all.graph },
        queries: all.queries.add(first * all.graph.shape.row_bytes() as usize),
        results: all.results.add(first * all.k as usize),
        fallback: all.fallback.add(first * all.k as usize),
        costs: all.costs.add(2 * first),
        queries_len: len,
        ..*all
    }
}
