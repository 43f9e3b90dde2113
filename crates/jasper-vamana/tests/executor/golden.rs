//! Graphs, results and cost on fixed sets, compared with a golden file.
//!
//! A change of this file is a change of recall, of cost, or of both. Review the difference, then renew the file by
//! `JASPER_RENEW_GOLDEN=1 cargo test -p jasper-vamana --test executor golden`.

use std::fmt::Write;
use std::path::Path;

use jasper_core::synthetic::Clusters;
use jasper_core::{BuildParams, Element, MatrixView, Metric, VectorView, no_progress};
use jasper_graph::Graph;
use jasper_vamana::{
    ChangeHooks, CpuExecutor, InsertReport, Matches, NewVectors, OnConflict, OperationCounts, SearchParams,
    bulk_build, consolidate, insert,
};

const FILE: &str = "tests/executor/golden.txt";

/// One line about a graph: statistics that show in which direction it changed, and a hash.
fn describe(out: &mut String, what: &str, graph: &Graph, cost: OperationCounts) {
    let edges: usize = graph.keys().vertices().map(|slot| graph.adjacency().neighbors(slot).len()).sum();
    // FNV-1a over degrees and edges.
    let words = graph.keys().vertices().flat_map(|slot| {
        let row = graph.adjacency().neighbors(slot);
        std::iter::once(row.len() as u64).chain(row.iter().map(|id| id.get().into()))
    });
    let sum = words.fold(0xcbf2_9ce4_8422_2325, |sum: u64, word| (sum ^ word).wrapping_mul(0x100_0000_01b3));
    let OperationCounts { hops, distances, prune_distances } = cost;
    writeln!(
        out,
        "{what}: {} vertices, {edges} edges, sum {sum:016x}; {hops} hops, {distances} distances, {prune_distances} in prunes",
        graph.keys().live()
    )
    .unwrap();
}

fn answers<T: Element>(out: &mut String, executor: &CpuExecutor, graph: &Graph, queries: &[T]) {
    let queries = MatrixView::new(queries, graph.dimension()).unwrap();
    for beam_width in [8, 32] {
        let mut matches = Matches::new(queries.len(), 8).unwrap();
        let params = SearchParams::new(8).beam_width(beam_width);
        let OperationCounts { hops, distances, .. } = executor
            .search_batch(
                graph,
                &queries.rows().map(VectorView::from).collect::<Vec<_>>(),
                params,
                matches.as_mut(),
            )
            .unwrap()
            .cost;
        writeln!(out, "  beam {beam_width}: {hops} hops, {distances} distances").unwrap();
        for keys in matches.keys().chunks_exact(8) {
            let keys: Vec<String> = keys.iter().map(u64::to_string).collect();
            writeln!(out, "    {}", keys.join(" ")).unwrap();
        }
    }
}

/// A build, an insert and a consolidation of one set.
fn life<T: Element>(
    out: &mut String,
    name: &str,
    metric: Metric,
    threads: usize,
    rows: &[T],
    d: usize,
    queries: &[T],
) {
    let executor = CpuExecutor::new(threads).unwrap();
    let params = BuildParams::builder().max_degree(12).build_beam_width(24).seed(7).build().unwrap();
    let (first, rest) = rows.split_at(rows.len() / d / 4 * 3 * d);
    let (first, rest) = (MatrixView::new(first, d).unwrap(), MatrixView::new(rest, d).unwrap());
    let (mut graph, InsertReport { cost, .. }) =
        bulk_build(&executor, first, None, metric, params, &mut no_progress).unwrap();
    writeln!(out, "{name}, {} {metric}", T::KIND).unwrap();
    describe(out, "built", &graph, cost);
    answers(out, &executor, &graph, queries);
    let keys: Vec<u64> = (0..rest.len() as u64).map(|key| 10_000 + key).collect();
    let new = NewVectors::new(rest, &keys, OnConflict::Refuse);
    let cost = insert(&executor, &mut graph, new, ChangeHooks::new(&mut no_progress)).unwrap().cost;
    describe(out, "inserted", &graph, cost);
    for key in (0..first.len() as u64).step_by(5) {
        graph.keys_mut().delete(key).unwrap();
    }
    let cost = consolidate(&executor, &mut graph, ChangeHooks::new(&mut no_progress)).unwrap().cost;
    describe(out, "consolidated", &graph, cost);
    answers(out, &executor, &graph, queries);
}

/// Points with whole coordinates, whose neighbors are obvious.
fn grid<T: Element>() -> Vec<T> {
    let side = 9;
    (0..side * side * side)
        .flat_map(|i| [i / (side * side), i / side % side, i % side].map(|x| T::from_f32(x as f32)))
        .collect()
}

fn all(threads: usize) -> String {
    let mut out = String::new();
    let queries = [4.0, 4.0, 4.0, 0.0, 0.0, 0.0, 8.0, 1.0, 5.0];
    life(&mut out, "grid", Metric::L2, threads, &grid::<f32>(), 3, &queries);
    life(&mut out, "grid", Metric::L2, threads, &grid::<i8>(), 3, &queries.map(|x| x as i8));
    let set = Clusters::new(16, 81);
    let (rows, queries): (Vec<u8>, Vec<u8>) = (set.rows(1000, 0), set.rows(4, 1));
    life(&mut out, "clusters", Metric::L2, threads, &rows, 16, &queries);
    life(&mut out, "clusters", Metric::Cosine, threads, &rows, 16, &queries);
    let (rows, queries): (Vec<i8>, Vec<i8>) = (set.rows(1000, 0), set.rows(4, 1));
    life(&mut out, "clusters", Metric::InnerProduct, threads, &rows, 16, &queries);
    // Whole numbers, so that the logarithm of the platform has no effect.
    let floats = |bytes: &[i8]| -> Vec<f32> { bytes.iter().map(|&x| f32::from(x)).collect() };
    life(&mut out, "clusters", Metric::Cosine, threads, &floats(&rows), 16, &floats(&queries));
    out
}

#[test]
fn golden() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let found = all(1);
    for threads in [2, 3] {
        assert!(found == all(threads), "{threads} threads did something else");
    }
    if std::env::var_os("JASPER_RENEW_GOLDEN").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    for (number, (found, golden)) in found.lines().zip(golden.lines()).enumerate() {
        assert_eq!(found, golden, "line {} of {FILE}", number + 1);
    }
    assert_eq!(found.lines().count(), golden.lines().count());
}
