//! The latency of small batches, from host memory and back.

use std::time::Instant;

use anyhow::{Context as _, Result};
use jasper::{
    Device, Element, Index, IndexBuilder, LaunchParams, Matches, MatrixView, Profile, SearchParams,
};
use jasper_cuda::MAX_BEAM_WIDTH;
use serde_json::json;

use super::measure::{Bench, ONE_WARP, Setting, launch_fields, merge, rounded};

/// Results per query.
const K: usize = 10;
/// The recall for which the beam width is chosen.
const RECALL: f64 = 0.95;
/// Queries with which it is chosen.
const RECALL_QUERIES: usize = 2_000;
/// Queries per call.
const CALLS: [usize; 3] = [1, 10, 100];
/// Timed calls, after some untimed ones.
const TIMED: usize = 400;
const UNTIMED: usize = 20;

/// One warp per query, and teams that look further and further ahead.
fn launches() -> Vec<LaunchParams> {
    let team = |(warps, expansions)| LaunchParams { warps, expansions, visited_buckets: 4096 };
    let teams = [(8, 1), (8, 3), (8, 7), (16, 1), (16, 2), (16, 3), (16, 5), (16, 7)];
    [ONE_WARP].into_iter().chain(teams.map(team)).collect()
}

/// Measures an index, and prints a line per launch and batch size.
pub fn run<T: Element>(bench: &Bench<'_, T>) -> Result<()> {
    // Searching a single vector takes the fixed time of a call.
    let one = IndexBuilder::new(bench.index.stats().metric)
        .build(bench.queries(0, 1))?
        .to_device(Device::cuda(0))?;
    for launch in launches() {
        let setting = |beam_width| Setting { k: K, beam_width, launch };
        let recall = |beam_width| {
            let params = bench.params(setting(beam_width));
            let matches = bench.index.search_batch(bench.queries(0, RECALL_QUERIES), params)?;
            Ok::<f64, anyhow::Error>(bench.set.recall(K, matches.keys()))
        };
        let Some((beam_width, recall)) = least_width(K, RECALL, recall)? else { continue };
        let params = bench.params(setting(beam_width));
        for queries in CALLS {
            let times = time(&bench.index, params, queries, |first| bench.queries(first, queries))?;
            let one_result = SearchParams::new(1).beam_width(1).launch(launch);
            let fixed = time(&one, one_result, queries, |first| bench.queries(first, queries))?;
            let kernel = Profile::device_time(&bench.index, bench.queries(0, queries), params)?;
            let kernel = kernel.context("the index is on a device")?.as_secs_f64() * 1e6;
            let mut fields = json!({
                "queries": queries, "k": K, "beam_width": beam_width, "recall": rounded(recall, 5),
                "median_us": rounded(quantile(&times, 0.5), 2), "p99_us": rounded(quantile(&times, 0.99), 2),
                "kernel_us": rounded(kernel, 2), "fixed_us": rounded(quantile(&fixed, 0.5), 2),
            });
            merge(&mut fields, launch_fields(launch));
            println!("{}", bench.line("latency", fields));
        }
    }
    Ok(())
}

/// Microseconds of calls of `count` queries each, ascending; each call has other queries.
fn time<'q, T: Element>(
    index: &Index,
    params: SearchParams<'_>,
    count: usize,
    queries: impl Fn(usize) -> MatrixView<'q, T>,
) -> Result<Vec<f64>> {
    let (mut keys, mut distances) = Matches::new(count, params.k)?.into_arrays();
    let mut times = Vec::with_capacity(UNTIMED + TIMED);
    for call in 0..UNTIMED + TIMED {
        let queries = queries(call * count);
        let begun = Instant::now();
        index.search_batch_into(queries, params, &mut keys, &mut distances)?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    times.drain(..UNTIMED);
    times.sort_unstable_by(f64::total_cmp);
    Ok(times)
}

/// The smallest of the ascending `values` that a `share` of them does not exceed.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let at = (values.len() as f64 * share).ceil() as usize;
    values[at.clamp(1, values.len()) - 1]
}

/// The smallest beam width from `k` on that reaches a recall, and its recall; `None` if no width does. Recall rises
/// with the width.
pub fn least_width<E>(
    k: usize,
    wanted: f64,
    mut recall: impl FnMut(usize) -> Result<f64, E>,
) -> Result<Option<(usize, f64)>, E> {
    let (mut below, mut above) = (k - 1, k);
    let mut reached = recall(above)?;
    while reached < wanted {
        if above == MAX_BEAM_WIDTH as usize {
            return Ok(None);
        }
        (below, above) = (above, (2 * above).min(MAX_BEAM_WIDTH as usize));
        reached = recall(above)?;
    }
    while above - below > 1 {
        let middle = below.midpoint(above);
        let found = recall(middle)?;
        if found >= wanted {
            (above, reached) = (middle, found);
        } else {
            below = middle;
        }
    }
    Ok(Some((above, reached)))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn the_least_width_is_found_in_few_steps() {
        for wanted in [10, 11, 33, 500, 1024] {
            let mut measured = 0;
            let found = least_width(K, RECALL, |width| {
                measured += 1;
                Ok::<f64, Infallible>(if width >= wanted { 0.96 } else { 0.94 })
            });
            assert_eq!(found.unwrap(), Some((wanted, 0.96)));
            assert!(measured < 20, "{measured}");
        }
        assert_eq!(least_width(K, RECALL, |_| Ok::<f64, Infallible>(0.9)).unwrap(), None);
    }

    #[test]
    fn quantiles_are_of_sorted_values() {
        let values: Vec<f64> = (1..=400).map(f64::from).collect();
        assert_eq!((quantile(&values, 0.5), quantile(&values, 0.99)), (200.0, 396.0));
        assert_eq!(quantile(&[7.0], 0.5), 7.0);
    }
}
