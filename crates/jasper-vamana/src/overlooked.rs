//! The last step of linking in a bulk build: vertices to which few edges lead are linked again, with a wide beam.
//!
//! ```text
//! for each of a sample of the vertices:
//!     wide   <- its 10 nearest found with a beam of 4 L, at most 1,024
//!     missed += those of wide that a search from the vertex itself does not find
//! limit <- a twentieth of the vertices if more than 1 in 200 were missed, else a fiftieth
//! for each vertex with less than half of the mean number of incoming edges, those with fewest first, up to limit:
//!     candidates <- those of such a search, and the edges it has
//!     link it as in an insert
//! ```
//!
//! The first pass searches with half of L. In a large graph, or where neighbors are hard to find, some of these searches
//! end far from their vertex. Its edges then lead there, and so do the searches of the second pass, which begin at the
//! vertex. The vertices that are near to it do not know it: no search finds it, whatever its beam
//! (docs/notebook/experiments.md#overlooked-vertices). A wider beam for all would cost several times as much.

use jasper_core::{Cancelled, Metric, Slot};

use crate::bulk_linker::largest_batch;
use crate::effort::{MIN_VERTICES, count_missed, in_random_order, misses_more, random_live};
use crate::pipeline::{LinkMode, link_batch};
use crate::{CandidateSearch, Executor, MutableGraph, OperationCounts, UpdateError};

/// One vertex in this many is sampled, at most [`MAX_SAMPLE`].
const SAMPLE_DIVISOR: usize = 512;
const MAX_SAMPLE: usize = 256;
/// The share of neighbors that searches may miss before more vertices are linked again.
const MAX_MISSED: f64 = 0.005;
/// One vertex in this many is linked again, at most: if searches find neighbors, and if they miss some.
const RELINKED_DIVISORS: [usize; 2] = [50, 20];
/// The most vertices of a batch.
const MAX_BATCH: usize = 4096;

/// Memory on the host for a graph of `rows` vertices.
pub(crate) fn overlooked_bytes(rows: usize) -> usize {
    rows * size_of::<u32>() + rows / RELINKED_DIVISORS[1] * 2 * size_of::<Slot>()
}

/// Links the vertices that others overlook again. Calls `goes_on` before each batch. Returns the cost.
///
/// # Errors
/// Returns [`UpdateError`] if a device fails or `goes_on` says that the build is cancelled.
pub(crate) fn relink_overlooked<E: Executor>(
    executor: &E,
    graph: &mut E::Graph,
    mut goes_on: impl FnMut() -> Result<(), Cancelled>,
) -> Result<OperationCounts, UpdateError> {
    const { assert!(MAX_BATCH <= E::SEARCH_CHUNK) };
    let host = graph.host();
    let (vertices, metric, params) = (host.slots(), host.metric(), *host.params());
    if metric == Metric::InnerProduct || vertices < MIN_VERTICES {
        return Ok(OperationCounts::default());
    }
    let sample = random_live(host, (vertices / SAMPLE_DIVISOR).min(MAX_SAMPLE), 0);
    let [own, wide] = [LinkMode::Refine, LinkMode::Overlooked].map(|mode| mode.search(&params, metric));
    let (missed, total) = count_missed(executor, graph, &sample, own, wide).map_err(UpdateError::device)?;
    let limit = vertices / RELINKED_DIVISORS[usize::from(misses_more(missed, total, MAX_MISSED))];
    let incoming = executor.incoming_edges(graph).map_err(UpdateError::device)?;
    let overlooked = find_overlooked(&incoming, limit, params.seed());
    // A part of the largest, because the candidates of a wide search take as much more memory.
    let batch = (largest_batch(vertices, &params) / CandidateSearch::WIDER).clamp(1, MAX_BATCH);
    let mut cost = OperationCounts::default();
    for batch in overlooked.chunks(batch) {
        goes_on()?;
        cost += link_batch(executor, graph, batch, LinkMode::Overlooked).map_err(UpdateError::device)?.cost;
    }
    Ok(cost)
}

