//! Beam search by one warp per query: no warp waits for another, only for memory.
//!
//! ```text
//! candidates = start points
//! loop:
//!     drop candidates that the visited cache knows          (push_unvisited)
//!     compute their distances, offer them to the frontier   (score)
//!     vertex = nearest unvisited vertex of the frontier     (expand)
//!     if there is none, or max_hops vertices are visited: stop
//!     mark it visited; candidates = its neighbors
//! write the k nearest
//! ```
//!
//! This is `GreedySearch` of DiskANN. What differs, for speed, and why the results are those of the CPU:
//!
//! 1. *The visited cache is lossy.* An id may be overwritten and scored again. The frontier drops the second copy, because
//!    equal vertices have equal keys. A smaller cache costs distances, never results.
//! 2. *The visited mark is the lowest bit of a key,* so one comparison of 64 bits orders entries, and one finds the
//!    nearest unvisited one. Both copies of a vertex differ in that bit alone, which [`is_same`] ignores.
//! 3. *Entries never leave the frontier but at its end.* The last entry only gets nearer, so a vertex that fell out cannot
//!    come back, and each vertex is expanded at most once.
//! 4. *Start points and neighbors share one loop.* Scoring and merging are most of the code, and exist once.
//! 5. *Batches of 32 are fetched one ahead.* The rows of the next batch are on their way while this one is merged.
//! 6. *Several vertices may be expanded per step* (`expansions`). That visits vertices a sequential search would not:
//!    results of more than one expansion are as good, and not always the same.
//!
//! [`is_same`]: super::frontier::is_same

use cuda_std::prelude::*;

use super::SearchArgs;
use super::frontier::{Frontier, NO_KEY, WARP};
use super::results::{self, SearchCost};
use super::score::Scorer;
use super::shared_layout::{Layout, Needs};
use super::visited::VisitedCache;
use crate::collectives::rank_in;
use crate::graph::NO_ROW;
use crate::neighbor::id;

/// The search for one query, by the warp of this thread. A block may have several warps, each with a query of its own.
///
/// # Safety
/// The arguments are as [`SearchArgs`] says, and the launch is the one planned for them.
#[inline(always)]
pub(super) unsafe fn search<F: Frontier, S: Scorer>(args: SearchArgs, scorer_args: S::Args, needs: Needs) {
    let warp = thread::thread_idx_x() / WARP;
    let query = thread::block_idx_x() * (thread::block_dim_x() / WARP) + warp;
    if query < args.queries_len {
        // SAFETY: the caller's promise; the query is one of them.
        unsafe { search_query::<F, S>(&args, &scorer_args, needs, query) }
    }
}

/// The search for `query`.
///
/// # Safety
/// As for [`search`], and `query` is one of theirs.
#[inline(always)]
unsafe fn search_query<F: Frontier, S: Scorer>(
    args: &SearchArgs,
    scorer_args: &S::Args,
    needs: Needs,
    query: u32,
) {
    let layout = Layout::new(args, needs);
    let warp = thread::thread_idx_x() / WARP;
    let memory = shared::dynamic_shared_mem::<u8>().byte_add(warp * layout.end);
    let part = |at: u32| memory.byte_add(at);
    // SAFETY: the plan gave each warp the memory of its layout; whole warps come to everything.
    unsafe {
        let lane = warp::lane_id();
        let scorer = S::new(args, scorer_args, query, part(layout.query), lane, WARP);
        let visited = VisitedCache::new(part(layout.visited).cast(), args.visited_slots, lane, WARP);
        let mut frontier = F::new(args.beam_width, part(layout.list).cast());
        warp::sync_warp(warp::FULL_MASK);

        let mut candidates = CandidateBuffer { ids: part(layout.ids).cast(), count: 0, visited };
        let mut cost = SearchCost { hops: 0, distances: 0 };
        let mut started = 0;
        loop {
            if started < args.graph.starts_len {
                candidates.push_unvisited(start_point(args, query, started + lane));
                started += WARP;
            } else {
                let hops = candidates.expand(args, query, &mut frontier, cost.hops);
                if hops == 0 {
                    break;
                }
                cost.hops += hops;
            }
            cost.distances += candidates.score(&scorer, &mut frontier);
        }
        frontier.flush();
        results::write(args, query, &frontier, cost);
    }
}

