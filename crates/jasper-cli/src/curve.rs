//! Measures recall and queries per second by beam width.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;
use jasper::{Index, Matches, SearchParams, SearchReport, Vectors};
use jasper_core::recall::mean_recall;
use jasper_data::GroundTruth;
use serde::Serialize;

use crate::{process, units};

/// The measurement of one beam width.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Beam width of the searches.
    pub beam_width: usize,
    /// Hits per query.
    pub k: usize,
    /// Mean recall@k; ties with the k-th true neighbor count as found.
    pub recall: f64,
    /// Queries per second in one batch, from host memory and back, in the median round.
    pub queries_per_second: f64,
    /// Queries per second for queries in device memory, timed by events on the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_queries_per_second: Option<f64>,
    /// Vertices expanded per query.
    pub mean_hops: f64,
    /// Distances computed per query.
    pub mean_distances: f64,
    /// CPU time of a round, all threads together, where known.
    pub cpu_seconds: Option<f64>,
    /// Timed rounds.
    pub rounds: usize,
    /// Queries per round.
    pub queries: usize,
}

/// Minimum number and total time of timed rounds.
const ROUNDS: usize = 3;
const TIMED: Duration = Duration::from_millis(500);

/// Searches for a batch of queries, whose true neighbors are `truth`: a warm-up round, then timed rounds.
pub fn measure(
    index: &Index,
    queries: Vectors<'_>,
    truth: &GroundTruth,
    params: SearchParams<'_>,
) -> Result<Point> {
    let (mut keys, mut distances) = Matches::new(queries.len(), params.k)?.into_arrays();
    let mut search = || index.search_batch_into(queries, params, &mut keys, &mut distances);
    let SearchReport { cost, .. } = search()?;
    let mut seconds = Vec::new();
    let (start, cpu_before) = (Instant::now(), process::cpu_seconds());
    while seconds.len() < ROUNDS || start.elapsed() < TIMED {
        let round = Instant::now();
        search()?;
        seconds.push(round.elapsed().as_secs_f64());
    }
    let cpu = process::cpu_seconds().zip(cpu_before).map(|(after, before)| after - before);
    let (rounds, count) = (seconds.len(), queries.len() as f64);
    seconds.sort_unstable_by(f64::total_cmp);
    Ok(Point {
        beam_width: params.effective_beam_width(),
        k: params.k,
        recall: mean_recall(&keys, params.k, |query| truth.truth(query)),
        queries_per_second: count / seconds[rounds / 2],
        resident_queries_per_second: None,
        mean_hops: cost.hops as f64 / count,
        mean_distances: cost.distances as f64 / count,
        cpu_seconds: cpu.map(|cpu| cpu / rounds as f64),
        rounds,
        queries: queries.len(),
    })
}

/// Describes a measurement to its readers; `device` is what searched.
pub fn conditions(queries: usize, device: &str) -> String {
    let queries = units::count(queries);
    format!("jasper {} · batches of {queries} queries · {device}", env!("CARGO_PKG_VERSION"))
}

impl Point {
    /// The header of the columns of [`Self`] as text.
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
        let rate = units::rate(*queries_per_second);
        write!(f, "{beam_width:>10}  {recall:>9.4}  {rate:>11}  {mean_hops:>7.1}  {mean_distances:>9.1}")?;
        let Some(resident) = self.resident_queries_per_second else { return Ok(()) };
        write!(f, "  {:>11} on the device", units::rate(resident))
    }
}
