//! The frontier of a team: a sorted list in shared memory, into which entries are inserted at once. It is also the
//! sorted part of the frontier of wide beams, [`BufferedList`](super::buffered_list::BufferedList).
//!
//! Only lane `i % 32` scans, marks and moves entry `i`.

use cuda_std::prelude::*;

use super::frontier::{Frontier, is_duplicate_in_warp, is_same_vertex};
use crate::WARP_SIZE;
use crate::collectives::rank_in;
use crate::neighbor::{NO_ENTRY, UNEXPANDED};

/// A frontier of any length, owned by one warp.
pub(super) struct SortedList {
    /// `[capacity]`: entries, the first `len` of them.
    entries: Shared<u64>,
    capacity: u32,
    beam_width: u32,
    len: u32,
    /// All entries before it are expanded.
    cursor: u32,
    bound: u64,
}

impl Frontier for SortedList {
    const IN_SHARED_MEMORY: bool = true;

    unsafe fn new(capacity: u32, beam_width: u32, memory: Shared<u64>) -> Self {
        Self { entries: memory, capacity, beam_width, len: 0, cursor: 0, bound: NO_ENTRY }
    }

    /// Inserts each new entry at its rank in the list plus its rank among the new entries.
    unsafe fn offer(&mut self, entry: u64) {
        // SAFETY: the warp is converged, since conditions are the same in all lanes.
        unsafe {
            if !warp::any(entry < self.bound) {
                return;
            }
            let below = self.rank(entry);
            let is_copy = is_same_vertex(self.entry(below), entry) | is_duplicate_in_warp(entry);
            let is_new = entry < self.bound && !is_copy;
            let lanes = warp::ballot(is_new);
            let new = if is_new { entry } else { NO_ENTRY };
            let place = below + rank_among_lanes(new, WARP_SIZE - lanes.leading_zeros());
            self.insert_ranked(new, is_new, place);
        }
    }

    unsafe fn take_nearest(&mut self) -> u64 {
        // SAFETY: the warp is converged here.
        unsafe {
            let nearest = self.nearest_unexpanded();
            if nearest != NO_ENTRY {
                self.mark_nearest();
            }
            nearest
        }
    }

    unsafe fn flush(&mut self) {}

    unsafe fn entry(&self, index: u32) -> u64 {
        // SAFETY: index < len.
        if index < self.len { unsafe { self.entries.add(index).load() } } else { NO_ENTRY }
    }
}

impl SortedList {
    /// The last entry of a full list. Entries that are not below it are dropped.
    pub(super) fn bound(&self) -> u64 {
        self.bound
    }

    /// Whether the entry that [`Self::nearest_unexpanded`] has just returned is in the beam even if `others` more
    /// entries come before it.
    pub(super) fn has_room_in_beam(&self, others: u32) -> bool {
        self.cursor + others < self.beam_width
    }

    /// The rank of this lane's entry: the number of entries of the list below it. Whether it is expanded makes no
    /// difference.
    ///
    /// # Safety
    /// The warp has synchronized since the list was written.
    pub(super) unsafe fn rank(&self, entry: u64) -> u32 {
        let mut rank = 0;
        let mut step = (self.len + 1).next_power_of_two() / 2;
        while step > 0 {
            let place = rank + step;
            // SAFETY: place - 1 < len.
            if place <= self.len && unsafe { self.entries.add(place - 1).load() } < entry & !UNEXPANDED {
                rank = place;
            }
            step /= 2;
        }
        rank
    }

    /// Whether the vertex of this lane's entry is in the list.
    ///
    /// # Safety
    /// The same as for [`Self::rank`].
    pub(super) unsafe fn contains(&self, entry: u64) -> bool {
        // SAFETY: upheld by the caller; a rank is at most the length of the list.
        unsafe { is_same_vertex(self.entry(self.rank(entry)), entry) }
    }

    /// The nearest entry of the beam that is not expanded; [`NO_ENTRY`] if there is none.
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together.
    pub(super) unsafe fn nearest_unexpanded(&mut self) -> u64 {
        let mut base = self.cursor / WARP_SIZE * WARP_SIZE;
        while base < self.beam_len() {
            // SAFETY: the warp is converged here.
            unsafe {
                let (entry, lanes) = self.unexpanded_in(base);
                if lanes != 0 {
                    let first = lanes.trailing_zeros();
                    self.cursor = base + first;
                    return warp::shuffle(entry, first);
                }
            }
            base += WARP_SIZE;
        }
        self.cursor = self.beam_len();
        NO_ENTRY
    }

