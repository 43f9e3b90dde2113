//! Every live vertex can be reached from the first start point: counted, and repaired where it does not hold.
//!
//! Pruning keeps no promise about reachability, and neither does a delete; a vertex that no path leads to is stored and
//! never found. So bulk builds, larger inserts and consolidations end with [`repair`].

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use jasper_core::{BitSet, Element, Neighbor, Progress, ProgressFn, Stage, VectorId};
use jasper_graph::Graph;
use rayon::prelude::*;

use crate::pipeline::{GraphCell, LinkError};
use crate::{Executor, LiveGraph, largest_batch};

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

    /// The words of [`Self::from_words`].
    pub fn words(&self) -> Vec<u32> {
        self.0.iter().map(|word| word.load(Relaxed)).collect()
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

/// Slots that a path from `start` leads to, itself included. Runs as [`reachable`]: in sweeps over all slots in their
/// order, so that rows are read one after another.
pub(crate) fn from<T: Element>(graph: &Graph<T>, start: VectorId) -> Reached {
    let reached = Reached::none_of(graph.slots());
    reached.insert(start);
    // Vertices whose neighbours were looked at.
    let mut seen = vec![0_u32; reached.0.len()];
    let look = |(first, seen): (usize, &mut [u32])| {
        let mut looked_at = 0;
        for (word, seen) in (first * WORDS_A_TASK..).zip(seen) {
            loop {
                let mut open = reached.0[word].load(Relaxed) & !*seen;
                if open == 0 {
                    break;
                }
                *seen |= open;
                looked_at += open.count_ones() as usize;
                while open != 0 {
                    let slot = VectorId::from_index(word * 32 + open.trailing_zeros() as usize);
                    for &neighbor in graph.neighbors(slot) {
                        reached.insert(neighbor);
                    }
                    open &= open - 1;
                }
            }
        }
        looked_at
    };
    let mut before = 0;
    loop {
        let looked_at: usize = seen.par_chunks_mut(WORDS_A_TASK).enumerate().map(look).sum();
        if looked_at <= before && looked_at * WORTH_A_SWEEP < graph.slots() {
            break;
        }
        before = looked_at;
    }
    let open = reached.0.iter().zip(&seen).map(|(reached, seen)| reached.load(Relaxed) & !seen);
    let mut open: Vec<VectorId> =
        BitSet::from_words(open.collect()).iter().map(VectorId::from_index).collect();
    while let Some(slot) = open.pop() {
        open.extend(graph.neighbors(slot).iter().filter(|&&neighbor| reached.insert(neighbor)));
    }
    reached
}

/// One slot in this many is looked at by a sweep, or what is left is few, or lies on paths against the order of slots, of
/// which a sweep follows 32 steps: then it is followed edge by edge.
const WORTH_A_SWEEP: usize = 64;

/// Words of slots that one thread looks at before it asks for more.
const WORDS_A_TASK: usize = 16;

/// Live slots that no path leads to, rising. Runs as [`reachable`].
pub fn unreachable<T: Element>(graph: &Graph<T>) -> Vec<VectorId> {
    beyond(graph, &reachable(graph), Graph::is_live)
}

/// Gives every `wanted` vertex that no path leads to an edge from a reached one, and gives how many there were.
///
/// Each is searched for, and the nearest vertex that the search met and that has a free place leads to it from now on: it
/// is where another search for the vertex comes by. To link it as a fresh one would ask its nearest neighbours again, and
/// those are what dropped it: the few in the middle of many others, whose rows are always full (docs: experiments).
/// What finds no place so gets one from a neighbour of its own, so that all wanted vertices are reached when this returns.
///
/// # Errors
/// [`LinkError`]; the caller rolls back.
pub fn repair<T: Element, E: Executor<T>>(
    executor: &E,
    cell: &mut impl GraphCell<E::Live>,
    wanted: impl Fn(&Graph<T>, VectorId) -> bool,
    progress: &mut ProgressFn<'_>,
) -> Result<usize, LinkError<E::Error>> {
    let found = cell.read(|graph| lost(executor, graph, &wanted));
    let (mut reached, mut open) = found.map_err(LinkError::Linker)?;
    let total = open.len();
    // What a batch of a build takes is planned for.
    let largest = cell.read(|graph| largest_batch(graph.host().slots(), graph.host().params()));
    let at_once = E::SEARCHED_AT_ONCE.min(largest).max(1);
    // Of those that meet at one place, as many get it as there is room; the others look for the next in another round.
    let mut rounds = true;
    while rounds && !open.is_empty() {
        let mut edges = Vec::with_capacity(open.len());
        for (i, part) in open.chunks(at_once).enumerate() {
            let done = total - open.len() + i * at_once;
            Progress { stage: Stage::Repairing, done, total }.report(progress)?;
            let nearest = cell.read(|graph| {
                let found = executor.search(graph.links(), part)?;
                executor.nearest_with_room(graph.links(), found, &reached)
            });
            edges.extend(nearest.map_err(LinkError::Linker)?);
        }
        cell.write(|graph| add_edges(executor, graph, edges, at_once)).map_err(LinkError::Linker)?;
        let before = open.len();
        let found = cell.read(|graph| lost(executor, graph, &wanted));
        (reached, open) = found.map_err(LinkError::Linker)?;
        rounds = open.len() <= before / 2;
    }
    if !open.is_empty() {
        cell.write(|graph| force_edges(executor, graph, &reached, open)).map_err(LinkError::Linker)?;
    }
    if total > 0 {
        Progress { stage: Stage::Repairing, done: total, total }.report(progress)?;
    }
    cell.write(|graph| graph.change(|host| host.set_unchecked(0))).map_err(LinkError::Linker)?;
    Ok(total)
}

/// Adds an edge to each of some vertices, from the one beside it: the nearest first, as far as that has room. So many rows
/// are worked on `at_once`.
fn add_edges<T: Element, E: Executor<T>>(
    executor: &E,
    graph: &mut E::Live,
    mut edges: Vec<(VectorId, Neighbor)>,
    at_once: usize,
) -> Result<(), E::Error> {
    let max_degree = graph.host().params().max_degree();
    let by_source = |(to, from): &(VectorId, Neighbor)| (from.id(), Neighbor::new(from.distance(), *to));
    edges.sort_unstable_by_key(by_source);
    let of_sources: Vec<_> = edges.chunk_by(|a, b| a.1.id() == b.1.id()).collect();
    for of_sources in of_sources.chunks(at_once) {
        let sources: Vec<VectorId> = of_sources.iter().map(|edges| edges[0].1.id()).collect();
        let mut rows = executor.neighbors(graph.links(), &sources)?;
        for (row, edges) in rows.iter_mut().zip(of_sources) {
            let room = max_degree.saturating_sub(row.len());
            row.extend(edges.iter().take(room).map(|edge| edge.0));
        }
        executor.set_neighbors(graph.links_mut(), &sources, &rows)?;
    }
    Ok(())
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

/// Gives every one of the `lost` that no path leads to an edge from a reached one, in turn.
fn force_edges<T: Element, E: Executor<T>>(
    executor: &E,
    graph: &mut E::Live,
    reached: &Reached,
    lost: Vec<VectorId>,
) -> Result<(), E::Error> {
    for slot in lost {
        if !reached.contains(slot) {
            force_edge(executor, graph, slot, reached)?;
            let mut open = vec![slot];
            while !open.is_empty() {
                open.retain(|&slot| reached.insert(slot));
                open = executor.neighbors(graph.links(), &open)?.concat();
            }
        }
    }
    Ok(())
}

/// Gives `lost` an in-edge from a reached neighbour, and takes no reached vertex out of reach: where the row is full,
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
        return executor.set_neighbors(graph.links_mut(), &[slot], &[row]);
    }
    let scorer = graph.host().row_scorer(slot);
    let ranked = row.iter().map(|&id| Neighbor::new(scorer.score_one(id), id));
    let Some(farthest) = ranked.max().map(Neighbor::id) else { return Ok(()) };
    row.retain(|&id| id != farthest);
    row.push(lost);
    executor.set_neighbors(graph.links_mut(), &[slot], &[row])?;
    if !row_of_lost.contains(&farthest) {
        row_of_lost.truncate(max_degree - 1);
        row_of_lost.push(farthest);
        executor.set_neighbors(graph.links_mut(), &[lost], &[row_of_lost])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use jasper_core::{BuildParams, Metric};
    use proptest::prelude::*;
    use rand::RngExt;
    use std::collections::BTreeSet;

    /// A graph of so many vertices, with up to two edges each.
    fn graph(vertices: usize, seed: u64) -> Graph<u8> {
        let mut graph = Graph::<u8>::new(Metric::L2, 1, BuildParams::default()).unwrap();
        graph.add_rows(vertices, |blocks| drop(blocks)).unwrap();
        let mut rng = jasper_core::synthetic::rng(seed);
        for slot in (0..vertices).map(VectorId::from_index) {
            let degree = rng.random_range(0..3);
            let to: BTreeSet<_> = (0..degree).map(|_| rng.random_range(0..vertices)).collect();
            graph.set_neighbors(slot, &to.into_iter().map(VectorId::from_index).collect::<Vec<_>>());
        }
        graph
    }

    proptest! {
        #[test]
        fn what_paths_lead_to_is_reached_and_nothing_else(vertices in 1_usize..3000, seed: u64) {
            let graph = graph(vertices, seed);
            let start = VectorId::from_index(seed as usize % vertices);
            let (mut known, mut open) = (BTreeSet::from([start]), vec![start]);
            while let Some(slot) = open.pop() {
                open.extend(graph.neighbors(slot).iter().filter(|&&neighbor| known.insert(neighbor)));
            }
            let reached = from(&graph, start);
            prop_assert!(graph.vertices().all(|slot| reached.contains(slot) == known.contains(&slot)));
        }
    }
}
