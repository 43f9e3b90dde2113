//! Lists the slots of a set, ascending.

use cuda_std::prelude::*;

use super::{ListSlotsArgs, contains};
use crate::prefix_sum::select::select;

/// Lists the slots of a set; one block per tile.
///
/// # Safety
/// The arguments are as the docs of their fields say.
#[kernel(max_threads = 256, min_blocks = 6)]
pub unsafe fn list_slots(args: ListSlotsArgs) {
    // SAFETY: the index is within `len`, for which the set has bits; all threads of the block reach this; there are at
    // most `len` slots.
    unsafe {
        let is_listed = |slot: usize| contains(args.bits, slot as u32);
        if let Some(count) = select(&args.look_back, args.len, is_listed, args.slots, args.first) {
            global::store(args.count.at(0), count);
        }
    }
}
