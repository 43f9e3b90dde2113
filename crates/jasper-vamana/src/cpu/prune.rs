//! Robust prune: RobustPrune of DiskANN (Algorithm 2 there), on squared distances.
//!
//! ```text
//! kept = []
//! for alpha in [1, the given alpha]:                                      two rounds
//!     for c in candidates not yet kept, nearest to p first:
//!         if kept is full: stop
//!         if no k in kept occludes c, that is alpha d(k, c) <= d(p, c): keep c
//! if kept has fewer than the minimum: add the nearest candidates that are left     a row that the graph would miss
//! ```
//!
//! Deviations from the paper, and why each is right:
//! 1. **Two rounds**, as DiskANN's code has them: with one round at alpha > 1, rows fill with near vertices where
//!    distances differ little, and no edge leads away (docs/notebook/experiments.md#alpha-in-high-dimensions).
//! 2. **Candidates are tested against the kept ones**, instead of being removed after each choice. The result is the
//!    same, and a candidate is dropped at the end of the [chunk](COMPARE_CHUNK) that has its first occluder.
//! 3. **`<=` instead of `<`**, so a copy of a kept vertex is dropped.
//! 4. **Neighbors that an earlier prune kept together are not compared again** (*kept before*): they do not occlude
//!    each other by construction. A full row that gets one more edge costs a tenth of the distances.
//! 5. **The second round does not repeat comparisons of the first**: each candidate stores how many kept ones it has
//!    been compared with.
//! 6. **Alpha applies to distances plus an offset** that makes them non-negative. A negated inner product may be below
//!    0, where multiplying it by alpha would strengthen the rule instead of weakening it.
//! 7. **Thin rows are filled** ([`Prune::fill`]), as by HNSW's `keepPrunedConnections`: where norms have a heavy tail,
//!    a vector nearer to the middle occludes nearly all others, and rows of a few edges left half of the neighbors
//!    unfound (docs/notebook/experiments.md#thin-rows).

use jasper_core::{Element, Neighbor, Slot};
use jasper_graph::{Origin, VectorTable};

/// Kept neighbors compared with a candidate at once: enough to hide memory latency, few enough to stop early.
const COMPARE_CHUNK: usize = 8;

/// Alpha of the first round.
const FIRST_ALPHA: f32 = 1.0;

/// Whether a kept vertex occludes a candidate. `distance` is that of the candidate, and `between` is the distance
/// between the two. With an alpha of 1, the offset is not added, because it would round small distances away.
fn occludes(offset: f32, alpha: f32, between: f32, distance: f32) -> bool {
    if alpha == FIRST_ALPHA {
        return between <= distance;
    }
    alpha * (offset + between) <= offset + distance
}

/// The state of one prune, reused by its thread.
#[derive(Debug, Default)]
pub(crate) struct Prune {
    /// Kept neighbors: those of the first round, nearest first, then those of the second.
    kept: Vec<Neighbor>,
    /// How many of them the first round kept.
    pub(crate) kept_first: usize,
    /// Slots of the kept neighbors: [`KEPT_BEFORE`], and [`OTHERS`].
    kept_slots: [Vec<Slot>; 2],
    /// Candidates of the second round.
    deferred: Vec<Candidate>,
    /// Distances computed between candidates.
    distances: u64,
}

/// A candidate, and with how many of each of [`Prune::kept_slots`] it has been compared.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    neighbor: Neighbor,
    compared: [usize; 2],
}

/// Indices of [`Prune::kept_slots`].
const KEPT_BEFORE: usize = 0;
const OTHERS: usize = 1;

