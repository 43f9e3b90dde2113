//! The arguments of every search kernel.

#[cfg(feature = "kernels")]
use cuda_std::prelude::*;

use super::{DeviceHit, ListPart, SlotTest};
#[cfg(doc)]
use super::{MAX_BEAM_WIDTH, NO_HIT};
#[cfg(feature = "kernels")]
use crate::bits;
#[cfg(feature = "kernels")]
use crate::graph::NO_SLOT;
use crate::graph::{DistanceForm, GraphArgs};
use crate::{DevicePtr, DevicePtrMut};

/// Arguments of a search kernel. A kernel serves several uses; pointers that a use does not need are null, and groups are
/// [`FilterArgs::ALL`], [`StartArgs::OF_GRAPH`] and [`CandidateArgs::NONE`]:
///
/// | use | sets, beside `graph`, `queries`, `results`, `queries_len`, `k`, `form` and `beam` |
/// | --- | --- |
/// | beam search | `filter`, `costs` |
/// | the search for a new vertex, whose neighbors it finds | `beam.expanded_entries`, `query_rows`, `costs` |
/// | the first launch of a quantized search | those of a beam search, `candidates.slots` and `len` |
/// | its second launch, the rerank | `filter`, `costs`, `candidates.estimated_hits`, `start.stride` |
/// | a scan of some slots, which are the start points | `costs` |
/// | a scan of other slots for each query | the lists of `start`, `filter.tests`, `costs` |
/// | the first launch of a scan in parts | `candidates.slots` and `len`, `start.parts`, and its `stride` or lists |
/// | its second launch, over the candidates of all parts | `costs`, `start.stride` and `distances_so_far` |
///
/// The beam of the last five is a [scan](BeamArgs::scan).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SearchArgs {
    /// The graph to search.
    pub graph: GraphArgs,
    /// `[rows][row_bytes]`: the queries, padded as rows are, and normalized if rows are: `queries_len / start.parts` rows
    /// or, with `query_rows`, any table of rows. A build gives the vectors of the graph.
    pub queries: DevicePtr<u8>,
    /// `[queries_len / start.parts]`: the row in `queries` of each query; null for 0, 1, 2 and so on.
    pub query_rows: DevicePtr<u32>,
    /// `[queries][k]`: the results, nearest first. If fewer than `k` are found, the estimated hits fill the rest.
    pub results: DevicePtrMut<DeviceHit>,
    /// `[queries][2]`: vertices expanded (hops), and distances computed. Null if not needed.
    pub costs: DevicePtrMut<u32>,
    /// Number of queries.
    pub queries_len: u32,
    /// Results per query, at most `beam.frontier_len`; 0 if only candidates are wanted.
    pub k: u32,
    /// How distances follow from sums.
    pub form: DistanceForm,
    /// How it searches.
    pub beam: BeamArgs,
    /// What may be a result.
    pub filter: FilterArgs,
    /// Where the search starts; of a scan, all that it reads.
    pub start: StartArgs,
    /// Of two launches, what the first gives to the second.
    pub candidates: CandidateArgs,
}

/// The frontier of a search, and how its vertices are expanded.
///
/// Where `max_hops` is 0, no vertex is expanded, and `expansions` and `visited_buckets` have no effect on results.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BeamArgs {
    /// `[queries][max_hops]`: entries of the expanded vertices, in order, as many as the hops in `costs`: the candidate
    /// neighbors of a new vertex. Null if not needed.
    pub expanded_entries: DevicePtrMut<u64>,
    /// The nearest entries of the frontier, which are expanded: 1 to `frontier_len`.
    pub width: u32,
    /// Entries of the frontier, up to [`MAX_BEAM_WIDTH`]. Those beyond the beam may be results or candidates.
    pub frontier_len: u32,
    /// Maximum number of vertices expanded per query; 0 makes the search a scan of the start points.
    pub max_hops: u32,
    /// Vertices whose neighbors are processed at the same time, at least 1. One warp expands them together: with more
    /// than 1, results may differ. A team expands one after another, and has a mailbox for each.
    pub expansions: u32,
    /// Buckets of the visited cache: a power of two that is at least 32, or 0 for no cache.
    pub visited_buckets: u32,
}

