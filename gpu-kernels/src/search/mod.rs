//! Beam search on the graph. One kernel takes a query to its results, and its state never leaves the multiprocessor.
//!
//! A vertex is named by its *slot*, the index of its row in every table. A search keeps the nearest vertices
//! it has found in the *frontier*, a sorted list of *entries*: 64 bits each, for distance, slot and whether the vertex
//! is yet to be expanded. The first `beam_width` entries (DiskANN's `L`) are the *beam*: only they are expanded.
//!
//! | module | holds |
//! | --- | --- |
//! | `kernels` | the kernels |
//! | `launches`, `variant` | [`Search`] and [`QuantizedSearch`]: which kernel, and its launch |
//! | `sequence` | [`quantized_search`] and [`scan_in_parts`]: a search, and another of its candidates |
//! | `one_warp` | the search by one warp: the algorithm, step for step that of the CPU |
//! | `team` | the search by a team of warps, for few queries |
//! | `frontier` | the trait of frontiers, which `register_list`, `sorted_list` and `buffered_list` implement |
//! | `visited` | the visited cache |
//! | `distances` | distance computers: of exact distances, or of estimates from codes (quantized vectors) |
//! | `shared_layout` | shared memory |
//! | `slots` | [`ListPart`] and [`SlotTest`]: what a query scans, and what may be its results |
//! | `results` | the output |
//!
//! A quantized search reads codes, a fraction of the bytes of vectors. The entries nearest by estimated distance, its
//! *candidates*, get exact distances in a second launch, the *rerank*: a search whose start points are these
//! candidates, and that expands no vertex.

mod kernels;
mod quantized;
mod shared_layout;
mod slots;
#[cfg(test)]
mod tests;

cfg_if! { if #[cfg(feature = "kernels")] {
    mod buffered_list;
    mod frontier;
    mod one_warp;
    mod register_list;
    mod results;
    mod distances;
    mod sorted_list;
    mod team;
    mod visited;
} }

cfg_if! { if #[cfg(not(target_arch = "nvptx64"))] {
    mod launches;
    mod sequence;
    mod variant;

    pub use launches::{QuantizedSearch, Search};
    pub use sequence::{Rerank, RerankStream, quantized_search, scan_in_parts};
    pub use variant::MIN_TEAM_WARPS;
} }

pub use quantized::QuantizedSearchArgs;
pub use slots::{ListPart, SlotTest};

#[cfg(feature = "kernels")]
use cuda_std::prelude::*;

#[cfg(feature = "kernels")]
use crate::bits;
use crate::graph::{DistanceForm, GraphArgs, NO_SLOT};
use crate::{DevicePtr, DevicePtrMut};

/// The widest beam, and the longest frontier.
pub const MAX_BEAM_WIDTH: u32 = 1024;

/// A result in device memory; [`NO_HIT`] where there are fewer. Kernels store its 16 bytes at once.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct DeviceHit {
    /// The first key of the vertex; identical vectors share a vertex, so it may have more, which the host looks up.
    pub key: u64,
    /// The distance from the query.
    pub distance: f32,
    /// The slot of the vertex.
    pub slot: u32,
}

impl DeviceHit {
    /// The bytes in the order of memory.
    #[cfg(feature = "kernels")]
    fn to_words(self) -> [u32; 4] {
        [self.key as u32, (self.key >> 32) as u32, self.distance.to_bits(), self.slot]
    }
}

/// No result: no key, at infinite distance.
pub const NO_HIT: DeviceHit = DeviceHit { key: u64::MAX, distance: f32::INFINITY, slot: NO_SLOT };

