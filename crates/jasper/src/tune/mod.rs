//! Tuning: the fastest search that reaches a recall, found by measurement.
//!
//! ```
//! use jasper::tune::Goal;
//! use jasper::{IndexBuilder, MatrixView, Metric, bench::synthetic::Clusters};
//!
//! let vectors: Vec<f32> = Clusters::new(32, 7).rows(3000, 0);
//! let index = IndexBuilder::new(Metric::L2).build(&MatrixView::new(&vectors, 32)?)?;
//! let goal = Goal { k: 10, recall: 0.95 };
//! index.tune(goal)?;
//! let hits = index.search(&vectors[..32], index.tuned(goal, 1).expect("just tuned"))?;
//! assert_eq!(hits.len(), 10);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Half of the queries choose: the narrowest beam that reaches the recall, and on a GPU, for each of three batch sizes,
//! the launch that answers the most queries per second. The other half confirms: if it finds less, the beam is widened
//! until both halves reach the recall, and the recall reported is that of the second half. The result is kept with the
//! index, and saved with it.

mod held_out;
mod kept;
mod search;
mod width;

use std::convert::Infallible;

use jasper_core::{Cancelled, Element, MatrixView, ProgressFn, VectorId, no_progress};
use jasper_data::GroundTruth;
use jasper_graph::{Graph, VectorError};
use jasper_vamana::{Executor, GraphLock, MutableGraph, SearchError, TunedSearch, transaction};

use crate::backend::on_backend;
use crate::{DeviceError, Index};
pub(crate) use held_out::HeldOut;
use search::Subject;
pub(crate) use width::least_width;

/// What a search is tuned for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Hits per query.
    pub k: usize,
    /// Mean recall@k to reach, above 0 and up to 1.
    pub recall: f64,
}

/// The queries that a search is tuned with.
#[derive(Clone, Copy, Debug)]
pub enum TuneQueries<'a, Q> {
    /// Queries that are not in the index, and their true neighbors, as [`exact_knn`](crate::data::exact_knn) finds them.
    /// Best are queries like those that the index will serve.
    Given {
        /// The queries.
        queries: Q,
        /// Their true neighbors by key, at least k per query.
        truth: &'a GroundTruth,
    },
    /// A sample of the index's own vectors, each searched for without itself: its neighbors are found by exact search, and
    /// it has no edges while tuning runs.
    ///
    /// Such queries are a little harder than new ones, so that the beam found is rather too wide. For inner products, real
    /// queries often differ from the vectors: give some.
    Sampled {
        /// Vectors to sample; at most a thirty-second of the index.
        count: usize,
        /// Seed of the choice.
        seed: u64,
    },
}

impl<Q> TuneQueries<'_, Q> {
    /// Size of a sample by default. Half of it measures a recall of 0.95 to 0.002 or so.
    pub const SAMPLE: usize = 2000;

    /// A sample of the default size.
    pub const fn sampled() -> Self {
        Self::Sampled { count: Self::SAMPLE, seed: 1 }
    }
}

/// What tuning found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TuneReport {
    /// The fastest search that reaches the goal, for each of [`BATCHES`].
    pub searches: Vec<TunedSearch>,
    /// Queries it was tuned with.
    pub queries: usize,
}

