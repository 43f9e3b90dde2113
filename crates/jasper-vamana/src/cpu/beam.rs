//! Beam search: GreedySearch of DiskANN (Algorithm 1 there, Algorithm 2 of the Jasper paper).
//!
//! ```text
//! frontier = start points, each with its distance to the query      at most frontier_len entries, nearest first
//! while the nearest beam_width entries have an unexpanded one, and fewer than max_hops were expanded:
//!     v = the nearest of these; mark it as expanded
//!     unvisited = neighbors(v) whose distance this search has not computed yet
//!     drop those of unvisited that a lower bound puts beyond the last entry     with sketches only: 8-bit copies of f32
//!     insert the others into the frontier by distance
//! results = the frontier; candidates of a build = all expanded entries
//! ```
//!
//! Deviations, and why each is right:
//! 1. **Entries are distinct.** In the list of the Jasper paper, copies of a vertex push others out. The last entry
//!    only ever gets nearer, so a vertex that fell out cannot come back: each is expanded at most once.
//! 2. **The visited cache is lossy.** It forgets vertices on collision. Forgetting one costs a distance and never
//!    changes a result, because the frontier ignores an entry that it already has.
//! 3. **Several searches per thread, interleaved** ([`SEARCHES_PER_THREAD`]): while one waits for memory, the next
//!    works. Each takes the same steps as alone.
//! 4. **Rows are prefetched one hop ahead**: after the frontier is updated, its next entry is known.
//! 5. **Several start points** save the first hops. Every vertex is reachable from the first of them alone.

use std::mem;

use jasper_core::{Neighbor, Slot};
use jasper_graph::{ComputeDistances, Graph};

use super::frontier::Frontier;
use super::visited::VisitedCache;
use crate::{BeamSize, OperationCounts};

/// Searches that a thread interleaves. Two hide half of the memory latency; six are no faster than four.
pub(crate) const SEARCHES_PER_THREAD: usize = 4;

/// The state of one search, reused by its thread.
#[derive(Debug, Default)]
pub(crate) struct SearchState {
    frontier: Frontier,
    visited: VisitedCache,
    /// Vertices expanded, in order.
    pub(crate) expanded: Vec<Neighbor>,
    /// For the neighbors of the vertex that a hop expands.
    buffer: Vec<Slot>,
    /// Neighbors of this hop that the search has not visited.
    unvisited: Vec<Slot>,
    distances: Vec<f32>,
    /// The cost of the search.
    pub(crate) cost: OperationCounts,
}

impl SearchState {
    /// Runs one search per distance computer, each with its own state, from the start points until every entry of the
    /// beam is expanded, or `max_hops` are. The searches do not affect each other; only their steps alternate.
    pub(crate) fn search(
        states: &mut [Self],
        computers: &[impl ComputeDistances],
        graph: &Graph,
        size: BeamSize,
        max_hops: usize,
    ) {
        let starts = |_| graph.adjacency().start_points();
        Self::search_from(states, computers, graph, starts, size, max_hops);
    }

    /// [`Self::search`] from other vertices than the start points of the graph, by the index of a search.
    pub(crate) fn search_from<'g>(
        states: &mut [Self],
        computers: &[impl ComputeDistances],
        graph: &Graph,
        starts: impl Fn(usize) -> &'g [Slot],
        size: BeamSize,
        max_hops: usize,
    ) {
        for (i, (state, computer)) in states.iter_mut().zip(computers).enumerate() {
            state.begin(graph, computer, starts(i), size);
        }
        let mut active: [usize; SEARCHES_PER_THREAD] = std::array::from_fn(|i| i);
        let mut count = states.len().min(computers.len());
        while count > 0 {
            active[..count].iter().for_each(|&i| states[i].discard_beyond(&computers[i]));
            active[..count].iter().for_each(|&i| states[i].compute(graph, &computers[i]));
            let mut left = 0;
            for at in 0..count {
                let i = active[at];
                if states[i].expanded.len() < max_hops && states[i].expand(graph, &computers[i]) {
                    active[left] = i;
                    left += 1;
                }
            }
            count = left;
        }
    }

    /// The nearest vertices found, nearest first.
    pub(crate) fn found(&self) -> &[Neighbor] {
        self.frontier.entries()
    }

    fn begin(&mut self, graph: &Graph, computer: &impl ComputeDistances, starts: &[Slot], size: BeamSize) {
        self.frontier.reset(size);
        self.visited.reset(size.width, graph.slots());
        self.expanded.clear();
        self.cost = OperationCounts::default();
        self.collect_unvisited(starts, computer);
    }

    /// Expands the nearest unexpanded entry; returns false if there is none.
    fn expand(&mut self, graph: &Graph, computer: &impl ComputeDistances) -> bool {
        let Some(nearest) = self.frontier.take_nearest() else { return false };
        self.expanded.push(nearest);
        self.cost.hops += 1;
        let mut buffer = mem::take(&mut self.buffer);
        self.collect_unvisited(graph.adjacency().load_neighbors(nearest.slot(), &mut buffer), computer);
        self.buffer = buffer;
        true
    }

    /// Collects those of `vertices` that this search has not visited.
    fn collect_unvisited(&mut self, vertices: &[Slot], computer: &impl ComputeDistances) {
        self.visited.insert_all(vertices, &mut self.unvisited);
        self.cost.distances += self.unvisited.len() as u64;
        computer.prefetch_bounds(&self.unvisited);
    }

    /// Drops vertices that are too far away for the frontier.
    fn discard_beyond(&mut self, computer: &impl ComputeDistances) {
        computer.discard_beyond(self.frontier.farthest(), &mut self.unvisited);
        computer.prefetch_distances(&self.unvisited);
    }

    /// Computes the distances of the remaining slots and inserts these into the frontier.
    fn compute(&mut self, graph: &Graph, computer: &impl ComputeDistances) {
        self.distances.resize(self.unvisited.len(), 0.0);
        computer.compute(&self.unvisited, &mut self.distances);
        self.frontier.insert(&self.unvisited, &self.distances);
        if let Some(next) = self.frontier.next() {
            graph.adjacency().prefetch(next.slot());
        }
    }
}
