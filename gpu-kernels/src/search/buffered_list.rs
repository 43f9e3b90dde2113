//! The frontier of wide beams: a sorted list in shared memory, and a buffer of keys that are merged into it together.
//!
//! A key that is below the last entry of the list, and not in it, goes into the buffer. A full buffer is sorted and merged,
//! so that entries move once for many keys. A visit looks at both, so that the order of visits is that of a plain list:
//!
//! - A key that the list drops or never takes has `width` nearer entries from then on: entries only get nearer.
//! - Before the nearest unvisited key of both come visited ones only: at most those that the list has before its first
//!   unvisited entry, and those of the buffer. If these could be `width`, the buffer is merged first.
//! - A vertex may be in the buffer more than once. A visit marks all copies; if a copy that comes later is the nearest, a
//!   visited one is found and it is not visited again; a merge keeps one copy, the visited one, which sorts first. No
//!   vertex is in list and buffer: when the list changes, the buffer is empty.

use cuda_std::prelude::*;

use super::frontier::{Frontier, NO_KEY, WARP, is_same, sorted};
use super::list::List;
use super::shared_layout::WAITING;
use crate::collectives::{rank_in, warp_min};
use crate::neighbor::UNVISITED;

/// One key per lane, so that one sort takes them all.
const _: () = assert!(WAITING == WARP);

/// A frontier of any width.
pub(super) struct BufferedList {
    list: List,
    /// `[WAITING]`: the buffer, of which the first `waiting` keys count.
    buffer: Shared<u64>,
    waiting: u32,
    /// Visited vertices in the buffer.
    visited: u32,
}

impl Frontier for BufferedList {
    #[inline(always)]
    unsafe fn new(width: u32, memory: Shared<u64>) -> Self {
        // SAFETY: the caller's promise.
        let list = unsafe { List::new(width, memory) };
        Self { list, buffer: memory.add(width), waiting: 0, visited: 0 }
    }

    #[inline(always)]
    unsafe fn offer(&mut self, key: u64) {
        // SAFETY: the whole warp comes here, conditions are the same in all lanes; at most WAITING keys wait.
        unsafe {
            while warp::warp_vote_any(warp::FULL_MASK, key < self.list.bound()) {
                let is_new = key < self.list.bound() && !self.list.contains(key);
                let lanes = warp::warp_vote_ballot(warp::FULL_MASK, is_new);
                if self.waiting + lanes.count_ones() <= WAITING {
                    if is_new {
                        self.buffer.add(self.waiting + rank_in(lanes)).store(key);
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
    unsafe fn visit_nearest(&mut self) -> u64 {
        // SAFETY: the whole warp comes here, conditions are the same in all lanes; a lane marks what it alone reads.
        unsafe {
            loop {
                let listed = self.list.nearest_unvisited();
                let own = self.waiting_key();
                let buffered = warp_min(if own & UNVISITED != 0 { own } else { NO_KEY });
                let nearest = listed.min(buffered);
                let is_certain = self.list.visited() + self.visited < self.list.width() && nearest != NO_KEY;
                if self.waiting > 0 && !is_certain {
                    self.merge();
                    continue;
                }
                if nearest == NO_KEY {
                    return NO_KEY;
                }
                if listed <= buffered {
                    self.list.mark_nearest();
                    return nearest;
                }
                let is_first = !warp::warp_vote_any(warp::FULL_MASK, own == nearest & !UNVISITED);
                self.visit_waiting(own, buffered);
                if is_first {
                    self.visited += 1;
                    return nearest;
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn flush(&mut self) {
        if self.waiting > 0 {
            // SAFETY: the whole warp comes here, and something waits.
            unsafe { self.merge() };
        }
    }

    #[inline(always)]
    unsafe fn entry(&self, index: u32) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { self.list.entry(index) }
    }
}

impl BufferedList {
    /// The key of the buffer that is this lane's; [`NO_KEY`] if there are fewer.
    ///
    /// # Safety
    /// What lanes wrote into the buffer, all have seen.
    #[inline(always)]
    unsafe fn waiting_key(&self) -> u64 {
        let lane = warp::lane_id();
        // SAFETY: lane < waiting.
        if lane < self.waiting { unsafe { self.buffer.add(lane).load() } } else { NO_KEY }
    }

    /// Marks every copy of `key` in the buffer.
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

    /// Merges the buffer into the list: the place of a key is its rank in both.
    ///
    /// # Safety
    /// Whole warp; something waits.
    #[inline(always)]
    unsafe fn merge(&mut self) {
        // SAFETY: the whole warp comes here; what waits is not in the list.
        unsafe {
            let own = sorted(self.waiting_key());
            let (before, _) = warp::warp_shuffle_up(warp::FULL_MASK, own, 1, WARP);
            let is_new = own != NO_KEY && (warp::lane_id() == 0 || !is_same(own, before));
            let lanes = warp::warp_vote_ballot(warp::FULL_MASK, is_new);
            let place = self.list.rank(own) + rank_in(lanes);
            self.list.insert_ranked(own, is_new, place);
            (self.waiting, self.visited) = (0, 0);
        }
    }
}