impl Prune {
    /// Keeps up to `max_degree` of `candidates`, by distances from the `origin` of the vertex. Candidates are distinct, do
    /// not contain the vertex itself, and are tested in the given order.
    ///
    /// Candidates [kept before](Neighbor::kept_before) were kept together by an earlier prune. Those that it kept
    /// in its second round are passed as `deferred`, and tested only in the second round.
    pub(crate) fn keep<T: Element>(
        &mut self,
        vectors: &VectorTable,
        origin: Origin,
        candidates: &[Neighbor],
        deferred: &[Neighbor],
        max_degree: usize,
        alpha: f32,
    ) -> &[Neighbor] {
        self.kept.clear();
        self.kept_slots.iter_mut().for_each(Vec::clear);
        let fresh = |&neighbor: &Neighbor| Candidate { neighbor, compared: [0; 2] };
        let mut second_round = std::mem::take(&mut self.deferred);
        second_round.clear();
        second_round.extend(deferred.iter().map(fresh));
        for (i, candidate) in candidates.iter().enumerate() {
            if self.kept.len() == max_degree {
                break;
            }
            if let Some(next) = candidates.get(i + 1) {
                jasper_core::distance::prefetch(vectors.padded::<T>(next.slot()));
            }
            let mut candidate = fresh(candidate);
            let is_deferred = self.try_keep::<T>(vectors, origin, &mut candidate, FIRST_ALPHA, alpha);
            if is_deferred {
                second_round.push(candidate);
            }
        }
        self.kept_first = self.kept.len();
        second_round.sort_unstable_by_key(|candidate| candidate.neighbor);
        for candidate in &mut second_round {
            if self.kept.len() == max_degree {
                break;
            }
            self.try_keep::<T>(vectors, origin, candidate, alpha, alpha);
        }
        self.deferred = second_round;
        &self.kept
    }

    /// Adds the nearest of those candidates that [`Self::keep`] did not keep, until `min_degree` are kept.
    pub(crate) fn fill(
        &mut self,
        candidates: &[Neighbor],
        deferred: &[Neighbor],
        min_degree: usize,
    ) -> &[Neighbor] {
        let missing = min_degree.saturating_sub(self.kept.len());
        if missing > 0 {
            let is_left = |candidate: &&Neighbor| !self.kept.contains(candidate);
            let mut left: Vec<_> = candidates.iter().chain(deferred).filter(is_left).copied().collect();
            left.sort_unstable();
            self.kept.extend(left.into_iter().take(missing));
        }
        &self.kept
    }

    /// Keeps a candidate that no kept one occludes with the alpha of this `round`. Returns whether one that is occluded
    /// is deferred: if it is also occluded with the alpha of the `last` round, it is dropped, because it would not be
    /// kept then either.
    fn try_keep<T: Element>(
        &mut self,
        vectors: &VectorTable,
        origin: Origin,
        candidate: &mut Candidate,
        round: f32,
        last: f32,
    ) -> bool {
        let Candidate { neighbor, compared } = candidate;
        let is_kept_before = neighbor.is_kept_before();
        let computer = vectors.distance_computer_from::<T>(origin, neighbor.slot());
        let offset = vectors.alpha_offset(origin);
        let mut distances = [0.0; COMPARE_CHUNK];
        for set in if is_kept_before { OTHERS..=OTHERS } else { KEPT_BEFORE..=OTHERS } {
            for kept in self.kept_slots[set][compared[set]..].chunks(COMPARE_CHUNK) {
                let distances = &mut distances[..kept.len()];
                computer.compute(kept, distances);
                compared[set] += kept.len();
                self.distances += kept.len() as u64;
                let is_occluded = |alpha: f32| {
                    distances.iter().any(|&between| occludes(offset, alpha, between, neighbor.distance()))
                };
                if is_occluded(last) {
                    return false;
                }
                if is_occluded(round) {
                    return true;
                }
            }
        }
        self.kept.push(*neighbor);
        self.kept_slots[if is_kept_before { KEPT_BEFORE } else { OTHERS }].push(neighbor.slot());
        false
    }

    /// Takes the count of distances computed.
    pub(crate) fn take_distances(&mut self) -> u64 {
        std::mem::take(&mut self.distances)
    }
}

