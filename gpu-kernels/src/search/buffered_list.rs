//! The frontier of more than 128 entries: a sorted list in shared memory, and a buffer of entries that are merged into
//! it together.
//!
//! An entry that is below the last entry of the list, and not in it, goes into the buffer. A full buffer is sorted and
//! merged, so that the entries of the list move once for many new ones. The next vertex to expand is the nearest
//! unexpanded entry of list and buffer, so the order is that of a plain list:
//!
//! - An entry that the list drops or never takes has `frontier_len` nearer entries from then on, because the entries of
//!   the list only get nearer.
//! - Only the `beam_width` nearest entries may be expanded. The nearest unexpanded entry is one of them if fewer than
//!   `beam_width` entries come before it. All of these are expanded, so there are at most as many as the list has
//!   before its first unexpanded entry, and the buffer has expanded ones. If that is `beam_width` or more, the buffer
//!   is merged first.
//! - A vertex may be in the buffer more than once. Expanding it marks all copies in the buffer. If a copy that comes
//!   later is the nearest entry, a marked copy is found, and the vertex is not expanded again. A merge keeps one copy,
//!   the expanded one, which sorts first. No vertex is in both list and buffer, because the buffer is empty whenever
//!   the list changes.

use cuda_std::prelude::*;

use super::frontier::{Frontier, is_same_vertex, sorted};
use super::sorted_list::SortedList;
use crate::WARP_SIZE;
use crate::collectives::{rank_in, warp_min};
use crate::neighbor::{NO_ENTRY, UNEXPANDED};

/// A frontier of any length.
pub(super) struct BufferedList {
    list: SortedList,
    /// `[WARP_SIZE]`: the buffer, whose first `buffered` entries are in use. One entry per lane, so that one sort takes
    /// them all.
    buffer: Shared<u64>,
    buffered: u32,
    /// Expanded vertices in the buffer.
    expanded_count: u32,
}

impl Frontier for BufferedList {
    const IN_SHARED_MEMORY: bool = true;

    unsafe fn new(len: u32, beam_width: u32, memory: Shared<u64>) -> Self {
        // SAFETY: upheld by the caller.
        let list = unsafe { SortedList::new(len, beam_width, memory) };
        Self { list, buffer: memory.add(len), buffered: 0, expanded_count: 0 }
    }

    unsafe fn offer(&mut self, entry: u64) {
        // SAFETY: the warp is converged, since conditions are the same in all lanes; the buffer has room for the
        // entries.
        unsafe {
            while warp::any(entry < self.list.bound()) {
                let is_new = entry < self.list.bound() && !self.list.contains(entry);
                let lanes = warp::ballot(is_new);
                if self.buffered + lanes.count_ones() <= WARP_SIZE {
                    if is_new {
                        self.buffer.add(self.buffered + rank_in(lanes)).store(entry);
                    }
                    self.buffered += lanes.count_ones();
                    warp::sync_warp();
                    return;
                }
                self.merge();
            }
        }
    }

    unsafe fn take_nearest(&mut self) -> u64 {
        // SAFETY: the warp is converged, since conditions are the same in all lanes; each lane marks an entry that it
        // alone reads.
        unsafe {
            loop {
                let listed = self.list.nearest_unexpanded();
                let entry = self.buffered_entry();
                let nearest_buffered = warp_min(if entry & UNEXPANDED != 0 { entry } else { NO_ENTRY });
                let nearest = listed.min(nearest_buffered);
                let is_certain = self.list.has_room_in_beam(self.expanded_count) && nearest != NO_ENTRY;
                if self.buffered > 0 && !is_certain {
                    self.merge();
                    continue;
                }
                if nearest == NO_ENTRY {
                    return NO_ENTRY;
                }
                if listed <= nearest_buffered {
                    self.list.mark_nearest();
                    return nearest;
                }
                let is_first = !warp::any(entry == nearest & !UNEXPANDED);
                self.mark_expanded(entry, nearest_buffered);
                if is_first {
                    self.expanded_count += 1;
                    return nearest;
                }
            }
        }
    }

    unsafe fn flush(&mut self) {
        if self.buffered > 0 {
            // SAFETY: the warp is converged here, and the buffer has entries.
            unsafe { self.merge() };
        }
    }

    unsafe fn entry(&self, index: u32) -> u64 {
        // SAFETY: upheld by the caller.
        unsafe { self.list.entry(index) }
    }
}

impl BufferedList {
    /// The entry of this lane in the buffer; [`NO_ENTRY`] past the last.
    ///
    /// # Safety
    /// The warp has synchronized since the buffer was written.
    unsafe fn buffered_entry(&self) -> u64 {
        let lane = warp::lane_id();
        // SAFETY: lane < buffered.
        if lane < self.buffered { unsafe { self.buffer.add(lane).load() } } else { NO_ENTRY }
    }

    /// Marks every copy of `entry` in the buffer.
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together; `buffered` is the result of [`Self::buffered_entry`].
    unsafe fn mark_expanded(&self, buffered: u64, entry: u64) {
        if buffered == entry {
            // SAFETY: a lane writes where it has read, and no other lane does before a merge.
            unsafe { self.buffer.add(warp::lane_id()).store(entry & !UNEXPANDED) };
        }
    }

    /// Merges the buffer into the list: the place of an entry is its rank in both.
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together; the buffer has entries.
    unsafe fn merge(&mut self) {
        // SAFETY: the warp is converged here; buffered entries are not in the list.
        unsafe {
            let entry = sorted(self.buffered_entry());
            let (before, _) = warp::shuffle_up(entry, 1);
            let is_new = entry != NO_ENTRY && (warp::lane_id() == 0 || !is_same_vertex(entry, before));
            let lanes = warp::ballot(is_new);
            let place = self.list.rank(entry) + rank_in(lanes);
            self.list.insert_ranked(entry, is_new, place);
            (self.buffered, self.expanded_count) = (0, 0);
        }
    }
}
