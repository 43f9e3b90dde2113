//! The nearest of many vertices.

use jasper_core::Neighbor;

/// Collects the `k` nearest of the neighbors added. Twice as many are held before the farther ones are dropped.
#[derive(Clone)]
pub(crate) struct TopK {
    k: usize,
    found: Vec<Neighbor>,
    /// Neighbors from this one on are too far.
    bound: Neighbor,
}

impl TopK {
    pub(crate) fn new(k: usize) -> Self {
        Self { k, found: Vec::new(), bound: Neighbor::NONE }
    }

    pub(crate) fn add(&mut self, neighbor: Neighbor) {
        if neighbor < self.bound {
            self.found.push(neighbor);
            if self.found.len() == self.k.saturating_mul(2) {
                self.bound = *self.found.select_nth_unstable(self.k - 1).1;
                self.found.truncate(self.k);
            }
        }
    }

    /// Neighbors that are farther than this are not among the nearest.
    pub(crate) fn farthest(&self) -> f32 {
        if self.bound == Neighbor::NONE { f32::INFINITY } else { self.bound.distance() }
    }

    /// The neighbors, nearest first.
    pub(crate) fn into_sorted(mut self) -> Vec<Neighbor> {
        self.found.sort_unstable();
        self.found.truncate(self.k);
        self.found
    }
}
