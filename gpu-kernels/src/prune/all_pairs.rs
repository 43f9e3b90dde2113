//! The rounds of a prune of few candidates: who occludes towards whom is worked out before any is kept.
//!
//! A full row and some new edges take as many turns as a row has links, each of which would wait for rows and for the
//! block, though an earlier prune has compared nearly all of them. Here all pairs that were never compared are worked out
//! at once, whatever of them the turns will ask for, and the turns go by bits: 24,000 instructions a target were measured
//! before, most of them in turns.

use cuda_std::prelude::*;

use super::bit_set::Set;
use super::layout::{MAX_ALL_PAIRS, PAIR_WORDS as WORDS};
use super::remaining::Deferred;
use super::robust_prune::{Memory, warp_number, warps};
use super::sort::for_my_places;
use super::space::Space;
use super::{FIRST_ALPHA, OcclusionRule, PRUNE_DISTANCES, PruneArgs};
use crate::neighbor;

/// Rows of which all pairs come from near: a block's candidates fit the first cache, or the second without deferred long. Of
/// longer ones the turns leave most unread. Merges of 1,536 bytes became four times as fast by it (experiments: building on
/// rows of bytes).
const SHORT: u32 = 1536;

/// What a block has in the memory that few candidates leave free.
#[derive(Clone, Copy)]
pub(super) struct AllPairs {
    keys: Shared<u64>,
    /// `[MAX_ALL_PAIRS][2][WORDS]`: whom a candidate occludes towards with `alpha`, and whom with the slack of the first round.
    occluded: Shared<u32>,
    /// `[WORDS]`: those that no earlier prune kept. Behind these, those that wait for the second round.
    others: Shared<u32>,
    /// `[MAX_ALL_PAIRS]`: places of candidates: the others, then what is already_pruned.
    places: Shared<u16>,
    /// `[deferred_len]`: keys of those that wait, at most [`MAX_ALL_PAIRS`].
    deferred: Shared<u64>,
    deferred_len: u32,
    /// How many there are of what was counted last.
    count: Shared<u32>,
}

impl AllPairs {
    /// For `count` keys that are not sorted yet, if these are few of short rows: then remembers those of the `old` row that
    /// wait, which will stand elsewhere. Whole block; a barrier must follow.
    ///
    /// # Safety
    /// The old row was [already_pruned](super::already_pruned::mark_already_pruned), since which no barrier need have passed.
    #[inline(always)]
    pub(super) unsafe fn of(
        args: &PruneArgs,
        memory: &Memory,
        count: u32,
        old: Shared<u64>,
        deferred: &Deferred,
    ) -> Option<Self> {
        if count > MAX_ALL_PAIRS || args.graph.row_bytes > SHORT {
            return None;
        }
        let occluded = memory.keys.add(MAX_ALL_PAIRS).cast::<u32>();
        let others = occluded.add(2 * MAX_ALL_PAIRS * WORDS);
        let places = others.add(2 * WORDS).cast::<u16>();
        let keys = places.add(MAX_ALL_PAIRS).cast::<u64>();
        for_my_places(deferred.end, |place| {
            if place >= deferred.begin {
                // SAFETY: this thread marked the key. There is room behind all keys.
                unsafe { keys.add(place - deferred.begin).store(old.add(place).load()) };
            }
        });
        let deferred_len = deferred.end - deferred.begin;
        Some(Self {
            keys: memory.keys,
            occluded,
            others,
            places,
            deferred: keys,
            deferred_len,
            count: memory.fresh,
        })
    }

