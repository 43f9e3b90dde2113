//! Finds a row that can take an edge to an unreachable vertex.

use cuda_std::prelude::*;

use super::FindRowWithRoomArgs;
use crate::bits::contains;
use crate::collectives::{row_of_warp, warp_min, warp_stride};
use crate::graph::NO_SLOT;
use crate::neighbor;

/// Finds the nearest candidate of each vertex that is reachable and whose row has a free place; one warp per vertex.
///
/// # Safety
/// The arguments are as the docs of their fields say.
#[kernel(max_threads = 256)]
pub unsafe fn find_row_with_room(args: FindRowWithRoomArgs) {
    let batch_index = row_of_warp();
    if batch_index >= args.candidates.vertices_len as usize {
        return;
    }
    let candidates = args.candidates.entries_of(batch_index);
    // SAFETY: the batch has the vertex; each warp is converged at the collectives.
    unsafe {
        let duplicate_of = global::load_readonly(args.duplicate_of.at(batch_index));
        let found = if duplicate_of == NO_SLOT {
            global::load_readonly(args.candidates.costs.at(2 * batch_index))
        } else {
            0
        };
        let mut nearest = u64::MAX;
        warp_stride(found, |place| {
            let entry = global::load_readonly(candidates.at(place as usize)) | neighbor::UNEXPANDED;
            if entry < nearest && has_free_place(&args, neighbor::slot(entry)) {
                nearest = entry;
            }
        });
        let nearest = warp_min(nearest);
        if warp::lane_id() == 0 {
            global::store(args.nearest.at(batch_index), nearest);
        }
    }
}

/// Whether a vertex is reachable and the last place of its row is free.
///
/// # Safety
/// The vertex exists.
unsafe fn has_free_place(args: &FindRowWithRoomArgs, vertex: u32) -> bool {
    let last = vertex as usize * args.edges_stride as usize + args.max_degree as usize - 1;
    // SAFETY: upheld by the caller; rows hold neighbors first, then padding.
    unsafe { contains(args.reached, vertex) && global::load_readonly(args.edges.add(last).at(0)) == NO_SLOT }
}
