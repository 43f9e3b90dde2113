//! A graph from rows, all at once.

use jasper_core::synthetic::permutation;
use jasper_core::{BuildParams, Element, Key, Metric, Progress, ProgressFn, Stage, VectorId, VectorSource};
use jasper_graph::{Graph, VectorError};

use crate::ingest::{add_rows, check_keys};
use crate::pipeline::{Exclusive, GraphLock, LinkError, link_all};
use crate::reconnect::reconnect;
use crate::{
    BuildShape, CheckpointError, Checkpoints, CpuExecutor, Executor, Existing, InsertError, LinkProgress,
    Linker, MemoryPlan, MutableGraph, SearchCost, free_host_memory, start,
};

/// What a bulk build was.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuildReport {
    /// Keys in the graph.
    pub keys: usize,
    /// Rows that were identical to an earlier one, and share its vertex.
    pub identical: usize,
    /// Vertices that no path led to, and that were given an edge.
    pub reconnected: usize,
    /// What it cost.
    pub cost: SearchCost,
}

/// What linking the vertices of a bulk build was.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkReport {
    /// Vertices that no path led to, and that were given an edge.
    pub reconnected: usize,
    /// What it cost.
    pub cost: SearchCost,
}

/// Batches up to this size may be as large as all that is linked before them: while a graph is small, its vertices
/// meet most of each other whatever the batch.
const FREE_BATCH: usize = 256;

/// The largest batch of a build of `rows` vertices.
pub fn largest_batch(rows: usize, params: &BuildParams) -> usize {
    batch_after(rows, params).min(rows)
}

/// The size of the batch that follows `linked` vertices.
fn batch_after(linked: usize, params: &BuildParams) -> usize {
    ((linked as f32 * params.max_batch_share()) as usize).max(linked.min(FREE_BATCH))
}

/// Builds a graph over `rows`, with the given keys or the row numbers.
///
/// Rows keep their order as slots; they are linked in a seeded random order, because a graph grown in the order of
/// sorted data loses recall (docs: experiments). The result depends on rows, parameters and seed alone.
///
/// Memory: [`BuildShape::plan_on_host`]. Of what a quarter of vectors and graph leaves free, rows of f32 get sketches while the
/// build runs, those linked first before others, because searches meet them more often. The graph is the same without.
///
/// # Errors
/// [`InsertError`]: rows that cannot be stored, keys that repeat, a source that cannot be read, a cancel.
pub fn bulk_build<T: Element>(
    executor: &CpuExecutor,
    rows: &dyn VectorSource<T>,
    keys: Option<&[Key]>,
    metric: Metric,
    params: BuildParams,
    progress: &mut ProgressFn<'_>,
) -> Result<(Graph<T>, BuildReport), InsertError> {
    let link = |graph: &mut Graph<T>, order: &[VectorId], progress: &mut ProgressFn<'_>| {
        link_on_host(executor, graph, order, None, progress)
    };
    bulk_build_by(executor, link, rows, keys, metric, params, progress)
}

/// Links `order` as [`bulk_build`] does, for [`bulk_build_by`]: with checkpoints, from the last one on, and to the end.
///
/// # Errors
/// [`InsertError`]: a checkpoint that cannot be written or taken up, a cancel. The graph is of no use then.
pub fn link_on_host<T: Element>(
    executor: &CpuExecutor,
    graph: &mut Graph<T>,
    order: &[VectorId],
    checkpoints: Option<Checkpoints<'_>>,
    progress: &mut ProgressFn<'_>,
) -> Result<LinkReport, InsertError> {
    let params = *graph.params();
    let growth = executor.pool().install(|| LinkProgress::resume(graph, order, checkpoints))?;
    let shape = BuildShape::of(graph);
    // Sketches change no link, so that fewer of them do where memory is short: what is free has room for the links too.
    let left = MemoryPlan::usable(free_host_memory()).saturating_sub(graph.adjacency().bytes() as u64);
    let (wanted, affordable) = (shape.sketches::<T>().0, shape.sketches_within::<T>(left).0);
    let sketched = wanted.min(order.len()).min(affordable);
    graph.vectors_mut().build_sketches(Some(&order[..sketched])).map_err(VectorError::from)?;
    let keep = |graph: &Graph<T>, write: &mut WriteFn<'_, T>| Ok(write(graph)?);
    let cell = &mut Exclusive(graph);
    let cost = link_growing(executor, cell, growth, &params, keep, progress)?;
    let reconnected = finish(executor, cell, order, progress)?;
    graph.vectors_mut().clear_sketches();
    Ok(LinkReport { reconnected, cost })
}

