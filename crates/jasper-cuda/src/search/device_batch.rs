//! Searches for queries in device memory, launched without synchronizing.
//!
//! All launches are queued in the caller's stream. In a quantized search, each chunk of the batch has the launches that
//! quantize its queries, the search, and the rerank of the candidates by exact distances. The next chunk reuses the
//! temporary memory, which the stream frees after the last chunk.

use std::cell::OnceCell;

use bytemuck::Pod;
use gpu_kernels::codes::QueryFactors;
use gpu_kernels::encode::{DeviceQuantizer, QueryCodes};
use gpu_kernels::knn::ProductScratch;
use gpu_kernels::search::DeviceHit;
use gpu_kernels::{Buffer as _, DevicePtr, DevicePtrMut, Stream};
use jasper_core::{Element, ElementKind, MatrixError};
use jasper_data::ThreadPool;
use jasper_graph::{VectorError, check_element};
use jasper_vamana::{SearchError, SearchPlan};

use super::batch::allowed;
use super::launch::{LaunchPointers, LaunchStreams, PRODUCT_BYTES, SearchLaunch};
use crate::graph::SearchTables;

/// Maximum bytes of temporary memory for the quantization of queries, their codes, and the candidates between search
/// and rerank. This is enough for several times the queries that fill a device. Larger batches are searched in chunks.
pub(super) const SCRATCH_BYTES: usize = 256 << 20;

/// Queries in device memory, and buffers for their results. All are allocated by the stream of the search.
#[derive(Debug)]
pub struct DeviceBatch<'a, T: Pod, S: Stream = crate::Stream> {
    /// `[queries][padded dimension]`: rows padded with zeros to a multiple of 16 bytes, and normalized if the metric is
    /// cosine and elements are floats. They are not checked; the results of a query with NaN are unspecified.
    pub queries: &'a S::Buffer<T>,
    /// `[queries][k]`: nearest first, then [`NO_HIT`](gpu_kernels::search::NO_HIT) where a query has fewer results. A
    /// vertex with several keys is one result, with its first key. See [`hit_from_device`](crate::hit_from_device).
    pub results: &'a mut S::Buffer<DeviceHit>,
    /// `[queries][2]`: the number of vertices expanded and of distances computed, without those of the rerank.
    pub costs: &'a mut S::Buffer<u32>,
}

impl<T: Element, S: Stream> DeviceBatch<'_, T, S> {
    /// The number of queries.
    ///
    /// # Errors
    /// Returns [`SearchError`] if the arrays do not have the documented shapes.
    fn count(&self, row_len: usize, k: usize) -> Result<usize, SearchError> {
        let len = self.queries.len();
        if !len.is_multiple_of(row_len) {
            return Err(VectorError::from(MatrixError::Ragged { len, dimension: row_len }).into());
        }
        let count = len / row_len;
        for (given, k) in [(self.results.len(), k), (self.costs.len(), 2)] {
            if count.checked_mul(k) != Some(given) {
                return Err(SearchError::Buffer { given, queries: count, k });
            }
        }
        Ok(count)
    }
}

