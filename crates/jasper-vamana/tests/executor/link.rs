//! Compares the rows after linking a batch with the reference's.

use std::collections::BTreeMap;

use jasper_core::synthetic::{Clusters, permutation, rng};
use jasper_core::{BuildParams, Element, Metric, Slot};
use jasper_graph::Graph;
use jasper_vamana::pipeline::{LinkMode, link_batch};
use jasper_vamana::{CandidateSearch, CpuExecutor, Executor, PeerSampling};
use proptest::prelude::*;
use rand::RngExt;

use crate::for_each_element;
use crate::reference::{any_graph, link, repair, row};

fn params(max_degree: usize, build_beam_width: usize, alpha: f32) -> BuildParams {
    BuildParams::builder()
        .max_degree(max_degree)
        .build_beam_width(build_beam_width)
        .alpha(alpha)
        .build()
        .unwrap()
}

fn rows(graph: &Graph) -> BTreeMap<u32, Vec<u32>> {
    graph.keys().vertices().map(|vertex| (vertex.get(), row(graph, vertex.get()))).collect()
}

/// Links a batch as the executor does and as the reference does.
fn compare(executor: &CpuExecutor, graph: &mut Graph, batch: &[Slot], mode: LinkMode) {
    let ids: Vec<u32> = batch.iter().map(|vertex| vertex.get()).collect();
    let expected = link(graph, &ids, mode);
    let mut all = rows(graph);
    all.extend(expected.rows);
    let Ok(linked) = link_batch(executor, graph, batch, mode);
    let identical: BTreeMap<u32, u32> = linked.duplicates.iter().map(|(a, b)| (a.get(), b.get())).collect();
    assert_eq!(identical, expected.identical);
    let found = rows(graph);
    for (vertex, row) in &found {
        assert_eq!(row, &all[vertex], "row of {vertex}: {} {}", graph.element(), graph.metric());
    }
}

/// Builds a graph from nothing, batch by batch.
fn grow<T: Element>(metric: Metric, mode: LinkMode, max_degree: usize, threads: usize) {
    let executor = CpuExecutor::new(threads).unwrap();
    let mut rows: Vec<T> = Clusters::new(7, 71).rows(260, 0);
    rows.copy_within(0..35, 35 * 7);
    let mut graph = any_graph(metric, &rows, 7, params(max_degree, 12, 1.2), |_| Vec::new(), &[3]);
    let order: Vec<Slot> =
        permutation(260, 5).into_iter().map(Slot::new).filter(|id| id.get() != 3).collect();
    let mut rest = &order[..];
    while !rest.is_empty() {
        let linked = 260 - rest.len();
        let (batch, others) = rest.split_at(linked.min(rest.len()).min(40));
        compare(&executor, &mut graph, batch, mode);
        rest = others;
    }
    if let LinkMode::Bulk = mode {
        for mode in [LinkMode::Refine, LinkMode::Reverse] {
            order.chunks(100).for_each(|batch| compare(&executor, &mut graph, batch, mode));
        }
    }
    assert!(graph.check_structure().is_sound());
}

fn grow_all<T: Element>() {
    for metric in Metric::ALL {
        let insert = |stride, second_round| LinkMode::Insert(PeerSampling { stride, second_round });
        grow::<T>(metric, insert(40, 0), 6, 1);
        grow::<T>(metric, insert(1, 0), 6, 2);
        grow::<T>(metric, insert(4, 1), 6, 2);
        // Full rows are pruned to 10 and 18.
        grow::<T>(metric, LinkMode::Bulk, 11, 2);
        grow::<T>(metric, LinkMode::Bulk, 20, 1);
    }
}

#[test]
fn batches_are_linked_as_the_paper_says() {
    for_each_element!(grow_all);
}

/// Searches along a line on which each vertex has an edge to the next, for the vertex at the other end.
#[test]
fn a_search_that_wanders_ends() {
    let rows: Vec<f32> = (0..200).map(|x| x as f32).collect();
    let neighbors = |vertex| if vertex < 198 { vec![vertex + 1] } else { Vec::new() };
    let graph = any_graph(Metric::L2, &rows, 1, params(1, 1, 1.2), neighbors, &[0]);
    let Ok(candidates) =
        CpuExecutor::new(1).unwrap().find_candidates(&graph, &[Slot::new(199)], CandidateSearch::new(1));
    assert_eq!((candidates.cost().hops, BuildParams::max_hops(1)), (132, 132));
}

fn on_any_graph<T: Element>(
    metric: Metric,
    n: usize,
    seed: u64,
    max_degree: usize,
    alpha: f32,
    mode: LinkMode,
) {
    let mut random = rng(seed);
    let rows: Vec<T> = (0..n * 3).map(|_| T::from_f32(random.random_range(1..9) as f32)).collect();
    let neighbors = |vertex: usize| {
        let mut random = rng(seed ^ (vertex as u64) << 20);
        (0..random.random_range(0..=max_degree)).map(|_| random.random_range(0..n)).collect()
    };
    let mut graph = any_graph(metric, &rows, 3, params(max_degree, 9, alpha), neighbors, &[0]);
    let executor = CpuExecutor::new(1).unwrap();
    let batch: Vec<Slot> = permutation(n, seed).into_iter().take(n / 2).map(Slot::new).collect();
    compare(&executor, &mut graph, &batch, mode);

    for key in 0..n as u64 / 3 {
        graph.keys_mut().delete(key * 2 % n as u64).unwrap();
    }
    let Ok(touched) = executor.rows_to_repair(&graph);
    let live = |graph: &Graph| -> Vec<u32> { graph.keys().live_slots().map(Slot::get).collect() };
    let expected: Vec<(u32, Vec<u32>)> =
        live(&graph).into_iter().map(|id| (id, repair(&graph, id))).collect();
    let Ok(new_rows) = executor.repair_rows(&graph, &touched);
    let Ok(_) = executor.publish_rows(&mut graph, new_rows);
    let found: Vec<(u32, Vec<u32>)> = live(&graph).into_iter().map(|id| (id, row(&graph, id))).collect();
    assert_eq!(found, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_graph_is_changed_as_the_reference_does(
        element in 0..4,
        metric in 0..3_usize,
        n in 2..90_usize,
        seed in any::<u64>(),
        max_degree in 1..24_usize,
        mode in 0..7,
        alpha in prop::sample::select(vec![1.0_f32, 1.2, 2.0]),
        (stride, second_round) in (1_usize..9, 0_usize..9),
    ) {
        let metric = Metric::ALL[metric];
        let mode = match mode {
            0 => LinkMode::Bulk,
            1 => LinkMode::Refine,
            2 => LinkMode::Reverse,
            3 => LinkMode::Again,
            4 => LinkMode::Incoming,
            _ => LinkMode::Insert(PeerSampling { stride, second_round }),
        };
        match element {
            0 => on_any_graph::<f32>(metric, n, seed, max_degree, alpha, mode),
            1 => on_any_graph::<jasper_core::f16>(metric, n, seed, max_degree, alpha, mode),
            2 => on_any_graph::<u8>(metric, n, seed, max_degree, alpha, mode),
            _ => on_any_graph::<i8>(metric, n, seed, max_degree, alpha, mode),
        }
    }
}
