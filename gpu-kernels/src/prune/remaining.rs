//! The candidates that a warp has left.

use cuda_std::prelude::*;

use super::OcclusionRule;
use super::layout::DEFERRED;
use super::space::Space;
use crate::neighbor;

/// Head of what is left where nothing is.
pub(super) const NO_HEAD: u32 = u32::MAX;

/// Places of candidates among the sorted keys, rising, some of them marked.
struct List {
    places: Shared<u16>,
    begin: u32,
    end: u32,
}

/// What one warp has left: those that an earlier prune has kept beside each other are *already_pruned*, and apart.
pub(super) struct Remaining {
    others: List,
    already_pruned: List,
}

/// The part of the old row that an earlier prune kept in its second round.
pub(super) struct Deferred {
    pub(super) old: Shared<u32>,
    pub(super) begin: u32,
    pub(super) end: u32,
}

impl Deferred {
    /// No part of an `old` row.
    #[inline(always)]
    pub(super) fn none(old: Shared<u32>) -> Self {
        Self { old, begin: 0, end: 0 }
    }

    /// Whether `id` is among them.
    ///
    /// # Safety
    /// A barrier has passed since the old row was written.
    #[inline(always)]
    unsafe fn contain(&self, id: u32) -> bool {
        let (mut found, mut place) = (false, self.begin);
        while place < self.end {
            // SAFETY: within the old row.
            found |= unsafe { self.old.add(place).load() } == id;
            place += 1;
        }
        found
    }
}

impl List {
    #[inline(always)]
    fn len(&self) -> u32 {
        self.end - self.begin
    }

    /// The first that does not wait, or the first of all in the `second` round; [`NO_HEAD`] if there is none. Whole warp.
    ///
    /// # Safety
    /// A barrier of the warp has passed since the list was changed.
    #[inline(always)]
    unsafe fn head(&self, second: bool) -> u32 {
        let mut first = 0;
        while first < self.len() {
            let index = first + warp::lane_id();
            // SAFETY: within the list; the whole warp comes to every vote.
            unsafe {
                let place = if index < self.len() { self.marked(index) } else { DEFERRED };
                let open = index < self.len() && (second || place & DEFERRED == 0);
                let lanes = warp::warp_vote_ballot(warp::FULL_MASK, open);
                if lanes != 0 {
                    return self.marked(first + lanes.trailing_zeros()) & !DEFERRED;
                }
            }
            first += warp::WARP_SIZE;
        }
        NO_HEAD
    }

    /// The place at `index`, behind the first, with its mark.
    ///
    /// # Safety
    /// A barrier of the warp has passed since the list was changed; there is one.
    #[inline(always)]
    unsafe fn marked(&self, index: u32) -> u32 {
        // SAFETY: within the list.
        unsafe { self.places.add(self.begin + index).load() }.into()
    }

