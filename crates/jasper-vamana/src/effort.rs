//! Effort that follows the data: the beam width of builds and inserts, L, is raised if their searches miss neighbors.
//!
//! ```text
//! after the first pass, for each of a sample of the vertices:
//!     wide   <- its 10 nearest found with a beam of 8 L
//!     missed += those of wide that are not among its 10 nearest found with a beam of 2 L
//! if more than 3 in 1,000 were missed: double L
//! if more than 12 in 1,000:            double it again        grows with the dimension beyond 256
//! if more than 6 in 100:               widen alpha, if prunes leave few edges
//! ```
//!
//! The sample consists of the vertices that were linked last. Their rows hold what their prune kept, and hardly any
//! edges that later vertices would have added.
//!
//! Under inner products there is one pass. Then this is decided whenever the number of linked vertices has doubled,
//! from 16,384 on, by a sample of those that are linked next: L is doubled if more than 3 in 10,000 were missed, and
//! to 512 if more than 3 in 1,000.
//!
//! An insert of more than a few vertices decides too, when it takes the number of vertices past a power of two: by those
//! that it has linked, and by others at random if these are few. It links in one pass: L is doubled if more than 3 in
//! 10,000 were missed, and twice if more than 3 in 1,000; alpha is widened if more than 1 in 1,000 were, and prunes leave
//! few edges. Where L cannot be raised, this is counted with beams of 256 and 1,024.
//!
//! A beam of 2 L finds all neighbors in a graph of good edges, whatever the dimension of the data. What it misses is
//! out of reach: vertices to which few edges lead, because a search for their neighbors had not found them. A wider
//! second pass finds them. On data where neighbors are many and equally near, a narrow beam misses some too, but one of
//! 2 L does not, and a wider L would not help (docs/notebook/experiments.md#effort-that-follows-the-data). The second
//! doubling pays less, and its cost grows with the length of rows
//! (docs/notebook/experiments.md#a-second-doubling-of-l).

use std::collections::HashSet;
use std::ops::Range;

use jasper_core::synthetic::Permutation;
use jasper_core::{BuildParams, Effort, Metric, Slot, defaults};
use jasper_graph::Graph;

use crate::pipeline::Duplicates;
use crate::{CandidateSearch, CpuExecutor, Executor, GraphAccess, MutableGraph, UpdateError};

/// In a graph of fewer vertices, every search finds nearly all.
pub(crate) const MIN_VERTICES: usize = 16_384;
/// One vertex in this many is sampled, at most [`MAX_SAMPLE`].
const SAMPLE_DIVISOR: usize = 64;
const MAX_SAMPLE: usize = 1024;
/// Neighbors per vertex that must be found.
const NEIGHBORS: usize = 10;
/// The share of neighbors that searches of 2 L may miss before L is doubled, before it is doubled again, and before alpha
/// is widened. For rows of more than [`SHORT_DIMENSION`] dimensions the second grows in proportion.
const MAX_MISSED: [f64; 3] = [0.003, 0.012, 0.06];
const SHORT_DIMENSION: usize = 256;
/// The same where vertices are linked in one pass. Their searches have a beam of L, not of half of it, and miss less.
const MAX_MISSED_IN_ONE_PASS: [f64; 3] = [0.0003, 0.003, 0.001];
/// So many may be missed by chance.
const FEW_MISSED: usize = 2;
/// Vertices that [`missed_neighbors`] samples, and the beam that it compares.
const CHECKED: usize = 256;
const CHECKED_BEAM: usize = 256;
/// L is not raised beyond this.
const WIDEST: usize = 512;
/// Rows are thin if prunes leave them few edges beyond [`min_degree`](BuildParams::min_degree): less than this share of
/// those that they could have.
const THIN: f64 = 0.15;

/// An upper bound of L in a build of `vertices` vertices with these parameters.
pub fn widest_build_beam(params: &BuildParams, vertices: usize) -> usize {
    let mut beam_width = params.build_beam_width();
    while params.effort() != Effort::Fixed && vertices > MIN_VERTICES && 2 * beam_width <= WIDEST {
        beam_width *= 2;
    }
    beam_width
}

/// Whether alpha may become [`defaults::WIDE_ALPHA`].
pub(crate) fn may_widen(params: &BuildParams) -> bool {
    params.effort() == Effort::Adaptive && params.alpha() < defaults::WIDE_ALPHA
}

