//! The output of a search: results, candidates for a second launch, and cost.

use cuda_std::prelude::*;

use super::frontier::Frontier;
use super::{DeviceHit, NO_HIT, SearchArgs};
use crate::WARP_SIZE;
use crate::collectives::rank_in;
use crate::graph::NO_SLOT;
use crate::neighbor::{self, NO_ENTRY};

/// The cost of a search so far.
#[derive(Clone, Copy)]
pub(super) struct SearchCost {
    /// Vertices expanded.
    pub(super) hops: u32,
    /// Distances computed.
    pub(super) distances: u32,
}

/// Stores the entry of the `hop`-th vertex that a query expands. Called by the whole warp.
///
/// # Safety
/// The arguments are valid, `query` is below `queries_len`, and `hop` is below `max_hops`.
pub(super) unsafe fn record_expanded(args: &SearchArgs, query: u32, hop: u32, entry: u64) {
    if !args.beam.expanded_entries.is_null() && warp::lane_id() == 0 {
        let at = query as usize * args.beam.max_hops as usize + hop as usize;
        // SAFETY: the place is one of this query.
        unsafe { global::store(args.beam.expanded_entries.at(at), entry) };
    }
}

/// Writes the candidates, the results (the first `k` entries after the candidates that pass the filter, then estimated
/// hits), and the costs. Called by the whole warp.
///
/// # Safety
/// The arguments are valid, `query` is below `queries_len`, and the frontier is flushed.
pub(super) unsafe fn write(args: &SearchArgs, query: u32, frontier: &impl Frontier, cost: SearchCost) {
    let lane = warp::lane_id();
    let results = args.results.add(query as usize * args.k as usize).cast::<[u32; 4]>();
    let candidates = args.candidates.slots.add(query as usize * args.candidates.len as usize);
    let (mut first, mut found, of_query) = (0, 0, query / args.start.parts);
    // SAFETY: indices of candidates are below their number, indices of results below k; entries name vertices, which
    // are below the number of slots.
    unsafe {
        while first < args.beam.frontier_len && (found < args.k || first < args.candidates.len) {
            let entry = frontier.entry(first + lane);
            let is_candidate = first + lane < args.candidates.len;
            if is_candidate {
                let slot = if entry == NO_ENTRY { NO_SLOT } else { neighbor::slot(entry) };
                global::store(candidates.at((first + lane) as usize), slot);
            }
            let is_result =
                !is_candidate && entry != NO_ENTRY && args.filter.allows(of_query, neighbor::slot(entry));
            let lanes = warp::ballot(is_result);
            let place = found + rank_in(lanes);
            if is_result && place < args.k {
                let slot = neighbor::slot(entry);
                let key = global::load_readonly(args.graph.keys.at(slot as usize));
                let hit = DeviceHit { key, distance: neighbor::distance(entry), slot };
                global::store(results.at(place as usize), hit.to_words());
            }
            found += lanes.count_ones();
            first += WARP_SIZE;
        }
        let estimated_hits =
            args.candidates.estimated_hits.add(query as usize * args.k as usize).cast::<[u32; 4]>();
        let mut place = found + lane;
        while place < args.k {
            let hit = if args.candidates.estimated_hits.is_null() {
                NO_HIT.to_words()
            } else {
                global::load_readonly(estimated_hits.at((place - found) as usize))
            };
            global::store(results.at(place as usize), hit);
            place += WARP_SIZE;
        }
        if lane < 2 && !args.costs.is_null() {
            let value = if lane == 0 { cost.hops } else { args.start.distances_so_far + cost.distances };
            global::store(args.costs.at(query as usize * 2 + lane as usize), value);
        }
    }
}
