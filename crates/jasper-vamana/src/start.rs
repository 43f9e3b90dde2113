//! Where searches begin: at the vertex nearest the mean, and at vertices spread over the set.

use std::collections::HashSet;

use jasper_core::{BitSet, Element, Metric, Neighbor, VectorId};
use jasper_graph::Graph;
use rayon::prelude::*;

use crate::{Executor, MutableGraph};

/// The live vertex nearest the mean, by squared L2 of the stored rows; none if there is none.
///
/// The mean is rounded to the element type, so that every row is compared by the ordinary kernel. Any central vertex
/// will do: the choice moves recall by less than 0.001 (docs: experiments). So in large graphs both are of an even sample:
/// two passes over all rows would be a good part of what a device takes to link them.
pub(crate) fn medoid<T: Element>(graph: &Graph<T>) -> Option<VectorId> {
    let any = graph.keys().live_slots().next()?;
    let width = graph.vectors().padded(any).len();
    let step = graph.slots().div_ceil(SAMPLED);
    let parts = (0..graph.slots().div_ceil(SLOTS_A_PART)).into_par_iter();
    let live = |part: usize| {
        let slots = part * SLOTS_A_PART..graph.slots().min((part + 1) * SLOTS_A_PART);
        slots
            .filter(|slot| slot % step == 0)
            .map(VectorId::from_index)
            .filter(|&slot| graph.keys().is_live(slot))
    };
    let add = |sums: &mut [f64], row: &[f64]| sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
    let sums_of = |part| {
        let (mut sums, mut count) = (vec![0.0_f64; width], 0);
        for slot in live(part) {
            count += 1;
            let row = graph.vectors().padded(slot);
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(x.to_f32()));
        }
        (sums, count)
    };
    let (mut sums, mut count) = (vec![0.0; width], 0);
    for (of_part, live) in parts.clone().map(sums_of).collect::<Vec<_>>() {
        add(&mut sums, &of_part);
        count += live;
    }
    let count = f64::from(count);
    let mean: Vec<T> = sums.iter().map(|sum| T::from_f32((sum / count) as f32)).collect();
    let distance = T::kernels().squared_l2;
    let nearest = |part| {
        live(part).map(|slot| Neighbor::new(distance(&mean, graph.vectors().padded(slot)), slot)).min()
    };
    Some(parts.filter_map(nearest).min().map_or(any, Neighbor::id))
}

/// Most slots whose rows are looked at: enough for a mean of any data.
const SAMPLED: usize = 1 << 16;

/// Slots whose rows are added up by one thread. Parts are added in their order, so that the sum is that of any number of
/// threads.
const SLOTS_A_PART: usize = 1 << 14;

/// One start point for this many vertices: the distances they cost a search are those of the hops they save it.
const VERTICES_PER_START: usize = 1024;
/// Start points of the largest graphs. On 106,557 dictionary entries, 128 give 10 to 18% more queries a second than one,
/// at the same recall and the same number of distances: the start points' rows stay in cache, those of first hops do
/// not. 512 cost more than they save (experiments.md).
const MOST_STARTS: usize = 128;

/// Adds some of `candidates`, evenly, so that there are as many start points as suit the graph.
///
/// The first start point is the one from which everything can be reached; the others are short cuts. Inner products get
/// none: long rows would fill the frontier from the start, whatever their direction, and recall falls below 0.95.
pub(crate) fn spread<T: Element>(graph: &mut Graph<T>, candidates: &[VectorId]) {
    let vertices = graph.keys().live() + graph.keys().tombstones();
    let mut starts = graph.adjacency().start_points().to_vec();
    let missing = (vertices / VERTICES_PER_START).clamp(1, MOST_STARTS).saturating_sub(starts.len());
    if missing == 0 || candidates.is_empty() || graph.metric() == Metric::InnerProduct {
        return;
    }
    let spread =
        candidates.iter().step_by(candidates.len().div_ceil(missing)).filter(|slot| !starts.contains(slot));
    starts.extend(spread.copied().collect::<Vec<_>>());
    graph.adjacency_mut().set_start_points(starts);
}

/// The start points without the hidden ones, in whose place comes a live vertex near each, if there is one.
pub(crate) fn live_start_points<T: Element, E: Executor<T>>(
    executor: &E,
    graph: &E::Live,
) -> Result<Vec<VectorId>, E::Error> {
    let host = graph.host();
    let (mut known, mut starts) = (HashSet::new(), Vec::new());
    for &start in host.adjacency().start_points() {
        starts.extend(nearest_live(executor, graph, start)?.filter(|&slot| known.insert(slot)));
    }
    if starts.is_empty() {
        starts.extend(host.keys().live_slots().next());
    }
    Ok(starts)
}

/// The vertex itself, or the first live one on a walk outwards, one more edge away at a time.
fn nearest_live<T: Element, E: Executor<T>>(
    executor: &E,
    graph: &E::Live,
    start: VectorId,
) -> Result<Option<VectorId>, E::Error> {
    let (mut seen, mut open) = (BitSet::new(), vec![start]);
    while !open.is_empty() {
        if let Some(&live) = open.iter().find(|&&slot| graph.host().keys().is_live(slot)) {
            return Ok(Some(live));
        }
        let beyond = executor.neighbors(graph.links(), &open)?.into_iter().flatten();
        open = beyond.filter(|neighbor| seen.insert(neighbor.index())).collect();
    }
    Ok(None)
}