/// Decides about L and alpha in a bulk build that has linked the vertices `linked` of the order as well, if a decision is
/// due. Returns the share of neighbors that the searches of a sample missed, if they were counted.
pub(crate) fn adapt_to_build<E: Executor>(
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
    order: &[Slot],
    linked: Range<usize>,
) -> Result<Option<f64>, UpdateError> {
    let (metric, beam_width) =
        graph.read(|graph| (graph.host().metric(), graph.host().params().build_beam_width()));
    let len = sample_len(linked.end);
    match metric {
        Metric::InnerProduct if passes_power_of_two(&linked) => {
            let (next, [once, widest, _]) = (&order[linked.end..], MAX_MISSED_IN_ONE_PASS);
            let allowed =
                [if 2 * beam_width == WIDEST { widest } else { once }, f64::INFINITY, f64::INFINITY];
            adapt(executor, graph, linked.end, &next[..next.len().min(len)], allowed)
        }
        Metric::L2 | Metric::Cosine if linked.end == order.len() => {
            adapt(executor, graph, linked.end, &order[order.len() - len..], MAX_MISSED)
        }
        _ => Ok(None),
    }
}

/// Decides about L and alpha in an insert that has linked a `batch` but for its `duplicates`, if that has taken the number
/// of vertices from the start of `vertices` to its end, past a power of two.
pub(crate) fn adapt_to_growth<E: Executor>(
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
    batch: &[Slot],
    duplicates: &Duplicates,
    vertices: Range<usize>,
) -> Result<(), UpdateError> {
    if !passes_power_of_two(&vertices) {
        return Ok(());
    }
    let len = sample_len(vertices.end);
    let copies: HashSet<Slot> = duplicates.iter().map(|&(copy, _)| copy).collect();
    let mut sample = batch.to_vec();
    sample.retain(|slot| !copies.contains(slot));
    sample = sample.iter().copied().step_by(sample.len() / len.max(1) + 1).collect();
    let missing = len.saturating_sub(sample.len());
    graph.read(|graph| sample.extend(random_live(graph.host(), missing, vertices.end as u64)));
    adapt(executor, graph, vertices.end, &sample, MAX_MISSED_IN_ONE_PASS)?;
    Ok(())
}

/// Up to `count` of the live vertices, drawn at random.
pub(crate) fn random_live(graph: &Graph, count: usize, seed: u64) -> Vec<Slot> {
    let order = Permutation::new(graph.slots(), graph.params().seed() ^ seed);
    let slots = (0..graph.slots() as u32).map(|position| Slot::new(order.at(position)));
    slots.filter(|&slot| graph.keys().is_live(slot)).take(count).collect()
}

/// Up to `count` of the vertices, drawn at random.
pub(crate) fn in_random_order(vertices: &[Slot], count: usize, seed: u64) -> Vec<Slot> {
    let order = Permutation::new(vertices.len(), seed);
    (0..vertices.len().min(count) as u32).map(|position| vertices[order.at(position) as usize]).collect()
}

/// Whether a power of two lies between the ends of a range.
fn passes_power_of_two(range: &Range<usize>) -> bool {
    range.start.checked_ilog2() < range.end.checked_ilog2()
}

/// The number of vertices to search for, of this many.
fn sample_len(vertices: usize) -> usize {
    (vertices / SAMPLE_DIVISOR).min(MAX_SAMPLE)
}

/// Raises L and alpha if the searches for a sample miss neighbors among `vertices` linked ones: more than `allowed`, as
/// [`MAX_MISSED`] says. Returns the share that they missed, or `None` if nothing may be raised.
fn adapt<E: Executor>(
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
    vertices: usize,
    sample: &[Slot],
    allowed: [f64; 3],
) -> Result<Option<f64>, UpdateError> {
    let (params, metric, dimension) =
        graph.read(|graph| (*graph.host().params(), graph.host().metric(), graph.host().dimension()));
    let (mut beam_width, mut alpha) = (params.build_beam_width(), params.alpha());
    let may_raise = 2 * beam_width <= WIDEST;
    let may_widen = metric != Metric::InnerProduct && may_widen(&params);
    if params.effort() == Effort::Fixed
        || !(may_raise || may_widen)
        || vertices < MIN_VERTICES
        || sample.is_empty()
    {
        return Ok(None);
    }
    let checked = if may_raise { 2 * beam_width } else { CHECKED_BEAM };
    let [checked, wide] = [CandidateSearch::new(checked), CandidateSearch::wider_than(checked)];
    let counts = graph.read(|graph| count_missed(executor, graph, sample, checked, wide));
    let (missed, total) = counts.map_err(UpdateError::device)?;
    let share = Some(missed as f64 / total);
    let longer = dimension.max(SHORT_DIMENSION) as f64 / SHORT_DIMENSION as f64;
    let [once, twice, widen] = allowed;
    let allowed = [once, twice * longer, widen];
    let [once, twice, widen] = allowed.map(|allowed| misses_more(missed, total, allowed));
    if !once {
        return Ok(share);
    }
    for is_missed in [once, twice] {
        if is_missed && 2 * beam_width <= WIDEST {
            beam_width *= 2;
        }
    }
    if widen && may_widen {
        let rows = graph.read(|graph| executor.edge_rows(graph, sample)).map_err(UpdateError::device)?;
        let edges: usize = rows.iter().map(Vec::len).sum();
        let filled = params.min_degree(metric) as f64 + THIN * params.max_degree() as f64;
        let is_thin = (edges as f64) < filled * sample.len() as f64;
        if is_thin {
            alpha = defaults::WIDE_ALPHA;
        }
    }
    graph.change_host(|host| host.set_effort(beam_width, alpha)).map_err(UpdateError::device)?;
    Ok(share)
}

