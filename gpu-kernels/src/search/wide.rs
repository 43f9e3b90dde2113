//! The frontier of wide beams: a sorted list in shared memory, and a buffer of keys that it takes in together.
//!
//! A key that is offered waits in the buffer, if it is below the list's last and not in the list. A full buffer is
//! sorted and merged: what moves entries then moves them once for many keys. Picks look at both, so that a search never
//! notices:
//!
//! - What the list drops, or never takes, has `width` nearer entries, for good: they only get nearer.
//! - The nearest unvisited key of list and buffer is behind visited ones alone: as many as the list has before its first
//!   unvisited entry, and as many as the buffer has, at most. If these could be `width`, the buffer is merged first.
//! - A vertex may wait more than once. A pick marks all that there are; one that comes later meets a visited copy, and is
//!   no pick; a merge takes one of each, the visited one, which sorts first. None waits that is in the list: when the
//!   list changes, the buffer is empty.
//!
//! Entry `i` of the list is read by scans, marked and moved in by lane `i % 32` alone.

use cuda_std::prelude::*;

use super::frontier::{Frontier, NO_KEY, WARP, fill_up, is_same, lanes_below, sorted};
use super::layout::WAITING;
use crate::neighbor::UNVISITED;

/// One key a lane may wait, so that one sort takes them all.
const _: () = assert!(WAITING == WARP);

/// A frontier of any width.
pub(super) struct Wide {
    /// `[width]`: entries, the first `len` of them.
    list: Shared<u64>,
    /// `[WAITING]`: keys that wait, the first `waiting` of them.
    buffer: Shared<u64>,
    width: u32,
    len: u32,
    waiting: u32,
    /// Every entry of the list before it is visited.
    cursor: u32,
    /// Vertices that wait and are visited.
    visited: u32,
    bound: u64,
}

impl Frontier for Wide {
    #[inline(always)]
    unsafe fn new(width: u32, memory: Shared<u64>) -> Self {
        let buffer = memory.add(width);
        Self { list: memory, buffer, width, len: 0, waiting: 0, cursor: 0, visited: 0, bound: NO_KEY }
    }

    #[inline(always)]
    fn bound(&self) -> u64 {
        self.bound
    }

    #[inline(always)]
    unsafe fn offer(&mut self, key: u64) {
        // SAFETY: the whole warp comes here, conditions are the same in all lanes; at most WAITING keys wait.
        unsafe {
            while warp::warp_vote_any(warp::FULL_MASK, key < self.bound) {
                let is_new = key < self.bound && !self.lists(key);
                let lanes = warp::warp_vote_ballot(warp::FULL_MASK, is_new);
                if self.waiting + lanes.count_ones() <= WAITING {
                    if is_new {
                        self.buffer.add(self.waiting + (lanes & lanes_below()).count_ones()).store(key);
                    }
                    self.waiting += lanes.count_ones();
                    warp::sync_warp(warp::FULL_MASK);
                    return;
                }
                self.merge();
            }
        }
    }

