//! A block that prunes. The [parent module](super) has the algorithm.

use cuda_std::prelude::*;

use super::layout::Layout;
use super::pair_distances::PairDistances;
use super::remaining::{DeferredRange, NO_HEAD, Remaining};
use super::{PRUNE_DISTANCES, PruneArgs};
use crate::collectives::{rank_in, strided};
use crate::neighbor::{self, NO_CANDIDATE};
use crate::{DevicePtrMut, WARP_SIZE};

/// `alpha` of the first round.
pub(super) const FIRST_ALPHA: f32 = 1.0;

/// When a kept vertex occludes a candidate.
#[derive(Clone, Copy)]
pub(super) struct OcclusionRule {
    alpha: f32,
    /// Added to distances before `alpha` scales them, which makes negated products positive.
    offset: f32,
}

impl OcclusionRule {
    /// Whether a kept vertex occludes a candidate at `distance`, where `between` is the distance of the two. The
    /// operations are those of the CPU.
    pub(super) fn occludes(self, between: f32, distance: f32) -> bool {
        if self.alpha == FIRST_ALPHA {
            return between <= distance;
        }
        self.alpha * (self.offset + between) <= self.offset + distance
    }
}

/// The shared memory of a block.
#[derive(Clone, Copy)]
pub(super) struct SharedMemory {
    /// Candidates.
    pub(super) entries: Shared<u64>,
    /// The old row.
    pub(super) old: Shared<u32>,
    /// A counter.
    pub(super) count: Shared<u32>,
    /// The ends of the parts of the old row that the rounds of an earlier prune kept.
    pub(super) kept_ends: [Shared<u32>; 2],
    /// `[capacity]`: indices of the remaining new candidates. A repair keeps the states of its candidates here.
    pub(super) new_indices: Shared<u16>,
    /// `[warps][max_degree]`: indices of the remaining candidates that were kept before.
    pub(super) kept_before_indices: Shared<u16>,
    /// `[2][warps]`: index of each warp's first remaining candidate, in this iteration and the one before.
    pub(super) heads: Shared<u32>,
    pub(super) capacity: u32,
}

impl SharedMemory {
    /// The memory of a launch for `capacity` candidates.
    pub(super) fn new(args: &PruneArgs, capacity: u32) -> Self {
        let layout = Layout::new(capacity, args.max_degree, args.graph.edges_stride, warps());
        let base = shared::dynamic_shared_mem::<u8>();
        let words = base.byte_add(layout.words).cast::<u32>();
        Self {
            entries: base.cast(),
            old: base.byte_add(layout.old).cast(),
            count: words,
            kept_ends: [words.add(1), words.add(2)],
            new_indices: base.byte_add(layout.new_indices).cast(),
            kept_before_indices: base.byte_add(layout.kept_before_indices).cast(),
            heads: base.byte_add(layout.heads).cast(),
            capacity,
        }
    }
}

/// The index of this warp in its block.
pub(super) fn warp_index() -> u32 {
    thread::thread_idx_x() / WARP_SIZE
}

/// Warps per block.
pub(super) fn warps() -> u32 {
    thread::block_dim_x() / WARP_SIZE
}

/// A block that prunes: the distances that it computes, its arguments, and its shared memory.
pub(super) struct PruneBlock<'a, S> {
    pub(super) distances: S,
    pub(super) args: &'a PruneArgs,
    pub(super) memory: SharedMemory,
}

impl<'a, S: PairDistances> PruneBlock<'a, S> {
    /// The block that prunes the edges of `owner`, in a launch for `capacity` candidates.
    ///
    /// # Safety
    /// The vertex exists.
    pub(super) unsafe fn new(args: &'a PruneArgs, owner: u32, capacity: u32) -> Self {
        // SAFETY: upheld by the caller.
        let distances = unsafe { S::new(&args.graph, args.form, owner) };
        Self { distances, args, memory: SharedMemory::new(args, capacity) }
    }

    /// When a kept vertex occludes a candidate.
    pub(super) fn rule(&self) -> OcclusionRule {
        OcclusionRule { alpha: self.args.alpha, offset: self.distances.alpha_offset() }
    }