impl BeamArgs {
    /// Expands nothing: a scan that keeps the nearest `frontier_len` of its start points.
    pub const fn scan(frontier_len: u32) -> Self {
        Self {
            expanded_entries: DevicePtrMut::null(),
            width: frontier_len,
            frontier_len,
            max_hops: 0,
            expansions: 1,
            visited_buckets: 0,
        }
    }
}

/// Which slots may be results.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FilterArgs {
    /// `[words]`: a bit per slot: whether it may be a result. Null if all slots may.
    pub allowed: DevicePtr<u32>,
    /// `[queries_len / start.parts][tests_per_query]`: which slots may be results of each query, and which of its lists
    /// are scanned, instead of `allowed`. Null if `allowed` is for all queries.
    pub tests: DevicePtr<SlotTest>,
    /// `[words]`: a bit per slot: whether it has changed, so that tests and lists do not know it. The host decides
    /// whether it is a result. Of the lists of a query, only the last has such slots: those that may be results of the
    /// query. Null for none.
    pub changed: DevicePtr<u32>,
    /// Tests of a query.
    pub tests_per_query: u32,
    /// Slots that tests know. Those from here on have no key, unless they have `changed`.
    pub tested_slots: u32,
}

impl FilterArgs {
    /// Allows every slot.
    pub const ALL: Self = Self {
        allowed: DevicePtr::null(),
        tests: DevicePtr::null(),
        changed: DevicePtr::null(),
        tests_per_query: 0,
        tested_slots: 0,
    };
}

/// Where a search starts. Of a scan, these are all slots that it reads.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StartArgs {
    /// `[queries_len / parts][lists_per_query]`: the start points of each query, instead of those of the graph. Null if
    /// `stride` says which these are.
    pub lists: DevicePtr<ListPart>,
    /// Parts of the list of a query.
    pub lists_per_query: u32,
    /// Elements from one query's list of start points of the graph to the next; 0 if all queries share one list. Lists
    /// per query may contain [`NO_SLOT`](crate::graph::NO_SLOT).
    pub stride: u32,
    /// 1, or the number of parts that the shared list of start points is split into, each as long as `stride`, or that
    /// each of the `lists` is split into. Each part of each query is a search of its own and counts in `queries_len`.
    pub parts: u32,
    /// Distances per query that an earlier launch of the same search computed. They are added to the costs.
    pub distances_so_far: u32,
}

impl StartArgs {
    /// All start points of the graph, for all queries.
    pub const OF_GRAPH: Self =
        Self { lists: DevicePtr::null(), lists_per_query: 0, stride: 0, parts: 1, distances_so_far: 0 };
}

/// What the first of two launches leaves to the second.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CandidateArgs {
    /// `[queries][len]`: the start points of a second launch: the vertices of the first entries of the frontier, then
    /// [`NO_SLOT`](crate::graph::NO_SLOT). They are not among the results of this launch.
    pub slots: DevicePtrMut<u32>,
    /// `[queries][k]`: for a rerank, the results of the first launch, by estimated distances. Null for [`NO_HIT`].
    pub estimated_hits: DevicePtr<DeviceHit>,
    /// Candidates per query, at most `beam.frontier_len`.
    pub len: u32,
}

impl CandidateArgs {
    /// There is one launch.
    pub const NONE: Self = Self { slots: DevicePtrMut::null(), estimated_hits: DevicePtr::null(), len: 0 };
}

#[cfg(feature = "kernels")]
impl SearchArgs {
    /// The number of start points of a query.
    ///
    /// # Safety
    /// The arguments are valid, and `query` is below `queries_len`.
    pub(super) unsafe fn start_points_len(&self, query: u32) -> u32 {
        // SAFETY: upheld by the caller.
        unsafe { self.start_points_of_part(query).1 }
    }

