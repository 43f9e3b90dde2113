//! Every live vertex can be reached from the first start point: counted, and repaired where it does not hold.
//!
//! Pruning keeps no promise about reachability, and neither does a delete; a vertex that no path leads to is stored and
//! never found. So bulk builds, larger inserts and consolidations end with [`repair`].

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use jasper_core::{Cancelled, Element, Neighbor, Progress, ProgressFn, Stage, VectorId};
use jasper_graph::Graph;
use rayon::prelude::*;

use crate::Executor;
use crate::insert::BATCH;
use crate::pipeline::{GraphCell, link_batch};

/// A set of slots that several threads add to.
#[derive(Debug)]
pub struct Reached(Vec<AtomicU32>);

impl Reached {
    fn none_of<T: Element>(graph: &Graph<T>) -> Self {
        Self((0..graph.slots().div_ceil(32)).map(|_| AtomicU32::new(0)).collect())
    }

    /// Whether a path leads to the slot.
    pub fn contains(&self, slot: VectorId) -> bool {
        self.0[slot.index() / 32].load(Relaxed) >> (slot.index() % 32) & 1 == 1
    }

    /// Adds a slot; false if it was there. That is looked at first: most were, and looking disturbs nobody.
    fn insert(&self, slot: VectorId) -> bool {
        let bit = 1 << (slot.index() % 32);
        !self.contains(slot) && self.0[slot.index() / 32].fetch_or(bit, Relaxed) & bit == 0
    }
}

/// Slots that a path from the first start point leads to, hidden ones included; the other start points are short cuts,
/// and not needed. Reads every such row once, on the threads of the pool that this is called in.
pub fn reachable<T: Element>(graph: &Graph<T>) -> Reached {
    let reached = Reached::none_of(graph);
    if let Some(&start) = graph.start_points().first() {
        extend(graph, start, &reached);
    }
    reached
}

/// Live slots that no path leads to, rising. Runs as [`reachable`].
pub fn unreachable<T: Element>(graph: &Graph<T>) -> Vec<VectorId> {
    beyond(graph, &reachable(graph), Graph::is_live)
}

/// Links every `wanted` vertex that no path leads to again, and gives how many there were.
///
/// First as any batch is linked; what is left then, or was cut off by the prunes of that batch, gets an edge from a
/// reached neighbour, so that all wanted vertices are reached when this returns.
///
/// # Errors
/// [`Cancelled`]; the caller rolls back.
pub fn repair<T: Element, E: Executor<T>>(
    executor: &E,
    cell: &mut impl GraphCell<Graph<T>>,
    wanted: impl Fn(&Graph<T>, VectorId) -> bool + Sync,
    progress: &mut ProgressFn<'_>,
) -> Result<usize, Cancelled> {
    let lost = cell.read(|graph| executor.install(|| beyond(graph, &reachable(graph), &wanted)));
    let total = lost.len();
    if total > 0 {
        for (i, batch) in lost.chunks(BATCH).enumerate() {
            Progress { stage: Stage::Repairing, done: i * BATCH, total }.report(progress)?;
            let Ok(_) = link_batch(executor, cell, batch, |graph, found| executor.join_batch(graph, found));
        }
        cell.write(|graph| {
            let reached = executor.install(|| reachable(graph));
            for slot in beyond(graph, &reached, &wanted) {
                if !reached.contains(slot) {
                    force_edge(graph, slot, &reached);
                    executor.install(|| extend(graph, slot, &reached));
                }
            }
        });
        Progress { stage: Stage::Repairing, done: total, total }.report(progress)?;
    }
    cell.write(|graph| graph.set_unchecked(0));
    Ok(total)
}

/// The `wanted` slots outside `reached`, rising.
fn beyond<T: Element>(
    graph: &Graph<T>,
    reached: &Reached,
    wanted: impl Fn(&Graph<T>, VectorId) -> bool,
) -> Vec<VectorId> {
    graph.vertices().filter(|&slot| wanted(graph, slot) && !reached.contains(slot)).collect()
}

/// Adds everything that paths from `from` lead to.
fn extend<T: Element>(graph: &Graph<T>, from: VectorId, reached: &Reached) {
    let mut open: Vec<VectorId> = Some(from).into_iter().filter(|&slot| reached.insert(slot)).collect();
    while !open.is_empty() {
        let beyond = open.par_chunks(SLOTS_A_TASK).flat_map_iter(|slots| {
            let neighbors = slots.iter().flat_map(|&slot| graph.neighbors(slot));
            neighbors.copied().filter(|&neighbor| reached.insert(neighbor))
        });
        open = beyond.collect();
    }
}

/// Slots whose neighbours one thread looks at before it asks for more.
const SLOTS_A_TASK: usize = 256;

/// Gives `lost` an in-edge from a reached vertex, and takes no reached vertex out of reach: where the row is full,
/// its farthest edge makes room, and `lost` leads to where that led.
fn force_edge<T: Element>(graph: &mut Graph<T>, lost: VectorId, reached: &Reached) {
    let max_degree = graph.params().max_degree();
    let near = graph.neighbors(lost).iter().copied().filter(|&slot| reached.contains(slot));
    let near: Vec<VectorId> =
        near.chain(graph.start_points().first().copied()).filter(|&slot| slot != lost).collect();
    if let Some(&roomy) = near.iter().find(|&&slot| graph.neighbors(slot).len() < max_degree) {
        graph.append_neighbors(roomy, &[lost]);
        return;
    }
    let Some(&full) = near.first() else { return };
    let scorer = graph.row_scorer(full);
    let ranked = graph.neighbors(full).iter().map(|&id| Neighbor::new(scorer.score_one(id), id));
    let Some(farthest) = ranked.max().map(Neighbor::id) else { return };
    let mut row = graph.neighbors(full).to_vec();
    row.retain(|&id| id != farthest);
    row.push(lost);
    graph.set_neighbors(full, &row);
    let mut row = graph.neighbors(lost).to_vec();
    if !row.contains(&farthest) {
        row.truncate(max_degree - 1);
        row.push(farthest);
        graph.set_neighbors(lost, &row);
    }
}
