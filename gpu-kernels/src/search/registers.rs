//! The frontier of narrow beams, in registers: entry `i` is register `i % K` of lane `i / K`, so that an insertion moves one
//! key from lane to lane, whatever `K` is.
//!
//! Arrays stand for registers: loops over them use indices, and are fully unrolled.

use cuda_std::prelude::*;

use super::frontier::{Frontier, NO_KEY, WARP, is_duplicate_in_warp, is_same, sorted};
use crate::neighbor::UNVISITED;

/// Up to this many keys are inserted one by one; more are sorted and merged. Measured against always sorting: 5% faster at
/// 64 entries, 33% at 128.
const FEW: u32 = 6;

/// A frontier of up to 32 `K` entries.
pub(super) struct Registers<const K: usize> {
    pub(super) keys: [u64; K],
    width: u32,
    bound: u64,
}

impl<const K: usize> Frontier for Registers<K> {
    #[inline(always)]
    unsafe fn new(width: u32, _: Shared<u64>) -> Self {
        Self { keys: [NO_KEY; K], width, bound: NO_KEY }
    }

    #[inline(always)]
    unsafe fn offer(&mut self, key: u64) {
        // SAFETY: the whole warp comes here; conditions are the same in all lanes.
        unsafe {
            let near = warp::warp_vote_ballot(warp::FULL_MASK, key < self.bound);
            if near == 0 {
                return;
            }
            if near.count_ones() > FEW {
                let known = self.holds_own(key) | is_duplicate_in_warp(key);
                self.merge(sorted(if known || key >= self.bound { NO_KEY } else { key }));
            } else {
                self.insert_new(key, near);
            }
            self.bound = self.at(self.width - 1);
        }
    }

    #[inline(always)]
    unsafe fn visit_nearest(&mut self) -> u64 {
        // SAFETY: the whole warp comes here.
        unsafe {
            let mut own = NO_KEY;
            for r in (0..K).rev() {
                if self.is_unvisited(r) {
                    own = self.keys[r];
                }
            }
            let lanes = warp::warp_vote_ballot(warp::FULL_MASK, own != NO_KEY);
            if lanes == 0 {
                return NO_KEY;
            }
            let nearest = lanes.trailing_zeros();
            let picked = warp::warp_shuffle_idx(warp::FULL_MASK, own, nearest, WARP).0;
            for r in 0..K {
                // No other key is the same.
                self.keys[r] &= !u64::from(self.keys[r] == picked);
            }
            picked
        }
    }

    #[inline(always)]
    unsafe fn flush(&mut self) {}

    #[inline(always)]
    unsafe fn entry(&self, index: u32) -> u64 {
        let mut entry = NO_KEY;
        for r in 0..K {
            // SAFETY: the whole warp comes here.
            let key =
                unsafe { warp::warp_shuffle_idx(warp::FULL_MASK, self.keys[r], index / K as u32, WARP).0 };
            if index % K as u32 == r as u32 {
                entry = key;
            }
        }
        if index < self.width { entry } else { NO_KEY }
    }
}

impl<const K: usize> Registers<K> {
    /// The number of a register of this lane in the whole.
    #[inline(always)]
    fn place(r: usize) -> u32 {
        warp::lane_id() * K as u32 + r as u32
    }

    /// Whether a register of this lane is an entry that is not visited.
    #[inline(always)]
    fn is_unvisited(&self, r: usize) -> bool {
        self.keys[r] & UNVISITED != 0 && Self::place(r) < self.width
    }

    /// Entry `i`, the same in all lanes. By masks: a chain of selects becomes an array in memory.
    #[inline(always)]
    unsafe fn at(&self, i: u32) -> u64 {
        let mut key = 0;
        for r in 0..K {
            key |= self.keys[r] & 0_u64.wrapping_sub(u64::from(i % K as u32 == r as u32));
        }
        // SAFETY: the whole warp comes here.
        unsafe { warp::warp_shuffle_idx(warp::FULL_MASK, key, i / K as u32, WARP).0 }
    }

