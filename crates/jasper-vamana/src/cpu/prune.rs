//! Robust prune: Algorithm 3 of the paper on squared distances.

use jasper_core::{Element, Neighbor, VectorId};
use jasper_graph::Graph;

/// Kept neighbours compared with a candidate at once: enough to hide the loads, few enough to stop early.
const COMPARED_AT_ONCE: usize = 8;

/// Slack of the first round.
const FIRST_ALPHA: f32 = 1.0;

/// Whether a vertex leads towards another, which is at a `distance`, and `between` these two. Without slack the distances
/// themselves are compared, for they may be differences of next to nothing to what slack counts from.
fn leads<T: Element>(graph: &Graph<T>, alpha: f32, between: f32, distance: f32) -> bool {
    if alpha == FIRST_ALPHA {
        return between <= distance;
    }
    let origin = graph.vectors().slack_origin();
    alpha * (origin + between) <= origin + distance
}

/// What a prune needs and a thread keeps.
#[derive(Debug, Default)]
pub(crate) struct Prune {
    /// The kept: those of the first round nearest first, then those of the second.
    kept: Vec<Neighbor>,
    /// How many of them the first round kept.
    first: usize,
    /// Ids of the kept, those that are settled apart from the others.
    by_standing: [Vec<VectorId>; 2],
    /// Candidates of the second round.
    waiting: Vec<Candidate>,
    /// Distances worked out between candidates.
    distances: u64,
}

/// A candidate, and with how many of the kept it has been compared, by their standing.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    neighbor: Neighbor,
    compared: [usize; 2],
}

/// Standing of a kept neighbour, as an index.
const SETTLED: usize = 0;
const OTHER: usize = 1;

/// What becomes of a candidate in a round.
enum Fate {
    Kept,
    Waits,
    Dropped,
}

impl Prune {
    /// Keeps up to `max_degree` of `candidates` and of those that wait, all of them distinct and without the vertex itself.
    /// What comes first is kept first.
    ///
    /// There are two rounds, as DiskANN has them: the first with an `alpha` of 1, the second with the one given, over those
    /// `waiting` and what the first has left. In each, a candidate is kept unless a kept `c*` leads towards it:
    /// `alpha d(c*, c) <= d(p, c)`. With `<=`, a copy of a kept vertex is dropped, unless distances are products and the
    /// vertex is the longer. One round with an alpha above 1 fills
    /// rows with near vertices where distances differ little, and leaves none for what leads away (docs: experiments).
    ///
    /// Candidates marked visited are *settled*: an earlier prune has kept them beside each other, so that they are
    /// compared with the others only, for a tenth of the distances where a full row gets one more edge. Of these,
    /// `waiting` are those that it kept in its second round.
    pub(crate) fn keep<T: Element>(
        &mut self,
        graph: &Graph<T>,
        candidates: &[Neighbor],
        waiting: &[Neighbor],
        max_degree: usize,
        alpha: f32,
    ) -> &[Neighbor] {
        self.kept.clear();
        self.by_standing.iter_mut().for_each(Vec::clear);
        let fresh = |&neighbor: &Neighbor| Candidate { neighbor, compared: [0; 2] };
        let mut waits = std::mem::take(&mut self.waiting);
        waits.clear();
        waits.extend(waiting.iter().map(fresh));
        for (i, candidate) in candidates.iter().enumerate() {
            if self.kept.len() == max_degree {
                break;
            }
            if let Some(next) = candidates.get(i + 1) {
                jasper_core::distance::prefetch(graph.vectors().padded(next.id()));
            }
            let mut candidate = fresh(candidate);
            if let Fate::Waits = self.try_keep(graph, &mut candidate, FIRST_ALPHA, alpha) {
                waits.push(candidate);
            }
        }
        self.first = self.kept.len();
        waits.sort_unstable_by_key(|candidate| candidate.neighbor);
        for candidate in &mut waits {
            if self.kept.len() == max_degree {
                break;
            }
            self.try_keep(graph, candidate, alpha, alpha);
        }
        self.waiting = waits;
        &self.kept
    }

    /// Keeps a candidate that no kept one leads towards by the alpha of this `round`. By the `last`, it would be dropped in
    /// every round.
    fn try_keep<T: Element>(
        &mut self,
        graph: &Graph<T>,
        candidate: &mut Candidate,
        round: f32,
        last: f32,
    ) -> Fate {
        let Candidate { neighbor, compared } = candidate;
        let is_settled = !neighbor.is_unvisited();
        let scorer = graph.vectors().slot_scorer(neighbor.id());
        let mut distances = [0.0; COMPARED_AT_ONCE];
        for standing in if is_settled { OTHER..=OTHER } else { SETTLED..=OTHER } {
            for kept in self.by_standing[standing][compared[standing]..].chunks(COMPARED_AT_ONCE) {
                let distances = &mut distances[..kept.len()];
                scorer.score(kept, distances);
                compared[standing] += kept.len();
                self.distances += kept.len() as u64;
                let is_led_to = |alpha: f32| {
                    distances.iter().any(|&between| leads(graph, alpha, between, neighbor.distance()))
                };
                if is_led_to(last) {
                    return Fate::Dropped;
                }
                if is_led_to(round) {
                    return Fate::Waits;
                }
            }
        }
        self.kept.push(*neighbor);
        self.by_standing[if is_settled { SETTLED } else { OTHER }].push(neighbor.id());
        Fate::Kept
    }

