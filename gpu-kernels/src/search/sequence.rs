//! Searches by estimates with exact distances at their end: two launches, of which the second scores what the first found
//! as if it were start points, and expands nothing.

use jasper_core::ElementKind;

use super::{Answer, QuantizedSearch, QuantizedSearchArgs, Search, SearchArgs};
use crate::graph::GraphArgs;
use crate::{DevicePtrMut, Stream};

/// What the first launch leaves to the second.
#[derive(Debug)]
pub struct Rerank<'a, S> {
    /// The first entries of the frontier that get exact distances, at most the beam width; 0 for one launch alone, whose
    /// answers have estimates.
    pub len: u32,
    /// `[queries][len]`: which they are.
    pub candidates: DevicePtrMut<u32>,
    /// `[queries][k]`: answers behind these, by estimates.
    pub rest: DevicePtrMut<Answer>,
    /// `[queries][2]`: no vertices expanded, and exact distances worked out.
    pub work: DevicePtrMut<u32>,
    /// Where they are worked out, if not behind the first launch.
    pub rerank_stream: Option<RerankStream<'a, S>>,
}

/// A stream beside that of the search, for exact distances of vectors on the host: the bus is kept busy by few blocks, and
/// what they leave free of the device searches for others meanwhile.
#[derive(Debug)]
pub struct RerankStream<'a, S> {
    /// Whose blocks go before those of other streams, or they would wait until all others have begun.
    pub stream: &'a S,
    /// Queries of a launch, at least 1.
    pub at_once: u32,
}

/// Queues a search by estimates of a graph of such elements, by teams of up to `warps`. Answers are the candidates that
/// may be answers, by exact distances, then what else the frontier held, by estimates. They are there in the order of
/// `stream`.
///
/// # Errors
/// Of the device.
///
/// # Safety
/// As [`Stream::launch`], of both streams, and queries are just the rows in order; of [`Rerank`] nothing is touched where
/// there is no second launch, and of rows, queries and squared norms neither.
pub unsafe fn quantized_search<S: Stream>(
    stream: &S,
    args: QuantizedSearchArgs,
    rerank: Rerank<'_, S>,
    element: ElementKind,
    warps: u32,
) -> Result<(), S::Error> {
    let QuantizedSearchArgs { search, codes } = args;
    let kernel = QuantizedSearch::for_codes(&codes.shape, codes.limbs, search.beam_width, warps);
    if rerank.len == 0 {
        // SAFETY: the caller's promise.
        return unsafe { stream.launch(&kernel, args) };
    }
    let first = SearchArgs {
        answers: rerank.rest,
        candidates: rerank.candidates,
        candidates_len: rerank.len,
        ..search
    };
    // Where all may be answers, no more than these are wanted.
    let beam_width = if search.allowed.is_null() { search.k } else { search.k.max(rerank.len) };
    let second = SearchArgs {
        graph: GraphArgs { starts: rerank.candidates.cast_const(), starts_len: rerank.len, ..search.graph },
        rest: rerank.rest.cast_const(),
        work: rerank.work,
        log: DevicePtrMut::null(),
        beam_width,
        max_hops: 0,
        visited_slots: 0,
        starts_stride: rerank.len,
        ..search
    };
    let exact = Search::for_rows(element, search.form.measure(), search.graph.row_bytes, beam_width, warps);
    // SAFETY: the caller's promise; candidates are slots of the graph, or none, and all of a query differ.
    unsafe {
        stream.launch(&kernel, QuantizedSearchArgs { search: first, codes })?;
        let Some(RerankStream { stream: rerank_stream, at_once }) = rerank.rerank_stream else {
            return stream.launch(&exact, second);
        };
        rerank_stream.wait_for(stream)?;
        let launched = (0..second.queries_len).step_by(at_once as usize).try_for_each(|first| {
            let len = at_once.min(second.queries_len - first);
            rerank_stream.launch(&exact, part(&second, first as usize, len))
        });
        // Also behind a failure: whoever waits for one stream has waited for both.
        stream.wait_for(rerank_stream)?;
        launched
    }
}

/// The search for `len` of the queries, from `first` on, each of which begins at start points of its own.
fn part(all: &SearchArgs, first: usize, len: u32) -> SearchArgs {
    let starts = all.graph.starts.add(first * all.starts_stride as usize);
    SearchArgs {
        graph: GraphArgs { starts, ..all.graph },
        queries: all.queries.add(first * all.graph.row_bytes as usize),
        answers: all.answers.add(first * all.k as usize),
        rest: all.rest.add(first * all.k as usize),
        work: all.work.add(2 * first),
        queries_len: len,
        ..*all
    }
}
