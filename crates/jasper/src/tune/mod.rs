//! Finding the search that reaches a recall, by measurement.
//!
//! ```
//! use jasper::tune::{Goal, Queries};
//! use jasper::{Device, Index, MatrixView, Metric, no_progress, synthetic::Clusters};
//!
//! let rows: Vec<f32> = Clusters::new(32, 7).rows(3000, 0);
//! let mut index = Index::builder(Metric::L2).build(&MatrixView::new(&rows, 32)?)?;
//! let goal = Goal { k: 10, recall: 0.95 };
//! index.tune(Device::Auto, goal, Queries::sampled(), &mut no_progress)?;
//! let hits = index.search(&rows[..32], index.tuned(goal, 1).unwrap())?;
//! assert_eq!(hits.len(), 10);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Half of the queries choose: the least beam width whose recall is what was asked for, and on a GPU, for batches of each
//! of three sizes, the way to share a query's work out that answers most of them a second. The other half confirms: where
//! it finds less, the beam is widened until both halves find enough, and the recall that is told is that of the other
//! half. What was found is kept with the graph, and saved with it.

mod held_out;
mod kept;
mod search;
mod width;

use jasper_core::{Cancelled, Element, MatrixView, ProgressFn};
use jasper_data::GroundTruth;
use jasper_vamana::{ExactError, SearchError, TunedSearch};

use crate::seat::Seat;
use crate::{Device, DeviceError, Index};
pub(crate) use held_out::HeldOut;
use search::Subject;
pub(crate) use width::least_width;

/// What a search is tuned for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Answers a query.
    pub k: usize,
    /// Mean recall@k to reach, above 0 and up to 1.
    pub recall: f64,
}

/// What a search is tuned with.
#[derive(Clone, Copy, Debug)]
pub enum Queries<'a, T> {
    /// Queries that are no rows of the index, and their true neighbours, such as [`exact_knn`](crate::data::exact_knn)
    /// finds. What the index will be asked in earnest is best.
    Given {
        /// The queries.
        queries: MatrixView<'a, T>,
        /// Their true neighbours, at least k of each, by key.
        truth: &'a GroundTruth,
    },
    /// A sample of the index's own rows, each searched for without itself: its exact neighbours are found by looking at
    /// every other row; its vertex is no answer, and has no edges while tuning goes on.
    ///
    /// Such rows are a little harder to answer than new ones, so that the beam width found is rather too wide. For inner
    /// products real queries often are of another kind than rows: give some.
    Sampled {
        /// Rows to take; a thirty-second of the index at most.
        count: usize,
        /// Seed of the choice.
        seed: u64,
    },
}

impl<T> Queries<'_, T> {
    /// Rows to take, unless somebody says: a recall of 0.95 is then known to 0.002 or so, by half of them.
    pub const SAMPLE: usize = 2000;

    /// A sample of the usual size.
    pub const fn sampled() -> Self {
        Self::Sampled { count: Self::SAMPLE, seed: 1 }
    }
}

/// What tuning found.
#[derive(Clone, Debug, PartialEq)]
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
    /// No recall is that.
    #[error("recall ({0}) must be above 0 and at most 1; 0.95 suits most uses")]
    Recall(f64),
    /// Too little to tune with.
    #[error(
        "there are {0} queries to tune with, and 2 are needed: one chooses, one confirms; a sample is a thirty-second of \
         the rows at most, so give queries of your own"
    )]
    Queries(usize),
    /// The truth is that of other queries.
    #[error(
        "there are {queries} queries and the true neighbours of {truths}; give those of the same queries"
    )]
    Truths {
        /// Queries given.
        queries: usize,
        /// Queries whose neighbours are known.
        truths: usize,
    },
    /// Not as many true neighbours are known.
    #[error("k ({k}) must be at most the {depth} true neighbours known of each query; lower k, or find more")]
    Depth {
        /// Answers asked for.
        k: usize,
        /// True neighbours of a query.
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
    /// The true neighbours were not found.
    #[error(transparent)]
    Exact(#[from] ExactError),
    /// The caller stopped it.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// Queries of a call: one that somebody waits for, a few, and as many as keep any device busy.
pub const BATCHES: [usize; 3] = [1, 100, 10_000];

impl<T: Element> Index<T> {
    /// Finds the searches that reach `goal` on a device: see [`crate::tune`]. They are kept, in the place of those found
    /// for the same goal and device before, and given. On a CUDA device the index is copied there, and leaves it again.
    ///
    /// Cost: some tens of searches of all queries, and a second of timing, or some twenty on a GPU; for a sample also a
    /// distance between each of its rows and every other one.
    ///
    /// # Errors
    /// [`TuneError`].
    pub fn tune(
        &mut self,
        device: Device,
        goal: Goal,
        queries: Queries<'_, T>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<TuneReport, TuneError> {
        if goal.k == 0 {
            return Err(SearchError::NoAnswers.into());
        }
        if !(goal.recall > 0.0 && goal.recall <= 1.0) {
            return Err(TuneError::Recall(goal.recall));
        }
        // A sample's neighbours take longer to find than this.
        device.find()?;
        self.graph.begin();
        let found = self.hold_out_and_tune(device, goal, queries, progress);
        // Rows that were held out lead on again.
        self.graph.rollback();
        let report = found?;
        report.searches.iter().for_each(|search| search.store(&mut self.graph));
        Ok(report)
    }

    fn hold_out_and_tune(
        &mut self,
        device: Device,
        goal: Goal,
        queries: Queries<'_, T>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<TuneReport, TuneError> {
        let state = self.graph.state();
        let held_out = match queries {
            Queries::Given { queries, truth } => HeldOut::given(queries, truth)?,
            Queries::Sampled { count, seed } => HeldOut::sampled(self, count, goal.k, seed, progress)?,
        };
        held_out.check_depth(goal.k)?;
        let subject = Subject { index: self, seat: Seat::take(self, device)?, state };
        let searches = subject.tune(goal, &held_out, progress)?;
        Ok(TuneReport { searches, queries: held_out.len() })
    }
}