/// Arguments of every search kernel. A kernel serves several uses; fields that a use does not set are null, 0 or 1:
///
/// | use | sets, beside `graph`, `queries`, `results`, `queries_len`, `k`, `beam_width`, `frontier_len` and `form` |
/// | --- | --- |
/// | beam search | `allowed` or `tests`, `costs`, `max_hops`, `expansions`, `visited_buckets` |
/// | the search for a new vertex, whose neighbors it finds | `query_rows`, `costs`, `expanded_entries`, `max_hops`, `expansions`, `visited_buckets` |
/// | the first launch of a quantized search | those of a beam search, `candidates` and `candidates_len` |
/// | its second launch, the rerank | `allowed` or `tests`, `costs`, `estimated_hits`, `start_points_stride` |
/// | a scan of some slots, which are the start points | `costs` |
/// | a scan of other slots for each query | `lists`, `tests`, `costs` |
/// | the first launch of a scan in parts | `candidates`, `candidates_len`, `start_points_stride` or `lists` and `tests`, `start_point_parts` |
/// | its second launch, over the candidates of all parts | `costs`, `start_points_stride`, `distances_so_far` |
///
/// Where `max_hops` is 0, no vertex is expanded, and `expansions` and `visited_buckets` have no effect on results.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SearchArgs {
    /// The graph to search.
    pub graph: GraphArgs,
    /// `[rows][row_bytes]`: the queries, padded as rows are, and normalized if rows are: `queries_len /
    /// start_point_parts` rows or, with `query_rows`, any table of rows. A build gives the vectors of the graph.
    pub queries: DevicePtr<u8>,
    /// `[queries_len / start_point_parts]`: the row in `queries` of each query; null for 0, 1, 2 and so on.
    pub query_rows: DevicePtr<u32>,
    /// `[words]`: a bit per slot: whether it may be a result. Null if all slots may.
    pub allowed: DevicePtr<u32>,
    /// `[queries_len / start_point_parts][tests_per_query]`: which slots may be results of each query, and which of its
    /// `lists` are scanned, instead of `allowed`. Null if `allowed` is for all queries.
    pub tests: DevicePtr<SlotTest>,
    /// `[words]`: a bit per slot: whether it has changed, so that tests and lists do not know it. The host decides whether it is
    /// a result. Of `lists`, only the last has such slots: those that may be results of the query. Null for none.
    pub changed: DevicePtr<u32>,
    /// `[queries_len / start_point_parts][lists_per_query]`: the start points of each query, instead of those of the graph.
    /// Null if `start_points_stride` says which these are.
    pub lists: DevicePtr<ListPart>,
    /// `[queries][k]`: the results, nearest first. If fewer than `k` are found, `estimated_hits` fill the rest.
    pub results: DevicePtrMut<DeviceHit>,
    /// `[queries][k]`: for a rerank, the results of the first launch, by estimated distances. Null for [`NO_HIT`].
    pub estimated_hits: DevicePtr<DeviceHit>,
    /// `[queries][candidates_len]`: the start points of a second launch: the vertices of the first entries of the
    /// frontier, then [`NO_SLOT`]. They are not among the results of this launch.
    pub candidates: DevicePtrMut<u32>,
    /// `[queries][2]`: vertices expanded (hops), and distances computed. Null if not needed.
    pub costs: DevicePtrMut<u32>,
    /// `[queries][max_hops]`: entries of the expanded vertices, in order, as many as the hops in `costs`: the candidate
    /// neighbors of a new vertex. Null if not needed.
    pub expanded_entries: DevicePtrMut<u64>,
    /// Number of queries.
    pub queries_len: u32,
    /// Tests of a query.
    pub tests_per_query: u32,
    /// Slots that tests know. Those from here on have no key, unless they have `changed`.
    pub tested_slots: u32,
    /// Parts of the list of a query.
    pub lists_per_query: u32,
    /// Results per query, at most `frontier_len`; 0 if only candidates are wanted.
    pub k: u32,
    /// The nearest entries of the frontier, which are expanded: 1 to `frontier_len`.
    pub beam_width: u32,
    /// Entries of the frontier, up to [`MAX_BEAM_WIDTH`]. Those beyond the beam may be results or candidates.
    pub frontier_len: u32,
    /// Maximum number of vertices expanded per query; 0 makes the search a scan of the start points.
    pub max_hops: u32,
    /// Vertices whose neighbors are processed at the same time, at least 1. One warp expands them together: with more
    /// than 1, results may differ. A team expands one after another, and has a mailbox for each.
    pub expansions: u32,
    /// Buckets of the visited cache: a power of two that is at least 32, or 0 for no cache.
    pub visited_buckets: u32,
    /// Elements from one query's list of start points to the next; 0 if all queries share one list. Lists per query may
    /// contain [`NO_SLOT`].
    pub start_points_stride: u32,
    /// 1, or the number of parts that the shared list of start points is split into, each as long as
    /// `start_points_stride`, or that each of the `lists` is split into. Each part of each query is a search of its own
    /// and counts in `queries_len`.
    pub start_point_parts: u32,
    /// Candidates per query, at most `frontier_len`.
    pub candidates_len: u32,
    /// Distances per query that an earlier launch of the same search computed. They are added to `costs`.
    pub distances_so_far: u32,
    /// How distances follow from sums.
    pub form: DistanceForm,
}

