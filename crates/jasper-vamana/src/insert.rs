//! Batch insert: vectors into a graph that is in use (FreshDiskANN, Algorithm 2, for many vectors at once).
//!
//! ```text
//! transaction:
//!     make a spanning tree, unless there are many vectors      see the module `spanning_tree`
//!     store the vectors, without keys                          traversed but not returned, like deleted ones
//!     set the center, if there are few                         under inner products: see `VectorTable::center` of jasper-graph
//!     quantize_for_linking                                     a device may quantize all vectors to bytes until the end
//!     for each batch: link_batch                               see the module `pipeline`; a few vectors at once
//!         raise the beam width if searches miss neighbors      see the module `effort`
//!     release duplicates of vertices already there
//!     add start points
//!     link the landmarks among them                            see the module `landmarks`
//!     give an edge to each vertex that no path leads to        see the module `reconnect`
//!     commit point                                             the last place where it can be cancelled
//!     assign the keys                                          now searches return the vectors, all at once
//! ```
//!
//! Deviations from FreshDiskANN, and why each is right:
//! 1. **Batches on a frozen graph** instead of one vector at a time under locks: the result does not depend on threads.
//! 2. **Vertices of a batch (peers) are candidates of each other**, as far as they are sampled ([`PeerSampling`]): the
//!    caller's order may be sorted, and then the nearest neighbors of a vector are in its own batch.
//! 3. **Identical vectors share a vertex**, so many copies of one cannot fill each other's rows.

use std::collections::HashMap;
use std::ops::AddAssign;

use jasper_attributes::Frame;
use jasper_core::{BuildParams, Key, Progress, ProgressFn, Slot, Stage, Vectors};
use jasper_data::parallel;
use jasper_graph::{Graph, VectorError, check_element};

use crate::bulk_linker::batch_len;
use crate::effort::adapt_to_growth;
use crate::ingest::{add_vectors, check_keys};
use crate::landmarks::link_landmarks;
use crate::pipeline::{LinkMode, LinkedBatch, find_edges, link_batch, publish};
use crate::reconnect::{reconnect, reconnect_new};
use crate::spanning_tree::{attach_to_tree, ensure_tree};
use crate::{
    ChangeHooks, Executor, GraphAccess, MutableGraph, OperationCounts, PeerSampling, Transaction,
    UpdateError, Vertices, start, transaction,
};

/// Statistics of a bulk build or an insert.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct InsertReport {
    /// Keys added.
    pub keys: usize,
    /// The first of these keys, after which those follow that an index has chosen. `None` of a bulk build, and if there are none.
    pub first_key: Option<Key>,
    /// Vectors identical to another, whose vertex they share. Under inner products, inserting a short vector that is
    /// already in the index may add a vertex, because the search for it leads to longer ones.
    pub duplicates: usize,
    /// Vertices that were unreachable and were given an edge.
    pub reconnected: usize,
    /// Operations performed.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub cost: OperationCounts,
}

impl InsertReport {
    /// The report of some of the keys of an insert, in which the other operations are divided by keys.
    #[doc(hidden)]
    #[must_use]
    pub fn share(self, keys: usize, first_key: Option<Key>, duplicates: usize) -> Self {
        let share = |all: u64| all * keys as u64 / (self.keys as u64).max(1);
        let OperationCounts { hops, distances, prune_distances } = self.cost;
        let cost = OperationCounts {
            hops: share(hops),
            distances: share(distances),
            prune_distances: share(prune_distances),
        };
        Self { keys, first_key, duplicates, reconnected: share(self.reconnected as u64) as usize, cost }
    }
}

impl AddAssign for InsertReport {
    fn add_assign(&mut self, other: Self) {
        self.keys += other.keys;
        self.first_key = self.first_key.or(other.first_key);
        self.duplicates += other.duplicates;
        self.reconnected += other.reconnected;
        self.cost += other.cost;
    }
}

/// Vectors to insert.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct NewVectors<'a> {
    /// The vectors, which are converted to the element type of the graph.
    pub vectors: Vectors<'a>,
    /// The key of each.
    pub keys: &'a [Key],
    /// What to do with keys that are already in the index.
    pub on_conflict: OnConflict,
    /// The attributes of each. Those of a key that is replaced go with its vector.
    pub attributes: Option<&'a Frame>,
}