    /// Takes a `place` away that does not wait, or in the `second` round the first.
    ///
    /// # Safety
    /// Whole warp. As for [`Self::marked`]; a barrier of the warp passes before the list is looked at again.
    #[inline(always)]
    unsafe fn remove(&mut self, place: u32) {
        // SAFETY: the caller's promise; the head is in the list.
        if unsafe { self.marked(0) } & !DEFERRED == place {
            self.begin += 1;
            return;
        }
        let (mut first, mut end) = (0, self.begin);
        while first < self.len() {
            let index = first + warp::lane_id();
            // SAFETY: within the list; what is stored has been read, by this lane or before a barrier.
            unsafe {
                let there = index < self.len();
                let here = if there { self.marked(index) } else { 0 };
                warp::sync_warp(warp::FULL_MASK);
                end = self.store(end, here, there && here & !DEFERRED != place);
            }
            first += warp::WARP_SIZE;
        }
        self.end = end;
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

impl Remaining {
    /// The share of a warp of the first `count` keys: every so many-th of them, from `warp` of `warps` on. Settled ones
    /// that are `deferred` are for the second round alone. Whole warp.
    ///
    /// # Safety
    /// A barrier has passed since the keys were written; `others` and `already_pruned` have room for the share.
    #[inline(always)]
    pub(super) unsafe fn share(
        (keys, count): (Shared<u64>, u32),
        (warp, warps): (u32, u32),
        others: Shared<u16>,
        already_pruned: Shared<u16>,
        deferred: &Deferred,
    ) -> Self {
        let list = |places| List { places, begin: 0, end: 0 };
        let (mut others, mut already_pruned) = (list(others), list(already_pruned));
        let mut first = warp;
        while first < count {
            let place = first + warp::lane_id() * warps;
            let there = place < count;
            // SAFETY: places are below `count`.
            unsafe {
                let key = if there { keys.add(place).load() } else { neighbor::UNVISITED };
                let is_already_pruned = key & neighbor::UNVISITED == 0;
                others.end = others.store(others.end, place, there && !is_already_pruned);
                let deferred = is_already_pruned && deferred.contain(neighbor::id(key));
                already_pruned.end = already_pruned.store(
                    already_pruned.end,
                    place | if deferred { DEFERRED } else { 0 },
                    is_already_pruned,
                );
            }
            first += warp::WARP_SIZE * warps;
        }
        Self { others, already_pruned }
    }

    /// The first candidate that the round may keep; [`NO_HEAD`] if there is none. Whole warp.
    ///
    /// # Safety
    /// A barrier of the warp has passed since anything was dropped.
    #[inline(always)]
    pub(super) unsafe fn head(&self, second: bool) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { self.others.head(second).min(self.already_pruned.head(second)) }
    }

    /// Takes the head away, if it is `place`. Whole warp.
    ///
    /// # Safety
    /// As for [`Self::head`], and a barrier of the warp passes before anything is looked at again.
    #[inline(always)]
    pub(super) unsafe fn skip(&mut self, place: u32, second: bool) {
        // SAFETY: the caller's promise; heads are the same in all lanes.
        unsafe {
            if self.others.head(second) == place {
                self.others.remove(place);
            } else if self.already_pruned.head(second) == place {
                self.already_pruned.remove(place);
            }
            warp::sync_warp(warp::FULL_MASK);
        }
    }

    /// Drops those that `kept` occludes towards, but that two already_pruned ones do not drop each other, and lets those wait for the
    /// second round that it occludes towards with the slack of the first; returns how many were compared.
    ///
    /// # Safety
    /// Whole warp. The keys are those that places are of; `kept` is the key of `near`, which is of the space.
    #[inline(always)]
    pub(super) unsafe fn drop_occluded<S: Space>(
        &mut self,
        space: &S,
        keys: Shared<u64>,
        (kept, near): (u64, &S::Near),
        slack: OcclusionRule,
    ) -> u32 {
        let others = self.others.len();
        let compared = others + if kept & neighbor::UNVISITED != 0 { self.already_pruned.len() } else { 0 };
        let (mut others_end, mut settled_end) = (self.others.begin, self.already_pruned.begin);
        let mut first = 0;
        while first < compared {
            let index = first + S::place();
            let there = S::place() < S::PER_WARP && index < compared;
            let is_other = index < others;
            // SAFETY: within the lists; each place is that of a key, and keys name vertices.
            unsafe {
                let mut place = 0;
                if there {
                    place = if is_other {
                        self.others.marked(index)
                    } else {
                        self.already_pruned.marked(index - others)
                    };
                }
                let key = if there { keys.add(place & !DEFERRED).load() } else { kept };
                let (between, distance) = (space.distance(near, neighbor::id(key)), neighbor::distance(key));
                if between <= distance {
                    place |= DEFERRED;
                }
                let is_live = there && !slack.occludes(between, distance);
                warp::sync_warp(warp::FULL_MASK);
                others_end = self.others.store(others_end, place, is_live && is_other);
                settled_end = self.already_pruned.store(settled_end, place, is_live && !is_other);
            }
            first += S::PER_WARP;
        }
        self.others.end = others_end;
        if compared > others {
            self.already_pruned.end = settled_end;
        }
        compared
    }
}
