//! The launch of a search: a beam search of the graph, or an exact scan.
//!
//! A scan computes the distances of all vertices that may be returned. It is a matrix product (GEMM) of their vectors
//! with all queries, or a search for each query whose start points are these vertices, or for few queries several
//! searches, each of a part of them.
//!
//! If each query has a filter of its own, a table says for each query which slots it scans, or which ones a beam search may
//! return.
//!
//! A search with exact distances is one kernel. A quantized search is two launches: a beam search by estimated
//! distances, which writes the nearest `rerank` vertices of each query as candidates, then a search of the candidates
//! by exact distances. Where vectors are in host memory, the second runs in a rerank stream of high priority, a few
//! queries at a time: that stream waits for the first launch, and the search's stream waits for the rerank, so that
//! synchronizing the search's stream synchronizes both.

use std::sync::Arc;

use gpu_kernels::bits::SlotList;
use gpu_kernels::codes::QueryFactors;
use gpu_kernels::encode::DeviceQuantizer;
use gpu_kernels::graph::GraphArgs;
use gpu_kernels::knn::{ProductScratch, nearest_slots};
use gpu_kernels::search::{
    BeamArgs, CandidateArgs, DeviceHit, FilterArgs, ListPart, QuantizedSearch, QuantizedSearchArgs, Rerank,
    RerankStream, Search, SearchArgs, SlotTest, StartArgs, quantized_search, scan_in_parts,
};
use gpu_kernels::{Buffer as _, DevicePtr, DevicePtrMut, Kernel as _, Stream};
use jasper_core::{BitSet, ElementKind};
use jasper_quant::Quantizer;
use jasper_vamana::{BeamSize, LaunchParams, SearchError, SearchPlan, Strategy};

use super::params::{check_launch, default_launch, default_quantized_launch, long_scan_parts, scan_parts};
use crate::graph::{CodeTable, KernelGraph, SearchTables, SlotFormat, bitmap_words};
use crate::{DeviceGraph, ErrorKind, MemorySpace};

/// Queries per multiprocessor that are reranked at once from vectors in host memory: enough to saturate PCIe, and few
/// enough to leave most of the device to searches.
const RERANKED_PER_MULTIPROCESSOR: u32 = 2;
/// For at most this many queries, quantizing on the host takes less time than a launch.
const MAX_QUANTIZED_ON_HOST: usize = 2;

/// Most bytes of the gathered rows of a product, of its queries and of their lists: several times what keeps a device
/// busy.
pub(super) const PRODUCT_BYTES: usize = 16 << 20;

/// What the launches of all chunks have in common.
pub(crate) struct SearchLaunch<'a, S: Stream> {
    graph: &'a SearchTables<S>,
    k: u32,
    beam: BeamSize,
    launch: LaunchParams,
    strategy: LaunchStrategy<'a>,
    /// How many candidates of a quantized search get exact distances; `None` for exact distances throughout.
    rerank: Option<u32>,
}

/// How a launch searches.
#[derive(Clone, Copy, Debug)]
enum LaunchStrategy<'a> {
    /// A beam search of the graph. Slots in `allowed` may be results; without it, the live ones.
    Beam { allowed: Option<&'a BitSet> },
    /// A scan of `slots` by one search per query.
    ScanPerQuery { slots: &'a BitSet },
    /// A scan of `slots` by one search per query and part of the slots, of which there are at least two.
    ScanInParts { slots: &'a BitSet, parts: u32 },
    /// A scan of `slots` as a product with all queries.
    Product { slots: &'a BitSet },
    /// A beam search of the graph, where each query has tests for which slots may be results.
    BeamOfEach(OfEach),
    /// A scan of the slots in the lists of each query that pass its tests, in this many parts.
    ScanOfEach(OfEach, u32),
}

/// What each query of a launch has for itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OfEach {
    /// Parts of its list.
    pub(crate) lists: usize,
    /// Tests of slots.
    pub(crate) tests: usize,
    /// The length of the longest list.
    pub(crate) longest: usize,
    /// The slots of which the host decides, as a bitmap.
    pub(crate) changed: Option<DevicePtr<u32>>,
    /// The slots that tests know, as a number of words of a bitmap.
    pub(crate) tested_words: usize,
}

/// The slots of a [`SearchLaunch`] on the device; `None` if all live slots are meant, or those of each query.
pub(crate) struct SlotArray<S: Stream> {
    slots: Option<Arc<S::Buffer<u32>>>,
    /// What the slots are listed from, which another stream may have allocated.
    _bitmap: Option<Arc<S::Buffer<u32>>>,
    /// Whether slots of each query were uploaded.
    is_of_each: bool,
}

impl<S: Stream> SlotArray<S> {
    /// No array. If slots of each query were `uploaded`, the launches lead to them.
    pub(crate) fn of_each(uploaded: bool) -> Self {
        Self { slots: None, _bitmap: None, is_of_each: uploaded }
    }

    /// Whether all slots that launches read were there before.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_none() && !self.is_of_each
    }
}

/// Where a launch runs.
pub(crate) struct LaunchStreams<'a, S: Stream> {
    /// The stream of the search.
    pub(crate) stream: &'a S,
    /// Another of high priority for the rerank, if it is not to run in that of the search.
    pub(crate) rerank_stream: Option<&'a S>,
    /// Scratch memory of a product, allocated by the stream of the search.
    pub(crate) scratch: &'a mut ProductScratch<S>,
}

