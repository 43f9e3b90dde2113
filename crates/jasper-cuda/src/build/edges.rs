//! The edges of a batch between the steps that link it, in device memory.

use gpu_kernels::groups::Groups;
use gpu_kernels::prune::{DISTANCES, HOPS, PRUNE_DISTANCES};
use gpu_kernels::sort::Pairs;
use gpu_kernels::{DevicePtr, Stream};
use jasper_core::Slot;
use jasper_vamana::OperationCounts;

use super::few::{MergeRoom, ReversedEdges};
use crate::graph::{EdgeRows, GraphId, HostRows};

/// The edges of a chunk of a batch.
pub struct Edges<S: Stream> {
    pub(super) rows: EdgeRows<S>,
    pub(super) distances: OrderedDistances<S>,
    /// Bits that a slot of the graph takes. With all of them set, it is no slot.
    pub(super) slot_bits: u32,
    /// The graph of the edges.
    pub(super) graph: GraphId,
}

/// `[rows][edges_stride]`: the distances of edges, as bits that compare like these.
pub(super) enum OrderedDistances<S: Stream> {
    /// In an array of their own.
    Array(S::Buffer<u32>),
    /// In the array of the rows of a small batch, from this index on; and on the host.
    AfterRows {
        first: usize,
        on_host: Vec<u32>,
        /// Whether the vertices are new: no rollback needs their rows.
        are_new: bool,
        /// For the merge of these edges, if they are few.
        room: Option<MergeRoom<S>>,
    },
}

impl<S: Stream> Edges<S> {
    pub(super) fn distances(&self, stream: &S) -> DevicePtr<u32> {
        match &self.distances {
            OrderedDistances::Array(distances) => stream.input(distances),
            OrderedDistances::AfterRows { first, .. } => stream.input(self.rows.array()).add(*first),
        }
    }
}

/// The reversed edges of a batch, sorted and grouped by target.
pub struct BackEdges<S: Stream> {
    pub(super) edges: SortedEdges<S>,
    /// The graph of the edges; `None` if there are none.
    pub(super) graph: Option<GraphId>,
}

/// Edges sorted by (target, distance, source).
pub(super) enum SortedEdges<S: Stream> {
    OnDevice {
        edges: Pairs<S>,
        targets: Groups<S>,
        targets_len: u32,
        /// Number of targets that are merged.
        merged: u32,
    },
    /// Those of a small batch, until they are merged.
    OnHost(Option<ReversedEdges<S>>),
}

/// New rows to publish.
pub struct NewRows<S: Stream> {
    pub(super) rows: EdgeRows<S>,
    /// The graph of the rows.
    pub(super) graph: GraphId,
    /// The cost of computing the rows.
    pub(super) cost: OperationCounts,
    /// Vertices that they cut off from their parents in the spanning tree.
    pub(super) detached: Vec<Slot>,
    /// Rows of some of these, as they are before these rows are written.
    pub(super) detached_rows: Option<HostRows>,
    /// Whether they are of a small batch: the end of its change waits for them.
    pub(super) is_small: bool,
}

/// What a step has cost, by its counters.
pub(super) fn cost_of(counters: &[u64]) -> OperationCounts {
    OperationCounts {
        hops: counters[HOPS],
        distances: counters[DISTANCES],
        prune_distances: counters[PRUNE_DISTANCES],
    }
}
