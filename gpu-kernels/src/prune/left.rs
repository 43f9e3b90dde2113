//! The candidates that a warp has left.

use cuda_std::prelude::*;

use super::space::Space;
use crate::neighbor;

/// Head of what is left where nothing is.
pub(super) const NO_HEAD: u32 = u32::MAX;

/// Places of candidates among the sorted keys, rising.
struct List {
    places: Shared<u16>,
    begin: u32,
    end: u32,
}

/// What one warp has left: those that an earlier prune has kept beside each other are *settled*, and apart.
pub(super) struct Left {
    others: List,
    settled: List,
}

impl List {
    #[inline(always)]
    fn len(&self) -> u32 {
        self.end - self.begin
    }

    /// The first; [`NO_HEAD`] if there is none.
    ///
    /// # Safety
    /// A barrier of the warp has passed since the list was changed.
    #[inline(always)]
    unsafe fn head(&self) -> u32 {
        // SAFETY: within the list.
        if self.begin < self.end { unsafe { self.places.add(self.begin).load() }.into() } else { NO_HEAD }
    }

    /// The place at `index`, behind the first.
    ///
    /// # Safety
    /// As for [`Self::head`]; there is one.
    #[inline(always)]
    unsafe fn place(&self, index: u32) -> u32 {
        // SAFETY: within the list.
        unsafe { self.places.add(self.begin + index).load() }.into()
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

impl Left {
    /// The share of a warp of the first `count` keys: every so many-th of them, from `warp` of `warps` on. Whole warp.
    ///
    /// # Safety
    /// A barrier has passed since the keys were written; `others` and `settled` have room for the share.
    #[inline(always)]
    pub(super) unsafe fn share(
        (keys, count): (Shared<u64>, u32),
        (warp, warps): (u32, u32),
        others: Shared<u16>,
        settled: Shared<u16>,
    ) -> Self {
        let list = |places| List { places, begin: 0, end: 0 };
        let (mut others, mut settled) = (list(others), list(settled));
        let mut first = warp;
        while first < count {
            let place = first + warp::lane_id() * warps;
            let there = place < count;
            // SAFETY: places are below `count`.
            unsafe {
                let is_settled = there && keys.add(place).load() & neighbor::UNVISITED == 0;
                others.end = others.store(others.end, place, there && !is_settled);
                settled.end = settled.store(settled.end, place, is_settled);
            }
            first += warp::WARP_SIZE * warps;
        }
        Self { others, settled }
    }

    /// The first of all; [`NO_HEAD`] if there is none.
    ///
    /// # Safety
    /// A barrier of the warp has passed since anything was dropped.
    #[inline(always)]
    pub(super) unsafe fn head(&self) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { self.others.head().min(self.settled.head()) }
    }

    /// Takes the first away, if it is `place`.
    ///
    /// # Safety
    /// As for [`Self::head`].
    #[inline(always)]
    pub(super) unsafe fn skip(&mut self, place: u32) {
        // SAFETY: the caller's promise.
        unsafe {
            self.others.begin += u32::from(self.others.head() == place);
            self.settled.begin += u32::from(self.settled.head() == place);
        }
    }

    /// Drops those that `kept` leads towards, but that two settled ones do not drop each other; returns how many were
    /// compared.
    ///
    /// # Safety
    /// Whole warp. The keys are those that places are of; `kept` is the key of `near`, which is of the space.
    #[inline(always)]
    pub(super) unsafe fn drop_led_to<S: Space>(
        &mut self,
        space: &S,
        keys: Shared<u64>,
        (kept, near): (u64, &S::Near),
        alpha: f32,
    ) -> u32 {
        let others = self.others.len();
        let compared = others + if kept & neighbor::UNVISITED != 0 { self.settled.len() } else { 0 };
        let (mut others_end, mut settled_end) = (self.others.begin, self.settled.begin);
        let mut first = 0;
        while first < compared {
            let index = first + S::place();
            let there = S::place() < S::TOGETHER && index < compared;
            let is_other = index < others;
            // SAFETY: within the lists; each place is that of a key, and keys name vertices.
            unsafe {
                let mut place = 0;
                if there {
                    place =
                        if is_other { self.others.place(index) } else { self.settled.place(index - others) };
                }
                let key = if there { keys.add(place).load() } else { kept };
                let between = space.distance(near, neighbor::id(key));
                let led_to = alpha * between <= neighbor::distance(key);
                let stays = there && !led_to;
                warp::sync_warp(warp::FULL_MASK);
                others_end = self.others.store(others_end, place, stays && is_other);
                settled_end = self.settled.store(settled_end, place, stays && !is_other);
            }
            first += S::TOGETHER;
        }
        self.others.end = others_end;
        if compared > others {
            self.settled.end = settled_end;
        }
        compared
    }
}
