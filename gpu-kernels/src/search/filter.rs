//! The filter of seen ids: a table of whole ids that forgets, so that it saves work and never changes an answer.

use cuda_std::prelude::*;

use super::frontier::WARP;

/// Each place has the last id that was put there.
#[derive(Clone, Copy)]
pub(super) struct Filter {
    places: Shared<u32>,
    slots: u32,
}

impl Filter {
    /// An empty filter over `slots` words. The threads that have it come, and a barrier of theirs must follow.
    ///
    /// # Safety
    /// `places` has as many words; `thread` of `threads` is this one.
    #[inline(always)]
    pub(super) unsafe fn new(places: Shared<u32>, slots: u32, thread: u32, threads: u32) -> Self {
        let mut at = thread;
        while at < slots {
            // SAFETY: at < slots, a place of this thread.
            unsafe { places.add(at).store(u32::MAX) };
            at += threads;
        }
        Self { places, slots }
    }

    #[inline(always)]
    fn place(&self, id: u32) -> Shared<u32> {
        // The upper bits of a product with the golden ratio: near ids fall far from each other.
        let shift = self.slots.leading_zeros() + 1;
        self.places.add(id.wrapping_mul(0x9E37_79B1) >> (shift & (WARP - 1)))
    }

    /// Whether `id` was not there, which it is from now on. An exchange, so that lanes that meet in a place agree.
    ///
    /// # Safety
    /// The filter is as it was made.
    #[inline(always)]
    pub(super) unsafe fn insert(&self, id: u32) -> bool {
        // SAFETY: a place below `slots`.
        self.slots == 0 || unsafe { self.place(id).atomic_exchange(id) } != id
    }

    /// Whether `id` is not there; others may insert meanwhile.
    ///
    /// # Safety
    /// The filter is as it was made.
    #[inline(always)]
    pub(super) unsafe fn misses(&self, id: u32) -> bool {
        // SAFETY: a place below `slots`.
        self.slots == 0 || unsafe { self.place(id).load_relaxed() } != id
    }
}