    /// As [`super::robust_prune::keep`], but for `take`, which each thread calls for some.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub(super) unsafe fn robust_prune<S: Space>(
        &self,
        space: &S,
        args: &PruneArgs,
        count: u32,
        take: impl Fn(u32, u64),
    ) -> u32 {
        // SAFETY: the whole block comes here; a barrier is between what is written and read.
        unsafe {
            self.clear(count);
            thread::sync_threads();
            if warp_number() == 0 {
                self.list(count);
            }
            self.find_deferred(count);
            thread::sync_threads();
            self.compare(space, OcclusionRule::of(args), count);
            thread::sync_threads();
            if warp_number() == 0 {
                self.turns(args, count);
            }
            thread::sync_threads();
            let (first, second) = (Set::load(self.others), Set::load(self.others.add(WORDS)));
            for_my_places(count, |place| {
                let number = if first.has(place) {
                    first.before(place)
                } else if second.has(place) {
                    first.len() + second.before(place)
                } else {
                    args.max_degree
                };
                if number < args.max_degree {
                    take(number, self.keys.add(place).load());
                }
            });
            (first.len() + second.len()).min(args.max_degree)
        }
    }

    #[inline(always)]
    unsafe fn clear(&self, count: u32) {
        // SAFETY: bits of candidates, at multiples of 16.
        unsafe {
            for_my_places(2 * count, |half| self.occluded.add(half * WORDS).cast::<[u64; 2]>().store([0; 2]));
            for_my_places(2, |half| self.others.add(half * WORDS).cast::<[u64; 2]>().store([0; 2]));
        }
    }

    /// Lists the places, others first. One warp.
    #[inline(always)]
    unsafe fn list(&self, count: u32) {
        let below = (1 << warp::lane_id()) - 1;
        let (mut others, mut already_pruned, mut first) = (0, count, 0);
        while first < count {
            let place = first + warp::lane_id();
            // SAFETY: places below the count; the whole warp votes.
            unsafe {
                let there = place < count;
                let is_other = there && self.keys.add(place).load() & neighbor::UNVISITED != 0;
                let lanes = warp::warp_vote_ballot(warp::FULL_MASK, is_other);
                let rest = warp::warp_vote_ballot(warp::FULL_MASK, there && !is_other);
                already_pruned -= rest.count_ones();
                let to = if is_other {
                    others + (lanes & below).count_ones()
                } else {
                    already_pruned + (rest & below).count_ones()
                };
                if there {
                    self.places.add(to).store(place as u16);
                }
                others += lanes.count_ones();
                if warp::lane_id() == 0 {
                    self.others.add(first / 32).store(lanes);
                }
            }
            first += warp::WARP_SIZE;
        }
        if warp::lane_id() == 0 {
            // SAFETY: nobody reads it before the next barrier.
            unsafe { self.count.store(others) };
        }
    }

    /// Finds those that wait among the sorted keys, by halving.
    #[inline(always)]
    unsafe fn find_deferred(&self, count: u32) {
        for_my_places(self.deferred_len, |index| {
            // SAFETY: one of them; steps stay below the count.
            unsafe {
                let key = self.deferred.add(index).load();
                let (mut place, mut step) = (0, MAX_ALL_PAIRS / 2);
                while step > 0 {
                    let next = place + step;
                    if next < count && self.keys.add(next).load() <= key {
                        place = next;
                    }
                    step /= 2;
                }
                // Beyond the candidates that count there are none.
                if self.keys.add(place).load() == key {
                    self.others.add(WORDS + place / 32).atomic_or(1 << (place % 32));
                }
            }
        });
    }

    /// Compares the others with each other and with all that is already_pruned.
    #[inline(always)]
    unsafe fn compare<S: Space>(&self, space: &S, slack: OcclusionRule, count: u32) {
        // SAFETY: places of keys, which name vertices; whole warps come to every distance.
        unsafe {
            let others = self.count.load();
            let mut one = warp_number();
            while one < others {
                let a = u32::from(self.places.add(one).load());
                let key_a = self.keys.add(a).load();
                let near = space.near(neighbor::id(key_a));
                let mut first = one + 1;
                while first < count {
                    let index = first + S::place();
                    let there = S::place() < S::PER_WARP && index < count;
                    let b = if there { u32::from(self.places.add(index).load()) } else { a };
                    let key_b = self.keys.add(b).load();
                    let between = space.distance(&near, neighbor::id(key_b));
                    if there {
                        self.note(a, (b, key_b), between, slack);
                        self.note(b, (a, key_a), between, slack);
                    }
                    first += S::PER_WARP;
                }
                one += warps();
            }
        }
    }

    /// Notes whether `from` occludes towards `to`.
    #[inline(always)]
    unsafe fn note(&self, from: u32, (to, key): (u32, u64), between: f32, slack: OcclusionRule) {
        let (distance, bit) = (neighbor::distance(key), 1 << (to % 32));
        let word = self.occluded.add(2 * from * WORDS + to / 32);
        // SAFETY: the bits of a candidate.
        unsafe {
            if slack.occludes(between, distance) {
                word.atomic_or(bit);
            }
            if between <= distance {
                word.add(WORDS).atomic_or(bit);
            }
        }
    }

    /// The turns of both rounds: leaves what each keeps in the place of the others and of those that wait, and more than
    /// `max_degree` if it gets to them. One warp, all of whose lanes do the same.
    #[inline(always)]
    unsafe fn turns(&self, args: &PruneArgs, count: u32) {
        // SAFETY: bits of candidates, behind a barrier.
        unsafe {
            let (others, mut deferred) = (Set::load(self.others), Set::load(self.others.add(WORDS)));
            let occluding = self.occluding(count).or(others);
            let (mut left, mut kept) = (Set::first(count), Set::NONE);
            let (mut first, mut room, mut scored) = (Set::NONE, args.max_degree, 0);
            let mut second = false;
            while room > 0 {
                let open = if second { left } else { left.without(deferred) };
                let next = open.and(occluding).least();
                // Those in front of it lead towards nobody: nothing changes while they are kept.
                let run = open.and(Set::first(next.unwrap_or(MAX_ALL_PAIRS))).without(occluding);
                scored += run.len().min(room - 1) * left.and(others).len();
                room = room.saturating_sub(run.len());
                (kept, left) = (kept.or(run), left.without(run));
                let Some(next) = next else {
                    if second || args.alpha <= FIRST_ALPHA {
                        break;
                    }
                    (first, kept, second) = (kept, Set::NONE, true);
                    continue;
                };
                if room > 0 {
                    let one = Set::only(next);
                    (kept, left) = (kept.or(one), left.without(one));
                    room -= 1;
                }
                if room > 0 {
                    scored += if others.has(next) { left } else { left.and(others) }.len();
                    let occluded = self.occluded.add(2 * next * WORDS);
                    left = left.without(Set::load(occluded));
                    deferred = deferred.or(Set::load(occluded.add(WORDS)));
                }
            }
            if !second {
                (first, kept) = (kept, Set::NONE);
            }
            warp::sync_warp(warp::FULL_MASK);
            if warp::lane_id() == 0 {
                first.store(self.others);
                kept.store(self.others.add(WORDS));
                if scored > 0 {
                    atomic::add(args.counters.at(PRUNE_DISTANCES), u64::from(scored));
                }
            }
        }
    }

    /// Those that lead towards any. One warp.
    #[inline(always)]
    unsafe fn occluding(&self, count: u32) -> Set {
        let (mut occluding, mut first) = (Set::NONE, 0);
        while first < count {
            let place = first + warp::lane_id();
            // SAFETY: bits of candidates; the whole warp votes.
            unsafe {
                let occluded = self.occluded.add(2 * place.min(count - 1) * WORDS);
                let any = Set::load(occluded).or(Set::load(occluded.add(WORDS))).len() > 0;
                let lanes = warp::warp_vote_ballot(warp::FULL_MASK, any && place < count);
                occluding = occluding.or(Set::word(first / 32, lanes));
            }
            first += warp::WARP_SIZE;
        }
        occluding
    }
}
