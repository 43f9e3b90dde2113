//! Reachability: finds the vertices that paths from the first start point lead to, counts the edges that lead to each,
//! and finds those with edges to tombstones. The module `reconnect` adds edges to those that no path leads to.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use jasper_core::{BitSet, Slot};
use jasper_data::parallel;
use jasper_graph::{Graph, NO_PARENT};

/// Slots whose rows one thread reads at a time.
const SLOTS_PER_TASK: usize = 1 << 12;

/// Live slots that no path from the first start point leads to, ascending. The other start points are only shortcuts.
/// Reads every row once, in the current rayon pool.
pub fn unreachable_slots(graph: &Graph) -> Vec<Slot> {
    let start = graph.adjacency().start_points().first();
    let reached =
        start.map_or_else(|| no_slots(graph.slots()), |&start| reachable(graph, start, Vertices::All));
    unreached(graph, &reached, Vertices::Live)
}

/// The vertices that are to be reachable, by paths among themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vertices {
    /// Live vertices and tombstones.
    All,
    /// Live vertices.
    Live,
}

impl Vertices {
    /// The slots that paths must not lead through, in words of 32. Edges lead to no free slot.
    pub fn avoided(self, graph: &Graph) -> Vec<u32> {
        let words = 0..graph.slots().div_ceil(32);
        match self {
            Self::All => vec![0; words.len()],
            Self::Live => words.map(|word| !graph.keys().live_word(word)).collect(),
        }
    }

    pub(crate) fn contains(self, graph: &Graph, slot: Slot) -> bool {
        match self {
            Self::All => !graph.keys().is_free(slot),
            Self::Live => graph.keys().is_live(slot),
        }
    }
}

/// The slots that are reachable from `start`, including it, by paths through these `vertices` only. None, if `start`
/// is not one of them. Runs in the current rayon pool.
pub(crate) fn reachable(graph: &Graph, start: Slot, vertices: Vertices) -> BitSet {
    let avoided = vertices.avoided(graph);
    // As if they had been reached and expanded before.
    let reached = reach(graph, start, &avoided, |_, _| ());
    BitSet::from_words(reached.into_iter().zip(&avoided).map(|(word, avoided)| word & !avoided).collect())
}

/// The number of edges that lead from live vertices to each slot. Runs in the current rayon pool.
pub(crate) fn incoming_edges(graph: &Graph) -> Vec<u32> {
    let mut incoming = Vec::new();
    incoming.resize_with(graph.slots(), AtomicU32::default);
    parallel::map((0..graph.slots()).step_by(SLOTS_PER_TASK), |first| {
        let slots = (first..graph.slots().min(first + SLOTS_PER_TASK)).map(Slot::from_index);
        for slot in slots.filter(|&slot| graph.keys().is_live(slot)) {
            for target in graph.adjacency().neighbors(slot) {
                incoming[target.index()].fetch_add(1, Relaxed);
            }
        }
    });
    incoming.into_iter().map(AtomicU32::into_inner).collect()
}

/// The live vertices with a tombstone among their neighbors, ascending. Runs in the current rayon pool.
pub(crate) fn rows_to_repair(graph: &Graph) -> Vec<Slot> {
    let has_tombstone = |&vertex: &Slot| {
        graph.keys().is_live(vertex)
            && graph.adjacency().neighbors(vertex).iter().any(|&slot| graph.keys().is_tombstone(slot))
    };
    let found = parallel::map((0..graph.slots()).step_by(SLOTS_PER_TASK), |first| {
        let slots = first..graph.slots().min(first + SLOTS_PER_TASK);
        slots.map(Slot::from_index).filter(has_tombstone).collect::<Vec<_>>()
    });
    found.concat()
}

/// The empty set, with a bit for each slot.
pub(crate) fn no_slots(slots: usize) -> BitSet {
    BitSet::from_words(vec![0; slots.div_ceil(32)])
}

/// The parents of a spanning tree of these slots, for [`SpanningTree::new`]: of the edges to a slot, the one by which
/// it was reached first. Runs in the current rayon pool.
///
/// [`SpanningTree::new`]: jasper_graph::SpanningTree::new
pub(crate) fn spanning_tree(graph: &Graph, start: Slot) -> Vec<u32> {
    let parents: Vec<_> = (0..graph.slots()).map(|_| AtomicU32::new(NO_PARENT)).collect();
    parents[start.index()].store(start.get(), Relaxed);
    let on_edge = |from: Slot, to: Slot| parents[to.index()].store(from.get(), Relaxed);
    reach(graph, start, no_slots(graph.slots()).words(), on_edge);
    parents.into_iter().map(AtomicU32::into_inner).collect()
}

