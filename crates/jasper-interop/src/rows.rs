//! The order of vertices in files of other libraries.

use std::io::{self, Write};

use jasper_core::{Metric, Slot};

use crate::ExportError;
use jasper_graph::Graph;

/// The vertices ordered by first key.
pub(crate) struct Rows<'a> {
    graph: &'a Graph,
    slots: Vec<Slot>,
    /// Row of each slot; meaningless where the slot is free.
    row_of: Vec<u32>,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(graph: &'a Graph) -> Result<Self, ExportError> {
        graph.require_vectors()?;
        if graph.keys().tombstones() > 0 {
            return Err(ExportError::Tombstones(graph.keys().tombstones()));
        }
        if graph.adjacency().start_points().is_empty() {
            return Err(ExportError::Empty);
        }
        let mut slots: Vec<Slot> = graph.keys().live_slots().collect();
        slots.sort_unstable_by_key(|&slot| graph.keys().first_key(slot));
        let mut row_of = vec![0; graph.slots()];
        for (row, slot) in slots.iter().enumerate() {
            row_of[slot.index()] = row as u32;
        }
        Ok(Self { graph, slots, row_of })
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns the slot of each row.
    pub(crate) fn into_slots(self) -> Vec<Slot> {
        self.slots
    }

    /// Returns the slots in row order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        self.slots.iter().copied()
    }

    /// Returns the row at which searches start. Other libraries have only one.
    pub(crate) fn start(&self) -> u32 {
        self.row_of[self.graph.adjacency().start_points()[0].index()]
    }

    /// Writes the rows of the neighbors of a vertex to `out`.
    pub(crate) fn neighbors(&self, slot: Slot, out: &mut Vec<u32>) {
        out.clear();
        out.extend(self.graph.adjacency().neighbors(slot).iter().map(|to| self.row_of[to.index()]));
    }

    /// Writes the vector of a vertex as f32; at unit length under the cosine metric.
    pub(crate) fn write_f32(&self, slot: Slot, out: &mut impl Write) -> io::Result<()> {
        let graph = self.graph;
        let mut vector = vec![0.0_f32; graph.dimension()];
        graph.vectors().read_f32(slot, &mut vector);
        if graph.metric() == Metric::Cosine && graph.element().is_integer() {
            let scale = vector.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt().recip();
            vector.iter_mut().for_each(|x| *x = (f64::from(*x) * scale) as f32);
        }
        out.write_all(bytemuck::cast_slice(&vector))
    }
}
