//! The layout of a block's shared memory, and how many candidates each kernel needs room for.
//!
//! A bitonic sort works on a power of two, so capacities are rounded up to one.

use super::PruneArgs;

/// Offsets in bytes of the parts of shared memory. The entries of the candidates, `u64[capacity]`, are at 0.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "kernels"), expect(dead_code, reason = "only kernels read the offsets"))]
pub(super) struct Layout {
    /// `u16[capacity]`: the remaining new candidates, in one part per warp; in a repair, the states of candidates.
    pub(super) new_indices: u32,
    /// `u16[warps][max_degree]`: the remaining candidates that were kept before.
    pub(super) kept_before_indices: u32,
    /// `u32[edges_stride]`: the old row.
    pub(super) old: u32,
    /// `u32[2][warps]`: index of each warp's first remaining candidate, in this iteration and the one before.
    pub(super) heads: u32,
    /// `u32[3]`: a counter, and the ends of both parts of the old row that an earlier prune kept.
    pub(super) words: u32,
    /// The size of all parts.
    #[cfg(not(target_arch = "nvptx64"))]
    pub(super) end: u32,
}

impl Layout {
    /// The layout for `capacity` candidates, a multiple of `warps`, and a block of `warps` warps.
    pub(super) const fn new(capacity: u32, max_degree: u32, edges_stride: u32, warps: u32) -> Self {
        let new_indices = capacity * size_of::<u64>() as u32;
        let kept_before_indices = new_indices + capacity * size_of::<u16>() as u32;
        let old = (kept_before_indices + warps * max_degree * size_of::<u16>() as u32).next_multiple_of(4);
        let heads = old + edges_stride * size_of::<u32>() as u32;
        let words = heads + 2 * warps * size_of::<u32>() as u32;
        Self {
            new_indices,
            kept_before_indices,
            old,
            heads,
            words,
            #[cfg(not(target_arch = "nvptx64"))]
            end: words + 3 * size_of::<u32>() as u32,
        }
    }
}

/// The most candidates that a block has room for: an index has 15 bits.
pub(super) const MAX_CANDIDATES: u32 = 1 << 15;

/// The bit that marks the index of a candidate as deferred to the second round. All indices are below it.
#[cfg(feature = "kernels")]
pub(super) const DEFERRED: u32 = MAX_CANDIDATES;

/// Room for up to `found` candidates of a search, and `of_batch` of the same batch.
pub(super) const fn new_capacity(found: u32, of_batch: u32) -> u32 {
    (found + of_batch).next_power_of_two()
}

/// Room for `chunk_len` peers beside the `max_degree` nearest so far; before that, for up to `found` candidates of a
/// search.
pub(super) const fn peers_capacity(chunk_len: u32, max_degree: u32, found: u32) -> u32 {
    let peers = chunk_len + max_degree;
    if peers > found { peers.next_power_of_two() } else { found.next_power_of_two() }
}

/// Room for the old row and new edges. Of these, `max_candidates + max_degree` are read: enough for `max_candidates`
/// even if the row has `max_degree` of them already.
pub(super) const fn merge_capacity(max_candidates: u32, max_degree: u32) -> u32 {
    let capacity = (max_candidates + 2 * max_degree).next_power_of_two();
    if capacity < ALL_PAIRS_CAPACITY { ALL_PAIRS_CAPACITY } else { capacity }
}

/// Maximum number of candidates whose pairs are all compared. Each has a bit in a set.
pub(super) const MAX_ALL_PAIRS: u32 = 128;
/// Words per set of such candidates.
pub(super) const PAIR_WORDS: u32 = MAX_ALL_PAIRS / 32;
/// The capacity whose entries take as much memory as [`super::all_pairs::AllPairs`] needs.
const ALL_PAIRS_CAPACITY: u32 = {
    let bits = (2 * MAX_ALL_PAIRS + 2) * PAIR_WORDS * size_of::<u32>() as u32;
    let indices = MAX_ALL_PAIRS * size_of::<u16>() as u32;
    let deferred = MAX_ALL_PAIRS * size_of::<u64>() as u32;
    MAX_ALL_PAIRS + (bits + indices + deferred).div_ceil(size_of::<u64>() as u32)
};

/// Room for the replacement candidates that count, and those of one more row; later, for an index of 16 bits for each
/// behind them, rounded up to a whole number per warp.
pub(super) const fn replacements_capacity(args: &PruneArgs) -> u32 {
    let indices = args.max_candidates / 4 + 1;
    let more = if args.max_degree > indices { args.max_degree } else { indices };
    (args.max_candidates + more).next_power_of_two()
}

/// Room for the live neighbors of a row and replacement candidates. The kept ones, at most a row, are stored behind the
/// `max_candidates` that count, and indices of candidates behind these.
pub(super) const fn repair_capacity(args: &PruneArgs) -> u32 {
    args.graph.edges_stride + replacements_capacity(args)
}
