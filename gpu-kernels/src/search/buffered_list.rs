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

use cuda_std::prelude::*;

use super::frontier::{Frontier, NO_KEY, WARP, is_same, sorted};
use super::list::List;
use super::shared_layout::WAITING;
use crate::collectives::{rank_in, warp_min};
use crate::neighbor::UNVISITED;

/// One key a lane may wait, so that one sort takes them all.
const _: () = assert!(WAITING == WARP);

/// A frontier of any width.
pub(super) struct BufferedList {
    list: List,
    /// `[WAITING]`: keys that wait, the first `waiting` of them.
    buffer: Shared<u64>,
    waiting: u32,
    /// Vertices that wait and are visited.
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

    /// Empties the buffer into the list: a key's place is its rank in both.
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
