//! The candidates that a warp has left.

use cuda_std::prelude::*;

use super::space::Space;
use crate::neighbor;

/// Head of a list that has none.
pub(super) const NO_HEAD: u32 = u32::MAX;

/// Places of candidates among the sorted keys, rising. One warp has it.
pub(super) struct Left {
    places: Shared<u16>,
    begin: u32,
    end: u32,
}

impl Left {
    /// None yet; `places` has room for as many as will be pushed.
    #[inline(always)]
    pub(super) fn new(places: Shared<u16>) -> Self {
        Self { places, begin: 0, end: 0 }
    }

    /// Adds the place of each lane where `wanted`, in the order of lanes.
    ///
    /// # Safety
    /// Whole warp; there is room.
    #[inline(always)]
    pub(super) unsafe fn push(&mut self, place: u32, wanted: bool) {
        // SAFETY: the whole warp comes here; a place of this list, which no other lane writes.
        unsafe { self.end = self.store(self.end, place, wanted) };
    }

    /// The first; [`NO_HEAD`] if there is none.
    ///
    /// # Safety
    /// A barrier of the warp has passed since anything was pushed or dropped.
    #[inline(always)]
    pub(super) unsafe fn head(&self) -> u32 {
        // SAFETY: within the list.
        if self.begin < self.end { unsafe { self.places.add(self.begin).load() }.into() } else { NO_HEAD }
    }

    /// Takes the first away, if it is `place`.
    ///
    /// # Safety
    /// As for [`Self::head`].
    #[inline(always)]
    pub(super) unsafe fn skip(&mut self, place: u32) {
        // SAFETY: the caller's promise.
        self.begin += u32::from(unsafe { self.head() } == place);
    }

    /// How many there are.
    #[inline(always)]
    pub(super) fn len(&self) -> u32 {
        self.end - self.begin
    }

    /// Drops those that `kept` leads towards.
    ///
    /// # Safety
    /// Whole warp. The keys are those that places are of; `kept`, the vertex of `near`, is one of the space.
    #[inline(always)]
    pub(super) unsafe fn drop_led_to<S: Space>(
        &mut self,
        space: &S,
        keys: Shared<u64>,
        (kept, near): (u32, &S::Near),
        alpha: f32,
    ) {
        let (mut from, mut to) = (self.begin, self.begin);
        while from < self.end {
            let index = from + S::place();
            let there = S::place() < S::TOGETHER && index < self.end;
            // SAFETY: within the list; each place is that of a key, and keys name vertices.
            unsafe {
                let place = if there { self.places.add(index).load().into() } else { 0 };
                let key = if there { keys.add(place).load() } else { neighbor::key(0.0, kept) };
                let between = space.distance(near, neighbor::id(key));
                let led_to = alpha * between <= neighbor::distance(key);
                warp::sync_warp(warp::FULL_MASK);
                to = self.store(to, place, there && !led_to);
            }
            from += S::TOGETHER;
        }
        self.end = to;
    }

    /// Stores the places that are `wanted` from `to` on; returns the end.
    ///
    /// # Safety
    /// Whole warp; nobody reads there without a barrier between.
    #[inline(always)]
    unsafe fn store(&self, to: u32, place: u32, wanted: bool) -> u32 {
        // SAFETY: the whole warp comes here; no two lanes have the same place in the list.
        unsafe {
            let lanes = warp::warp_vote_ballot(warp::FULL_MASK, wanted);
            if wanted {
                let before = lanes & ((1 << warp::lane_id()) - 1);
                self.places.add(to + before.count_ones()).store(place as u16);
            }
            to + lanes.count_ones()
        }
    }
}
