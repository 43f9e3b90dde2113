//! Recall against queries per second: what each beam width buys.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;
use jasper::recall::{Truth, recall_at};
use jasper::{Element, Hit, Index, Key, MatrixView, SearchParams, SearchReport};
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
    /// Queries of one batch a second, on all threads: the median round.
    pub queries_per_second: f64,
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

/// Answers all `queries` at once: a round to warm up, then timed ones. `truth` gives the true keys of each query.
///
/// # Errors
/// What [`Index::search_into`] refuses.
pub fn measure<'a, T: Element>(
    index: &Index<T>,
    queries: MatrixView<'_, T>,
    truth: impl Fn(usize) -> Truth<'a>,
    params: SearchParams<'_>,
) -> Result<Point> {
    let mut hits = vec![Hit::NONE; queries.len() * params.k];
    let SearchReport { work, .. } = index.search_into(queries, params, &mut hits)?;
    let mut seconds = Vec::new();
    let (begun, cpu_before) = (Instant::now(), machine::cpu_seconds());
    while seconds.len() < ROUNDS || begun.elapsed() < TIMED {
        let round = Instant::now();
        index.search_into(queries, params, &mut hits)?;
        seconds.push(round.elapsed().as_secs_f64());
    }
    let cpu = machine::cpu_seconds().zip(cpu_before).map(|(after, before)| after - before);
    let (rounds, count) = (seconds.len(), queries.len() as f64);
    seconds.sort_unstable_by(f64::total_cmp);
    Ok(Point {
        beam_width: params.beam_width,
        k: params.k,
        recall: mean_recall(&hits, params.k, truth),
        queries_per_second: count / seconds[rounds / 2],
        mean_hops: work.hops as f64 / count,
        mean_distances: work.distances as f64 / count,
        cpu_seconds: cpu.map(|cpu| cpu / rounds as f64),
        rounds,
        queries: queries.len(),
    })
}

/// How a curve was measured, for its reader.
pub fn conditions(queries: usize, threads: usize) -> String {
    let (queries, threads, processor) =
        (human::count(queries), machine::threads(threads), jasper::processor());
    format!(
        "jasper {} · batches of {queries} queries · {threads} threads of {processor}",
        env!("CARGO_PKG_VERSION")
    )
}

/// Mean recall of answers that lie `k` a query.
pub fn mean_recall<'a>(hits: &[Hit], k: usize, truth: impl Fn(usize) -> Truth<'a>) -> f64 {
    let mut sum = 0.0;
    for (query, hits) in hits.chunks_exact(k).enumerate() {
        let answers: Vec<Key> = hits.iter().filter(|hit| **hit != Hit::NONE).map(|hit| hit.key).collect();
        sum += recall_at(k, &answers, truth(query));
    }
    sum / (hits.len() / k) as f64
}

impl Point {
    /// Heads the columns of [`Self`] as text.
    pub fn header(k: usize) -> String {
        format!(
            "{:>10}  {:>9}  {:>9}  {:>7}  {:>9}",
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
        write!(f, "{beam_width:>10}  {recall:>9.4}  {rate:>9}  {mean_hops:>7.1}  {mean_distances:>9.1}")
    }
}
