//! The warp of a team that has the frontier: what is requested, and what is visited next.

use cuda_std::prelude::*;

use super::super::SearchArgs;
use super::super::answers::{self, Work};
use super::super::frontier::{Frontier, NO_KEY, WARP, lanes_below};
use super::super::layout::Layout;
use super::super::list::List;
use super::append;
use super::places::{DISMISSAL, Places, Request};
use crate::graph::NO_ROW;
use crate::neighbor::id;

/// The place of a vertex that has none.
const NO_PLACE: u32 = 0_u32.trailing_zeros();
/// Lanes that stand for places; the others stand for vertices that are wanted there.
const HALF: u32 = WARP / 2;

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
            self.begin(args);
            // A place that holds nothing, and where nobody is at work.
            let mut empty = 0;
            while self.work.hops < args.most_hops {
                let nearest = self.list.nearest();
                if nearest == NO_KEY {
                    break;
                }
                let mut place = self.place_of(id(nearest));
                if place == NO_PLACE {
                    place = empty;
                    self.request(warp::lane_id() == place, id(nearest));
                }
                self.look_ahead();
                self.wait(place);
                self.list.visit_nearest();
                answers::log(args, query, self.work.hops, nearest);
                self.work.hops += 1;
                self.take(place);
                empty = place;
            }
            self.dismiss();
            let distances = warp::warp_reduce_add(warp::FULL_MASK, self.work.distances);
            answers::write(args, query, &self.list, Work { distances, ..self.work });
        }
    }

    /// Takes in all start points, by batches that go round the places.
    #[inline(always)]
    unsafe fn begin(&mut self, args: &SearchArgs) {
        let batches = self.places.batches(args);
        let (mut requested, mut taken) = (0, 0);
        let (mut next, mut oldest) = (0, 0);
        let len = self.places.len;
        let behind = |place: u32| if place + 1 < len { place + 1 } else { 0 };
        while taken < batches {
            // SAFETY: the whole warp comes here, conditions are the same in all lanes; the next place is empty.
            unsafe {
                if requested < batches && requested - taken < len {
                    self.request(warp::lane_id() == next, requested);
                    self.vertex = NO_ROW;
                    next = behind(next);
                    requested += 1;
                } else {
                    self.wait(oldest);
                    self.take(oldest);
                    oldest = behind(oldest);
                    taken += 1;
                }
            }
        }
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
            let rank = (free & lanes_below()).count_ones();
            let is_filled = free >> lane & 1 != 0 && rank < missing.count_ones();
            let from = if is_filled { HALF + nth_bit(missing, rank) } else { 0 };
            let vertex = warp::warp_shuffle_idx(warp::FULL_MASK, own, from, WARP).0;
            self.request(is_filled, vertex);
        }
    }

    /// Takes in the keys of a place, which is empty then, and tells the bound.
    ///
    /// # Safety
    /// [`Self::wait`] has been called for it.
    #[inline(always)]
    unsafe fn take(&mut self, place: u32) {
        let lane = warp::lane_id();
        // SAFETY: the whole warp comes here, conditions are the same in all lanes; as many keys as there are links.
        unsafe {
            if lane < self.places.workers {
                self.work.distances += self.places.met(place, lane).load();
            }
            let keys = self.places.keys_of(place);
            let (mut near, mut first) = (0, 0);
            while first < self.places.stride {
                let key = keys.add(first + lane).load();
                near += append(self.near.add(near), key, key < self.list.bound());
                first += WARP;
            }
            warp::sync_warp(warp::FULL_MASK);
            first = 0;
            while first < near {
                let key = if first + lane < near { self.near.add(first + lane).load() } else { NO_KEY };
                self.list.offer(key);
                first += WARP;
            }
            if lane == 0 {
                self.places.bound().store_relaxed(self.list.bound());
            }
            if lane == place {
                self.vertex = NO_ROW;
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

/// The place of the bit of `bits` before which `n` others are set. There is one.
#[inline(always)]
fn nth_bit(mut bits: u32, n: u32) -> u32 {
    for _ in 0..n {
        bits &= bits - 1;
    }
    bits.trailing_zeros()
}
