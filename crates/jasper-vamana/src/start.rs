//! Start points: the medoid, and vertices spread over the graph. The mean of the vectors, which is their center under
//! inner products.

use std::collections::HashSet;
use std::ops::Range;

use jasper_core::{BitSet, Element, Metric, Neighbor, Slot, with_element};
use jasper_data::parallel;
use jasper_graph::{Graph, VectorChunk};

use crate::{Executor, MutableGraph};

/// Maximum number of slots that the mean and the medoid are computed from. More would not make the mean noticeably better.
const MEAN_SAMPLE: usize = 1 << 16;
/// Slots per task. Tasks are added up in order, so the sum does not depend on the number of threads.
const SLOTS_PER_TASK: usize = 1 << 14;
/// Vertices per start point. The distances to start points then cost a search about as much as the hops that they save.
const VERTICES_PER_START: usize = 1024;
/// Number of start points of the largest graphs. On 106,557 dictionary entries, 128 give 10 to 18% more queries per
/// second than one, at the same recall and the same number of distances: the rows of start points stay in cache, those
/// of first hops do not. 512 cost more than they save (docs/notebook/experiments.md#many-start-points).
pub(crate) const MAX_STARTS: usize = 128;

/// The number of tasks, and the vertices of each, live or tombstones, of a sample of the slots.
fn tasks_of(graph: &Graph) -> (Range<usize>, impl Fn(usize) -> Vec<Slot>) {
    let step = graph.slots().div_ceil(MEAN_SAMPLE).max(1);
    let sample = move |task: usize| {
        let slots = task * SLOTS_PER_TASK..graph.slots().min((task + 1) * SLOTS_PER_TASK);
        let slots = slots.filter(|slot| slot % step == 0).map(Slot::from_index);
        slots.filter(|&slot| !graph.keys().is_free(slot)).collect()
    };
    (0..graph.slots().div_ceil(SLOTS_PER_TASK), sample)
}

/// `[padded dimension]`: the mean of the stored vectors; zeros if there are none. It is computed from a sample of the
/// slots, in the current rayon pool.
pub(crate) fn mean(graph: &Graph) -> Vec<f32> {
    let (width, (tasks, sample)) = (graph.vectors().padded_dimension(), tasks_of(graph));
    let sum_of = |task| {
        let (mut sum, slots) = (vec![0.0_f64; width], sample(task));
        let mut values = vec![0.0; width];
        for &slot in &slots {
            graph.vectors().read_f32(slot, &mut values);
            sum.iter_mut().zip(&values).for_each(|(sum, &x)| *sum += f64::from(x));
        }
        (sum, slots.len())
    };
    let (mut sum, mut count) = (vec![0.0; width], 0);
    for (task_sum, task_count) in parallel::map(tasks, sum_of) {
        sum.iter_mut().zip(task_sum).for_each(|(sum, x)| *sum += x);
        count += task_count;
    }
    let count = count.max(1) as f64;
    sum.into_iter().map(|sum| (sum / count) as f32).collect()
}

/// The vertex nearest to the [mean], by squared L2 of the stored vectors; `None` if there is none. It is one of a sample
/// of the slots: any central vertex will do, and the choice changes recall by less than 0.001
/// (docs/notebook/experiments.md#simulation-before-the-implementation).
///
/// The mean is rounded to the element type, so that the ordinary distance kernel applies.
pub(crate) fn medoid(graph: &Graph, mean: &[f32]) -> Option<Slot> {
    with_element!(graph.element(), T => medoid_of::<T>(graph, mean))
}

fn medoid_of<T: Element>(graph: &Graph, mean: &[f32]) -> Option<Slot> {
    let any = graph.keys().vertices().next()?;
    let mean: Vec<T> = mean.iter().copied().map(T::from_f32).collect();
    let (tasks, sample) = tasks_of(graph);
    let distance = T::distance_fns().squared_l2;
    let to_mean = |slot| Neighbor::new(distance(&mean, graph.vectors().padded(slot)), slot);
    let nearest = |task| sample(task).into_iter().map(to_mean).min();
    Some(parallel::map(tasks, nearest).into_iter().flatten().min().map_or(any, Neighbor::slot))
}

/// Makes the [mean] of the vectors their [center](jasper_graph::VectorTable::center), where the metric has one. Runs in the
/// current rayon pool. Cost: one pass over the vectors.
pub(crate) fn set_center(graph: &mut Graph, mean: &[f32]) {
    if graph.metric() == Metric::InnerProduct {
        let update = |chunks: Vec<VectorChunk<'_>>| parallel::for_each(chunks, VectorChunk::update_terms);
        graph.set_center(&mean[..graph.dimension()], update);
    }
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
pub(crate) fn set_start_points(graph: &mut Graph, linked: &[Slot]) {
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
pub(crate) fn add_start_points(graph: &mut Graph, candidates: &[Slot]) {
    let vertices = graph.keys().live() + graph.keys().tombstones();
    add_start_points_up_to(start_count(graph.metric(), vertices), graph, candidates);
}

/// Adds start points, evenly spaced among `candidates`, up to this number.
pub(crate) fn add_start_points_up_to(count: usize, graph: &mut Graph, candidates: &[Slot]) {
    let mut starts = graph.adjacency().start_points().to_vec();
    let missing = count.saturating_sub(starts.len());
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
pub(crate) fn live_start_points<E: Executor>(executor: &E, graph: &E::Graph) -> Result<Vec<Slot>, E::Error> {
    let host = graph.host();
    if host.keys().live() == 0 {
        return Ok(Vec::new());
    }
    let (mut known, mut starts, mut reached) = (HashSet::new(), Vec::new(), BitSet::new());
    for &start in host.adjacency().start_points() {
        let live = first_live_from(executor, graph, start, &mut reached)?;
        starts.extend(live.filter(|&slot| known.insert(slot)));
    }
    if starts.is_empty() {
        starts.extend(host.keys().live_slots().next());
    }
    Ok(starts)
}

/// The vertex itself if it is live, else the first live one of a breadth-first search from it, through vertices that are
/// not `reached` yet. `None` if there is no such one: the searches of all start points together read a row at most once.
fn first_live_from<E: Executor>(
    executor: &E,
    graph: &E::Graph,
    start: Slot,
    reached: &mut BitSet,
) -> Result<Option<Slot>, E::Error> {
    let mut level = vec![start];
    while !level.is_empty() {
        if let Some(&live) = level.iter().find(|&&slot| graph.host().keys().is_live(slot)) {
            return Ok(Some(live));
        }
        let next = executor.edge_rows(graph, &level)?.into_iter().flatten();
        level = next.filter(|neighbor| reached.insert(neighbor.index())).collect();
    }
    Ok(None)
}
