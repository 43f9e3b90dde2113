//! What the warps of a team share: places for neighbours on their way to the leader.

use cuda_std::prelude::*;

use super::super::SearchArgs;
use super::super::filter::Filter;
use super::super::frontier::{NO_KEY, WARP};
use super::super::score::Scorer;
use super::super::solo::start;
use super::{append, key_at};
use crate::graph::NO_ROW;
use crate::neighbor::id;

/// How many of the nearest new neighbours of a vertex have their links brought near, while the leader is at work: those
/// that it may choose next.
const LIKELY: u32 = 8;
/// Links that one line of the cache holds.
const LINKS_A_LINE: u32 = 32;

/// Places for the neighbours of vertices that are scored ahead of their turn: one a warp, for as many warps as there
/// are places.
pub(super) struct Ahead {
    /// How many there are.
    pub(super) places: u32,
    /// Room of each.
    pub(super) stride: u32,
    /// `[places][stride]`: neighbours that are met; once they are scored, those that are too far.
    pub(super) ids: Shared<u32>,
    /// `[places][stride]`: their keys; then those that are near enough, each 32 of them rising.
    pub(super) keys: Shared<u64>,
    /// `[places]`: what is wanted next. Behind it the bound of the frontier.
    pub(super) wanted: Shared<u64>,
    /// `[places]` vertices, `[places]` how many neighbours of each are met, `[places]` how many of those are near
    /// enough. Behind these a bit for each place that is to be filled.
    pub(super) control: Shared<u32>,
    pub(super) filter: Filter,
    /// The number of this warp, and how many there are.
    pub(super) warp: u32,
    pub(super) warps: u32,
}

impl Ahead {
    #[inline(always)]
    pub(super) fn vertex(&self, place: u32) -> Shared<u32> {
        self.control.add(place)
    }

    #[inline(always)]
    pub(super) fn met(&self, place: u32) -> Shared<u32> {
        self.control.add(self.places + place)
    }

    #[inline(always)]
    pub(super) fn near(&self, place: u32) -> Shared<u32> {
        self.control.add(2 * self.places + place)
    }

    #[inline(always)]
    pub(super) fn chosen_places(&self) -> Shared<u32> {
        self.control.add(3 * self.places)
    }

    #[inline(always)]
    pub(super) fn bound(&self) -> Shared<u64> {
        self.wanted.add(self.places)
    }

    #[inline(always)]
    pub(super) fn ids_of(&self, place: u32) -> Shared<u32> {
        self.ids.add(place * self.stride)
    }

    #[inline(always)]
    fn keys_of(&self, place: u32) -> Shared<u64> {
        self.keys.add(place * self.stride)
    }