/// Start point number `index` of a query; [`NO_ROW`] past the last.
///
/// # Safety
/// The arguments are valid, and `query` is one of theirs.
#[inline(always)]
unsafe fn start_point(args: &SearchArgs, query: u32, index: u32) -> u32 {
    if index < args.graph.starts_len {
        // SAFETY: one of the start points, whose number the plan has checked.
        unsafe { global::load_readonly(args.graph.starts.at((query * args.starts_stride + index) as usize)) }
    } else {
        NO_ROW
    }
}

/// Ids of vertices that are to be scored.
struct CandidateBuffer {
    ids: Shared<u32>,
    count: u32,
    visited: VisitedCache,
}

impl CandidateBuffer {
    /// Adds the id of each lane, unless it is [`NO_ROW`] or the visited cache knows it. Whole warp.
    #[inline(always)]
    unsafe fn push_unvisited(&mut self, id: u32) {
        // SAFETY: there is room for the neighbors of all vertices that are expanded in one step.
        unsafe {
            let is_new = id != NO_ROW && self.visited.insert(id);
            let lanes = warp::warp_vote_ballot(warp::FULL_MASK, is_new);
            if is_new {
                self.ids.add(self.count + rank_in(lanes)).store(id);
            }
            self.count += lanes.count_ones();
        }
    }

    /// Visits the nearest unvisited vertices and adds their neighbors; returns how many were visited. Whole warp.
    #[inline(always)]
    unsafe fn expand(
        &mut self,
        args: &SearchArgs,
        query: u32,
        frontier: &mut impl Frontier,
        hops: u32,
    ) -> u32 {
        let mut visited = 0;
        while visited < args.expansions.min(args.max_hops - hops) {
            // SAFETY: the whole warp comes here.
            unsafe {
                let nearest = frontier.visit_nearest();
                if nearest == NO_KEY {
                    break;
                }
                results::log_hop(args, query, hops + visited, nearest);
                self.push_neighbors(args, id(nearest));
            }
            visited += 1;
        }
        visited
    }

    /// Adds the neighbors of a vertex, with two loads in flight. Whole warp.
    #[inline(always)]
    unsafe fn push_neighbors(&mut self, args: &SearchArgs, vertex: u32) {
        let links = args.graph.links.add(vertex as usize * args.graph.links_stride as usize);
        let mut first = warp::lane_id();
        while first < args.graph.links_stride {
            // SAFETY: places in the row of this vertex.
            unsafe {
                let one = global::load_readonly(links.at(first as usize));
                let two = if first + WARP < args.graph.links_stride {
                    global::load_readonly(links.at((first + WARP) as usize))
                } else {
                    NO_ROW
                };
                self.push_unvisited(one);
                self.push_unvisited(two);
            }
            first += 2 * WARP;
        }
    }

    /// Scores the candidates, offers them to the frontier and empties the buffer; returns how many there were. Whole warp.
    #[inline(always)]
    unsafe fn score(&mut self, scorer: &impl Scorer, frontier: &mut impl Frontier) -> u32 {
        // SAFETY: candidates are ids of vertices, which all lanes see after the barrier.
        unsafe {
            warp::sync_warp(warp::FULL_MASK);
            let batch = |first: u32| (self.ids.add(first), WARP.min(self.count - first));
            let mut first = 0;
            if self.count > 0 {
                let (ids, count) = batch(0);
                let mut fetched = scorer.fetch(ids, count);
                while first < self.count {
                    let (ids, count) = batch(first);
                    let now = fetched;
                    first += WARP;
                    if first < self.count {
                        let (ids, count) = batch(first);
                        fetched = scorer.fetch(ids, count);
                    }
                    frontier.offer(scorer.keys(now, ids, count));
                }
            }
            warp::sync_warp(warp::FULL_MASK);
        }
        core::mem::take(&mut self.count)
    }
}