/// The end of a bulk build, once all of `order` is linked into the graph: it gets its other start points, and what no path
/// leads to is reconnected. Gives how many vertices that were.
///
/// # Errors
/// [`LinkError`]. The graph is of no use then.
pub fn finish<T: Element, E: Executor<T>>(
    executor: &E,
    cell: &mut impl GraphLock<E::Live>,
    order: &[VectorId],
    progress: &mut ProgressFn<'_>,
) -> Result<usize, LinkError<E::Error>> {
    cell.write(|graph| graph.change(|host| start::spread(host, order))).map_err(LinkError::Linker)?;
    reconnect(executor, cell, |graph, slot| graph.keys().is_live(slot), progress)
}

/// [`bulk_build`] where `link` links: it is given the graph, whose first start point is its only linked vertex, and all
/// others in the order they are linked in, for [`link_on_host`], or [`link_growing`] and [`finish`] on an executor of its
/// own. The executor given here does the rest.
///
/// # Errors
/// Those of [`bulk_build`], and of `link`.
pub fn bulk_build_by<T: Element>(
    executor: &CpuExecutor,
    link: impl FnOnce(&mut Graph<T>, &[VectorId], &mut ProgressFn<'_>) -> Result<LinkReport, InsertError>,
    rows: &dyn VectorSource<T>,
    keys: Option<&[Key]>,
    metric: Metric,
    params: BuildParams,
    progress: &mut ProgressFn<'_>,
) -> Result<(Graph<T>, BuildReport), InsertError> {
    let mut graph = Graph::new(metric, rows.dimension(), params).map_err(VectorError::from)?;
    if let Some(keys) = keys {
        check_keys(executor, &graph, keys, rows.len(), Existing::Refuse)?;
    }
    let slots = add_rows(executor, rows, metric, |change| change(&mut graph), progress)?;
    for (row, &slot) in slots.iter().enumerate() {
        graph.keys_mut().assign_unused(keys.map_or(row as Key, |keys| keys[row]), slot);
    }
    drop(slots);
    let mut report =
        BuildReport { keys: graph.keys().len(), identical: graph.keys().shared(), ..BuildReport::default() };
    let shuffled = || permutation(graph.slots(), params.seed()).into_iter().map(VectorId::new).collect();
    let (medoid, mut order): (_, Vec<VectorId>) = executor.pool().join(|| start::medoid(&graph), shuffled);
    let Some(medoid) = medoid else { return Ok((graph, report)) };
    graph.adjacency_mut().set_start_points(vec![medoid]);
    order.retain(|&slot| slot != medoid);
    LinkReport { reconnected: report.reconnected, cost: report.cost } = link(&mut graph, &order, progress)?;
    Ok((graph, report))
}

/// Writes a checkpoint of the links of a graph on the host.
pub type WriteFn<'a, T> = dyn FnMut(&Graph<T>) -> Result<(), CheckpointError> + 'a;

/// Links what is left of `growth` into a graph, by the batches of a bulk build: each as large as the parameters allow
/// after those before it. When a checkpoint is due, `keep` has the links brought to the host, and written.
///
/// # Errors
/// [`InsertError`]: of the linker, of `keep`, a cancel. The graph is of no use then, but for the last checkpoint, which
/// on a cancel is of all that was linked.
pub fn link_growing<T: Element, L: Linker<T>, C: GraphLock<L::Graph>>(
    linker: &L,
    cell: &mut C,
    mut growth: LinkProgress<'_>,
    params: &BuildParams,
    mut keep: impl FnMut(&L::Graph, &mut WriteFn<'_, T>) -> Result<(), InsertError>,
    progress: &mut ProgressFn<'_>,
) -> Result<SearchCost, InsertError> {
    let (rest, begun) = (growth.rest(), growth.after(0, SearchCost::default()).vertices);
    let size = |linked| batch_after(1 + begun + linked, params);
    let between = |cell: &C, done, cost| {
        let linked = growth.after(done, cost);
        let told =
            Progress { stage: Stage::Linking, done: linked.vertices, total: growth.total() }.report(progress);
        if growth.is_due(linked, told.is_err()) {
            cell.read(|graph| keep(graph, &mut |host| growth.write(host, linked)))?;
        }
        Ok::<(), InsertError>(told?)
    };
    let (_, cost) = link_all(linker, cell, rest, |_, found| Ok(found), size, between)?;
    Ok(growth.after(0, cost).cost)
}