    /// Start point `index` of a query; [`NO_SLOT`] past the last, and for slots of a list that may not be results.
    ///
    /// # Safety
    /// The arguments are valid, and `query` is below `queries_len`.
    pub(super) unsafe fn start_point(&self, query: u32, index: u32) -> u32 {
        // SAFETY: upheld by the caller; the element is one of the start points.
        unsafe {
            let (first, len) = self.start_points_of_part(query);
            if index >= len {
                return NO_SLOT;
            }
            if self.start.lists.is_null() {
                let (of, parts) = (query * self.start.stride, self.start.parts);
                let first = if parts == 1 { of } else { first };
                return global::load_readonly(self.graph.start_points.at((first + index) as usize));
            }
            let query = query / self.start.parts;
            let (slot, is_last) = self.start.listed(query, first + index);
            if slot >= self.graph.capacity || is_last && !self.filter.changed.is_null() {
                return slot;
            }
            let is_known = self.filter.changed.is_null() || !bits::contains(self.filter.changed, slot);
            if is_known && (self.filter.tests.is_null() || self.filter.allows(query, slot)) {
                slot
            } else {
                NO_SLOT
            }
        }
    }

    /// The first start point of a query, or of a part of them, among all of the query, and their number.
    ///
    /// # Safety
    /// The arguments are valid, and `query` is below `queries_len`.
    unsafe fn start_points_of_part(&self, query: u32) -> (u32, u32) {
        let parts = self.start.parts;
        let (mut len, mut stride) = (self.graph.start_points_len, self.start.stride);
        if !self.start.lists.is_null() {
            // SAFETY: upheld by the caller.
            len = unsafe { self.start.listed_len(query / parts) };
            stride = len.div_ceil(parts);
        }
        if parts == 1 {
            return (0, len);
        }
        // The last parts of a short list are empty.
        let first = (query % parts * stride).min(len);
        (first, stride.min(len - first))
    }
}

#[cfg(feature = "kernels")]
impl StartArgs {
    /// The number of slots in the lists of a query.
    ///
    /// # Safety
    /// The arguments are valid, there are lists, and `query` is one of them.
    unsafe fn listed_len(&self, query: u32) -> u32 {
        let (mut part, mut len) = (query * self.lists_per_query, 0);
        let end = part + self.lists_per_query;
        while part < end {
            // SAFETY: upheld by the caller.
            len += unsafe { ListPart::load(self.lists, part) }.1;
            part += 1;
        }
        len
    }

    /// Slot `index` of the lists of a query, and whether it is of the last.
    ///
    /// # Safety
    /// The arguments are valid, there are lists, `query` is one of them, and `index` is below its [`Self::listed_len`].
    unsafe fn listed(&self, query: u32, mut index: u32) -> (u32, bool) {
        let mut part = query * self.lists_per_query;
        let last = part + self.lists_per_query - 1;
        loop {
            // SAFETY: upheld by the caller: one of the parts has the index.
            unsafe {
                let (slots, len) = ListPart::load(self.lists, part);
                if index < len {
                    return (global::load_readonly(slots.at(index as usize)), part == last);
                }
                index -= len;
            }
            part += 1;
        }
    }
}

#[cfg(feature = "kernels")]
impl FilterArgs {
    /// Whether a vertex may be a result of a query.
    ///
    /// # Safety
    /// The arguments are valid, `query` is one of those that tests are for, and the vertex is one of the graph.
    pub(super) unsafe fn allows(&self, query: u32, vertex: u32) -> bool {
        // SAFETY: upheld by the caller; tables of tests have `tested_slots`, bitmaps all slots of the graph.
        unsafe {
            if self.tests.is_null() {
                return self.allowed.is_null() || bits::contains(self.allowed, vertex);
            }
            let tests = self.tests.add((query * self.tests_per_query) as usize);
            !self.changed.is_null() && bits::contains(self.changed, vertex)
                || vertex < self.tested_slots && SlotTest::all_hold(tests, self.tests_per_query, vertex)
        }
    }
}

impl AsRef<SearchArgs> for SearchArgs {
    fn as_ref(&self) -> &Self {
        self
    }
}