/// The `start`, all slots that a path from there leads to through slots that are not `reached` before, and those that
/// are, as words of 32. Calls `on_edge` with the edge by which each slot but the start is reached first.
///
/// Sweeps over all slots in order, so that rows are read sequentially, until a sweep expands few vertices. Then follows
/// the edges of the remaining ones one by one.
fn reach(graph: &Graph, start: Slot, reached: &[u32], on_edge: impl Fn(Slot, Slot) + Sync) -> Vec<u32> {
    let mut expanded = reached.to_vec();
    let reached: Vec<_> = reached.iter().map(|&word| AtomicU32::new(word)).collect();
    reached[start.index() / 32].fetch_or(1 << (start.index() % 32), Relaxed);
    let insert = |from: Slot, to: Slot| {
        let (word, bit) = (&reached[to.index() / 32], 1 << (to.index() % 32));
        // Most slots are present, and a load is cheaper than an atomic update.
        let is_new = word.load(Relaxed) & bit == 0 && word.fetch_or(bit, Relaxed) & bit == 0;
        if is_new {
            on_edge(from, to);
        }
        is_new
    };
    let expand_words = |(first, expanded): (usize, &mut [u32])| {
        let mut count = 0;
        for (word, expanded) in (first * WORDS_PER_TASK..).zip(expanded) {
            loop {
                let mut unexpanded = reached[word].load(Relaxed) & !*expanded;
                if unexpanded == 0 {
                    break;
                }
                *expanded |= unexpanded;
                count += unexpanded.count_ones() as usize;
                while unexpanded != 0 {
                    let slot = Slot::from_index(word * 32 + unexpanded.trailing_zeros() as usize);
                    for &neighbor in graph.adjacency().neighbors(slot) {
                        insert(slot, neighbor);
                    }
                    unexpanded &= unexpanded - 1;
                }
            }
        }
        count
    };
    let mut before = 0;
    loop {
        let counts = parallel::map(expanded.chunks_mut(WORDS_PER_TASK).enumerate(), expand_words);
        let count: usize = counts.into_iter().sum();
        if count <= before && count * SWEEP_DIVISOR < graph.slots() {
            break;
        }
        before = count;
    }
    let unexpanded = reached.iter().zip(&expanded).map(|(reached, done)| reached.load(Relaxed) & !done);
    let mut stack: Vec<Slot> =
        BitSet::from_words(unexpanded.collect()).iter().map(Slot::from_index).collect();
    while let Some(slot) = stack.pop() {
        stack.extend(graph.adjacency().neighbors(slot).iter().filter(|&&neighbor| insert(slot, neighbor)));
    }
    reached.into_iter().map(AtomicU32::into_inner).collect()
}

/// Sweeps continue while they expand at least one slot in this many. When they expand fewer, few slots are left, or the
/// paths to them run against the order of slots; a sweep follows at most 32 edges of such a path.
const SWEEP_DIVISOR: usize = 64;

/// Words of slots per task of the thread pool.
const WORDS_PER_TASK: usize = 16;

/// Those of the `vertices` that are outside of `reached`, ascending.
pub(crate) fn unreached(graph: &Graph, reached: &BitSet, vertices: Vertices) -> Vec<Slot> {
    // Nearly all words have all bits set and are skipped as a whole.
    let unreached = BitSet::from_words(reached.words().iter().map(|word| !word).collect());
    let slots = unreached.iter().take_while(|&slot| slot < graph.slots()).map(Slot::from_index);
    slots.filter(|&slot| vertices.contains(graph, slot)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jasper_core::{BuildParams, ElementKind, Metric};
    use jasper_graph::SpanningTree;
    use proptest::prelude::*;
    use rand::RngExt;
    use std::collections::BTreeSet;

    /// A graph of `vertices` vertices, with up to two edges each.
    fn graph(vertices: usize, seed: u64) -> Graph {
        let mut graph = Graph::new(ElementKind::U8, Metric::L2, 1, BuildParams::default()).unwrap();
        graph.add_vectors(vertices, |blocks| drop(blocks)).unwrap();
        let mut rng = jasper_core::synthetic::rng(seed);
        for slot in (0..vertices).map(Slot::from_index) {
            let degree = rng.random_range(0..3);
            let to: BTreeSet<_> = (0..degree).map(|_| rng.random_range(0..vertices)).collect();
            graph
                .adjacency_mut()
                .set_neighbors(slot, &to.into_iter().map(Slot::from_index).collect::<Vec<_>>());
        }
        graph
    }

    proptest! {
        #[test]
        fn what_paths_lead_to_is_reached_and_nothing_else(vertices in 1_usize..3000, seed: u64) {
            let mut graph = graph(vertices, seed);
            let start = Slot::from_index(seed as usize % vertices);
            // Vertices without keys are tombstones.
            for slot in (0..vertices).map(Slot::from_index) {
                if slot == start || !(slot.get() ^ seed as u32).is_multiple_of(5) {
                    graph.keys_mut().assign_unused(slot.index() as u64, slot);
                }
            }
            let paths = |vertices: &dyn Fn(Slot) -> bool| {
                let (mut known, mut open) = (BTreeSet::from([start]), vec![start]);
                while let Some(slot) = open.pop() {
                    let next = graph.adjacency().neighbors(slot).iter().copied();
                    open.extend(next.filter(|&slot| vertices(slot) && known.insert(slot)));
                }
                known
            };
            let known = paths(&|_| true);
            let reached = reachable(&graph, start, Vertices::All);
            prop_assert!(graph.keys().vertices().all(|slot| reached.contains(slot.index()) == known.contains(&slot)));
            let live = paths(&|slot| graph.keys().is_live(slot));
            let reached = reachable(&graph, start, Vertices::Live);
            prop_assert!(graph.keys().vertices().all(|slot| reached.contains(slot.index()) == live.contains(&slot)));
            let tree = SpanningTree::new(&spanning_tree(&graph, start)).unwrap();
            for slot in graph.keys().vertices() {
                let path: Vec<_> =
                    std::iter::successors(Some(slot), |&slot| tree.parent(slot).filter(|&parent| parent != slot))
                        .take(vertices + 1)
                        .collect();
                prop_assert!(path.len() <= vertices, "no circles");
                prop_assert!(path.windows(2).all(|edge| graph.adjacency().neighbors(edge[1]).contains(&edge[0])));
                prop_assert_eq!(path.last() == Some(&start), known.contains(&slot));
            }
        }
    }
}
