//! Adds candidates to a row without removing any of its neighbors. A candidate is added if no neighbor occludes it.
//!
//! ```text
//! kept <- the neighbors of the row
//! for a in [1, alpha]:                                         two rounds
//!     for c in candidates, nearest first, unless c is decided:
//!         if some k in kept, that c was not compared with, occludes c: drop c, or defer c to the second round
//!         else: keep c; stop once the row is full
//! ```
//!
//! The rows are those of [`robust_prune`](super::robust_prune). That loop compares each kept vertex with all that
//! remain, but a repair keeps most of a row from the start, and few of many candidates: here a candidate is compared
//! with kept vertices until the first that occludes it, as on the CPU, and in the second round only until the row is
//! full. What differs from the pseudo-code, and why the rows stay the same:
//!
//! 1. *The neighbors of the row are compared first*, one after another with many candidates, which are split among the
//!    warps, without barriers: what is kept later adds comparisons and undoes none.
//! 2. *Warps test the next candidates at the same time*, one each. The first that is not occluded is kept; others that
//!    were not are compared with it in the next iteration.

use cuda_std::prelude::*;

use super::PRUNE_DISTANCES;
use super::layout::DEFERRED;
use super::pair_distances::PairDistances;
use super::robust_prune::{PruneBlock, SharedMemory, warp_index, warps};
use crate::WARP_SIZE;
use crate::collectives::{block_stride, pack_lanes, rank_in, strided, warp_stride};
use crate::neighbor;

/// No candidate.
const NONE: u32 = u32::MAX;
/// The state of a candidate that is kept or dropped. Before that, it is the number of kept vertices that it was
/// compared with, and [`DEFERRED`] is set once one of them occludes it with alpha 1.
const DECIDED: u32 = u16::MAX as u32;

/// How many entries the row has after each round, with the neighbors that it had.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    pub(super) first_round: u32,
    pub(super) both_rounds: u32,
}

/// A row, and the candidates to add to it.
pub(super) struct RowFiller<'a, S> {
    block: &'a PruneBlock<'a, S>,
    /// The neighbors that the row keeps, then the candidates.
    entries: Shared<u64>,
    /// The number of neighbors that the row keeps.
    live: u32,
    /// The number of entries.
    count: u32,
    /// `[limit]`: the new row.
    pub(super) kept: Shared<u64>,
    limit: u32,
    /// `[count]`: the state of each candidate.
    states: Shared<u16>,
    /// `[warps][candidates of a warp]`: those that no neighbor occludes so far.
    lists: Shared<u16>,
    /// `[warps]`: a candidate that is not occluded, per warp.
    heads: Shared<u32>,
}

impl<'a, S: PairDistances> RowFiller<'a, S> {
    /// The state for a block with the memory of a repair, which keeps the first `live` of `count` entries. The new row
    /// gets up to `limit` entries; `limit` > `live`.
    #[inline(always)]
    pub(super) fn new(block: &'a PruneBlock<'a, S>, live: u32, count: u32, limit: u32) -> Self {
        let SharedMemory { entries, new_indices: states, heads, .. } = block.memory;
        let kept = entries.add(block.args.max_candidates);
        let lists = kept.add(block.args.graph.edges_stride).cast();
        Self { block, entries, live, count, kept, limit, states, lists, heads }
    }

    /// Fills the row. Called by the whole block; ends with a barrier.
    ///
    /// # Safety
    /// The entries name distinct vertices, and those behind the live ones ascend; a barrier has passed since they were
    /// written.
    #[inline(always)]
    pub(super) unsafe fn fill(&self) -> Kept {
        let mut kept = self.live;
        let mut computed = 0;
        // SAFETY: places are below the number of entries. Branches depend on values that all threads of the block agree
        // on, or all lanes of a warp where only a warp must converge.
        unsafe {
            block_stride(self.live, |place| self.kept.add(place).store(self.entries.add(place).load()));
            thread::sync_threads();
            self.compare_live(&mut computed);
            thread::sync_threads();
            let first_round = self.run_rounds(&mut kept, &mut computed);
            if warp::lane_id() == 0 && computed > 0 {
                atomic::add(self.block.args.counters.at(PRUNE_DISTANCES), u64::from(computed));
            }
            Kept { first_round, both_rounds: kept }
        }
    }

    /// Compares the neighbors of the row with this warp's share of the candidates, and sets the states of these. Stops
    /// when it would take fewer steps to compare each candidate that is left with the neighbors that are.
    ///
    /// # Safety
    /// Called by the whole warp; a barrier has passed since the kept entries were written, and another follows.
    #[inline(always)]
    unsafe fn compare_live(&self, computed: &mut u32) {
        let (distances, rule, candidates) =
            (&self.block.distances, self.block.rule(), self.count - self.live);
        let list = self.lists.add(warp_index() * candidates.div_ceil(warps()));
        let (mut len, mut compared) = (candidates.saturating_sub(warp_index()).div_ceil(warps()), 0);
        // SAFETY: a warp has its own list and states; what is overwritten in the list has been read.
        unsafe {
            warp_stride(len, |at| {
                list.add(at).store((self.live + warp_index() + at * warps()) as u16);
            });
            warp::sync_warp();
            while compared < self.live && len > 0 {
                let (left, per_step) = (self.live - compared, distances.per_warp());
                if len * left.div_ceil(per_step) < left * len.div_ceil(per_step) {
                    break;
                }
                let kept = self.kept.add(compared).load();
                let reference = distances.reference(neighbor::slot(kept));
                compared += 1;
                *computed += len;
                let mut end = 0;
                strided(0, len, per_step, |first| {
                    let at = first + distances.vertex_index();
                    let is_computed = distances.vertex_index() < per_step && at < len;
                    let candidate = if is_computed { list.add(at).load() } else { 0 };
                    let entry = if is_computed { self.entries.add(candidate.into()).load() } else { kept };
                    let between = distances.distance(&reference, neighbor::slot(entry));
                    let distance = neighbor::distance(entry);
                    let is_dropped = rule.occludes(between, distance);
                    let is_undecided = !is_dropped && between > distance;
                    if is_computed && !is_undecided {
                        let state = if is_dropped { DECIDED } else { compared | DEFERRED };
                        self.states.add(candidate.into()).store(state as u16);
                    }
                    warp::sync_warp();
                    end += pack_lanes(list.add(end), candidate, is_computed && is_undecided);
                });
                warp::sync_warp();
                len = end;
            }
            warp_stride(len, |at| {
                self.states.add(list.add(at).load().into()).store(compared as u16);
            });
        }
    }

