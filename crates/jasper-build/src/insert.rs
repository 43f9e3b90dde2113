//! Rows into a graph that is in use.

use std::collections::HashMap;

use jasper_core::{Element, Key, ProgressFn, RowSource, VectorId};
use jasper_graph::{Graph, RowError};

use crate::ingest::{add_rows, check_keys};
use crate::pipeline::{GraphCell, link_all};
use crate::{Executor, InsertError, Work, connectivity, start};

/// What an insert was.
#[derive(Clone, Copy, Debug, Default)]
pub struct InsertReport {
    /// Keys added.
    pub keys: usize,
    /// Rows that were identical to another, and share its vertex.
    pub identical: usize,
    /// Vertices that had to be linked again because no path led to them.
    pub repaired: usize,
    /// What it cost.
    pub work: Work,
}

/// What becomes of a key that is in the index already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// The call is refused.
    Refuse,
    /// The key's old vector is deleted when the new one is linked.
    Replace,
}

/// Rows of a batch. They keep the caller's order, which may be sorted, so each is compared with all of its batch:
/// 512 distances beside the few thousand of its search, and a batch small enough that the next one sees it soon.
pub(crate) const BATCH: usize = 512;

/// One vertex in this many not yet checked makes an insert end with a check of what is reachable. The check reads
/// every row once, which is then a few hundredths of what the inserts cost.
const CHECK_SHARE: usize = 64;

/// Inserts `rows` under `keys`. They are found from the moment the call returns, and not before; on an error the
/// graph is as it was.
///
/// # Errors
/// [`InsertError`].
pub fn insert<T: Element, E: Executor<T>>(
    executor: &E,
    cell: &mut impl GraphCell<Graph<T>>,
    rows: &dyn RowSource<T>,
    keys: &[Key],
    existing: Existing,
    progress: &mut ProgressFn<'_>,
) -> Result<InsertReport, InsertError> {
    cell.read(|graph| {
        check_keys(graph, keys, rows.len(), existing)?;
        let (given, expected) = (rows.dimension(), graph.dimension());
        if given != expected {
            return Err(InsertError::Row(RowError::Dimension { row: 0, given, expected }));
        }
        Ok(())
    })?;
    cell.write(Graph::begin);
    match link_rows(executor, cell, rows, progress) {
        Ok((slots, report)) => {
            cell.write(|graph| {
                for (&key, &slot) in keys.iter().zip(&slots) {
                    // Its old vector can be restored no more: the key is taken.
                    let _ = graph.delete_key(key);
                    graph.assign_unused_key(key, slot);
                }
                graph.commit();
            });
            Ok(report)
        }
        Err(error) => {
            cell.write(Graph::rollback);
            Err(error)
        }
    }
}

/// Stores and links the rows; gives the vertex of each.
fn link_rows<T: Element, E: Executor<T>>(
    executor: &E,
    cell: &mut impl GraphCell<Graph<T>>,
    rows: &dyn RowSource<T>,
    progress: &mut ProgressFn<'_>,
) -> Result<(Vec<VectorId>, InsertReport), InsertError> {
    let mut slots = add_rows(rows, |change| cell.write(|graph| change(graph)), progress)?;
    let mut order = slots.clone();
    order.sort_unstable();
    order.dedup();
    order.sort_by_key({
        let first: HashMap<_, _> = slots.iter().enumerate().rev().map(|(row, &slot)| (slot, row)).collect();
        move |slot| first[slot]
    });
    let vertices = order.len();
    let order = match order.split_first() {
        Some((&first, rest)) if cell.read(|graph| graph.start_points().is_empty()) => {
            cell.write(|graph| graph.set_start_points(vec![first]));
            rest
        }
        _ => &order,
    };
    let before = cell.read(|graph| graph.live() + graph.hidden()) - order.len();
    let widen = |graph: &Graph<T>, found| executor.join_batch(graph, found);
    let size = |linked: usize| (before + linked).min(BATCH);
    let (identical, work) = link_all(executor, cell, order, widen, size, progress)?;
    let known: HashMap<VectorId, VectorId> = identical.into_iter().collect();
    let linked: Vec<VectorId> = order.iter().copied().filter(|slot| !known.contains_key(slot)).collect();
    cell.write(|graph| {
        known.keys().for_each(|&slot| graph.release(slot));
        start::spread(graph, &linked);
    });
    slots.iter_mut().for_each(|slot| *slot = known.get(slot).copied().unwrap_or(*slot));

    let mut report = InsertReport { keys: rows.len(), work, ..InsertReport::default() };
    report.identical = rows.len() - (vertices - known.len());
    let unchecked = cell.read(Graph::unchecked) + vertices;
    if unchecked * CHECK_SHARE >= cell.read(|graph| graph.live() + graph.hidden()) {
        // The new vertices are hidden yet, and a deleted one may be restored: all of them count.
        let wanted = |graph: &Graph<T>, slot| !graph.is_free(slot);
        report.repaired = connectivity::repair(executor, cell, wanted, progress)?;
    } else {
        cell.write(|graph| graph.set_unchecked(unchecked));
    }
    Ok((slots, report))
}
