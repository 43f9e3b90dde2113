//! Beam search by one warp per query. A warp never waits for another, only for memory.
//!
//! ```text
//! unvisited = start points                              (start_point)
//! loop:
//!     drop vertices that the visited cache knows            (push_unvisited)
//!     compute their distances, offer them to the frontier   (compute_distances)
//!     vertex = nearest unexpanded vertex of the beam        (expand)
//!     if there is none, or max_hops vertices are expanded: stop
//!     mark it expanded; unvisited = its neighbors
//! write the k nearest                                       (results)
//! ```
//!
//! This is `GreedySearch` of DiskANN. What differs, for speed, and why the results are those of the CPU:
//!
//! 1. *An entry is one integer of 64 bits:* the distance in the upper half, then the slot, and in the lowest bit
//!    whether the vertex is unexpanded. One comparison orders two entries.
//! 2. *The visited cache is lossy.* It may forget a slot, whose distance is then computed again. The frontier drops the
//!    second entry of the vertex, which differs from the first in the lowest bit at most ([`is_same_vertex`]). With a
//!    smaller cache more distances are computed, but results do not change.
//! 3. *Entries leave the frontier only at its end.* The last entry only gets nearer, so a vertex that fell out
//!    cannot come back, and each vertex is expanded at most once.
//! 4. *Start points and neighbors share one loop.* Computing distances and merging are most of the code, and exist
//!    once.
//! 5. *Codes are fetched ahead* if each lane reads a code: the next 32 are loaded while the distances of 32 are merged.
//! 6. *Several vertices may be expanded per iteration* (`expansions`). This expands some vertices that a sequential
//!    search would not. Results with more than one expansion are as good, but not always the same.
//!
//! [`is_same_vertex`]: super::frontier::is_same_vertex

use cuda_std::constant::opaque;
use cuda_std::prelude::*;

use super::SearchArgs;
use super::distances::DistanceComputer;
use super::frontier::Frontier;
use super::results::{self, SearchCost};
use super::shared_layout::{Layout, LayoutParams};
use super::visited::VisitedCache;
use crate::WARP_SIZE;
use crate::collectives::pack_lanes;
use crate::graph::NO_SLOT;
use crate::neighbor::{self, NO_ENTRY};

/// The search for one query, by the block of this thread, which has one warp.
///
/// # Safety
/// The arguments are as [`SearchArgs`] says, and the launch is that of the kernel's `launch_config` for them.
#[inline(always)]
pub(super) unsafe fn search<F: Frontier, S: DistanceComputer>(kernel_args: S::Args) {
    let (args, query) = (kernel_args.as_ref(), thread::block_idx_x());
    let query_bytes = S::query_bytes(&kernel_args);
    let params = LayoutParams { query_bytes, has_list: F::IN_SHARED_MEMORY, is_team: false };
    let layout = Layout::new(args, params);
    // SAFETY: the launch configuration gave the block the memory of its layout; the warp is converged at every
    // collective.
    unsafe {
        let lane = warp::lane_id();
        let computer = S::new(&kernel_args, query, Layout::memory_at(layout.query), lane, WARP_SIZE);
        let visited =
            VisitedCache::new(Layout::memory_at(layout.visited), args.beam.visited_buckets, lane, WARP_SIZE);
        let mut frontier = F::new(args.beam.frontier_len, args.beam.width, Layout::memory_at(layout.list));
        warp::sync_warp();

        let mut unvisited = UnvisitedBuffer { slots: Layout::memory_at(layout.slots), count: 0, visited };
        let mut distances = 0;
        // Below 0, the warps of start points that are left, negated; then the vertices expanded. One register is enough
        // for both.
        let mut progress = -(args.start_points_len(query).div_ceil(WARP_SIZE) as i32);
        loop {
            if progress < 0 {
                // Few of a list may be results: enough for all lanes are gathered.
                let room = args.graph.edges_stride - WARP_SIZE;
                while progress < 0 && unvisited.count <= room {
                    // What follows from the query would stay in registers throughout the search.
                    let query = opaque(query);
                    let warps = args.start_points_len(query).div_ceil(WARP_SIZE);
                    let index = warps.wrapping_add_signed(progress) * WARP_SIZE + lane;
                    unvisited.push_unvisited(args, args.start_point(query, index));
                    progress += 1;
                }
            } else {
                let hops = unvisited.expand(args, query, &mut frontier, progress as u32);
                if hops == 0 {
                    break;
                }
                progress += hops as i32;
            }
            distances += unvisited.compute_distances(&computer, &mut frontier);
        }
        frontier.flush();
        results::write(args, query, &frontier, SearchCost { hops: progress as u32, distances });
    }
}

