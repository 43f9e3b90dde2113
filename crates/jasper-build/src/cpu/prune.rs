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
    /// Ids of the kept that are settled, and of the others.
    settled: Vec<VectorId>,
    others: Vec<VectorId>,
    /// Distances worked out between candidates.
    distances: u64,
}

impl Prune {
    /// Keeps up to `max_degree` of `candidates`, which are distinct, do not hold the vertex itself, and rise: what comes
    /// first is kept first.
    ///
    /// The first is kept; every other one unless a kept `c*` leads towards it: `alpha d(c*, c) <= d(p, c)`. With
    /// `<=`, a copy of a kept vertex is dropped.
    ///
    /// Candidates marked visited are *settled*: an earlier prune has kept them beside each other, so that they are
    /// compared with the others only. Where that is so, the result is the same, for a tenth of the distances where a
    /// full row gets one more edge.
    pub(crate) fn keep<T: Element>(
        &mut self,
        graph: &Graph<T>,
        candidates: &[Neighbor],
        max_degree: usize,
        alpha: f32,
    ) -> &[Neighbor] {
        self.kept.clear();
        self.settled.clear();
        self.others.clear();
        for (i, &candidate) in candidates.iter().enumerate() {
            if self.kept.len() == max_degree {
                break;
            }
            if let Some(next) = candidates.get(i + 1) {
                jasper_core::distance::prefetch(graph.padded_vector(next.id()));
            }
            let settled = !candidate.is_unvisited();
            let compared: &[&[VectorId]] =
                if settled { &[&self.others] } else { &[&self.settled, &self.others] };
            if !is_led_to(graph, candidate, compared, alpha, &mut self.distances) {
                self.kept.push(candidate);
                if settled { &mut self.settled } else { &mut self.others }.push(candidate.id());
            }
        }
        &self.kept
    }

    /// Distances worked out since this was last asked.
    pub(crate) fn take_distances(&mut self) -> u64 {
        std::mem::take(&mut self.distances)
    }
}

/// Whether any of the `kept` leads towards the candidate.
fn is_led_to<T: Element>(
    graph: &Graph<T>,
    candidate: Neighbor,
    kept: &[&[VectorId]],
    alpha: f32,
    work: &mut u64,
) -> bool {
    let scorer = graph.row_scorer(candidate.id());
    let mut distances = [0.0; COMPARED_AT_ONCE];
    kept.iter().flat_map(|kept| kept.chunks(COMPARED_AT_ONCE)).any(|kept| {
        let distances = &mut distances[..kept.len()];
        scorer.score(kept, distances);
        *work += kept.len() as u64;
        distances.iter().any(|&between| alpha * between <= candidate.distance())
    })
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
                let kept: Vec<_> =
                    prune.keep(&graph, &candidates, max_degree, alpha).iter().map(|n| n.id()).collect();
                assert_eq!(kept, naive(&graph, &candidates, max_degree, alpha));
                let full = prune.take_distances();
                assert!(full > 0 && kept.len() <= max_degree);
                // What one prune kept is settled for the next: the same result with one more candidate, for less.
                let (more, rest): (Vec<_>, Vec<_>) = candidates.iter().partition(|c| c.id().get() == 100);
                let first = prune.keep(&graph, &rest, max_degree, alpha).to_vec();
                let mut again: Vec<_> = first.iter().map(|n| n.visited()).chain(more.clone()).collect();
                again.sort_unstable();
                let plain: Vec<_> = again.iter().map(|n| Neighbor::new(n.distance(), n.id())).collect();
                prune.take_distances();
                let settled: Vec<_> =
                    prune.keep(&graph, &again, max_degree, alpha).iter().map(|n| n.id()).collect();
                let settled_work = prune.take_distances();
                let unsettled: Vec<_> =
                    prune.keep(&graph, &plain, max_degree, alpha).iter().map(|n| n.id()).collect();
                assert_eq!(settled, unsettled);
                assert!(settled_work <= prune.take_distances());
            }
        }
    }
}