    #[inline(always)]
    unsafe fn pick_if(&mut self, mut wanted: impl FnMut(u64) -> bool) -> u64 {
        // SAFETY: the whole warp comes here, conditions are the same in all lanes; a lane marks what it alone reads.
        unsafe {
            loop {
                let (place, listed) = self.first_unvisited(self.cursor);
                self.cursor = place;
                let own = self.waiting_key();
                let buffered = least(if own & UNVISITED != 0 { own } else { NO_KEY });
                let is_certain = place + self.visited < self.width && listed.min(buffered) != NO_KEY;
                if self.waiting > 0 && !is_certain {
                    self.merge();
                    continue;
                }
                let nearest = listed.min(buffered);
                let is_listed = listed <= buffered;
                let is_first =
                    is_listed || !warp::warp_vote_any(warp::FULL_MASK, own == nearest & !UNVISITED);
                if nearest == NO_KEY || is_first && !wanted(nearest) {
                    return NO_KEY;
                }
                if is_listed {
                    self.visit_first();
                } else {
                    self.visit_waiting(own, buffered);
                    self.visited += u32::from(is_first);
                }
                if is_first {
                    return nearest;
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn unvisited(&mut self, count: u32, places: Shared<u64>) {
        // SAFETY: the whole warp comes here, conditions are the same in all lanes; places below their number.
        unsafe {
            self.settle();
            let mut found = 0;
            let mut chunk = self.cursor / WARP * WARP;
            while found < count && chunk < self.len {
                let (key, lanes) = self.unvisited_of(chunk, self.cursor);
                let place = found + (lanes & lanes_below()).count_ones();
                if lanes >> warp::lane_id() & 1 != 0 && place < count {
                    places.add(place).store(key);
                }
                found += lanes.count_ones();
                chunk += WARP;
            }
            fill_up(found, count, places);
        }
    }

    #[inline(always)]
    unsafe fn settle(&mut self) {
        if self.waiting > 0 {
            // SAFETY: the whole warp comes here, and something waits.
            unsafe { self.merge() };
        }
    }

    #[inline(always)]
    unsafe fn entry(&self, index: u32) -> u64 {
        // SAFETY: index < len.
        if index < self.len { unsafe { self.list.add(index).load() } } else { NO_KEY }
    }
}

impl Wide {
    /// The key that waits for this lane's turn; [`NO_KEY`] if fewer wait.
    ///
    /// # Safety
    /// What lanes wrote into the buffer, all have seen.
    #[inline(always)]
    unsafe fn waiting_key(&self) -> u64 {
        let lane = warp::lane_id();
        // SAFETY: lane < waiting.
        if lane < self.waiting { unsafe { self.buffer.add(lane).load() } } else { NO_KEY }
    }

    /// Entries of the list below the key of this lane, visited or not.
    ///
    /// # Safety
    /// What lanes wrote into the list, all have seen.
    #[inline(always)]
    unsafe fn rank(&self, key: u64) -> u32 {
        let mut rank = 0;
        let mut step = (self.len + 1).next_power_of_two() / 2;
        while step > 0 {
            let place = rank + step;
            // SAFETY: place - 1 < len.
            if place <= self.len && unsafe { self.list.add(place - 1).load() } < key & !UNVISITED {
                rank = place;
            }
            step /= 2;
        }
        rank
    }

    /// Whether the vertex of the key of this lane is in the list.
    ///
    /// # Safety
    /// As for [`Self::rank`].
    #[inline(always)]
    unsafe fn lists(&self, key: u64) -> bool {
        // SAFETY: the caller's promise; a rank is at most the length of the list.
        unsafe { is_same(self.entry(self.rank(key)), key) }
    }

    /// The first unvisited entry of the list at `from` or behind it, and its place; [`NO_KEY`] at its end.
    ///
    /// # Safety
    /// Whole warp.
    #[inline(always)]
    unsafe fn first_unvisited(&self, from: u32) -> (u32, u64) {
        let mut chunk = from / WARP * WARP;
        while chunk < self.len {
            // SAFETY: the whole warp comes here.
            unsafe {
                let (key, lanes) = self.unvisited_of(chunk, from);
                if lanes != 0 {
                    let first = lanes.trailing_zeros();
                    return (chunk + first, warp::warp_shuffle_idx(warp::FULL_MASK, key, first, WARP).0);
                }
            }
            chunk += WARP;
        }
        (self.len, NO_KEY)
    }

    /// The entry of this lane among the 32 from `chunk` on, and the lanes whose entries are not visited, but for those
    /// before `from`.
    ///
    /// # Safety
    /// Whole warp.
    #[inline(always)]
    unsafe fn unvisited_of(&self, chunk: u32, from: u32) -> (u64, u32) {
        let place = chunk + warp::lane_id();
        // SAFETY: the whole warp comes here; lane p % 32 alone writes entry p, but for merges, which all have seen.
        unsafe {
            let key = self.entry(place);
            (key, warp::warp_vote_ballot(warp::FULL_MASK, place >= from && key & UNVISITED != 0))
        }
    }

    /// Marks the first unvisited entry.
    ///
    /// # Safety
    /// Whole warp; the cursor is at the entry.
    #[inline(always)]
    unsafe fn visit_first(&mut self) {
        // SAFETY: the whole warp comes here; cursor < len.
        unsafe {
            if warp::lane_id() == self.cursor % WARP {
                let entry = self.list.add(self.cursor);
                entry.store(entry.load() & !UNVISITED);
            }
            self.cursor += 1;
            warp::sync_warp(warp::FULL_MASK);
        }
    }

    /// Marks every copy of `key` that waits.
    ///
    /// # Safety
    /// Whole warp; `own` is that of [`Self::waiting_key`].
    #[inline(always)]
    unsafe fn visit_waiting(&self, own: u64, key: u64) {
        if own == key {
            // SAFETY: a lane writes where it has read, which no other does before a merge.
            unsafe { self.buffer.add(warp::lane_id()).store(key & !UNVISITED) };
        }
    }

    /// Empties the buffer into the list: a key's place is its rank in both. From the end on, entries move up, 32 at a
    /// time, as far as any key comes before them.
    ///
    /// # Safety
    /// Whole warp; something waits.
    #[inline(always)]
    unsafe fn merge(&mut self) {
        let lane = warp::lane_id();
        // SAFETY: the whole warp comes here, conditions are the same in all lanes; places are below the width. Entries
        // come from at most 32 places before, which are written after a sync.
        unsafe {
            let own = sorted(self.waiting_key());
            let (before, _) = warp::warp_shuffle_up(warp::FULL_MASK, own, 1, WARP);
            let is_new = own != NO_KEY && (lane == 0 || !is_same(own, before));
            let lanes = warp::warp_vote_ballot(warp::FULL_MASK, is_new);
            let place = self.rank(own) + (lanes & lanes_below()).count_ones();
            let len = self.width.min(self.len + lanes.count_ones());
            let stays = is_new && place < len;

            // New places before the end of the chunk.
            let mut new = warp::warp_vote_ballot(warp::FULL_MASK, stays).count_ones();
            let mut chunk = (len - 1) / WARP * WARP;
            while new > 0 {
                let offset = place.wrapping_sub(chunk);
                let bit = if stays && offset < WARP { 1 << offset } else { 0 };
                let taken = warp::warp_reduce_or(warp::FULL_MASK, bit);
                new -= taken.count_ones();
                let to = chunk + lane;
                let moves = to < len && taken >> lane & 1 == 0;
                let from = to - new - (taken & lanes_below()).count_ones();
                let entry = if moves { self.list.add(from).load() } else { NO_KEY };
                warp::sync_warp(warp::FULL_MASK);
                if moves {
                    self.list.add(to).store(entry);
                }
                chunk = chunk.wrapping_sub(WARP);
            }
            if stays {
                self.list.add(place).store(own);
            }
            warp::sync_warp(warp::FULL_MASK);
            let nearest = warp::warp_reduce_min(warp::FULL_MASK, if stays { place } else { len });
            self.cursor = self.cursor.min(nearest);
            self.len = len;
            let last = self.width - 1;
            let own = self.entry(last / WARP * WARP + lane);
            self.bound = warp::warp_shuffle_idx(warp::FULL_MASK, own, last % WARP, WARP).0;
            (self.waiting, self.visited) = (0, 0);
        }
    }
}

/// The least of the keys of the lanes.
///
/// # Safety
/// Whole warp.
#[inline(always)]
unsafe fn least(key: u64) -> u64 {
    let (high, low) = ((key >> 32) as u32, key as u32);
    // SAFETY: the whole warp comes here.
    unsafe {
        let least = warp::warp_reduce_min(warp::FULL_MASK, high);
        let low = if high == least { low } else { u32::MAX };
        u64::from(least) << 32 | u64::from(warp::warp_reduce_min(warp::FULL_MASK, low))
    }
}
