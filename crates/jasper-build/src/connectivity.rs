//! Every live vertex can be reached from the first start point: counted, and repaired where it does not hold.
//!
//! Pruning keeps no promise about reachability, and neither does a delete; a vertex that no path leads to is stored and
//! never found. So bulk builds, larger inserts and consolidations end with [`repair`].

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use jasper_core::{Element, Neighbor, Progress, ProgressFn, Stage, VectorId};
use jasper_graph::Graph;
use rayon::prelude::*;

use crate::insert::BATCH;
use crate::live::LinksOf;
use crate::pipeline::{GraphCell, LinkError, link_batch};
use crate::{Executor, LiveGraph};

/// A set of slots that several threads add to.
#[derive(Debug)]
pub struct Reached(Vec<AtomicU32>);

impl Reached {
    /// No slot, of as many as there are.
    fn none_of(slots: usize) -> Self {
        Self((0..slots.div_ceil(32)).map(|_| AtomicU32::new(0)).collect())
    }

    /// The slots whose bits are set in words of 32.
    pub fn from_words(words: Vec<u32>) -> Self {
        Self(words.into_iter().map(AtomicU32::new).collect())
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
    graph.start_points().first().map_or_else(|| Reached::none_of(graph.slots()), |&start| from(graph, start))
}

/// Slots that a path from `start` leads to, itself included. Runs as [`reachable`].
pub(crate) fn from<T: Element>(graph: &Graph<T>, start: VectorId) -> Reached {
    let reached = Reached::none_of(graph.slots());
    let mut open = vec![start];
    reached.insert(start);
    while !open.is_empty() {
        let beyond = open.par_chunks(SLOTS_A_TASK).flat_map_iter(|slots| {
            let neighbors = slots.iter().flat_map(|&slot| graph.neighbors(slot));
            neighbors.copied().filter(|&neighbor| reached.insert(neighbor))
        });
        open = beyond.collect();
    }
    reached
}

/// Live slots that no path leads to, rising. Runs as [`reachable`].
pub fn unreachable<T: Element>(graph: &Graph<T>) -> Vec<VectorId> {
    beyond(graph, &reachable(graph), Graph::is_live)
}

/// Slots whose neighbours one thread looks at before it asks for more.
const SLOTS_A_TASK: usize = 256;

/// Links every `wanted` vertex that no path leads to again, and gives how many there were.
///
/// First as any batch is linked; what is left then, or was cut off by the prunes of that batch, gets an edge from a
/// reached neighbour, so that all wanted vertices are reached when this returns.
///
/// # Errors
/// [`LinkError`]; the caller rolls back.
pub fn repair<T: Element, E: Executor<T>>(
    executor: &E,
    cell: &mut impl GraphCell<E::Live>,
    wanted: impl Fn(&Graph<T>, VectorId) -> bool,
    progress: &mut ProgressFn<'_>,
) -> Result<usize, LinkError<E::Error>> {
    let (_, lost) = cell.read(|graph| lost(executor, graph, &wanted)).map_err(LinkError::Linker)?;
    let total = lost.len();
    if total > 0 {
        let widen = |graph: &E::Graph, found| executor.join_batch(graph, found);
        for (i, batch) in lost.chunks(BATCH).enumerate() {
            Progress { stage: Stage::Repairing, done: i * BATCH, total }.report(progress)?;
            link_batch(executor, &mut LinksOf::new(cell), batch, widen).map_err(LinkError::Linker)?;
        }
        cell.write(|graph| force_edges(executor, graph, wanted)).map_err(LinkError::Linker)?;
        Progress { stage: Stage::Repairing, done: total, total }.report(progress)?;
    }
    cell.write(|graph| graph.change(|host| host.set_unchecked(0))).map_err(LinkError::Linker)?;
    Ok(total)
}

/// What can be reached, and the `wanted` slots that cannot, rising.
fn lost<T: Element, E: Executor<T>>(
    executor: &E,
    graph: &E::Live,
    wanted: impl Fn(&Graph<T>, VectorId) -> bool,
) -> Result<(Reached, Vec<VectorId>), E::Error> {
    let host = graph.host();
    let reached = match host.start_points().first() {
        Some(&start) => executor.reachable(graph.links(), start)?,
        None => Reached::none_of(host.slots()),
    };
    let lost = beyond(host, &reached, wanted);
    Ok((reached, lost))
}

/// The `wanted` slots outside `reached`, rising.
fn beyond<T: Element>(
    graph: &Graph<T>,
    reached: &Reached,
    wanted: impl Fn(&Graph<T>, VectorId) -> bool,
) -> Vec<VectorId> {
    graph.vertices().filter(|&slot| wanted(graph, slot) && !reached.contains(slot)).collect()
}

/// Gives every `wanted` vertex that no path leads to an edge from a reached one, in turn.
fn force_edges<T: Element, E: Executor<T>>(
    executor: &E,
    graph: &mut E::Live,
    wanted: impl Fn(&Graph<T>, VectorId) -> bool,
) -> Result<(), E::Error> {
    let (reached, lost) = lost(executor, graph, wanted)?;
    for slot in lost {
        if !reached.contains(slot) {
            force_edge(executor, graph, slot, &reached)?;
            let mut open = vec![slot];
            while !open.is_empty() {
                open.retain(|&slot| reached.insert(slot));
                open = executor.neighbors(graph.links(), &open)?.concat();
            }
        }
    }
    Ok(())
}

/// Gives `lost` an in-edge from a reached vertex, and takes no reached vertex out of reach: where the row is full,
/// its farthest edge makes room, and `lost` leads to where that led.
fn force_edge<T: Element, E: Executor<T>>(
    executor: &E,
    graph: &mut E::Live,
    lost: VectorId,
    reached: &Reached,
) -> Result<(), E::Error> {
    let neighbors = |graph: &E::Live, slot| Ok(executor.neighbors(graph.links(), &[slot])?.concat());
    let max_degree = graph.host().params().max_degree();
    let mut row_of_lost = neighbors(graph, lost)?;
    let mut near: Vec<VectorId> =
        row_of_lost.iter().copied().filter(|&slot| reached.contains(slot)).collect();
    near.extend(graph.host().start_points().first().copied().filter(|&start| start != lost));
    let rows = executor.neighbors(graph.links(), &near)?;
    let roomy = near.iter().zip(&rows).find(|(_, row)| row.len() < max_degree);
    let Some((&slot, row)) = roomy.or(near.iter().zip(&rows).next()) else { return Ok(()) };
    let mut row = row.clone();
    if row.len() < max_degree {
        row.push(lost);
        return executor.set_neighbors(graph.links_mut(), slot, &row);
    }
    let scorer = graph.host().row_scorer(slot);
    let ranked = row.iter().map(|&id| Neighbor::new(scorer.score_one(id), id));
    let Some(farthest) = ranked.max().map(Neighbor::id) else { return Ok(()) };
    row.retain(|&id| id != farthest);
    row.push(lost);
    executor.set_neighbors(graph.links_mut(), slot, &row)?;
    if !row_of_lost.contains(&farthest) {
        row_of_lost.truncate(max_degree - 1);
        row_of_lost.push(farthest);
        executor.set_neighbors(graph.links_mut(), lost, &row_of_lost)?;
    }
    Ok(())
}
