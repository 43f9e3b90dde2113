//! Bulk build: a graph from a set of vectors, in three steps.
//!
//! ```text
//! ingest   vectors -> Ingested    store the vectors, merge identical ones, choose the medoid and the order of linking
//! link     Ingested -> Linked     link batch after batch, on the CPU or on a device; reconnect what is unreachable
//! finish   Linked -> Graph        and a report
//! ```
//!
//! The vertices are linked in a seeded random order, because a graph grown in the order of sorted data loses recall
//! (docs: experiments). The graph depends on vectors, parameters and seed alone, not on the number of threads.

use jasper_core::synthetic::permutation;
use jasper_core::{BuildParams, Element, Key, Metric, ProgressFn, VectorId, VectorSource};
use jasper_graph::{Graph, SavedVectors, VectorError};

use crate::ingest::{add_rows, check_keys};
use crate::pipeline::{Exclusive, GraphLock, LinkError, LinkMode, link_batch};
use crate::reconnect::reconnect;
use crate::{
    BuildShape, Checkpoints, CpuExecutor, Executor, Existing, LinkProgress, MemoryPlan, MutableGraph,
    SearchCost, UpdateError, free_host_memory, start,
};

/// Statistics of a bulk build.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BuildReport {
    /// Keys in the graph.
    pub keys: usize,
    /// Vectors identical to an earlier one, whose vertex they share.
    pub identical: usize,
    /// Unreachable vertices that were given an edge.
    pub reconnected: usize,
    /// Operations performed.
    pub cost: SearchCost,
}

/// A graph whose vertices have no edges yet, and the order to link them in. Made by [`ingest`].
#[derive(Debug)]
pub struct Ingested<T: 'static> {
    /// The vectors under their keys. The only start point is the medoid; none if there are no vectors.
    pub graph: Graph<T>,
    /// All vertices but the medoid, shuffled.
    pub order: Vec<VectorId>,
}

/// A graph whose vertices are linked.
#[derive(Debug)]
pub struct Linked<T: 'static> {
    /// The graph.
    pub graph: Graph<T>,
    /// Unreachable vertices that were given an edge.
    pub reconnected: usize,
    /// Operations performed.
    pub cost: SearchCost,
}

impl<T: Element> Linked<T> {
    /// Restores the vectors that [`Ingested::quantize_vectors`] replaced.
    pub fn restore_vectors<U: Element>(self, saved: SavedVectors<U>) -> Linked<U> {
        let Self { graph, reconnected, cost } = self;
        Linked { graph: graph.restore_vectors(saved), reconnected, cost }
    }

    /// The finished graph, with a report.
    pub fn finish(self) -> (Graph<T>, BuildReport) {
        let Self { graph, reconnected, cost } = self;
        let (keys, identical) = (graph.keys().len(), graph.keys().shared());
        (graph, BuildReport { keys, identical, reconnected, cost })
    }
}

/// Builds a graph over `vectors` on the CPU, under the given keys or the row numbers.
///
/// Takes the memory of [`BuildShape::plan_on_host`].
///
/// # Errors
/// [`UpdateError`]: a vector cannot be stored, a key repeats, the source cannot be read, the build is cancelled.
pub fn bulk_build<T: Element>(
    executor: &CpuExecutor,
    vectors: &dyn VectorSource<T>,
    keys: Option<&[Key]>,
    metric: Metric,
    params: BuildParams,
    progress: &mut ProgressFn<'_>,
) -> Result<(Graph<T>, BuildReport), UpdateError> {
    let ingested = ingest(executor, vectors, keys, metric, params, progress)?;
    let linked = link_on_host(executor, ingested, None, progress)?;
    Ok(linked.finish())
}

