//! The launch of a search: a beam search of the graph, or an exact scan.
//!
//! A search with exact distances is one kernel. A quantized search is two launches: a beam search by estimated
//! distances, which writes the nearest `rerank` vertices of each query as candidates, then a search of the candidates
//! by exact distances. Where vectors are in host memory, the second runs in a rerank stream of high priority, in small
//! parts: that stream waits for the first launch, and the search's stream waits for the rerank, so that synchronizing
//! the search's stream synchronizes both.

use std::sync::Arc;

use gpu_kernels::codes::QueryTerms;
use gpu_kernels::encode::DeviceQuantizer;
use gpu_kernels::graph::GraphArgs;
use gpu_kernels::search::{
    DeviceHit, MAX_BEAM_WIDTH, QuantizedSearch, QuantizedSearchArgs, Rerank, RerankStream, Search,
    SearchArgs, quantized_search,
};
use gpu_kernels::{Buffer as _, DevicePtr, DevicePtrMut, Kernel as _, Stream};
use jasper_core::{BitSet, Element};
use jasper_quant::Quantizer;
use jasper_vamana::{SearchError, SearchPlan, Strategy, TunedLaunch};

use super::config::{check_launch, default_code_launch, default_launch};
use crate::graph::{DeviceCodes, SlotFormat, bitmap_words};
use crate::{DeviceGraph, Error, MemorySpace};

/// Most entries of a frontier.
pub(crate) const MAX_FRONTIER: usize = MAX_BEAM_WIDTH as usize;
/// Queries per multiprocessor that are reranked at once from vectors in host memory: enough to saturate PCIe, and few
/// enough to leave most of the device to searches.
const RERANKED_PER_MULTIPROCESSOR: u32 = 2;
/// Up to this many queries the host quantizes faster than the device could begin to.
const MAX_QUANTIZED_ON_HOST: usize = 2;

/// What the launches of all chunks have in common.
pub(crate) struct SearchLaunch<'a, T: Element, S: Stream> {
    graph: &'a DeviceGraph<T, S>,
    k: u32,
    beam_width: u32,
    config: TunedLaunch,
    /// The slots that are searched, if these are not the live ones: those of a bitmap may be results of a beam search,
    /// those of a list are scanned.
    slots: Option<(SlotFormat, &'a BitSet)>,
    /// How many candidates of a quantized search get exact distances; `None` for exact distances throughout.
    rerank: Option<u32>,
}

/// The slots of a [`SearchLaunch`] on the device; `None` if these are the live ones.
pub(crate) struct SlotArray<S: Stream>(Option<Arc<S::Buffer<u32>>>);

/// Pointers to the inputs and outputs of a launch.
#[derive(Clone, Copy)]
pub(crate) struct LaunchPointers<T> {
    /// `[queries][padded dimension]`
    pub(crate) queries: DevicePtr<T>,
    /// `[queries][k]`
    pub(crate) results: DevicePtrMut<DeviceHit>,
    /// `[queries][2]`: vertices expanded and distances computed.
    pub(crate) costs: DevicePtrMut<u32>,
    /// `[queries][2]`: the same for the rerank.
    pub(crate) rerank_costs: DevicePtrMut<u32>,
    /// `[queries][words]`: levels of quantized queries.
    pub(crate) levels: DevicePtr<u32>,
    /// `[queries]`: scalar terms of quantized queries.
    pub(crate) terms: DevicePtr<QueryTerms>,
    /// `[queries][rerank]`: slots to rerank.
    pub(crate) candidates: DevicePtrMut<u32>,
    /// `[queries][k]`: results after the candidates, by estimated distances.
    pub(crate) fallback: DevicePtrMut<DeviceHit>,
}

