//! Both rounds of a prune of few candidates, with all pairs compared up front.
//!
//! When a full row gets some new edges, the loop of [`robust_prune`](super::robust_prune) takes as many iterations as a
//! row has edges, and each waits for rows from memory and for a barrier, although an earlier prune has compared most
//! pairs already. This module compares all pairs first:
//!
//! ```text
//! for each pair (a, b) that is not kept before on both sides:        all warps, without barriers between
//!     set bit b of occluded[a] and bit a of occluded[b] as the rule says, with alpha and with 1
//! run both rounds on bit sets                                        one warp
//! write the kept candidates
//! ```
//!
//! The rounds keep what the loop keeps: they make the same decisions in the same order, but read each decision instead
//! of computing it. Some pairs are compared here that the loop would skip, because one of the two is dropped before;
//! the counter of distances does not include them.

use cuda_std::prelude::*;

use super::bit_set::BitSet;
use super::layout::{MAX_ALL_PAIRS, PAIR_WORDS as WORDS};
use super::pair_distances::PairDistances;
use super::remaining::DeferredRange;
use super::robust_prune::{FIRST_ALPHA, OcclusionRule, PruneBlock, SharedMemory, warp_index, warps};
use super::{PRUNE_DISTANCES, PruneArgs};
use crate::WARP_SIZE;
use crate::collectives::{block_stride, rank_in, strided};
use crate::neighbor;

/// Maximum length in bytes of rows whose pairs are all compared: a block's candidates then nearly fit the L1 cache. For
/// longer rows the loop is faster, because it leaves most of them unread. Merges of rows of 1,536 bytes became four
/// times as fast (docs/notebook/experiments.md#gpu-linking-by-vectors-rounded-to-bytes).
const MAX_ROW_BYTES: u32 = 1536;

/// The state of a prune of few candidates, in the shared memory that these leave free.
#[derive(Clone, Copy)]
pub(super) struct AllPairs {
    entries: Shared<u64>,
    /// `[MAX_ALL_PAIRS][2][WORDS]`: the sets of candidates that each candidate occludes, with `alpha` and without
    /// slack.
    occluded: Shared<u32>,
    /// `[2][WORDS]`: the new candidates, and those deferred from the start; later, what each round keeps.
    sets: Shared<u32>,
    /// `[MAX_ALL_PAIRS]`: indices of candidates: the new ones, then those kept before.
    indices: Shared<u16>,
    /// `[deferred_len]`: entries of the deferred candidates, at most [`MAX_ALL_PAIRS`].
    deferred: Shared<u64>,
    deferred_len: u32,
    /// The number of new candidates.
    new_len: Shared<u32>,
}

impl AllPairs {
    /// The state for `count` entries that are not sorted yet, if they are few and of short rows. Saves the deferred
    /// entries of the old row, which the sort will move. Called by the whole block; a barrier must follow.
    ///
    /// # Safety
    /// `old_entries` are those of the old row, which was [marked](super::kept_before::mark_kept_before). No
    /// barrier is needed in between.
    #[inline(always)]
    pub(super) unsafe fn new(
        args: &PruneArgs,
        memory: &SharedMemory,
        count: u32,
        old_entries: Shared<u64>,
        deferred: &DeferredRange,
    ) -> Option<Self> {
        if count > MAX_ALL_PAIRS || args.graph.shape.row_bytes() > MAX_ROW_BYTES {
            return None;
        }
        let occluded = memory.entries.add(MAX_ALL_PAIRS).cast::<u32>();
        let sets = occluded.add(2 * MAX_ALL_PAIRS * WORDS);
        let indices = sets.add(2 * WORDS).cast::<u16>();
        let entries = indices.add(MAX_ALL_PAIRS).cast::<u64>();
        block_stride(deferred.end, |place| {
            if place >= deferred.begin {
                // SAFETY: this thread marked the entry. There is room after all entries.
                unsafe { entries.add(place - deferred.begin).store(old_entries.add(place).load()) };
            }
        });
        let deferred_len = deferred.end - deferred.begin;
        Some(Self {
            entries: memory.entries,
            occluded,
            sets,
            indices,
            deferred: entries,
            deferred_len,
            new_len: memory.count,
        })
    }

