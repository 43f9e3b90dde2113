//! Finding the search that reaches a recall, by measurement.
//!
//! ```
//! use jasper::{Index, MatrixView, Metric, synthetic::Clusters};
//! use jasper::tune::{Goal, HeldOut};
//!
//! let rows: Vec<f32> = Clusters::new(32, 7).rows(3000, 0);
//! let mut index = Index::builder(Metric::L2).build(&MatrixView::new(&rows, 32)?)?;
//! let goal = Goal { k: 10, recall: 0.95 };
//! let held_out = HeldOut::sample(&index, 200, goal.k, 1, &mut jasper::silent)?;
//! index.tune(goal, &held_out, &mut jasper::silent)?;
//! let hits = index.search(&rows[..32], index.tuned(goal, 1).unwrap())?;
//! assert_eq!(hits.len(), 10);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Half of the held-out queries choose: the least beam width whose recall is what was asked for, and on a GPU, for
//! batches of each of three sizes, the way to share a query's work out that answers most of them a second. The other
//! half confirms: where it finds less, the beam is widened until both halves find enough, and the recall that is told is
//! that of the other half. What was found is kept with the graph, and saved with it.

mod held_out;
mod kept;
mod width;

use std::time::{Duration, Instant};

use jasper_build::{ExactError, Hit, SearchError, SearchParams, SearchReport};
use jasper_core::{Cancelled, Element, MatrixView, Progress, ProgressFn, Stage};
use jasper_graph::{Graph, TunedLaunch, TunedSearch};

use held_out::Half;
pub use held_out::HeldOut;
use width::least_width;

/// What a search is tuned for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Answers a query.
    pub k: usize,
    /// Mean recall@k to reach, above 0 and up to 1.
    pub recall: f64,
}

/// Tuning found nothing to keep; the index is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuneError {
    /// No recall is that.
    #[error("recall ({0}) must be above 0 and at most 1; 0.95 suits most uses")]
    Recall(f64),
    /// Too little to hold out.
    #[error(
        "there are {0} queries to tune with, and 2 are needed: one chooses, one confirms; give more of them"
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
/// The widest beam tried, where the device takes it.
const WIDEST: usize = 4096;
/// A rate is measured for so long, by one call at least.
const TIMED: Duration = Duration::from_millis(200);

/// What is tuned: a graph, and where it is searched.
pub(crate) trait Subject<T: Element> {
    fn graph(&self) -> &Graph<T>;

    /// Name of the processor or GPU.
    fn device(&self) -> String;

    /// The widest beam it takes.
    fn widest(&self) -> usize;

    /// The ways to share work out that are worth a try. Of those that expand as much in one step all find the same.
    fn launches(&self) -> Vec<Option<TunedLaunch>>;

    fn search(
        &self,
        queries: MatrixView<'_, T>,
        params: SearchParams<'_>,
        hits: &mut [Hit],
    ) -> Result<SearchReport, SearchError>;
}

/// The fastest search that reaches the goal, for each of [`BATCHES`].
pub(crate) fn tune<T: Element>(
    subject: &impl Subject<T>,
    goal: Goal,
    held_out: &HeldOut<T>,
    progress: &mut ProgressFn<'_>,
) -> Result<Vec<TunedSearch>, TuneError> {
    if !(goal.recall > 0.0 && goal.recall <= 1.0) {
        return Err(TuneError::Recall(goal.recall));
    }
    held_out.check_depth(goal.k)?;
    let launches = subject.launches();
    let groups: Vec<_> = launches.chunk_by(|a, b| expansions(a) == expansions(b)).collect();
    let total = groups.len() + launches.len() * BATCHES.len();
    let mut done = 0;
    let mut step = |progress: &mut ProgressFn<'_>| {
        let news = Progress { stage: Stage::Tuning, done, total };
        done += 1;
        news.report(progress)
    };
    let state = subject.graph().state();
    let mut fastest: [Option<TunedSearch>; BATCHES.len()] = [const { None }; BATCHES.len()];
    let mut unreached = None;
    for group in groups {
        step(progress)?;
        let (beam_width, recall) = match reach(subject, goal, held_out, group[0]) {
            Ok(reached) => reached,
            // More expansions at once may still reach it.
            Err(error @ TuneError::Unreached { .. }) => {
                unreached = Some(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        for (fastest, batch) in fastest.iter_mut().zip(BATCHES) {
            let queries = held_out.batch(batch);
            for &launch in group {
                step(progress)?;
                let queries =
                    MatrixView::new(&queries, subject.graph().dimension()).expect("whole rows were copied");
                let queries_per_second = rate(subject, queries, goal.params(beam_width, launch))?;
                if fastest.as_ref().is_some_and(|other| other.queries_per_second >= queries_per_second) {
                    continue;
                }
                *fastest = Some(TunedSearch {
                    device: subject.device(),
                    k: goal.k,
                    target: goal.recall,
                    batch,
                    beam_width,
                    launch,
                    recall,
                    queries_per_second,
                    state,
                });
            }
        }
    }
    let found: Vec<TunedSearch> = fastest.into_iter().flatten().collect();
    match unreached {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok(found),
    }
}

fn expansions(launch: &Option<TunedLaunch>) -> Option<u32> {
    launch.map(|launch| launch.expansions)
}

/// The least beam width whose recall both halves confirm, and that of the half which did not choose it.
fn reach<T: Element>(
    subject: &impl Subject<T>,
    goal: Goal,
    held_out: &HeldOut<T>,
    launch: Option<TunedLaunch>,
) -> Result<(usize, f64), TuneError> {
    let vertices = subject.graph().live() + subject.graph().hidden();
    let widest = subject.widest().min(WIDEST).min(vertices).max(goal.k + 1);
    let mut best: f64 = 0.0;
    let mut reaches = |half: &Half<T>, width: usize| {
        let found = half.recall(goal.k, width, |queries, params, hits| {
            subject.search(queries, SearchParams { launch, ..params }, hits)
        })?;
        best = best.max(found);
        Ok::<_, TuneError>(found)
    };
    let (chooses, confirms) = (held_out.chooses(), held_out.confirms());
    let mut first = goal.k;
    while let Some(width) =
        least_width(first, widest, |width| Ok::<_, TuneError>(reaches(chooses, width)? >= goal.recall))?
    {
        let confirmed = reaches(confirms, width)?;
        if confirmed >= goal.recall {
            return Ok((width, confirmed));
        }
        if width == widest {
            break;
        }
        first = width + 1 + width / 32;
    }
    Err(TuneError::Unreached { k: goal.k, recall: goal.recall, found: best, beam_width: widest })
}

/// Queries answered a second in calls of all `queries`: by the median call.
fn rate<T: Element>(
    subject: &impl Subject<T>,
    queries: MatrixView<'_, T>,
    params: SearchParams<'_>,
) -> Result<f64, TuneError> {
    let mut hits = params.places(queries.len())?;
    subject.search(queries, params, &mut hits)?;
    let begun = Instant::now();
    let mut seconds = Vec::new();
    while begun.elapsed() < TIMED {
        let call = Instant::now();
        subject.search(queries, params, &mut hits)?;
        seconds.push(call.elapsed().as_secs_f64());
    }
    seconds.sort_unstable_by(f64::total_cmp);
    Ok(queries.len() as f64 / seconds[seconds.len() / 2])
}
