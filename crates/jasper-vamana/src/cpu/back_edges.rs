//! The edges of a batch turned around.

use jasper_core::{Neighbor, VectorId};
use rayon::prelude::*;

use super::updates::NeighborLists;

/// An edge to add: its target, and its source with their distance.
pub(crate) type BackEdge = (VectorId, Neighbor);

/// The edges of a batch turned around, sorted by (target, distance, source), and how many of them are merged.
#[derive(Debug)]
pub struct BackEdges {
    edges: Vec<BackEdge>,
    merged: usize,
}

impl BackEdges {
    /// Turns `links` around. The full key is sorted, so nothing depends on the order of threads.
    pub(crate) fn of(links: &NeighborLists) -> Self {
        let mut edges: Vec<BackEdge> = Vec::with_capacity(links.edges());
        for (source, row) in links.rows() {
            edges.extend(row.iter().map(|edge| (edge.id(), Neighbor::new(edge.distance(), source))));
        }
        edges.par_sort_unstable();
        Self { edges, merged: 0 }
    }

    /// The edges to each of the next `targets`, fewer at the end.
    pub(crate) fn next(&self, targets: usize) -> Vec<&[BackEdge]> {
        self.edges[self.merged..].chunk_by(|a, b| a.0 == b.0).take(targets).collect()
    }

    /// Counts the next `edges` as merged.
    pub(crate) fn take(&mut self, edges: usize) {
        self.merged += edges;
    }
}
