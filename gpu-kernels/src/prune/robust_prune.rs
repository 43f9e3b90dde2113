//! Both rounds of a prune: see the [parent module](super) for the algorithm.

use cuda_std::prelude::*;

use super::layout::Layout;
use super::pair_distances::PairDistances;
use super::remaining::{NO_HEAD, Remaining, SecondRound};
use super::{FIRST_ALPHA, OcclusionRule, PRUNE_DISTANCES, PruneArgs};
use crate::neighbor;

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
    pub(super) pruned_ends: [Shared<u32>; 2],
    /// Indices or states of candidates.
    pub(super) new: Shared<u16>,
    already_pruned: Shared<u16>,
    /// A candidate of each warp, in this step and the one before.
    pub(super) heads: Shared<u32>,
    capacity: u32,
}

impl SharedMemory {
    /// The memory of a launch for `capacity` candidates.
    #[inline(always)]
    pub(super) fn new(args: &PruneArgs, capacity: u32) -> Self {
        let layout = Layout::new(capacity, args.max_degree, args.graph.edges_stride, warps());
        let base = shared::dynamic_shared_mem::<u8>();
        let words = base.byte_add(layout.words).cast::<u32>();
        Self {
            entries: base.cast(),
            old: base.byte_add(layout.old).cast(),
            count: words,
            pruned_ends: [words.add(1), words.add(2)],
            new: base.byte_add(layout.new).cast(),
            already_pruned: base.byte_add(layout.already_pruned).cast(),
            heads: base.byte_add(layout.heads).cast(),
            capacity,
        }
    }
}

/// The index of this warp in its block.
#[inline(always)]
pub(super) fn warp_number() -> u32 {
    thread::thread_idx_x() / warp::WARP_SIZE
}

/// Warps per block.
#[inline(always)]
pub(super) fn warps() -> u32 {
    thread::block_dim_x() / warp::WARP_SIZE
}

/// Prunes the first `count` entries, which ascend, to at most `max_degree`. Calls `emit` with the index and the entry of
/// each kept candidate, and returns how many there are. Whole block.
///
/// Entries without the unexpanded bit are already pruned: they are not compared with each other. Entries among
/// `deferred` are deferred to the second round from the start.
///
/// # Safety
/// The entries name distinct vertices; a barrier has passed since they and the old row were written.
#[inline(always)]
pub(super) unsafe fn robust_prune<S: PairDistances>(
    distances: &S,
    args: &PruneArgs,
    memory: &SharedMemory,
    count: u32,
    deferred: &SecondRound,
    emit: impl Fn(u32, u64),
) -> u32 {
    let (warp, warps, entries) = (warp_number(), warps(), memory.entries);
    let (mut kept, mut scored, mut step) = (0, 0, 0);
    let mut second_round = false;
    // SAFETY: indices are below `count`, and each warp has room for its share of the capacity. Branches depend on
    // values that are the same in all threads of the block, or in all lanes of a warp where only a warp must converge.
    unsafe {
        let new = memory.new.add(warp * (memory.capacity / warps));
        let already_pruned = memory.already_pruned.add(warp * args.max_degree);
        let mut remaining = Remaining::share((entries, count), (warp, warps), new, already_pruned, deferred);
        loop {
            // The next candidate is the least of the warps' heads. They are double buffered: a warp that is a step
            // ahead writes to the other half.
            warp::sync_warp(warp::FULL_MASK);
            let heads = memory.heads.add(step % 2 * warps);
            step += 1;
            let head = remaining.head(second_round);
            if warp::lane_id() == 0 {
                heads.add(warp).store(head);
            }
            thread::sync_threads();
            let mut next = NO_HEAD;
            for warp in 0..warps {
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
            let entry = entries.add(next).load();
            emit(kept, entry);
            kept += 1;
            if kept == args.max_degree {
                break;
            }
            // Drop the candidates that it occludes.
            remaining.remove(next, second_round);
            let reference = distances.reference(neighbor::id(entry));
            scored +=
                remaining.drop_occluded(distances, entries, (entry, &reference), OcclusionRule::new(args));
        }
        if warp::lane_id() == 0 && scored > 0 {
            atomic::add(args.counters.at(PRUNE_DISTANCES), u64::from(scored));
        }
    }
    kept
}
