//! Shared by the measuring programs in `src/bin`.

#![forbid(unsafe_code)]

pub mod front;

use std::collections::BTreeMap;
use std::error::Error;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use jasper::{
    Device, Element, Index, IndexBuilder, Matches, MatrixView, Metric, Progress, SearchParams, Vectors,
};
use jasper_core::no_progress;
use jasper_core::recall::mean_recall;
use jasper_cuda::{Context, DeviceKnnError, exact_knn_on_device};
use jasper_data::{GroundTruth, ThreadPool, exact_knn};
use serde_json::json;

/// Options of builds.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct BuildArgs {
    /// Maximum degree of the graphs.
    #[arg(long, value_name = "R", default_value_t = 64)]
    max_degree: usize,
    /// Pruning slack of the graphs.
    #[arg(long, default_value_t = 1.2)]
    alpha: f32,
    /// Beam width of the builds; by default, the builder's.
    #[arg(long, value_name = "WIDTH", alias = "build-beam")]
    build_beam_width: Option<usize>,
    /// Largest batch of a build, as a share of the linked vertices.
    #[arg(long, value_name = "SHARE")]
    batch_share: Option<f32>,
    /// Choose edges by exact distances of floats, not by those of SQ8 vectors.
    #[arg(long)]
    exact_linking: bool,
}

impl BuildArgs {
    /// Starts a build that ends with the index in host memory.
    pub fn builder(self, metric: Metric, device: Device) -> IndexBuilder<'static> {
        let Self { max_degree, alpha, build_beam_width, batch_share, exact_linking } = self;
        let builder = IndexBuilder::new(metric).device(device).keep_on_host(true).max_degree(max_degree);
        let builder = builder.alpha(alpha);
        let builder =
            if let Some(width) = build_beam_width { builder.build_beam_width(width) } else { builder };
        let builder = if let Some(share) = batch_share { builder.max_batch_share(share) } else { builder };
        builder.exact_linking(exact_linking)
    }
}

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
/// the keys of the true neighbors of the first queries. Returns the recall and the rate.
///
/// # Errors
/// Those of the search.
pub fn measure_search<'a>(
    what: &str,
    index: &Index,
    queries: impl Into<Vectors<'a>>,
    params: SearchParams<'_>,
    truth: &GroundTruth,
) -> Result<(f64, f64), jasper::Error> {
    let queries = queries.into();
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
    Ok((recall, rate))
}

/// The exact neighbors of queries, by brute force on a CUDA device or, without a context, by the threads of `pool`.
///
/// # Errors
/// Those of [`exact_knn_on_device`].
pub fn exact_neighbors<T: Element>(
    context: Option<&Context>,
    rows: MatrixView<'_, T>,
    queries: MatrixView<'_, T>,
    k: usize,
    metric: Metric,
    pool: &ThreadPool,
) -> Result<GroundTruth, DeviceKnnError> {
    Ok(match context {
        Some(context) => exact_knn_on_device(context, rows, queries, k, metric, pool, &mut no_progress)?,
        None => exact_knn(rows, queries, k, metric, pool, &mut no_progress)?,
    })
}

/// When each stage of a call ended, in seconds.
#[derive(Debug)]
pub struct Stages {
    begun: Instant,
    ends: Arc<Mutex<BTreeMap<String, f64>>>,
}

impl Stages {
    /// Starts the clock.
    #[must_use]
    pub fn begin() -> Self {
        Self { begun: Instant::now(), ends: Arc::default() }
    }

    /// The callback that notes the progress of the call.
    pub fn note(&self) -> impl FnMut(Progress) -> ControlFlow<()> + use<> {
        let (begun, ends) = (self.begun, Arc::clone(&self.ends));
        move |progress| {
            let mut ends = ends.lock().unwrap_or_else(PoisonError::into_inner);
            ends.insert(progress.stage.to_string(), begun.elapsed().as_secs_f64());
            ControlFlow::Continue(())
        }
    }

    /// When each stage ended.
    #[must_use]
    pub fn ends(&self) -> BTreeMap<String, f64> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Prints them, and the time of the call, which handled `count` vectors, as a line of JSON.
    /// Returns the seconds.
    pub fn report(self, what: &str, count: usize) -> f64 {
        let seconds = self.begun.elapsed().as_secs_f64();
        let rate = count as f64 / seconds;
        let line = json!({
            "what": what, "vectors": count, "seconds": seconds, "per_second": rate, "stages_end": self.ends(),
        });
        println!("{line}");
        seconds
    }
}
