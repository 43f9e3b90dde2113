//! Counters of work: what a search or a batch cost, whatever the machine.

use std::ops::AddAssign;

/// Work done. Equal on every machine and any number of threads, so tests may hold it fixed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Vertices expanded by searches.
    pub hops: u64,
    /// Distances worked out by searches.
    pub distances: u64,
    /// Distances worked out between candidates by prunes.
    pub prune_distances: u64,
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.hops += other.hops;
        self.distances += other.distances;
        self.prune_distances += other.prune_distances;
    }
}

impl From<Work> for [u64; 3] {
    fn from(work: Work) -> Self {
        [work.hops, work.distances, work.prune_distances]
    }
}

impl From<[u64; 3]> for Work {
    fn from([hops, distances, prune_distances]: [u64; 3]) -> Self {
        Self { hops, distances, prune_distances }
    }
}
