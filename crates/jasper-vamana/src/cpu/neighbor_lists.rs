//! Candidates, edges and rows of a batch, before they are in the graph.

use jasper_core::{Neighbor, Slot};
use jasper_graph::Graph;

use crate::OperationCounts;
use crate::pipeline::Duplicates;

/// A list of neighbors for each vertex of a batch: its candidates, or its edges.
#[derive(Debug, Default)]
pub struct NeighborLists {
    lists: Vec<(Slot, Box<[Neighbor]>)>,
    /// Vertices of the batch without a list.
    pub(crate) duplicates: Duplicates,
    pub(crate) cost: OperationCounts,
}

impl NeighborLists {
    /// The cost of computing the lists.
    pub fn cost(&self) -> OperationCounts {
        self.cost
    }

    pub(crate) fn push(&mut self, vertex: Slot, neighbors: &[Neighbor]) {
        self.lists.push((vertex, neighbors.into()));
    }

    /// Joins parts, in order.
    pub(crate) fn join(parts: Vec<Self>) -> Self {
        let mut whole = Self::default();
        for part in parts {
            whole.lists.extend(part.lists);
            whole.duplicates.extend(part.duplicates);
            whole.cost += part.cost;
        }
        whole
    }

    /// Removes the lists of vertices for which `duplicate_of` returns another vertex.
    pub(crate) fn remove_duplicates(&mut self, duplicate_of: impl Fn(Slot, &[Neighbor]) -> Option<Slot>) {
        let Self { lists, duplicates, .. } = self;
        lists.retain(|(vertex, neighbors)| {
            let other = duplicate_of(*vertex, neighbors);
            duplicates.extend(other.map(|other| (*vertex, other)));
            other.is_none()
        });
    }

    /// The vertices of the batch, ascending, and whether each has a list.
    pub(crate) fn batch(&self) -> Vec<(Slot, bool)> {
        let duplicates = self.duplicates.iter().map(|(vertex, _)| (*vertex, false));
        let mut batch: Vec<_> = self.lists.iter().map(|list| (list.0, true)).chain(duplicates).collect();
        batch.sort_unstable();
        batch
    }

    /// Every vertex with its list.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &[Neighbor])> {
        self.lists.iter().map(|(vertex, neighbors)| (*vertex, &**neighbors))
    }

    /// Makes each list the row of its vertex.
    pub(crate) fn write(&self, graph: &mut Graph) {
        let mut slots = Vec::new();
        for (vertex, neighbors) in self.iter() {
            slots.clear();
            slots.extend(neighbors.iter().map(|neighbor| neighbor.slot()));
            graph.adjacency_mut().set_neighbors(vertex, &slots);
        }
    }
}

/// An edge to add: its target, then its source with the distance between them.
pub(crate) type BackEdge = (Slot, Neighbor);

/// The reversed edges of a batch, sorted by (target, distance, source), and how many of them are merged.
#[derive(Debug)]
pub struct BackEdges {
    edges: Vec<BackEdge>,
    merged: usize,
}

impl BackEdges {
    /// Reverses edges. The sort key is all of (target, distance, source), so that the result does not depend on the
    /// order of threads.
    pub(crate) fn new(chunks: &[NeighborLists], sort: impl FnOnce(&mut [BackEdge])) -> Self {
        let lists = || chunks.iter().flat_map(NeighborLists::iter);
        let mut edges: Vec<BackEdge> = Vec::with_capacity(lists().map(|list| list.1.len()).sum());
        for (source, row) in lists() {
            edges.extend(row.iter().map(|edge| (edge.slot(), Neighbor::new(edge.distance(), source))));
        }
        sort(&mut edges);
        Self { edges, merged: 0 }
    }

    /// The edges to each of the next `targets` targets, or of fewer at the end.
    pub(crate) fn next(&self, targets: usize) -> Vec<&[BackEdge]> {
        self.edges[self.merged..].chunk_by(|a, b| a.0 == b.0).take(targets).collect()
    }

    /// Counts the next `edges` as merged.
    pub(crate) fn advance(&mut self, edges: usize) {
        self.merged += edges;
    }
}

/// New rows, and edges appended to rows. The representation is compact, because a batch changes about forty rows per
/// vertex.
#[derive(Debug, Default)]
pub struct NewRows {
    rows: Vec<NewRow>,
    neighbors: Vec<Slot>,
    pub(crate) detached: Vec<Slot>,
    pub(crate) cost: OperationCounts,
}

#[derive(Debug)]
struct NewRow {
    vertex: Slot,
    /// End of its neighbors in [`NewRows::neighbors`].
    end: usize,
    is_appended: bool,
}

impl NewRows {
    pub(crate) fn append(&mut self, vertex: Slot, neighbors: impl IntoIterator<Item = Slot>) {
        self.push(vertex, neighbors, true);
    }

    pub(crate) fn replace(&mut self, vertex: Slot, neighbors: impl IntoIterator<Item = Slot>) {
        self.push(vertex, neighbors, false);
    }

    fn push(&mut self, vertex: Slot, neighbors: impl IntoIterator<Item = Slot>, is_appended: bool) {
        self.neighbors.extend(neighbors);
        self.rows.push(NewRow { vertex, end: self.neighbors.len(), is_appended });
    }

    pub(crate) fn write(&self, graph: &mut Graph) {
        let mut start = 0;
        for row in &self.rows {
            let neighbors = &self.neighbors[std::mem::replace(&mut start, row.end)..row.end];
            if row.is_appended {
                graph.adjacency_mut().append_neighbors(row.vertex, neighbors);
            } else {
                graph.adjacency_mut().set_neighbors(row.vertex, neighbors);
            }
        }
    }
}
