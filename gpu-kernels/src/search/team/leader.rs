//! The warp of a team that has the frontier: what is requested, and what is visited next.

use cuda_std::prelude::*;

use super::super::SearchArgs;
use super::super::answers::{self, Work};
use super::super::frontier::{Frontier, NO_KEY, WARP};
use super::super::layout::Layout;
use super::super::list::List;
use super::places::{DISMISSAL, Places, Request};
use crate::collectives::{compact, rank_in, warp_min};
use crate::graph::NO_ROW;
use crate::neighbor::id;

/// The place of a vertex that has none.
const NO_PLACE: u32 = 0_u32.trailing_zeros();
/// Lanes that stand for places; the others stand for vertices that are wanted there.
const HALF: u32 = WARP / 2;

/// A key that none is below.
const FOR_NONE: u64 = 0;

/// The batches of start points: they go round the places.
struct Starts {
    batches: u32,
    requested: u32,
    taken: u32,
    /// The places of the next that is requested, and of the next that is taken.
    next: u32,
    oldest: u32,
}

impl Starts {
    #[inline(always)]
    fn new(batches: u32) -> Self {
        Self { batches, requested: 0, taken: 0, next: 0, oldest: 0 }
    }

    #[inline(always)]
    fn are_left(&self) -> bool {
        self.taken < self.batches
    }
}

/// What the first warp has.
pub(super) struct Leader {
    places: Places,
    list: List,
    /// `[stride]`: keys on their way to the list.
    near: Shared<u64>,
    /// `[places]`: the nearest unvisited vertices.
    wanted: Shared<u64>,
    /// Lane `p`: the vertex that place `p` was last requested for, until it is visited; else [`NO_ROW`].
    vertex: u32,
    /// Lane `p`: requests for place `p`.
    requests: u32,
    /// Distances, those of each worker in a lane.
    work: Work,
}

impl Leader {
    /// One that has asked for nothing.
    ///
    /// # Safety
    /// Whole warp; the plan gave the block the memory of the layout.
    #[inline(always)]
    pub(super) unsafe fn new(args: &SearchArgs, layout: &Layout, places: Places) -> Self {
        let part = |at: u32| shared::dynamic_shared_mem::<u8>().byte_add(at);
        // SAFETY: the caller's promise.
        let list = unsafe { List::new(args.beam_width, part(layout.list).cast()) };
        Self {
            places,
            list,
            near: part(layout.near).cast(),
            wanted: part(layout.wanted).cast(),
            vertex: NO_ROW,
            requests: 0,
            work: Work { hops: 0, distances: 0 },
        }
    }

    /// Searches, lets the workers go, and writes what was found.
    ///
    /// # Safety
    /// Whole warp; a barrier has passed since the places were cleared. The arguments are what they say, and `query` is
    /// one of theirs.
    #[inline(always)]
    pub(super) unsafe fn search(mut self, args: &SearchArgs, query: u32) {
        // SAFETY: the whole warp comes here, conditions are the same in all lanes.
        unsafe {
            let mut starts = Starts::new(self.places.batches(args));
            // The place that was taken last.
            let mut last = 0;
            // One loop for start points and neighbours: taking in is most of the code.
            loop {
                let (place, next) = if starts.are_left() {
                    (self.begin(&mut starts), FOR_NONE)
                } else {
                    let nearest = if self.work.hops < args.most_hops { self.list.nearest() } else { NO_KEY };
                    if nearest == NO_KEY {
                        break;
                    }
                    let place = self.see_to(id(nearest), last);
                    self.look_ahead();
                    self.list.visit_nearest();
                    answers::log(args, query, self.work.hops, nearest);
                    self.work.hops += 1;
                    (place, self.list.nearest())
                };
                self.wait(place);
                self.take(place, next);
                last = place;
            }
            self.dismiss();
            let distances = warp::warp_reduce_add(warp::FULL_MASK, self.work.distances);
            answers::write(args, query, &self.list, Work { distances, ..self.work });
        }
    }

    /// Requests batches of start points for all places that are empty; gives the place of the first that is not taken.
    #[inline(always)]
    unsafe fn begin(&mut self, starts: &mut Starts) -> u32 {
        let len = self.places.len;
        while starts.requested < starts.batches && starts.requested - starts.taken < len {
            // SAFETY: the place is empty.
            unsafe { self.request(warp::lane_id() == starts.next, starts.requested) };
            // No vertex.
            self.vertex = NO_ROW;
            starts.next = behind(starts.next, len);
            starts.requested += 1;
        }
        let place = starts.oldest;
        starts.oldest = behind(place, len);
        starts.taken += 1;
        place
    }

    /// The place of `vertex`: where it is requested, or else `last`, for which it is requested now.
    #[inline(always)]
    unsafe fn see_to(&mut self, vertex: u32, last: u32) -> u32 {
        // SAFETY: the whole warp comes here, conditions are the same in all lanes; all have read the keys of the last
        // place, and nobody is at work there any more.
        unsafe {
            let place = self.place_of(vertex);
            if place != NO_PLACE {
                return place;
            }
            self.wait(last);
            self.request(warp::lane_id() == last, vertex);
        }
        last
    }

    /// The place that `vertex` was requested in; [`NO_PLACE`] if it was not.
    #[inline(always)]
    unsafe fn place_of(&self, vertex: u32) -> u32 {
        // SAFETY: the whole warp comes here.
        unsafe { warp::warp_vote_ballot(warp::FULL_MASK, self.vertex == vertex) }.trailing_zeros()
    }