    /// Whether `key`, the same in all lanes, is an entry.
    #[inline(always)]
    unsafe fn holds(&self, key: u64) -> bool {
        let mut held = false;
        for r in 0..K {
            held |= is_same(self.keys[r], key);
        }
        // SAFETY: the whole warp comes here.
        unsafe { warp::warp_vote_any(warp::FULL_MASK, held) }
    }

    /// Whether the lane's own key is an entry: a search for the last lane that begins at or before it, which alone
    /// can have it, since a visited copy sorts right before.
    #[inline(always)]
    unsafe fn holds_own(&self, key: u64) -> bool {
        let mut lane = 0;
        let mut step = WARP / 2;
        while step > 0 {
            // SAFETY: the whole warp comes here; lane + step < 32.
            let first = unsafe { warp::warp_shuffle_idx(warp::FULL_MASK, self.keys[0], lane + step, WARP).0 };
            if first <= key {
                lane += step;
            }
            step /= 2;
        }
        let mut held = false;
        for r in 0..K {
            // SAFETY: as above.
            held |=
                is_same(unsafe { warp::warp_shuffle_idx(warp::FULL_MASK, self.keys[r], lane, WARP).0 }, key);
        }
        held
    }

    /// Inserts the keys of some lanes, but for those that are entries.
    #[inline(always)]
    unsafe fn insert_new(&mut self, key: u64, mut lanes: u32) {
        while lanes != 0 {
            // SAFETY: the whole warp comes here.
            unsafe {
                let one = warp::warp_shuffle_idx(warp::FULL_MASK, key, lanes.trailing_zeros(), WARP).0;
                lanes &= lanes - 1;
                if !self.holds(one) {
                    self.insert(one);
                }
            }
        }
    }

    /// Moves every entry after `key`, the same in all lanes, by one place; the last falls out.
    #[inline(always)]
    unsafe fn insert(&mut self, key: u64) {
        // SAFETY: the whole warp comes here.
        let (before, _) = unsafe { warp::warp_shuffle_up(warp::FULL_MASK, self.keys[K - 1], 1, WARP) };
        let before = if warp::lane_id() == 0 { 0 } else { before };
        for r in (0..K).rev() {
            let previous = if r == 0 { before } else { self.keys[r.wrapping_sub(1)] };
            let moved = if key < previous { previous } else { key };
            self.keys[r] = if key < self.keys[r] { moved } else { self.keys[r] };
        }
    }

    /// Merges sorted keys, one a lane: the lesser half of both, which is bitonic, sorted.
    #[inline(always)]
    unsafe fn merge(&mut self, sorted: u64) {
        for r in 0..K {
            let from_end = WARP * K as u32 - 1 - Self::place(r);
            // SAFETY: the whole warp comes here.
            let other = unsafe { warp::warp_shuffle_idx(warp::FULL_MASK, sorted, from_end % WARP, WARP).0 };
            if from_end < WARP {
                self.keys[r] = self.keys[r].min(other);
            }
        }
        let mut stride = WARP / 2;
        while stride > 0 {
            let lower = warp::lane_id() & stride == 0;
            for r in 0..K {
                // SAFETY: the whole warp comes here.
                let other = unsafe { warp::warp_shuffle_xor(warp::FULL_MASK, self.keys[r], stride, WARP).0 };
                self.keys[r] = if (other < self.keys[r]) == lower { other } else { self.keys[r] };
            }
            stride /= 2;
        }
        let mut stride = K / 2;
        while stride > 0 {
            for r in 0..K {
                if r & stride == 0 {
                    let (a, b) = (self.keys[r], self.keys[r + stride]);
                    self.keys[r] = a.min(b);
                    self.keys[r + stride] = a.max(b);
                }
            }
            stride /= 2;
        }
    }
}