/// Tuning found nothing to keep; the index is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuneError {
    /// The requested recall is not above 0 and at most 1.
    #[error("recall ({0}) must be above 0 and at most 1; 0.95 suits most uses")]
    Recall(f64),
    /// Too little to tune with.
    #[error(
        "there are {0} queries to tune with, and 2 are needed: one chooses, one confirms; a sample is a thirty-second of \
         the rows at most, so give queries of your own"
    )]
    Queries(usize),
    /// The truth is that of other queries.
    #[error("there are {queries} queries and the true neighbors of {truths}; give those of the same queries")]
    Truths {
        /// Queries given.
        queries: usize,
        /// Queries whose neighbors are known.
        truths: usize,
    },
    /// Not as many true neighbors are known.
    #[error("k ({k}) must be at most the {depth} true neighbors known of each query; lower k, or find more")]
    Depth {
        /// Answers asked for.
        k: usize,
        /// True neighbors of a query.
        depth: usize,
    },
    /// The widest beam finds less.
    #[error(
        "recall@{k} is {found:.4} at beam_width {beam_width}, the widest tried, and {recall} was asked for; lower recall, \
         or build with a larger max_degree"
    )]
    Unreached {
        /// Answers a query.
        k: usize,
        /// Recall asked for.
        recall: f64,
        /// Recall of the widest beam.
        found: f64,
        /// The widest beam.
        beam_width: usize,
    },
    /// The device cannot be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A search was refused.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// Queries are of another element.
    #[error(transparent)]
    Vector(#[from] VectorError),
    /// The caller stopped it.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Queries of a call: one that somebody waits for, a few, and as many as keep any device busy.
pub const BATCHES: [usize; 3] = [1, 100, 10_000];

impl<T: Element> Index<T> {
    /// Finds the fastest searches that reach `goal` where the index is, and keeps them with it: see [`crate::tune`].
    /// Queries are [sampled](TuneQueries::sampled) from the index.
    ///
    /// # Errors
    /// [`TuneError`].
    pub fn tune(&self, goal: Goal) -> Result<TuneReport, TuneError> {
        self.tune_with(goal, TuneQueries::sampled(), &mut no_progress)
    }

    /// [`Self::tune`] with these queries and a progress callback. Searches tuned before for the same goal and device are
    /// replaced.
    ///
    /// Changes wait meanwhile. Searches do not, but find a little less if queries are sampled: the sampled vectors have no
    /// edges meanwhile.
    ///
    /// Cost: some tens of searches of all queries, and a second of timing, twenty on a GPU; for a sample, also the distance
    /// from each of its vectors to every other.
    ///
    /// # Errors
    /// [`TuneError`]; the index is as it was.
    pub fn tune_with(
        &self,
        goal: Goal,
        queries: TuneQueries<'_, MatrixView<'_, T>>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<TuneReport, TuneError> {
        if goal.k == 0 {
            return Err(SearchError::NoAnswers.into());
        }
        if !(goal.recall > 0.0 && goal.recall <= 1.0) {
            return Err(TuneError::Recall(goal.recall));
        }
        let _writer = self.lock_writer();
        self.backend.read_edges(&self.executor)?;
        let state = self.backend.read(Graph::state);
        let (held_out, vertices) = match queries {
            TuneQueries::Given { queries, truth } => (HeldOut::given(queries, truth)?, Vec::new()),
            TuneQueries::Sampled { count, seed } => HeldOut::sampled(self, count, goal.k, seed, progress)?,
        };
        held_out.check_depth(goal.k)?;
        let subject = Subject { index: self, state };
        let searches = self.without_edges(&vertices, || subject.tune(goal, &held_out, progress))?;
        self.change_host(|graph| searches.iter().for_each(|search| search.store(graph)))?;
        Ok(TuneReport { searches, queries: held_out.len() })
    }

    /// Runs `work` while some vertices have no out-edges, and restores these. The caller holds the writer lock.
    pub(crate) fn without_edges<R, E: From<DeviceError>>(
        &self,
        vertices: &[VectorId],
        work: impl FnOnce() -> Result<R, E>,
    ) -> Result<R, E> {
        if vertices.is_empty() {
            return work();
        }
        let no_edges = vec![Vec::new(); vertices.len()];
        on_backend!(self, |executor, graph| {
            let failed = |error| DeviceError::failed(self.device(), error);
            // The result is an error in any case: a transaction that fails is rolled back.
            let result = transaction(
                &mut graph,
                |error| Err(failed(error).into()),
                |graph| {
                    let cleared =
                        graph.write(|graph| executor.set_neighbors(graph.links_mut(), vertices, &no_edges));
                    Err::<Infallible, _>(cleared.map_err(|error| failed(error).into()).and_then(|()| work()))
                },
            );
            let Err(result) = result;
            result
        })
    }
}
