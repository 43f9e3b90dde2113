//! What tuning found: the search that reaches a recall on a device.

use std::cmp::Ordering;

/// A search that was measured to reach a recall on a device. Kept with the graph, and in its file.
#[derive(Clone, Debug, PartialEq)]
pub struct TunedSearch {
    /// Name of the processor or GPU it was measured on; its first 64 bytes go into a file.
    pub device: String,
    /// Answers a query.
    pub k: usize,
    /// The recall@k that was asked for, from 0 to 1.
    pub target: f64,
    /// Queries of a call.
    pub batch: usize,
    /// The least frontier that reached the target.
    pub beam_width: usize,
    /// How the device shares its work out; none on a processor.
    pub launch: Option<TunedLaunch>,
    /// The recall@k it reached, on queries that it was not chosen by.
    pub recall: f64,
    /// What it answered a second, in calls of `batch` queries.
    pub queries_per_second: f64,
    /// [`Graph::state`](crate::Graph::state) when it was measured.
    pub state: u32,
}

/// How a GPU shares the work of a search out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunedLaunch {
    /// Warps that work on one query.
    pub warps: u32,
    /// Vertices expanded in one step.
    pub expansions: u32,
    /// Places of the filter of seen ids; none if 0.
    pub filter_slots: u32,
}

impl TunedSearch {
    /// Device, k, target and batch: what a search was tuned for. Of two for the same, the later one counts.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let front = |tuned: &Self| (tuned.k, tuned.batch);
        self.device
            .cmp(&other.device)
            .then(self.target.total_cmp(&other.target))
            .then(front(self).cmp(&front(other)))
    }
}
