//! Adds slots to a set, or removes them.

use cuda_std::prelude::*;

use super::{Change, MarkArgs, WORD};

/// Changes a set; one thread per slot.
///
/// # Safety
/// As the fields of the arguments say.
#[kernel(max_threads = 256)]
pub unsafe fn mark_slots(args: MarkArgs) {
    let at = thread::index_1d();
    let mut changed = false;
    // SAFETY: below the number of slots, each of which has a bit; whole warps vote.
    unsafe {
        if at < args.len {
            let slot = global::load_streaming(args.slots.at(at as usize));
            let (word, bit) = (args.bits.at((slot / WORD) as usize), 1 << (slot % WORD));
            changed = match args.change {
                Change::Add => atomic::or(word, bit) & bit == 0,
                Change::Remove => atomic::and(word, !bit) & bit != 0,
            };
        }
        let lanes = warp::warp_vote_ballot(warp::FULL_MASK, changed);
        if warp::lane_id() == 0 && lanes != 0 {
            atomic::add(args.changed.at(0), lanes.count_ones());
        }
    }
}