/// Pointers to the inputs and outputs of a launch.
#[derive(Clone, Copy)]
pub(crate) struct LaunchPointers {
    /// `[queries][row_bytes]`
    pub(crate) queries: DevicePtr<u8>,
    /// `[queries][k]`
    pub(crate) results: DevicePtrMut<DeviceHit>,
    /// `[queries][2]`: vertices expanded and distances computed.
    pub(crate) costs: DevicePtrMut<u32>,
    /// `[queries][2]`: the same for the rerank.
    pub(crate) rerank_costs: DevicePtrMut<u32>,
    /// `[queries][words]`: levels of quantized queries.
    pub(crate) levels: DevicePtr<u32>,
    /// `[queries]`: factors of quantized queries.
    pub(crate) query_factors: DevicePtr<QueryFactors>,
    /// `[queries][lists]`: what each query scans, if they differ.
    pub(crate) lists: DevicePtr<ListPart>,
    /// `[queries][tests]`: which slots may be results of each query, if they differ.
    pub(crate) tests: DevicePtr<SlotTest>,
    /// `[queries][rerank]`: the slots whose distances the second launch computes.
    pub(crate) candidates: DevicePtrMut<u32>,
    /// `[queries][k]`: results after the candidates, by estimated distances, for the places that the rerank leaves.
    pub(crate) estimated_hits: DevicePtrMut<DeviceHit>,
}

/// Where the queries of a chunk are quantized. Both give the same codes.
pub(crate) enum QueryQuantizer<'a, S: Stream> {
    /// On the host.
    Host(&'a dyn Quantizer),
    /// On the device.
    Device(&'a DeviceQuantizer<S>),
}

/// Lengths of the arrays of [`LaunchPointers`]; levels and factors are empty if the device quantizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferSizes {
    pub(crate) queries: usize,
    pub(crate) results: usize,
    pub(crate) costs: usize,
    pub(crate) rerank_costs: usize,
    pub(crate) levels: usize,
    pub(crate) query_factors: usize,
    pub(crate) lists: usize,
    pub(crate) tests: usize,
    pub(crate) candidates: usize,
    pub(crate) estimated_hits: usize,
}

impl<'a, S: Stream> SearchLaunch<'a, S> {
    /// The launch for `queries` queries: a beam search, or a scan if that is the plan. `allowed` computes the slots
    /// that may be results; it is called if these are not the live ones.
    ///
    /// # Errors
    /// Returns [`SearchError::Launch`] if the plan's launch parameters are invalid.
    pub(crate) fn new(
        plan: &SearchPlan<'_>,
        graph: &'a SearchTables<S>,
        allowed: impl Fn() -> &'a BitSet,
        multiprocessors: u32,
        queries: usize,
    ) -> Result<Self, SearchError> {
        plan.params.launch.map_or(Ok(()), check_launch)?;
        let Strategy::Beam(beam) = plan.strategy else {
            return Ok(Self::scan(plan, graph, allowed(), multiprocessors, queries));
        };
        let strategy = LaunchStrategy::Beam { allowed: plan.params.filter.is_some().then(allowed) };
        Ok(Self::beam(plan, beam, strategy, graph, multiprocessors, queries))
    }

