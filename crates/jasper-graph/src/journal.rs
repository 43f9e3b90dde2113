//! What a failed batch puts back.

use std::collections::HashMap;

use jasper_core::{BitSet, VectorId};

/// Adjacency rows as they were when a change began, and the few numbers beside them.
///
/// Only rows that existed then are kept, once each: memory is that of the rows touched, at their degree.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) len: usize,
    pub(crate) free: BitSet,
    pub(crate) tombstones: BitSet,
    pub(crate) start_points: Vec<VectorId>,
    pub(crate) largest_squared_norm: f32,
    rows: HashMap<VectorId, (usize, u16)>,
    neighbors: Vec<VectorId>,
}

impl Journal {
    pub(crate) fn new(
        len: usize,
        free: BitSet,
        tombstones: BitSet,
        start_points: Vec<VectorId>,
        largest_squared_norm: f32,
    ) -> Self {
        let (rows, neighbors) = (HashMap::new(), Vec::new());
        Self { len, free, tombstones, start_points, largest_squared_norm, rows, neighbors }
    }

    /// Keeps a row that is about to be overwritten, unless it is new or kept already.
    pub(crate) fn keep(&mut self, slot: VectorId, neighbors: &[VectorId]) {
        if slot.index() >= self.len || self.free.contains(slot.index()) {
            return;
        }
        self.rows.entry(slot).or_insert_with(|| {
            self.neighbors.extend_from_slice(neighbors);
            (self.neighbors.len() - neighbors.len(), neighbors.len() as u16)
        });
    }

    /// The rows kept.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (VectorId, &[VectorId])> {
        self.rows.iter().map(|(&slot, &(at, degree))| (slot, &self.neighbors[at..at + degree as usize]))
    }
}
