//! Robust prune: Algorithm 3 of the paper on squared distances.

use jasper_core::{Element, Neighbor, VectorId};
use jasper_graph::Graph;

/// Kept neighbours compared with a candidate at once: enough to hide the loads, few enough to stop early.
const COMPARED_AT_ONCE: usize = 8;

/// What a prune needs and a thread keeps.
#[derive(Debug, Default)]
pub(crate) struct Prune {
    /// The kept, nearest first.
    kept: Vec<Neighbor>,
    /// Their ids, as a scorer wants them.
    ids: Vec<VectorId>,
    /// Distances worked out between candidates.
    distances: u64,
}

impl Prune {
    /// Keeps up to `max_degree` of `candidates`, which rise, are distinct and do not hold the vertex itself.
    ///
    /// The nearest is kept; every other one unless a kept `c*` leads towards it: `alpha d(c*, c) <= d(p, c)`. With
    /// `<=`, a copy of a kept vertex is dropped.
    pub(crate) fn keep<T: Element>(
        &mut self,
        graph: &Graph<T>,
        candidates: &[Neighbor],
        max_degree: usize,
        alpha: f32,
    ) -> &[Neighbor] {
        self.kept.clear();
        self.ids.clear();
        for (i, candidate) in candidates.iter().enumerate() {
            if self.kept.len() == max_degree {
                break;
            }
            if let Some(next) = candidates.get(i + 1) {
                jasper_core::distance::prefetch(graph.padded_vector(next.id()));
            }
            if !self.is_led_to(graph, *candidate, alpha) {
                self.kept.push(*candidate);
                self.ids.push(candidate.id());
            }
        }
        &self.kept
    }

    /// Distances worked out since this was last asked.
    pub(crate) fn take_distances(&mut self) -> u64 {
        std::mem::take(&mut self.distances)
    }

    fn is_led_to<T: Element>(&mut self, graph: &Graph<T>, candidate: Neighbor, alpha: f32) -> bool {
        let scorer = graph.row_scorer(candidate.id());
        let mut distances = [0.0; COMPARED_AT_ONCE];
        for kept in self.ids.chunks(COMPARED_AT_ONCE) {
            let distances = &mut distances[..kept.len()];
            scorer.score(kept, distances);
            self.distances += kept.len() as u64;
            if distances.iter().any(|&between| alpha * between <= candidate.distance()) {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jasper_core::{BuildParams, Metric, synthetic::Clusters};

    /// The rule as the paper writes it: take the nearest, drop what it leads to, repeat.
    fn naive(graph: &Graph<f32>, candidates: &[Neighbor], max_degree: usize, alpha: f32) -> Vec<VectorId> {
        let (mut left, mut kept) = (candidates.to_vec(), Vec::new());
        while !left.is_empty() && kept.len() < max_degree {
            let nearest = left.remove(0);
            kept.push(nearest.id());
            let scorer = graph.row_scorer(nearest.id());
            left.retain(|c| alpha * scorer.score_one(c.id()) > c.distance());
        }
        kept
    }

    #[test]
    fn keeps_what_the_paper_keeps() {
        for metric in Metric::ALL {
            let rows: Vec<f32> = Clusters::new(8, 5).rows(200, 0);
            let mut graph = Graph::new(metric, 8, BuildParams::default()).unwrap();
            let mut prepared = Vec::new();
            for row in rows.chunks_exact(8) {
                let norm = graph.prepare(0, row, &mut prepared).unwrap();
                graph.add_row(&prepared, norm).unwrap();
            }
            for (point, max_degree, alpha) in [(0, 64, 1.2), (3, 5, 1.0), (9, 64, 1.0), (50, 12, 2.0)] {
                let scorer = graph.row_scorer(VectorId::new(point));
                let mut candidates: Vec<_> = (0..200)
                    .filter(|&id| id != point)
                    .map(|id| Neighbor::new(scorer.score_one(VectorId::new(id)), VectorId::new(id)))
                    .collect();
                candidates.sort_unstable();
                let mut prune = Prune::default();
                let kept: Vec<_> = prune.keep(&graph, &candidates, max_degree, alpha).iter().map(|n| n.id()).collect();
                assert_eq!(kept, naive(&graph, &candidates, max_degree, alpha));
                assert!(prune.take_distances() > 0 && kept.len() <= max_degree);
            }
        }
    }
}