    /// Marks the entry that [`Self::nearest_unexpanded`] has just returned as expanded.
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together; there is such an entry.
    pub(super) unsafe fn mark_nearest(&mut self) {
        // SAFETY: the warp is converged here; cursor < len.
        unsafe {
            if warp::lane_id() == self.cursor % WARP_SIZE {
                let entry = self.entries.add(self.cursor);
                entry.store(entry.load() & !UNEXPANDED);
            }
            self.cursor += 1;
            warp::sync_warp();
        }
    }

    /// Copies the nearest unexpanded entries of the beam to `count` places, at most 32; [`NO_ENTRY`] after the last.
    /// All lanes see them.
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together, and no other warp uses the places.
    pub(super) unsafe fn copy_unexpanded(&self, count: u32, places: Shared<u64>) {
        // SAFETY: the warp is converged, since conditions are the same in all lanes; indices are below `count`.
        unsafe {
            let mut found = 0;
            let mut base = self.cursor / WARP_SIZE * WARP_SIZE;
            while found < count && base < self.beam_len() {
                let (entry, lanes) = self.unexpanded_in(base);
                let place = found + rank_in(lanes);
                if lanes >> warp::lane_id() & 1 != 0 && place < count {
                    places.add(place).store(entry);
                }
                found += lanes.count_ones();
                base += WARP_SIZE;
            }
            let place = found + warp::lane_id();
            if place < count {
                places.add(place).store(NO_ENTRY);
            }
            warp::sync_warp();
        }
    }

    /// The number of entries of the beam.
    fn beam_len(&self) -> u32 {
        self.len.min(self.beam_width)
    }

    /// The entry of this lane among the 32 from `base` on, and the lanes whose entries are in the beam and not
    /// expanded.
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together.
    unsafe fn unexpanded_in(&self, base: u32) -> (u64, u32) {
        let place = base + warp::lane_id();
        // SAFETY: the warp is converged here; lane p % 32 alone writes entry p, except during insertion, whose entries
        // are visible after the sync.
        unsafe {
            let entry = self.entry(place);
            (entry, warp::ballot(entry & UNEXPANDED != 0 && place < self.beam_width))
        }
    }

    /// Inserts the entry of each lane with `is_new` at its `place`; entries past the capacity are dropped. First the
    /// old entries that come after a new one move up: 32 places at a time, from the end of the list on.
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together. New entries are not in the list, and each `place` is the rank of
    /// the entry in the union of the list and the new entries.
    pub(super) unsafe fn insert_ranked(&mut self, entry: u64, is_new: bool, place: u32) {
        let lane = warp::lane_id();
        // SAFETY: the warp is converged, since conditions are the same in all lanes; places are below the capacity.
        // Entries come from at most 32 places before, which are written after a sync.
        unsafe {
            let lanes = warp::ballot(is_new);
            let len = self.capacity.min(self.len + lanes.count_ones());
            let stays = is_new && place < len;

            // The number of new entries whose places are below `base + 32`.
            let mut new = warp::ballot(stays).count_ones();
            let mut base = len.saturating_sub(1) / WARP_SIZE * WARP_SIZE;
            while new > 0 {
                let offset = place.wrapping_sub(base);
                let bit = if stays && offset < WARP_SIZE { 1 << offset } else { 0 };
                let taken = warp::reduce_or(bit);
                new -= taken.count_ones();
                let to = base + lane;
                let moves = to < len && taken >> lane & 1 == 0;
                let from = to - new - rank_in(taken);
                let moved = if moves { self.entries.add(from).load() } else { NO_ENTRY };
                warp::sync_warp();
                if moves {
                    self.entries.add(to).store(moved);
                }
                base = base.wrapping_sub(WARP_SIZE);
            }
            if stays {
                self.entries.add(place).store(entry);
            }
            warp::sync_warp();
            let nearest = warp::reduce_min(if stays { place } else { len });
            self.cursor = self.cursor.min(nearest);
            self.len = len;
            let last = self.capacity - 1;
            let end = self.entry(last / WARP_SIZE * WARP_SIZE + lane);
            self.bound = warp::shuffle(end, last % WARP_SIZE);
        }
    }
}

/// Entries compared per step of the loop.
const COMPARED: u32 = 8;

/// The rank of this lane's entry among the entries of the first `len` lanes; of equal entries, those of lower lanes
/// come first. Unlike the steps of a sort, these comparisons are independent.
///
/// # Safety
/// All 32 lanes of the warp call this together; from `len` on all lanes have [`NO_ENTRY`].
unsafe fn rank_among_lanes(entry: u64, len: u32) -> u32 {
    let (mut rank, mut first) = (0, 0);
    while first < len {
        for i in 0..COMPARED {
            // SAFETY: the warp is converged here; first + i < 32, because `COMPARED` divides 32.
            let other = unsafe { warp::shuffle(entry, first + i) };
            rank += u32::from(other < entry + u64::from(first + i < warp::lane_id()));
        }
        first += COMPARED;
    }
    rank
}