/// Where the queries of a chunk are quantized. Both give the same codes.
pub(crate) enum QueryQuantizer<'a, S: Stream> {
    /// On the host.
    Host(&'a dyn Quantizer),
    /// On the device.
    Device(&'a DeviceQuantizer<S>),
}

/// Lengths of the arrays of [`LaunchPointers`]; levels and terms are empty if the device quantizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferSizes {
    pub(crate) queries: usize,
    pub(crate) results: usize,
    pub(crate) costs: usize,
    pub(crate) rerank_costs: usize,
    pub(crate) levels: usize,
    pub(crate) terms: usize,
    pub(crate) candidates: usize,
    pub(crate) fallback: usize,
}

impl<'a, T: Element, S: Stream> SearchLaunch<'a, T, S> {
    /// The launch for `queries` queries: a beam search, or a scan if that is the plan. `allowed` computes the slots
    /// that may be results; it is called if these are not the live ones.
    ///
    /// # Errors
    /// [`SearchError::Launch`]: the plan's launch configuration is invalid.
    pub(crate) fn new(
        plan: &SearchPlan<'_, T>,
        graph: &'a DeviceGraph<T, S>,
        allowed: impl Fn() -> &'a BitSet,
        multiprocessors: u32,
        queries: usize,
    ) -> Result<Self, SearchError> {
        plan.params.launch.map_or(Ok(()), check_launch)?;
        let Strategy::Beam(width) = plan.strategy else {
            return Ok(Self::scan(plan, graph, allowed(), multiprocessors, queries));
        };
        let rerank = plan.rerank.map(|rerank| rerank.min(width) as u32);
        let row_bytes = graph.args().shape.row_bytes();
        let config = plan.params.launch.unwrap_or_else(|| match rerank {
            Some(_) => default_code_launch(queries, multiprocessors, row_bytes, width),
            None => default_launch(queries, multiprocessors, row_bytes),
        });
        let slots = plan.params.filter.is_some().then(|| (SlotFormat::Bitmap, allowed()));
        let k = plan.params.k;
        // In a small graph the plan's frontier may be narrower than k.
        Ok(Self { graph, k: k as u32, beam_width: width.max(k) as u32, config, slots, rerank })
    }

    /// An exact scan of the slots in `matching`; by codes if the graph has no vectors.
    pub(crate) fn scan(
        plan: &SearchPlan<'_, T>,
        graph: &'a DeviceGraph<T, S>,
        matching: &'a BitSet,
        multiprocessors: u32,
        queries: usize,
    ) -> Self {
        let k = plan.params.k as u32;
        let rerank = (!graph.has_vectors()).then_some(0);
        // No slot is visited twice: no visited cache.
        let config = TunedLaunch {
            visited_slots: 0,
            ..default_launch(queries, multiprocessors, graph.args().shape.row_bytes())
        };
        Self { graph, k, beam_width: k, config, slots: Some((SlotFormat::List, matching)), rerank }
    }

