//! The rounds of a prune.

use cuda_std::prelude::*;

use super::layout::Layout;
use super::remaining::{Deferred, NO_HEAD, Remaining};
use super::space::Space;
use super::{FIRST_ALPHA, OcclusionRule, PRUNE_DISTANCES, PruneArgs};
use crate::neighbor;

/// What a block has in shared memory.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    /// Candidates.
    pub(super) keys: Shared<u64>,
    /// The old row.
    pub(super) old: Shared<u32>,
    /// Edges that are new.
    pub(super) fresh: Shared<u32>,
    /// Ends of the two heads of the old row that are already_pruned: what the rounds of an earlier prune kept.
    pub(super) pruned_ends: [Shared<u32>; 2],
    others: Shared<u16>,
    already_pruned: Shared<u16>,
    heads: Shared<u32>,
    capacity: u32,
}

impl Memory {
    /// The memory of a launch for `capacity` candidates.
    #[inline(always)]
    pub(super) fn carve(args: &PruneArgs, capacity: u32) -> Self {
        let layout = Layout::new(capacity, args.max_degree, args.graph.links_stride, warps());
        let base = shared::dynamic_shared_mem::<u8>();
        let words = base.byte_add(layout.words).cast::<u32>();
        Self {
            keys: base.cast(),
            old: base.byte_add(layout.old).cast(),
            fresh: words,
            pruned_ends: [words.add(1), words.add(2)],
            others: base.byte_add(layout.others).cast(),
            already_pruned: base.byte_add(layout.already_pruned).cast(),
            heads: base.byte_add(layout.heads).cast(),
            capacity,
        }
    }
}

/// The number of this warp.
#[inline(always)]
pub(super) fn warp_number() -> u32 {
    thread::thread_idx_x() / warp::WARP_SIZE
}

/// Warps of a block.
#[inline(always)]
pub(super) fn warps() -> u32 {
    thread::block_dim_x() / warp::WARP_SIZE
}

/// How many were kept: in the first round, and in both.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    pub(super) first: u32,
    pub(super) all: u32,
}

/// Keeps up to `most`, `max_degree` of them or fewer, of the first `count` keys, which rise, and hands each to `take` with its number; returns how
/// many. Whole block.
///
/// Twice it goes through them: first with a slack of 1, then with `alpha` through those that were occluded to, as the CPU
/// executor does. Whom a kept candidate occludes towards with `alpha` is dropped at once, so that none is compared with it
/// again.
///
/// Candidates without the unvisited bit are *already_pruned*: an earlier prune has kept them beside each other, so that they
/// are compared with the others only. Of these, it kept those `deferred` the second time.
///
/// # Safety
/// The keys name vertices of the space, distinct ones; a barrier has passed since they and the old row were written.
#[inline(always)]
pub(super) unsafe fn robust_prune<S: Space>(
    space: &S,
    args: &PruneArgs,
    memory: &Memory,
    (most, count): (u32, u32),
    deferred: &Deferred,
    take: impl Fn(u32, u64),
) -> Kept {
    let (warp, warps, keys) = (warp_number(), warps(), memory.keys);
    let (mut kept, mut scored, mut turn) = (0, 0, 0);
    let (mut first, mut second) = (0, false);
    // SAFETY: places are below `count`, and each warp has room for its share of the capacity; every branch goes by what
    // is the same in all threads, or in all lanes of a warp where only that has to be.
    unsafe {
        let (others, already_pruned) = (
            memory.others.add(warp * (memory.capacity / warps)),
            memory.already_pruned.add(warp * args.max_degree),
        );
        let mut left = Remaining::share((keys, count), (warp, warps), others, already_pruned, deferred);
        loop {
            warp::sync_warp(warp::FULL_MASK);
            // A warp that is a turn ahead writes to the other half.
            let heads = memory.heads.add(turn % 2 * warps);
            turn += 1;
            let head = left.head(second);
            if warp::lane_id() == 0 {
                heads.add(warp).store(head);
            }
            thread::sync_threads();
            let mut next = NO_HEAD;
            for warp in 0..warps {
                next = next.min(heads.add(warp).load());
            }
            if next == NO_HEAD {
                if second || args.alpha <= FIRST_ALPHA {
                    break;
                }
                second = true;
                continue;
            }
            let key = keys.add(next).load();
            take(kept, key);
            kept += 1;
            first += u32::from(!second);
            if kept == most {
                break;
            }
            left.skip(next, second);
            let near = space.near(neighbor::id(key));
            scored += left.drop_occluded(space, keys, (key, &near), OcclusionRule::of(args));
        }
        if warp::lane_id() == 0 && scored > 0 {
            atomic::add(args.counters.at(PRUNE_DISTANCES), u64::from(scored));
        }
    }
    Kept { first, all: kept }
}
