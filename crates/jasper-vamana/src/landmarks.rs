//! Landmarks: a sample of the vertices with edges to one another, as the vertices of an upper layer of HNSW have.
//!
//! The first vertices of a build are far apart, and the edges between them lead searches from one part of the data to
//! another. An insert adds vertices to a graph that is complete: where they form a cluster of their own, they get edges
//! to the nearest cluster only. Once the others are deleted, few paths between clusters are left
//! (docs/notebook/experiments.md#landmarks). Therefore:
//!
//! ```text
//! for each landmark that was inserted, or whose row a consolidation has repaired, and that has few edges to landmarks:
//!     candidates <- the nearest landmarks                                  brute force
//!     kept <- candidates, pruned
//!     add edges to and from the kept ones, as far as the rows have room
//! ```
//!
//! Nothing distinguishes these edges from others, and a row that overflows later may lose them.

use std::collections::BTreeMap;

use jasper_core::{Element, Neighbor, Slot, with_element};
use jasper_data::parallel;
use jasper_graph::{ComputeDistances, Graph};

use crate::cpu::Prune;
use crate::pipeline::update;
use crate::{Executor, GraphAccess, MutableGraph, Vertices};

/// The number of landmarks of a large graph, which may have twice as many: brute force then takes a landmark as long as
/// a few searches.
const COUNT: usize = 4096;
/// The base-2 logarithm of the slots per landmark of a small graph. With 32 slots instead of 16, clusters that move lose
/// four times as many neighbors.
const MIN_LEVEL: u32 = 4;
/// The nearest landmarks that are pruned.
const CANDIDATES: usize = 128;
/// Landmarks whose vectors are prefetched together: they are far from each other in memory.
const CHUNK: usize = 32;
/// Up to this many, one thread links in less time than waking others takes.
const FEW: usize = 2;
/// Edges that a landmark is given to others. It may have twice as many, with those that others are given to it.
const EDGES: usize = 8;

/// The slots of landmarks: one in each block of 2 to the power of the level, at a pseudo-random place. Landmarks of a
/// level are also landmarks of those below, so that most stay landmarks while a graph grows.
#[derive(Clone, Copy, Debug)]
struct Landmarks {
    level: u32,
}

impl Landmarks {
    fn of(graph: &Graph) -> Self {
        Self { level: (graph.slots() / COUNT).max(1).ilog2().max(MIN_LEVEL) }
    }

    /// The landmark of a block. From level to level, it is in the first half of the block or in the second.
    fn of_block(self, block: usize) -> usize {
        (1..=self.level).rev().fold(block, |block, level| {
            let hash = (block as u32 ^ level.rotate_left(24)).wrapping_mul(0x9E37_79B1);
            let half = (hash ^ (hash >> 15)).wrapping_mul(0x85EB_CA77) >> 31;
            2 * block + half as usize
        })
    }

    fn contains(self, slot: Slot) -> bool {
        self.of_block(slot.index() >> self.level) == slot.index()
    }

    /// Those that are among these `vertices`, ascending.
    fn among(self, vertices: Vertices, graph: &Graph) -> Vec<Slot> {
        let blocks = 0..graph.slots().div_ceil(1 << self.level);
        let slots = blocks.map(|block| self.of_block(block)).filter(|&slot| slot < graph.slots());
        slots.map(Slot::from_index).filter(|&slot| vertices.contains(graph, slot)).collect()
    }

    /// How many edges of a row lead to landmarks.
    fn edges_of(self, row: &[Slot]) -> usize {
        row.iter().filter(|&&slot| self.contains(slot)).count()
    }
}

