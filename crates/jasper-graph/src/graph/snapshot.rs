//! Snapshots: the graph for searches, while the next change is made.

use std::ops::Deref;
use std::sync::Arc;

use super::Graph;

impl Graph {
    /// A copy for searches, which shares the memory of the graph and costs next to nothing.
    ///
    /// It keeps what searches find: changes of the graph write vectors, codes and keys to slots that no snapshot uses, or
    /// to a copy of the segments with the slots. Only edges are changed where they are, one by one: a search that reads a
    /// row meanwhile gets some of its old neighbors and some of its new ones. It traverses new vertices as far as the
    /// snapshot has their segments, and returns none. So edges of a snapshot are read by
    /// [`Adjacency::load_neighbors`](crate::Adjacency::load_neighbors).
    ///
    /// Two things wait until snapshots from before are dropped: using a slot again
    /// ([`Self::are_free_slots_unread`]), and removing the edges to vertices that are live there
    /// ([`Self::retire_snapshots`]).
    ///
    /// # Safety
    /// Vectors, codes and sketches of the snapshot are read at slots only that have a vertex there, or to which an edge
    /// leads that was loaded from the snapshot: the graph may be writing all others.
    #[doc(hidden)]
    pub unsafe fn snapshot(&self) -> Snapshot {
        Snapshot(Self {
            params: self.params,
            vectors: self.vectors.share(),
            adjacency: self.adjacency.share(self.vectors.capacity()),
            keys: self.keys.share(),
            tuned: self.tuned.clone(),
            readers: self.readers.clone_current(),
            begun_with: None,
        })
    }

    /// [`Self::snapshot`] for searches that read the edges elsewhere, such as on a device.
    ///
    /// # Safety
    /// The same as for [`Self::snapshot`].
    #[doc(hidden)]
    pub unsafe fn snapshot_without_edges(&self) -> Snapshot {
        let adjacency = self.adjacency.share_without_edges();
        Snapshot(Self {
            params: self.params,
            vectors: self.vectors.share(),
            adjacency,
            keys: self.keys.share(),
            tuned: self.tuned.clone(),
            readers: self.readers.clone_current(),
            begun_with: None,
        })
    }

    /// Counts the snapshots so far among those that [may read free slots](Self::are_free_slots_unread).
    #[doc(hidden)]
    pub fn retire_snapshots(&mut self) {
        self.readers.retire();
    }

    /// Whether all snapshots from before the last slot was freed are dropped. Until then, no vector can be added.
    #[doc(hidden)]
    pub fn are_free_slots_unread(&self) -> bool {
        self.readers.retired.iter().all(|readers| Arc::strong_count(readers) == 1)
    }
}

/// A graph as it was, for searches: see [`Graph::snapshot`].
#[derive(Debug)]
pub struct Snapshot(Graph);

impl Deref for Snapshot {
    type Target = Graph;

    fn deref(&self) -> &Graph {
        &self.0
    }
}

/// Who may read the memory of a graph: its snapshots hold clones.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    /// Of snapshots that are made from now on.
    current: Arc<()>,
    /// Of those made before slots were freed.
    retired: Vec<Arc<()>>,
}

impl Readers {
    /// Notes that slots were freed.
    pub(crate) fn retire(&mut self) {
        self.forget_ended();
        if Arc::get_mut(&mut self.current).is_none() {
            self.retired.push(std::mem::take(&mut self.current));
        }
    }

    /// # Panics
    /// Panics if a snapshot from before the last slot was freed is not dropped.
    pub(crate) fn require_none_retired(&mut self) {
        self.forget_ended();
        assert!(self.retired.is_empty(), "a search still reads slots that were freed");
    }

    /// Removes the readers whose snapshots are all dropped. `get_mut` also makes what is written from now on happen after
    /// their last reads.
    fn forget_ended(&mut self) {
        self.retired.retain_mut(|readers| Arc::get_mut(readers).is_none());
    }

