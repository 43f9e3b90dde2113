//! What passes from step to step of a batch, all of it in device memory.

use gpu_kernels::groups::Groups;
use gpu_kernels::sort::Pairs;
use gpu_kernels::{Buffer as _, Stream};
use jasper_core::VectorId;
use jasper_vamana::{Links, SearchCost};

use crate::graph::{GraphId, LinkRows};

/// What the searches of a batch expanded.
pub struct Candidates<S: Stream> {
    /// `[lists]`
    pub(super) batch: S::Buffer<u32>,
    /// `[lists][most]`
    pub(super) keys: S::Buffer<u64>,
    /// `[lists][2]`
    pub(super) work: S::Buffer<u32>,
    /// `[lists]`: the identical vertex of each, or no row.
    pub(super) identical: S::Buffer<u32>,
    /// `[lists][max_degree]`, where there are more of them out of the batch itself.
    pub(super) batch_candidates: Option<S::Buffer<u64>>,
    /// `[COUNTERS]`
    pub(super) counters: S::Buffer<u64>,
    /// Maximum number of candidates per vertex.
    pub(super) most: u32,
    /// The graph that was searched.
    pub(super) graph: GraphId,
}

impl<S: Stream> Candidates<S> {
    pub(super) fn lists(&self) -> u32 {
        self.batch.len() as u32
    }
}

/// The links of a batch, part by part.
pub struct DeviceLinks<S: Stream> {
    pub(super) parts: Vec<Part<S>>,
    pub(super) identical: Vec<(VectorId, VectorId)>,
    pub(super) cost: SearchCost,
}

/// The links of the vertices that were searched for at once.
pub(super) struct Part<S: Stream> {
    pub(super) rows: LinkRows<S>,
    /// `[rows][links_stride]`
    pub(super) distances: S::Buffer<u32>,
    /// Bits of the number of a slot: more than any slot needs if all are set.
    pub(super) slot_bits: u32,
    /// The graph whose links they are.
    pub(super) graph: GraphId,
}

impl<S: Stream> Links for DeviceLinks<S> {
    fn join(parts: Vec<Self>) -> Self {
        let mut whole = Self { parts: Vec::new(), identical: Vec::new(), cost: SearchCost::default() };
        for part in parts {
            whole.parts.extend(part.parts);
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

/// The edges of a batch turned around, sorted and grouped by their targets.
pub struct DeviceBackEdges<S: Stream> {
    pub(super) edges: Pairs<S>,
    pub(super) targets: Groups<S>,
    pub(super) targets_len: u32,
    /// Targets that are merged.
    pub(super) merged: u32,
    /// The graph they are in; none if there are none.
    pub(super) graph: Option<GraphId>,
}

/// New rows to publish.
pub struct DeviceUpdates<S: Stream> {
    pub(super) rows: LinkRows<S>,
    /// The graph whose rows they are.
    pub(super) graph: GraphId,
    /// `[COUNTERS]`
    pub(super) counters: S::Buffer<u64>,
}
