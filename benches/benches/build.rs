//! Changes of an index: a bulk build, an insert, a consolidation, and pruning alone.
//!
//! Each insert and consolidation starts from the same index, reopened from a file outside the timing. Their results are
//! checked before they are timed: invariants and recall.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "the macros of criterion make undocumented functions")]

mod common;

use std::path::Path;
use std::time::Duration;

use common::{DIMENSION, Exact, search, view};
use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use jasper::{Index, IndexBuilder, Key, MatrixView, Metric, NewKeys};
use jasper_core::Slot;
use jasper_core::synthetic::Clusters;
use jasper_graph::Graph;
use jasper_vamana::pipeline::LinkMode;
use jasper_vamana::{ChunkEdges, CpuExecutor, Executor};

const ROWS: usize = 10_000;
/// Vectors per insert: 1%.
const INSERTED: usize = ROWS / 100;
/// One in this many vectors is deleted before a consolidation: 10%.
const DELETED_EACH: usize = 10;
/// Vertices pruned together.
const PRUNED: usize = 1000;
/// Minimum recall@10 at a beam width of 32.
const FLOOR: f64 = 0.99;

/// Checks the invariants of `index` and its recall.
fn check(index: &Index, queries: MatrixView<'_, f32>) {
    let report = index.check().expect("the CPU does not fail");
    assert!(report.is_sound(), "{report:?}");
    let recall = Exact::new(index, queries).recall(&search(index, queries, 32));
    assert!(recall >= FLOOR, "recall {recall:.4}");
}

/// Times `change` on the index of the file, after `prepare`.
fn time_change(
    group: &mut BenchmarkGroup<WallTime>,
    name: &str,
    path: &Path,
    prepare: impl Fn(&mut Index),
    change: impl Fn(&mut Index),
    queries: MatrixView<'_, f32>,
) {
    let fresh = || {
        let mut index = Index::open(path).expect("a file just saved");
        prepare(&mut index);
        index
    };
    let mut index = fresh();
    change(&mut index);
    check(&index, queries);
    group.bench_function(name, |bencher| bencher.iter_batched_ref(fresh, &change, BatchSize::PerIteration));
}

/// Times pruning of the candidates of some vertices.
fn time_prune(group: &mut BenchmarkGroup<WallTime>, path: &Path) {
    let open = || Graph::open(path, &mut jasper_core::no_progress).expect("a file just saved");
    let (graph, mut pruned) = (open(), open());
    let executor = CpuExecutor::new(None).expect("a process may start threads");
    let batch: Vec<Slot> = graph.keys().live_slots().take(PRUNED).collect();
    let search = || {
        let Ok(candidates) =
            executor.find_candidates(&graph, &batch, LinkMode::Bulk.search(graph.params(), graph.metric()));
        candidates
    };
    let prune = |candidates| {
        let Ok(pruned) = executor.prune(&graph, candidates, false);
        pruned
    };
    let ChunkEdges { edges, duplicates, cost } = prune(search());
    assert!(duplicates.is_empty() && cost.prune_distances > 0);
    let Ok(()) = executor.publish_edges(&mut pruned, &[edges]);
    batch.iter().for_each(|&vertex| check_row(&pruned, vertex));

    group.bench_function("prune", |bencher| bencher.iter_batched(search, prune, BatchSize::PerIteration));
}

/// Checks the rule of the prune: neighbors rise, and none leads towards a later one.
fn check_row(graph: &Graph, vertex: Slot) {
    let row = graph.adjacency().neighbors(vertex);
    assert!(!row.is_empty() && row.len() <= graph.params().max_degree() && !row.contains(&vertex));
    let distances = graph.vectors().slot_distances(vertex, row);
    assert!(distances.is_sorted());
    for (i, (&later, distance)) in row.iter().zip(distances).enumerate() {
        let between = graph.vectors().slot_distances(later, &row[..i]);
        let leads = between.into_iter().any(|between| graph.params().alpha() * between <= distance);
        assert!(!leads, "{vertex:?}: a neighbor leads towards {later:?}");
    }
}

fn every_change(criterion: &mut Criterion) {
    let set = Clusters::new(DIMENSION, 1);
    let [rows, queries, new]: [Vec<f32>; 3] = [set.rows(ROWS, 0), set.rows(200, 1), set.rows(INSERTED, 2)];
    let (rows, queries, new) = (view(&rows), view(&queries), view(&new));
    let build = || IndexBuilder::new(Metric::L2).build(rows).expect("rows that can be stored");
    let index = build();
    assert_eq!(index.len(), ROWS);
    check(&index, queries);
    let folder = tempfile::tempdir().expect("a folder for the index");
    let path = folder.path().join("built.jasper");
    index.save(&path).expect("room for the index");

    let mut group = criterion.benchmark_group("build");
    group.throughput(Throughput::Elements(ROWS as u64));
    group.bench_function("bulk", |bencher| bencher.iter_with_large_drop(build));

    group.throughput(Throughput::Elements(INSERTED as u64));
    let insert = |index: &mut Index| {
        assert_eq!(
            index.insert(new, NewKeys::NEXT).ok().and_then(|report| report.first_key),
            Some(ROWS as Key)
        )
    };
    time_change(&mut group, "insert", &path, |_| (), insert, queries);

    let gone: Vec<Key> = (0..ROWS as Key).step_by(DELETED_EACH).collect();
    group.throughput(Throughput::Elements(gone.len() as u64));
    let delete = |index: &mut Index| assert_eq!(index.delete(&gone).expect("keys of the index"), gone.len());
    let consolidate = |index: &mut Index| {
        assert_eq!(index.consolidate().map(|report| report.freed).ok(), Some(gone.len()));
    };
    time_change(&mut group, "consolidate", &path, delete, consolidate, queries);

    group.throughput(Throughput::Elements(PRUNED as u64));
    time_prune(&mut group, &path);
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(5));
    targets = every_change
}
criterion_main!(benches);
