//! Counters of what a search or a batch costs, independent of the machine.

use std::ops::AddAssign;

use bytemuck::{Pod, Zeroable};

/// Counts of operations performed. They are equal on every machine and for any number of threads, so that tests can
/// compare them exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[repr(C)]
pub struct OperationCounts {
    /// Vertices expanded by searches.
    pub hops: u64,
    /// Distances computed by searches.
    pub distances: u64,
    /// Distances between candidates computed by prunes.
    pub prune_distances: u64,
}

impl AddAssign for OperationCounts {
    fn add_assign(&mut self, other: Self) {
        self.hops += other.hops;
        self.distances += other.distances;
        self.prune_distances += other.prune_distances;
    }
}