    /// Computes the distances of the vertices `slot(0..len)` to `vertex`, and calls `emit` with the index, slot and
    /// distance of each. Called by the whole block, with a barrier.
    ///
    /// # Safety
    /// The slots and `vertex` name vertices.
    #[inline(always)]
    pub(super) unsafe fn compute_distances(
        &self,
        vertex: u32,
        len: u32,
        slot: impl Fn(u32) -> u32,
        emit: impl Fn(u32, u32, f32),
    ) {
        let distances = &self.distances;
        // SAFETY: each warp is converged at every distance; lanes without a vertex use `vertex` itself.
        unsafe {
            let reference = distances.reference(vertex);
            let stride = warps() * distances.per_warp();
            strided(warp_index() * distances.per_warp(), len, stride, |first| {
                let index = first + distances.vertex_index();
                let is_computed = distances.vertex_index() < distances.per_warp() && index < len;
                let slot = if is_computed { slot(index) } else { vertex };
                let distance = distances.distance(&reference, slot);
                if is_computed {
                    emit(index, slot, distance);
                }
            });
            thread::sync_threads();
        }
    }

    /// Prunes the first `count` entries, which ascend, to at most `limit`. Calls `emit` with the index and the
    /// entry of each kept candidate, and returns how many there are. Called by the whole block.
    ///
    /// Entries [kept before](crate::neighbor::kept_before) are not compared with each other. Those in `deferred`
    /// are deferred to the second round from the start.
    ///
    /// # Safety
    /// The entries name distinct vertices; a barrier has passed since they and the old row were written.
    #[inline(always)]
    pub(super) unsafe fn robust_prune(
        &self,
        count: u32,
        limit: u32,
        deferred: &DeferredRange,
        emit: impl Fn(u32, u64),
    ) -> u32 {
        let Self { args, memory, .. } = self;
        let (mut kept, mut computed, mut iteration) = (0, 0, 0);
        let mut second_round = false;
        // SAFETY: indices are below `count`. Branches depend on values that are the same in all threads of the block,
        // or in all lanes of a warp where only a warp must converge.
        unsafe {
            let mut remaining = Remaining::new(args, memory, count, deferred);
            loop {
                // The next candidate is the nearest of the warps' heads. They are double buffered: a warp that is an
                // iteration ahead writes to the other half.
                warp::sync_warp();
                let heads = memory.heads.add(iteration % 2 * warps());
                iteration += 1;
                let head = remaining.head(second_round);
                if warp::lane_id() == 0 {
                    heads.add(warp_index()).store(head);
                }
                thread::sync_threads();
                let mut next = NO_HEAD;
                for warp in 0..warps() {
                    next = next.min(heads.add(warp).load());
                }
                if next == NO_HEAD {
                    if second_round || args.alpha <= FIRST_ALPHA {
                        break;
                    }
                    second_round = true;
                    continue;
                }
                // Keep the next candidate.
                let entry = memory.entries.add(next).load();
                emit(kept, entry);
                kept += 1;
                if kept == limit {
                    break;
                }
                // Drop the candidates that it occludes.
                remaining.remove(next, second_round);
                computed += remaining.drop_occluded(self, entry);
            }
            if warp::lane_id() == 0 && computed > 0 {
                atomic::add(args.counters.at(PRUNE_DISTANCES), u64::from(computed));
            }
        }
        kept
    }

    /// Adds the nearest of the first `count` entries that are not among the `kept` ones in `row`, until there are
    /// `min_degree`: calls `emit` as [`Self::robust_prune`] does, from a thread for each, and returns how many the row
    /// has then. Called by the whole block.
    ///
    /// # Safety
    /// The first `kept` places of `row` hold the slots of the entries that a prune of `count` entries kept, written by
    /// this block.
    #[inline(always)]
    pub(super) unsafe fn fill(
        &self,
        count: u32,
        kept: u32,
        min_degree: u32,
        row: DevicePtrMut<u32>,
        emit: impl Fn(u32, u64),
    ) -> u32 {
        let filled = count.min(min_degree);
        if kept >= filled {
            return kept;
        }
        // SAFETY: all threads of the block agree on the counts; indices are below them, and the warp is converged at
        // the vote.
        unsafe {
            thread::sync_threads();
            if warp_index() == 0 {
                let mut place = kept;
                strided(0, count, WARP_SIZE, |first| {
                    let index = first + warp::lane_id();
                    let entry =
                        if index < count { self.memory.entries.add(index).load() } else { NO_CANDIDATE };
                    let mut is_left = index < count;
                    for at in 0..kept {
                        is_left &= global::load(row.at(at as usize).cast_const()) != neighbor::slot(entry);
                    }
                    let lanes = warp::ballot(is_left);
                    let to = place + rank_in(lanes);
                    if is_left && to < filled {
                        emit(to, entry);
                    }
                    place += lanes.count_ones();
                });
            }
        }
        filled
    }
}
