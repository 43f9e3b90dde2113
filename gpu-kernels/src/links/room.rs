//! Where a vertex that nothing leads to finds a place.

use cuda_std::prelude::*;

use super::RoomArgs;
use crate::bits::contains;
use crate::graph::NO_ROW;
use crate::neighbor;
use crate::rows::row_of_warp;

/// Looks for the nearest candidate of each vertex that is reached and has a free place; one warp a list.
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
    // SAFETY: a list that there is; whole warps come to every step, and to both votes.
    unsafe {
        let identical = global::load_readonly(args.identical.at(list));
        let found = if identical == NO_ROW { global::load_readonly(args.work.at(2 * list)) } else { 0 };
        let (mut nearest, mut place) = (u64::MAX, warp::lane_id());
        while place < found {
            let key = global::load_readonly(candidates.at(place as usize)) | neighbor::UNVISITED;
            if key < nearest && has_room(&args, neighbor::id(key)) {
                nearest = key;
            }
            place += warp::WARP_SIZE;
        }
        // The least of the upper halves, then of the lower halves beside it.
        let upper = warp::warp_reduce_min(warp::FULL_MASK, neighbor::orderable(nearest));
        let lower = if neighbor::orderable(nearest) == upper { nearest as u32 } else { u32::MAX };
        let lower = warp::warp_reduce_min(warp::FULL_MASK, lower);
        if warp::lane_id() == 0 {
            global::store(args.nearest.at(list), u64::from(upper) << 32 | u64::from(lower));
        }
    }
}

/// Whether a vertex is reached, and the last place of its row free.
///
/// # Safety
/// There is such a vertex.
#[inline(always)]
unsafe fn has_room(args: &RoomArgs, vertex: u32) -> bool {
    let last = vertex as usize * args.links_stride as usize + args.max_degree as usize - 1;
    // SAFETY: the caller's promise; rows hold links first, then none.
    unsafe { contains(args.reached, vertex) && global::load_readonly(args.links.add(last).at(0)) == NO_ROW }
}