/// A buffer of the slots of vertices whose distances are to be computed.
struct UnvisitedBuffer {
    slots: Shared<u32>,
    count: u32,
    visited: VisitedCache,
}

impl UnvisitedBuffer {
    /// Adds the slot of each lane, unless it is [`NO_SLOT`], past the tables or in the visited cache. Called by the
    /// whole warp.
    unsafe fn push_unvisited(&mut self, args: &SearchArgs, slot: u32) {
        // SAFETY: there is room for the neighbors of all vertices that are expanded at once.
        unsafe {
            let is_new = slot < args.graph.capacity && self.visited.insert(slot);
            self.count += pack_lanes(self.slots.add(self.count), slot, is_new);
        }
    }

    /// Expands the nearest unexpanded vertices: adds their neighbors. Returns how many were expanded. Called by the
    /// whole warp.
    unsafe fn expand(
        &mut self,
        args: &SearchArgs,
        query: u32,
        frontier: &mut impl Frontier,
        hops: u32,
    ) -> u32 {
        let mut expanded = 0;
        while expanded < args.beam.expansions.min(args.beam.max_hops - hops) {
            // SAFETY: the warp is converged here.
            unsafe {
                let nearest = frontier.take_nearest();
                if nearest == NO_ENTRY {
                    break;
                }
                results::record_expanded(args, query, hops + expanded, nearest);
                self.push_neighbors(args, neighbor::slot(nearest));
            }
            expanded += 1;
        }
        expanded
    }

    /// Adds the neighbors of a vertex, with two loads in flight. Called by the whole warp.
    unsafe fn push_neighbors(&mut self, args: &SearchArgs, vertex: u32) {
        let edges = args.graph.edges.add(vertex as usize * args.graph.edges_stride as usize);
        let mut first = warp::lane_id();
        while first < args.graph.edges_stride {
            // SAFETY: the indices are within the row of this vertex, which is written by relaxed stores.
            unsafe {
                let one = global::load_relaxed(edges.at(first as usize));
                let two = if first + WARP_SIZE < args.graph.edges_stride {
                    global::load_relaxed(edges.at((first + WARP_SIZE) as usize))
                } else {
                    NO_SLOT
                };
                self.push_unvisited(args, one);
                self.push_unvisited(args, two);
            }
            first += 2 * WARP_SIZE;
        }
    }

    /// Computes the distances of the unvisited neighbors, offers them to the frontier and empties the buffer; returns
    /// how many there were. Called by the whole warp.
    #[inline(always)]
    unsafe fn compute_distances(
        &mut self,
        computer: &impl DistanceComputer,
        frontier: &mut impl Frontier,
    ) -> u32 {
        // SAFETY: the buffer holds slots of vertices, which all lanes see after the barrier.
        unsafe {
            warp::sync_warp();
            // The slots from `first` on, at most one per lane.
            let slots_from = |first: u32| (self.slots.add(first), WARP_SIZE.min(self.count - first));
            let mut first = 0;
            if self.count > 0 {
                let (slots, count) = slots_from(0);
                let mut fetched = computer.fetch(slots, count);
                while first < self.count {
                    let (slots, count) = slots_from(first);
                    let now = fetched;
                    first += WARP_SIZE;
                    if first < self.count {
                        let (slots, count) = slots_from(first);
                        fetched = computer.fetch(slots, count);
                    }
                    frontier.offer(computer.entries(now, slots, count));
                }
            }
            warp::sync_warp();
        }
        core::mem::take(&mut self.count)
    }
}
