//! One launch over the queries of a batch: the launch that every chunk of it makes.

use gpu_kernels::codes::QueryTerms;
use gpu_kernels::encode::DeviceQuantizer;
use gpu_kernels::graph::GraphArgs;
use gpu_kernels::search::{
    Answer, CodeSearch, CodeSearchArgs, MAX_BEAM_WIDTH, Rerank, RerankStream, Search, SearchArgs,
    search_by_estimates,
};
use gpu_kernels::{Buffer as _, DevicePtr, DevicePtrMut, Kernel as _, Stream};
use jasper_core::{BitSet, Element};
use jasper_quant::Quantizer;
use jasper_vamana::{SearchError, SearchParams, SearchPlan, Strategy, TunedLaunch};

use crate::graph::{DeviceCodes, words};
use crate::{DeviceGraph, Error, VectorStorage};

/// The widest frontier there is.
pub(crate) const MAX_FRONTIER: usize = MAX_BEAM_WIDTH as usize;
/// Warps of a team that scores short rows: a leader, and two or three workers for each vertex ahead (measured: docs, one
/// query on a GPU).
const TEAM: u32 = 8;
/// The same of long rows, if there are no more queries than multiprocessors: they fill one each.
const LONG_TEAM: u32 = 16;
/// Queries for each multiprocessor that teams take: one warp a query would leave most of the device idle.
const TEAMS_PER_MULTIPROCESSOR: u32 = 2;
/// Vertices whose neighbours a team scores at once.
const AHEAD: u32 = 3;
/// The same where rows are long, so that many warps have to share the neighbours of one vertex.
const LONG_AHEAD: u32 = 2;
/// Bytes of the shortest rows that are long: of these a warp has four in flight.
const LONG_ROW: u32 = 1 << 10;
/// LaunchPointers of the filter of seen ids where one warp takes a query: more would crowd others off the multiprocessor, fewer
/// forget too much (measured: docs, search on a GPU).
const VISITED_SLOTS: u32 = 1024;
/// The same where rows are not the shortest: a multiprocessor holds fewer searches anyway, and a distance that is worked out
/// twice costs more.
const LONG_VISITED_SLOTS: u32 = 2048;
/// Bytes of the rows from which on it is.
const LONG_FILTER_ROW: u32 = 192;
/// The same of searches by estimates with narrow beams, of which a multiprocessor holds more, and with wide ones.
const CODE_VISITED_SLOTS: u32 = 512;
const WIDE_CODE_VISITED_SLOTS: u32 = 1024;
/// The widest of the narrow ones.
const CODE_FILTER_WIDTH: usize = 64;
/// The same of a team, which has a larger share of the multiprocessor to itself.
const TEAM_VISITED_SLOTS: u32 = 4096;
/// Most pointers of the filter of seen ids.
const MOST_VISITED_SLOTS: u32 = 1 << 15;
/// Queries for each multiprocessor that get exact distances of vectors on the host at once: these keep the bus busy, and leave
/// most pointers to searches.
const RERANKED_PER_MULTIPROCESSOR: u32 = 2;
/// Queries that the host codes: sooner than the launches that code them on the device have begun.
const CODED_ON_HOST: usize = 2;
/// Most vertices expanded in one step.
const MOST_EXPANSIONS: u32 = 8;

/// How a device of so many multiprocessors shares a batch out, whose searches score rows of `row_bytes`, unless the search
/// says.
///
/// A team scores ahead of its turn and finds what one expansion after another does. One warp with several expansions a
/// step finds as much, but not the same: answers depend neither on the batch that a query comes in nor on the processor.
pub(crate) fn default_launch(queries: usize, multiprocessors: u32, row_bytes: u32) -> TunedLaunch {
    if queries > (TEAMS_PER_MULTIPROCESSOR * multiprocessors) as usize {
        let visited_slots = if row_bytes < LONG_FILTER_ROW { VISITED_SLOTS } else { LONG_VISITED_SLOTS };
        return TunedLaunch { warps: 1, expansions: 1, visited_slots };
    }
    let is_long = row_bytes >= LONG_ROW;
    TunedLaunch {
        warps: if is_long && queries <= multiprocessors as usize { LONG_TEAM } else { TEAM },
        expansions: if is_long { LONG_AHEAD } else { AHEAD },
        visited_slots: TEAM_VISITED_SLOTS,
    }
}

