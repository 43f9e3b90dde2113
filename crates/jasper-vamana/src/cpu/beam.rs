//! Beam search: Algorithm 2 of the paper, with distinct frontier entries.

use jasper_core::{Element, Neighbor, VectorId};
use jasper_graph::{CodeScorer, Graph, Scorer};

use super::frontier::Frontier;
use super::seen::SeenSet;
use crate::SearchCost;

/// What a search asks of distances, in the order of the steps of a hop.
pub(crate) trait Score {
    /// Asks the memory system for what [`Self::sift`] reads.
    fn prefetch_sift(&self, ids: &[VectorId]);
    /// Takes some of those out that are farther than `limit`.
    fn sift(&self, limit: f32, ids: &mut Vec<VectorId>);
    /// Asks the memory system for what [`Self::score`] reads first.
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

/// Estimates cost so little that nothing is ruled out before.
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

/// Searches that a thread takes forward together: while one waits for memory, the next one works. Two hide half of the
/// waiting, more than four crowd each other out of the first cache.
pub(crate) const TOGETHER: usize = 4;

/// What a search needs and a thread keeps.
#[derive(Debug)]
pub(crate) struct Beam {
    frontier: Frontier,
    seen: SeenSet,
    /// Vertices expanded, in order.
    visited: Vec<Neighbor>,
    /// Vertices met in this hop.
    met: Vec<VectorId>,
    distances: Vec<f32>,
    cost: SearchCost,
}

impl Beam {
    pub(crate) const fn new() -> Self {
        Self {
            frontier: Frontier::new(),
            seen: SeenSet::new(),
            visited: Vec::new(),
            met: Vec::new(),
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

    /// The nearest vertices found, rising.
    pub(crate) fn found(&self) -> &[Neighbor] {
        self.frontier.entries()
    }

    /// Every vertex expanded: the found ones, and those that led to them.
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
        self.meet(graph.adjacency().start_points(), scorer);
    }

    /// Visits the nearest entry that is not visited, and meets its neighbours; false if there is none.
    fn expand<T: Element>(&mut self, graph: &Graph<T>, scorer: &impl Score) -> bool {
        let Some(nearest) = self.frontier.visit_next() else { return false };
        self.visited.push(nearest);
        self.cost.hops += 1;
        self.meet(graph.adjacency().neighbors(nearest.id()), scorer);
        true
    }

    /// Collects the vertices that this search has not seen.
    fn meet(&mut self, vertices: &[VectorId], scorer: &impl Score) {
        self.seen.keep_new(vertices, &mut self.met);
        self.cost.distances += self.met.len() as u64;
        scorer.prefetch_sift(&self.met);
    }

    /// Drops what the frontier would not take.
    fn sift(&mut self, scorer: &impl Score) {
        scorer.sift(self.frontier.worst(), &mut self.met);
        scorer.prefetch_score(&self.met);
    }

    /// Scores what is left and offers it to the frontier.
    fn score<T: Element>(&mut self, graph: &Graph<T>, scorer: &impl Score) {
        self.distances.resize(self.met.len(), 0.0);
        scorer.score(&self.met, &mut self.distances);
        let mut worst = self.frontier.worst();
        for (&id, &distance) in self.met.iter().zip(&self.distances) {
            // Most are, and then nothing more is made of them.
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
