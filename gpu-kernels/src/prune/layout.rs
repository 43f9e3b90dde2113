//! What is where in the shared memory of a block that prunes.

use super::PruneArgs;

/// Offsets in bytes.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "kernels"), expect(dead_code, reason = "kernels alone ask what lies where"))]
pub(super) struct Layout {
    /// `u16[capacity]`, a part a warp: candidates that are left. Keys, `u64[capacity]`, are before it.
    pub(super) others: u32,
    /// `u16[warps][max_degree]`: those of them that are already_pruned.
    pub(super) already_pruned: u32,
    /// `u32[links_stride]`: the old row.
    pub(super) old: u32,
    /// `u32[2][warps]`: the first that each warp has left, in this round and the one before.
    pub(super) heads: u32,
    /// `u32[3]`: edges that are new, and the ends of the two heads of the old row that are already_pruned.
    pub(super) words: u32,
    /// Bytes of all.
    #[cfg(not(target_arch = "nvptx64"))]
    pub(super) end: u32,
}

impl Layout {
    /// For `capacity` candidates, a multiple of `warps`, and a block of that many.
    #[inline(always)]
    pub(super) const fn new(capacity: u32, max_degree: u32, links_stride: u32, warps: u32) -> Self {
        let others = capacity * size_of::<u64>() as u32;
        let already_pruned = others + capacity * size_of::<u16>() as u32;
        let old = (already_pruned + warps * max_degree * size_of::<u16>() as u32).next_multiple_of(4);
        let heads = old + links_stride * size_of::<u32>() as u32;
        let words = heads + 2 * warps * size_of::<u32>() as u32;
        Self {
            others,
            already_pruned,
            old,
            heads,
            words,
            #[cfg(not(target_arch = "nvptx64"))]
            end: words + 3 * size_of::<u32>() as u32,
        }
    }
}

/// Mark of the place of a candidate that deferred for the second round; places are below it.
pub(super) const DEFERRED: u32 = 1 << 15;

/// Candidates that there is room for when a search found up to `found`, and others `batch_candidates` them: what a bitonic sort of
/// all takes.
#[inline(always)]
pub(super) const fn link_capacity(found: u32, batch_candidates: u32) -> u32 {
    (found + batch_candidates).next_power_of_two()
}

/// Candidates that there is room for when a vertex is compared with so many `at_once` beside those kept before, and first
/// with up to `found` of a search: what a bitonic sort takes.
#[inline(always)]
pub(super) const fn batch_capacity(at_once: u32, max_degree: u32, found: u32) -> u32 {
    let batch_candidates = at_once + max_degree;
    if batch_candidates > found { batch_candidates.next_power_of_two() } else { found.next_power_of_two() }
}

/// Candidates that there is room for when new edges and the old row come together. Of the new edges, as many are read as
/// there may be candidates after those are gone that the old row has already.
#[inline(always)]
pub(super) const fn merge_capacity(max_candidates: u32, max_degree: u32) -> u32 {
    let most = (max_candidates + 2 * max_degree).next_power_of_two();
    if most < ALL_PAIRS_CAPACITY { ALL_PAIRS_CAPACITY } else { most }
}

/// Candidates that are few: there is a bit for each.
pub(super) const MAX_ALL_PAIRS: u32 = 128;
/// Words of such bits.
pub(super) const PAIR_WORDS: u32 = MAX_ALL_PAIRS / 32;
/// Candidates that take as much memory as few of them with what [`super::all_pairs::AllPairs`] has.
const ALL_PAIRS_CAPACITY: u32 = {
    let bits = (2 * MAX_ALL_PAIRS + 2) * PAIR_WORDS * size_of::<u32>() as u32;
    let (places, deferred) =
        (MAX_ALL_PAIRS * size_of::<u16>() as u32, MAX_ALL_PAIRS * size_of::<u64>() as u32);
    MAX_ALL_PAIRS + (bits + places + deferred).div_ceil(size_of::<u64>() as u32)
};

/// Heirs that there is room for: those that count and those of one more row, and what a bitonic sort takes.
#[inline(always)]
pub(super) const fn replacements_capacity(args: &PruneArgs) -> u32 {
    (args.max_candidates + args.max_degree).next_power_of_two()
}

/// Candidates that there is room for around deleted neighbours: those of the old row, then replacements. Where the candidates
/// that count end, what is kept of them begins: as many as a row holds.
#[inline(always)]
pub(super) const fn repair_capacity(args: &PruneArgs) -> u32 {
    args.graph.links_stride + replacements_capacity(args)
}