    /// The launch for `queries` queries that have filters of their own, all of which are searched for as `strategy` says. Of
    /// `plan`, that of any of them, only what all have in common is read.
    ///
    /// # Errors
    /// Returns [`SearchError::Launch`] if the plan's launch parameters are invalid.
    pub(crate) fn with_filters(
        plan: &SearchPlan<'_>,
        strategy: Strategy,
        graph: &'a SearchTables<S>,
        of_each: OfEach,
        multiprocessors: u32,
        queries: usize,
    ) -> Result<Self, SearchError> {
        plan.params.launch.map_or(Ok(()), check_launch)?;
        let Strategy::Beam(beam) = strategy else {
            let parts = if graph.has_vectors() {
                long_scan_parts(of_each.longest, plan.params.k, queries, multiprocessors)
            } else {
                1
            };
            let strategy = LaunchStrategy::ScanOfEach(of_each, parts);
            return Ok(Self::of_scan(plan, strategy, graph, multiprocessors, queries));
        };
        Ok(Self::beam(plan, beam, LaunchStrategy::BeamOfEach(of_each), graph, multiprocessors, queries))
    }

    fn beam(
        plan: &SearchPlan<'_>,
        beam: BeamSize,
        strategy: LaunchStrategy<'a>,
        graph: &'a SearchTables<S>,
        multiprocessors: u32,
        queries: usize,
    ) -> Self {
        let rerank = plan.rerank.map(|rerank| rerank.min(beam.frontier_len) as u32);
        let row_bytes = graph.row_bytes();
        let launch = plan.params.launch.unwrap_or_else(|| match rerank {
            Some(_) => default_quantized_launch(queries, multiprocessors, row_bytes, beam.width),
            None => default_launch(queries, multiprocessors, row_bytes),
        });
        let k = plan.params.k;
        // In a small graph the plan's frontier may be shorter than k.
        let beam = BeamSize { frontier_len: beam.frontier_len.max(k), ..beam };
        Self { graph, k: k as u32, beam, launch, strategy, rerank }
    }

    /// An exact scan of the slots in `allowed`; by codes if the graph has no vectors.
    fn scan(
        plan: &SearchPlan<'_>,
        graph: &'a SearchTables<S>,
        allowed: &'a BitSet,
        multiprocessors: u32,
        queries: usize,
    ) -> Self {
        let slots = allowed;
        let strategy = if !graph.has_vectors() {
            LaunchStrategy::ScanPerQuery { slots }
        } else if plan.prefers_product(queries, slots.len()) {
            LaunchStrategy::Product { slots }
        } else {
            match scan_parts(slots.len(), plan.params.k, queries, multiprocessors) {
                1 => LaunchStrategy::ScanPerQuery { slots },
                parts => LaunchStrategy::ScanInParts { slots, parts },
            }
        };
        Self::of_scan(plan, strategy, graph, multiprocessors, queries)
    }

    fn of_scan(
        plan: &SearchPlan<'_>,
        strategy: LaunchStrategy<'a>,
        graph: &'a SearchTables<S>,
        multiprocessors: u32,
        queries: usize,
    ) -> Self {
        let k = plan.params.k as u32;
        let rerank = (!graph.has_vectors()).then_some(0);
        // No slot is visited twice: no visited cache.
        let launch = LaunchParams {
            visited_buckets: 0,
            ..default_launch(queries, multiprocessors, graph.row_bytes())
        };
        Self { graph, k, beam: BeamSize::new(plan.params.k), launch, strategy, rerank }
    }

