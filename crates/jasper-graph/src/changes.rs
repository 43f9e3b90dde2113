//! What a copy of a graph elsewhere has yet to follow.

use jasper_core::{Element, Key, VectorId};

use crate::Graph;

/// Slots that changed, in any order; a slot may be named more than once. Edges are not covered: whoever has a copy of a
/// graph in use works on edges of its own.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Slots that got a vector, and have no edges yet.
    pub rows: Vec<VectorId>,
    /// Slots that may have become live or tombstones, or got another first key.
    pub marks: Vec<VectorId>,
    /// Whether there are other start points.
    pub start_points: bool,
}

impl Changes {
    /// Whether there is nothing to follow.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.marks.is_empty() && !self.start_points
    }

    /// Adds later changes.
    pub fn append(&mut self, mut later: Self) {
        self.rows.append(&mut later.rows);
        self.marks.append(&mut later.marks);
        self.start_points |= later.start_points;
    }
}

impl<T: Element> Graph<T> {
    /// What changed since this was last called; from the first call on, changes are noted. [`Self::compact`] renames slots,
    /// after which a copy is made anew.
    pub fn take_changes(&mut self) -> Changes {
        self.changes.replace(Changes::default()).unwrap_or_default()
    }

    /// Notes no changes any more: there is no copy.
    pub fn clear_changes(&mut self) {
        self.changes = None;
    }

    /// Notes that a key comes to a slot, where it is `alone`, or leaves it.
    pub(crate) fn note_key(&mut self, key: Key, slot: VectorId, alone: bool) {
        if let Some(journal) = &mut self.journal {
            journal.keep_key(&self.keys, key, slot, alone);
        }
        if let Some(changes) = &mut self.changes {
            changes.marks.push(slot);
        }
    }

    /// Notes that there are other start points.
    pub(crate) fn note_start_points(&mut self) {
        if let Some(changes) = &mut self.changes {
            changes.start_points = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jasper_core::{BuildParams, Metric};

    #[test]
    fn changes_are_noted_from_the_first_time_they_are_asked_for() {
        let mut graph = Graph::<u8>::new(Metric::L2, 16, BuildParams::default()).unwrap();
        let first = graph.add_vector(&[1; 16], 0.0).unwrap();
        assert!(graph.take_changes().is_empty());
        let second = graph.add_vector(&[2; 16], 0.0).unwrap();
        graph.assign_key(7, first).unwrap();
        graph.set_start_points(vec![first]);
        let mut changes = graph.take_changes();
        assert_eq!((&changes.rows[..], &changes.marks[..]), (&[second][..], &[first][..]));
        assert!(changes.start_points && graph.take_changes().is_empty());
        graph.delete_key(7).unwrap();
        changes.append(graph.take_changes());
        assert_eq!(changes.marks, [first, first]);
        graph.clear_changes();
        graph.restore_key(7).unwrap();
        assert!(graph.take_changes().is_empty());
    }
}
