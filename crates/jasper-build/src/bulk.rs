//! A graph from rows, all at once.

use jasper_core::synthetic::permutation;
use jasper_core::{BuildParams, Element, Key, Metric, ProgressFn, RowSource, VectorId};
use jasper_graph::{Graph, RowError};

use crate::ingest::{add_rows, check_keys};
use crate::pipeline::{Exclusive, GraphCell, LinkError, link_all};
use crate::{Executor, Existing, InsertError, Linker, MemoryEstimate, Work, connectivity, start};

/// What a bulk build was.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuildReport {
    /// Keys in the graph.
    pub keys: usize,
    /// Rows that were identical to an earlier one, and share its vertex.
    pub identical: usize,
    /// Vertices that had to be linked again because no path led to them.
    pub repaired: usize,
    /// What it cost.
    pub work: Work,
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
/// Memory: [`MemoryEstimate`]. Of what a quarter of vectors and graph leaves free, rows of f32 get sketches while the
/// build runs, those linked first before others, because searches meet them more often. The graph is the same without.
///
/// # Errors
/// [`InsertError`]: rows that cannot be stored, keys that repeat, a source that cannot be read, a cancel.
pub fn bulk_build<T: Element, E: Executor<T, Graph = Graph<T>, Live = Graph<T>>>(
    executor: &E,
    rows: &dyn RowSource<T>,
    keys: Option<&[Key]>,
    metric: Metric,
    params: BuildParams,
    progress: &mut ProgressFn<'_>,
) -> Result<(Graph<T>, BuildReport), InsertError> {
    let link = |graph: &mut Graph<T>, order: &[VectorId], progress: &mut ProgressFn<'_>| {
        let memory = MemoryEstimate::of_build::<T>(graph.slots(), graph.dimension(), metric, &params);
        let sketched = memory.sketched_rows::<T>(graph.dimension()).min(order.len());
        graph.sketch_some(&order[..sketched]).map_err(RowError::from)?;
        Ok(link_growing(executor, &mut Exclusive(graph), order, &params, progress)?)
    };
    bulk_build_by(executor, link, rows, keys, metric, params, progress)
}

/// [`bulk_build`] where `link` links: it is given the graph, whose first start point is its only linked vertex, and all
/// others in the order they are linked in, for [`link_growing`] on a linker of its own. The executor does the rest.
///
/// # Errors
/// Those of [`bulk_build`], and of `link`.
pub fn bulk_build_by<T: Element, E: Executor<T, Graph = Graph<T>, Live = Graph<T>>>(
    executor: &E,
    link: impl FnOnce(&mut Graph<T>, &[VectorId], &mut ProgressFn<'_>) -> Result<Work, InsertError>,
    rows: &dyn RowSource<T>,
    keys: Option<&[Key]>,
    metric: Metric,
    params: BuildParams,
    progress: &mut ProgressFn<'_>,
) -> Result<(Graph<T>, BuildReport), InsertError> {
    let mut graph = Graph::new(metric, rows.dimension(), params).map_err(RowError::from)?;
    if let Some(keys) = keys {
        check_keys(&graph, keys, rows.len(), Existing::Refuse)?;
    }
    let slots = add_rows(rows, |change| change(&mut graph), progress)?;
    for (row, &slot) in slots.iter().enumerate() {
        graph.assign_unused_key(keys.map_or(row as Key, |keys| keys[row]), slot);
    }
    drop(slots);
    let mut report =
        BuildReport { keys: graph.keys(), identical: graph.shared_keys(), ..BuildReport::default() };
    let Some(medoid) = executor.install(|| start::medoid(&graph)) else { return Ok((graph, report)) };
    graph.set_start_points(vec![medoid]);
    let mut order: Vec<VectorId> =
        permutation(graph.slots(), params.seed()).into_iter().map(VectorId::new).collect();
    order.retain(|&slot| slot != medoid);
    report.work = link(&mut graph, &order, progress)?;
    start::spread(&mut graph, &order);
    report.repaired = connectivity::repair(executor, &mut Exclusive(&mut graph), Graph::is_live, progress)?;
    graph.forget_sketches();
    Ok((graph, report))
}

/// Links `order` into a graph with one linked vertex, by the batches of a bulk build: each as large as the parameters
/// allow after those before it.
///
/// # Errors
/// [`LinkError`]; the graph is of no use then.
pub fn link_growing<T: Element, L: Linker<T>>(
    linker: &L,
    cell: &mut impl GraphCell<L::Graph>,
    order: &[VectorId],
    params: &BuildParams,
    progress: &mut ProgressFn<'_>,
) -> Result<Work, LinkError<L::Error>> {
    let size = |linked| batch_after(1 + linked, params);
    let (_, work) = link_all(linker, cell, order, |_, found| Ok(found), size, progress)?;
    Ok(work)
}