/// Stores `vectors` as vertices without edges, under the given keys or the row numbers. Slots follow the order of the
/// vectors; identical vectors share the slot of the first.
///
/// # Errors
/// [`UpdateError`]: a vector cannot be stored, a key repeats, the source cannot be read, the build is cancelled.
pub fn ingest<T: Element>(
    executor: &CpuExecutor,
    vectors: &dyn VectorSource<T>,
    keys: Option<&[Key]>,
    metric: Metric,
    params: BuildParams,
    progress: &mut ProgressFn<'_>,
) -> Result<Ingested<T>, UpdateError> {
    let mut graph = Graph::new(metric, vectors.dimension(), params).map_err(VectorError::from)?;
    if let Some(keys) = keys {
        check_keys(executor, &graph, keys, vectors.len(), Existing::Refuse)?;
    }
    let slots = add_rows(executor, vectors, metric, |change| change(&mut graph), progress)?;
    for (row, &slot) in slots.iter().enumerate() {
        graph.keys_mut().assign_unused(keys.map_or(row as Key, |keys| keys[row]), slot);
    }
    drop(slots);
    let shuffled = || permutation(graph.slots(), params.seed()).into_iter().map(VectorId::new).collect();
    let (medoid, mut order): (_, Vec<VectorId>) = executor.pool().join(|| start::medoid(&graph), shuffled);
    if let Some(medoid) = medoid {
        graph.adjacency_mut().set_start_points(vec![medoid]);
        order.retain(|&slot| slot != medoid);
    }
    Ok(Ingested { graph, order })
}

/// Links the vertices of a bulk build on the CPU. With checkpoints, resumes from the last one and writes new ones.
///
/// Where memory is left, f32 vectors are sketched while the build runs, those linked first before others, because searches
/// meet them more often. Sketches change the speed of a build and never its graph.
///
/// # Errors
/// [`UpdateError`]: a checkpoint cannot be read or written, the build is cancelled.
pub fn link_on_host<T: Element>(
    executor: &CpuExecutor,
    ingested: Ingested<T>,
    checkpoints: Option<Checkpoints<'_>>,
    progress: &mut ProgressFn<'_>,
) -> Result<Linked<T>, UpdateError> {
    let Ingested { mut graph, order } = ingested;
    if graph.adjacency().start_points().is_empty() {
        return Ok(Linked { graph, reconnected: 0, cost: SearchCost::default() });
    }
    let mut linked = executor.pool().install(|| LinkProgress::resume(&mut graph, &order, checkpoints))?;
    let sketched = affordable_sketches(&graph).min(order.len());
    graph.vectors_mut().build_sketches(Some(&order[..sketched])).map_err(VectorError::from)?;
    loop {
        let reported = linked.report(progress);
        if linked.checkpoint_is_due(reported.is_err()) {
            linked.write_checkpoint(&graph)?;
        }
        reported?;
        let batch = linked.next_batch(graph.params());
        if batch.is_empty() {
            break;
        }
        let cell = &mut Exclusive(&mut graph);
        let Ok((_, cost)) = link_batch(executor, cell, batch, LinkMode::Bulk);
        linked.advance(batch.len(), cost);
    }
    let cost = linked.cost();
    let reconnected = connect(executor, &mut Exclusive(&mut graph), &order, progress)?;
    graph.vectors_mut().clear_sketches();
    Ok(Linked { graph, reconnected, cost })
}

/// How many vectors a build sketches: as many as are planned for and the free memory still holds beside the links.
fn affordable_sketches<T: Element>(graph: &Graph<T>) -> usize {
    let shape = BuildShape::of(graph);
    let left = MemoryPlan::usable(free_host_memory()).saturating_sub(graph.adjacency().bytes() as u64);
    shape.sketches::<T>().0.min(shape.sketches_within::<T>(left).0)
}

/// The last step of linking, when all of `order` has edges: adds start points, and reconnects unreachable vertices. Returns
/// how many those were.
///
/// # Errors
/// [`LinkError`]. The graph is then incomplete.
pub fn connect<T: Element, E: Executor<T>>(
    executor: &E,
    cell: &mut impl GraphLock<E::Live>,
    order: &[VectorId],
    progress: &mut ProgressFn<'_>,
) -> Result<usize, LinkError<E::Error>> {
    cell.write(|graph| graph.change(|host| start::spread(host, order))).map_err(LinkError::Linker)?;
    reconnect(executor, cell, |graph, slot| graph.keys().is_live(slot), progress)
}
