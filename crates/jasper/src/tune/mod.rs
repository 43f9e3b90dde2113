//! Tuning: finds the fastest search that reaches a recall, by measurement.
//!
//! ```
//! use jasper::{IndexBuilder, MatrixView, Metric};
//! use jasper::tune::{Goal, TuneQueries};
//! use jasper_core::synthetic::Clusters;
//!
//! let vectors: Vec<f32> = Clusters::new(32, 7).rows(3000, 0);
//! let index = IndexBuilder::new(Metric::L2).build(&MatrixView::new(&vectors, 32)?)?;
//! let goal = Goal { k: 10, recall: 0.95 };
//! index.tune(goal, TuneQueries::sampled())?;
//! let hits = index.search(&vectors[..32], index.tuned().params(goal, 1).expect("just tuned"))?;
//! assert_eq!(hits.len(), 10);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Half of the queries select the narrowest beam that reaches the recall, and on a GPU, for each of three batch sizes,
//! the launch with the most queries per second. The other half validates it: if its recall is lower, the beam is
//! widened until both halves reach the goal. The reported recall is that of the second half. The result is stored and
//! saved with the index.

pub(crate) mod error;
mod held_out;
mod search;
mod stored;
mod width;

use jasper_core::{DeviceError, Key, Neighbor, ProgressFn, Slot, VectorView, Vectors};
use jasper_data::GroundTruth;
use jasper_graph::Graph;
pub use jasper_graph::TunedSearch;
use jasper_vamana::{SearchError, SearchParams};

use crate::error::Result;
use crate::index::vector_error;
use crate::inner::IndexInner;
use crate::journal::Record;
use error::TuneError;
pub(crate) use held_out::HeldOut;
pub use stored::TunedSearches;
pub(crate) use width::least_width;

/// The goal of tuning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Hits per query.
    pub k: usize,
    /// Mean recall@k to reach, above 0 and up to 1.
    pub recall: f64,
}

impl Goal {
    /// Checks `k` and the recall, as [`Index::tune`](crate::Index::tune) does.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::InvalidParameter`](crate::ErrorKind::InvalidParameter) if one of them is out of bounds.
    pub fn check(self) -> Result<()> {
        SearchParams::new(self.k).check()?;
        if self.recall > 0.0 && self.recall <= 1.0 {
            Ok(())
        } else {
            Err(TuneError::Recall(self.recall).into())
        }
    }
}

/// The queries that a search is tuned with.
#[derive(Clone, Copy, Debug)]
pub enum TuneQueries<'a> {
    /// Queries that are not in the index. Best are queries like those that the index will serve.
    Given {
        /// The queries.
        queries: Vectors<'a>,
        /// Their true neighbors by key, at least k per query, as [`exact_knn`](jasper_data::exact_knn) finds them.
        /// `None` to have them found by brute force among the vectors of the index, on the CPU.
        truth: Option<&'a GroundTruth>,
    },
    /// A sample of the index's own vectors, each searched for without itself: its neighbors are found by exact search,
    /// and it has no edges while tuning runs.
    ///
    /// Such queries are a little harder than new ones, so the beam is slightly too wide. For inner products, real
    /// queries often differ from the vectors; use [`Self::Given`] with real queries.
    Sampled {
        /// Vectors to sample; at most a thirty-second of the index. A sample of fewer than 200 makes the recall a rough
        /// estimate: see [`TuneReport::queries`].
        count: usize,
        /// Seed of the choice.
        seed: u64,
    },
}

impl TuneQueries<'_> {
    /// Default size of a sample. Half of it measures a recall of 0.95 to about 0.002.
    pub const SAMPLE: usize = 2000;

    /// A sample of the default size.
    pub const fn sampled() -> Self {
        Self::Sampled { count: Self::SAMPLE, seed: 1 }
    }
}

/// The result of tuning.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TuneReport {
    /// The fastest search that reaches the goal, for each of [`Self::BATCHES`].
    pub searches: Vec<TunedSearch>,
    /// Number of queries.
    pub queries: usize,
}

impl TuneReport {
    /// Queries per call: one, a few, and enough to keep any device busy.
    pub const BATCHES: [usize; 3] = [1, 100, 10_000];
}

impl IndexInner {
    pub(crate) fn tune(
        &self,
        goal: Goal,
        queries: TuneQueries<'_>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<TuneReport> {
        goal.check()?;
        if !matches!(queries, TuneQueries::Given { truth: Some(_), .. }) {
            self.backend.require_one_graph("tuning with queries whose true neighbors are not given")?;
        }
        self.changes.change(None, progress, |change, hooks| {
            self.backend.sync_host_edges()?;
            // A checksum of parameters and counts, stored with the searches: it shows whether the index has changed.
            let fingerprint = self.backend.read(|graph| graph.fingerprint());
            let (held_out, vertices) = match queries {
                TuneQueries::Given { queries, truth } => {
                    let given = queries.with_rows(self.element, |queries| match truth {
                        Some(truth) => HeldOut::given(queries, truth),
                        None => HeldOut::searched(self, queries, goal.k, |queries, k| {
                            self.true_neighbors(queries, k, hooks.progress)
                        }),
                    });
                    (given.map_err(vector_error).map_err(SearchError::from)??, Vec::new())
                }
                TuneQueries::Sampled { count, seed } => {
                    HeldOut::sampled(self, count, goal.k, seed, |queries, k| {
                        self.true_neighbors(queries, k, hooks.progress)
                    })?
                }
            };
            held_out.check(goal.k)?;
            let searches = self.without_edges(&vertices, || {
                self.fastest_searches(goal, &held_out, fingerprint, hooks.progress)
            })?;
            let before = self.backend.read(|graph| graph.encoded_tuned_searches().to_vec());
            let store = |graph: &mut Graph| {
                searches.iter().for_each(|search| search.store(graph));
                graph.encoded_tuned_searches().to_vec()
            };
            let after = self.backend.change(store)?;
            if let Err(error) = change.log(&Record::Tune(after)) {
                self.backend.change(|graph| graph.set_encoded_tuned_searches(before.clone()))?;
                return Err(error.into());
            }
            Ok(TuneReport { searches, queries: held_out.len() })
        })
    }
}

impl IndexInner {
    /// At least the `k` nearest keys of each query, if there are as many, by brute force.
    fn true_neighbors(
        &self,
        queries: &[VectorView<'_>],
        k: usize,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Vec<Vec<(Key, f32)>>, SearchError> {
        self.backend.read(|graph| {
            let keys =
                |near: Neighbor| graph.keys().keys_of(near.slot()).map(move |key| (key, near.distance()));
            let nearest = self.executor.nearest(graph, queries, k, progress)?;
            Ok(nearest.into_iter().map(|nearest| nearest.into_iter().flat_map(keys).collect()).collect())
        })
    }

    /// Removes the out-edges of some vertices, runs `work`, and restores the edges. The caller holds the writer lock.
    pub(crate) fn without_edges<R, E: From<DeviceError>>(
        &self,
        vertices: &[Slot],
        work: impl FnOnce() -> Result<R, E>,
    ) -> Result<R, E> {
        if vertices.is_empty() {
            return work();
        }
        let (mut work, mut result) = (Some(work), None);
        self.backend.without_edges(vertices, &mut || result = work.take().map(|work| work()))?;
        result.expect("the backend does the work")
    }
}
