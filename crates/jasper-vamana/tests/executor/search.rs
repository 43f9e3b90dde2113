//! Compares results and their cost with the reference's.

use std::ops::ControlFlow;
use std::sync::{Mutex, mpsc};
use std::thread;

use jasper_core::synthetic::{Clusters, rng};
use jasper_core::{BuildParams, Element, MatrixView, Metric, Slot, VectorView, no_progress};
use jasper_graph::{Graph, KeyFilter};
use jasper_vamana::{
    BeamSize, CostModel, CpuExecutor, Hit, Matches, MatchesMut, SearchError, SearchParams, SearchPlan,
    Strategy, bulk_build, make_sketches,
};
use proptest::prelude::*;
use rand::RngExt;

use crate::for_each_element;
use crate::reference::{any_graph, sorted, walk, with_distances};

/// Compares the results of all queries together, and of each alone, with hops and distances.
fn compare<T: Element>(graph: &Graph, executor: &CpuExecutor, queries: &[T], k: usize, beam_width: usize) {
    let queries = MatrixView::new(queries, graph.dimension()).unwrap();
    let params = SearchParams::new(k).beam_width(beam_width);
    let mut all = Matches::new(queries.len(), k).unwrap();
    let cost = executor
        .search_batch(graph, &queries.rows().map(VectorView::from).collect::<Vec<_>>(), params, all.as_mut())
        .unwrap()
        .cost;
    let (mut hops, mut distances) = (0, 0);
    let mut prepared = Vec::new();
    for (query, hits) in queries.rows().zip(all.iter()) {
        graph.vectors().prepare(0, query, &mut prepared).unwrap();
        let computer = graph.vectors().distance_computer(&prepared);
        let expected = walk(graph, &|slot| computer.distance_to(slot), beam_width);
        hops += expected.expanded.len() as u64;
        distances += expected.visited as u64;
        let nearest: Vec<Hit> = expected
            .found
            .iter()
            .take(k)
            .map(|near| Hit { key: near.id.into(), distance: near.distance })
            .collect();
        let name = format!("{} {}, beam {beam_width}", T::KIND, graph.metric());
        assert_eq!(hits.collect::<Vec<_>>(), nearest, "{name}");
        let mut alone = Matches::new(1, k).unwrap();
        let one = executor.search_batch(graph, &[query.into()], params, alone.as_mut()).unwrap().cost;
        assert_eq!(alone.hits(0).collect::<Vec<_>>(), nearest, "{name}, alone");
        assert_eq!(
            (one.hops, one.distances),
            (expected.expanded.len() as u64, expected.visited as u64),
            "{name}"
        );
    }
    assert_eq!((cost.hops, cost.distances), (hops, distances), "{} {}", T::KIND, graph.metric());
}

/// Changes keep their threads busy for seconds.
#[test]
fn searches_do_not_wait_for_the_threads_of_changes() {
    let executor = CpuExecutor::new(2).unwrap();
    let rows: Vec<f32> = Clusters::new(19, 61).rows(300, 0);
    let view = MatrixView::new(&rows, 19).unwrap();
    let (graph, _) =
        bulk_build(&executor, view, None, Metric::L2, BuildParams::default(), &mut no_progress).unwrap();
    let (end, ended) = mpsc::channel::<()>();
    let ended = Mutex::new(ended);
    thread::scope(|scope| {
        // The first thread waits for the end, and the other for the first.
        scope.spawn(|| executor.pool().broadcast(|_| assert!(ended.lock().unwrap().recv().is_err())));
        let queries: Vec<VectorView<'_>> = view.rows().take(100).map(VectorView::from).collect();
        let search =
            |matches: MatchesMut<'_>| executor.search_batch(&graph, &queries, SearchParams::new(1), matches);
        assert!(Matches::filled(100, 1, search).is_ok());
        drop(end);
    });
}

fn sketch(graph: &mut Graph, executor: &CpuExecutor, slots: Option<&[Slot]>) {
    let sketches = make_sketches(executor, graph.vectors(), slots).unwrap();
    graph.vectors_mut().set_sketches(sketches);
}

