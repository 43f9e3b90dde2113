//! Batch insert: vectors into a graph that is in use (FreshDiskANN, Algorithm 2, for many vectors at once).
//!
//! ```text
//! transaction:
//!     store the vectors as tombstones              searches do not return them yet
//!     for each batch: link_batch                   see the module `pipeline`
//!     release duplicates of vertices already there
//!     add start points; reconnect what is unreachable, if enough vertices were not checked
//!     assign the keys                              now searches return them, all at once
//! ```
//!
//! Deviations from FreshDiskANN, and why each is right:
//! 1. **Batches on a frozen graph** instead of one vector at a time under locks: the result does not depend on threads.
//! 2. **Vertices of a batch are candidates of each other**, sampled ([`PeerSampling`]), because the caller's order may be
//!    sorted, and then the nearest neighbors of a vector are in its own batch.
//! 3. **Identical vectors share a vertex**, so many copies of one cannot fill each other's rows.

use std::collections::HashMap;

use jasper_core::{Element, Key, Metric, Progress, ProgressFn, Stage, VectorId, VectorSource};
use jasper_graph::{Graph, VectorError};

use crate::ingest::{add_rows, check_keys};
use crate::mutable::{LinksLock, transaction};
use crate::pipeline::{GraphLock, LinkMode, link_batch};
use crate::reconnect::{reconnect, reconnect_orphans};
use crate::{Executor, MutableGraph, PeerSampling, SearchCost, UpdateError, start};

/// Statistics of an insert.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct InsertReport {
    /// Keys added.
    pub keys: usize,
    /// Vectors identical to another, whose vertex they share. Under inner products, a short vector that is in the index
    /// already may get a vertex of its own: the search for it leads to longer ones.
    pub identical: usize,
    /// Vertices that were given an edge, because no path, or under inner products no neighbor, led to them.
    pub reconnected: usize,
    /// Operations performed.
    pub cost: SearchCost,
}

/// What to do with a key that is in the index already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Refuse the call.
    Refuse,
    /// Delete the old vector of the key when the new one is linked.
    Replace,
}

/// Vectors per batch: enough to keep a device busy (docs: experiments).
const BATCH: usize = 16_384;
/// Vectors keep the caller's order, which may be sorted: then each must be compared with all of its batch (docs: experiments).
/// If a sample of one in 32 adds no candidate, or one in 8 no second, the rest would add little: most inputs are unsorted.
const PEERS: PeerSampling = PeerSampling { group: BATCH, every: 32, more: 3 };
/// Otherwise executors that search for different numbers of vertices at once would build different graphs.
const _: () = assert!(BATCH <= crate::cpu::SEARCHED_AT_ONCE);
/// Batch size allowed for any graph. Larger batches are at most an eighth of the linked vertices: with sorted vectors inserted
/// into an empty index in one call, larger ones lost 0.03 of recall.
const SMALL_BATCH: usize = 512;
const BATCH_SHARE: usize = 8;

/// One vertex in this many not yet checked makes an insert end with a check of what is reachable. The check reads
/// every row once, which is then a few hundredths of what the inserts cost; for inner products, where short vectors hang on
/// few edges, a sixth.
const fn check_share(metric: Metric) -> usize {
    if matches!(metric, Metric::InnerProduct) { 512 } else { 64 }
}

/// Inserts vectors under `keys`. They are visible once the call returns, and not before.
///
/// # Errors
/// [`UpdateError`]; the graph is as it was.
pub fn insert<T: Element, E: Executor<T>>(
    executor: &E,
    cell: &mut impl GraphLock<E::Live>,
    rows: &dyn VectorSource<T>,
    keys: &[Key],
    existing: Existing,
    progress: &mut ProgressFn<'_>,
) -> Result<InsertReport, UpdateError> {
    cell.read(|graph| {
        graph.host().require_vectors()?;
        check_keys(executor, graph.host(), keys, rows.len(), existing)?;
        let (given, expected) = (rows.dimension(), graph.host().dimension());
        if given != expected {
            return Err(UpdateError::Vector(VectorError::Dimension { row: 0, given, expected }));
        }
        Ok(())
    })?;
    transaction(cell, UpdateError::device, |cell| {
        let (slots, report) = link_rows(executor, cell, rows, progress)?;
        change(cell, |host| {
            for (&key, &slot) in keys.iter().zip(&slots) {
                if existing == Existing::Replace {
                    // Its old vector can no longer be restored: the key is taken.
                    let _ = host.keys_mut().delete(key);
                }
                host.keys_mut().assign_unused(key, slot);
            }
        })?;
        Ok(report)
    })
}

