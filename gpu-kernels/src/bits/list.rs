//! Lists the slots of a set, ascending.

use cuda_std::prelude::*;

use super::{ListArgs, contains};
use crate::scan::select::select;

/// Lists the slots of a set; one block per tile.
///
/// # Safety
/// As the fields of the arguments say.
#[kernel(max_threads = 256, min_blocks = 6)]
pub unsafe fn list_slots(args: ListArgs) {
    let listed = |at: usize| {
        // SAFETY: within `len`, for which both sets have bits where they are anywhere.
        let [bits, except] =
            [args.bits, args.except].map(|set| !set.is_null() && unsafe { contains(set, at as u32) });
        (args.bits.is_null() || bits) && !except
    };
    // SAFETY: the whole block is here; there are at most `len`.
    unsafe {
        if let Some(count) = select(&args.look_back, args.len, listed, args.slots, args.first) {
            global::store(args.count.at(0), count);
        }
    }
}
