//! Whether every live vertex can be reached from the first start point. Where one cannot, the module `reconnect` sees to it.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use jasper_core::{BitSet, Element, VectorId};
use jasper_graph::Graph;
use rayon::prelude::*;

/// A set of slots that several threads add to.
#[derive(Debug)]
pub struct Reached(Vec<AtomicU32>);

impl Reached {
    /// No slot, of as many as there are.
    pub(crate) fn none_of(slots: usize) -> Self {
        Self((0..slots.div_ceil(32)).map(|_| AtomicU32::new(0)).collect())
    }

    /// As many slots as there are, and more, without some.
    pub(crate) fn all_but(slots: usize, others: &[VectorId]) -> Self {
        let mut words = vec![u32::MAX; slots.div_ceil(32)];
        others.iter().for_each(|slot| words[slot.index() / 32] &= !(1 << (slot.index() % 32)));
        Self::from_words(words)
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

    /// Adds a slot; returns false if it was present. Reads first, because most are, and a load is cheaper than an atomic.
    pub(crate) fn insert(&self, slot: VectorId) -> bool {
        let bit = 1 << (slot.index() % 32);
        !self.contains(slot) && self.0[slot.index() / 32].fetch_or(bit, Relaxed) & bit == 0
    }
}

/// Slots that a path from the first start point leads to, hidden ones included; the other start points are short cuts,
/// and not needed. Reads every such row once, on the threads of the pool that this is called in.
pub fn reachable<T: Element>(graph: &Graph<T>) -> Reached {
    graph
        .adjacency()
        .start_points()
        .first()
        .map_or_else(|| Reached::none_of(graph.slots()), |&start| from(graph, start))
}

/// Slots that a path from `start` leads to, itself included. Runs as [`reachable`]: in sweeps over all slots in their
/// order, so that rows are read one after another.
pub(crate) fn from<T: Element>(graph: &Graph<T>, start: VectorId) -> Reached {
    let reached = Reached::none_of(graph.slots());
    reached.insert(start);
    // Vertices whose neighbors were looked at.
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
                    for &neighbor in graph.adjacency().neighbors(slot) {
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
        open.extend(graph.adjacency().neighbors(slot).iter().filter(|&&neighbor| reached.insert(neighbor)));
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
    beyond(graph, &reachable(graph), |graph, slot| graph.keys().is_live(slot))
}

/// The `wanted` slots outside `reached`, rising.
pub(crate) fn beyond<T: Element>(
    graph: &Graph<T>,
    reached: &Reached,
    wanted: impl Fn(&Graph<T>, VectorId) -> bool,
) -> Vec<VectorId> {
    // Words of slots that are all reached, nearly all words, are passed over whole.
    let beyond = BitSet::from_words(reached.0.iter().map(|word| !word.load(Relaxed)).collect());
    let slots = beyond.iter().take_while(|&slot| slot < graph.slots()).map(VectorId::from_index);
    slots.filter(|&slot| !graph.keys().is_free(slot) && wanted(graph, slot)).collect()
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
        graph.add_vectors(vertices, |blocks| drop(blocks)).unwrap();
        let mut rng = jasper_core::synthetic::rng(seed);
        for slot in (0..vertices).map(VectorId::from_index) {
            let degree = rng.random_range(0..3);
            let to: BTreeSet<_> = (0..degree).map(|_| rng.random_range(0..vertices)).collect();
            graph
                .adjacency_mut()
                .set_neighbors(slot, &to.into_iter().map(VectorId::from_index).collect::<Vec<_>>());
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
                open.extend(graph.adjacency().neighbors(slot).iter().filter(|&&neighbor| known.insert(neighbor)));
            }
            let reached = from(&graph, start);
            prop_assert!(graph.keys().vertices().all(|slot| reached.contains(slot) == known.contains(&slot)));
        }
    }
}