impl<'a> NewVectors<'a> {
    /// Vectors without attributes.
    pub fn new(vectors: impl Into<Vectors<'a>>, keys: &'a [Key], on_conflict: OnConflict) -> Self {
        Self { vectors: vectors.into(), keys, on_conflict, attributes: None }
    }

    /// Sets the attributes, a row for each vector.
    #[must_use]
    pub fn with_attributes(self, attributes: Option<&'a Frame>) -> Self {
        Self { attributes, ..self }
    }
}

/// What an insert does with a key that is already in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// Refuse the call.
    Refuse,
    /// Delete the old vector of the key when the new one is linked.
    Replace,
}

/// Vectors per batch: enough to keep a device busy (docs/notebook/experiments.md#inserts-batches-of-16384).
const BATCH: usize = 16_384;
/// Up to this size, a batch may be as large as the graph so far. Larger ones are at most an eighth of it: with sorted
/// vectors inserted into an empty index in one call, larger ones lost 0.03 of recall.
const INSERT_DOUBLING_BATCH: usize = 512;
const INSERT_BATCH_SHARE: f32 = 1.0 / 8.0;

/// An insert of at least one vector per this many vertices ends with a check of all vertices for reachability, which
/// reads every row once: a few hundredths of its time. Smaller inserts keep a spanning tree instead.
const CHECK_DIVISOR: usize = 64;

/// Below this many live vertices, an insert that takes their number past a power of two computes the center again. The
/// mean of as many is within a few hundredths of their spread from that of all.
const CENTERED_VERTICES: usize = 1024;

/// Up to this many vertices are linked [at once](link_few): searches wait for a fraction of a millisecond.
const FEW: usize = 4;

/// The fewest peers that a vertex is compared with first, if its batch has as many: fewer would miss some of several
/// sources that take turns.
const MIN_SAMPLED: usize = 64;

/// Which peers each vertex of a batch is compared with. Vectors keep the caller's order: in sorted input, each needs to
/// be compared with its whole batch (docs/notebook/experiments.md#insert-batch-size). Most input is unsorted, so a vector is
/// compared with 1/32 of a large batch first, with 1/8 if that added a candidate, and with all if it added two.
fn peers(batch_len: usize) -> PeerSampling {
    PeerSampling { stride: (batch_len / MIN_SAMPLED).clamp(1, 32), second_round: 3 }
}

/// Inserts vectors. They are visible once the call returns, and not before.
///
/// # Errors
/// Returns [`UpdateError`]; the graph is unchanged.
pub fn insert<E: Executor>(
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
    new: NewVectors<'_>,
    hooks: ChangeHooks<'_>,
) -> Result<InsertReport, UpdateError> {
    graph.read(|graph| check_insert(executor, graph.host(), new))?;
    let NewVectors { vectors, keys, on_conflict, attributes } = new;
    // A batch must be one chunk: executors with different chunks would build different graphs.
    const { assert!(BATCH <= E::SEARCH_CHUNK) };
    transaction(graph, |graph| {
        let (slots, mut report) = store_and_link(executor, graph, vectors, hooks.progress)?;
        report.first_key = keys.first().copied();
        hooks.commit_point(keys.len())?;
        let mut assign = |host: &mut Graph| {
            if on_conflict == OnConflict::Replace {
                let is_replaced = |key: &Key| host.keys().slot_of(*key).is_some();
                let replaced: Vec<Key> = keys.iter().copied().filter(is_replaced).collect();
                host.keys_mut().delete_all(&replaced).expect("they are live");
            }
            for (&key, &slot) in keys.iter().zip(&slots) {
                host.keys_mut().assign_unused(key, slot);
            }
            if let Some(attributes) = attributes {
                host.keys_mut().set_attributes(keys, attributes).expect("they were checked");
            }
        };
        graph.finish(&mut assign)?;
        Ok(report)
    })
}

/// Checks what can be checked of an insert without reading the vectors.
///
/// # Errors
/// Returns the error of [`insert`].
pub fn check_insert<E: Executor>(
    executor: &E,
    graph: &Graph,
    NewVectors { vectors, keys, on_conflict, attributes }: NewVectors<'_>,
) -> Result<(), UpdateError> {
    graph.require_vectors()?;
    check_keys(executor.host_pool(), graph, keys, vectors.len(), on_conflict)?;
    if let Some(attributes) = attributes {
        graph.keys().attributes().check(keys, attributes, true)?;
    }
    check_element(vectors.element(), graph.element())?;
    let (given, expected) = (vectors.dimension(), graph.dimension());
    if given == expected { Ok(()) } else { Err(VectorError::Dimension { row: 0, given, expected }.into()) }
}

