//! The shared memory of a team: what lies where.

use super::SearchArgs;

/// Bytes of a key of the frontier.
const KEY: u32 = 8;
/// Bytes of an id.
const ID: u32 = 4;
/// Ids that are scored at once: room for them there always is.
const BATCH: u32 = 32;
/// Keys that wait to be merged into a list in shared memory.
pub(super) const WAITING: u32 = 32;
/// Warps of the largest team.
pub(super) const MOST_WARPS: u32 = 16;

/// What of a kernel decides how much shared memory its teams have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    /// Bytes of the query, a multiple of 16: none if it stays in registers.
    pub(super) query: u32,
    /// The frontier does not stay in registers.
    pub(super) list: bool,
    /// More than one warp: what they tell each other.
    pub(super) team: bool,
}

/// Where the parts begin, in bytes; each at a multiple of its elements' size.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "kernels"), expect(dead_code, reason = "kernels alone ask what lies where"))]
pub(super) struct Layout {
    /// What the scorer keeps of the query.
    pub(super) query: u32,
    /// Entries of the list, as many as the beam is wide, then [`WAITING`].
    pub(super) list: u32,
    /// Teams of several warps: `[expansions][links_stride]` keys of neighbours.
    pub(super) keys: u32,
    /// Teams of several warps: `[links_stride]` keys on their way to the list.
    pub(super) near: u32,
    /// Teams of several warps: for each expansion what is requested, and behind them the bound of the list.
    pub(super) requests: u32,
    /// Teams of several warps: a key for each expansion.
    pub(super) wanted: u32,
    /// `[expansions][links_stride]` ids of neighbours.
    pub(super) ids: u32,
    /// Teams of several warps: for each expansion how much is done.
    pub(super) done: u32,
    /// Teams of several warps: for each warp how many neighbours it met.
    pub(super) met: u32,
    /// `[filter_slots]`
    pub(super) filter: u32,
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
        let met = done + if needs.team { args.expansions * ID } else { 0 };
        let filter = met + if needs.team { MOST_WARPS * ID } else { 0 };
        let end = (filter + args.filter_slots * ID).next_multiple_of(16);
        Self { query, list, keys, near, requests, wanted, ids, done, met, filter, end }
    }
}
