//! The frontier of narrow beams, in registers. Entry `i` is in register `i % K` of lane `i / K`. For `K` = 2:
//!
//! ```text
//! lane          0     1     2    ...    31
//! register 0    e0    e2    e4   ...    e62
//! register 1    e1    e3    e5   ...    e63
//! ```
//!
//! An insertion shifts the later entries by one place. Within a lane that is a move between registers, so each lane
//! passes one entry to the next lane, whatever `K` is.

use cuda_std::prelude::*;

use super::frontier::{Frontier, is_duplicate_in_warp, is_same_vertex, sorted};
use crate::WARP_SIZE;
use crate::neighbor::{NO_ENTRY, UNEXPANDED};

/// Up to this many entries are inserted one by one; more are sorted and merged. This was measured as 5% faster than
/// always sorting at 64 entries, and 33% at 128.
const FEW: u32 = 6;

/// A frontier of up to 32 `K` entries.
pub(super) struct RegisterList<const K: usize> {
    pub(super) entries: [u64; K],
    len: u32,
    beam_width: u32,
    bound: u64,
}

impl<const K: usize> Frontier for RegisterList<K> {
    const IN_SHARED_MEMORY: bool = false;

    unsafe fn new(len: u32, beam_width: u32, _: Shared<u64>) -> Self {
        Self { entries: [NO_ENTRY; K], len, beam_width, bound: NO_ENTRY }
    }

    unsafe fn offer(&mut self, entry: u64) {
        // SAFETY: the warp is converged here; conditions are the same in all lanes.
        unsafe {
            let near = warp::ballot(entry < self.bound);
            if near == 0 {
                return;
            }
            if near.count_ones() > FEW {
                let known = self.holds_per_lane(entry) | is_duplicate_in_warp(entry);
                self.merge(sorted(if known || entry >= self.bound { NO_ENTRY } else { entry }));
            } else {
                self.insert_new(entry, near);
            }
            self.bound = self.at(self.len - 1);
        }
    }

    unsafe fn take_nearest(&mut self) -> u64 {
        // SAFETY: the warp is converged here.
        unsafe {
            let mut own = NO_ENTRY;
            for r in (0..K).rev() {
                if self.is_unexpanded(r) {
                    own = self.entries[r];
                }
            }
            let lanes = warp::ballot(own != NO_ENTRY);
            if lanes == 0 {
                return NO_ENTRY;
            }
            let nearest = lanes.trailing_zeros();
            let picked = warp::shuffle(own, nearest);
            for r in 0..K {
                // Entries are distinct.
                self.entries[r] &= !u64::from(self.entries[r] == picked);
            }
            picked
        }
    }

    unsafe fn flush(&mut self) {}

    unsafe fn entry(&self, index: u32) -> u64 {
        let mut entry = NO_ENTRY;
        for r in 0..K {
            // SAFETY: the warp is converged here.
            let other = unsafe { warp::shuffle(self.entries[r], index / K as u32) };
            if index % K as u32 == r as u32 {
                entry = other;
            }
        }
        if index < self.len { entry } else { NO_ENTRY }
    }
}

impl<const K: usize> RegisterList<K> {
    /// The position in the frontier of register `r` of this lane.
    fn place(r: usize) -> u32 {
        warp::lane_id() * K as u32 + r as u32
    }

    /// Whether register `r` of this lane holds an unexpanded entry of the beam.
    fn is_unexpanded(&self, r: usize) -> bool {
        self.entries[r] & UNEXPANDED != 0 && Self::place(r) < self.beam_width
    }

    /// Entry `i`, the same in all lanes. Registers are selected by masks, because a chain of selects becomes an array
    /// in memory.
    unsafe fn at(&self, i: u32) -> u64 {
        let mut entry = 0;
        for r in 0..K {
            entry |= self.entries[r] & 0_u64.wrapping_sub(u64::from(i % K as u32 == r as u32));
        }
        // SAFETY: the warp is converged here.
        unsafe { warp::shuffle(entry, i / K as u32) }
    }

    /// Whether `entry`, the same in all lanes, is in the frontier.
    unsafe fn holds(&self, entry: u64) -> bool {
        let mut held = false;
        for r in 0..K {
            held |= is_same_vertex(self.entries[r], entry);
        }
        // SAFETY: the warp is converged here.
        unsafe { warp::any(held) }
    }

    /// Whether `entry`, which is per lane, is in the frontier. A binary search finds the last lane whose first entry is
    /// at or before it. Only that lane can have the vertex, because an expanded copy sorts right before an unexpanded
    /// one.
    unsafe fn holds_per_lane(&self, entry: u64) -> bool {
        let mut lane = 0;
        let mut step = WARP_SIZE / 2;
        while step > 0 {
            // SAFETY: the warp is converged here; lane + step < 32.
            let first = unsafe { warp::shuffle(self.entries[0], lane + step) };
            if first <= entry {
                lane += step;
            }
            step /= 2;
        }
        let mut held = false;
        for r in 0..K {
            // SAFETY: as above.
            held |= is_same_vertex(unsafe { warp::shuffle(self.entries[r], lane) }, entry);
        }
        held
    }

    /// Inserts the entries of some lanes, except those already in the frontier.
    unsafe fn insert_new(&mut self, entry: u64, mut lanes: u32) {
        while lanes != 0 {
            // SAFETY: the warp is converged here.
            unsafe {
                let one = warp::shuffle(entry, lanes.trailing_zeros());
                lanes &= lanes - 1;
                if !self.holds(one) {
                    self.insert(one);
                }
            }
        }
    }

    /// Inserts `entry`, the same in all lanes. Moves every entry after it by one place; the last one is dropped.
    unsafe fn insert(&mut self, entry: u64) {
        // SAFETY: the warp is converged here.
        let (before, _) = unsafe { warp::shuffle_up(self.entries[K - 1], 1) };
        let before = if warp::lane_id() == 0 { 0 } else { before };
        for r in (0..K).rev() {
            let previous = if r == 0 { before } else { self.entries[r.wrapping_sub(1)] };
            let moved = if entry < previous { previous } else { entry };
            self.entries[r] = if entry < self.entries[r] { moved } else { self.entries[r] };
        }
    }

    /// Merges sorted entries, one per lane: takes the lesser half of both sequences, which is bitonic, and sorts it.
    unsafe fn merge(&mut self, sorted: u64) {
        for r in 0..K {
            let from_end = WARP_SIZE * K as u32 - 1 - Self::place(r);
            // SAFETY: the warp is converged here.
            let other = unsafe { warp::shuffle(sorted, from_end % WARP_SIZE) };
            if from_end < WARP_SIZE {
                self.entries[r] = self.entries[r].min(other);
            }
        }
        let mut stride = WARP_SIZE / 2;
        while stride > 0 {
            let lower = warp::lane_id() & stride == 0;
            for r in 0..K {
                // SAFETY: the warp is converged here.
                let other = unsafe { warp::shuffle_xor(self.entries[r], stride) };
                self.entries[r] = if (other < self.entries[r]) == lower { other } else { self.entries[r] };
            }
            stride /= 2;
        }
        let mut stride = K / 2;
        while stride > 0 {
            for r in 0..K {
                if r & stride == 0 {
                    let (a, b) = (self.entries[r], self.entries[r + stride]);
                    self.entries[r] = a.min(b);
                    self.entries[r + stride] = a.max(b);
                }
            }
            stride /= 2;
        }
    }
}
