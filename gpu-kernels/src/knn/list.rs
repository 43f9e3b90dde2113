//! The lists of one query, in global memory: the best entries of each segment so far, ascending.

use cuda_std::prelude::*;

use super::{RANK_THREADS, list_len};
use crate::WARP_SIZE;
use crate::collectives::{strided, warp_stride};
use crate::neighbor::NO_CANDIDATE;
use crate::{DevicePtr, DevicePtrMut};

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
    warp_stride(len, |i| unsafe { global::store(list.at(i as usize), NO_CANDIDATE) });
}

/// Merges `count` pending entries into the list and returns the entry that is then the last of the first `wanted`.
/// Called by the whole warp.
///
/// ```text
/// sort the pending entries
/// for each 32 entries of the list, first ones first:
///     the lesser 32 of these and the carried ones stay; the others are carried on
/// ```
///
/// Both halves of two sorted sequences are sorted by bitonic merges: exchanges between lanes, without memory.
///
/// # Safety
/// - `pending` holds `count` entries, at most 32, distinct and none of them in the list.
/// - `list` has [`list_len(wanted)`](super::list_len) entries, rising, and `wanted` is at least 1; this warp alone
///   reads and writes both, and what is pending was written before a barrier of the block. A lane reads only the
///   entries of the list that it has written.
#[inline(always)]
pub(super) unsafe fn merge(pending: Shared<u64>, count: u32, list: DevicePtrMut<u64>, wanted: u32) -> u64 {
    let lane = warp::lane_id();
    // SAFETY: lane < count, and 32 entries of the list begin at every multiple of 32 below `wanted`, which is the same
    // in every lane, so that the whole warp reaches every collective.
    unsafe {
        let own = if lane < count { pending.add(lane).load() } else { NO_CANDIDATE };
        let (mut carried, mut last) = (sort(own), NO_CANDIDATE);
        let mut first = 0;
        while first < wanted {
            let at = list.at((first + lane) as usize);
            let (entry, other) = (global::load(at), warp::shuffle(carried, WARP_SIZE - 1 - lane));
            let lesser = sort_bitonic(entry.min(other));
            global::store(at, lesser);
            // That of the last 32 entries counts.
            last = warp::shuffle(lesser, wanted - 1);
            first += WARP_SIZE;
            if first < wanted {
                carried = sort_bitonic(entry.max(other));
            }
        }
        // The caller writes what other lanes have read.
        warp::sync_warp();
        last
    }
}

/// The values of all lanes, ascending. Called by the whole warp.
///
/// # Safety
/// All 32 lanes of the warp call this together.
#[inline(always)]
unsafe fn sort(mut value: u64) -> u64 {
    // Runs of `len` lanes are sorted, every other one descending, so that two of them are one bitonic run.
    let (mut len, mut distance) = (2, 1);
    while len <= WARP_SIZE {
        // SAFETY: upheld by the caller.
        value = unsafe { exchange(value, distance, len) };
        distance /= 2;
        if distance == 0 {
            (len, distance) = (2 * len, len);
        }
    }
    value
}

/// The values of all lanes, ascending, if they rise and then fall, or fall and then rise. Called by the whole warp.
///
/// # Safety
/// All 32 lanes of the warp call this together.
#[inline(always)]
unsafe fn sort_bitonic(mut value: u64) -> u64 {
    let mut distance = WARP_SIZE / 2;
    while distance > 0 {
        // SAFETY: upheld by the caller.
        value = unsafe { exchange(value, distance, WARP_SIZE) };
        distance /= 2;
    }
    value
}

/// Sorts pairs of lanes that are `distance` apart, descending in runs of `len` lanes with an odd number. Called by the
/// whole warp.
///
/// # Safety
/// All 32 lanes of the warp call this together.
#[inline(always)]
unsafe fn exchange(value: u64, distance: u32, len: u32) -> u64 {
    let lane = warp::lane_id();
    // SAFETY: upheld by the caller.
    let other = unsafe { warp::shuffle_xor(value, distance) };
    let wants_lesser = (lane & distance == 0) == (lane & len == 0);
    if wants_lesser { value.min(other) } else { value.max(other) }
}

/// The lists of one query, of all segments.
pub(super) struct QueryLists {
    /// The list of the first segment.
    first: DevicePtr<u64>,
    /// Entries from one list to that of the next segment.
    stride: usize,
    segments: u32,
    len: u32,
    /// Entries of each that count.
    wanted: u32,
}

impl QueryLists {
    /// The lists of `query` in `lists`, `[segments][queries_len][len]`.
    #[inline(always)]
    pub(super) fn new(
        lists: DevicePtr<u64>,
        query: u32,
        queries_len: u32,
        segments: u32,
        wanted: u32,
    ) -> Self {
        let len = list_len(wanted);
        let first = lists.add(query as usize * len as usize);
        Self { first, stride: queries_len as usize * len as usize, segments, len, wanted }
    }

    #[inline(always)]
    fn list(&self, segment: u32) -> DevicePtr<u64> {
        self.first.add(segment as usize * self.stride)
    }

    /// Writes the best `wanted` entries of all lists to `merged`, then [`NO_CANDIDATE`]: the place of an entry is the
    /// number of entries below it in all of them. Called by the whole block; a barrier must follow.
    ///
    /// # Safety
    /// The lists have the shape that they say, and are not written during the launch; `merged` has room for one.
    #[inline(always)]
    pub(super) unsafe fn merge_into(&self, merged: Shared<u64>) {
        // SAFETY: i < len.
        strided(thread::thread_idx_x(), self.len, RANK_THREADS, |i| unsafe {
            merged.add(i).store(NO_CANDIDATE)
        });
        // SAFETY: every thread of the block comes here; places are below the entries that count, and no two entries are
        // equal, so that no two have the same place.
        unsafe {
            thread::sync_threads();
            strided(thread::thread_idx_x(), self.segments * self.wanted, RANK_THREADS, |i| {
                let (segment, mut place) = (i / self.wanted, i % self.wanted);
                let entry = global::load_readonly(self.list(segment).at(place as usize));
                if entry != NO_CANDIDATE {
                    for other in 0..self.segments {
                        if other != segment {
                            place += lower_bound(self.list(other).at(0), self.wanted, entry);
                        }
                    }
                    if place < self.wanted {
                        merged.add(place).store(entry);
                    }
                }
            });
        }
    }
}
