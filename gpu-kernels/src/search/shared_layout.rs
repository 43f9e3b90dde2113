//! The layout of the shared memory of a search.

#[cfg(feature = "kernels")]
use cuda_std::prelude::*;

use super::SearchArgs;
use crate::WARP_SIZE;

/// Bytes of an entry of the frontier.
const ENTRY: u32 = 8;
/// Bytes of a slot.
const SLOT: u32 = 4;
/// Number of slots whose distances are computed at once. There is always room for them.
const COMPUTED_AT_ONCE: u32 = 32;
/// Warps of the largest team.
pub(super) const MAX_WARPS: u32 = 16;

/// The parameters of a layout that are not in the arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayoutParams {
    /// Bytes of the query, a multiple of 16; 0 if it stays in registers.
    pub(super) query_bytes: u32,
    /// Whether the frontier is a list in shared memory.
    pub(super) has_list: bool,
    /// Whether a team of warps searches for a query, and needs mailboxes.
    pub(super) is_team: bool,
}

/// The offsets of the parts in bytes, each aligned to its elements.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "kernels"), expect(dead_code, reason = "only kernels read the parts"))]
pub(super) struct Layout {
    /// The query, as the computer stores it.
    pub(super) query: u32,
    /// The entries of the list: `frontier_len`, then the [`WARP_SIZE`] that a
    /// [`BufferedList`](super::buffered_list::BufferedList) buffers before it merges them.
    pub(super) list: u32,
    /// Teams: `[expansions][edges_stride]` entries of neighbors.
    pub(super) entries: u32,
    /// Teams: `[edges_stride]` entries to be merged into the list.
    pub(super) to_merge: u32,
    /// Teams: `[expansions]` requests, one per mailbox, then the bound of the list.
    pub(super) requests: u32,
    /// Teams: `[expansions]` entries, the nearest unexpanded vertices.
    pub(super) upcoming: u32,
    /// `[expansions][edges_stride]` slots of neighbors.
    pub(super) slots: u32,
    /// Teams: `[expansions]`: how many parts of the requests of each mailbox are done.
    pub(super) done: u32,
    /// Teams: the number of distances that each worker has computed for the last request.
    pub(super) computed: u32,
    /// `[visited_buckets]` slots: the visited cache.
    pub(super) visited: u32,
    /// Bytes of all parts, a multiple of 16.
    #[cfg_attr(target_arch = "nvptx64", expect(dead_code, reason = "only a launch needs the size"))]
    pub(super) end: u32,
}

impl Layout {
    pub(super) const fn new(args: &SearchArgs, params: LayoutParams) -> Self {
        let neighbors = args.beam.expansions * args.graph.edges_stride;
        let neighbors = if neighbors < COMPUTED_AT_ONCE { COMPUTED_AT_ONCE } else { neighbors };
        let query = 0;
        let list = query + params.query_bytes;
        let entries = list + if params.has_list { (args.beam.frontier_len + WARP_SIZE) * ENTRY } else { 0 };
        let to_merge = entries + if params.is_team { neighbors * ENTRY } else { 0 };
        let requests = to_merge + if params.is_team { args.graph.edges_stride * ENTRY } else { 0 };
        let upcoming = requests + if params.is_team { (args.beam.expansions + 1) * ENTRY } else { 0 };
        let slots = upcoming + if params.is_team { args.beam.expansions * ENTRY } else { 0 };
        let done = slots + neighbors * SLOT;
        let computed = done + if params.is_team { args.beam.expansions * SLOT } else { 0 };
        let visited = computed + if params.is_team { MAX_WARPS * SLOT } else { 0 };
        let end = (visited + args.beam.visited_buckets * SLOT).next_multiple_of(16);
        Self { query, list, entries, to_merge, requests, upcoming, slots, done, computed, visited, end }
    }

    /// The shared memory of this block from `offset`, one of a layout, on.
    #[cfg(feature = "kernels")]
    #[inline(always)]
    pub(super) fn memory_at<T>(offset: u32) -> Shared<T> {
        shared::dynamic_shared_mem::<u8>().byte_add(offset).cast()
    }
}
