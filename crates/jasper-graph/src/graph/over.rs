//! The same graph over other rows, for a while.

use jasper_core::{Element, Metric, VectorId};

use super::{Graph, VectorBlock};
use crate::{VectorError, Vectors};

/// The rows of a graph that is over others meanwhile.
#[derive(Debug)]
pub struct TakenRows<T: 'static>(Vectors<T>);

impl<T: Element> TakenRows<T> {
    /// The row of a slot, padded.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn row(&self, slot: VectorId) -> &[T] {
        self.0.padded(slot)
    }
}

impl<T: Element> Graph<T> {
    /// The graph over other rows of the same dimension, one a slot, which `write` is given the old ones to write from: in
    /// blocks for as many threads, by the numbers of the slots. Keys and start points stay; there are no edges yet.
    ///
    /// # Errors
    /// What the operating system says when there is no memory; the graph is gone.
    ///
    /// # Panics
    /// If changes are remembered since [`Self::begin`], for they are of the old rows.
    pub fn over<U: Element>(
        self,
        metric: Metric,
        write: impl FnOnce(&TakenRows<T>, Vec<VectorBlock<'_, U>>),
    ) -> Result<(Graph<U>, TakenRows<T>), VectorError> {
        assert!(!self.adjacency.in_transaction() && self.keys.changes.is_none(), "nobody follows the change");
        let (slots, dimension) = (self.slots(), self.dimension());
        let (mut graph, old) = self.with_vectors(Vectors::zeroed(metric, dimension, slots)?);
        graph.adjacency.clear();
        let taken = TakenRows(old);
        let slots: Vec<VectorId> = (0..slots).map(VectorId::from_index).collect();
        write(&taken, graph.vectors.blocks_mut(&slots));
        graph.vectors.note_written(&slots);
        Ok((graph, taken))
    }

    /// The graph over the rows that were taken out of it by [`Self::over`], with the edges that it has now.
    ///
    /// # Panics
    /// If they are not as many.
    pub fn restore<U: Element>(self, rows: TakenRows<U>) -> Graph<U> {
        assert_eq!(rows.0.table.len(), self.slots(), "rows are given back to the graph they are of");
        self.with_vectors(rows.0).0
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
    fn edges_stay_and_rows_come_back() {
        let mut graph = Graph::<f32>::new(Metric::InnerProduct, 3, BuildParams::default()).unwrap();
        for key in 0..5_u64 {
            let row = [key as f32 / 2.0, 0.0, 1.0, 0.0];
            let slot = graph.add_vector(&row, 1.0).unwrap();
            graph.keys_mut().assign(key, slot).unwrap();
        }
        let slots: Vec<_> = graph.keys().vertices().collect();
        graph.adjacency_mut().set_start_points(vec![slots[2]]);
        let halves = |taken: &TakenRows<f32>, blocks: Vec<VectorBlock<'_, u8>>| {
            for mut block in blocks {
                for number in block.numbers() {
                    let row = taken.row(VectorId::from_index(number));
                    let mut bytes = [0_u8; 16];
                    bytes[0] = (row[0] * 2.0) as u8;
                    block.set(number, &bytes, number as f32);
                }
            }
        };
        let (mut bytes, taken) = graph.over::<u8>(Metric::InnerProduct, halves).unwrap();
        assert_eq!(
            (bytes.vectors().get(slots[3]), bytes.vectors().largest_squared_norm()),
            (&[3, 0, 0][..], 4.0)
        );
        assert_eq!(
            (bytes.keys().slot_of(4), bytes.adjacency().start_points()),
            (Some(slots[4]), &slots[2..3])
        );
        bytes.adjacency_mut().set_neighbors(slots[0], &slots[1..4]);
        let graph = bytes.restore(taken);
        assert_eq!(
            (graph.vectors().get(slots[3]), graph.vectors().largest_squared_norm()),
            (&[1.5, 0.0, 1.0][..], 1.0)
        );
        assert_eq!(graph.adjacency().neighbors(slots[0]), &slots[1..4]);
        assert!(graph.keys().is_live(slots[4]) && graph.check_structure().is_sound());
    }
}
