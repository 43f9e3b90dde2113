//! Finds room for a link to an unreachable vertex.

use cuda_std::prelude::*;

use super::RoomArgs;
use crate::bits::contains;
use crate::collectives::{warp_min, warp_stride};
use crate::graph::NO_ROW;
use crate::neighbor;
use crate::rows::row_of_warp;

/// Finds the nearest candidate of each vertex that is reached and has room for a link; one warp per list.
///
/// # Safety
/// As the fields of the arguments say.
#[kernel(max_threads = 256)]
pub unsafe fn find_room(args: RoomArgs) {
    let list = row_of_warp();
    if list >= args.lists as usize {
        return;
    }
    let candidates = args.candidates.add(list * args.candidates_stride as usize);
    // SAFETY: there is such a list; whole warps call the collectives.
    unsafe {
        let identical = global::load_readonly(args.identical.at(list));
        let found = if identical == NO_ROW { global::load_readonly(args.work.at(2 * list)) } else { 0 };
        let mut nearest = u64::MAX;
        warp_stride(found, |place| {
            let key = global::load_readonly(candidates.at(place as usize)) | neighbor::UNVISITED;
            if key < nearest && has_room(&args, neighbor::id(key)) {
                nearest = key;
            }
        });
        let nearest = warp_min(nearest);
        if warp::lane_id() == 0 {
            global::store(args.nearest.at(list), nearest);
        }
    }
}

/// Whether a vertex is reached and the last place of its row is free.
///
/// # Safety
/// There is such a vertex.
#[inline(always)]
unsafe fn has_room(args: &RoomArgs, vertex: u32) -> bool {
    let last = vertex as usize * args.links_stride as usize + args.max_degree as usize - 1;
    // SAFETY: the caller's promise; rows hold links first, then none.
    unsafe { contains(args.reached, vertex) && global::load_readonly(args.links.add(last).at(0)) == NO_ROW }
}
