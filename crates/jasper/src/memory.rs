//! What an index takes, before it exists.

use jasper_core::{BuildParams, Element, Key, Metric, VectorId, padded_len};

/// Bytes that a build takes at its peak, by part. Rows that turn out to be identical take less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryEstimate {
    /// Vectors, padded to 16 bytes each, and their squared lengths where the metric needs them.
    pub vectors: usize,
    /// Adjacency at full degree.
    pub graph: usize,
    /// Keys.
    pub keys: usize,
    /// What a build holds beside them and gives back: the larger of the table that finds identical rows, which is gone
    /// before adjacency is written, and the largest batch.
    pub scratch: usize,
}

/// Bytes a vertex of the largest batch takes beside its candidates: links, back edges and their groups, and updates.
const BATCH_BYTES_PER_EDGE: usize = 56;

impl MemoryEstimate {
    /// What building an index of these parameters takes.
    pub fn of_build<T: Element>(rows: usize, dimension: usize, metric: Metric, params: &BuildParams) -> Self {
        let norm = if metric == Metric::InnerProduct || metric == Metric::Cosine && T::EXACT { 4 } else { 0 };
        let row = padded_len::<T>(dimension) * size_of::<T>() + norm;
        let edges = params.max_degree() * size_of::<VectorId>() + size_of::<u16>();
        let batch = jasper_build::largest_batch(rows, params);
        let candidates = (params.build_beam_width() + params.build_beam_width() / 8) * 8;
        let batch = batch * (candidates + params.max_degree() * BATCH_BYTES_PER_EDGE);
        // Slots of rows, and the table from content to slot, which is gone before adjacency pages are touched.
        let identical = (rows * (4 + 17 * 3 / 2)).saturating_sub(rows * edges);
        Self {
            vectors: rows * row,
            graph: rows * edges,
            keys: rows * size_of::<Key>(),
            scratch: batch.max(identical),
        }
    }

    /// All parts together.
    pub fn total(&self) -> usize {
        self.vectors + self.graph + self.keys + self.scratch
    }

    /// The parts by name.
    pub fn parts(&self) -> [(&'static str, usize); 4] {
        [("vectors", self.vectors), ("graph", self.graph), ("keys", self.keys), ("scratch", self.scratch)]
    }
}