    fn clone_current(&self) -> Self {
        Self { current: Arc::clone(&self.current), retired: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use jasper_core::{BuildParams, ElementKind, Metric, Slot};

    use super::*;

    #[test]
    fn a_snapshot_keeps_vectors_and_keys_while_the_graph_changes() {
        let slot = Slot::new;
        let mut graph = Graph::new(ElementKind::U8, Metric::Cosine, 16, BuildParams::default()).unwrap();
        let add = |graph: &mut Graph, x: u8| graph.add_vector(&[x; 16], f32::from(x)).unwrap();
        for (key, x) in (0..).zip(1..=4) {
            let slot = add(&mut graph, x);
            graph.keys_mut().assign(key, slot).unwrap();
        }
        graph.keys_mut().assign(9, slot(0)).unwrap();
        graph.adjacency_mut().set_neighbors(slot(0), &[slot(1), slot(3)]);
        // SAFETY: the test reads slots with a vertex, and one that an edge leads to.
        let snapshot = |graph: &Graph| unsafe { graph.snapshot() };
        let before = snapshot(&graph);
        let keys = |graph: &Graph| -> Vec<Vec<u64>> {
            (0..graph.slots()).map(|at| graph.keys().keys_of(Slot::from_index(at)).collect()).collect()
        };
        assert_eq!(keys(&before), [vec![0, 9], vec![1], vec![2], vec![3]]);

        graph.keys_mut().delete(0).unwrap();
        graph.keys_mut().delete(1).unwrap();
        assert_eq!(keys(&graph), [vec![9], vec![], vec![2], vec![3]]);
        let between = snapshot(&graph);
        graph.keys_mut().restore(1).unwrap();
        let new = add(&mut graph, 5);
        graph.keys_mut().assign(5, new).unwrap();
        graph.keys_mut().delete(3).unwrap();
        graph.adjacency_mut().set_neighbors(slot(0), &[slot(2), slot(4)]);
        graph.release_tombstones();
        assert!(!graph.are_free_slots_unread());
        let refused = catch_unwind(AssertUnwindSafe(|| add(&mut graph, 7)));
        assert!(refused.is_err(), "slot 3 would be used again");
        assert_eq!(keys(&before), [vec![0, 9], vec![1], vec![2], vec![3]]);
        assert_eq!(keys(&between), [vec![9], vec![], vec![2], vec![3]]);
        assert_eq!(before.vectors().get::<u8>(slot(3)), [4; 16]);
        // The edges are those of now. One leads to a vertex that the snapshot does not have, and is traversed.
        let mut neighbors = Vec::new();
        assert_eq!(before.adjacency().load_neighbors(slot(0), &mut neighbors), [slot(2), slot(4)]);
        assert_eq!(before.vectors().get::<u8>(slot(4)), [5; 16]);
        assert!(!before.keys().is_live(slot(4)) && before.slots() == 4);

        drop((before, between));
        assert!(graph.are_free_slots_unread());
        assert_eq!(add(&mut graph, 7), slot(3));
        let moved = snapshot(&graph);
        graph.adjacency_mut().set_neighbors(slot(0), &[slot(4)]);
        graph.adjacency_mut().set_neighbors(slot(4), &[slot(3), slot(0)]);
        graph.keys_mut().delete(2).unwrap();
        graph.release_tombstones();
        graph.compact(&[(slot(4), slot(2))], 3).unwrap();
        let vector = |graph: &Graph, at| graph.vectors().get::<u8>(slot(at))[0];
        assert_eq!((moved.slots(), vector(&moved, 2), vector(&moved, 4)), (5, 3, 5));
        assert_eq!((graph.slots(), vector(&graph, 2)), (3, 5));
        assert_eq!(moved.adjacency().load_neighbors(slot(0), &mut neighbors), [slot(4)]);
        assert_eq!(moved.adjacency().load_neighbors(slot(4), &mut neighbors), [slot(3), slot(0)]);
    }
}
