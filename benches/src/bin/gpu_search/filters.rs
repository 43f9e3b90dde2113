//! Searches with key filters, from host memory and back.
//!
//! Filters allow one key in some number: every such key, those nearest to one query, or those farthest from it. The
//! queries of the latter two are the nearest to that query. Next to rates, each line holds what the choice between beam
//! search and scan estimates (`jasper_vamana::CostModel`): hops, distances and the time per distance, and how many
//! queries were scanned for.

use std::time::Instant;

use anyhow::{Context as _, Result};
use jasper::{Element, Key, KeyFilter, Matches, MatrixView, SearchParams, SearchReport};
use jasper_core::no_progress;
use jasper_core::recall::mean_recall;
use jasper_cuda::{Context, exact_knn_on_device};
use jasper_data::{GroundTruth, ThreadPoolBuilder};
use jasper_graph::Graph;
use serde_json::json;

use super::latency::{least_width, quantile};
use super::measure::{Bench, rounded};

/// Results per query.
const K: usize = 10;
/// The recall for which the beam width is chosen.
const RECALL: f64 = 0.95;
/// Queries with which it is chosen: those of the set, or those nearest to the first.
const RECALL_QUERIES: usize = 1_000;
/// Of how many keys one is allowed.
const ONE_IN: [usize; 5] = [1, 2, 10, 100, 1000];
/// Queries of a batch, how often it is searched, and how often before that.
const BATCHES: [(usize, usize, usize); 4] = [(10_000, 7, 2), (100, 50, 5), (10, 200, 20), (1, 400, 20)];
/// Queries that are drawn from.
const QUERIES: usize = 10_000;

/// Which keys a filter allows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Keys at equal intervals.
    Every,
    /// Those nearest to the first query.
    Near,
    /// Those farthest from it.
    Far,
}

/// Measures an index, and prints a line per filter and batch. The first filter allows all keys.
pub fn run<T: Element>(bench: &Bench<'_, T>) -> Result<()> {
    let all: Vec<Key> = (0..bench.index.len() as Key).collect();
    let queries: Vec<T> = bench.queries(0, QUERIES).rows().flatten().copied().collect();
    let dimension = bench.index.dimension();
    let nearest_keys = bench.index.read_graph(|graph: &Graph| {
        let slot = |key: &Key| graph.keys().slot_of(*key).expect("keys are numbers of rows");
        by_distance(&queries[..dimension], &all, |key| graph.vectors().get(slot(key)))
    })?;
    let rows: Vec<usize> = (0..QUERIES).collect();
    let row = |row: &usize| &queries[row * dimension..][..dimension];
    let mut near_rows = by_distance(row(&0), &rows, row);
    near_rows.truncate(RECALL_QUERIES);
    let near_queries: Vec<T> = near_rows.iter().cycle().take(QUERIES).flat_map(row).copied().collect();
    for (kind, name) in [(Kind::Every, "every"), (Kind::Near, "near"), (Kind::Far, "far")] {
        for one_in in ONE_IN.into_iter().filter(|&one_in| kind == Kind::Every || one_in > 1) {
            let len = all.len() / one_in;
            let (allowed, queries) = match kind {
                Kind::Every => (all.iter().copied().step_by(one_in).collect(), &queries),
                Kind::Near => (nearest_keys[..len].to_vec(), &near_queries),
                Kind::Far => (nearest_keys[all.len() - len..].to_vec(), &near_queries),
            };
            let queries = MatrixView::new(queries, dimension).context("whole rows")?;
            measure(bench, name, one_in, allowed, queries)?;
        }
    }
    Ok(())
}

/// The items in the order of the distances of their vectors to a query.
fn by_distance<'a, T: Element, I: Copy>(query: &[T], items: &[I], vector: impl Fn(&I) -> &'a [T]) -> Vec<I> {
    let distance = |item: &I| -> f32 {
        let pairs = query.iter().zip(vector(item));
        pairs.map(|(x, y)| (x.to_f32() - y.to_f32()).powi(2)).sum()
    };
    let mut ordered: Vec<(f32, I)> = items.iter().map(|item| (distance(item), *item)).collect();
    ordered.sort_by(|a, b| a.0.total_cmp(&b.0));
    ordered.into_iter().map(|(_, item)| item).collect()
}

