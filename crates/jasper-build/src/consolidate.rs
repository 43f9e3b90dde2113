//! Deleted vertices out of the graph: FreshDiskANN's Algorithm 4, in one pass without races.

use jasper_core::{Cancelled, Element, Progress, ProgressFn, Stage, VectorId};
use jasper_graph::Graph;

use crate::pipeline::GraphCell;
use crate::start::live_start_points;
use crate::{Executor, Work, connectivity};

/// What a consolidation was.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConsolidateReport {
    /// Slots freed.
    pub freed: usize,
    /// Vertices that had to be linked again because no path led to them.
    pub repaired: usize,
    /// What it cost.
    pub work: Work,
}

/// Vertices whose rows are worked out between two looks at the progress closure.
const ROWS_AT_ONCE: usize = 4096;

/// Takes the hidden vertices out of the graph and frees their slots; deleted keys can no longer be restored.
///
/// A live row is written from that row and rows of hidden vertices, which nobody writes: so the order of rows does not
/// matter, and nothing races. Cost: every row is read; those with hidden neighbours are worked out anew.
///
/// # Errors
/// [`Cancelled`]; the graph is as it was.
pub fn consolidate<T: Element, E: Executor<T>>(
    executor: &E,
    cell: &mut impl GraphCell<Graph<T>>,
    progress: &mut ProgressFn<'_>,
) -> Result<ConsolidateReport, Cancelled> {
    let freed = cell.read(Graph::hidden);
    if freed == 0 {
        return Ok(ConsolidateReport::default());
    }
    cell.write(Graph::begin);
    match repair_rows(executor, cell, progress) {
        Ok((work, repaired)) => {
            cell.write(|graph| {
                graph.release_hidden();
                graph.commit();
            });
            Ok(ConsolidateReport { freed, repaired, work })
        }
        Err(cancelled) => {
            cell.write(Graph::rollback);
            Err(cancelled)
        }
    }
}

fn repair_rows<T: Element, E: Executor<T>>(
    executor: &E,
    cell: &mut impl GraphCell<Graph<T>>,
    progress: &mut ProgressFn<'_>,
) -> Result<(Work, usize), Cancelled> {
    let start_points = cell.read(live_start_points);
    let vertices: Vec<VectorId> = cell.read(|graph| graph.live_slots().collect());
    let mut work = Work::default();
    for (i, rows) in vertices.chunks(ROWS_AT_ONCE).enumerate() {
        Progress { stage: Stage::Consolidating, done: i * ROWS_AT_ONCE, total: vertices.len() }
            .report(progress)?;
        let updates = cell.read(|graph| executor.bypass_hidden(graph, rows));
        let Ok(published) = cell.write(|graph| executor.publish(graph, updates));
        work += published;
    }
    cell.write(|graph| graph.set_start_points(start_points));
    let repaired = connectivity::repair(executor, cell, Graph::is_live, progress)?;
    Ok((work, repaired))
}
