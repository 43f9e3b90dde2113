//! Shared by the measuring programs in `src/bin`.

#![forbid(unsafe_code)]

use std::error::Error;
use std::time::Instant;

use jasper::bench::recall::mean_recall;
use jasper::data::GroundTruth;
use jasper::{Element, Index, Matches, MatrixView, SearchError, SearchParams};

/// Rounds of a search, of which the fastest counts.
const ROUNDS: usize = 5;

/// Runs a step over `count` vectors and prints its name, duration and rate as a line of JSON.
///
/// # Errors
/// Those of the step.
pub fn step<R>(
    what: &str,
    count: usize,
    step: impl FnOnce() -> Result<R, Box<dyn Error>>,
) -> Result<R, Box<dyn Error>> {
    let begun = Instant::now();
    let result = step()?;
    let seconds = begun.elapsed().as_secs_f64();
    let rate = count as f64 / seconds;
    println!(
        "{{\"what\": \"{what}\", \"vectors\": {count}, \"seconds\": {seconds:.4}, \"per_second\": {rate:.0}}}"
    );
    Ok(result)
}

/// Searches five times, and prints recall and queries per second of the fastest round as a line of JSON. `truth` holds
/// the keys of the true neighbors of the first queries.
///
/// # Errors
/// Those of the search.
pub fn measure_search<T: Element>(
    what: &str,
    index: &Index<T>,
    queries: MatrixView<'_, T>,
    params: SearchParams<'_>,
    truth: &GroundTruth,
) -> Result<(), SearchError> {
    let (mut seconds, mut matches) = (f64::INFINITY, Matches::default());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        matches = index.search_batch(queries, params)?;
        seconds = seconds.min(begun.elapsed().as_secs_f64());
    }
    let keys = &matches.keys()[..truth.len() * params.k];
    let recall = mean_recall(keys, params.k, |query| truth.truth(query));
    let (beam_width, rate) = (params.effective_beam_width(), queries.len() as f64 / seconds);
    println!(
        "{{\"what\": \"{what}\", \"beam_width\": {beam_width}, \"recall\": {recall:.4}, \"queries_per_second\": {rate:.0}}}"
    );
    Ok(())
}