    /// The codes of a quantized search.
    pub(crate) fn codes(&self) -> Option<&'a DeviceCodes<S>> {
        self.rerank.and(self.graph.codes.as_ref())
    }

    /// Where `queries` queries in host memory are quantized; `None` if the search is not quantized.
    pub(crate) fn query_quantizer(&self, queries: usize) -> Option<QueryQuantizer<'a, S>> {
        let codes = self.codes()?;
        Some(match queries <= MAX_QUANTIZED_ON_HOST {
            true => QueryQuantizer::Host(codes.quantizer()),
            false => QueryQuantizer::Device(&codes.on_device),
        })
    }

    /// The lengths of the arrays for `queries` queries.
    pub(crate) fn sizes(&self, queries: usize) -> BufferSizes {
        let rerank = self.rerank.unwrap_or(0) as usize;
        let of = |is_wanted: bool, each: usize| if is_wanted { queries * each } else { 0 };
        let quantized_on_host = of(matches!(self.query_quantizer(queries), Some(QueryQuantizer::Host(_))), 1);
        BufferSizes {
            queries: queries * self.row_len(),
            results: queries * self.k(),
            costs: queries * 2,
            rerank_costs: of(rerank > 0, 2),
            levels: quantized_on_host * self.codes().map_or(0, |codes| codes.on_device.levels_words()),
            terms: quantized_on_host,
            candidates: queries * rerank,
            fallback: of(rerank > 0, self.k()),
        }
    }

    /// Results per query.
    pub(crate) fn k(&self) -> usize {
        self.k as usize
    }

    /// Whether the rerank runs in a stream of its own: for vectors in host memory, and batches large enough that other
    /// chunks are searched meanwhile.
    pub(crate) fn uses_rerank_stream(&self) -> bool {
        self.rerank.is_some_and(|len| len > 0)
            && self.graph.vectors() == MemorySpace::Host
            && self.config.warps == 1
    }

    /// Elements from one query to the next, with padding.
    pub(crate) fn row_len(&self) -> usize {
        self.graph.row_len()
    }

    /// Copies the slots to the device, in the order of `stream`.
    pub(crate) fn upload_slots(&self, stream: &S) -> Result<SlotArray<S>, S::Error> {
        let Some((format, slots)) = self.slots else { return Ok(SlotArray(None)) };
        Ok(SlotArray(Some(Arc::new(stream.upload(&self.slot_words(format, slots))?))))
    }

    /// [`Self::upload_slots`]; those of a filter by keys stay on the device for later searches. The launch must be
    /// complete before the result is dropped.
    pub(crate) fn kept_slots(&self, stream: &S, plan: &SearchPlan<'_, T>) -> Result<SlotArray<S>, S::Error> {
        let (Some(filtered), Some((format, slots))) = (&plan.filtered, self.slots) else {
            return self.upload_slots(stream);
        };
        let bitmap_len = self.graph.slots().div_ceil(32);
        let len = if format == SlotFormat::Bitmap { bitmap_len } else { slots.len() };
        // A list that is longer than the bitmap is not worth its memory.
        if len > bitmap_len {
            return self.upload_slots(stream);
        }
        let words = || self.slot_words(format, slots);
        Ok(SlotArray(Some(self.graph.filters.get(stream, filtered, format, len, words)?)))
    }

    fn slot_words(&self, format: SlotFormat, slots: &BitSet) -> Vec<u32> {
        match format {
            SlotFormat::Bitmap => bitmap_words(slots, self.graph.slots()),
            SlotFormat::List => slots.iter().map(|slot| slot as u32).collect(),
        }
    }

    /// Queues the search of `queries` queries in `stream`. The rerank runs in `rerank_stream` if there is one, after
    /// the search; later work in `stream` waits for it. See [`Self::uses_rerank_stream`].
    ///
    /// # Safety
    /// - The pointers are to arrays of the documented shapes on the stream's device, which are not used or freed before
    ///   the launches are complete. The queries are written.
    /// - The graph is uploaded, and lives until the launches are complete.
    /// - `slot_array` is from [`Self::upload_slots`] or [`Self::kept_slots`]; its contents are complete on the device.
    pub(crate) unsafe fn enqueue(
        &self,
        stream: &S,
        rerank_stream: Option<&S>,
        slot_array: &SlotArray<S>,
        queries: usize,
        pointers: LaunchPointers<T>,
    ) -> Result<(), S::Error> {
        let slots = slot_array.0.as_ref().map_or(DevicePtr::null(), |slots| slots.input());
        let len = slot_array.0.as_ref().map_or(0, |slots| slots.len()) as u32;
        let whole = self.graph.args();
        let (graph, allowed, max_hops) = match self.slots.map(|(format, _)| format) {
            None => (whole, self.graph.live(), u32::MAX),
            Some(SlotFormat::Bitmap) => (whole, slots, u32::MAX),
            Some(SlotFormat::List) => {
                (GraphArgs { start_points: slots, start_points_len: len, ..whole }, DevicePtr::null(), 0)
            }
        };
        let args = SearchArgs {
            graph,
            queries: pointers.queries.cast(),
            allowed,
            results: pointers.results,
            costs: pointers.costs,
            queries_len: queries as u32,
            k: self.k,
            max_hops,
            ..search_args(self.graph, self.beam_width, self.config)
        };
        // SAFETY: the graph's arrays have the shapes that its arguments say, slot arrays hold slots of the graph, and
        // the rest is the caller's promise.
        unsafe {
            let Some(codes) = self.codes() else {
                return stream.launch(&search_kernel(self.graph, self.beam_width, self.config), args);
            };
            let rerank = Rerank {
                len: self.rerank.unwrap_or(0),
                candidates: pointers.candidates,
                fallback: pointers.fallback,
                costs: pointers.rerank_costs,
                rerank_stream: rerank_stream.map(|stream| {
                    let queries_per_launch = RERANKED_PER_MULTIPROCESSOR * stream.multiprocessors();
                    RerankStream { stream, queries_per_launch }
                }),
            };
            let codes = codes.args(pointers.levels, pointers.terms);
            let args = QuantizedSearchArgs { search: args, codes };
            quantized_search(stream, args, rerank, T::KIND, self.config.warps)
        }
    }
}

