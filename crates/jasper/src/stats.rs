//! Counts and sizes of an index.

use jasper_core::{Element, ElementKind, Metric};
use jasper_graph::Graph;
use jasper_quant::Quantization;
use jasper_vamana::MemorySpace;

/// Counts and sizes of an index.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct IndexStats {
    /// Keys in the index.
    pub keys: usize,
    /// Vertices with keys; fewer than keys if vectors are identical.
    pub live_vertices: usize,
    /// Deleted keys that can be restored.
    pub deleted_keys: usize,
    /// Deleted vertices that searches still traverse; [`crate::Index::consolidate`] removes them.
    pub tombstones: usize,
    /// Slots without a vertex, which the next inserts use and [`crate::Index::compact`] releases.
    pub free_slots: usize,
    /// Coordinates per vector.
    pub dimension: usize,
    /// Type of a coordinate.
    pub element: ElementKind,
    /// The distance between vectors.
    pub metric: Metric,
    /// Maximum out-edges per vertex.
    pub max_degree: usize,
    /// Mean out-edges per vertex; see [`crate::Index::stats`].
    pub mean_degree: f64,
    /// Bytes of vectors.
    pub vector_bytes: usize,
    /// Where searches read vectors; see [`crate::DeviceOptions::vector_storage`].
    pub vector_storage: MemorySpace,
    /// Bytes of sketches; 0 without [any](crate::QuantizeMode::Sketches).
    pub sketch_bytes: usize,
    /// The quantization of the vectors, if any.
    pub quantization: Option<Quantization>,
    /// Bytes of codes.
    pub code_bytes: usize,
    /// Bytes of adjacency at full degree. While the index is on a device, the host does not hold them.
    pub graph_bytes: usize,
}

impl IndexStats {
    /// The sums of two shards.
    pub(crate) fn merge(self, other: Self) -> Self {
        let vertices = |stats: &Self| (stats.live_vertices + stats.tombstones) as f64;
        let edges = self.mean_degree * vertices(&self) + other.mean_degree * vertices(&other);
        Self {
            keys: self.keys + other.keys,
            live_vertices: self.live_vertices + other.live_vertices,
            deleted_keys: self.deleted_keys + other.deleted_keys,
            tombstones: self.tombstones + other.tombstones,
            free_slots: self.free_slots + other.free_slots,
            mean_degree: edges / (vertices(&self) + vertices(&other)).max(1.0),
            vector_bytes: self.vector_bytes + other.vector_bytes,
            sketch_bytes: self.sketch_bytes + other.sketch_bytes,
            code_bytes: self.code_bytes + other.code_bytes,
            graph_bytes: self.graph_bytes + other.graph_bytes,
            ..self
        }
    }

    pub(crate) fn new<T: Element>(graph: &Graph<T>, vector_storage: MemorySpace) -> Self {
        let vertices = graph.keys().live() + graph.keys().tombstones();
        let edges: usize = graph.keys().vertices().map(|slot| graph.adjacency().neighbors(slot).len()).sum();
        Self {
            keys: graph.keys().len(),
            live_vertices: graph.keys().live(),
            deleted_keys: graph.keys().deleted_keys().len(),
            tombstones: graph.keys().tombstones(),
            free_slots: graph.keys().free(),
            dimension: graph.dimension(),
            element: T::KIND,
            metric: graph.metric(),
            max_degree: graph.params().max_degree(),
            mean_degree: edges as f64 / vertices.max(1) as f64,
            vector_bytes: graph.vectors().bytes(),
            vector_storage,
            sketch_bytes: graph.vectors().sketch_bytes(),
            quantization: graph.vectors().codes().map(|codes| codes.quantizer().quantization()),
            code_bytes: graph.vectors().code_bytes(),
            graph_bytes: graph.adjacency().bytes(),
        }
    }
}
