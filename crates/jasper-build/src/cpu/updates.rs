//! Rows on their way into the graph.

use jasper_core::{Element, Neighbor, VectorId};
use jasper_graph::Graph;

use crate::{Work, executor};

/// A list of neighbours for each vertex of a batch: its candidates, or its links.
#[derive(Debug, Default)]
pub struct NeighborLists {
    /// Each vertex, and the end of its list in `neighbors`.
    rows: Vec<(VectorId, usize)>,
    neighbors: Vec<Neighbor>,
    pub(crate) identical: Vec<(VectorId, VectorId)>,
    pub(crate) work: Work,
}

impl NeighborLists {
    pub(crate) fn push(&mut self, vertex: VectorId, neighbors: &[Neighbor]) {
        self.neighbors.extend_from_slice(neighbors);
        self.rows.push((vertex, self.neighbors.len()));
    }

    pub(crate) fn join(parts: Vec<Self>) -> Self {
        let mut whole = Self::default();
        for part in parts {
            let before = whole.neighbors.len();
            whole.rows.extend(part.rows.iter().map(|&(vertex, end)| (vertex, before + end)));
            whole.neighbors.extend(part.neighbors);
            whole.identical.extend(part.identical);
            whole.work += part.work;
        }
        whole
    }

    /// Every vertex with its list.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (VectorId, &[Neighbor])> {
        let mut start = 0;
        self.rows
            .iter()
            .map(move |&(vertex, end)| (vertex, &self.neighbors[std::mem::replace(&mut start, end)..end]))
    }

    /// Makes each list the out-edges of its vertex.
    pub(crate) fn write<T: Element>(&self, graph: &mut Graph<T>) {
        let mut ids = Vec::new();
        for (vertex, neighbors) in self.rows() {
            ids.clear();
            ids.extend(neighbors.iter().map(|neighbor| neighbor.id()));
            graph.set_neighbors(vertex, &ids);
        }
    }
}

impl executor::Lists for NeighborLists {
    fn identical(&self) -> &[(VectorId, VectorId)] {
        &self.identical
    }

    fn work(&self) -> Work {
        self.work
    }
}

/// New rows, and additions to rows: as little as is needed, since a batch touches some forty rows a vertex.
#[derive(Debug, Default)]
pub struct Updates {
    rows: Vec<Update>,
    ids: Vec<VectorId>,
    pub(crate) work: Work,
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

    pub(crate) fn join(parts: Vec<Self>) -> Self {
        let mut whole = Self::default();
        for part in parts {
            let before = whole.ids.len();
            whole.rows.extend(part.rows.into_iter().map(|row| Update { end: before + row.end, ..row }));
            whole.ids.extend(part.ids);
            whole.work += part.work;
        }
        whole
    }

    pub(crate) fn write<T: Element>(&self, graph: &mut Graph<T>) {
        let mut start = 0;
        for row in &self.rows {
            let ids = &self.ids[std::mem::replace(&mut start, row.end)..row.end];
            if row.appends {
                graph.append_neighbors(row.vertex, ids);
            } else {
                graph.set_neighbors(row.vertex, ids);
            }
        }
    }
}