/// The slots to which fewest edges lead, in random order: fewer than half of the mean, and at most `limit`.
fn find_overlooked(incoming: &[u32], limit: usize, seed: u64) -> Vec<Slot> {
    let edges: usize = incoming.iter().map(|&edges| edges as usize).sum();
    // The number of slots that each number of edges leads to, below half of the mean. Counting first
    // keeps the list of slots short, however many there are.
    let mut having = vec![0; edges.div_ceil(2 * incoming.len())];
    for &edges in incoming {
        if let Some(slots) = having.get_mut(edges as usize) {
            *slots += 1;
        }
    }
    let (mut left, mut bound) = (limit, 0);
    while bound < having.len() && having[bound] <= left {
        left -= having[bound];
        bound += 1;
    }
    let edges_of = |slot: Slot| incoming[slot.index()] as usize;
    // Of those with as many edges as the bound, only some fit.
    let most = having.len().min(bound + 1);
    let few: Vec<Slot> =
        (0..incoming.len()).map(Slot::from_index).filter(|&slot| edges_of(slot) < most).collect();
    let mut overlooked = in_random_order(&few, few.len(), seed);
    overlooked.retain(|&slot| {
        let fits = edges_of(slot) < bound || left > 0;
        left -= usize::from(fits && edges_of(slot) == bound);
        fits
    });
    overlooked
}

#[cfg(test)]
mod tests {
    use jasper_core::{BuildParams, MatrixView, Stage, no_progress, synthetic};
    use jasper_graph::Graph;
    use rand::RngExt as _;

    use super::*;
    use crate::{CpuExecutor, bulk_build};

    /// Vertices whose edges lead to a cluster far away, as after a search that ended there, get edges from those that are
    /// near to them.
    #[test]
    fn vertices_that_others_overlook_are_linked_again() {
        const NEAR: usize = 16_000;
        const ROWS: usize = 17_000;
        let mut random = synthetic::rng(8);
        let far = |row: usize| if row < NEAR { 0.0 } else { 100.0 };
        let rows: Vec<f32> = (0..4 * ROWS).map(|i| far(i / 4) + random.random::<f32>()).collect();
        let rows = MatrixView::new(&rows, 4).unwrap();
        let executor = CpuExecutor::new(2).unwrap();
        let params = BuildParams::builder().max_degree(16).build_beam_width(64).build().unwrap();
        let (mut graph, _) = bulk_build(&executor, rows, None, Metric::L2, params, &mut no_progress).unwrap();
        let all_rows = |graph: &Graph| -> Vec<Vec<Slot>> {
            (0..ROWS).map(|slot| graph.adjacency().neighbors(Slot::from_index(slot)).to_vec()).collect()
        };
        // The sample is among them.
        let mut overlooked = random_live(&graph, 400, 0);
        overlooked.retain(|slot| slot.index() < NEAR);
        for (slot, mut row) in all_rows(&graph).into_iter().enumerate() {
            // No edge leads back from far away.
            row.retain(|target| !overlooked.contains(target) && (slot < NEAR || target.index() >= NEAR));
            if overlooked.contains(&Slot::from_index(slot)) {
                row = (0..8).map(|i| Slot::from_index(NEAR + (slot + i) % (ROWS - NEAR))).collect();
            }
            graph.adjacency_mut().set_neighbors(Slot::from_index(slot), &row);
        }
        let damaged = all_rows(&graph);
        let cancelled = || Err(Cancelled { stage: Stage::Linking, done: ROWS, total: ROWS });
        relink_overlooked(&executor, &mut graph, cancelled).unwrap_err();
        assert!(all_rows(&graph) == damaged, "a cancelled call changed edges");
        relink_overlooked(&executor, &mut graph, || Ok(())).unwrap();
        let near = all_rows(&graph)[..NEAR].concat();
        let fewest = overlooked.iter().map(|slot| near.iter().filter(|&target| target == slot).count()).min();
        assert!(fewest >= Some(3), "{fewest:?} edges");
    }

    /// Those with fewest edges first, and none with half of the mean or more.
    #[test]
    fn few_are_linked_again() {
        // One edge leads to each of the first four, two to the next 36, and a hundred to the others.
        let incoming = [vec![1; 4], vec![2; 36], vec![100; 60]].concat();
        let mut found = find_overlooked(&incoming, 5, 7);
        found.sort_unstable();
        assert_eq!(found[..4], [0, 1, 2, 3].map(Slot::from_index));
        assert!(found.len() == 5 && (4..40).contains(&found[4].index()), "{found:?}");
        assert!(find_overlooked(&[100; 100], 5, 7).is_empty());
    }
}