#[cfg(feature = "kernels")]
impl SearchArgs {
    /// The number of start points of a query.
    ///
    /// # Safety
    /// The arguments are valid, and `query` is below `queries_len`.
    unsafe fn start_points_len(&self, query: u32) -> u32 {
        // SAFETY: upheld by the caller.
        unsafe { self.start_points_of_part(query).1 }
    }

    /// Start point `index` of a query; [`NO_SLOT`](crate::graph::NO_SLOT) past the last, and for slots of a list that may not
    /// be results.
    ///
    /// # Safety
    /// The arguments are valid, and `query` is below `queries_len`.
    unsafe fn start_point(&self, query: u32, index: u32) -> u32 {
        // SAFETY: upheld by the caller; the element is one of the start points.
        unsafe {
            let (first, len) = self.start_points_of_part(query);
            if index >= len {
                return NO_SLOT;
            }
            if self.lists.is_null() {
                let (of, parts) = (query * self.start_points_stride, self.start_point_parts);
                let first = if parts == 1 { of } else { first };
                return global::load_readonly(self.graph.start_points.at((first + index) as usize));
            }
            let query = query / self.start_point_parts;
            let (slot, is_last) = self.listed(query, first + index);
            if slot >= self.graph.capacity || is_last && !self.changed.is_null() {
                return slot;
            }
            let is_known = self.changed.is_null() || !bits::contains(self.changed, slot);
            if is_known && (self.tests.is_null() || self.allows(query, slot)) { slot } else { NO_SLOT }
        }
    }

    /// The first start point of a query, or of a part of them, among all of the query, and their number.
    ///
    /// # Safety
    /// The arguments are valid, and `query` is below `queries_len`.
    unsafe fn start_points_of_part(&self, query: u32) -> (u32, u32) {
        let parts = self.start_point_parts;
        let (mut len, mut stride) = (self.graph.start_points_len, self.start_points_stride);
        if !self.lists.is_null() {
            // SAFETY: upheld by the caller.
            len = unsafe { self.listed_len(query / parts) };
            stride = len.div_ceil(parts);
        }
        if parts == 1 {
            return (0, len);
        }
        // The last parts of a short list are empty.
        let first = (query % parts * stride).min(len);
        (first, stride.min(len - first))
    }

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

    /// Whether a vertex may be a result of a query.
    ///
    /// # Safety
    /// The arguments are valid, `query` is one of `queries_len / start_point_parts`, and the vertex is one of the graph.
    unsafe fn allows(&self, query: u32, vertex: u32) -> bool {
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

impl AsRef<Self> for SearchArgs {
    fn as_ref(&self) -> &Self {
        self
    }
}
