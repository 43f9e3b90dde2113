//! Several warps a query, for batches that leave most of the device idle.
//!
//! The first warp leads: it alone has the frontier. All warps gather and score the neighbours of the nearest unvisited
//! vertices *ahead* of their turn, so that a step costs two trips to memory for several hops. The leader then visits
//! vertices in the order of a single warp, as long as the next one's neighbours are scored: what a search finds is the
//! same, whatever its team.

use cuda_std::prelude::*;

use super::SearchArgs;
use super::answers::{self, Work};
use super::filter::Filter;
use super::frontier::{Frontier, NO_KEY, WARP, lanes_below};
use super::layout::{Layout, Needs};
use super::score::Scorer;
use super::solo::start;
use crate::graph::NO_ROW;
use crate::neighbor::id;

/// One search, by the block that this thread is of.
///
/// # Safety
/// The arguments are what [`SearchArgs`] says, and the launch is the one planned for them.
#[inline(always)]
pub(super) unsafe fn search<F: Frontier, S: Scorer>(args: SearchArgs, needs: Needs) {
    let query = thread::block_idx_x();
    let layout = Layout::new(&args, needs);
    let part = |at: u32| shared::dynamic_shared_mem::<u8>().byte_add(at);
    let (thread, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    // SAFETY: the plan gave the block the memory of its layout; what decides about barriers is the same in all threads.
    unsafe {
        let scorer = S::new(&args, query, part(layout.query), thread, threads);
        let filter = Filter::new(part(layout.filter).cast(), args.filter_slots, thread, threads);
        let ahead = Ahead {
            places: args.expansions,
            stride: args.graph.links_stride,
            ids: part(layout.ids).cast(),
            keys: part(layout.keys).cast(),
            vertices: part(layout.control).cast(),
            filter,
            warp: thread / WARP,
            warps: threads / WARP,
        };
        let mut leader =
            Leader { frontier: F::new(args.beam_width, part(layout.list).cast()), scored: NO_ROW };
        let mut work = Work { hops: 0, distances: 0 };
        let mut started = 0;
        loop {
            let is_start = started < args.graph.starts_len;
            if is_start {
                started = ahead.meet_starts(&args, started);
            } else {
                if ahead.warp == 0 {
                    leader.choose(&ahead, work.hops < args.most_hops);
                }
                thread::sync_threads();
                if ahead.chosen() == NOTHING_LEFT {
                    break;
                }
                ahead.gather(&args);
            }
            thread::sync_threads();
            ahead.score(&scorer);
            thread::sync_threads();
            if ahead.warp == 0 {
                leader.take(&ahead, is_start, (&args, query), &mut work);
            }
            if is_start {
                // The places are filled again by all.
                thread::sync_threads();
            }
        }
        if ahead.warp == 0 {
            answers::write(&args, query, &leader.frontier, work);
        }
    }
}

/// The chosen places when the search is over.
const NOTHING_LEFT: u32 = 0;

/// Places for the neighbours of vertices that are scored ahead of their turn.
struct Ahead {
    /// How many there are.
    places: u32,
    /// Room of each.
    stride: u32,
    /// `[places][stride]`
    ids: Shared<u32>,
    /// `[places][stride]`: their keys.
    keys: Shared<u64>,
    /// `[places]`: the vertex of each. Behind them `[places]`: how many neighbours were met. Behind those a bit for
    /// each place that is to be filled.
    vertices: Shared<u32>,
    filter: Filter,
    /// The number of this warp, and how many there are.
    warp: u32,
    warps: u32,
}

impl Ahead {
    #[inline(always)]
    fn count(&self, place: u32) -> Shared<u32> {
        self.vertices.add(self.places + place)
    }

    #[inline(always)]
    fn chosen_places(&self) -> Shared<u32> {
        self.vertices.add(2 * self.places)
    }

    /// The places to be filled.
    ///
    /// # Safety
    /// A barrier has passed since the leader chose.
    #[inline(always)]
    unsafe fn chosen(&self) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { self.chosen_places().load() }
    }

    /// Takes in the next start points; gives how many were taken in so far. All warps.
    ///
    /// # Safety
    /// Nobody reads or writes the places meanwhile.
    #[inline(always)]
    unsafe fn meet_starts(&self, args: &SearchArgs, started: u32) -> u32 {
        let place = self.warp;
        // SAFETY: each warp fills a place, the leader tells which.
        unsafe {
            let filled = (args.graph.starts_len - started).div_ceil(WARP).min(self.places);
            if place < filled {
                let id = start(args, started + place * WARP + warp::lane_id());
                let lanes = warp::warp_vote_ballot(warp::FULL_MASK, id != NO_ROW);
                if id != NO_ROW {
                    self.ids.add(place * self.stride + warp::lane_id()).store(id);
                }
                if warp::lane_id() == 0 {
                    self.count(place).store(lanes.count_ones());
                }
            }
            if thread::thread_idx_x() == 0 {
                self.chosen_places().store((1 << filled) - 1);
            }
            started + filled * WARP
        }
    }

    /// Takes in the neighbours of the chosen vertices that the filter misses: a warp takes 32 links at a time.
    ///
    /// # Safety
    /// All warps; a barrier has passed since the leader chose.
    #[inline(always)]
    unsafe fn gather(&self, args: &SearchArgs) {
        // SAFETY: links of vertices, room for all of them in their place.
        unsafe {
            let chosen = self.chosen();
            let pieces = self.stride / WARP;
            let mut task = self.warp;
            while task < chosen.count_ones() * pieces {
                let place = nth_bit(chosen, task / pieces);
                let link = task % pieces * WARP + warp::lane_id();
                let vertex = self.vertices.add(place).load();
                let links = args.graph.links.from(vertex as usize * self.stride as usize);
                let id = global::load_readonly(links.at(link as usize));
                let is_new = id != NO_ROW && self.filter.misses(id);
                let lanes = warp::warp_vote_ballot(warp::FULL_MASK, is_new);
                let first =
                    if warp::lane_id() == 0 { self.count(place).atomic_add(lanes.count_ones()) } else { 0 };
                let first = warp::warp_shuffle_idx(warp::FULL_MASK, first, 0, WARP).0;
                if is_new {
                    let at = place * self.stride + first + (lanes & lanes_below()).count_ones();
                    self.ids.add(at).store(id);
                }
                task += self.warps;
            }
        }
    }

    /// Scores what the chosen places hold: as many warps a place as there are for each.
    ///
    /// # Safety
    /// All warps; a barrier has passed since the places were filled.
    #[inline(always)]
    unsafe fn score<S: Scorer>(&self, scorer: &S) {
        // SAFETY: ids of vertices; each part of a place is one warp's.
        unsafe {
            let chosen = self.chosen();
            let parts = (self.warps / chosen.count_ones()).max(1);
            let mut task = self.warp;
            while task < chosen.count_ones() * parts {
                let place = nth_bit(chosen, task / parts);
                let count = self.count(place).load();
                // Whole groups of rows that are scored together.
                let share = count.div_ceil(parts).next_multiple_of(S::TOGETHER);
                let mut from = task % parts * share;
                let to = count.min(from + share);
                while from < to {
                    let at = place * self.stride + from;
                    let key = scorer.keys(self.ids.add(at), WARP.min(to - from));
                    let lanes = warp::warp_vote_ballot(warp::FULL_MASK, key != NO_KEY);
                    if key != NO_KEY {
                        self.keys.add(at + (lanes & lanes_below()).count_ones()).store(key);
                    }
                    from += WARP;
                }
                task += self.warps;
            }
        }
    }
}

