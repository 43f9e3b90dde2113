//! Recall against queries per second: what each beam width buys.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;
use jasper::bench::recall::{Truth, mean_recall};
use jasper::{Key, Matches, SearchError, SearchParams, SearchReport};
use serde::Serialize;

use crate::{human, machine};

/// What one beam width was measured to give.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Frontier of the searches.
    pub beam_width: usize,
    /// Answers a query.
    pub k: usize,
    /// Recall@k, the mean over all queries; ties with the k-th true neighbour count as right.
    pub recall: f64,
    /// Queries of one batch a second, from host memory and back: the median round.
    pub queries_per_second: f64,
    /// The same of queries that lie in the memory of a GPU, by its own clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_queries_per_second: Option<f64>,
    /// Vertices expanded a query.
    pub mean_hops: f64,
    /// Distances worked out a query.
    pub mean_distances: f64,
    /// Processor time of a round, all threads together; where the operating system tells.
    pub cpu_seconds: Option<f64>,
    /// Rounds that were timed.
    pub rounds: usize,
    /// Queries of a round.
    pub queries: usize,
}

/// Rounds go on until there were this many and they took this long, whichever is later.
const ROUNDS: usize = 3;
const TIMED: Duration = Duration::from_millis(500);

/// Answers `queries` queries at once with `search`: a round to warm up, then timed ones. `truth` gives the true keys of
/// each query.
///
/// # Errors
/// Those of `search`.
pub fn measure<'a>(
    queries: usize,
    params: SearchParams<'_>,
    truth: impl Fn(usize) -> Truth<'a>,
    search: impl Fn(&mut [Key], &mut [f32]) -> Result<SearchReport, SearchError>,
) -> Result<Point> {
    let (mut keys, mut distances) = Matches::new(queries, params.k)?.into_arrays();
    let SearchReport { cost, .. } = search(&mut keys, &mut distances)?;
    let mut seconds = Vec::new();
    let (begun, cpu_before) = (Instant::now(), machine::cpu_seconds());
    while seconds.len() < ROUNDS || begun.elapsed() < TIMED {
        let round = Instant::now();
        search(&mut keys, &mut distances)?;
        seconds.push(round.elapsed().as_secs_f64());
    }
    let cpu = machine::cpu_seconds().zip(cpu_before).map(|(after, before)| after - before);
    let (rounds, count) = (seconds.len(), queries as f64);
    seconds.sort_unstable_by(f64::total_cmp);
    Ok(Point {
        beam_width: params.beam_width,
        k: params.k,
        recall: mean_recall(&keys, params.k, truth),
        queries_per_second: count / seconds[rounds / 2],
        resident_queries_per_second: None,
        mean_hops: cost.hops as f64 / count,
        mean_distances: cost.distances as f64 / count,
        cpu_seconds: cpu.map(|cpu| cpu / rounds as f64),
        rounds,
        queries,
    })
}

/// How a curve was measured, for its reader: `place` is what searched.
pub fn conditions(queries: usize, place: &str) -> String {
    let queries = human::count(queries);
    format!("jasper {} · batches of {queries} queries · {place}", env!("CARGO_PKG_VERSION"))
}

impl Point {
    /// Heads the columns of [`Self`] as text.
    pub fn header(k: usize) -> String {
        format!(
            "{:>10}  {:>9}  {:>11}  {:>7}  {:>9}",
            "beam width",
            format!("recall@{k}"),
            "queries/s",
            "hops",
            "distances"
        )
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { beam_width, recall, queries_per_second, mean_hops, mean_distances, .. } = self;
        let rate = human::rate(*queries_per_second);
        write!(f, "{beam_width:>10}  {recall:>9.4}  {rate:>11}  {mean_hops:>7.1}  {mean_distances:>9.1}")?;
        let Some(resident) = self.resident_queries_per_second else { return Ok(()) };
        write!(f, "  {:>11} on the GPU", human::rate(resident))
    }
}