    /// Keeps the candidates of both rounds, after the `kept` vertices before; returns how many are kept after the
    /// first. Called by the whole block; ends with a barrier.
    ///
    /// # Safety
    /// As for [`Self::fill`]; a barrier has passed since states were written.
    #[inline(always)]
    unsafe fn run_rounds(&self, kept: &mut u32, computed: &mut u32) -> u32 {
        let (mut first, mut second_round, mut first_round) = (self.live, false, *kept);
        // SAFETY: upheld by the caller; all warps find the same undecided candidates, and barriers separate that from
        // the stores of states, and these from the next search.
        unsafe {
            while *kept < self.limit {
                let [first_undecided, candidate] = self.undecided(first, warp_index(), second_round);
                if first_undecided == NONE {
                    if second_round {
                        break;
                    }
                    (first, second_round) = (self.live, true);
                    continue;
                }
                first = first_undecided;
                let mut state = DECIDED;
                if candidate != NONE {
                    let compared = u32::from(self.states.add(candidate).load()) & !DEFERRED;
                    state = self.compare(candidate, compared, *kept, second_round, computed);
                }
                let is_free = state & DEFERRED == 0;
                if warp::lane_id() == 0 {
                    self.heads.add(warp_index()).store(if is_free { candidate } else { NONE });
                }
                thread::sync_threads();
                let mut next = NONE;
                for warp in 0..warps() {
                    next = next.min(self.heads.add(warp).load());
                }
                if candidate != NONE && warp::lane_id() == 0 {
                    let state = if candidate == next { DECIDED } else { state };
                    self.states.add(candidate).store(state as u16);
                }
                if next != NONE {
                    if thread::thread_idx_x() == 0 {
                        self.kept.add(*kept).store(self.entries.add(next).load());
                    }
                    *kept += 1;
                    first_round += u32::from(!second_round);
                }
                thread::sync_threads();
            }
        }
        first_round
    }

    /// The first candidate from `first` on that a round has not decided, and the one with `before` such candidates
    /// before it. Called by the whole warp.
    ///
    /// # Safety
    /// A barrier has passed since states were written.
    #[inline(always)]
    unsafe fn undecided(&self, first: u32, before: u32, second_round: bool) -> [u32; 2] {
        let (mut first_undecided, mut count, mut begin) = (NONE, 0, first);
        while begin < self.count {
            let place = begin + warp::lane_id();
            // SAFETY: places are below the number of entries; the whole warp votes.
            unsafe {
                let state = if place < self.count { self.states.add(place).load().into() } else { DECIDED };
                let is_undecided = state != DECIDED && (second_round || state & DEFERRED == 0);
                let lanes = warp::ballot(is_undecided);
                if first_undecided == NONE && lanes != 0 {
                    first_undecided = begin + lanes.trailing_zeros();
                }
                let is_wanted = is_undecided && count + rank_in(lanes) == before;
                let wanted = warp::ballot(is_wanted);
                if wanted != 0 {
                    return [first_undecided, begin + wanted.trailing_zeros()];
                }
                count += lanes.count_ones();
            }
            begin += WARP_SIZE;
        }
        [first_undecided, NONE]
    }

    /// Compares a candidate with the kept vertices from `compared` on, until one occludes it; returns its state. Called
    /// by the whole warp.
    ///
    /// # Safety
    /// A barrier has passed since the `kept` entries were written.
    #[inline(always)]
    unsafe fn compare(
        &self,
        candidate: u32,
        mut compared: u32,
        kept: u32,
        second_round: bool,
        computed: &mut u32,
    ) -> u32 {
        let (distances, rule) = (&self.block.distances, self.block.rule());
        // SAFETY: the candidate and the kept vertices are entries, which name vertices; the whole warp computes
        // distances and votes.
        unsafe {
            let entry = self.entries.add(candidate).load();
            let (slot, distance) = (neighbor::slot(entry), neighbor::distance(entry));
            let reference = distances.reference(slot);
            while compared < kept {
                let place = compared + distances.vertex_index();
                let is_computed = distances.vertex_index() < distances.per_warp() && place < kept;
                let other = if is_computed { neighbor::slot(self.kept.add(place).load()) } else { slot };
                let between = distances.distance(&reference, other);
                let occluded = |is_occluded| warp::ballot(is_computed && is_occluded) != 0;
                let end = kept.min(compared + distances.per_warp());
                *computed += end - compared;
                compared = end;
                if occluded(rule.occludes(between, distance)) {
                    return DECIDED;
                }
                if !second_round && occluded(between <= distance) {
                    return compared | DEFERRED;
                }
            }
        }
        compared
    }
}