fn built<T: Element>(threads: usize) {
    let executor = CpuExecutor::new(threads).unwrap();
    let set = Clusters::new(19, 61);
    let (rows, queries): (Vec<T>, Vec<T>) = (set.rows(700, 0), set.rows(25, 1));
    let rows = MatrixView::new(&rows, 19).unwrap();
    let params = BuildParams::builder().max_degree(10).build_beam_width(20).build().unwrap();
    for metric in Metric::ALL {
        let (mut graph, _) = bulk_build(&executor, rows, None, metric, params, &mut no_progress).unwrap();
        for (k, beam_width) in [(1, 1), (2, 3), (10, 10), (10, 33), (64, 200), (5, 2000)] {
            compare(&graph, &executor, &queries, k, beam_width);
        }
        sketch(&mut graph, &executor, None);
        for (k, beam_width) in [(1, 1), (10, 10), (10, 33)] {
            compare(&graph, &executor, &queries, k, beam_width);
        }
    }
}

#[test]
fn built_graphs_are_searched_as_the_paper_says() {
    for_each_element!(built, 1);
    for_each_element!(built, 3);
}

fn on_any_graph<T: Element>(
    metric: Metric,
    n: usize,
    dimension: usize,
    seed: u64,
    beam_width: usize,
    is_sketched: bool,
) {
    let mut random = rng(seed);
    // Few values, so that distances tie.
    let mut row = || T::from_f32(random.random_range(1..5) as f32);
    let rows: Vec<T> = (0..n * dimension).map(|_| row()).collect();
    let queries: Vec<T> = (0..6 * dimension).map(|_| row()).collect();
    let params = BuildParams::builder().max_degree(7).build().unwrap();
    let neighbors = |vertex: usize| {
        let mut random = rng(seed ^ (vertex as u64) << 20);
        (0..random.random_range(0..8)).map(|_| random.random_range(0..n)).collect()
    };
    let starts = [0, n / 2, n - 1];
    let starts = if n < 3 { &starts[..1] } else { &starts[..1 + seed as usize % 3] };
    let mut graph = any_graph(metric, &rows, dimension, params, neighbors, starts);
    let executor = CpuExecutor::new(1).unwrap();
    if is_sketched {
        sketch(&mut graph, &executor, None);
    }
    compare(&graph, &executor, &queries, beam_width.div_ceil(2), beam_width);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_graph_is_searched_as_the_paper_says(
        element in 0..4,
        metric in 0..3_usize,
        n in 1..150_usize,
        dimension in 1..6_usize,
        seed in any::<u64>(),
        beam_width in 1..40_usize,
        sketch in any::<bool>(),
    ) {
        let metric = Metric::ALL[metric];
        match element {
            0 => on_any_graph::<f32>(metric, n, dimension, seed, beam_width, sketch),
            1 => on_any_graph::<jasper_core::f16>(metric, n, dimension, seed, beam_width, sketch),
            2 => on_any_graph::<u8>(metric, n, dimension, seed, beam_width, sketch),
            _ => on_any_graph::<i8>(metric, n, dimension, seed, beam_width, sketch),
        }
    }
}

/// Sketches rule out rows by a bound of their distance. Results must not change, whatever the scale of the rows.
#[test]
fn sketches_change_no_answer() {
    let executor = CpuExecutor::new(2).unwrap();
    for metric in Metric::ALL {
        for (dimension, scale) in [(2, 1.0_f32), (3, 1e-18), (40, 1e-3), (40, 1e15), (700, 1.0)] {
            let set = Clusters::new(dimension, 62);
            // Lengths and coordinates that differ by a factor of ten thousand.
            let spread = |stream, n| -> Vec<f32> {
                let rows: Vec<f32> = set.rows(n, stream);
                let value = |(i, x): (usize, f32)| {
                    let (row, column) = (i / dimension, i % dimension);
                    x * scale * 10_f32.powi((row % 5) as i32 - 4) * 10_f32.powi(-((column % 3) as i32))
                };
                rows.into_iter().enumerate().map(value).collect()
            };
            let (rows, queries) = (spread(0, 400), spread(1, 40));
            let params = BuildParams::builder().max_degree(12).build_beam_width(24).build().unwrap();
            let rows = MatrixView::new(&rows, dimension).unwrap();
            let (mut graph, _) = bulk_build(&executor, rows, None, metric, params, &mut no_progress).unwrap();
            sketch(&mut graph, &executor, None);
            compare(&graph, &executor, &queries, 5, 12);
            let third: Vec<_> = graph.keys().live_slots().step_by(3).collect();
            sketch(&mut graph, &executor, Some(&third));
            compare(&graph, &executor, &queries, 5, 12);
        }
    }
}

