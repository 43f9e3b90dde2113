//! Start points: the medoid, and vertices spread over the graph.

use std::collections::HashSet;

use jasper_core::{BitSet, Element, Metric, Neighbor, Slot};
use jasper_graph::Graph;
use rayon::prelude::*;

use crate::{Executor, MutableGraph};

/// Maximum number of slots that the medoid is computed from. More would not make the mean noticeably better.
const MEDOID_SAMPLE: usize = 1 << 16;
/// Slots per task. Tasks are added up in order, so the sum does not depend on the number of threads.
const SLOTS_PER_TASK: usize = 1 << 14;
/// Vertices per start point. The distances to start points then cost a search about as much as the hops that they save.
const VERTICES_PER_START: usize = 1024;
/// Number of start points of the largest graphs. On 106,557 dictionary entries, 128 give 10 to 18% more queries per
/// second than one, at the same recall and the same number of distances: the rows of start points stay in cache, those
/// of first hops do not. 512 cost more than they save (docs/src/experiments.md#many-start-points).
const MAX_STARTS: usize = 128;

/// The live vertex nearest to the mean, by squared L2 of the stored vectors; `None` if there is none. Both are computed
/// from a sample of the slots: any central vertex will do, and the choice changes recall by less than 0.001
/// (docs/src/experiments.md#simulation-before-the-implementation).
///
/// The mean is rounded to the element type, so that the ordinary distance kernel applies.
pub(crate) fn medoid<T: Element>(graph: &Graph<T>) -> Option<Slot> {
    let any = graph.keys().live_slots().next()?;
    let width = graph.vectors().padded(any).len();
    let step = graph.slots().div_ceil(MEDOID_SAMPLE);
    let tasks = (0..graph.slots().div_ceil(SLOTS_PER_TASK)).into_par_iter();
    let sample = |task: usize| {
        let slots = task * SLOTS_PER_TASK..graph.slots().min((task + 1) * SLOTS_PER_TASK);
        let slots = slots.filter(|slot| slot % step == 0).map(Slot::from_index);
        slots.filter(|&slot| graph.keys().is_live(slot))
    };
    let sum_of = |task| {
        let (mut sum, mut count) = (vec![0.0_f64; width], 0);
        let mut values = vec![0.0; width];
        for slot in sample(task) {
            count += 1;
            T::slice_to_f32(graph.vectors().padded(slot), &mut values);
            sum.iter_mut().zip(&values).for_each(|(sum, &x)| *sum += f64::from(x));
        }
        (sum, count)
    };
    let (mut sum, mut count) = (vec![0.0; width], 0);
    for (task_sum, task_count) in tasks.clone().map(sum_of).collect::<Vec<_>>() {
        sum.iter_mut().zip(task_sum).for_each(|(sum, x)| *sum += x);
        count += task_count;
    }
    let count = f64::from(count);
    let mean: Vec<T> = sum.iter().map(|sum| T::from_f32((sum / count) as f32)).collect();
    let distance = T::distance_fns().squared_l2;
    let nearest = |task| {
        sample(task).map(|slot| Neighbor::new(distance(&mean, graph.vectors().padded(slot)), slot)).min()
    };
    Some(tasks.filter_map(nearest).min().map_or(any, Neighbor::slot))
}

/// The number of start points for a graph of `vertices` vertices. For inner products there is one, because long
/// vectors would fill the frontier from the start, whatever their direction, and recall would fall below 0.95.
fn start_count(metric: Metric, vertices: usize) -> usize {
    match metric {
        Metric::L2 | Metric::Cosine => (vertices / VERTICES_PER_START).clamp(1, MAX_STARTS),
        Metric::InnerProduct => 1,
    }
}

/// Sets the start points of a bulk build that has `linked` these vertices, besides the medoid: every 1,024th of them.
/// They depend on the order of linking alone, so that a resumed build has the same.
///
/// Every vertex is reachable from the first start point; the others are shortcuts.
pub(crate) fn set_start_points<T: Element>(graph: &mut Graph<T>, linked: &[Slot]) {
    let starts = graph.adjacency().start_points();
    let count = start_count(graph.metric(), linked.len());
    if let Some(&medoid) = starts.first()
        && starts.len() < count
    {
        let others = linked.iter().copied().step_by(VERTICES_PER_START).take(count - 1);
        let starts = std::iter::once(medoid).chain(others).collect();
        graph.adjacency_mut().set_start_points(starts);
    }
}

/// Adds start points, evenly spaced among `candidates`, up to the number that suits the size of the graph.
pub(crate) fn add_start_points<T: Element>(graph: &mut Graph<T>, candidates: &[Slot]) {
    let vertices = graph.keys().live() + graph.keys().tombstones();
    let mut starts = graph.adjacency().start_points().to_vec();
    let missing = start_count(graph.metric(), vertices).saturating_sub(starts.len());
    if missing == 0 || candidates.is_empty() {
        return;
    }
    let step = candidates.len().div_ceil(missing);
    let added: Vec<_> =
        candidates.iter().copied().step_by(step).filter(|slot| !starts.contains(slot)).collect();
    starts.extend(added);
    graph.adjacency_mut().set_start_points(starts);
}

/// The start points. Each tombstone among them is replaced by a live vertex nearby.
pub(crate) fn live_start_points<T: Element, E: Executor<T>>(
    executor: &E,
    graph: &E::Graph,
) -> Result<Vec<Slot>, E::Error> {
    let host = graph.host();
    let (mut known, mut starts) = (HashSet::new(), Vec::new());
    for &start in host.adjacency().start_points() {
        starts.extend(first_live_from(executor, graph, start)?.filter(|&slot| known.insert(slot)));
    }
    if starts.is_empty() {
        starts.extend(host.keys().live_slots().next());
    }
    Ok(starts)
}

/// The vertex itself if it is live, else the first live one of a breadth-first search from it.
fn first_live_from<T: Element, E: Executor<T>>(
    executor: &E,
    graph: &E::Graph,
    start: Slot,
) -> Result<Option<Slot>, E::Error> {
    let (mut reached, mut level) = (BitSet::new(), vec![start]);
    while !level.is_empty() {
        if let Some(&live) = level.iter().find(|&&slot| graph.host().keys().is_live(slot)) {
            return Ok(Some(live));
        }
        let next = executor.edge_rows(graph, &level)?.into_iter().flatten();
        level = next.filter(|neighbor| reached.insert(neighbor.index())).collect();
    }
    Ok(None)
}