/// Whether kernels take a launch.
fn check(launch: TunedLaunch) -> Result<(), SearchError> {
    let TunedLaunch { warps, expansions, visited_slots } = launch;
    let refuse = |name, value, bound| Err(SearchError::Launch { name, value, bound });
    if warps == 0 {
        return refuse("warps", warps, "at least 1");
    }
    if !(1..=MOST_EXPANSIONS).contains(&expansions) {
        return refuse("expansions", expansions, "between 1 and 8");
    }
    let sound = visited_slots == 0
        || (32..=MOST_VISITED_SLOTS).contains(&visited_slots) && visited_slots.is_power_of_two();
    if sound {
        Ok(())
    } else {
        refuse("visited_slots", visited_slots, "0, or a power of two between 32 and 32768")
    }
}

/// What every chunk of a launch asks.
pub(crate) struct SearchLaunch<'a, T: Element, S: Stream> {
    graph: &'a DeviceGraph<T, S>,
    k: u32,
    beam_width: u32,
    launch: TunedLaunch,
    scope: Scope<'a>,
    /// Vertices are found by estimates, and so many of the nearest get exact distances.
    rerank: Option<u32>,
}

/// Which vertices a launch is about.
#[derive(Clone, Copy)]
enum Scope<'a> {
    /// Those that the graph leads to; the live ones may be answers.
    Live,
    /// Those that the graph leads to; the ones in a set may be answers.
    Allowed(&'a BitSet),
    /// The ones in a set alone, whatever leads to them.
    Scanned(&'a BitSet),
}

/// What a launch reads beside the graph: one array in the memory and the order of a stream, or none.
pub(crate) struct SlotArray<S: Stream>(Option<S::Buffer<u32>>);

/// Where the launches of a chunk read and write, all `[queries]...`.
#[derive(Clone, Copy)]
pub(crate) struct LaunchPointers<T> {
    /// `[queries][padded dimension]`
    pub(crate) queries: DevicePtr<T>,
    /// `[queries][k]`
    pub(crate) answers: DevicePtrMut<Answer>,
    /// `[queries][2]`: vertices expanded, and distances worked out.
    pub(crate) work: DevicePtrMut<u32>,
    /// `[queries][2]`: the same of a rerank.
    pub(crate) reranked: DevicePtrMut<u32>,
    /// `[queries][words]`: levels of coded queries.
    pub(crate) levels: DevicePtr<u32>,
    /// `[queries]`: what belongs to them.
    pub(crate) terms: DevicePtr<QueryTerms>,
    /// `[queries][rerank]`
    pub(crate) candidates: DevicePtrMut<u32>,
    /// `[queries][k]`: answers behind the candidates.
    pub(crate) rest: DevicePtrMut<Answer>,
}

/// Who codes the queries of a chunk, to the same codes.
pub(crate) enum Coder<'a, S: Stream> {
    /// The host, before they go to the device.
    Host(&'a dyn Quantizer),
    /// The device, once they are there.
    Device(&'a DeviceQuantizer<S>),
}

/// Elements of the parts of [`LaunchPointers`], for all queries of a chunk; of levels and terms, for those that the host codes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferSizes {
    pub(crate) queries: usize,
    pub(crate) answers: usize,
    pub(crate) work: usize,
    pub(crate) reranked: usize,
    pub(crate) levels: usize,
    pub(crate) terms: usize,
    pub(crate) candidates: usize,
    pub(crate) rest: usize,
}

impl<'a, T: Element, S: Stream> SearchLaunch<'a, T, S> {
    /// The first launch over `queries` queries: by the graph, or the scan that is all there is. `allowed` gives the slots
    /// that may be answers, and is asked where those are not just the live ones.
    pub(crate) fn first(
        plan: &SearchPlan<'_, T>,
        graph: &'a DeviceGraph<T, S>,
        allowed: impl Fn() -> &'a BitSet,
        multiprocessors: u32,
        queries: usize,
    ) -> Result<Self, SearchError> {
        let row_bytes = graph.args().row_bytes;
        let mut launch = plan.launch().unwrap_or_else(|| default_launch(queries, multiprocessors, row_bytes));
        check(launch)?;
        let Strategy::Beam(width) = plan.strategy() else {
            return Ok(Self::scan(plan, graph, allowed(), multiprocessors, queries));
        };
        let rerank = plan.rerank().map(|rerank| rerank.min(width) as u32);
        if rerank.is_some() && plan.launch().is_none() && launch.warps == 1 {
            launch.visited_slots =
                if width <= CODE_FILTER_WIDTH { CODE_VISITED_SLOTS } else { WIDE_CODE_VISITED_SLOTS };
        }
        let scope = if plan.is_filtered() { Scope::Allowed(allowed()) } else { Scope::Live };
        let k = plan.k();
        // In a small graph the frontier is narrower than the answers are many.
        Ok(Self { graph, k: k as u32, beam_width: width.max(k) as u32, launch, scope, rerank })
    }

    /// The nearest of the slots in `matching` to `queries` queries, by looking at all: at their codes where there is
    /// nothing else.
    pub(crate) fn scan(
        plan: &SearchPlan<'_, T>,
        graph: &'a DeviceGraph<T, S>,
        matching: &'a BitSet,
        multiprocessors: u32,
        queries: usize,
    ) -> Self {
        let k = plan.k() as u32;
        let rerank = (!graph.has_vectors()).then_some(0);
        // No slot comes twice.
        let launch = TunedLaunch {
            visited_slots: 0,
            ..default_launch(queries, multiprocessors, graph.args().row_bytes)
        };
        Self { graph, k, beam_width: k, launch, scope: Scope::Scanned(matching), rerank }
    }

    /// The codes that vertices are found by, unless it is by exact distances.
    pub(crate) fn codes(&self) -> Option<&'a DeviceCodes<S>> {
        self.rerank.and_then(|_| self.graph.codes())
    }

    /// Who codes so many queries that the host has; nobody, where vertices are found by exact distances.
    pub(crate) fn coder(&self, queries: usize) -> Option<Coder<'a, S>> {
        let codes = self.codes()?;
        Some(match queries <= CODED_ON_HOST {
            true => Coder::Host(codes.quantizer()),
            false => Coder::Device(codes.on_device()),
        })
    }

    /// What `queries` queries take.
    pub(crate) fn sizes(&self, queries: usize) -> BufferSizes {
        let rerank = self.rerank.unwrap_or(0) as usize;
        let of = |is_wanted: bool, each: usize| if is_wanted { queries * each } else { 0 };
        let coded_on_host = of(matches!(self.coder(queries), Some(Coder::Host(_))), 1);
        BufferSizes {
            queries: queries * self.row_len(),
            answers: queries * self.k(),
            work: queries * 2,
            reranked: of(rerank > 0, 2),
            levels: coded_on_host * self.codes().map_or(0, |codes| codes.on_device().levels_words()),
            terms: coded_on_host,
            candidates: queries * rerank,
            rest: of(rerank > 0, self.k()),
        }
    }

    /// Answers of each query.
    pub(crate) fn k(&self) -> usize {
        self.k as usize
    }

    /// Whether exact distances are worked out in a stream beside that of the search: of vectors on the host, where queries are
    /// so many that others are searched for meanwhile.
    pub(crate) fn uses_rerank_stream(&self) -> bool {
        self.rerank.is_some_and(|len| len > 0)
            && self.graph.vectors() == VectorStorage::Host
            && self.launch.warps == 1
    }

    /// Elements from query to query.
    pub(crate) fn row_len(&self) -> usize {
        self.graph.row_len()
    }

    /// Brings what launches in `stream` read beside the graph.
    pub(crate) fn upload_slots(&self, stream: &S) -> Result<SlotArray<S>, S::Error> {
        Ok(SlotArray(match self.scope {
            Scope::Live => None,
            Scope::Allowed(slots) => Some(stream.upload(&words(slots, self.graph.slots()))?),
            Scope::Scanned(slots) => {
                Some(stream.upload(&slots.iter().map(|slot| slot as u32).collect::<Vec<_>>())?)
            }
        }))
    }

    /// Queues the search of `queries` queries. Exact distances behind estimates are worked out `rerank_stream`, if there is such a
    /// stream; who has one gives it where the launch [goes there](Self::uses_rerank_stream).
    ///
    /// # Safety
    /// - The pointers are of the stream's device, as large as they say, and live until the launch has run; the queries are
    ///   written, and nobody else uses answers and work meanwhile.
    /// - The graph is uploaded, and lives until the launch has run.
    /// - What is beside it was brought to this stream by this launch.
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
        let (graph, allowed, max_hops) = match self.scope {
            Scope::Live => (whole, self.graph.live(), u32::MAX),
            Scope::Allowed(_) => (whole, slots, u32::MAX),
            Scope::Scanned(_) => {
                (GraphArgs { starts: slots, starts_len: len, ..whole }, DevicePtr::null(), 0)
            }
        };
        let args = SearchArgs {
            graph,
            queries: pointers.queries.cast(),
            query_rows: DevicePtr::null(),
            allowed,
            answers: pointers.answers,
            rest: DevicePtr::null(),
            candidates: DevicePtrMut::null(),
            work: pointers.work,
            log: DevicePtrMut::null(),
            queries_len: queries as u32,
            k: self.k,
            beam_width: self.beam_width,
            max_hops,
            expansions: self.launch.expansions,
            visited_slots: self.launch.visited_slots,
            starts_stride: 0,
            candidates_len: 0,
            form: self.graph.form(),
        };
        // SAFETY: the parts of the graph are as it says, sets hold slots of it, and the rest is the caller's promise.
        unsafe {
            let Some(codes) = self.codes() else {
                return stream.launch(&kernel(self.graph, self.beam_width, self.launch), args);
            };
            let rerank = Rerank {
                len: self.rerank.unwrap_or(0),
                candidates: pointers.candidates,
                rest: pointers.rest,
                work: pointers.reranked,
                rerank_stream: rerank_stream.map(|stream| {
                    let at_once = RERANKED_PER_MULTIPROCESSOR * stream.multiprocessors();
                    RerankStream { stream, at_once }
                }),
            };
            let codes = codes.args(pointers.levels, pointers.terms);
            let args = CodeSearchArgs { search: args, codes };
            search_by_estimates(stream, args, rerank, T::KIND, self.launch.warps)
        }
    }
}

