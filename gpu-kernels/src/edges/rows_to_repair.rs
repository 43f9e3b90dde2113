//! Finds live vertices with tombstones among their neighbors.

use cuda_std::prelude::*;

use super::FindRowsToRepairArgs;
use crate::WARP_SIZE;
use crate::bits::{SLOTS_PER_WORD, contains};
use crate::collectives::row_of_warp;
use crate::graph::NO_SLOT;

/// Finds live vertices with neighbors that are not live; one warp per word of slots.
///
/// # Safety
/// The arguments are as the docs of their fields say.
#[kernel(max_threads = 256)]
pub unsafe fn find_rows_to_repair(args: FindRowsToRepairArgs) {
    let word = row_of_warp();
    if word >= args.slots.div_ceil(SLOTS_PER_WORD) as usize {
        return;
    }
    // SAFETY: the word exists, whose bits are slots; each warp is converged at the vote.
    unsafe {
        let mut live = global::load_readonly(args.live.at(word));
        let mut to_repair = 0;
        while live != 0 {
            let bit = live.trailing_zeros();
            live &= live - 1;
            if has_deleted_neighbor(&args, word * SLOTS_PER_WORD as usize + bit as usize) {
                to_repair |= 1 << bit;
            }
        }
        if warp::lane_id() == 0 {
            global::store(args.rows_to_repair.at(word), to_repair);
        }
    }
}

/// Whether the vertex has a neighbor that is not live. Called by the whole warp.
///
/// # Safety
/// The vertex exists.
unsafe fn has_deleted_neighbor(args: &FindRowsToRepairArgs, vertex: usize) -> bool {
    let row = args.edges.add(vertex * args.edges_stride as usize);
    let (mut place, mut found) = (warp::lane_id(), false);
    // SAFETY: places of the row; neighbors are slots.
    unsafe {
        while place < args.edges_stride {
            let slot = global::load_readonly(row.at(place as usize));
            found |= slot != NO_SLOT && !contains(args.live, slot);
            place += WARP_SIZE;
        }
        warp::any(found)
    }
}
