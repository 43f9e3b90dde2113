//! What a build takes, before it begins.

use jasper_core::{BuildParams, Element, Key, Metric, Neighbor, VectorId, padded_len};
use jasper_graph::Graph;

use crate::bulk::largest_batch;
use crate::cpu::{SEARCHED_AT_ONCE, TARGETS_AT_ONCE};

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
    /// Sketches, by which searches of the build rule rows out; given back at its end.
    pub sketches: usize,
    /// A process that does nothing else: its code, threads and stacks, and what huge pages round up.
    pub process: usize,
}

/// Part of the vectors and the graph that a build may take beside them.
const SPARE: f32 = 0.25;
/// The part of that which sketches leave free: data differ, and so does what a build of them takes.
const LEFT_FREE: f32 = 0.04;
/// A test program of the library and a thousand rows; the command takes three million bytes more.
const PROCESS_BYTES: usize = 7 << 20;
/// A row's entry in the table from content to slot, of which at least an eighth is empty and up to half, and its slot.
const IDENTICAL_BYTES: usize = 17 * 3 / 2 + size_of::<VectorId>();

impl MemoryEstimate {
    /// What building an index of these parameters takes.
    pub fn of_build<T: Element>(rows: usize, dimension: usize, metric: Metric, params: &BuildParams) -> Self {
        let norm = if metric == Metric::InnerProduct || metric == Metric::Cosine && T::EXACT { 4 } else { 0 };
        let row = padded_len::<T>(dimension) * size_of::<T>() + norm;
        let edges = params.max_degree() * size_of::<VectorId>() + size_of::<u16>();
        // Pages of adjacency are touched when the first edges are written.
        let identical = (rows * IDENTICAL_BYTES).saturating_sub(rows * edges);
        let estimate = Self {
            vectors: rows * row,
            graph: rows * edges,
            keys: rows * size_of::<Key>(),
            scratch: linking_bytes(rows, params).max(identical),
            sketches: 0,
            process: PROCESS_BYTES,
        };
        let spare = |part: f32| (part * (estimate.vectors + estimate.graph) as f32) as usize;
        let taken = estimate.keys + estimate.scratch + estimate.process + spare(LEFT_FREE);
        let sketches = Graph::<T>::bytes_per_sketch(dimension)
            .map_or(0, |bytes| (spare(SPARE).saturating_sub(taken) / bytes).min(rows) * bytes);
        Self { sketches, ..estimate }
    }

    /// Rows that a build has the memory to sketch.
    pub(crate) fn sketched_rows<T: Element>(&self, dimension: usize) -> usize {
        Graph::<T>::bytes_per_sketch(dimension).map_or(0, |bytes| self.sketches / bytes)
    }

    /// All parts together.
    pub fn total(&self) -> usize {
        self.parts().iter().map(|part| part.1).sum()
    }

    /// The parts by name.
    pub fn parts(&self) -> [(&'static str, usize); 6] {
        [
            ("vectors", self.vectors),
            ("graph", self.graph),
            ("keys", self.keys),
            ("scratch", self.scratch),
            ("sketches", self.sketches),
            ("process", self.process),
        ]
    }
}

/// The order of linking, and for the largest batch its candidates, links, back edges and new rows. Searches expand a
/// sixth more than their frontier holds, on data of middling difficulty; links are reckoned at full degree.
fn linking_bytes(rows: usize, params: &BuildParams) -> usize {
    let batch = largest_batch(rows, params);
    let expanded = params.build_beam_width() * 7 / 6 + params.max_degree().min(16);
    let candidates = batch.min(SEARCHED_AT_ONCE) * expanded * size_of::<Neighbor>();
    let edges = batch * params.max_degree();
    let links = edges * (size_of::<Neighbor>() + size_of::<(VectorId, Neighbor)>());
    let new_rows = edges.min(TARGETS_AT_ONCE) * params.max_degree() * size_of::<VectorId>();
    rows * size_of::<VectorId>() + candidates + links + new_rows
}
