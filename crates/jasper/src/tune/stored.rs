//! The tuned searches stored with an index.

use std::ops::Deref;

use jasper_graph::TunedSearch;
use jasper_vamana::{LaunchParams, SearchParams};

use super::Goal;
use crate::Device;
use crate::inner::IndexInner;

/// Recalls that differ by less are equal.
const SAME: f64 = 1e-9;

impl Goal {
    /// Search parameters for this goal.
    pub(super) fn params(self, beam_width: usize, launch: Option<LaunchParams>) -> SearchParams<'static> {
        SearchParams::new(self.k).beam_width(beam_width).launch(launch)
    }
}

/// The tuned searches stored with an index: what [`Index::tuned`](crate::Index::tuned) returns.
///
/// ```
/// # use jasper::{IndexBuilder, MatrixView, Metric, tune::Goal};
/// # let index = IndexBuilder::new(Metric::L2).build(MatrixView::new(&[1_u8, 2, 3, 4], 2)?)?;
/// assert!(index.tuned().is_empty() && index.tuned().params(Goal { k: 10, recall: 0.9 }, 1).is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TunedSearches {
    searches: Vec<TunedSearch>,
    /// Name of the device of the index.
    device: String,
    /// The widest beam of searches on a CUDA device; `None` on the CPU.
    widest: Option<usize>,
}

impl TunedSearches {
    /// The search tuned for `goal`, or for the next higher recall, in calls of about `queries` queries. A search tuned on
    /// another device if there is none of the device of the index, and `None` if there is none at all.
    pub fn params(&self, goal: Goal, queries: usize) -> Option<SearchParams<'static>> {
        let takes = |search: &TunedSearch| match self.widest {
            None => suits_cpu(search),
            Some(widest) => search.beam_width <= widest,
        };
        lookup(&self.searches, &self.device, takes, goal, queries)
    }
}

impl Deref for TunedSearches {
    type Target = [TunedSearch];

    fn deref(&self) -> &[TunedSearch] {
        &self.searches
    }
}

/// Whether the CPU can run the search. The CPU expands one vertex at a time, for which a beam tuned with several
/// expansions may be too narrow.
fn suits_cpu(search: &TunedSearch) -> bool {
    search.launch.is_none_or(|launch| launch.expansions == 1)
}

impl IndexInner {
    pub(crate) fn tuned(&self) -> TunedSearches {
        TunedSearches {
            searches: self.backend.read(|graph| TunedSearch::stored(graph).unwrap_or_default()),
            device: self.backend.device_name(),
            widest: (self.device() != Device::CPU).then(|| self.backend.max_beam_width()),
        }
    }
}

/// Finds the search for a device of this name, among the searches that it `takes`.
fn lookup(
    tuned: &[TunedSearch],
    device: &str,
    takes: impl Fn(&TunedSearch) -> bool,
    goal: Goal,
    queries: usize,
) -> Option<SearchParams<'static>> {
    let serves =
        |search: &&TunedSearch| search.k == goal.k && search.target >= goal.recall - SAME && takes(search);
    // The ratio of the batch sizes, as a logarithm.
    let ratio = |search: &TunedSearch| (search.batch as f64 / queries.max(1) as f64).ln().abs();
    let best = tuned.iter().filter(serves).min_by(|a, b| {
        let is_other = |search: &TunedSearch| search.device != device;
        is_other(a).cmp(&is_other(b)).then(a.target.total_cmp(&b.target)).then(ratio(a).total_cmp(&ratio(b)))
    })?;
    Some(goal.params(best.beam_width, best.launch))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(device: &str, target: f64, batch: usize, beam_width: usize, expansions: u32) -> TunedSearch {
        let launch = LaunchParams { warps: 8, expansions, visited_buckets: 0 };
        TunedSearch {
            device: device.into(),
            k: 10,
            target,
            batch,
            beam_width,
            launch: (expansions > 0).then_some(launch),
            recall: target,
            queries_per_second: 1.0,
            fingerprint: 0,
        }
    }

    #[test]
    fn the_nearest_goal_and_batch_are_taken() {
        let kept = [
            search("gpu", 0.9, 1, 20, 4),
            search("gpu", 0.9, 10_000, 24, 1),
            search("gpu", 0.95, 1, 40, 4),
            search("cpu", 0.95, 10_000, 48, 0),
            search("cpu", 0.99, 10_000, 99, 0),
        ];
        let width = |device, recall, queries| {
            let goal = Goal { k: 10, recall };
            lookup(&kept, device, |_| true, goal, queries).and_then(|params| params.beam_width)
        };
        assert_eq!(
            [1, 90, 110, 1 << 30].map(|queries| width("gpu", 0.9, queries)),
            [20, 20, 24, 24].map(Some)
        );
        assert_eq!([0.85, 0.9, 0.93, 0.95].map(|recall| width("gpu", recall, 1)), [20, 20, 40, 40].map(Some));
        assert_eq!(width("gpu", 0.97, 1), Some(99), "another device's is better than none");
        assert_eq!(width("cpu", 0.9, 1), Some(48));
        assert_eq!(width("cpu", 0.995, 1), None);
        let goal = Goal { k: 10, recall: 0.9 };
        assert!(lookup(&kept, "cpu", |_| true, Goal { k: 11, ..goal }, 1).is_none());
        assert_eq!(lookup(&kept, "gpu", |_| true, goal, 1).unwrap().launch, kept[0].launch);
        let few = |search: &TunedSearch| search.launch.is_some_and(|launch| launch.expansions == 1);
        assert_eq!(
            lookup(&kept, "other", few, goal, 1).unwrap().beam_width,
            Some(24),
            "what the device takes"
        );
    }
}