/// Adds edges between the landmarks among the `changed` vertices and the nearest ones among all `vertices`. Edges are only added,
/// so every vertex stays reachable.
///
/// # Errors
/// Returns the executor's error; the graph may then have some of the edges.
pub(crate) fn link_landmarks<E: Executor>(
    executor: &E,
    graph: &mut dyn GraphAccess<E::Graph>,
    vertices: Vertices,
    changed: &[Slot],
) -> Result<(), E::Error> {
    let landmarks = graph.read(|graph| Landmarks::of(graph.host()));
    let changed: Vec<Slot> = changed.iter().copied().filter(|&slot| landmarks.contains(slot)).collect();
    if changed.is_empty() {
        return Ok(());
    }
    let rows = graph.read(|graph| executor.edge_rows(graph, &changed))?;
    let rows = changed.into_iter().zip(rows);
    let to_link: Vec<Slot> =
        rows.filter(|(_, row)| landmarks.edges_of(row) < EDGES).map(|(slot, _)| slot).collect();
    let kept = graph.read(|graph| {
        let (host, all) = (graph.host(), landmarks.among(vertices, graph.host()));
        // Each takes as long as a few searches.
        let pool = (to_link.len() > FEW).then(|| executor.host_pool());
        with_element!(host.element(), T => {
            parallel::map_on(pool, &to_link, |&slot| nearest::<T>(host, slot, &all))
        })
    });
    let mut edges: BTreeMap<Slot, Vec<Neighbor>> = BTreeMap::new();
    for (landmark, kept) in to_link.into_iter().zip(kept) {
        for neighbor in kept {
            edges.entry(landmark).or_default().push(neighbor);
            edges.entry(neighbor.slot()).or_default().push(Neighbor::new(neighbor.distance(), landmark));
        }
    }
    let max_degree = graph.read(|graph| graph.host().params().max_degree());
    let (slots, mut edges): (Vec<_>, Vec<_>) = edges.into_iter().unzip();
    for (slots, edges) in slots.chunks(E::SEARCH_CHUNK).zip(edges.chunks_mut(E::SEARCH_CHUNK)) {
        let mut rows = graph.read(|graph| executor.edge_rows(graph, slots))?;
        for (row, edges) in rows.iter_mut().zip(edges) {
            // Two landmarks that are each other's neighbors may have different distances under inner products.
            edges.sort_unstable_by_key(|edge| (edge.slot(), *edge));
            edges.dedup_by_key(|edge| edge.slot());
            edges.sort_unstable();
            let mut added: Vec<Slot> = edges.iter().map(|edge| edge.slot()).collect();
            added.retain(|slot| !row.contains(slot));
            let room = max_degree.saturating_sub(row.len());
            added.truncate(room.min((2 * EDGES).saturating_sub(landmarks.edges_of(row))));
            row.append(&mut added);
        }
        update(executor, graph, |graph| executor.new_rows(graph, slots, &rows))?;
    }
    Ok(())
}

/// The nearest of `all` landmarks to one of them, pruned.
fn nearest<T: Element>(graph: &Graph, landmark: Slot, all: &[Slot]) -> Vec<Neighbor> {
    let (vectors, origin) = (graph.vectors(), graph.vectors().origin(landmark));
    let mut distances = vec![0.0; all.len()];
    let computer = vectors.distance_computer_from::<T>(origin, landmark);
    let mut chunks = all.chunks(CHUNK).zip(distances.chunks_mut(CHUNK)).peekable();
    while let Some((slots, out)) = chunks.next() {
        if let Some((next, _)) = chunks.peek() {
            computer.prefetch_distances(next);
        }
        computer.compute(slots, out);
    }
    let others = distances.into_iter().zip(all).filter(|(_, slot)| **slot != landmark);
    let mut candidates: Vec<_> = others.map(|(distance, &slot)| Neighbor::new(distance, slot)).collect();
    if candidates.len() > CANDIDATES {
        candidates.select_nth_unstable(CANDIDATES);
        candidates.truncate(CANDIDATES);
    }
    candidates.sort_unstable();
    Prune::default().keep::<T>(vectors, origin, &candidates, &[], EDGES, graph.params().alpha()).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There is one in each block, anywhere in it, and each is also one of the level below.
    #[test]
    fn there_is_one_in_each_block() {
        let mut places = [0; 8];
        for block in 0..800 {
            let slot = Slot::from_index(Landmarks { level: 3 }.of_block(block));
            assert_eq!(slot.index() / 8, block);
            assert!((1..=3).all(|level| Landmarks { level }.contains(slot)));
            places[slot.index() % 8] += 1;
        }
        assert!(places.iter().all(|count| (70..=130).contains(count)), "{places:?}");
    }
}
