//! Bulk build: a graph from a set of vectors, in three steps.
//!
//! ```text
//! ingest   vectors  -> Ingested    store the vectors, merge identical ones, choose the medoid and the order of linking
//! link     Ingested -> Linked      link batch after batch, on the CPU or on a device; reconnect unreachable vertices
//! finish   Linked   -> Graph       and a report
//! ```
//!
//! The vertices are linked in a seeded random order, because a graph grown in the order of sorted data loses recall
//! (docs/notebook/experiments.md#simulation-before-the-implementation). The graph depends on vectors, parameters and seed
//! alone, not on the number of threads.

use jasper_core::synthetic::Permutation;
use jasper_core::{BuildParams, Key, Metric, ProgressFn, Slot, Vectors};
use jasper_data::parallel;
use jasper_graph::{Graph, SketchChunk, Sketches, VectorError, VectorTable};

use crate::ingest::{add_vectors, check_keys};
use crate::{
    BuildSpec, BulkLinker, Checkpoints, CpuExecutor, InsertReport, MemoryPlan, OnConflict, OperationCounts,
    ScalarQuantizer, UpdateError, free_host_memory, start,
};

/// A graph whose vertices have no edges yet, and the order to link them in: the result of [`ingest`].
#[derive(Debug)]
pub struct Ingested {
    /// The graph of the vectors under their keys. Its only start point is the medoid, or none if there are no vectors.
    pub graph: Graph,
    /// All vertices but the medoid, shuffled.
    pub order: Vec<Slot>,
}

/// A graph whose vertices are linked.
#[derive(Debug)]
pub struct Linked {
    /// The graph.
    pub graph: Graph,
    /// Unreachable vertices that were given an edge.
    pub reconnected: usize,
    /// Operations performed.
    pub cost: OperationCounts,
    /// The share of the nearest neighbors of a sample that searches with a beam of 2 L missed, when that was last
    /// measured, to decide about L.
    pub missed: Option<f64>,
}

impl Linked {
    /// The finished graph, with a report.
    pub fn finish(self) -> (Graph, InsertReport) {
        let Self { graph, reconnected, cost, .. } = self;
        let (keys, duplicates) = (graph.keys().len(), graph.keys().duplicate_keys());
        (graph, InsertReport { keys, first_key: None, duplicates, reconnected, cost })
    }
}

/// Builds a graph over `vectors` on the CPU, under `keys`, or under the row indices if `None`.
///
/// [`BuildSpec::plan_on_host`] predicts the memory that this takes.
///
/// # Errors
/// Returns [`UpdateError`] if a vector cannot be stored, a key repeats, the source cannot be read, or the build is
/// cancelled.
pub fn bulk_build<'a>(
    executor: &CpuExecutor,
    vectors: impl Into<Vectors<'a>>,
    keys: Option<&[Key]>,
    metric: Metric,
    params: BuildParams,
    progress: &mut ProgressFn<'_>,
) -> Result<(Graph, InsertReport), UpdateError> {
    let ingested = ingest(executor, vectors.into(), keys, metric, params, progress)?;
    let linked = link_on_host(executor, ingested, None, None, progress)?;
    Ok(linked.finish())
}

/// Stores `vectors` as vertices without edges, under `keys`, or under the row indices if `None`. Slots follow the order
/// of the vectors; identical vectors share the slot of the first.
///
/// # Errors
/// Returns [`UpdateError`] if a vector cannot be stored, a key repeats, the source cannot be read, or the build is
/// cancelled.
pub fn ingest(
    executor: &CpuExecutor,
    vectors: Vectors<'_>,
    keys: Option<&[Key]>,
    metric: Metric,
    params: BuildParams,
    progress: &mut ProgressFn<'_>,
) -> Result<Ingested, UpdateError> {
    let (element, dimension) = (vectors.element(), vectors.dimension());
    let mut graph = Graph::new(element, metric, dimension, params).map_err(VectorError::from)?;
    if let Some(keys) = keys {
        check_keys(executor.pool(), &graph, keys, vectors.len(), OnConflict::Refuse)?;
    }
    let slots = add_vectors(executor, &mut graph, vectors, progress)?;
    let key = |row: usize| keys.map_or(row as Key, |keys| keys[row]);
    graph.keys_mut().assign_first(slots.into_iter().enumerate().map(|(row, slot)| (key(row), slot)));
    let mut order: Vec<Slot> = bytemuck::zeroed_vec(graph.slots());
    let medoid = parallel::install(executor.pool(), || {
        let mean = start::mean(&graph);
        start::set_center(&mut graph, &mean);
        let shuffled = Permutation::new(graph.slots(), params.seed());
        parallel::fill(&mut order, |position| Slot::new(shuffled.at(position as u32)));
        start::medoid(&graph, &mean)
    });
    if let Some(medoid) = medoid {
        graph.adjacency_mut().set_start_points(vec![medoid]);
        order.retain(|&slot| slot != medoid);
    }
    Ok(Ingested { graph, order })
}

/// Links the vertices of a bulk build on the CPU, by distances of vectors quantized to bytes if there is a `quantizer`.
/// With checkpoints, resumes from the last one and writes new ones.
///
/// Without a quantizer, if there is memory left, f32 vectors get *sketches* during the build: 8-bit copies that bound a
/// distance from below, so that most vectors need not be read. Those linked first get them first, because searches
/// visit them more often. Sketches change the speed of a build and never its graph.
///
/// # Errors
/// Returns [`UpdateError`] if a checkpoint cannot be read or written, or the build is cancelled.
pub fn link_on_host(
    executor: &CpuExecutor,
    ingested: Ingested,
    quantizer: Option<&ScalarQuantizer>,
    checkpoints: Option<Checkpoints<'_>>,
    progress: &mut ProgressFn<'_>,
) -> Result<Linked, UpdateError> {
    let Ingested { mut graph, order } = ingested;
    let linker =
        parallel::install(executor.pool(), || BulkLinker::new(&mut graph, &order, quantizer, checkpoints))?;
    match quantizer {
        Some(quantizer) => parallel::install(executor.pool(), || quantizer.quantize_graph(&mut graph))?,
        None => {
            let sketches = affordable_sketches(&graph).min(order.len());
            let sketches = make_sketches(executor, graph.vectors(), Some(&order[..sketches]))?;
            graph.vectors_mut().set_sketches(sketches);
        }
    }
    let mut linked = linker.run(executor, graph, progress)?;
    linked.graph.vectors_mut().clear_sq8();
    linked.graph.vectors_mut().set_sketches(None);
    Ok(linked)
}

/// Makes [sketches](VectorTable::new_sketches) of the vectors in `slots`, or of all, with the threads of the executor.
///
/// # Errors
/// Returns [`VectorError`] if memory cannot be allocated.
pub fn make_sketches(
    executor: &CpuExecutor,
    vectors: &VectorTable,
    slots: Option<&[Slot]>,
) -> Result<Option<Sketches>, VectorError> {
    let compute = |chunks: Vec<SketchChunk<'_>>| {
        parallel::map_on(Some(executor.pool()), chunks, SketchChunk::compute);
    };
    Ok(vectors.new_sketches(slots, compute)?)
}

/// The number of vectors that a build sketches: as many as are planned for and fit into the memory that the edges leave
/// free.
fn affordable_sketches(graph: &Graph) -> usize {
    let spec = BuildSpec::of(graph);
    let left = MemoryPlan::usable(free_host_memory()).saturating_sub(graph.adjacency().bytes() as u64);
    spec.sketches().0.min(spec.sketches_within(left).0)
}
