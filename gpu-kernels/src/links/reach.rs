//! One edge further.

use cuda_std::prelude::*;

use super::ReachArgs;
use crate::bits::WORD;
use crate::rows::row_of_warp;

/// Follows the links of the frontier; one warp a vertex.
///
/// # Safety
/// As the fields of the arguments say.
#[kernel(max_threads = 256)]
pub unsafe fn reach(args: ReachArgs) {
    let at = row_of_warp();
    if at >= args.frontier_len as usize {
        return;
    }
    // SAFETY: a vertex of the frontier, which no launch writes that reads it; whole warps come to every step. Each slot
    // is added by one thread once, so that the queue has room.
    unsafe {
        let vertex = global::load(args.frontier.at(at));
        let row = args.links.add(vertex as usize * args.links_stride as usize);
        let mut place = warp::lane_id();
        while place < args.links_stride {
            let slot = global::load_readonly(row.at(place as usize));
            append(&args, slot, slot < args.slots && add(&args, slot));
            place += warp::WARP_SIZE;
        }
    }
}

/// Adds a slot to what is reached; false if it was there. That is looked at first: most were, and looking disturbs nobody.
///
/// # Safety
/// There is such a slot.
#[inline(always)]
unsafe fn add(args: &ReachArgs, slot: u32) -> bool {
    let (word, bit) = (args.reached.at((slot / WORD) as usize), 1 << (slot % WORD));
    // SAFETY: the caller's promise; the words are written by atomic updates alone.
    unsafe { global::load_relaxed(word) & bit == 0 && atomic::or(word, bit) & bit == 0 }
}

/// Puts the slots of the lanes in which they are `new` at the end of the queue. Whole warp.
///
/// # Safety
/// There is room.
#[inline(always)]
unsafe fn append(args: &ReachArgs, slot: u32, new: bool) {
    // SAFETY: the whole warp comes here; places are handed out once.
    unsafe {
        let lanes = warp::warp_vote_ballot(warp::FULL_MASK, new);
        if lanes == 0 {
            return;
        }
        let mut begin = 0;
        if warp::lane_id() == 0 {
            begin = atomic::add(args.queue_len.at(0), lanes.count_ones());
        }
        let (begin, _) = warp::warp_shuffle_idx(warp::FULL_MASK, begin, 0, warp::WARP_SIZE);
        if new {
            let before = (lanes & ((1 << warp::lane_id()) - 1)).count_ones();
            global::store(args.queue.at((begin + before) as usize), slot);
        }
    }
}
