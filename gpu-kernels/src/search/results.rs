//! The output of a search: results, candidates to rerank, and cost.

use cuda_std::prelude::*;

use super::frontier::{Frontier, NO_KEY, WARP};
use super::{NO_ANSWER, SearchArgs};
use crate::collectives::rank_in;
use crate::graph::NO_ROW;
use crate::neighbor::{distance, id};

/// The cost of a search so far.
#[derive(Clone, Copy)]
pub(super) struct SearchCost {
    /// Vertices visited.
    pub(super) hops: u32,
    /// Distances computed.
    pub(super) distances: u32,
}

/// Logs that `key` is vertex number `hop` that its query visits. Whole warp.
///
/// # Safety
/// The arguments are valid, `query` is one of theirs, and `hop` is below `max_hops`.
#[inline(always)]
pub(super) unsafe fn log_hop(args: &SearchArgs, query: u32, hop: u32, key: u64) {
    if !args.log.is_null() && warp::lane_id() == 0 {
        let at = query as usize * args.max_hops as usize + hop as usize;
        // SAFETY: a place of this query.
        unsafe { global::store(args.log.at(at), key) };
    }
}

/// Writes the candidates, then the first `k` entries after them that pass the filter, then those of `rest`, and the cost.
/// Whole warp.
///
/// # Safety
/// The arguments are valid, `query` is one of theirs, and the frontier is flushed.
#[inline(always)]
pub(super) unsafe fn write(args: &SearchArgs, query: u32, frontier: &impl Frontier, cost: SearchCost) {
    let lane = warp::lane_id();
    let answers = args.answers.add(query as usize * args.k as usize);
    let candidates = args.candidates.add(query as usize * args.candidates_len as usize);
    let (mut first, mut found) = (0, 0);
    // SAFETY: candidates of this query below their number, answers below k; keys are of vertices, and so below the slots.
    unsafe {
        while first < args.beam_width && (found < args.k || first < args.candidates_len) {
            let entry = frontier.entry(first + lane);
            let is_candidate = first + lane < args.candidates_len;
            if is_candidate {
                let slot = if entry == NO_KEY { NO_ROW } else { id(entry) };
                global::store(candidates.at((first + lane) as usize), slot);
            }
            let is_answer = !is_candidate && entry != NO_KEY && is_allowed(args, id(entry));
            let lanes = warp::warp_vote_ballot(warp::FULL_MASK, is_answer);
            let place = found + rank_in(lanes);
            if is_answer && place < args.k {
                let key = global::load_readonly(args.graph.keys.at(id(entry) as usize));
                let answer = [key as u32, (key >> 32) as u32, distance(entry).to_bits(), id(entry)];
                global::store(answers.at(place as usize), answer);
            }
            found += lanes.count_ones();
            first += WARP;
        }
        let rest = args.rest.add(query as usize * args.k as usize);
        let mut place = found + lane;
        while place < args.k {
            let answer = if args.rest.is_null() {
                NO_ANSWER
            } else {
                global::load_readonly(rest.at((place - found) as usize))
            };
            global::store(answers.at(place as usize), answer);
            place += WARP;
        }
        if lane < 2 {
            let value = if lane == 0 { cost.hops } else { cost.distances };
            global::store(args.work.at(query as usize * 2 + lane as usize), value);
        }
    }
}

/// Whether a vertex may be an answer.
///
/// # Safety
/// The arguments are valid, and the vertex is one of the graph.
#[inline(always)]
unsafe fn is_allowed(args: &SearchArgs, vertex: u32) -> bool {
    if args.allowed.is_null() {
        return true;
    }
    // SAFETY: one bit per slot.
    let word = unsafe { global::load_readonly(args.allowed.at(vertex as usize / 32)) };
    word >> (vertex % 32) & 1 != 0
}
