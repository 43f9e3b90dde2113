//! Commit and rollback, and the log of changes for copies on devices.

use jasper_core::Slot;

use super::Graph;
use crate::SpanningTree;

/// The slots that changed, for copies of the graph on devices. They are in any order, and a slot may appear more than
/// once.
///
/// Edges are not logged, because a device has edges of its own.
#[derive(Clone, Debug, Default)]
pub struct ChangedSlots {
    /// Slots that got a vector, and have no edges yet.
    pub vectors: Vec<Slot>,
    /// Slots that may have become live or a tombstone, or whose first key may have changed.
    pub keys: Vec<Slot>,
    /// Whether a slot that had a key before has another first key.
    pub first_keys: bool,
    /// Whether the start points changed.
    pub start_points: bool,
    /// Whether there is another [spanning tree](SpanningTree), or none any more.
    pub spanning_tree: bool,
    /// Whether the [center](crate::VectorTable::center) changed: if its coordinates did, all terms have.
    pub center: bool,
    /// Slots that got another parent in it.
    pub parents: Vec<Slot>,
}

impl ChangedSlots {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        let Self { vectors, keys, start_points, spanning_tree, center, parents, first_keys: _ } = self;
        let is_same = vectors.is_empty() && keys.is_empty() && parents.is_empty();
        is_same && !start_points && !spanning_tree && !center
    }

    /// Adds later changes.
    pub fn append(&mut self, mut later: Self) {
        self.vectors.append(&mut later.vectors);
        self.keys.append(&mut later.keys);
        self.first_keys |= later.first_keys;
        self.start_points |= later.start_points;
        self.spanning_tree |= later.spanning_tree;
        self.center |= later.center;
        self.parents.append(&mut later.parents);
    }
}

impl Graph {
    /// Begins a transaction, which [`Self::commit`] or [`Self::rollback`] ends. Until then, every change can be undone
    /// except [`Self::compact`] and [`Self::release_tombstones`], which come last.
    ///
    /// Memory: the slot sets, and each row of edges that changes.
    #[doc(hidden)]
    pub fn begin(&mut self) {
        self.vectors.begin(self.slots());
        self.adjacency.begin();
        self.keys.begin();
        self.begun_with = Some(self.params);
    }

    /// Keeps the changes since [`Self::begin`].
    #[doc(hidden)]
    pub fn commit(&mut self) {
        self.vectors.commit();
        self.adjacency.commit();
        self.keys.commit();
        self.begun_with = None;
    }

    /// Undoes the changes since [`Self::begin`].
    #[doc(hidden)]
    pub fn rollback(&mut self) {
        let has_tree = self.adjacency.tree.is_some();
        let is_recentered = self.vectors.rollback();
        self.adjacency.rollback();
        self.keys.rollback();
        self.params = self.begun_with.take().unwrap_or(self.params);
        self.readers.retire();
        self.log(|changes| {
            changes.spanning_tree |= has_tree;
            changes.center |= is_recentered;
        });
    }

    /// Keeps a spanning tree of the edges, or none from now on. Whoever changes edges afterwards keeps the tree true by
    /// [`Self::set_parents`], or clears it.
    #[doc(hidden)]
    pub fn set_spanning_tree(&mut self, tree: Option<SpanningTree>) {
        self.adjacency.tree = tree;
        self.log(|changes| changes.spanning_tree = true);
    }

    /// Sets the parents of some vertices in the spanning tree, if one is kept. A rollback clears the tree.
    #[doc(hidden)]
    pub fn set_parents(&mut self, parents: &[(Slot, Option<Slot>)]) {
        let Some(tree) = &mut self.adjacency.tree else { return };
        parents.iter().for_each(|&(slot, parent)| tree.set_parent(slot, parent));
        if let Some(undo) = &mut self.adjacency.undo {
            undo.tree_changed = true;
        }
        self.log(|changes| changes.parents.extend(parents.iter().map(|&(slot, _)| slot)));
    }

    /// Logs another center.
    pub(super) fn log_center(&mut self) {
        self.log(|changes| changes.center = true);
    }

    /// Changes the log, if there is one.
    fn log(&mut self, change: impl FnOnce(&mut ChangedSlots)) {
        self.keys.changes.as_mut().map(change);
    }

    /// Returns the changes since the last call, and logs them from the first call on. [`Self::compact`] renames slots,
    /// which is not logged: the owner of a copy moves its rows in the same way, and copies all keys and start points
    /// again.
    #[doc(hidden)]
    pub fn take_changes(&mut self) -> ChangedSlots {
        let start_points = std::mem::take(&mut self.adjacency.start_points_changed);
        match self.keys.changes.replace(ChangedSlots::default()) {
            Some(changes) => ChangedSlots { start_points, ..changes },
            None => ChangedSlots::default(),
        }
    }

    /// Stops logging changes: there is no copy.
    #[doc(hidden)]
    pub fn clear_changes(&mut self) {
        self.keys.changes = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jasper_core::{BuildParams, ElementKind, Metric};

    #[test]
    fn changes_are_logged_from_the_first_call_on() {
        let mut graph = Graph::new(ElementKind::U8, Metric::L2, 16, BuildParams::default()).unwrap();
        let first = graph.add_vector(&[1_u8; 16], 0.0).unwrap();
        assert!(graph.take_changes().is_empty());
        let second = graph.add_vector(&[2_u8; 16], 0.0).unwrap();
        graph.keys_mut().assign(7, first).unwrap();
        graph.adjacency_mut().set_start_points(vec![first]);
        let mut changes = graph.take_changes();
        assert_eq!((&changes.vectors[..], &changes.keys[..]), (&[second][..], &[first][..]));
        assert!(changes.start_points && graph.take_changes().is_empty());
        graph.keys_mut().delete(7).unwrap();
        changes.append(graph.take_changes());
        assert_eq!(changes.keys, [first, first]);
        graph.clear_changes();
        graph.keys_mut().restore(7).unwrap();
        assert!(graph.take_changes().is_empty());
    }
}
