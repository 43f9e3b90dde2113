//! The latency of small batches, from host memory and back.

use std::time::Instant;

use anyhow::Result;
use gpu_kernels::search::MAX_BEAM_WIDTH;
use jasper_core::{Element, MatrixView, VectorId};
use jasper_cuda::Searcher;
use jasper_data::{ThreadPool, ThreadPoolBuilder};
use jasper_graph::Graph;
use jasper_vamana::{Matches, SearchParams, TunedLaunch};
use serde_json::json;

use super::bench::Bench;
use super::device_search::DeviceSearch;
use super::peers::Peers;
use super::point::{SOLO, Setting, launch_line, merge, rounded};
use super::set::Set;

/// Results per query.
const K: u32 = 10;
/// The recall that the beam width is chosen for.
const RECALL: f64 = 0.95;
/// Queries that it is chosen with.
const CHOSEN_BY: usize = 2_000;
/// Queries per call.
const CALLS: [usize; 3] = [1, 10, 100];
/// Calls that are timed, after some that are not.
const TIMED: usize = 400;
const WARM: usize = 20;

/// The launches that are tried: a warp a query, and teams with more and more vertices ahead, and so with fewer warps for
/// each.
fn launches() -> Vec<TunedLaunch> {
    let team = |(warps, expansions)| TunedLaunch { warps, expansions, visited_slots: 4096 };
    let teams = [(8, 1), (8, 3), (8, 7), (16, 1), (16, 2), (16, 3), (16, 5), (16, 7)];
    [SOLO].into_iter().chain(teams.map(team)).collect()
}

/// Measures one set in one element. Returns a row per launch configuration.
pub fn run<T: Element>(bench: &Bench, set: &Set, graph: &Graph<T>) -> Result<Vec<String>> {
    let peers = Peers::read()?;
    let queries = set.queries::<T>()?;
    let copy = bench.upload(&set.name, graph)?;
    let search = DeviceSearch::new(&bench.stream, graph, copy, queries.view(), CHOSEN_BY)?;
    let searcher = Searcher::new(bench.stream.context(), graph, Some(bench.options.vectors))?;
    let next_to_nothing = first_vertex(graph)?;
    let of_nothing = Searcher::new(bench.stream.context(), &next_to_nothing, Some(bench.options.vectors))?;
    let pool = ThreadPoolBuilder::new().build()?;
    let mut rows = Vec::new();
    for launch in launches() {
        if bench.deadline.is_over() {
            break;
        }
        let setting = |beam_width| Setting { k: K, beam_width, launch };
        let recall = |beam_width| {
            let setting = setting(beam_width);
            let found = search.ask(&search.kernel(setting), setting, CHOSEN_BY)?;
            Ok::<f64, anyhow::Error>(set.recall(K as usize, &found.keys))
        };
        let Some((beam_width, recall)) = least_width(recall)? else { continue };
        let params = SearchParams::new(K as usize).beam_width(beam_width as usize).launch(launch);
        let least = SearchParams::new(1).beam_width(1).launch(launch);
        let mut cells = String::new();
        for queries_per_call in CALLS {
            let times = time(&searcher, graph, &pool, queries.view(), params, queries_per_call)?;
            let fixed = share(
                &time(&of_nothing, &next_to_nothing, &pool, queries.view(), least, queries_per_call)?,
                0.5,
            );
            let setting = setting(beam_width);
            let kernel =
                search.time_alone(&search.kernel(setting), setting, queries_per_call)?.as_secs_f64() * 1e6;
            let mut line = json!({
                "what": "latency", "set": set.name, "element": T::KIND.name(), "queries": queries_per_call, "k": K,
                "beam_width": beam_width, "recall": rounded(recall, 5), "median_us": rounded(share(&times, 0.5), 2),
                "p99_us": rounded(share(&times, 0.99), 2), "calls": times.len(),
                "kernel_us": rounded(kernel, 2), "fixed_us": rounded(fixed, 2),
                "peer_us": peers.latency(&set.name, queries_per_call),
            });
            merge(&mut line, launch_line(launch));
            println!("{line}");
            let (median, late) = (share(&times, 0.5), share(&times, 0.99));
            cells += &format!(" {median:>8.1} {late:>8.1} {kernel:>8.1} {fixed:>8.1}");
        }
        let name = format!("{} {}", set.name, T::KIND);
        let team = format!("{} warps, {} ahead", launch.warps, launch.expansions);
        rows.push(format!("{name:<16} {team:<18} {beam_width:>5} {recall:.4}{cells}"));
    }
    Ok(rows)
}

