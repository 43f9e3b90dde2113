//! The warp of a team that has the frontier: what is scored ahead, and what is visited next.

use cuda_std::prelude::*;

use super::super::SearchArgs;
use super::super::answers::{self, Work};
use super::super::frontier::{Frontier, NO_KEY, WARP, lanes_below};
use super::ahead::Ahead;
use super::key_at;
use crate::graph::NO_ROW;
use crate::neighbor::id;

/// What the first warp has.
pub(super) struct Leader<F> {
    frontier: F,
    /// Lane `p`: the vertex whose neighbours place `p` holds, scored, and which is not visited; [`NO_ROW`] for none.
    scored: u32,
}

impl<F: Frontier> Leader<F> {
    /// One that nothing is scored for.
    #[inline(always)]
    pub(super) fn new(frontier: F) -> Self {
        Self { frontier, scored: NO_ROW }
    }

    #[inline(always)]
    pub(super) fn frontier(&self) -> &F {
        &self.frontier
    }

    /// Chooses what to score ahead: the nearest unvisited vertices, as many as there are places, but for those that
    /// are scored.
    ///
    /// # Safety
    /// Whole warp; nobody reads or writes the places meanwhile.
    #[inline(always)]
    pub(super) unsafe fn choose(&mut self, ahead: &Ahead, goes_on: bool) {
        let lane = warp::lane_id();
        // SAFETY: the whole warp comes here; places below their number.
        unsafe {
            let most = if goes_on { ahead.places } else { 0 };
            self.frontier.unvisited(most, ahead.wanted);
            let key = key_at(ahead.wanted, lane, most);
            let wanted = if key == NO_KEY { NO_ROW } else { id(key) };
            let (mut is_scored, mut is_kept) = (false, false);
            for other in 0..ahead.places {
                is_scored |= warp::warp_shuffle_idx(warp::FULL_MASK, self.scored, other, WARP).0 == wanted;
                is_kept |= warp::warp_shuffle_idx(warp::FULL_MASK, wanted, other, WARP).0 == self.scored;
            }
            let missing = warp::warp_vote_ballot(warp::FULL_MASK, wanted != NO_ROW && !is_scored);
            let is_free = lane < ahead.places && !(is_kept && self.scored != NO_ROW);
            let free = warp::warp_vote_ballot(warp::FULL_MASK, is_free);
            let rank = (free & lanes_below()).count_ones();
            let is_filled = is_free && rank < missing.count_ones();
            let from = if is_filled { nth_bit(missing, rank) } else { 0 };
            let vertex = warp::warp_shuffle_idx(warp::FULL_MASK, wanted, from, WARP).0;
            if is_filled {
                self.scored = vertex;
                ahead.vertex(lane).store(vertex);
            }
            let chosen = warp::warp_vote_ballot(warp::FULL_MASK, is_filled);
            if lane == 0 {
                ahead.chosen_places().store(chosen);
            }
        }
    }

    /// Takes in the keys of all places, if they are those of start points; else visits vertices in their order while
    /// the next one's neighbours are scored, and takes in those.
    ///
    /// # Safety
    /// Whole warp; a barrier has passed since they were sorted, and nobody uses the filter until the next.
    #[inline(always)]
    pub(super) unsafe fn take(
        &mut self,
        ahead: &Ahead,
        are_starts: bool,
        (args, query): (&SearchArgs, u32),
        work: &mut Work,
    ) {
        let lane = warp::lane_id();
        // SAFETY: the whole warp comes here; as many keys and ids as a place counts.
        unsafe {
            let mut starts = if are_starts { ahead.chosen() } else { 0 };
            while starts != 0 || !are_starts && work.hops < args.most_hops {
                let place = if are_starts {
                    starts.trailing_zeros()
                } else {
                    self.visit(|key| answers::log(args, query, work.hops, key))
                };
                if place == NO_PLACE {
                    break;
                }
                starts &= starts.wrapping_sub(1);
                work.hops += u32::from(!are_starts);
                let (met, near) = (ahead.met(place).load(), ahead.near(place).load());
                let mut first = 0;
                while first < near {
                    self.frontier.offer_sorted(ahead.news(place, first));
                    first += WARP;
                }
                let mut far = lane;
                while far < met - near {
                    ahead.filter.insert(ahead.ids_of(place).add(far).load());
                    far += WARP;
                }
                work.distances += met;
            }
            if lane == 0 {
                ahead.bound().store(self.frontier.bound());
            }
        }
    }

    /// Visits the nearest unvisited vertex, if its neighbours are scored, and tells `log` its key: the place that holds
    /// them, else [`NO_PLACE`].
    ///
    /// # Safety
    /// Whole warp.
    #[inline(always)]
    unsafe fn visit(&mut self, log: impl Fn(u64)) -> u32 {
        let (scored, mut place) = (self.scored, NO_PLACE);
        // SAFETY: the whole warp comes here.
        unsafe {
            let key = self.frontier.pick_if(|nearest| {
                let lanes = warp::warp_vote_ballot(warp::FULL_MASK, scored == id(nearest));
                place = lanes.trailing_zeros();
                place != NO_PLACE
            });
            if place != NO_PLACE {
                log(key);
            }
        }
        if warp::lane_id() == place {
            self.scored = NO_ROW;
        }
        place
    }
}

/// The place of a vertex that has none.
const NO_PLACE: u32 = 0_u32.trailing_zeros();

/// The place of the bit of `bits` before which `n` others are set. There is one.
#[inline(always)]
fn nth_bit(mut bits: u32, n: u32) -> u32 {
    for _ in 0..n {
        bits &= bits - 1;
    }
    bits.trailing_zeros()
}