/// The kernel that searches a graph like that.
fn kernel<T: Element, S: Stream>(graph: &DeviceGraph<T, S>, beam_width: u32, launch: TunedLaunch) -> Search {
    Search::for_rows(T::KIND, graph.measure(), graph.args().row_bytes, beam_width, launch.warps)
}

/// Whether a block with `most` bytes of shared memory has room for searches that keep `beam_width` entries, however many
/// are asked at once.
pub(crate) fn check_shared_memory<T: Element, S: Stream>(
    graph: &DeviceGraph<T, S>,
    beam_width: usize,
    most: u32,
) -> Result<(), Error> {
    let beam_width = beam_width as u32;
    let shared = |launch: TunedLaunch| {
        let codes = graph.codes().map(|codes| codes.args(DevicePtr::null(), DevicePtr::null()));
        let args = SearchArgs {
            graph: graph.args(),
            queries: DevicePtr::null(),
            query_rows: DevicePtr::null(),
            allowed: DevicePtr::null(),
            answers: DevicePtrMut::null(),
            rest: DevicePtr::null(),
            candidates: DevicePtrMut::null(),
            work: DevicePtrMut::null(),
            log: DevicePtrMut::null(),
            queries_len: 1,
            k: 1,
            beam_width,
            max_hops: u32::MAX,
            expansions: launch.expansions,
            visited_slots: launch.visited_slots,
            starts_stride: 0,
            candidates_len: 0,
            form: graph.form(),
        };
        let by_codes = codes.map_or(0, |codes| {
            let kernel = CodeSearch::for_codes(&codes.shape, codes.limbs, beam_width, launch.warps);
            kernel.launch(&CodeSearchArgs { search: args, codes }).shared
        });
        kernel(graph, beam_width, launch).launch(&args).shared.max(by_codes)
    };
    let row_bytes = graph.args().row_bytes;
    let needed =
        shared(default_launch(1, 1, row_bytes)).max(shared(default_launch(usize::MAX, 1, row_bytes)));
    if needed <= most {
        return Ok(());
    }
    Err(Error::Rows { row_bytes: graph.args().row_bytes, needed, most })
}

/// The kernel of the first search that most users make: that of one query.
pub(crate) fn default_kernel<T: Element, S: Stream>(graph: &DeviceGraph<T, S>) -> Search {
    kernel(graph, SearchParams::new(10).beam_width as u32, default_launch(1, 1, graph.args().row_bytes))
}