    /// Prunes as [`PruneBlock::robust_prune`] does, but each thread calls `emit` for some of the kept candidates.
    ///
    /// # Safety
    /// The same as for [`PruneBlock::robust_prune`].
    #[inline(always)]
    pub(super) unsafe fn robust_prune<S: PairDistances>(
        &self,
        block: &PruneBlock<'_, S>,
        count: u32,
        limit: u32,
        emit: impl Fn(u32, u64),
    ) -> u32 {
        let args = block.args;
        // SAFETY: all threads of the block reach this; a barrier separates writes from reads. Sets are at multiples of
        // 16 bytes.
        unsafe {
            let clear = |set: Shared<u32>| set.cast::<[u64; 2]>().store([0; 2]);
            block_stride(2 * count, |set| clear(self.occluded.add(set * WORDS)));
            block_stride(2, |set| clear(self.sets.add(set * WORDS)));
            thread::sync_threads();
            if warp_index() == 0 {
                self.list(count);
            }
            self.find_deferred(count);
            thread::sync_threads();
            self.compare(&block.distances, block.rule(), count);
            thread::sync_threads();
            if warp_index() == 0 {
                self.run_rounds(args, count, limit);
            }
            thread::sync_threads();
            let (first, second) = (BitSet::load(self.sets), BitSet::load(self.sets.add(WORDS)));
            block_stride(count, |index| {
                let rank = if first.contains(index) {
                    first.rank(index)
                } else if second.contains(index) {
                    first.len() + second.rank(index)
                } else {
                    limit
                };
                if rank < limit {
                    emit(rank, self.entries.add(index).load());
                }
            });
            (first.len() + second.len()).min(limit)
        }
    }

    /// Lists the indices of the candidates, new ones first. Called by one warp.
    #[inline(always)]
    unsafe fn list(&self, count: u32) {
        let (mut new_len, mut kept_before) = (0, count);
        strided(0, count, WARP_SIZE, |first| {
            let index = first + warp::lane_id();
            // SAFETY: indices below the count; the warp is converged at the vote.
            unsafe {
                let is_candidate = index < count;
                let is_new = is_candidate && !neighbor::is_kept_before(self.entries.add(index).load());
                let lanes = warp::ballot(is_new);
                let kept_before_lanes = warp::ballot(is_candidate && !is_new);
                kept_before -= kept_before_lanes.count_ones();
                let to =
                    if is_new { new_len + rank_in(lanes) } else { kept_before + rank_in(kept_before_lanes) };
                if is_candidate {
                    self.indices.add(to).store(index as u16);
                }
                new_len += lanes.count_ones();
                if warp::lane_id() == 0 {
                    self.sets.add(first / 32).store(lanes);
                }
            }
        });
        if warp::lane_id() == 0 {
            // SAFETY: no thread reads it before the next barrier.
            unsafe { self.new_len.store(new_len) };
        }
    }

    /// Finds the deferred candidates among the sorted entries by binary search.
    #[inline(always)]
    unsafe fn find_deferred(&self, count: u32) {
        block_stride(self.deferred_len, |at| {
            // SAFETY: one of them; steps stay below the count.
            unsafe {
                let entry = self.deferred.add(at).load();
                let (mut index, mut step) = (0, MAX_ALL_PAIRS / 2);
                while step > 0 {
                    let next = index + step;
                    if next < count && self.entries.add(next).load() <= entry {
                        index = next;
                    }
                    step /= 2;
                }
                // The entry may come after the last candidate that is considered.
                if self.entries.add(index).load() == entry {
                    self.sets.add(WORDS + index / 32).atomic_or(1 << (index % 32));
                }
            }
        });
    }

    /// Compares the new candidates with each other and with those kept before: a warp takes one new candidate.
    #[inline(always)]
    unsafe fn compare<S: PairDistances>(&self, distances: &S, rule: OcclusionRule, count: u32) {
        // SAFETY: indices of entries, which name vertices; whole warps compute every distance.
        unsafe {
            let new_len = self.new_len.load();
            strided(warp_index(), new_len, warps(), |one| {
                let a = u32::from(self.indices.add(one).load());
                let entry_a = self.entries.add(a).load();
                let reference = distances.reference(neighbor::slot(entry_a));
                strided(one + 1, count, distances.per_warp(), |first| {
                    let at = first + distances.vertex_index();
                    let is_computed = distances.vertex_index() < distances.per_warp() && at < count;
                    let b = if is_computed { u32::from(self.indices.add(at).load()) } else { a };
                    let entry_b = self.entries.add(b).load();
                    let between = distances.distance(&reference, neighbor::slot(entry_b));
                    if is_computed {
                        self.set_occluded(a, (b, entry_b), between, rule);
                        self.set_occluded(b, (a, entry_a), between, rule);
                    }
                });
            });
        }
    }