/// Stores and links the vectors; returns the vertex of each.
fn store_and_link<E: Executor>(
    executor: &E,
    graph: &mut Transaction<'_, E::Graph>,
    vectors: Vectors<'_>,
    progress: &mut ProgressFn<'_>,
) -> Result<(Vec<Slot>, InsertReport), UpdateError> {
    let has_tree = graph.read(|graph| vectors.len() * CHECK_DIVISOR < graph.host().keys().live());
    if has_tree {
        ensure_tree(executor, graph)?;
    } else {
        graph.change_host(|host| host.set_spanning_tree(None))?;
    }
    let before = graph.read(|graph| graph.host().keys().live());
    let mut slots = add_vectors(executor, graph, vectors, progress)?;
    let has_doubled = before.checked_ilog2() < (before + slots.len()).checked_ilog2();
    if before < CENTERED_VERTICES && has_doubled {
        let mean = graph.read(|graph| {
            let host = graph.host();
            parallel::install(executor.host_pool(), || start::mean(host))
        });
        graph.change_host(|host| {
            parallel::install(executor.host_pool(), || start::set_center(host, &mean));
        })?;
    }
    // Slots ascend in the order of the first vectors that have them, so this is the caller's order.
    let mut new_vertices = slots.clone();
    new_vertices.sort_unstable();
    new_vertices.dedup();
    let has_no_start = graph.read(|graph| graph.host().adjacency().start_points().is_empty());
    let order = match new_vertices.split_first() {
        Some((&first, others)) if has_no_start => {
            graph.change_host(|host| host.adjacency_mut().set_start_points(vec![first]))?;
            others
        }
        _ => &new_vertices,
    };
    let settled = if (1..=FEW).contains(&order.len()) {
        link_few(executor, graph, order, progress)?
    } else {
        let batches = link_in_batches(executor, graph, order, progress)?;
        settle(executor, graph, order, batches)?
    };
    let Settled { duplicates, linked, without_parent, cost } = settled;
    // New vertices have no keys yet.
    link_landmarks(executor, graph, Vertices::All, &linked).map_err(UpdateError::device)?;
    slots.iter_mut().for_each(|slot| *slot = duplicates.get(slot).copied().unwrap_or(*slot));
    let reconnected = keep_reachable(executor, graph, &linked, without_parent, progress)?;
    let identical = vectors.len() - (new_vertices.len() - duplicates.len());
    Ok((
        slots,
        InsertReport { keys: vectors.len(), first_key: None, duplicates: identical, reconnected, cost },
    ))
}

/// New vertices that are linked.
struct Settled {
    /// The new vertices that were not linked, and those with the same vectors.
    duplicates: HashMap<Slot, Slot>,
    /// The others, ascending.
    linked: Vec<Slot>,
    /// Vertices for which no parent in the spanning tree was found.
    without_parent: Vec<Slot>,
    cost: OperationCounts,
}

/// Links a few new vertices in one batch. All that is written is written at once: on a busy index, each further wait for
/// the searches takes longer than the work.
fn link_few<E: Executor>(
    executor: &E,
    graph: &mut Transaction<'_, E::Graph>,
    order: &[Slot],
    progress: &mut ProgressFn<'_>,
) -> Result<Settled, UpdateError> {
    Progress { stage: Stage::Linking, done: 0, total: order.len() }.report(progress)?;
    let mode = LinkMode::Insert(peers(order.len()));
    let edges = find_edges(executor, graph, order, mode).map_err(UpdateError::device)?;
    let settled = graph.exclusively(|graph| {
        let batch = publish(executor, graph, edges, mode).map_err(UpdateError::device)?;
        settle(executor, graph, order, batch)
    })?;
    Progress { stage: Stage::Linking, done: order.len(), total: order.len() }.report(progress)?;
    Ok(settled)
}