/// A graph of the first vertex alone, to measure the fixed cost of a call.
fn first_vertex<T: Element>(graph: &Graph<T>) -> Result<Graph<T>> {
    let mut first = Graph::new(graph.metric(), graph.dimension(), *graph.params())?;
    let mut row = Vec::new();
    let squared_norm = first.vectors().prepare(0, graph.vectors().get(VectorId::new(0)), &mut row)?;
    let slot = first.add_vector(&row, squared_norm)?;
    first.keys_mut().assign(0, slot)?;
    first.adjacency_mut().set_start_points(vec![slot]);
    Ok(first)
}

/// Microseconds of calls of `count` queries each, rising; each call asks the next ones.
fn time<T: Element>(
    searcher: &Searcher<T>,
    graph: &Graph<T>,
    pool: &ThreadPool,
    queries: MatrixView<'_, T>,
    params: SearchParams<'_>,
    count: usize,
) -> Result<Vec<f64>> {
    let mut matches = Matches::new(count, params.k)?;
    let mut times = Vec::with_capacity(WARM + TIMED);
    for call in 0..WARM + TIMED {
        let first = call * count % (queries.len() - count + 1);
        let asked = queries.slice(first..first + count);
        let begun = Instant::now();
        searcher.contexts().answer(searcher.view(graph), pool, asked, params, matches.as_mut())?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    times.drain(..WARM);
    times.sort_unstable_by(f64::total_cmp);
    Ok(times)
}

/// The value that a share of the rising `values` is not above.
fn share(values: &[f64], share: f64) -> f64 {
    let at = (values.len() as f64 * share).ceil() as usize;
    values[at.clamp(1, values.len()) - 1]
}

/// The least beam width from `K` on whose recall is [`RECALL`], and that recall; nothing if the widest misses it. For
/// recalls that rise with the width.
fn least_width<E>(mut recall: impl FnMut(u32) -> Result<f64, E>) -> Result<Option<(u32, f64)>, E> {
    let (mut below, mut above) = (K - 1, K);
    let mut reached = recall(above)?;
    while reached < RECALL {
        if above == MAX_BEAM_WIDTH {
            return Ok(None);
        }
        (below, above) = (above, (2 * above).min(MAX_BEAM_WIDTH));
        reached = recall(above)?;
    }
    while above - below > 1 {
        let middle = below.midpoint(above);
        let found = recall(middle)?;
        if found >= RECALL {
            (above, reached) = (middle, found);
        } else {
            below = middle;
        }
    }
    Ok(Some((above, reached)))
}

/// What stands over the rows.
pub fn header() -> String {
    let calls: String = CALLS
        .iter()
        .map(|count| format!(" {count:>8} {:>8} {:>8} {:>8}", "p99", "kernel", "fixed"))
        .collect();
    format!("{:<16} {:<18} {:>5} recall{calls}   microseconds by queries a call", "set", "team", "width")
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn the_least_width_is_found_in_few_steps() {
        for wanted in [10, 11, 33, 500, 1024] {
            let mut asked = 0;
            let found = least_width(|width| {
                asked += 1;
                Ok::<f64, Infallible>(if width >= wanted { 0.96 } else { 0.94 })
            });
            assert_eq!(found.unwrap(), Some((wanted, 0.96)));
            assert!(asked < 20, "{asked}");
        }
        assert_eq!(least_width(|_| Ok::<f64, Infallible>(0.9)).unwrap(), None);
    }

    #[test]
    fn shares_are_of_the_sorted_values() {
        let values: Vec<f64> = (1..=400).map(f64::from).collect();
        assert_eq!((share(&values, 0.5), share(&values, 0.99)), (200.0, 396.0));
        assert_eq!(share(&[7.0], 0.5), 7.0);
    }
}