    /// The codes of a quantized search.
    pub(crate) fn codes(&self) -> Option<&'a CodeTable<S>> {
        self.rerank.and(self.graph.codes.as_ref())
    }

    /// Where `queries` queries in host memory are quantized; `None` if the search is not quantized.
    pub(crate) fn query_quantizer(&self, queries: usize) -> Option<QueryQuantizer<'a, S>> {
        let codes = self.codes()?;
        Some(if queries <= MAX_QUANTIZED_ON_HOST {
            QueryQuantizer::Host(codes.quantizer())
        } else {
            QueryQuantizer::Device(&codes.on_device)
        })
    }

    /// The lengths of the arrays for `queries` queries.
    pub(crate) fn sizes(&self, queries: usize) -> BufferSizes {
        let rerank = self.rerank.unwrap_or(0) as usize;
        let of = |is_wanted: bool, each: usize| if is_wanted { queries * each } else { 0 };
        let quantized_on_host = of(matches!(self.query_quantizer(queries), Some(QueryQuantizer::Host(_))), 1);
        BufferSizes {
            queries: queries * self.row_bytes(),
            results: queries * self.k(),
            costs: queries * 2,
            rerank_costs: of(rerank > 0, 2),
            levels: quantized_on_host * self.codes().map_or(0, |codes| codes.on_device.levels_words()),
            query_factors: quantized_on_host,
            lists: queries * self.of_each().lists,
            tests: queries * self.of_each().tests,
            candidates: queries * rerank.max(self.part_candidates()),
            estimated_hits: of(rerank > 0, self.k()),
        }
    }

    /// Candidates per query of a scan in parts.
    fn part_candidates(&self) -> usize {
        match self.strategy {
            LaunchStrategy::ScanInParts { parts, .. } | LaunchStrategy::ScanOfEach(_, parts) if parts > 1 => {
                parts as usize * self.k()
            }
            _ => 0,
        }
    }

    /// What each query has for itself.
    pub(crate) fn of_each(&self) -> OfEach {
        match self.strategy {
            LaunchStrategy::BeamOfEach(of_each) | LaunchStrategy::ScanOfEach(of_each, _) => of_each,
            _ => OfEach::default(),
        }
    }

    /// Whether all vertices that may be returned are compared with a query.
    pub(crate) fn is_scan(&self) -> bool {
        !matches!(self.strategy, LaunchStrategy::Beam { .. } | LaunchStrategy::BeamOfEach(_))
    }

    /// Whether the costs that the device reports are without the distances to the slots of each query.
    pub(crate) fn leaves_out_distances(&self) -> bool {
        matches!(self.strategy, LaunchStrategy::ScanOfEach(_, parts) if parts > 1)
    }

    /// Whether all queries are compared with all slots by a product.
    pub(crate) fn is_product(&self) -> bool {
        matches!(self.strategy, LaunchStrategy::Product { .. })
    }

    /// Results per query.
    pub(crate) fn k(&self) -> usize {
        self.k as usize
    }

    /// Whether the rerank runs in a stream of its own: for vectors in host memory, and batches large enough that other
    /// chunks are searched meanwhile.
    pub(crate) fn uses_rerank_stream(&self) -> bool {
        self.rerank.is_some_and(|len| len > 0)
            && self.graph.vector_storage() == MemorySpace::Host
            && self.launch.warps == 1
    }

    /// Bytes that a query takes in a chunk, or its quantization on the device, whichever is more.
    pub(crate) fn query_bytes(&self) -> usize {
        let quantized = self.codes().map_or(0, |codes| codes.on_device.scratch_bytes(1));
        quantized.max(self.row_bytes())
    }

    /// Type of a coordinate.
    pub(crate) fn element(&self) -> ElementKind {
        self.graph.element()
    }

    /// Bytes from one query to the next, with padding.
    pub(crate) fn row_bytes(&self) -> usize {
        self.graph.row_bytes() as usize
    }

    /// The slots on the device, complete in the order of `stream`. Those of a filter by keys stay there for later
    /// searches: the launch must be complete before the result is dropped, unless the graph is marked as having
    /// asynchronous readers.
    pub(crate) fn slots(&self, stream: &S, plan: &SearchPlan<'_>) -> Result<SlotArray<S>, S::Error> {
        let (wanted, slots) = match self.strategy {
            LaunchStrategy::Beam { allowed: None }
            | LaunchStrategy::BeamOfEach(_)
            | LaunchStrategy::ScanOfEach(..) => return Ok(SlotArray::of_each(false)),
            LaunchStrategy::Beam { allowed: Some(slots) } => (SlotFormat::Bitmap, slots),
            LaunchStrategy::ScanPerQuery { slots }
            | LaunchStrategy::ScanInParts { slots, .. }
            | LaunchStrategy::Product { slots } => (SlotFormat::List, slots),
        };
        // A list that is longer than the bitmap is made from that by each call, and not copied or kept.
        let bitmap_len = self.graph.bitmap_len();
        let format = if slots.len() > bitmap_len { SlotFormat::Bitmap } else { wanted };
        let len = if format == SlotFormat::Bitmap { bitmap_len } else { slots.len() };
        let words = || self.slot_words(format, slots);
        let array = match &plan.key_filter_slots {
            Some(allowed) => {
                let readers = &*self.graph.async_readers;
                self.graph.filters.get(stream, readers, allowed, format, len, words)?
            }
            None => Arc::new(stream.upload(&words())?),
        };
        if format == wanted {
            return Ok(SlotArray { slots: Some(array), _bitmap: None, is_of_each: false });
        }
        // SAFETY: the bitmap is that of the slots, none of which is past its end. It is kept with the list.
        let list = unsafe { SlotList::list_all(stream, &array, slots.len())? };
        Ok(SlotArray { slots: Some(Arc::new(list)), _bitmap: Some(array), is_of_each: false })
    }

    fn slot_words(&self, format: SlotFormat, slots: &BitSet) -> Vec<u32> {
        match format {
            SlotFormat::Bitmap => bitmap_words(slots, self.graph.bitmap_len()),
            SlotFormat::List => slots.iter().map(|slot| slot as u32).collect(),
        }
    }

    /// Queues the search of `queries` queries. The rerank runs in its own stream if there is one, after the search;
    /// later work in the stream of the search waits for it. See [`Self::uses_rerank_stream`].
    ///
    /// # Safety
    /// - The pointers are to arrays of the documented shapes on the stream's device, which are not used or freed before
    ///   the launches are complete, but for atomic loads of results. The queries are written.
    /// - The graph is uploaded, and lives until the launches are complete.
    /// - `slot_array` is from [`Self::slots`] with the stream of the search, or another that was synchronized since.
    ///   The stream of the search has allocated the scratch memory.
    pub(crate) unsafe fn enqueue(
        &self,
        streams: LaunchStreams<'_, S>,
        slot_array: &SlotArray<S>,
        queries: usize,
        pointers: LaunchPointers,
    ) -> Result<(), S::Error> {
        let LaunchStreams { stream, rerank_stream, scratch } = streams;
        let slots = slot_array.slots.as_ref().map_or(DevicePtr::null(), |slots| slots.input());
        let len = slot_array.slots.as_ref().map_or(0, |slots| slots.len()) as u32;
        let whole = self.graph.args();
        let (graph, allowed, max_hops) = match self.strategy {
            LaunchStrategy::BeamOfEach(_) => (whole, DevicePtr::null(), u32::MAX),
            LaunchStrategy::ScanOfEach(..) => (whole, DevicePtr::null(), 0),
            LaunchStrategy::Beam { allowed: None } => (whole, self.graph.live(), u32::MAX),
            LaunchStrategy::Beam { allowed: Some(_) } => (whole, slots, u32::MAX),
            LaunchStrategy::ScanPerQuery { .. }
            | LaunchStrategy::ScanInParts { .. }
            | LaunchStrategy::Product { .. } => {
                (GraphArgs { start_points: slots, start_points_len: len, ..whole }, DevicePtr::null(), 0)
            }
        };
        let OfEach { lists, tests, changed, tested_words, .. } = self.of_each();
        let args = SearchArgs {
            graph,
            queries: pointers.queries,
            results: pointers.results,
            costs: pointers.costs,
            queries_len: queries as u32,
            k: self.k,
            beam: BeamArgs { max_hops, ..beam_args(self.beam, self.launch) },
            filter: FilterArgs {
                allowed,
                tests: if tests > 0 { pointers.tests } else { DevicePtr::null() },
                changed: changed.unwrap_or(DevicePtr::null()),
                tests_per_query: tests as u32,
                tested_slots: tested_words as u32 * 32,
            },
            start: StartArgs {
                lists: if lists > 0 { pointers.lists } else { DevicePtr::null() },
                lists_per_query: lists as u32,
                ..StartArgs::OF_GRAPH
            },
            ..search_args(&self.graph.input(), self.beam, self.launch)
        };
        let warps = self.launch.warps;
        // SAFETY: the graph's arrays have the shapes that its arguments say; slot arrays hold slots of the graph,
        // ascending; and the rest is upheld by the caller.
        unsafe {
            let Some(codes) = self.codes() else {
                return match self.strategy {
                    LaunchStrategy::Product { .. } => {
                        nearest_slots(stream, args, self.element(), warps, scratch)
                    }
                    LaunchStrategy::ScanInParts { parts, .. } | LaunchStrategy::ScanOfEach(_, parts)
                        if parts > 1 =>
                    {
                        scan_in_parts(stream, args, parts, pointers.candidates, self.element(), warps)
                    }
                    _ => stream.launch(
                        &search_kernel(&self.graph.input(), args.beam.frontier_len, self.launch),
                        args,
                    ),
                };
            };
            let rerank = Rerank {
                len: self.rerank.unwrap_or(0),
                candidates: pointers.candidates,
                estimated_hits: pointers.estimated_hits,
                costs: pointers.rerank_costs,
                rerank_stream: rerank_stream.map(|stream| {
                    let queries_per_launch = RERANKED_PER_MULTIPROCESSOR * stream.multiprocessors();
                    RerankStream { stream, queries_per_launch }
                }),
            };
            let codes = codes.args(pointers.levels, pointers.query_factors);
            let args = QuantizedSearchArgs { search: args, codes };
            quantized_search(stream, args, rerank, self.element(), warps)
        }
    }
}

