//! Rows on their way into the graph.

use jasper_core::{Element, Neighbor, VectorId};
use jasper_graph::Graph;

use crate::{SearchCost, executor};

/// A list of neighbors for each vertex of a batch: its candidates, or its links.
#[derive(Debug, Default)]
pub struct NeighborLists {
    rows: Vec<(VectorId, Box<[Neighbor]>)>,
    pub(crate) identical: Vec<(VectorId, VectorId)>,
    pub(crate) cost: SearchCost,
}

impl NeighborLists {
    pub(crate) fn push(&mut self, vertex: VectorId, neighbors: &[Neighbor]) {
        self.rows.push((vertex, neighbors.into()));
    }

    /// Sets the vertices aside that are `identical` to one of their list.
    pub(crate) fn find_duplicates(&mut self, identical: impl Fn(VectorId, &[Neighbor]) -> Option<VectorId>) {
        let Self { rows, identical: named, .. } = self;
        rows.retain(|(vertex, found)| {
            let other = identical(*vertex, found);
            named.extend(other.map(|other| (*vertex, other)));
            other.is_none()
        });
    }

    /// The vertices, rising, and whether each still has a list.
    pub(crate) fn batch(&self) -> Vec<(VectorId, bool)> {
        let set_aside = self.identical.iter().map(|(vertex, _)| (*vertex, false));
        let mut batch: Vec<_> = self.rows.iter().map(|row| (row.0, true)).chain(set_aside).collect();
        batch.sort_unstable();
        batch
    }

    /// Every vertex with its list.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (VectorId, &[Neighbor])> {
        self.rows.iter().map(|(vertex, neighbors)| (*vertex, &**neighbors))
    }

    /// Length of all lists together.
    pub(crate) fn edges(&self) -> usize {
        self.rows.iter().map(|row| row.1.len()).sum()
    }

    /// Makes each list the out-edges of its vertex.
    pub(crate) fn write<T: Element>(&self, graph: &mut Graph<T>) {
        let mut ids = Vec::new();
        for (vertex, neighbors) in self.rows() {
            ids.clear();
            ids.extend(neighbors.iter().map(|neighbor| neighbor.id()));
            graph.adjacency_mut().set_neighbors(vertex, &ids);
        }
    }
}

impl executor::Links for NeighborLists {
    fn join(parts: Vec<Self>) -> Self {
        let mut whole = Self::default();
        for part in parts {
            whole.rows.extend(part.rows);
            whole.identical.extend(part.identical);
            whole.cost += part.cost;
        }
        whole
    }

    fn identical(&self) -> &[(VectorId, VectorId)] {
        &self.identical
    }

    fn cost(&self) -> SearchCost {
        self.cost
    }
}

/// New rows, and additions to rows: as little as is needed, since a batch touches some forty rows a vertex.
#[derive(Debug, Default)]
pub struct Updates {
    rows: Vec<Update>,
    ids: Vec<VectorId>,
    pub(crate) cost: SearchCost,
}

#[derive(Debug)]
struct Update {
    vertex: VectorId,
    /// End of its ids in [`Updates::ids`].
    end: usize,
    appends: bool,
}

impl Updates {
    pub(crate) fn append(&mut self, vertex: VectorId, edges: &[Neighbor]) {
        self.push(vertex, edges, true);
    }

    pub(crate) fn replace(&mut self, vertex: VectorId, edges: &[Neighbor]) {
        self.push(vertex, edges, false);
    }

    fn push(&mut self, vertex: VectorId, edges: &[Neighbor], appends: bool) {
        self.ids.extend(edges.iter().map(|edge| edge.id()));
        self.rows.push(Update { vertex, end: self.ids.len(), appends });
    }

    pub(crate) fn write<T: Element>(&self, graph: &mut Graph<T>) {
        let mut start = 0;
        for row in &self.rows {
            let ids = &self.ids[std::mem::replace(&mut start, row.end)..row.end];
            if row.appends {
                graph.adjacency_mut().append_neighbors(row.vertex, ids);
            } else {
                graph.adjacency_mut().set_neighbors(row.vertex, ids);
            }
        }
    }
}
