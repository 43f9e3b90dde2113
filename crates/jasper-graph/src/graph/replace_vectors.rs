//! Replaces the vectors of a graph temporarily, and restores them.

use jasper_core::{Element, Metric, Slot};

use super::{Graph, VectorBlock};
use crate::{VectorError, Vectors};

/// The vectors taken out of a graph by [`Graph::replace_vectors`].
#[derive(Debug)]
pub struct SavedVectors<T: 'static>(Vectors<T>);

impl<T: Element> SavedVectors<T> {
    /// The vector of a slot, padded.
    ///
    /// # Panics
    /// Panics if there is no such slot.
    pub fn padded(&self, slot: Slot) -> &[T] {
        self.0.padded(slot)
    }
}

impl<T: Element> Graph<T> {
    /// Replaces all vectors by others of the same dimension. `write` computes the new vectors from the old ones. It
    /// gets blocks that different threads may write, in which vectors are numbered by slot. Keys and start points stay;
    /// the edges are cleared.
    ///
    /// # Errors
    /// Returns [`VectorError`] if there is not enough memory. The graph is dropped.
    ///
    /// # Panics
    /// If a transaction is open.
    #[doc(hidden)]
    pub fn replace_vectors<U: Element>(
        self,
        metric: Metric,
        write: impl FnOnce(&SavedVectors<T>, Vec<VectorBlock<'_, U>>),
    ) -> Result<(Graph<U>, SavedVectors<T>), VectorError> {
        assert!(
            !self.adjacency.in_transaction() && self.keys.changes.is_none(),
            "vectors are replaced outside transactions"
        );
        let (slots, dimension) = (self.slots(), self.dimension());
        let (mut graph, old) = self.with_vectors(Vectors::zeroed(metric, dimension, slots)?);
        graph.adjacency.clear();
        let saved = SavedVectors(old);
        let slots: Vec<Slot> = (0..slots).map(Slot::from_index).collect();
        write(&saved, graph.vectors.blocks_mut(&slots));
        graph.vectors.note_written(&slots);
        Ok((graph, saved))
    }

    /// Restores the vectors that [`Self::replace_vectors`] took out; edges stay as they are now.
    ///
    /// # Panics
    /// If there are not as many vectors as slots.
    #[doc(hidden)]
    pub fn restore_vectors<U: Element>(self, saved: SavedVectors<U>) -> Graph<U> {
        assert_eq!(saved.0.table.len(), self.slots(), "vectors return to the graph they were taken from");
        self.with_vectors(saved.0).0
    }

    fn with_vectors<U>(self, vectors: Vectors<U>) -> (Graph<U>, Vectors<T>) {
        let Self { params, vectors: old, adjacency, keys, tuned } = self;
        (Graph { params, vectors, adjacency, keys, tuned }, old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jasper_core::BuildParams;

    #[test]
    fn edges_stay_and_vectors_are_restored() {
        let mut graph = Graph::<f32>::new(Metric::InnerProduct, 3, BuildParams::default()).unwrap();
        for key in 0..5_u64 {
            let row = [key as f32 / 2.0, 0.0, 1.0, 0.0];
            let slot = graph.add_vector(&row, 1.0).unwrap();
            graph.keys_mut().assign(key, slot).unwrap();
        }
        let slots: Vec<_> = graph.keys().vertices().collect();
        graph.adjacency_mut().set_start_points(vec![slots[2]]);
        let halves = |taken: &SavedVectors<f32>, blocks: Vec<VectorBlock<'_, u8>>| {
            for mut block in blocks {
                for number in block.numbers() {
                    let row = taken.padded(Slot::from_index(number));
                    let mut bytes = [0_u8; 16];
                    bytes[0] = (row[0] * 2.0) as u8;
                    block.set(number, &bytes, number as f32);
                }
            }
        };
        let (mut bytes, saved) = graph.replace_vectors::<u8>(Metric::InnerProduct, halves).unwrap();
        assert_eq!(
            (bytes.vectors().get(slots[3]), bytes.vectors().largest_squared_norm()),
            (&[3, 0, 0][..], 4.0)
        );
        assert_eq!(
            (bytes.keys().slot_of(4), bytes.adjacency().start_points()),
            (Some(slots[4]), &slots[2..3])
        );
        bytes.adjacency_mut().set_neighbors(slots[0], &slots[1..4]);
        let graph = bytes.restore_vectors(saved);
        assert_eq!(
            (graph.vectors().get(slots[3]), graph.vectors().largest_squared_norm()),
            (&[1.5, 0.0, 1.0][..], 1.0)
        );
        assert_eq!(graph.adjacency().neighbors(slots[0]), &slots[1..4]);
        assert!(graph.keys().is_live(slots[4]) && graph.check_structure().is_sound());
    }
}
