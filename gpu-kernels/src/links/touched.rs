//! Vertices that deletes have touched.

use cuda_std::prelude::*;

use super::TouchedArgs;
use crate::bits::{WORD, contains};
use crate::graph::NO_ROW;
use crate::rows::row_of_warp;

/// Looks for live vertices with links to slots that are not; one warp for the slots of a word.
///
/// # Safety
/// As the fields of the arguments say.
#[kernel(max_threads = 256)]
pub unsafe fn find_touched(args: TouchedArgs) {
    let word = row_of_warp();
    if word >= args.slots.div_ceil(WORD) as usize {
        return;
    }
    // SAFETY: a word that there is, whose bits are of slots; whole warps come to every step.
    unsafe {
        let mut left = global::load_readonly(args.live.at(word));
        let mut touched = 0;
        while left != 0 {
            let bit = left.trailing_zeros();
            left &= left - 1;
            if leads_beyond(&args, word * WORD as usize + bit as usize) {
                touched |= 1 << bit;
            }
        }
        if warp::lane_id() == 0 {
            global::store(args.touched.at(word), touched);
        }
    }
}

/// Whether the vertex has a link to a slot that is not live. Whole warp.
///
/// # Safety
/// There is such a vertex.
#[inline(always)]
unsafe fn leads_beyond(args: &TouchedArgs, vertex: usize) -> bool {
    let row = args.links.add(vertex * args.links_stride as usize);
    let (mut place, mut beyond) = (warp::lane_id(), false);
    // SAFETY: places of the row; links lead to slots.
    unsafe {
        while place < args.links_stride {
            let slot = global::load_readonly(row.at(place as usize));
            beyond |= slot != NO_ROW && !contains(args.live, slot);
            place += warp::WARP_SIZE;
        }
        warp::warp_vote_any(warp::FULL_MASK, beyond)
    }
}