/// Changes the host's half of the graph in a cell.
fn change<G: MutableGraph, R>(
    cell: &mut impl GraphLock<G>,
    change: impl FnOnce(&mut Graph<G::Element>) -> R,
) -> Result<R, UpdateError> {
    cell.write(|graph| graph.change(change)).map_err(UpdateError::device)
}

/// Stores and links the rows; gives the vertex of each.
fn link_rows<T: Element, E: Executor<T>>(
    executor: &E,
    cell: &mut impl GraphLock<E::Live>,
    rows: &dyn VectorSource<T>,
    progress: &mut ProgressFn<'_>,
) -> Result<(Vec<VectorId>, InsertReport), UpdateError> {
    let metric = cell.read(|graph| graph.host().metric());
    let mut slots = add_rows(executor, rows, metric, |add| change(cell, |host| add(host))?, progress)?;
    // Slots rise as their first rows do, so this is the order of the rows.
    let mut order = slots.clone();
    order.sort_unstable();
    order.dedup();
    let vertices = order.len();
    let order = match order.split_first() {
        Some((&first, rest)) if cell.read(|graph| graph.host().adjacency().start_points().is_empty()) => {
            change(cell, |host| host.adjacency_mut().set_start_points(vec![first]))?;
            rest
        }
        _ => &order,
    };
    let vertices_of = |graph: &E::Live| graph.host().keys().live() + graph.host().keys().tombstones();
    let before = cell.read(vertices_of) - order.len();
    let (mut duplicates, mut cost) = (Vec::new(), SearchCost::default());
    let mut done = 0;
    for batch in batches(order, before) {
        Progress { stage: Stage::Linking, done, total: order.len() }.report(progress)?;
        let mode = LinkMode::Insert { peers: Some(PEERS) };
        let (same, batch_cost) =
            link_batch(executor, &mut LinksLock::new(cell), batch, mode).map_err(UpdateError::device)?;
        duplicates.extend(same);
        cost += batch_cost;
        done += batch.len();
    }
    Progress { stage: Stage::Linking, done, total: order.len() }.report(progress)?;
    let known: HashMap<VectorId, VectorId> = duplicates.into_iter().collect();
    let linked: Vec<VectorId> = order.iter().copied().filter(|slot| !known.contains_key(slot)).collect();
    change(cell, |host| {
        known.keys().for_each(|&slot| host.release(slot));
        start::spread(host, &linked);
    })?;
    slots.iter_mut().for_each(|slot| *slot = known.get(slot).copied().unwrap_or(*slot));

    let mut report = InsertReport { keys: rows.len(), cost, ..InsertReport::default() };
    report.identical = rows.len() - (vertices - known.len());
    let unchecked = cell.read(|graph| graph.host().adjacency().unchecked()) + vertices;
    if unchecked * check_share(metric) >= cell.read(vertices_of) {
        // The new vertices are hidden yet, and a deleted one may be restored: all of them count.
        let wanted = |graph: &Graph<T>, slot| !graph.keys().is_free(slot);
        report.reconnected = reconnect(executor, cell, wanted, progress)?;
    } else {
        if metric == Metric::InnerProduct {
            report.reconnected = reconnect_orphans(executor, cell, &linked, progress)?;
        }
        change(cell, |host| host.adjacency_mut().set_unchecked(unchecked))?;
    }
    Ok((slots, report))
}

/// The batches of an insert of `order` into a graph of `before` vertices. They grow with the graph; those left are all of
/// the same size, because a small last one would leave a device idle.
fn batches(order: &[VectorId], before: usize) -> impl Iterator<Item = &[VectorId]> {
    let mut linked = 0;
    std::iter::from_fn(move || {
        let (there, left) = (before + linked, order.len() - linked);
        if left == 0 {
            return None;
        }
        let most = there.min(SMALL_BATCH.max(there / BATCH_SHARE)).min(BATCH);
        let len = left.div_ceil(left.div_ceil(most));
        linked += len;
        Some(&order[linked - len..linked])
    })
}