    /// Sets the bits that say that `from` occludes `to`, if it does.
    #[inline(always)]
    unsafe fn set_occluded(&self, from: u32, (to, entry): (u32, u64), between: f32, rule: OcclusionRule) {
        let (distance, bit) = (neighbor::distance(entry), 1 << (to % 32));
        let word = self.occluded.add(2 * from * WORDS + to / 32);
        // SAFETY: the bits are those of a candidate.
        unsafe {
            if rule.occludes(between, distance) {
                word.atomic_or(bit);
            }
            if between <= distance {
                word.add(WORDS).atomic_or(bit);
            }
        }
    }

    /// Runs both rounds, and replaces the sets by what each round keeps. Successive candidates that occlude nothing are
    /// kept at once, so both sets together may exceed `limit`. Called by one warp, whose lanes all do the same.
    #[inline(always)]
    unsafe fn run_rounds(&self, args: &PruneArgs, count: u32, limit: u32) {
        // SAFETY: the bits are those of candidates, and a barrier has passed.
        unsafe {
            let (new, mut deferred) = (BitSet::load(self.sets), BitSet::load(self.sets.add(WORDS)));
            let occluding = self.occluding(count).or(new);
            let (mut remaining, mut kept) = (BitSet::below(count), BitSet::EMPTY);
            let (mut first, mut free_places, mut computed) = (BitSet::EMPTY, limit, 0);
            let mut second_round = false;
            while free_places > 0 {
                let undecided = if second_round { remaining } else { remaining.without(deferred) };
                let next = undecided.and(occluding).min();
                // Candidates before `next` occlude nothing: all of them are kept at once.
                let run = undecided.and(BitSet::below(next.unwrap_or(MAX_ALL_PAIRS))).without(occluding);
                computed += run.len().min(free_places - 1) * remaining.and(new).len();
                free_places = free_places.saturating_sub(run.len());
                (kept, remaining) = (kept.or(run), remaining.without(run));
                let Some(next) = next else {
                    if second_round || args.alpha <= FIRST_ALPHA {
                        break;
                    }
                    (first, kept, second_round) = (kept, BitSet::EMPTY, true);
                    continue;
                };
                if free_places > 0 {
                    let one = BitSet::only(next);
                    (kept, remaining) = (kept.or(one), remaining.without(one));
                    free_places -= 1;
                }
                if free_places > 0 {
                    computed += if new.contains(next) { remaining } else { remaining.and(new) }.len();
                    let occluded = self.occluded.add(2 * next * WORDS);
                    remaining = remaining.without(BitSet::load(occluded));
                    deferred = deferred.or(BitSet::load(occluded.add(WORDS)));
                }
            }
            if !second_round {
                (first, kept) = (kept, BitSet::EMPTY);
            }
            warp::sync_warp();
            if warp::lane_id() == 0 {
                first.store(self.sets);
                kept.store(self.sets.add(WORDS));
                if computed > 0 {
                    atomic::add(args.counters.at(PRUNE_DISTANCES), u64::from(computed));
                }
            }
        }
    }

    /// The candidates that occlude any other. Called by one warp.
    #[inline(always)]
    unsafe fn occluding(&self, count: u32) -> BitSet {
        let mut occluding = BitSet::EMPTY;
        strided(0, count, WARP_SIZE, |first| {
            let index = first + warp::lane_id();
            // SAFETY: the bits are those of candidates; the warp is converged at the vote.
            unsafe {
                let occluded = self.occluded.add(2 * index.min(count - 1) * WORDS);
                let any = BitSet::load(occluded).or(BitSet::load(occluded.add(WORDS))).len() > 0;
                let lanes = warp::ballot(any && index < count);
                occluding = occluding.or(BitSet::word(first / 32, lanes));
            }
        });
        occluding
    }
}
