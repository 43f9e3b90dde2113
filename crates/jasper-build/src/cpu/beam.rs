//! Beam search: Algorithm 2 of the paper, with distinct frontier entries.

use jasper_core::{Element, Neighbor, VectorId};
use jasper_graph::{Graph, Scorer};

use super::frontier::Frontier;
use super::seen::SeenSet;
use crate::Work;

/// What a search needs and a thread keeps.
#[derive(Debug)]
pub(crate) struct Beam {
    frontier: Frontier,
    seen: SeenSet,
    /// Vertices expanded, in order.
    visited: Vec<Neighbor>,
    ids: Vec<VectorId>,
    distances: Vec<f32>,
}

impl Beam {
    pub(crate) const fn new() -> Self {
        Self {
            frontier: Frontier::new(),
            seen: SeenSet::new(),
            visited: Vec::new(),
            ids: Vec::new(),
            distances: Vec::new(),
        }
    }

    /// Searches from the start points until every entry of the frontier is visited.
    pub(crate) fn search<T: Element>(&mut self, graph: &Graph<T>, scorer: &Scorer<'_, T>, beam_width: usize) -> Work {
        self.frontier.reset(beam_width);
        self.seen.reset(beam_width);
        self.visited.clear();
        let mut work = Work::default();
        self.meet(graph.start_points());
        self.score(scorer, &mut work);
        while let Some(nearest) = self.frontier.visit_next() {
            self.visited.push(nearest);
            work.hops += 1;
            self.meet(graph.neighbors(nearest.id()));
            if let Some(next) = self.frontier.next() {
                graph.prefetch_neighbors(next.id());
            }
            self.score(scorer, &mut work);
        }
        work
    }

    /// The nearest vertices found, rising.
    pub(crate) fn found(&self) -> &[Neighbor] {
        self.frontier.entries()
    }

    /// Every vertex expanded: the found ones, and those that led to them.
    pub(crate) fn visited(&self) -> &[Neighbor] {
        &self.visited
    }

    /// Collects the vertices that this search has not seen.
    fn meet(&mut self, vertices: &[VectorId]) {
        self.ids.clear();
        self.ids.extend(vertices.iter().copied().filter(|&id| self.seen.insert(id)));
    }

    /// Scores what was met and offers it to the frontier.
    fn score<T: Element>(&mut self, scorer: &Scorer<'_, T>, work: &mut Work) {
        self.distances.resize(self.ids.len(), 0.0);
        scorer.score(&self.ids, &mut self.distances);
        work.distances += self.ids.len() as u64;
        for (&id, &distance) in self.ids.iter().zip(&self.distances) {
            self.frontier.insert(Neighbor::new(distance, id));
        }
    }
}
