//! Beam search: GreedySearch of DiskANN (Algorithm 1 there, Algorithm 2 of the Jasper paper).
//!
//! ```text
//! frontier = start points, each with its distance to the query      at most beam_width entries, nearest first
//! while the frontier has an unvisited entry, and fewer than most_hops were visited:
//!     v = nearest unvisited entry; mark it visited
//!     unseen = neighbors(v) that this search has not scored yet
//!     drop those of unseen that a lower bound puts beyond the last entry     f32 sketches only
//!     insert the rest into the frontier by distance
//! results = the frontier; candidates of a build = all visited entries
//! ```
//!
//! Deviations, and why each is right:
//! 1. **Entries are distinct.** In the list of the Jasper paper, copies of a vertex push others out. The last entry only ever
//!    gets nearer, so a vertex that fell out cannot come back: each is visited at most once.
//! 2. **A small hash table of seen ids** that forgets on collision. Forgetting costs a distance, never a result, because the
//!    frontier ignores an entry it has already.
//! 3. **Several searches per thread, interleaved** ([`TOGETHER`]): while one waits for memory, the next works. Each takes the
//!    same steps as alone.
//! 4. **Rows are prefetched one hop ahead**: after the frontier is updated, its next entry is known.
//! 5. **Several start points**, to save the first hops; the first of them alone reaches every vertex.

use jasper_core::{Element, Neighbor, VectorId};
use jasper_graph::{CodeScorer, Graph, Scorer};

use super::frontier::Frontier;
use super::seen::SeenSet;
use crate::SearchCost;

/// Distances from one query, in the order of the steps of a hop.
pub(crate) trait Score {
    /// Prefetches what [`Self::sift`] reads.
    fn prefetch_sift(&self, ids: &[VectorId]);
    /// Removes ids that are certainly farther than `limit`; not all of them.
    fn sift(&self, limit: f32, ids: &mut Vec<VectorId>);
    /// Prefetches what [`Self::score`] reads first.
    fn prefetch_score(&self, ids: &[VectorId]);
    /// Distances to `ids`, into `out` of the same length.
    fn score(&self, ids: &[VectorId], out: &mut [f32]);
}

impl<T: Element> Score for Scorer<'_, T> {
    fn prefetch_sift(&self, ids: &[VectorId]) {
        Scorer::prefetch_sift(self, ids);
    }

    fn sift(&self, limit: f32, ids: &mut Vec<VectorId>) {
        Scorer::sift(self, limit, ids);
    }

    fn prefetch_score(&self, ids: &[VectorId]) {
        Scorer::prefetch_score(self, ids);
    }

    fn score(&self, ids: &[VectorId], out: &mut [f32]) {
        Scorer::score(self, ids, out);
    }
}

/// Estimates are so cheap that nothing is ruled out before them.
impl Score for CodeScorer<'_> {
    fn prefetch_sift(&self, ids: &[VectorId]) {
        self.prefetch(ids);
    }

    fn sift(&self, _limit: f32, _ids: &mut Vec<VectorId>) {}

    fn prefetch_score(&self, _ids: &[VectorId]) {}

    fn score(&self, ids: &[VectorId], out: &mut [f32]) {
        CodeScorer::score(self, ids, out);
    }
}

/// Searches that a thread interleaves. Two hide half of the memory latency; more than four evict each other from the L1
/// cache.
pub(crate) const TOGETHER: usize = 4;

/// The state of one search, reused by its thread.
#[derive(Debug)]
pub(crate) struct Beam {
    frontier: Frontier,
    seen: SeenSet,
    /// Vertices expanded, in order.
    visited: Vec<Neighbor>,
    /// Ids of this hop that the search has not seen before.
    unseen: Vec<VectorId>,
    distances: Vec<f32>,
    cost: SearchCost,
}

impl Beam {
    pub(crate) const fn new() -> Self {
        Self {
            frontier: Frontier::new(),
            seen: SeenSet::new(),
            visited: Vec::new(),
            unseen: Vec::new(),
            distances: Vec::new(),
            cost: SearchCost { hops: 0, distances: 0, prune_distances: 0 },
        }
    }

    /// Searches from the start points until every entry of the frontier is visited, or `max_hops` vertices are, in each
    /// of `beams` for what its scorer scores. Every search goes its own way; only its steps alternate with those of the
    /// others.
    pub(crate) fn search<T: Element>(
        beams: &mut [Self],
        scorers: &[impl Score],
        graph: &Graph<T>,
        beam_width: usize,
        max_hops: usize,
    ) {
        for (beam, scorer) in beams.iter_mut().zip(scorers) {
            beam.begin(graph, scorer, beam_width);
        }
        let mut active: [usize; TOGETHER] = std::array::from_fn(|i| i);
        let mut count = beams.len().min(scorers.len());
        while count > 0 {
            active[..count].iter().for_each(|&i| beams[i].sift(&scorers[i]));
            active[..count].iter().for_each(|&i| beams[i].score(graph, &scorers[i]));
            let mut left = 0;
            for at in 0..count {
                let i = active[at];
                if beams[i].visited.len() < max_hops && beams[i].expand(graph, &scorers[i]) {
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

    /// Every vertex expanded, in order.
    pub(crate) fn visited(&self) -> &[Neighbor] {
        &self.visited
    }

    /// What the search cost.
    pub(crate) fn cost(&self) -> SearchCost {
        self.cost
    }

    fn begin<T: Element>(&mut self, graph: &Graph<T>, scorer: &impl Score, beam_width: usize) {
        self.frontier.reset(beam_width);
        self.seen.reset(beam_width);
        self.visited.clear();
        self.cost = SearchCost::default();
        self.collect_unseen(graph.adjacency().start_points(), scorer);
    }

    /// Visits the nearest unvisited entry and collects its neighbors; false if there is none.
    fn expand<T: Element>(&mut self, graph: &Graph<T>, scorer: &impl Score) -> bool {
        let Some(nearest) = self.frontier.visit_next() else { return false };
        self.visited.push(nearest);
        self.cost.hops += 1;
        self.collect_unseen(graph.adjacency().neighbors(nearest.id()), scorer);
        true
    }

    /// Collects those of `vertices` that this search has not seen.
    fn collect_unseen(&mut self, vertices: &[VectorId], scorer: &impl Score) {
        self.seen.keep_new(vertices, &mut self.unseen);
        self.cost.distances += self.unseen.len() as u64;
        scorer.prefetch_sift(&self.unseen);
    }

    /// Drops ids that the frontier would not take.
    fn sift(&mut self, scorer: &impl Score) {
        scorer.sift(self.frontier.worst(), &mut self.unseen);
        scorer.prefetch_score(&self.unseen);
    }

    /// Scores the remaining ids and inserts them into the frontier.
    fn score<T: Element>(&mut self, graph: &Graph<T>, scorer: &impl Score) {
        self.distances.resize(self.unseen.len(), 0.0);
        scorer.score(&self.unseen, &mut self.distances);
        let mut worst = self.frontier.worst();
        for (&id, &distance) in self.unseen.iter().zip(&self.distances) {
            // The common case: the frontier is full and the vertex is farther than its last entry.
            if distance > worst {
                continue;
            }
            self.frontier.insert(Neighbor::new(distance, id));
            worst = self.frontier.worst();
        }
        if let Some(next) = self.frontier.next() {
            graph.adjacency().prefetch(next.id());
        }
    }
}