/// The kernel of a search by exact distances.
pub(crate) fn search_kernel(graph: &KernelGraph, frontier_len: u32, launch: LaunchParams) -> Search {
    let (op, row_bytes) = (graph.form.op(), graph.args.shape.row_bytes());
    Search::for_rows(graph.element, op, row_bytes, frontier_len, launch.warps)
}

/// The arguments of a search for one query, without pointers to queries and results.
pub(crate) fn search_args(graph: &KernelGraph, beam: BeamSize, launch: LaunchParams) -> SearchArgs {
    SearchArgs {
        graph: graph.args,
        queries: DevicePtr::null(),
        query_rows: DevicePtr::null(),
        results: DevicePtrMut::null(),
        costs: DevicePtrMut::null(),
        queries_len: 1,
        k: 1,
        form: graph.form,
        beam: beam_args(beam, launch),
        filter: FilterArgs::ALL,
        start: StartArgs::OF_GRAPH,
        candidates: CandidateArgs::NONE,
    }
}

/// A beam that is expanded to its end.
fn beam_args(beam: BeamSize, launch: LaunchParams) -> BeamArgs {
    BeamArgs {
        expanded_entries: DevicePtrMut::null(),
        width: beam.width as u32,
        frontier_len: beam.frontier_len as u32,
        max_hops: u32::MAX,
        expansions: launch.expansions,
        visited_buckets: launch.visited_buckets,
    }
}

