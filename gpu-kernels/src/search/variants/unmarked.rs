//! The frontier without a mark on what was visited: what the mark saves is what this one takes more.
//!
//! Something must still tell which entry is next, or the nearest would be expanded for ever. It is a place: all before
//! it is visited, nothing behind it is known to be. An entry that comes in before the place takes the search back there,
//! and what was visited behind is visited again. Answers are the same: no vertex leads to anything new a second time.

use cuda_std::prelude::*;

use crate::neighbor::UNVISITED;
use crate::search::frontier::{Frontier, NO_KEY};
use crate::search::registers::Registers;

/// A frontier of up to 32 `K` entries.
pub(super) struct Unmarked<const K: usize>(Registers<K>);

impl<const K: usize> Frontier for Unmarked<K> {
    #[inline(always)]
    unsafe fn new(width: u32, memory: Shared<u64>) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { Registers::new(width, memory) })
    }

    #[inline(always)]
    unsafe fn offer(&mut self, key: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.0.offer(key) }
    }

    #[inline(always)]
    unsafe fn pick(&mut self) -> u64 {
        // SAFETY: the caller's promise.
        let picked = unsafe { self.0.pick() };
        // The marks that are left say where the place is.
        for r in 0..K {
            let is_behind = self.0.keys[r] > picked && self.0.keys[r] < NO_KEY;
            self.0.keys[r] |= u64::from(is_behind) * UNVISITED;
        }
        picked
    }

    #[inline(always)]
    unsafe fn settle(&mut self) {
        // SAFETY: the caller's promise.
        unsafe { self.0.settle() }
    }

    #[inline(always)]
    unsafe fn entry(&self, index: u32) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { self.0.entry(index) }
    }
}
