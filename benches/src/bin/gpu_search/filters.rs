//! Searches with prepared filters, from host memory and back.

use std::time::Instant;

use anyhow::{Context as _, Result};
use jasper::bench::recall::mean_recall;
use jasper::cuda::{Context, exact_knn_on_device};
use jasper::data::{GroundTruth, ThreadPoolBuilder};
use jasper::{Element, Key, KeyFilter, Matches, MatrixView, SearchParams, no_progress};
use serde_json::json;

use super::latency::{least_width, quantile};
use super::measure::{Bench, rounded};

/// Results per query.
const K: usize = 10;
/// The recall for which the beam width is chosen.
const RECALL: f64 = 0.95;
/// Queries with which it is chosen.
const RECALL_QUERIES: usize = 1_000;
/// Every how many keys one is allowed.
const EVERY: [u64; 5] = [1, 2, 10, 100, 1000];
/// Queries of a batch, and times that one is searched.
const BATCH: usize = 10_000;
const TIMED_BATCHES: usize = 7;
/// Times that single queries are searched, after some untimed ones.
const TIMED: usize = 400;
const UNTIMED: usize = 20;

/// Measures an index, and prints a line per share of allowed keys. The first allows all.
pub fn run<T: Element>(bench: &Bench<'_, T>) -> Result<()> {
    for every in EVERY {
        let filter = KeyFilter::from_iter((0..bench.index.len() as Key).step_by(every as usize));
        let truth = truth(bench, every)?;
        let params = |beam_width| {
            let params = SearchParams::new(K).beam_width(beam_width);
            if every == 1 { params } else { params.filter(&filter) }
        };
        let recall = |beam_width| {
            let matches = bench.index.search_batch(bench.queries(0, RECALL_QUERIES), params(beam_width))?;
            Ok::<f64, anyhow::Error>(mean_recall(matches.keys(), K, |query| truth.truth(query)))
        };
        let Some((beam_width, recall)) = least_width(K, RECALL, recall)? else { continue };
        let batch = seconds(bench, params(beam_width), BATCH, TIMED_BATCHES)?;
        let single = seconds(bench, params(beam_width), 1, TIMED)?;
        let fields = json!({
            "allowed_one_in": every, "k": K, "beam_width": beam_width, "recall": rounded(recall, 5),
            "queries_per_second": rounded(BATCH as f64 / quantile(&batch, 0.5), 0),
            "median_us": rounded(quantile(&single, 0.5) * 1e6, 1),
            "p99_us": rounded(quantile(&single, 0.99) * 1e6, 1),
        });
        println!("{}", bench.line("filters", fields));
    }
    Ok(())
}

/// The true neighbors of the first queries among the keys that a filter allows.
fn truth<T: Element>(bench: &Bench<'_, T>, every: u64) -> Result<GroundTruth> {
    let dimension = bench.index.dimension();
    let allowed: Vec<Key> = (0..bench.index.len() as Key).step_by(every as usize).collect();
    let rows: Vec<T> = bench.index.read_graph(|graph| {
        let slots = allowed.iter().filter_map(|&key| graph.keys().slot_of(key));
        slots.flat_map(|slot| graph.vectors().get(slot)).copied().collect()
    })?;
    let rows = MatrixView::new(&rows, dimension).context("whole rows")?;
    let queries = bench.queries(0, RECALL_QUERIES);
    let pool = ThreadPoolBuilder::new().build()?;
    let metric = bench.index.metric();
    let found = exact_knn_on_device(&Context::open(0)?, rows, queries, K, metric, &pool, &mut no_progress)?;
    let keys = found.ids().iter().map(|&row| allowed[row as usize] as u32).collect();
    Ok(GroundTruth::new(K, keys, found.distances().map(<[f32]>::to_vec))?)
}

/// Seconds of calls of `count` queries each, ascending.
fn seconds<T: Element>(
    bench: &Bench<'_, T>,
    params: SearchParams<'_>,
    count: usize,
    timed: usize,
) -> Result<Vec<f64>> {
    let (mut keys, mut distances) = Matches::new(count, K)?.into_arrays();
    let mut times = Vec::new();
    for call in 0..UNTIMED.min(timed) + timed {
        let queries = bench.queries(call * count % BATCH, count);
        let begun = Instant::now();
        bench.index.search_batch_into(queries, params, &mut keys, &mut distances)?;
        times.push(begun.elapsed().as_secs_f64());
    }
    times.drain(..times.len() - timed);
    times.sort_unstable_by(f64::total_cmp);
    Ok(times)
}