    /// Requests `number` for the places of some lanes, where nobody is at work and whose keys all lanes have read.
    #[inline(always)]
    unsafe fn request(&mut self, is_wanted: bool, number: u32) {
        // SAFETY: places below their number.
        unsafe {
            thread::block_fence();
            if is_wanted {
                self.requests += 1;
                let is_taken = self.vertex == NO_ROW;
                let request = Request { number, count: self.requests, is_taken };
                self.places.request(warp::lane_id()).store_relaxed(request.to_bits());
                self.vertex = number;
            }
        }
    }

    /// The places where nobody is at work.
    #[inline(always)]
    unsafe fn idle(&self) -> u32 {
        let lane = warp::lane_id();
        // SAFETY: the whole warp comes here; places below their number.
        unsafe {
            let is_idle = lane < self.places.len
                && self.places.done(lane).load_relaxed() == self.requests * self.places.workers;
            warp::warp_vote_ballot(warp::FULL_MASK, is_idle)
        }
    }

    /// Waits until what was requested for `place` is done.
    #[inline(always)]
    unsafe fn wait(&self, place: u32) {
        // SAFETY: the whole warp comes here.
        unsafe {
            while self.idle() >> place & 1 == 0 {
                thread::pause();
            }
            thread::block_fence();
            warp::sync_warp(warp::FULL_MASK);
        }
    }

    /// Requests the nearest unvisited vertices that are in no place, for places where nobody is at work and that hold
    /// none of the nearest.
    #[inline(always)]
    unsafe fn look_ahead(&mut self) {
        let (lane, len) = (warp::lane_id(), self.places.len);
        // SAFETY: the whole warp comes here; places below their number, which is below half of the lanes.
        unsafe {
            let idle = self.idle();
            self.list.unvisited(len, self.wanted);
            let wanted = lane.wrapping_sub(HALF);
            let key = if wanted < len { self.wanted.add(wanted).load() } else { NO_KEY };
            let of_key = if key == NO_KEY { NO_ROW } else { id(key) };
            let own = if lane < HALF { self.vertex } else { of_key };
            let alike = warp::warp_match_any(warp::FULL_MASK, own);
            let is_alone = own == NO_ROW || alike & if lane < HALF { !0 << HALF } else { !(!0 << HALF) } == 0;
            let alone = warp::warp_vote_ballot(warp::FULL_MASK, is_alone);
            let missing = warp::warp_vote_ballot(warp::FULL_MASK, is_alone && own != NO_ROW) >> HALF;
            let free = alone & idle;
            let rank = rank_in(free);
            let is_filled = free >> lane & 1 != 0 && rank < missing.count_ones();
            let from = if is_filled { HALF + nth_bit(missing, rank) } else { 0 };
            let vertex = warp::warp_shuffle_idx(warp::FULL_MASK, own, from, WARP).0;
            self.request(is_filled, vertex);
        }
    }

    /// Takes in the keys of a place, and tells the bound. If one of them is nearer than `next`, the nearest unvisited
    /// entry, it is the next vertex, and is requested at once: the list can wait, the workers should not. Should it be
    /// in the list, visited, that was in vain.
    ///
    /// # Safety
    /// [`Self::wait`] has been called for it.
    #[inline(always)]
    unsafe fn take(&mut self, place: u32, next: u64) {
        let lane = warp::lane_id();
        // SAFETY: the whole warp comes here, conditions are the same in all lanes; as many keys as there are links.
        unsafe {
            if lane < self.places.workers {
                self.work.distances += self.places.met(place, lane).load();
            }
            let keys = self.places.keys_of(place);
            let (mut near, mut first, mut own) = (0, 0, NO_KEY);
            while first < self.places.stride {
                let key = keys.add(first + lane).load();
                let is_near = key < self.list.bound();
                own = if is_near { own.min(key) } else { own };
                near += compact(self.near.add(near), key, is_near);
                first += WARP;
            }
            warp::sync_warp(warp::FULL_MASK);
            if lane == place {
                self.vertex = NO_ROW;
            }
            let nearest = warp_min(own);
            if nearest < next && self.place_of(id(nearest)) == NO_PLACE {
                self.request(lane == place, id(nearest));
            }
            first = 0;
            while first < near {
                let key = if first + lane < near { self.near.add(first + lane).load() } else { NO_KEY };
                self.list.offer(key);
                first += WARP;
            }
            if lane == 0 {
                self.places.bound().store_relaxed(self.list.bound());
            }
        }
    }

    /// Lets the workers go, whatever they are at.
    #[inline(always)]
    unsafe fn dismiss(&self) {
        let lane = warp::lane_id();
        if lane < self.places.len {
            let request = Request { number: DISMISSAL, count: self.requests + 1, is_taken: false };
            // SAFETY: places below their number.
            unsafe { self.places.request(lane).store_relaxed(request.to_bits()) };
        }
    }
}

/// The place behind `place` of `len` that are in a round.
#[inline(always)]
fn behind(place: u32, len: u32) -> u32 {
    if place + 1 < len { place + 1 } else { 0 }
}

/// The place of the bit of `bits` before which `n` others are set. There is one.
#[inline(always)]
fn nth_bit(mut bits: u32, n: u32) -> u32 {
    for _ in 0..n {
        bits &= bits - 1;
    }
    bits.trailing_zeros()
}
