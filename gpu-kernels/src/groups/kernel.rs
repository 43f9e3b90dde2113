//! Finds groups: a selection of the places where one begins.

use cuda_std::prelude::*;

use super::FindGroupsArgs;
use crate::prefix_sum::select::select;

/// Finds groups; one block per tile.
///
/// # Safety
/// The arguments are as the docs of their fields say.
#[kernel(max_threads = 256, min_blocks = 6)]
pub unsafe fn find_groups(args: FindGroupsArgs) {
    let begins_group = |place: usize| {
        // SAFETY: the index is within `len`. Neighbors read the same key again: it is in the cache.
        let [key, previous] = [place, place.saturating_sub(1)]
            .map(|place| unsafe { global::load_readonly(args.keys.at(place)) } >> args.shift);
        place == 0 || key != previous
    };
    // SAFETY: all threads of the block reach this; there are no more groups than keys, and room for one more.
    unsafe {
        if let Some(groups) = select(&args.look_back, args.len, begins_group, args.offsets, 0) {
            global::store(args.offsets.at(groups as usize), args.len);
            global::store(args.count.at(0), groups);
        }
    }
}