    /// How many the first round of the last prune kept.
    pub(crate) fn kept_first(&self) -> usize {
        self.first
    }

    /// Distances worked out since this was last asked.
    pub(crate) fn take_distances(&mut self) -> u64 {
        std::mem::take(&mut self.distances)
    }
}

/// How much of a row the rounds of an earlier prune kept: the end of the first one's part, and of both.
///
/// A prune writes what each of its rounds kept nearest first, and later edges are appended: so these are the two heads that
/// rise. Now and then the first of the appended is farther still, and goes uncompared with them until it is crowded.
pub(crate) fn settled_ends(row: &[Neighbor], alpha: f32) -> [usize; 2] {
    let rising = |row: &[Neighbor]| row.chunk_by(|a, b| a < b).next().map_or(0, <[_]>::len);
    let first = rising(row);
    [first, first + if alpha > FIRST_ALPHA { rising(&row[first..]) } else { 0 }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use jasper_core::{BuildParams, Metric, synthetic::Clusters};

    /// The rule as the paper writes it, for each alpha: take the nearest, drop what it leads to, repeat.
    fn naive(graph: &Graph<f32>, candidates: &[Neighbor], max_degree: usize, alpha: f32) -> Vec<VectorId> {
        let mut kept: Vec<VectorId> = Vec::new();
        for alpha in [1.0, alpha] {
            let leads = |kept: VectorId, c: &Neighbor| {
                leads(graph, alpha, graph.vectors().slot_scorer(kept).score_one(c.id()), c.distance())
            };
            let mut left = candidates.to_vec();
            left.retain(|c| !kept.contains(&c.id()) && !kept.iter().any(|&kept| leads(kept, c)));
            while !left.is_empty() && kept.len() < max_degree {
                let nearest = left.remove(0);
                kept.push(nearest.id());
                left.retain(|c| !leads(nearest.id(), c));
            }
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
                let norm = graph.vectors().prepare(0, row, &mut prepared).unwrap();
                graph.add_vector(&prepared, norm).unwrap();
            }
            for (point, max_degree, alpha) in [(0, 64, 1.2), (3, 5, 1.0), (9, 64, 1.0), (50, 12, 2.0)] {
                let scorer = graph.vectors().slot_scorer(VectorId::new(point));
                let mut candidates: Vec<_> = (0..200)
                    .filter(|&id| id != point)
                    .map(|id| Neighbor::new(scorer.score_one(VectorId::new(id)), VectorId::new(id)))
                    .collect();
                candidates.sort_unstable();
                let mut prune = Prune::default();
                let ids = |kept: &[Neighbor]| kept.iter().map(|n| n.id()).collect::<Vec<_>>();
                let kept = ids(prune.keep(&graph, &candidates, &[], max_degree, alpha));
                assert_eq!(kept, naive(&graph, &candidates, max_degree, alpha));
                let full = prune.take_distances();
                assert!(full > 0 && kept.len() <= max_degree);
                // What one prune kept is settled for the next: the same result with one more candidate that is far, for
                // less.
                let (more, rest): (Vec<_>, Vec<_>) =
                    candidates.iter().partition(|c| c.is_same(candidates[candidates.len() - 1]));
                let first = prune.keep(&graph, &rest, &[], max_degree, alpha).to_vec();
                let len = first.windows(2).take_while(|pair| pair[0] < pair[1]).count() + 1;
                let settled = |run: &[Neighbor]| run.iter().map(|n| n.visited()).collect::<Vec<_>>();
                let (again, waiting) = (settled(&first[..len]), settled(&first[len..]));
                prune.take_distances();
                let settled =
                    ids(prune.keep(&graph, &[&again[..], &more].concat(), &waiting, max_degree, alpha));
                let settled_work = prune.take_distances();
                let mut plain: Vec<_> = first.iter().chain(&more).copied().collect();
                plain.sort_unstable();
                let unsettled = ids(prune.keep(&graph, &plain, &[], max_degree, alpha));
                assert_eq!(settled, unsettled);
                assert!(settled_work <= prune.take_distances());
            }
        }
    }
}