/// Measures a filter with batches of all sizes.
fn measure<T: Element>(
    bench: &Bench<'_, T>,
    name: &str,
    one_in: usize,
    allowed: Vec<Key>,
    queries: MatrixView<'_, T>,
) -> Result<()> {
    let judged = queries.slice(0..RECALL_QUERIES);
    let truth = truth(bench, &allowed, judged)?;
    let filter = KeyFilter::from_iter(allowed);
    let params = |beam_width| {
        let params = SearchParams::new(K).beam_width(beam_width);
        if one_in == 1 { params } else { params.filter(&filter) }
    };
    for (batch, timed, untimed) in BATCHES {
        let (mut keys, mut distances) = Matches::new(batch, K)?.into_arrays();
        let mut search = |first: usize, beam_width| {
            let queries = queries.slice(first..first + batch);
            let begun = Instant::now();
            let report =
                bench.index.search_batch_into(queries, params(beam_width), &mut keys, &mut distances)?;
            Ok::<(SearchReport, f64), anyhow::Error>((report, begun.elapsed().as_secs_f64()))
        };
        // The strategy depends on the size of the batch, and the recall on the strategy.
        let recall = |beam_width| {
            let mut found = Vec::with_capacity(RECALL_QUERIES * K);
            for first in (0..RECALL_QUERIES).step_by(batch) {
                let queries =
                    if batch > RECALL_QUERIES { queries } else { queries.slice(first..first + batch) };
                found.extend_from_slice(bench.index.search_batch(queries, params(beam_width))?.keys());
            }
            found.truncate(RECALL_QUERIES * K);
            Ok::<f64, anyhow::Error>(mean_recall(&found, K, |query| truth.truth(query)))
        };
        let Some((beam_width, recall)) = least_width(K, RECALL, recall)? else { continue };
        let mut times = Vec::with_capacity(timed);
        let mut report = SearchReport::default();
        for call in 0..untimed + timed {
            let (of_call, time) = search(call * batch % QUERIES, beam_width)?;
            if call >= untimed {
                report += of_call;
                times.push(time);
            }
        }
        times.sort_unstable_by(f64::total_cmp);
        let (median, searched) = (quantile(&times, 0.5), (timed * batch) as f64);
        let distances = report.cost.distances as f64 / searched;
        let fields = json!({
            "filter": name, "allowed_one_in": one_in, "k": K, "queries": batch, "beam_width": beam_width,
            "recall": rounded(recall, 5), "queries_per_second": rounded(batch as f64 / median, 0),
            "median_us": rounded(median * 1e6, 1), "p99_us": rounded(quantile(&times, 0.99) * 1e6, 1),
            "scanned": rounded(report.scanned as f64 / searched, 3),
            "hops": rounded(report.cost.hops as f64 / searched, 1), "distances": rounded(distances, 1),
            "ns_per_distance": rounded(median * 1e9 / (distances * batch as f64), 5),
        });
        println!("{}", bench.line("filters", fields));
    }
    Ok(())
}

/// The true neighbors of some queries among the keys that a filter allows.
fn truth<T: Element>(
    bench: &Bench<'_, T>,
    allowed: &[Key],
    queries: MatrixView<'_, T>,
) -> Result<GroundTruth> {
    let dimension = bench.index.dimension();
    let rows: Vec<T> = bench.index.read_graph(|graph: &Graph| {
        let slots = allowed.iter().filter_map(|&key| graph.keys().slot_of(key));
        slots.flat_map(|slot| graph.vectors().get(slot)).copied().collect()
    })?;
    let rows = MatrixView::new(&rows, dimension).context("whole rows")?;
    let pool = ThreadPoolBuilder::new().build()?;
    let metric = bench.index.stats().metric;
    let found = exact_knn_on_device(&Context::open(0)?, rows, queries, K, metric, &pool, &mut no_progress)?;
    let keys = found.ids().iter().map(|&row| allowed[row as usize] as u32).collect();
    Ok(GroundTruth::new(K, keys, found.distances().map(<[f32]>::to_vec))?)
}
