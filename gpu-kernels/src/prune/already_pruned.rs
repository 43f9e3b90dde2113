//! What of an old row an earlier prune kept.

use cuda_std::prelude::*;

use super::remaining::Deferred;
use super::robust_prune::Memory;
use super::sort::for_my_places;
use super::{FIRST_ALPHA, PruneArgs};
use crate::neighbor;

/// The ends of the parts of a row that the rounds of an earlier prune kept: of the first one's, and of both. A prune writes
/// what each round kept nearest first, and later edges are appended: so these are the two heads that rise. Now and then the
/// first of the appended is farther still, and goes uncompared with them until it is crowded. Whole block; a barrier.
///
/// # Safety
/// There are `degree` keys, in the order of the row, which is also what both words of the ends hold; a barrier has passed
/// since they were written.
#[inline(always)]
pub(super) unsafe fn pruned_ends(
    args: &PruneArgs,
    degree: u32,
    keys: Shared<u64>,
    memory: &Memory,
) -> [u32; 2] {
    let [first, second] = memory.pruned_ends;
    // SAFETY: places are below the degree; the whole block comes to the barriers.
    unsafe {
        let find = |end: Shared<u32>, begin: u32| {
            for_my_places(degree.saturating_sub(1), |place| {
                if place >= begin && keys.add(place).load() > keys.add(place + 1).load() {
                    end.atomic_min(place + 1);
                }
            });
            thread::sync_threads();
            end.load()
        };
        let begin = find(first, 0);
        [begin, if args.alpha > FIRST_ALPHA { find(second, begin) } else { begin }]
    }
}

/// Marks what an earlier prune kept as already_pruned, and gives the part of its second round. Whole block; a barrier passes before
/// the marks are made.
///
/// # Safety
/// As for [`pruned_ends`]; behind it, a barrier passes before the keys are read.
#[inline(always)]
pub(super) unsafe fn mark_already_pruned(
    args: &PruneArgs,
    degree: u32,
    keys: Shared<u64>,
    memory: &Memory,
) -> Deferred {
    // SAFETY: marks are made when nobody compares any more, each by one thread.
    unsafe {
        let [begin, end] = pruned_ends(args, degree, keys, memory);
        for_my_places(end, |place| {
            let key = keys.add(place);
            key.store(key.load() & !neighbor::UNVISITED);
        });
        Deferred { old: memory.old, begin, end }
    }
}
