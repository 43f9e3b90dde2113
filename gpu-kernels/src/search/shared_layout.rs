//! The layout of the shared memory of a search.

use super::SearchArgs;

/// Bytes of a key of the frontier.
const KEY: u32 = 8;
/// Bytes of an id.
const ID: u32 = 4;
/// Ids that are scored at once: there is always room for them.
const BATCH: u32 = 32;
/// Keys that a [`BufferedList`](super::buffered_list::BufferedList) buffers before it merges them.
pub(super) const WAITING: u32 = 32;
/// Warps of the largest team.
pub(super) const MAX_WARPS: u32 = 16;

/// What a kernel needs in shared memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    /// Bytes of the query, a multiple of 16; 0 if it stays in registers.
    pub(super) query: u32,
    /// Whether the frontier is a list in shared memory.
    pub(super) list: bool,
    /// Whether a team of several warps takes a query: work slots.
    pub(super) team: bool,
}

/// Where the parts begin, in bytes, each aligned to its elements.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "kernels"), expect(dead_code, reason = "only kernels read the parts"))]
pub(super) struct Layout {
    /// The query, as the scorer stores it.
    pub(super) query: u32,
    /// Entries of the list, as many as the beam is wide, then [`WAITING`].
    pub(super) list: u32,
    /// Teams: `[expansions][links_stride]` keys of neighbors.
    pub(super) keys: u32,
    /// Teams: `[links_stride]` keys on their way to the list.
    pub(super) near: u32,
    /// Teams: the request of each slot, then the bound of the list.
    pub(super) requests: u32,
    /// Teams: a key per slot.
    pub(super) wanted: u32,
    /// `[expansions][links_stride]` ids of neighbors.
    pub(super) ids: u32,
    /// Teams: the parts that are done of each slot.
    pub(super) done: u32,
    /// Teams: neighbors that each worker has scored for the last request.
    pub(super) scored: u32,
    /// `[visited_slots]` ids: the visited cache.
    pub(super) visited: u32,
    /// Bytes of all, a multiple of 16.
    pub(super) end: u32,
}

impl Layout {
    #[inline(always)]
    pub(super) const fn new(args: &SearchArgs, needs: Needs) -> Self {
        let neighbors = args.expansions * args.graph.links_stride;
        let neighbors = if neighbors < BATCH { BATCH } else { neighbors };
        let query = 0;
        let list = query + needs.query;
        let keys = list + if needs.list { (args.beam_width + WAITING) * KEY } else { 0 };
        let near = keys + if needs.team { neighbors * KEY } else { 0 };
        let requests = near + if needs.team { args.graph.links_stride * KEY } else { 0 };
        let wanted = requests + if needs.team { (args.expansions + 1) * KEY } else { 0 };
        let ids = wanted + if needs.team { args.expansions * KEY } else { 0 };
        let done = ids + neighbors * ID;
        let scored = done + if needs.team { args.expansions * ID } else { 0 };
        let visited = scored + if needs.team { MAX_WARPS * ID } else { 0 };
        let end = (visited + args.visited_slots * ID).next_multiple_of(16);
        Self { query, list, keys, near, requests, wanted, ids, done, scored, visited, end }
    }
}
