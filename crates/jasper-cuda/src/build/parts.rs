//! Results that one step of a batch hands to the next, in device memory.

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
    /// `[vertices_len][max_degree]`, where vertices of the batch are candidates of each other.
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
    /// Bits of the number of a slot: more than any slot needs if all are set.
    pub(super) slot_bits: u32,
    /// The graph whose edges they are.
    pub(super) graph: GraphId,
}

/// The reversed edges of a batch, sorted and grouped by target.
pub struct BackEdges<S: Stream> {
    pub(super) edges: Pairs<S>,
    pub(super) targets: Groups<S>,
    pub(super) targets_len: u32,
    /// Targets that are merged.
    pub(super) merged: u32,
    /// The graph they are in; `None` if there are no edges.
    pub(super) graph: Option<GraphId>,
}

/// New rows to publish.
pub struct Updates<S: Stream> {
    pub(super) rows: EdgeRows<S>,
    /// The graph whose rows they are.
    pub(super) graph: GraphId,
    /// What it cost to compute them.
    pub(super) cost: SearchCost,
}
