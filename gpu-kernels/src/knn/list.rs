//! The lists of one query, in global memory: the best entries of each segment so far, ascending.

use cuda_std::prelude::*;

use super::RANK_THREADS;
use crate::WARP_SIZE;
use crate::collectives::{strided, warp_stride};
use crate::{DevicePtr, DevicePtrMut};

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

/// Empties the list. Called by the whole warp.
///
/// # Safety
/// `list` has room for `len` entries, a multiple of 32.
#[inline(always)]
pub(super) unsafe fn clear(list: DevicePtrMut<u64>, len: u32) {
    // SAFETY: i < len.
    warp_stride(len, |i| unsafe { global::store(list.at(i as usize), NO_ENTRY) });
}

/// Merges `count` pending entries into the list and returns its last entry. Called by the whole warp.
///
/// There is no sort: the place of an entry is the number of entries below it, which each lane counts for its entry. The
/// entries of the list move up, last ones first, by at most 32 places, which have been read before.
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
            warp::sync_warp();
            if to != at && to < len {
                global::store(list.at(to as usize), entry);
            }
        }
        if lane < count && place < len {
            global::store(list.at(place as usize), own);
        }
        warp::sync_warp();
        global::load(list.at(len as usize - 1))
    }
}

/// The lists of one query, of all segments.
pub(super) struct QueryLists {
    /// The list of the first segment.
    first: DevicePtr<u64>,
    /// Entries from one list to that of the next segment.
    stride: usize,
    segments: u32,
    len: u32,
}

impl QueryLists {
    /// The lists of `query` in `lists`, `[segments][queries_len][len]`.
    #[inline(always)]
    pub(super) fn new(lists: DevicePtr<u64>, query: u32, queries_len: u32, segments: u32, len: u32) -> Self {
        let first = lists.add(query as usize * len as usize);
        Self { first, stride: queries_len as usize * len as usize, segments, len }
    }

    #[inline(always)]
    fn list(&self, segment: u32) -> DevicePtr<u64> {
        self.first.add(segment as usize * self.stride)
    }

    /// Writes the best entries of all lists to `merged`: the place of an entry is the number of entries below it in all
    /// of them. Called by the whole block; a barrier must follow.
    ///
    /// # Safety
    /// The lists have the shape that they say, and are not written during the launch; `merged` has room for one.
    #[inline(always)]
    pub(super) unsafe fn merge_into(&self, merged: Shared<u64>) {
        // SAFETY: i < len.
        strided(thread::thread_idx_x(), self.len, RANK_THREADS, |i| unsafe { merged.add(i).store(NO_ENTRY) });
        // SAFETY: every thread of the block comes here; places are below the length of a list, and no two entries are
        // equal, so that no two have the same place.
        unsafe {
            thread::sync_threads();
            strided(thread::thread_idx_x(), self.segments * self.len, RANK_THREADS, |i| {
                let (segment, mut place) = (i / self.len, i % self.len);
                let entry = global::load_readonly(self.list(segment).at(place as usize));
                if entry != NO_ENTRY {
                    for other in 0..self.segments {
                        if other != segment {
                            place += lower_bound(self.list(other).at(0), self.len, entry);
                        }
                    }
                    if place < self.len {
                        merged.add(place).store(entry);
                    }
                }
            });
        }
    }
}