/// Queues the search. A quantized search allocates about `scratch_bytes` bytes from `stream`, which frees them after
/// the launches.
///
/// # Safety
/// - `stream` allocated the arrays.
/// - `graph` is the complete copy of the plan's graph on the device of `stream`, and is not changed or dropped before
///   the launches are complete.
pub(super) unsafe fn launch<T: Element, S: Stream>(
    plan: &SearchPlan<'_>,
    graph: &SearchTables<S>,
    pool: &ThreadPool,
    stream: &S,
    arrays: DeviceBatch<'_, T, S>,
    scratch_bytes: usize,
) -> Result<(), SearchError> {
    check_element(T::KIND, graph.element())?;
    let (row_len, k) = (graph.row_len(), plan.params.k);
    let count = arrays.count(row_len, k)?;
    let is_filtered = plan.params.filter.is_some() && plan.graph.keys().duplicate_keys() > 0;
    let first_keys = is_filtered.then(|| plan.for_first_keys());
    let plan = first_keys.as_ref().unwrap_or(plan);
    let known = OnceCell::new();
    let allowed = || plan.key_filter_set().unwrap_or_else(|| known.get_or_init(|| allowed(plan, pool)));
    let launch = SearchLaunch::new(plan, graph, allowed, stream.multiprocessors(), count)?;
    graph.mark_async_reader();
    let slot_array = launch.slots(stream, plan).map_err(SearchError::device)?;
    let mut scratch = Scratch::new(&launch, stream, count, scratch_bytes).map_err(SearchError::device)?;
    // A quantized search has its candidates in the scratch memory.
    let candidates_len = if scratch.is_none() { launch.sizes(count).candidates } else { 0 };
    let mut candidates = stream.allocate(candidates_len).map_err(SearchError::device)?;
    let mut product = ProductScratch::new(stream, PRODUCT_BYTES).map_err(SearchError::device)?;
    let DeviceBatch { queries, results, costs } = arrays;
    let chunk_len = scratch.as_ref().map_or(count, |scratch| scratch.queries);
    let mut enqueue = |first: usize| {
        let len = chunk_len.min(count - first);
        let mut pointers = LaunchPointers {
            queries: queries.input().add(first * row_len).cast(),
            results: results.output().add(first * k),
            costs: costs.output().add(first * 2),
            rerank_costs: DevicePtrMut::null(),
            levels: DevicePtr::null(),
            query_factors: DevicePtr::null(),
            lists: DevicePtr::null(),
            tests: DevicePtr::null(),
            candidates: candidates.output(),
            estimated_hits: DevicePtrMut::null(),
        };
        // SAFETY: the sizes of the arrays are checked, and the scratch has room for `len` queries. This stream
        // allocated the arrays and the scratch, and frees them in its order, or the slot array is kept until the marked
        // graph has no readers. The graph is upheld by the caller.
        let launched = unsafe {
            let quantized =
                scratch.as_mut().map_or(Ok(()), |scratch| scratch.quantize(stream, len, &mut pointers));
            let streams = LaunchStreams { stream, rerank_stream: None, scratch: &mut product };
            quantized.and_then(|()| launch.enqueue(streams, &slot_array, len, pointers))
        };
        launched.map_err(SearchError::device)
    };
    let launched = (0..count).step_by(chunk_len.max(1)).try_for_each(&mut enqueue);
    // A wait that began meanwhile did not wait for these. All that they read is held until here.
    graph.mark_async_reader();
    launched
}

/// Temporary memory between the launches of a quantized search. Each call has its own, so that searches in different
/// streams run concurrently.
struct Scratch<'a, S: Stream> {
    element: ElementKind,
    quantizer: &'a DeviceQuantizer<S>,
    /// Queries per chunk.
    queries: usize,
    codes: QueryCodes<S>,
    rerank_costs: S::Buffer<u32>,
    candidates: S::Buffer<u32>,
    estimated_hits: S::Buffer<DeviceHit>,
}

impl<'a, S: Stream> Scratch<'a, S> {
    /// Allocates memory for all `count` queries or, if that would be more than `bytes`, for chunks of about equal
    /// length. `None` for a search with exact distances.
    fn new(
        launch: &SearchLaunch<'a, S>,
        stream: &S,
        count: usize,
        bytes: usize,
    ) -> Result<Option<Self>, S::Error> {
        let Some(quantizer) = launch.codes().map(|codes| &codes.on_device) else { return Ok(None) };
        let one = launch.sizes(1);
        let words = quantizer.levels_words() + one.rerank_costs + one.candidates;
        let left = words * size_of::<u32>()
            + size_of::<QueryFactors>()
            + one.estimated_hits * size_of::<DeviceHit>();
        let each = left + quantizer.scratch_bytes(1);
        let chunks = count.div_ceil((bytes / each).max(1)).max(1);
        let queries = count.div_ceil(chunks);
        let sizes = launch.sizes(queries);
        Ok(Some(Self {
            element: launch.element(),
            quantizer,
            queries,
            codes: quantizer.query_codes(stream, queries)?,
            rerank_costs: stream.allocate(sizes.rerank_costs)?,
            candidates: stream.allocate(sizes.candidates)?,
            estimated_hits: stream.allocate(sizes.estimated_hits)?,
        }))
    }

    /// Queues the quantization of the first `len` queries of `pointers`, and sets the pointers to this memory.
    ///
    /// # Safety
    /// The queries are valid until the launches are complete, and this memory is not used before then.
    unsafe fn quantize(
        &mut self,
        stream: &S,
        len: usize,
        pointers: &mut LaunchPointers,
    ) -> Result<(), S::Error> {
        // SAFETY: upheld by the caller; rows have the length of the graph's.
        unsafe {
            self.quantizer.encode_queries(stream, self.element, pointers.queries, len, &mut self.codes)?;
        }
        pointers.levels = self.codes.levels.input();
        pointers.query_factors = self.codes.query_factors.input();
        pointers.rerank_costs = self.rerank_costs.output();
        pointers.candidates = self.candidates.output();
        pointers.estimated_hits = self.estimated_hits.output();
        Ok(())
    }
}