/// What the first warp has.
struct Leader<F> {
    frontier: F,
    /// Lane `p`: the vertex whose neighbours place `p` holds, scored, and which is not visited; [`NO_ROW`] for none.
    scored: u32,
}

impl<F: Frontier> Leader<F> {
    /// Chooses what to score ahead: the nearest unvisited vertices, as many as there are places, but for those that
    /// are scored.
    ///
    /// # Safety
    /// Whole warp; nobody reads or writes the places meanwhile.
    #[inline(always)]
    unsafe fn choose(&mut self, ahead: &Ahead, goes_on: bool) {
        let lane = warp::lane_id();
        // SAFETY: the whole warp comes here; places below their number.
        unsafe {
            let key = self.frontier.unvisited(if goes_on { ahead.places } else { 0 });
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
                ahead.vertices.add(lane).store(vertex);
                ahead.count(lane).store(0);
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
    /// Whole warp; a barrier has passed since they were scored.
    #[inline(always)]
    unsafe fn take(
        &mut self,
        ahead: &Ahead,
        are_starts: bool,
        (args, query): (&SearchArgs, u32),
        work: &mut Work,
    ) {
        // SAFETY: the whole warp comes here; as many keys as a place counts; the filter is the leader's until the next
        // barrier.
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
                let count = ahead.count(place).load();
                let mut first = 0;
                while first < count {
                    let at = first + warp::lane_id();
                    let key =
                        if at < count { ahead.keys.add(place * ahead.stride + at).load() } else { NO_KEY };
                    if key != NO_KEY {
                        ahead.filter.insert(id(key));
                    }
                    self.frontier.offer(key);
                    first += WARP;
                }
                work.distances += count;
            }
            // It writes next what its lanes have read.
            warp::sync_warp(warp::FULL_MASK);
        }
    }

    /// Visits the nearest unvisited vertex, if its neighbours are scored, and tells `log` its key: the place that holds
    /// them, else [`NO_PLACE`].
    ///
    /// # Safety
    /// Whole warp.
    #[inline(always)]
    unsafe fn visit(&mut self, log: impl Fn(u64)) -> u32 {
        // SAFETY: the whole warp comes here.
        unsafe {
            let nearest = warp::warp_shuffle_idx(warp::FULL_MASK, self.frontier.unvisited(1), 0, WARP).0;
            let has_it = nearest != NO_KEY && self.scored == id(nearest);
            let lanes = warp::warp_vote_ballot(warp::FULL_MASK, has_it);
            if has_it {
                self.scored = NO_ROW;
            }
            if lanes != 0 {
                log(self.frontier.pick());
            }
            lanes.trailing_zeros()
        }
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
