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
//! | `results` | the output |
//!
//! A quantized search reads codes, a fraction of the bytes of vectors. The entries nearest by estimated distance, its
//! *candidates*, get exact distances in a second launch, the *rerank*: a search whose start points are these
//! candidates, and that expands no vertex.

mod quantized;
mod shared_layout;
#[cfg(test)]
mod tests;

cfg_if! { if #[cfg(feature = "kernels")] {
    mod buffered_list;
    mod frontier;
    mod kernels;
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

/// Slots that one query of a launch has for itself: the vertices that it scans, or those that may be its results.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "nvptx64"), derive(bytemuck::Pod, bytemuck::Zeroable))]
pub struct QuerySlots {
    /// The address of a table of u32 in device memory.
    pub table: u64,
    /// The first element, or the least number.
    pub first: u32,
    /// How many there are.
    pub len: u32,
}

impl QuerySlots {
    /// The [`Self::len`] that makes the table of what a query may return a bitmap.
    pub const BITMAP: u32 = u32::MAX;
    /// A rank that every query may return: the host decides about the keys of the vertex.
    pub const ANY_RANK: u32 = u32::MAX;
    /// A rank that no query may return.
    pub const NO_RANK: u32 = u32::MAX - 1;

    /// The slots of a scan: `len` elements of `list`, from `first` on.
    pub fn list(list: DevicePtr<u32>, first: u32, len: u32) -> Self {
        Self { table: list.at(0) as u64, first, len }
    }

    /// What a query may return, as a bit per slot.
    pub fn bitmap(words: DevicePtr<u32>) -> Self {
        Self { table: words.at(0) as u64, first: 0, len: Self::BITMAP }
    }

    /// What a query may return: the slots whose ranks are the `len` from `first` on, below [`Self::NO_RANK`], and those
    /// of [`Self::ANY_RANK`]. `ranks` has an element for each slot.
    pub fn ranks(ranks: DevicePtr<u32>, first: u32, len: u32) -> Self {
        Self { table: ranks.at(0) as u64, first, len }
    }

    /// The slots of query `query`.
    ///
    /// # Safety
    /// The array has an element for the query.
    #[cfg(feature = "kernels")]
    unsafe fn load(of_queries: DevicePtr<Self>, query: u32) -> (DevicePtr<u32>, u32, u32) {
        // SAFETY: upheld by the caller.
        let [low, high, first, len] =
            unsafe { global::load_readonly(of_queries.cast::<[u32; 4]>().at(query as usize)) };
        let table = u64::from(high) << 32 | u64::from(low);
        (DevicePtr::new(table as *const u32), first, len)
    }
}

/// Arguments of every search kernel. A kernel serves several uses; fields that a use does not set are null, 0 or 1:
///
/// | use | sets, beside `graph`, `queries`, `results`, `queries_len`, `k`, `beam_width`, `frontier_len` and `form` |
/// | --- | --- |
/// | beam search | `allowed` or `allowed_of_queries`, `costs`, `max_hops`, `expansions`, `visited_buckets` |
/// | the search for a new vertex, whose neighbors it finds | `query_rows`, `costs`, `expanded_entries`, `max_hops`, `expansions`, `visited_buckets` |
/// | the first launch of a quantized search | those of a beam search, `candidates` and `candidates_len` |
/// | its second launch, the rerank | `allowed` or `allowed_of_queries`, `costs`, `estimated_hits`, `start_points_stride` |
/// | a scan of some slots, which are the start points | `costs` |
/// | a scan of other slots for each query | `lists`, `costs` |
/// | the first launch of a scan in parts | `candidates`, `candidates_len`, `start_points_stride` or `lists`, `start_point_parts` |
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
    /// `[queries]`: which slots may be results of each query, by bitmaps or ranks, instead of `allowed`. Null if
    /// `allowed` is for all queries.
    pub allowed_of_queries: DevicePtr<QuerySlots>,
    /// `[queries_len / start_point_parts]`: the start points of each query, instead of those of the graph. Null if
    /// `start_points_stride` says which these are.
    pub lists: DevicePtr<QuerySlots>,
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
    /// The start points of a query: the address of the first, and their number.
    ///
    /// # Safety
    /// The arguments are valid, and `query` is below `queries_len`.
    unsafe fn start_points(&self, query: u32) -> (DevicePtr<u32>, u32) {
        let (mut list, mut len) = (self.graph.start_points, self.graph.start_points_len);
        let mut stride = self.start_points_stride;
        if !self.lists.is_null() {
            // SAFETY: upheld by the caller.
            let (table, first, list_len) =
                unsafe { QuerySlots::load(self.lists, query / self.start_point_parts) };
            (list, len) = (table.add(first as usize), list_len);
            stride = if self.start_point_parts == 1 { 0 } else { len.div_ceil(self.start_point_parts) };
        }
        if self.start_point_parts == 1 {
            return (list.add((query * stride) as usize), len);
        }
        // The last parts of a short list are empty.
        let first = (query % self.start_point_parts * stride).min(len);
        (list.add(first as usize), stride.min(len - first))
    }

    /// Whether a vertex may be a result of a query.
    ///
    /// # Safety
    /// The arguments are valid, `query` is below `queries_len`, and the vertex is one of the graph.
    unsafe fn allows(&self, query: u32, vertex: u32) -> bool {
        // SAFETY: upheld by the caller; there is a bit or a rank per slot.
        unsafe {
            if self.allowed_of_queries.is_null() {
                return self.allowed.is_null() || bits::contains(self.allowed, vertex);
            }
            let (table, first, len) = QuerySlots::load(self.allowed_of_queries, query);
            if len == QuerySlots::BITMAP {
                return bits::contains(table, vertex);
            }
            let rank = global::load_readonly(table.at(vertex as usize));
            rank.wrapping_sub(first) < len || rank == QuerySlots::ANY_RANK
        }
    }
}

impl AsRef<Self> for SearchArgs {
    fn as_ref(&self) -> &Self {
        self
    }
}
