//! Deleted vertices out of the graph: FreshDiskANN's Algorithm 4, in one pass without races.

use jasper_core::{Element, Progress, ProgressFn, Stage, VectorId};
use jasper_graph::Graph;

use crate::mutable::{LinksLock, transaction};
use crate::pipeline::{GraphLock, LinkError};
use crate::reconnect::reconnect;
use crate::start::live_start_points;
use crate::{Executor, MutableGraph, SearchCost, UpdateError};

/// What a consolidation was.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConsolidateReport {
    /// Slots freed.
    pub freed: usize,
    /// Vertices that no path led to, and that were given an edge.
    pub reconnected: usize,
    /// What it cost.
    pub cost: SearchCost,
}

/// Takes the hidden vertices out of the graph and frees their slots; deleted keys can no longer be restored.
///
/// A live row is written from that row and rows of hidden vertices, which nobody writes: so the order of rows does not
/// matter, and nothing races. Cost: every row is read; those with hidden neighbours are worked out anew.
///
/// # Errors
/// [`UpdateError`]; the graph is as it was.
pub fn consolidate<T: Element, E: Executor<T>>(
    executor: &E,
    cell: &mut impl GraphLock<E::Live>,
    progress: &mut ProgressFn<'_>,
) -> Result<ConsolidateReport, UpdateError> {
    let freed = cell.read(|graph| graph.host().keys().tombstones());
    if freed == 0 {
        return Ok(ConsolidateReport::default());
    }
    cell.read(|graph| graph.host().require_vectors())?;
    let (cost, reconnected) =
        transaction(cell, LinkError::Linker, |cell| consolidate_rows(executor, cell, progress))?;
    Ok(ConsolidateReport { freed, reconnected, cost })
}

fn consolidate_rows<T: Element, E: Executor<T>>(
    executor: &E,
    cell: &mut impl GraphLock<E::Live>,
    progress: &mut ProgressFn<'_>,
) -> Result<(SearchCost, usize), LinkError<E::Error>> {
    let start_points = cell.read(|graph| live_start_points(executor, graph)).map_err(LinkError::Linker)?;
    let vertices = cell.read(|graph| executor.rows_to_repair(graph.links())).map_err(LinkError::Linker)?;
    let mut cost = SearchCost::default();
    for (i, rows) in vertices.chunks(E::SEARCHED_AT_ONCE).enumerate() {
        Progress { stage: Stage::Consolidating, done: i * E::SEARCHED_AT_ONCE, total: vertices.len() }
            .report(progress)?;
        cost += repair(executor, &mut LinksLock::new(cell), rows).map_err(LinkError::Linker)?;
    }
    cell.write(|graph| graph.change(|host| host.adjacency_mut().set_start_points(start_points)))
        .map_err(LinkError::Linker)?;
    let reconnected = reconnect(executor, cell, |graph, slot| graph.keys().is_live(slot), progress)?;
    cell.write(|graph| graph.change(Graph::release_tombstones)).map_err(LinkError::Linker)?;
    Ok((cost, reconnected))
}

/// Takes the hidden neighbours out of some rows.
fn repair<T: Element, E: Executor<T>>(
    executor: &E,
    cell: &mut impl GraphLock<E::Graph>,
    vertices: &[VectorId],
) -> Result<SearchCost, E::Error> {
    let updates = cell.read(|graph| executor.repair_rows(graph, vertices))?;
    cell.write(|graph| executor.publish(graph, updates))
}