    /// The places to be filled.
    ///
    /// # Safety
    /// A barrier has passed since the leader chose.
    #[inline(always)]
    pub(super) unsafe fn chosen(&self) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { self.chosen_places().load() }
    }

    /// Whether the place of this warp is to be filled.
    ///
    /// # Safety
    /// As for [`Self::chosen`].
    #[inline(always)]
    unsafe fn has_place(&self) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.chosen() >> self.warp & 1 != 0 }
    }

    /// Takes in the next start points; gives how many were taken in so far. All warps.
    ///
    /// # Safety
    /// Nobody reads or writes the places meanwhile.
    #[inline(always)]
    pub(super) unsafe fn meet_starts(&self, args: &SearchArgs, query: u32, started: u32) -> u32 {
        // SAFETY: each warp fills its place, the leader tells which.
        unsafe {
            let filled = (args.graph.starts_len - started).div_ceil(WARP).min(self.places);
            if self.warp < filled {
                let id = start(args, query, started + self.warp * WARP + warp::lane_id());
                let met = append(self.ids_of(self.warp), id, id != NO_ROW);
                if warp::lane_id() == 0 {
                    self.met(self.warp).store(met);
                }
            }
            if thread::thread_idx_x() == 0 {
                self.chosen_places().store((1 << filled) - 1);
            }
            started + filled * WARP
        }
    }

    /// Takes in the neighbours of the chosen vertices that the filter misses, two loads in flight at a time.
    ///
    /// # Safety
    /// All warps; a barrier has passed since the leader chose.
    #[inline(always)]
    pub(super) unsafe fn gather(&self, args: &SearchArgs) {
        // SAFETY: links of a vertex, room for all of them in its place.
        unsafe {
            if !self.has_place() {
                return;
            }
            let links = args.graph.links.from(self.vertex(self.warp).load() as usize * self.stride as usize);
            let mut met = 0;
            let mut meet = |id| {
                let is_new = id != NO_ROW && self.filter.misses(id);
                met += append(self.ids_of(self.warp).add(met), id, is_new);
            };
            let mut first = warp::lane_id();
            while first < self.stride {
                let one = global::load_readonly(links.at(first as usize));
                let two = if first + WARP < self.stride {
                    global::load_readonly(links.at((first + WARP) as usize))
                } else {
                    NO_ROW
                };
                meet(one);
                meet(two);
                first += 2 * WARP;
            }
            if warp::lane_id() == 0 {
                self.met(self.warp).store(met);
            }
        }
    }

    /// Scores what the chosen places hold: in parts of one place each, no more than there are warps, all of as many rows
    /// but for the last of a place. So many groups of rows that are scored together make a part as the least power of
    /// two allows.
    ///
    /// # Safety
    /// All warps; a barrier has passed since the places were filled.
    #[inline(always)]
    pub(super) unsafe fn score<S: Scorer>(&self, scorer: &S) {
        let lane = warp::lane_id();
        // SAFETY: the whole warp comes here; ids of vertices, and each part of a place is one warp's. There are as many
        // warps as places, so that parts as large as these will do.
        unsafe {
            // Lane `p`: of place `p`.
            let met = if self.chosen() >> lane & 1 != 0 { self.met(lane).load() } else { 0 };
            let groups = met.div_ceil(S::TOGETHER);
            let (mut share, mut parts) = (1, groups);
            while warp::warp_reduce_add(warp::FULL_MASK, parts) > self.warps {
                share *= 2;
                parts = parts.div_ceil(2);
            }
            let mut before = 0;
            for other in 0..self.places {
                let (parts, _) = warp::warp_shuffle_idx(warp::FULL_MASK, parts, other, WARP);
                before += if other < lane { parts } else { 0 };
            }
            let own = warp::warp_vote_ballot(warp::FULL_MASK, self.warp.wrapping_sub(before) < parts);
            if own == 0 {
                return;
            }
            let place = own.trailing_zeros();
            let part = self.warp - warp::warp_shuffle_idx(warp::FULL_MASK, before, place, WARP).0;
            let rows = share * S::TOGETHER;
            let mut from = part * rows;
            let to = warp::warp_shuffle_idx(warp::FULL_MASK, met, place, WARP).0.min(from + rows);
            while from < to {
                let (ids, count) = (self.ids_of(place).add(from), WARP.min(to - from));
                let key = scorer.keys(scorer.fetch(ids, count), ids, count);
                append(self.keys_of(place).add(from), key, key != NO_KEY);
                from += WARP;
            }
        }
    }

    /// Sorts the keys in the chosen places that are below the bound, which only falls, so that no other will ever be of
    /// use; and brings near what the leader may choose for them.
    ///
    /// # Safety
    /// All warps; a barrier has passed since they were scored.
    #[inline(always)]
    pub(super) unsafe fn sort(&self, args: &SearchArgs) {
        let lane = warp::lane_id();
        // SAFETY: as many keys as a place has met; no more are near, and no more too far.
        unsafe {
            if !self.has_place() {
                return;
            }
            let (ids, keys) = (self.ids_of(self.warp), self.keys_of(self.warp));
            let (met, bound) = (self.met(self.warp).load(), self.bound().load());
            let (mut near, mut far, mut first) = (0, 0, 0);
            while first < met {
                let key = key_at(keys, first + lane, met);
                far += append(ids.add(far), id(key), key != NO_KEY && key >= bound);
                // Others have read their keys.
                warp::sync_warp(warp::FULL_MASK);
                near += append(keys.add(near), key, key < bound);
                first += WARP;
            }
            warp::sync_warp(warp::FULL_MASK);
            first = 0;
            while first < near {
                let (run, len) = (keys.add(first), WARP.min(near - first));
                let key = key_at(run, lane, len);
                let rank = rank(key, len);
                warp::sync_warp(warp::FULL_MASK);
                if lane < len {
                    run.add(rank).store(key);
                }
                if lane < len && rank < LIKELY {
                    let links = args.graph.links.from(id(key) as usize * self.stride as usize);
                    let mut line = 0;
                    while line < self.stride {
                        global::prefetch_l2(links.at(line as usize));
                        line += LINKS_A_LINE;
                    }
                }
                first += WARP;
            }
            if lane == 0 {
                self.near(self.warp).store(near);
            }
        }
    }

    /// The keys of a place that the leader takes in next, from `first` on, rising: those that the filter missed. What
    /// is taken in, the filter knows.
    ///
    /// # Safety
    /// Whole warp; the filter and the place are the leader's.
    #[inline(always)]
    pub(super) unsafe fn news(&self, place: u32, first: u32) -> u64 {
        let lane = warp::lane_id();
        // SAFETY: as many keys as are near.
        unsafe {
            let keys = self.keys_of(place).add(first);
            let key = key_at(keys, lane, self.near(place).load() - first);
            let is_new = key != NO_KEY && self.filter.insert(id(key));
            let lanes = warp::warp_vote_ballot(warp::FULL_MASK, is_new);
            if lanes & lanes.wrapping_add(1) == 0 {
                return if is_new { key } else { NO_KEY };
            }
            warp::sync_warp(warp::FULL_MASK);
            let len = append(keys, key, is_new);
            warp::sync_warp(warp::FULL_MASK);
            key_at(keys, lane, len)
        }
    }
}

/// Keys that are compared with one after the other without a look whether there are more.
const COMPARED: u32 = 8;

/// How many of the first `len` keys of lanes are below that of this lane, of equal ones those of lanes before. Unlike the
/// steps of a sort, comparisons do not wait for each other.
///
/// # Safety
/// Whole warp; behind `len` all lanes have [`NO_KEY`].
#[inline(always)]
unsafe fn rank(key: u64, len: u32) -> u32 {
    let (mut rank, mut first) = (0, 0);
    while first < len {
        for i in 0..COMPARED {
            // SAFETY: the whole warp comes here; first + i < 32, a multiple of what is compared.
            let (other, _) = unsafe { warp::warp_shuffle_idx(warp::FULL_MASK, key, first + i, WARP) };
            rank += u32::from(other < key + u64::from(first + i < warp::lane_id()));
        }
        first += COMPARED;
    }
    rank
}