/// Checks that searches with frontiers of `frontier_len` entries fit into `available` bytes of shared memory per block,
/// whatever the size of the batch.
///
/// # Errors
/// Returns [`ErrorKind::RowTooLong`].
pub(crate) fn check_shared_memory<S: Stream>(
    graph: &DeviceGraph<S>,
    frontier_len: usize,
    available: u32,
) -> Result<(), ErrorKind> {
    // The rows of a build by SQ8 distances, which has no others; otherwise the vectors.
    let input = graph.linking_input();
    let shared = |launch: LaunchParams| {
        let search = search_args(&input, BeamSize::new(frontier_len), launch);
        let quantized = graph.codes.as_ref().map_or(0, |codes| {
            let codes = codes.view().args(DevicePtr::null(), DevicePtr::null());
            let kernel = QuantizedSearch::for_codes(
                &codes.shape,
                codes.level_bytes,
                search.beam.frontier_len,
                launch.warps,
            );
            kernel.launch_config(&QuantizedSearchArgs { search, codes }).shared
        });
        search_kernel(&input, search.beam.frontier_len, launch).launch_config(&search).shared.max(quantized)
    };
    let row_bytes = input.args.shape.row_bytes();
    let needed =
        shared(default_launch(1, 1, row_bytes)).max(shared(default_launch(usize::MAX, 1, row_bytes)));
    if needed <= available { Ok(()) } else { Err(ErrorKind::RowTooLong { row_bytes, needed, available }) }
}