/// Releases the duplicates of a batch, adds start points, and finds parents in the spanning tree.
fn settle<E: Executor>(
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
    order: &[Slot],
    LinkedBatch { duplicates, detached, cost }: LinkedBatch,
) -> Result<Settled, UpdateError> {
    let duplicates: HashMap<Slot, Slot> = duplicates.into_iter().collect();
    let linked: Vec<Slot> = order.iter().copied().filter(|slot| !duplicates.contains_key(slot)).collect();
    graph.change_host(|host| {
        duplicates.keys().for_each(|&slot| host.release(slot));
        start::add_start_points(host, &linked);
    })?;
    let pending = [&detached[..], &linked].concat();
    let without_parent = attach_to_tree(executor, graph, pending, &[])?;
    Ok(Settled { duplicates, linked, without_parent, cost })
}

/// Links new vertices in the order given; returns the results of all batches together.
fn link_in_batches<E: Executor>(
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
    order: &[Slot],
    progress: &mut ProgressFn<'_>,
) -> Result<LinkedBatch, UpdateError> {
    let distances = order.len() as u64 * graph.read(|graph| distances_per_link(graph.host().params()));
    executor.quantize_for_linking(graph, order, distances).map_err(UpdateError::device)?;
    let vertices = |graph: &E::Graph| graph.host().keys().live() + graph.host().keys().tombstones();
    let before = graph.read(vertices) - order.len();
    let (mut all, mut done) = (LinkedBatch::default(), 0);
    for batch in batches(order, before) {
        Progress { stage: Stage::Linking, done, total: order.len() }.report(progress)?;
        let linked = link_batch(executor, graph, batch, LinkMode::Insert(peers(batch.len())))
            .map_err(UpdateError::device)?;
        let vertices = before + done..before + done + batch.len();
        adapt_to_growth(executor, graph, batch, &linked.duplicates, vertices)?;
        all.duplicates.extend(linked.duplicates);
        all.detached.extend(linked.detached);
        all.cost += linked.cost;
        done += batch.len();
    }
    Progress { stage: Stage::Linking, done, total: order.len() }.report(progress)?;
    Ok(all)
}

/// Makes every vertex reachable again: those that are `left` without a parent in the spanning tree, if there is one. The
/// `linked` ones are new and ascend. Returns the number of vertices that were unreachable.
fn keep_reachable<E: Executor>(
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
    linked: &[Slot],
    mut left: Vec<Slot>,
    progress: &mut ProgressFn<'_>,
) -> Result<usize, UpdateError> {
    let mut reconnected = 0;
    if graph.read(|graph| graph.host().adjacency().spanning_tree().is_some()) {
        let new: Vec<Slot> = left.iter().copied().filter(|slot| linked.binary_search(slot).is_ok()).collect();
        if !new.is_empty() {
            // Each gets an edge. The new edge may replace another; the target of that one then needs a parent. New
            // vertices that have a parent need none: an edge leads to them from a vertex that the start leads to.
            let added = reconnect_new(executor, graph, &new, progress)?;
            reconnected += added.total;
            left.extend(added.evicted);
            left = attach_to_tree(executor, graph, left, &added.edges)?;
        }
        if left.is_empty() {
            return Ok(reconnected);
        }
    }
    // New vertices have no keys yet, and deleted ones may be restored: all of them must be reachable.
    let unreachable = reconnect(executor, graph, Vertices::All, progress)?;
    Ok(reconnected + unreachable)
}

/// About how many distances it takes to link a vertex, for [`Executor::quantize_for_linking`]: its search expands as
/// many vertices as its beam is wide, and computes distances to a fourth of their neighbors. This is less than the cost
/// model counts for queries, because rows are not full, and many neighbors of expanded vertices were visited before.
fn distances_per_link(params: &BuildParams) -> u64 {
    (params.build_beam_width() * params.max_degree() / 4) as u64
}

/// The batches of an insert of `order` into a graph of `before` vertices. They grow with the graph. The last ones have
/// the same size, because a small last batch would leave a device idle.
fn batches(order: &[Slot], before: usize) -> impl Iterator<Item = &[Slot]> {
    let mut linked = 0;
    std::iter::from_fn(move || {
        let (vertices, left) = (before + linked, order.len() - linked);
        if left == 0 {
            return None;
        }
        let max_len = batch_len(vertices, INSERT_BATCH_SHARE, INSERT_DOUBLING_BATCH).min(BATCH);
        let len = left.div_ceil(left.div_ceil(max_len));
        linked += len;
        Some(&order[linked - len..linked])
    })
}
