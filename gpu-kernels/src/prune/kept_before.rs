//! Finds the entries of a row that an earlier prune kept.
//!
//! A prune writes what its first round kept, nearest first, then what its second round kept, nearest first. Edges that
//! are added later are appended after both parts. The parts are therefore the first two ascending runs of distances:
//!
//! ```text
//! distances   1 4 9 | 2 3 7 | 5 6 1
//!             first  second  appended since
//! ```
//!
//! An appended edge that is farther than the last entry of the second part is taken for a member of that part. It is
//! then not compared with the entries of both parts, so it may stay although one of them occludes it. The CPU executor
//! finds the same parts, and keeps the same edges.

use cuda_std::prelude::*;

use super::PruneArgs;
use super::remaining::DeferredRange;
use super::robust_prune::{FIRST_ALPHA, SharedMemory};
use crate::collectives::block_stride;
use crate::neighbor;

/// The ends of the two parts of a row, kept by the first and the second round. Called by the whole block, with a
/// barrier.
///
/// # Safety
/// There are `degree` entries, in the order of the row, and both `memory.kept_ends` hold `degree`. A barrier has
/// passed since they were written.
pub(super) unsafe fn kept_ends(
    args: &PruneArgs,
    degree: u32,
    entries: Shared<u64>,
    memory: &SharedMemory,
) -> [u32; 2] {
    let [first, second] = memory.kept_ends;
    // SAFETY: places are below the degree; all threads of the block reach the barriers.
    unsafe {
        // The end of the ascending run from `begin` on: the first descent, found by all threads.
        let find = |end: Shared<u32>, begin: u32| {
            block_stride(degree.saturating_sub(1), |place| {
                if place >= begin && entries.add(place).load() > entries.add(place + 1).load() {
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

/// Marks the entries that an earlier prune kept; returns the part of its second round. Called by the whole block, with
/// a barrier before the first is marked.
///
/// # Safety
/// The same as for [`kept_ends`]; a barrier follows before the entries are read.
pub(super) unsafe fn mark_kept_before(
    args: &PruneArgs,
    degree: u32,
    entries: Shared<u64>,
    memory: &SharedMemory,
) -> DeferredRange {
    // SAFETY: both parts have been found before entries change; one thread changes each entry.
    unsafe {
        let [begin, end] = kept_ends(args, degree, entries, memory);
        block_stride(end, |place| {
            let entry = entries.add(place);
            entry.store(neighbor::kept_before(entry.load()));
        });
        DeferredRange { old: memory.old, begin, end }
    }
}
