//! Results in device memory that one step of a batch passes to the next.

use gpu_kernels::groups::Groups;
use gpu_kernels::sort::Pairs;
use gpu_kernels::{Buffer as _, Stream};
use jasper_vamana::SearchCost;

use crate::graph::{EdgeRows, GraphId};

/// The vertices expanded by the searches for a chunk of a batch.
pub struct Candidates<S: Stream> {
    /// `[vertices_len]`
    pub(super) batch: S::Buffer<u32>,
    /// `[vertices_len][max_candidates]`
    pub(super) entries: S::Buffer<u64>,
    /// `[vertices_len][2]`: hops and distances of each search.
    pub(super) costs: S::Buffer<u32>,
    /// `[vertices_len]`: the vertex with the same vector, or [`NO_SLOT`](gpu_kernels::graph::NO_SLOT).
    pub(super) duplicate_of: S::Buffer<u32>,
    /// `[vertices_len][max_degree]`: candidates from the same batch; `None` in bulk builds.
    pub(super) batch_candidates: Option<S::Buffer<u64>>,
    /// `[COUNTERS]`
    pub(super) counters: S::Buffer<u64>,
    /// Maximum number of candidates per vertex.
    pub(super) max_candidates: u32,
    /// The graph that was searched.
    pub(super) graph: GraphId,
}

impl<S: Stream> Candidates<S> {
    pub(super) fn len(&self) -> u32 {
        self.batch.len() as u32
    }
}

/// The edges of a chunk of a batch.
pub struct Edges<S: Stream> {
    pub(super) rows: EdgeRows<S>,
    /// `[rows][edges_stride]`
    pub(super) distances: S::Buffer<u32>,
    /// Number of bits of a slot number. The number with all these bits set is no slot.
    pub(super) slot_bits: u32,
    /// The graph of the edges.
    pub(super) graph: GraphId,
}

/// The reversed edges of a batch, sorted and grouped by target.
pub struct BackEdges<S: Stream> {
    pub(super) edges: Pairs<S>,
    pub(super) targets: Groups<S>,
    pub(super) targets_len: u32,
    /// Number of targets that are merged.
    pub(super) merged: u32,
    /// The graph of the edges; `None` if there are none.
    pub(super) graph: Option<GraphId>,
}

/// New rows to publish.
pub struct Updates<S: Stream> {
    pub(super) rows: EdgeRows<S>,
    /// The graph of the rows.
    pub(super) graph: GraphId,
    /// The cost of computing the rows.
    pub(super) cost: SearchCost,
}
