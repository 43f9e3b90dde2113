//! Searches through the public API: batches on all threads, and single queries on one.
//!
//! Names are `SET/BEAM_WIDTH/MODE`; throughput counts queries. Before a set is timed, its recall is checked at each
//! beam width, and that single queries return the hits of batches, and sketches those of the full vectors.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "the macros of criterion make undocumented functions")]

mod common;

use std::hint::black_box;
use std::time::Duration;

use common::{DIMENSION, Exact, K, search, view};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use jasper::{Element, Hit, Index, IndexBuilder, MatrixView, Metric, NO_KEY, QuantizeMode, SearchParams};
use jasper_core::synthetic::Clusters;

/// Vectors per index: more than fit in L2, and few enough to build in seconds.
const ROWS: usize = 50_000;
/// Queries per batch.
const QUERIES: usize = 1000;
/// Beam widths, each with the minimum recall.
const BEAM_WIDTHS: [(usize, f64); 3] = [(16, 0.98), (64, 0.995), (128, 0.999)];

/// An index over seeded data, and queries of the same distribution.
fn make<T: Element>() -> (Index, Vec<T>) {
    let set = Clusters::new(DIMENSION, 1);
    let rows: Vec<T> = set.rows(ROWS, 0);
    let index = IndexBuilder::new(Metric::L2).build(view(&rows)).expect("rows that can be stored");
    assert_eq!(index.len(), ROWS);
    (index, set.rows(QUERIES, 1))
}

/// The hits at every beam width, checked.
fn checked_hits<T: Element>(index: &Index, queries: MatrixView<'_, T>) -> Vec<Vec<Hit>> {
    let exact = Exact::new(index, queries);
    let at = |(beam_width, floor)| {
        let hits = search(index, queries, beam_width);
        let recall = exact.recall(&hits);
        assert!(recall >= floor, "{} at beam width {beam_width}: recall {recall:.4}", T::KIND);
        let params = SearchParams::new(K).beam_width(beam_width);
        for (query, hits) in queries.rows().zip(hits.chunks_exact(K)).take(100) {
            assert_eq!(index.search(query, params).expect("one query of the batch"), hits);
        }
        hits
    };
    BEAM_WIDTHS.into_iter().map(at).collect()
}

fn time<T: Element>(
    group: &mut BenchmarkGroup<WallTime>,
    set: &str,
    index: &Index,
    queries: MatrixView<'_, T>,
) {
    for (beam_width, _) in BEAM_WIDTHS {
        let params = SearchParams::new(K).beam_width(beam_width);
        group.throughput(Throughput::Elements(queries.len() as u64));
        group.bench_function(format!("{set}/{beam_width}/batch"), |bencher| {
            let (mut keys, mut distances) = (vec![NO_KEY; queries.len() * K], vec![0.0; queries.len() * K]);
            bencher.iter(|| index.search_batch_into(black_box(queries), params, &mut keys, &mut distances));
        });
        group.throughput(Throughput::Elements(1));
        group.bench_function(format!("{set}/{beam_width}/single"), |bencher| {
            let mut next = (0..queries.len()).cycle();
            bencher.iter(|| next.next().map(|query| index.search(black_box(queries.row(query)), params)));
        });
    }
}

fn every_set(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("search");
    let (index, queries) = make::<f32>();
    let queries = view(&queries);
    let plain = checked_hits(&index, queries);
    time(&mut group, "f32", &index, queries);
    index.quantize(QuantizeMode::Sketches).expect("memory for a byte a coordinate");
    assert!(checked_hits(&index, queries) == plain, "sketches change hits");
    time(&mut group, "f32-sketched", &index, queries);

    let (index, queries) = make::<u8>();
    checked_hits(&index, view(&queries));
    time(&mut group, "u8", &index, view(&queries));
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = every_set
}
criterion_main!(benches);
