//! The list of one query: the best entries so far, in global memory, in rising order.

use cuda_std::prelude::*;

use crate::DevicePtrMut;
use crate::WARP_SIZE;

/// The entry of an empty place: sorts last.
pub(super) const NO_ENTRY: u64 = u64::MAX;

/// Entries of `list` below `entry`: the place where it belongs. One thread.
///
/// # Safety
/// `list` has `len` entries, rising, that is not written during the launch.
#[inline(always)]
pub(super) unsafe fn lower_bound(list: *const u64, len: u32, entry: u64) -> u32 {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = (low + high) / 2;
        // SAFETY: middle < high <= len.
        if unsafe { global::load(list.wrapping_add(middle as usize)) } < entry {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Empties the list. Whole warp.
///
/// # Safety
/// `list` has room for `len` entries, a multiple of 32.
#[inline(always)]
pub(super) unsafe fn clear(list: DevicePtrMut<u64>, len: u32) {
    let mut at = warp::lane_id();
    while at < len {
        // SAFETY: at < len.
        unsafe { global::store(list.at(at as usize), NO_ENTRY) };
        at += WARP_SIZE;
    }
}

/// Merges `count` pending entries into the list and returns its last entry. Whole warp.
///
/// Nothing is sorted: the place of an entry is the number of entries below it, which each lane counts for its own. The
/// entries of the list move up, the last ones first, and never further than into the 32 places that were read before.
///
/// # Safety
/// - `pending` holds `count` entries, at most 32, distinct and none of them in the list.
/// - `list` has `len` entries, a multiple of 32, rising; this warp alone reads and writes both, and its last writes to
///   them were followed by a barrier of the warp or the block.
#[inline(always)]
pub(super) unsafe fn merge(pending: Shared<u64>, count: u32, list: DevicePtrMut<u64>, len: u32) -> u64 {
    let lane = warp::lane_id();
    // SAFETY: lane < count, and rows of 32 places end at or before `len`; every collective is reached by the whole
    // warp, since `len` is the same in every lane.
    unsafe {
        let below = |entry: u64| {
            let mut below = 0;
            for i in 0..count {
                below += u32::from(pending.add(i).load() < entry);
            }
            below
        };
        let own = if lane < count { pending.add(lane).load() } else { NO_ENTRY };
        let place = below(own) + lower_bound(list.cast_const().at(0), len, own);
        let mut first = len;
        while first > 0 {
            first -= WARP_SIZE;
            let at = first + lane;
            let entry = global::load(list.at(at as usize));
            let to = at + below(entry);
            warp::sync_warp(warp::FULL_MASK);
            if to != at && to < len {
                global::store(list.at(to as usize), entry);
            }
        }
        if lane < count && place < len {
            global::store(list.at(place as usize), own);
        }
        warp::sync_warp(warp::FULL_MASK);
        global::load(list.at(len as usize - 1))
    }
}
