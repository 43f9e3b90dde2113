//! What an index holds.

use jasper_core::{Element, ElementKind, Metric};
use jasper_graph::Graph;
use jasper_quant::Quantization;
use jasper_vamana::VectorStorage;

/// Counts and sizes of an index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IndexStats {
    /// Keys that can be found.
    pub keys: usize,
    /// Vertices that stand for them; fewer than keys where rows are identical.
    pub vertices: usize,
    /// Deleted vertices that are still walked through; [`crate::Index::consolidate`] takes them out.
    pub deleted: usize,
    /// Slots without a vertex, which the next inserts use and [`crate::Index::compact`] gives back.
    pub free: usize,
    /// Coordinates of a vector.
    pub dimension: usize,
    /// Type of a coordinate.
    pub element: ElementKind,
    /// How near two vectors are.
    pub metric: Metric,
    /// Most out-edges of a vertex.
    pub max_degree: usize,
    /// Out-edges of a vertex, on average.
    pub mean_degree: f64,
    /// Bytes of vectors.
    pub vector_bytes: usize,
    /// Where searches read them: on a CUDA device, its memory or that of the host; see [`crate::Index::keep_vectors`].
    pub vectors: VectorStorage,
    /// Bytes of sketches; 0 without [`crate::Index::sketch`].
    pub sketch_bytes: usize,
    /// Which code vectors have beside them, if any.
    pub quantization: Option<Quantization>,
    /// Bytes of codes.
    pub code_bytes: usize,
    /// Bytes of adjacency at full degree.
    pub graph_bytes: usize,
}

impl IndexStats {
    /// Counts; searches read vectors in that place. Cost: the degree of every vertex is read.
    pub(crate) fn of<T: Element>(graph: &Graph<T>, vectors: VectorStorage) -> Self {
        let vertices = graph.keys().live() + graph.keys().tombstones();
        let edges: usize = graph.keys().vertices().map(|slot| graph.adjacency().neighbors(slot).len()).sum();
        Self {
            keys: graph.keys().len(),
            vertices: graph.keys().live(),
            deleted: graph.keys().tombstones(),
            free: graph.keys().free(),
            dimension: graph.dimension(),
            element: T::KIND,
            metric: graph.metric(),
            max_degree: graph.params().max_degree(),
            mean_degree: edges as f64 / vertices.max(1) as f64,
            vector_bytes: graph.vectors().bytes(),
            vectors,
            sketch_bytes: graph.vectors().sketch_bytes(),
            quantization: graph.vectors().codes().map(|codes| codes.quantizer().quantization()),
            code_bytes: graph.vectors().code_bytes(),
            graph_bytes: graph.adjacency().bytes(),
        }
    }
}
