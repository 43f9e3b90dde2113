//! Counters of what a search or a batch costs, independent of the machine.

use std::ops::AddAssign;

/// Operations performed. Equal on every machine and for any number of threads, so that tests can compare them exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SearchCost {
    /// Vertices expanded by searches.
    pub hops: u64,
    /// Distances computed by searches.
    pub distances: u64,
    /// Distances between candidates computed by prunes.
    pub prune_distances: u64,
}

impl AddAssign for SearchCost {
    fn add_assign(&mut self, other: Self) {
        self.hops += other.hops;
        self.distances += other.distances;
        self.prune_distances += other.prune_distances;
    }
}

impl From<SearchCost> for [u64; 3] {
    fn from(cost: SearchCost) -> Self {
        [cost.hops, cost.distances, cost.prune_distances]
    }
}

impl From<[u64; 3]> for SearchCost {
    fn from([hops, distances, prune_distances]: [u64; 3]) -> Self {
        Self { hops, distances, prune_distances }
    }
}
