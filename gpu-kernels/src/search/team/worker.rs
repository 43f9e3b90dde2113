//! The warps of a team that gather and score, each its part of the neighbours of the vertices of one place.

use cuda_std::prelude::*;

use super::super::SearchArgs;
use super::super::filter::Filter;
use super::super::frontier::{NO_KEY, WARP};
use super::super::layout::Layout;
use super::super::score::Scorer;
use super::places::{DISMISSAL, Places, Request};
use crate::DevicePtr;
use crate::collectives::{compact, warp_stride};
use crate::graph::NO_ROW;
use crate::neighbor::id;

/// Links that one line of the cache holds.
const LINKS_A_LINE: u32 = 32;

/// One of these warps.
pub(super) struct Worker {
    places: Places,
    filter: Filter,
    place: u32,
    /// Which of the workers of the place.
    number: u32,
    /// How many of the links are this worker's.
    len: u32,
    /// `[len]`: neighbours that are met.
    ids: Shared<u32>,
    /// `[len]`: keys of those that are near enough.
    keys: Shared<u64>,
}

/// Where what a request asks for lies. Workers take every so many of them: rows of links end early.
#[derive(Clone, Copy)]
struct Links {
    from: DevicePtr<u32>,
    len: u32,
}

impl Worker {
    /// Worker `number` of all of the team. Who is left over has a place that there is not.
    #[inline(always)]
    pub(super) fn new(layout: &Layout, places: Places, filter: Filter, number: u32) -> Self {
        let ids = shared::dynamic_shared_mem::<u8>().byte_add(layout.ids).cast::<u32>();
        let (place, number) = (number / places.workers, number % places.workers);
        let (share, rest) = (places.stride / places.workers, places.stride % places.workers);
        let first = number * share + number.min(rest);
        Self {
            places,
            filter,
            place,
            number,
            len: share + u32::from(number < rest),
            ids: ids.add(place * places.stride + first),
            keys: places.keys_of(place).add(first),
        }
    }

    /// Does what is requested, until nothing more is.
    ///
    /// # Safety
    /// Whole warp; a barrier has passed since the places were cleared, the query was read and the filter emptied. The
    /// arguments are what they say, and `query` is one of theirs.
    #[inline(always)]
    pub(super) unsafe fn serve<S: Scorer>(&self, args: &SearchArgs, query: u32, scorer: &S) {
        if self.place >= self.places.len {
            return;
        }
        let batches = self.places.batches(args);
        let (mut last, mut met) = (0, 0);
        // SAFETY: the whole warp comes here, conditions are the same in all lanes; the memory is this worker's, from a
        // request until it is done.
        unsafe {
            loop {
                last = self.next(last);
                let request = Request::from_bits(last);
                if request.number == DISMISSAL {
                    return;
                }
                // The first requests of each place are for start points, of which the batches go round.
                let is_start = self.place + (request.count - 1) * self.places.len < batches;
                let links = self.links(args, query, request.number, is_start);
                met = self.gather(links, if request.is_taken { met } else { 0 });
                self.score(args, scorer, met);
                if warp::lane_id() == 0 {
                    self.places.met(self.place, self.number).store(met);
                }
                warp::sync_warp(warp::FULL_MASK);
                if warp::lane_id() == 0 {
                    thread::block_fence();
                    self.places.done(self.place).atomic_add(1);
                }
            }
        }
    }

    /// Waits for the request behind `last`, which one lane tells the others: a dismissal may come right behind it.
    ///
    /// # Safety
    /// Whole warp.
    #[inline(always)]
    unsafe fn next(&self, last: u64) -> u64 {
        let mut word = last;
        // SAFETY: the whole warp comes here, and goes on together.
        unsafe {
            // One lane looks: many warps may wait, and who works needs shared memory as well.
            while !warp::warp_vote_any(warp::FULL_MASK, word != last) {
                thread::pause();
                if warp::lane_id() == 0 {
                    word = self.places.request(self.place).load_relaxed();
                }
            }
            // The leader has read what this worker overwrites, once its lanes have met.
            thread::block_fence();
            warp::warp_shuffle_idx(warp::FULL_MASK, word, 0, WARP).0
        }
    }

    /// Where the links of a vertex lie, or a batch of start points.
    #[inline(always)]
    fn links(&self, args: &SearchArgs, query: u32, number: u32, is_start: bool) -> Links {
        let (graph, stride) = (&args.graph, self.places.stride);
        if is_start {
            let before = number * stride;
            let from = graph.starts.add((query * args.starts_stride + before) as usize);
            Links { from, len: stride.min(graph.starts_len - before) }
        } else {
            Links { from: graph.links.add(number as usize * stride as usize), len: stride }
        }
    }

    /// Takes in what the filter misses, and gives how many these are; while their links are on their way, the filter is
    /// told of the first `known` met before. Only then anything is overwritten.
    ///
    /// # Safety
    /// Whole warp. Links of this search, and room for all of them.
    #[inline(always)]
    unsafe fn gather(&self, links: Links, known: u32) -> u32 {
        let lane = warp::lane_id();
        // SAFETY: the whole warp comes here; places below their number.
        unsafe {
            let load = |at: u32| {
                let link = at * self.places.workers + self.number;
                if link < links.len { global::load_readonly(links.from.at(link as usize)) } else { NO_ROW }
            };
            let mut next = (load(lane), load(lane + WARP));
            warp_stride(known, |at| {
                self.filter.insert(self.ids.add(at).load());
            });
            warp::sync_warp(warp::FULL_MASK);

            let mut met = 0;
            let mut meet = |id| {
                let is_new = id != NO_ROW && self.filter.misses(id);
                met += compact(self.ids.add(met), id, is_new);
            };
            let mut first = 0;
            while first < self.len {
                let (one, two) = next;
                first += 2 * WARP;
                if first < self.len {
                    next = (load(first + lane), load(first + lane + WARP));
                }
                meet(one);
                meet(two);
            }
            warp::sync_warp(warp::FULL_MASK);
            met
        }
    }

    /// Scores the first `met` ids, and keeps the keys below the bound; brings near the links of these, of which the
    /// leader may choose one next.
    ///
    /// # Safety
    /// Whole warp. The ids name rows.
    #[inline(always)]
    unsafe fn score<S: Scorer>(&self, args: &SearchArgs, scorer: &S, met: u32) {
        // SAFETY: the whole warp comes here; no more are near than are met.
        unsafe {
            let bound = self.places.bound().load_relaxed();
            let (mut near, mut first) = (0, 0);
            while first < met {
                let (ids, count) = (self.ids.add(first), WARP.min(met - first));
                scorer.bring_near(ids, count);
                let key = scorer.keys(scorer.fetch(ids, count), ids, count);
                near += compact(self.keys.add(near), key, key < bound);
                if key < bound {
                    let links = args.graph.links.add(id(key) as usize * self.places.stride as usize);
                    let mut line = 0;
                    while line < self.places.stride {
                        global::prefetch_l2(links.at(line as usize));
                        line += LINKS_A_LINE;
                    }
                }
                first += WARP;
            }
            let mut behind = near + warp::lane_id();
            while behind < self.len {
                self.keys.add(behind).store(NO_KEY);
                behind += WARP;
            }
        }
    }
}
