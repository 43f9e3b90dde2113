//! The same graph over other rows, for a while.

use jasper_core::{Element, Metric, VectorId, padded_len};

use super::{Graph, VectorBlock};
use crate::space::{Space, needs_norms};
use crate::{Segments, VectorError};

/// The rows of a graph that is over others meanwhile.
#[derive(Debug)]
pub struct TakenRows<T: 'static>(Space<T>);

impl<T: Element> TakenRows<T> {
    /// The row of a slot, padded.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn row(&self, slot: VectorId) -> &[T] {
        self.0.vectors.row(slot.index())
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
        assert!(self.journal.is_none() && self.changes.is_none(), "nobody follows the change");
        let (slots, dimension) = (self.slots(), self.dimension());
        let space = Space {
            metric,
            dimension,
            vectors: Segments::zeroed(slots, padded_len::<U>(dimension))?,
            has_vectors: true,
            squared_norms: match needs_norms(metric, U::EXACT) {
                true => Some(Segments::zeroed(slots, 1)?),
                false => None,
            },
            largest_squared_norm: 0.0,
            sketches: None,
            codes: None,
        };
        let (mut graph, space) = self.with_space(space);
        let taken = TakenRows(space);
        let slots: Vec<VectorId> = (0..slots).map(VectorId::from_index).collect();
        write(&taken, graph.row_blocks(&slots));
        graph.note_norms(&slots);
        Ok((graph, taken))
    }

    /// The graph over the rows that were taken out of it by [`Self::over`], with the edges that it has now.
    ///
    /// # Panics
    /// If they are not as many.
    pub fn restore<U: Element>(self, rows: TakenRows<U>) -> Graph<U> {
        assert_eq!(rows.0.vectors.len(), self.slots(), "rows are given back to the graph they are of");
        self.with_space(rows.0).0
    }

    fn with_space<U>(self, space: Space<U>) -> (Graph<U>, Space<T>) {
        let Self { params, space: old, adjacency, degrees, keys, tombstones, free, .. } = self;
        let Self { start_points, unchecked, next_key, tuned, journal, changes, .. } = self;
        let graph = Graph {
            params,
            space,
            adjacency,
            degrees,
            keys,
            tombstones,
            free,
            start_points,
            unchecked,
            next_key,
            tuned,
            journal,
            changes,
        };
        (graph, old)
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
            graph.assign_key(key, slot).unwrap();
        }
        let slots: Vec<_> = graph.vertices().collect();
        graph.set_start_points(vec![slots[2]]);
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
        assert_eq!((bytes.vector(slots[3]), bytes.largest_squared_norm()), (&[3, 0, 0][..], 4.0));
        assert_eq!((bytes.slot_of(4), bytes.start_points()), (Some(slots[4]), &slots[2..3]));
        bytes.set_neighbors(slots[0], &slots[1..4]);
        let graph = bytes.restore(taken);
        assert_eq!((graph.vector(slots[3]), graph.largest_squared_norm()), (&[1.5, 0.0, 1.0][..], 1.0));
        assert_eq!(graph.neighbors(slots[0]), &slots[1..4]);
        assert!(graph.is_live(slots[4]) && graph.check_structure().is_sound());
    }
}