/// The number of edges of a row that the first round of an earlier prune kept, and the number that both rounds kept.
///
/// A prune writes the edges of each round nearest first, and later edges are appended. The two ascending runs at the
/// start of a row are therefore the edges of the two rounds. If the first appended edge is farther than the last edge
/// of a run, it counts as part of the run, and is not compared with the others until the row overflows again.
pub(crate) fn kept_prefixes(row: &[Neighbor], alpha: f32) -> [usize; 2] {
    let ascending = |row: &[Neighbor]| row.chunk_by(|a, b| a < b).next().map_or(0, <[_]>::len);
    let first = ascending(row);
    [first, first + if alpha > FIRST_ALPHA { ascending(&row[first..]) } else { 0 }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start;
    use jasper_core::{BuildParams, ElementKind, Metric, synthetic::Clusters};
    use jasper_graph::Graph;

    /// The rule as the paper has it, for each alpha: take the nearest candidate, drop those that it occludes, repeat.
    fn naive(
        graph: &Graph,
        origin: Origin,
        candidates: &[Neighbor],
        max_degree: usize,
        alpha: f32,
    ) -> Vec<Slot> {
        let mut kept: Vec<Slot> = Vec::new();
        for alpha in [1.0, alpha] {
            let occludes = |kept: Slot, c: &Neighbor| {
                occludes(
                    graph.vectors().alpha_offset(origin),
                    alpha,
                    graph.vectors().distance_computer_from::<f32>(origin, kept).distance_to(c.slot()),
                    c.distance(),
                )
            };
            let mut left = candidates.to_vec();
            left.retain(|c| !kept.contains(&c.slot()) && !kept.iter().any(|&kept| occludes(kept, c)));
            while !left.is_empty() && kept.len() < max_degree {
                let nearest = left.remove(0);
                kept.push(nearest.slot());
                left.retain(|c| !occludes(nearest.slot(), c));
            }
        }
        kept
    }

    #[test]
    fn keeps_what_the_paper_keeps() {
        for metric in Metric::ALL {
            let rows: Vec<f32> = Clusters::new(8, 5).rows(200, 0);
            let mut graph = Graph::new(ElementKind::F32, metric, 8, BuildParams::default()).unwrap();
            let mut prepared = Vec::new();
            for row in rows.chunks_exact(8) {
                let norm = graph.vectors().prepare(0, row, &mut prepared).unwrap();
                graph.add_vector(&prepared, norm).unwrap();
            }
            let mean = start::mean(&graph);
            start::set_center(&mut graph, &mean);
            for (point, max_degree, alpha) in [(0, 64, 1.2), (3, 5, 1.0), (9, 64, 1.0), (50, 12, 2.0)] {
                let origin = graph.vectors().origin(Slot::new(point));
                let computer = graph.vectors().slot_distance_computer::<f32>(Slot::new(point));
                let mut candidates: Vec<_> = (0..200)
                    .filter(|&slot| slot != point)
                    .map(|slot| Neighbor::new(computer.distance_to(Slot::new(slot)), Slot::new(slot)))
                    .collect();
                candidates.sort_unstable();
                let mut prune = Prune::default();
                let slots = |kept: &[Neighbor]| kept.iter().map(|n| n.slot()).collect::<Vec<_>>();
                let kept =
                    slots(prune.keep::<f32>(graph.vectors(), origin, &candidates, &[], max_degree, alpha));
                assert_eq!(kept, naive(&graph, origin, &candidates, max_degree, alpha));
                let full = prune.take_distances();
                assert!(full > 0 && kept.len() <= max_degree);
                // The neighbors that one prune kept are *kept before* for the next. With one more candidate, which is
                // far, the result is the same, for fewer distances.
                let (more, rest): (Vec<_>, Vec<_>) =
                    candidates.iter().partition(|c| c.is_same(candidates[candidates.len() - 1]));
                let first =
                    prune.keep::<f32>(graph.vectors(), origin, &rest, &[], max_degree, alpha).to_vec();
                let len = first.windows(2).take_while(|pair| pair[0] < pair[1]).count() + 1;
                let kept_before = |run: &[Neighbor]| run.iter().map(|n| n.kept_before()).collect::<Vec<_>>();
                let (again, deferred) = (kept_before(&first[..len]), kept_before(&first[len..]));
                prune.take_distances();
                let kept_before = slots(prune.keep::<f32>(
                    graph.vectors(),
                    origin,
                    &[&again[..], &more].concat(),
                    &deferred,
                    max_degree,
                    alpha,
                ));
                let pruned_cost = prune.take_distances();
                let mut plain: Vec<_> = first.iter().chain(&more).copied().collect();
                plain.sort_unstable();
                let from_scratch =
                    slots(prune.keep::<f32>(graph.vectors(), origin, &plain, &[], max_degree, alpha));
                assert_eq!(kept_before, from_scratch);
                assert!(pruned_cost <= prune.take_distances());
            }
        }
    }
}