/// Whether more than this share of `total` neighbors was missed, and more than by chance.
pub(crate) fn misses_more(missed: usize, total: f64, share: f64) -> bool {
    missed > FEW_MISSED.max((share * total) as usize)
}

/// The difficulty of the data of a graph. Of the 10 nearest neighbors of a sample of its vertices, this is the share
/// that a beam of 1,024 finds and one of 256 misses: 0 where neighbors are easily found, 0.01 where few searches find
/// all. `None` if there are fewer than two vertices, or no vectors.
///
/// Cost: 512 searches. Runs on the threads of the executor.
pub fn missed_neighbors(executor: &CpuExecutor, graph: &Graph) -> Option<f64> {
    if graph.keys().live() < 2 || !graph.has_vectors() {
        return None;
    }
    let sample = random_live(graph, CHECKED, 0);
    let [checked, wide] = [CandidateSearch::new(CHECKED_BEAM), CandidateSearch::wider_than(CHECKED_BEAM)];
    let Ok((missed, total)) = count_missed(executor, graph, &sample, checked, wide);
    Some(missed as f64 / total)
}

/// How many of the nearest neighbors of some vertices, found by the `wide` searches, those that are `checked` miss; and how
/// many there are, at least 1.
pub(crate) fn count_missed<E: Executor>(
    executor: &E,
    graph: &E::Graph,
    sample: &[Slot],
    checked: CandidateSearch,
    wide: CandidateSearch,
) -> Result<(usize, f64), E::Error> {
    let mut sample = sample.to_vec();
    sample.sort_unstable();
    let nearest = |search| -> Result<_, E::Error> {
        let candidates = executor.find_candidates(graph, &sample, search)?;
        let mut nearest = executor.nearest_candidates(candidates, NEIGHBORS)?;
        // Executors return them in orders of their own.
        nearest.sort_unstable_by_key(|(vertex, _)| *vertex);
        Ok(nearest)
    };
    let (found, wide) = (nearest(checked)?, nearest(wide)?);
    let pairs = found.iter().zip(&wide);
    let missed = pairs.flat_map(|((_, found), (_, wide))| wide.iter().filter(|near| !found.contains(near)));
    let total: usize = wide.iter().map(|(_, wide)| wide.len()).sum();
    Ok((missed.count(), total.max(1) as f64))
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use jasper_core::{Key, MatrixView, Progress, Stage, no_progress, synthetic};
    use rand::RngExt as _;

    use super::*;
    use crate::{ChangeHooks, NewVectors, OnConflict, bulk_build, insert};

    /// The insert that takes an index past a power of two raises a beam that misses neighbors, and alpha where rows are thin
    /// besides, unless they were given. If it is cancelled, they stay.
    #[test]
    fn effort_follows_growth() {
        const DIMENSION: usize = 6;
        const BUILT: usize = MIN_VERTICES - 1000;
        let mut random = synthetic::rng(5);
        let rows: Vec<u8> = (0..(BUILT + 2000) * DIMENSION).map(|_| random.random()).collect();
        let (built, new) = rows.split_at(BUILT * DIMENSION);
        let [built, new] = [built, new].map(|rows| MatrixView::new(rows, DIMENSION).unwrap());
        let keys: Vec<Key> = (0..2000).map(|row| (BUILT + row) as Key).collect();
        let new = NewVectors::new(new, &keys, OnConflict::Refuse);
        let executor = CpuExecutor::new(2).unwrap();
        for (effort, is_raised) in [(Effort::Fixed, false), (Effort::Adaptive, true)] {
            let params = BuildParams::builder().max_degree(32).build_beam_width(4).effort(effort);
            let (mut graph, _) =
                bulk_build(&executor, built, None, Metric::L2, params.build().unwrap(), &mut no_progress)
                    .unwrap();
            let mut cancel = |news: Progress| match news.stage {
                Stage::Committing => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            };
            insert(&executor, &mut graph, new, ChangeHooks::new(&mut cancel)).unwrap_err();
            let before = *graph.params();
            assert_eq!(before.build_beam_width(), 4);
            assert!(before.alpha() < defaults::WIDE_ALPHA);
            insert(&executor, &mut graph, new, ChangeHooks::new(&mut no_progress)).unwrap();
            assert_eq!(graph.params().build_beam_width() > 4, is_raised);
            assert_eq!(graph.params().alpha() == defaults::WIDE_ALPHA, is_raised);
        }
    }
}