/// The kernel of a search by exact distances.
pub(crate) fn search_kernel<T: Element, S: Stream>(
    graph: &DeviceGraph<T, S>,
    beam_width: u32,
    config: TunedLaunch,
) -> Search {
    Search::for_rows(
        T::KIND,
        graph.form().measure(),
        graph.args().shape.row_bytes(),
        beam_width,
        config.warps,
    )
}

/// The arguments of a search for one query, without pointers to queries and results.
pub(crate) fn search_args<T: Element, S: Stream>(
    graph: &DeviceGraph<T, S>,
    beam_width: u32,
    config: TunedLaunch,
) -> SearchArgs {
    SearchArgs {
        graph: graph.args(),
        queries: DevicePtr::null(),
        query_rows: DevicePtr::null(),
        allowed: DevicePtr::null(),
        results: DevicePtrMut::null(),
        fallback: DevicePtr::null(),
        candidates: DevicePtrMut::null(),
        costs: DevicePtrMut::null(),
        expanded: DevicePtrMut::null(),
        queries_len: 1,
        k: 1,
        beam_width,
        max_hops: u32::MAX,
        expansions: config.expansions,
        visited_slots: config.visited_slots,
        start_points_stride: 0,
        candidates_len: 0,
        form: graph.form(),
    }
}

/// Checks that searches with frontiers of `beam_width` entries fit into `available` bytes of shared memory per block,
/// whatever the size of the batch.
///
/// # Errors
/// [`Error::RowTooLong`].
pub(crate) fn check_shared_memory<T: Element, S: Stream>(
    graph: &DeviceGraph<T, S>,
    beam_width: usize,
    available: u32,
) -> Result<(), Error> {
    let beam_width = beam_width as u32;
    let shared = |config: TunedLaunch| {
        let search = search_args(graph, beam_width, config);
        let quantized = graph.codes.as_ref().map_or(0, |codes| {
            let codes = codes.args(DevicePtr::null(), DevicePtr::null());
            let kernel =
                QuantizedSearch::for_codes(&codes.shape, codes.level_bytes, beam_width, config.warps);
            kernel.launch(&QuantizedSearchArgs { search, codes }).shared
        });
        search_kernel(graph, beam_width, config).launch(&search).shared.max(quantized)
    };
    let row_bytes = graph.args().shape.row_bytes();
    let needed =
        shared(default_launch(1, 1, row_bytes)).max(shared(default_launch(usize::MAX, 1, row_bytes)));
    if needed <= available { Ok(()) } else { Err(Error::RowTooLong { row_bytes, needed, available }) }
}
