//! Searches for queries that lie on the device, by launches that nobody waits for.

use std::cell::OnceCell;

use bytemuck::Pod;
use gpu_kernels::codes::QueryTerms;
use gpu_kernels::encode::{DeviceQuantizer, QueryCodes};
use gpu_kernels::search::Answer;
use gpu_kernels::{Buffer as _, DevicePtr, DevicePtrMut, Stream};
use jasper_core::{Element, MatrixError};
use jasper_data::ThreadPool;
use jasper_graph::VectorError;
use jasper_vamana::{Hit, SearchError, SearchPlan};

use super::batch::allowed;
use super::launch::{LaunchPointers, SearchLaunch};
use crate::DeviceGraph;

/// Bytes of queries on their way to codes, of their codes, and of what a walk leaves to its rerank, at most: for as many
/// queries as fill a device some times over. More of them are searched for one part behind the other, in the same memory.
pub(super) const SCRATCH_BYTES: usize = 256 << 20;

/// Queries and the room for their answers, in device memory.
#[derive(Debug)]
pub struct DeviceBatch<'a, T: Pod, S: Stream = crate::Stream> {
    /// `[queries][padded dimension]`: as [`Graph::prepare`](jasper_graph::Graph::prepare) makes them, which nobody checks.
    /// NaN finds nothing of use.
    pub queries: &'a S::Buffer<T>,
    /// `[queries][k]`: nearest first, each by the first key of its vertex, then [`gpu_kernels::search::NO_ANSWER`].
    pub answers: &'a mut S::Buffer<Answer>,
    /// `[queries][2]`: vertices expanded, and distances worked out; not those of a rerank.
    pub work: &'a mut S::Buffer<u32>,
}

/// An answer as users have it; [`Hit::NONE`] for [`gpu_kernels::search::NO_ANSWER`].
pub fn hit_from_answer([low, high, distance, _]: Answer) -> Hit {
    Hit { key: u64::from(high) << 32 | u64::from(low), distance: f32::from_bits(distance) }
}

impl<T: Element, S: Stream> DeviceBatch<'_, T, S> {
    /// Queries there are, each with room for `k` answers.
    fn count(&self, row_len: usize, k: usize) -> Result<usize, SearchError> {
        let len = self.queries.len();
        if !len.is_multiple_of(row_len) {
            return Err(VectorError::from(MatrixError::Ragged { len, dimension: row_len }).into());
        }
        let count = len / row_len;
        for (given, k) in [(self.answers.len(), k), (self.work.len(), 2)] {
            if count.checked_mul(k) != Some(given) {
                return Err(SearchError::Buffer { given, queries: count, k });
            }
        }
        Ok(count)
    }
}

/// Queues the search. It takes about `scratch_bytes` of memory from `stream`, if it goes by codes, and gives them back
/// behind its launches.
///
/// # Safety
/// - `stream` made the arrays.
/// - `graph` is the plan's, whole on the device of `stream`; who changes or drops it waits for the launches.
pub(super) unsafe fn launch<T: Element, S: Stream>(
    plan: &SearchPlan<'_, T>,
    graph: &DeviceGraph<T, S>,
    pool: &ThreadPool,
    stream: &S,
    arrays: DeviceBatch<'_, T, S>,
    scratch_bytes: usize,
) -> Result<(), SearchError> {
    let (row_len, k) = (graph.row_len(), plan.k());
    let count = arrays.count(row_len, k)?;
    let known = OnceCell::new();
    let allowed = || known.get_or_init(|| allowed(plan, pool));
    let launch = SearchLaunch::first(plan, graph, allowed, stream.multiprocessors(), count)?;
    let slot_array = launch.upload_slots(stream).map_err(SearchError::device)?;
    let mut scratch = Scratch::new(&launch, stream, count, scratch_bytes).map_err(SearchError::device)?;
    let DeviceBatch { queries, answers, work } = arrays;
    let together = scratch.as_ref().map_or(count, |scratch| scratch.queries);
    graph.note_unwaited();
    for first in (0..count).step_by(together.max(1)) {
        let len = together.min(count - first);
        let mut pointers = LaunchPointers {
            queries: queries.input().add(first * row_len),
            answers: answers.output().add(first * k),
            work: work.output().add(first * 2),
            reranked: DevicePtrMut::null(),
            levels: DevicePtr::null(),
            terms: DevicePtr::null(),
            candidates: DevicePtrMut::null(),
            rest: DevicePtrMut::null(),
        };
        // SAFETY: sizes are checked, and the scratch is for so many queries; the arrays, the scratch and what is beside the
        // graph are of this stream, which gives memory back behind what was queued before; of the graph the caller says it.
        let launched = unsafe {
            let coded = scratch.as_mut().map_or(Ok(()), |scratch| scratch.code(stream, len, &mut pointers));
            coded.and_then(|()| launch.enqueue(stream, None, &slot_array, len, pointers))
        };
        launched.map_err(SearchError::device)?;
    }
    Ok(())
}

/// What the launches of a search by codes leave to each other: nobody else's, so that searches in other streams run at the
/// same time.
struct Scratch<'a, S: Stream> {
    quantizer: &'a DeviceQuantizer<S>,
    /// Queries that it is for.
    queries: usize,
    codes: QueryCodes<S>,
    reranked: S::Buffer<u32>,
    candidates: S::Buffer<u32>,
    rest: S::Buffer<Answer>,
}

impl<'a, S: Stream> Scratch<'a, S> {
    /// For all of `count` queries or, where that would be more than `bytes`, for parts of about the same length; none for a
    /// search by exact distances.
    fn new<T: Element>(
        launch: &SearchLaunch<'a, T, S>,
        stream: &S,
        count: usize,
        bytes: usize,
    ) -> Result<Option<Self>, S::Error> {
        let Some(quantizer) = launch.codes().map(|codes| codes.on_device()) else { return Ok(None) };
        let one = launch.sizes(1);
        let words = quantizer.levels_words() + one.reranked + one.candidates;
        let left = words * size_of::<u32>() + size_of::<QueryTerms>() + one.rest * size_of::<Answer>();
        let each = left + quantizer.scratch_bytes(1);
        let parts = count.div_ceil((bytes / each).max(1)).max(1);
        let queries = count.div_ceil(parts);
        let sizes = launch.sizes(queries);
        Ok(Some(Self {
            quantizer,
            queries,
            codes: quantizer.query_codes(stream, queries)?,
            reranked: stream.allocate(sizes.reranked)?,
            candidates: stream.allocate(sizes.candidates)?,
            rest: stream.allocate(sizes.rest)?,
        }))
    }

    /// Codes the first `len` queries of `pointers`, and puts itself there.
    ///
    /// # Safety
    /// There are as many, until the launches have run; what these leave is not used before.
    unsafe fn code<T: Element>(
        &mut self,
        stream: &S,
        len: usize,
        pointers: &mut LaunchPointers<T>,
    ) -> Result<(), S::Error> {
        // SAFETY: the caller's promise, and rows are as long as the graph's.
        unsafe { self.quantizer.code_queries(stream, pointers.queries, len, &mut self.codes)? };
        pointers.levels = self.codes.levels.input();
        pointers.terms = self.codes.terms.input();
        pointers.reranked = self.reranked.output();
        pointers.candidates = self.candidates.output();
        pointers.rest = self.rest.output();
        Ok(())
    }
}
