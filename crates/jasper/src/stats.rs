//! Counts, sizes and parameters of an index.

use jasper_core::{BuildParams, ElementKind, Key, Metric};
use jasper_graph::Graph;
use jasper_quant::Quantization;
use jasper_vamana::MemorySpace;

use crate::BuildReport;

/// Counts, sizes and parameters of an index: what [`Index::stats`](crate::Index::stats) returns.
#[derive(Clone, Debug, PartialEq)]
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
    /// The parameters that the graph was built with.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub params: BuildParams,
    /// Number of shards: graphs that each have a part of the vectors. 1 unless the index was built with
    /// [several](crate::IndexBuilder::shards).
    pub shards: usize,
    /// The key after the largest ever used: the first that [`NewKeys::NEXT`](crate::NewKeys::NEXT) would give now.
    pub next_key: Key,
    /// Bytes of vectors.
    pub vector_bytes: usize,
    /// Where searches read vectors; see [`crate::Device::vector_storage`].
    pub vector_storage: MemorySpace,
    /// Bytes of sketches; 0 without [any](crate::QuantizeMode::Sketches).
    pub sketch_bytes: usize,
    /// The quantization of the vectors, if any.
    pub quantization: Option<Quantization>,
    /// Bytes of codes.
    pub code_bytes: usize,
    /// Bytes of adjacency at full degree. While the index is on a device, the host does not hold them.
    pub graph_bytes: usize,
    /// Bytes of attributes, and of what finds keys by them; always in host memory.
    pub attribute_bytes: usize,
    /// What the build of the index did. `None` if it was opened, or created without vectors.
    ///
    /// A move by which devices are [sharded](crate::Device::sharded) replaces the report by that of the shards.
    /// After a [rebuild](crate::Index::rebuild) of several shards, those without vectors are left out of it.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub build: Option<BuildReport>,
}

impl IndexStats {
    /// The sums of two shards.
    pub(crate) fn merge(self, other: Self) -> Self {
        Self {
            keys: self.keys + other.keys,
            live_vertices: self.live_vertices + other.live_vertices,
            deleted_keys: self.deleted_keys + other.deleted_keys,
            tombstones: self.tombstones + other.tombstones,
            free_slots: self.free_slots + other.free_slots,
            shards: self.shards + other.shards,
            next_key: self.next_key.max(other.next_key),
            vector_bytes: self.vector_bytes + other.vector_bytes,
            sketch_bytes: self.sketch_bytes + other.sketch_bytes,
            code_bytes: self.code_bytes + other.code_bytes,
            graph_bytes: self.graph_bytes + other.graph_bytes,
            attribute_bytes: self.attribute_bytes + other.attribute_bytes,
            ..self
        }
    }

    pub(crate) fn new(graph: &Graph, vector_storage: MemorySpace) -> Self {
        Self {
            keys: graph.keys().len(),
            live_vertices: graph.keys().live(),
            deleted_keys: graph.keys().deleted_keys().len(),
            tombstones: graph.keys().tombstones(),
            free_slots: graph.keys().free(),
            dimension: graph.dimension(),
            element: graph.element(),
            metric: graph.metric(),
            params: *graph.params(),
            shards: 1,
            next_key: graph.keys().next_key(),
            vector_bytes: graph.vectors().bytes(),
            vector_storage,
            sketch_bytes: graph.vectors().sketch_bytes(),
            quantization: graph.vectors().codes().map(|codes| codes.quantizer().quantization()),
            code_bytes: graph.vectors().code_bytes(),
            graph_bytes: graph.adjacency().bytes(),
            attribute_bytes: graph.keys().attributes().memory(),
            build: None,
        }
    }
}