#[test]
fn the_nearest_are_those_of_all() {
    fn all<T: Element>() {
        let set = Clusters::new(11, 3);
        let (rows, queries): (Vec<T>, Vec<T>) = (set.rows(1500, 0), set.rows(40, 1));
        let (rows, queries) = (MatrixView::new(&rows, 11).unwrap(), MatrixView::new(&queries, 11).unwrap());
        let views: Vec<_> = queries.rows().map(VectorView::from).collect();
        let executor = CpuExecutor::new(2).unwrap();
        for metric in Metric::ALL {
            let params = BuildParams::builder().max_degree(4).build_beam_width(4).build().unwrap();
            let (mut graph, _) = bulk_build(&executor, rows, None, metric, params, &mut no_progress).unwrap();
            for key in (0..1500).step_by(3) {
                graph.keys_mut().delete(key).unwrap();
            }
            let live: Vec<u32> = graph.keys().live_slots().map(Slot::get).collect();
            for k in [1, 7, 300, 5000] {
                let found = executor.nearest(&graph, &views, k, &mut no_progress).unwrap();
                for (query, found) in queries.rows().zip(found) {
                    let mut prepared = Vec::new();
                    graph.vectors().prepare(0, query, &mut prepared).unwrap();
                    let computer = graph.vectors().distance_computer(&prepared);
                    let distance_to = |slot| computer.distance_to(slot);
                    let mut expected = sorted(with_distances(&distance_to, live.iter().copied()));
                    expected.truncate(k);
                    let found: Vec<_> =
                        found.iter().map(|near| (near.slot().get(), near.distance())).collect();
                    let expected: Vec<_> = expected.iter().map(|near| (near.id, near.distance)).collect();
                    assert_eq!(found, expected, "{} {metric} {k}", T::KIND);
                }
            }
            let stopped = executor.nearest(&graph, &views, 1, &mut |_| ControlFlow::Break(()));
            assert!(matches!(stopped, Err(SearchError::Cancelled(_))));
        }
    }
    for_each_element!(all);
}

/// A filter whose beam holds enough allowed vertices for half of the queries: the frontier holds them for all.
#[test]
fn what_a_beam_leaves_short_its_frontier_holds() {
    let executor = CpuExecutor::new(1).unwrap();
    let set = Clusters::new(16, 62);
    let (rows, queries): (Vec<f32>, Vec<f32>) = (set.rows(2000, 0), set.rows(100, 1));
    let [rows, queries] = [&rows, &queries].map(|values| MatrixView::new(values, 16).unwrap());
    let params = BuildParams::builder().max_degree(16).build_beam_width(40).build().unwrap();
    let (graph, _) = bulk_build(&executor, rows, None, Metric::L2, params, &mut no_progress).unwrap();
    let filter = KeyFilter::from_iter((0..2000).filter(|key| key * 7919 % 5 < 2));
    let params = SearchParams::new(10).beam_width(10).filter(&filter);
    // Scans cost so much that none is planned.
    let costs = CostModel { scan_ns: 1e12, ..CostModel::CPU };
    let plan = SearchPlan::new(&graph, params, queries.len(), costs).unwrap();
    let Strategy::Beam(BeamSize { width, .. }) = plan.strategy else { panic!("{:?}", plan.strategy) };
    let rows: Vec<VectorView<'_>> = queries.rows().map(VectorView::from).collect();
    let unfiltered = |query| executor.search_one(&graph, query, SearchParams::new(width).beam_width(width));
    let allowed = |hits: Vec<Hit>| hits.iter().filter(|hit| filter.contains(hit.key)).count();
    let short = rows.iter().filter(|&&query| allowed(unfiltered(query).unwrap()) < 10).count();
    assert!((20..80).contains(&short), "{short} of 100 find too few in a beam of {width}");
    let mut matches = Matches::new(rows.len(), 10).unwrap();
    let report = executor.search_planned(&plan, &rows, matches.as_mut()).unwrap();
    assert_eq!(report.scanned, 0);
    assert!(matches.iter().all(|hits| hits.count() == 10));
}
