//! Distances of each level against the crate `diskann-vector`: rows in the first cache, and random rows from memory.
//!
//! Names are `MEMORY/ELEMENT/DIMENSION/FUNCTION/IMPLEMENTATION`. In L1, a call is one pair. From memory, a call is a
//! hop: one query against 64 rows in random order, as in a search. `diskann-vector` has no function of many rows, so it
//! is measured in a plain loop and, to separate its kernels from our prefetches, in a loop with the same prefetches.
//!
//! All results are checked before anything is timed.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "the macros of criterion make undocumented functions")]

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use diskann_vector::distance::{Distance, DistanceProvider, Metric as PeerMetric};
use jasper_core::distance::{DistanceFns, ManyFn, PairFn, SimdLevel, prefetch};
use jasper_core::synthetic::{Clusters, permutation};
use jasper_core::{Element, f16};

/// Bytes of rows that fit in L1 with the query.
const CACHED_BYTES: usize = 16 << 10;
/// Bytes of rows that exceed all caches.
const MEMORY_BYTES: usize = 256 << 20;
/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// Minimum number of rows in memory.
const LEAST_ROWS: usize = 100_000;
/// Neighbors of one vertex.
const HOP: usize = 64;
/// Bytes prefetched ahead in the competitor's loop, the same as in ours.
const AHEAD_BYTES: usize = 4096;

/// A distance function that both implement.
#[derive(Clone, Copy)]
enum Function {
    Dot,
    SquaredL2,
}

impl Function {
    fn name(self) -> &'static str {
        match self {
            Self::Dot => "dot",
            Self::SquaredL2 => "squared_l2",
        }
    }

    fn pair<T>(self, fns: &DistanceFns<T>) -> PairFn<T> {
        match self {
            Self::Dot => fns.dot,
            Self::SquaredL2 => fns.squared_l2,
        }
    }

    fn many<T>(self, fns: &DistanceFns<T>) -> ManyFn<T> {
        match self {
            Self::Dot => fns.dot_many,
            Self::SquaredL2 => fns.squared_l2_many,
        }
    }

    /// The competitor's fastest function, specialized for the dimension if it has such a function. Its dot product is
    /// negated.
    fn peer<T: DistanceProvider<T>>(self, dimension: usize) -> Distance<T, T> {
        let metric = match self {
            Self::Dot => PeerMetric::InnerProduct,
            Self::SquaredL2 => PeerMetric::L2,
        };
        Distance::new(metric, Some(dimension))
    }
}

/// A query and row-major rows, aligned to a cache line as in an index.
struct Rows<T> {
    dimension: usize,
    query: Vec<T>,
    data: Vec<T>,
    first: usize,
    len: usize,
}

impl<T: Element> Rows<T> {
    fn new(dimension: usize, bytes: usize, least: usize) -> Self {
        let len = (bytes / (dimension * size_of::<T>())).max(least);
        let clusters = Clusters::new(dimension, 1);
        // A few rows, repeated, so that generating them is fast.
        let some: Vec<T> = clusters.rows(len.min(4096), 0);
        let per_line = LINE_BYTES / size_of::<T>();
        let mut data = vec![T::default(); len * dimension + per_line];
        let first = data.as_ptr().align_offset(LINE_BYTES) % per_line;
        data[first..].iter_mut().zip(some.iter().cycle()).for_each(|(to, from)| *to = *from);
        Self { dimension, query: clusters.rows(1, 1), data, first, len }
    }

    fn row(&self, index: usize) -> &[T] {
        &self.data[self.first + index * self.dimension..][..self.dimension]
    }
}

/// Checks that `peer` and each of our levels agree on some rows: exactly for integers, up to rounding for floats.
fn check<T: Element>(rows: &Rows<T>, function: Function, peer: &Distance<T, T>) {
    for row in (0..rows.len.min(100)).map(|index| rows.row(index)) {
        let theirs = peer.call(&rows.query, row).abs();
        for level in SimdLevel::available() {
            let ours = function.pair(&T::distance_fns_at(level))(&rows.query, row).abs();
            let scale = (T::distance_fns().dot)(row, row) + (T::distance_fns().dot)(&rows.query, &rows.query);
            let slack = if T::EXACT_SUMS { 0.0 } else { 1e-5 * scale };
            assert!(
                (ours - theirs).abs() <= slack,
                "{} at {level:?}: {ours}, the competitor says {theirs}",
                function.name()
            );
        }
    }
}

fn cached<T: Element + DistanceProvider<T>>(group: &mut BenchmarkGroup<WallTime>, dimension: usize) {
    let rows = Rows::<T>::new(dimension, CACHED_BYTES, 1);
    group.throughput(Throughput::Elements(rows.len as u64));
    for function in [Function::Dot, Function::SquaredL2] {
        let peer = function.peer::<T>(dimension);
        check(&rows, function, &peer);
        let id = |who: &str| format!("{}/{dimension}/{}/{who}", T::KIND, function.name());
        for level in SimdLevel::available() {
            let who = format!("jasper-{level:?}").to_lowercase();
            time_pairs(group, id(&who), &rows, function.pair(&T::distance_fns_at(level)));
        }
        time_pairs(group, id("diskann-vector"), &rows, |a, b| peer.call(a, b));
    }
}

/// Times `pair` on the query and one row after another.
fn time_pairs<T: Element>(
    group: &mut BenchmarkGroup<WallTime>,
    id: String,
    rows: &Rows<T>,
    pair: impl Fn(&[T], &[T]) -> f32,
) {
    group.bench_function(id, |bencher| {
        bencher.iter(|| {
            let query = black_box(&rows.query[..]);
            (0..rows.len).map(|index| pair(query, rows.row(index))).sum::<f32>()
        });
    });
}

fn from_memory<T: Element + DistanceProvider<T>>(group: &mut BenchmarkGroup<WallTime>, dimension: usize) {
    let rows = Rows::<T>::new(dimension, MEMORY_BYTES, LEAST_ROWS);
    let order = permutation(rows.len, 2);
    let ahead = (AHEAD_BYTES / (dimension * size_of::<T>())).clamp(2, 32);
    group.throughput(Throughput::Elements(HOP as u64));
    for function in [Function::Dot, Function::SquaredL2] {
        let peer = function.peer::<T>(dimension);
        check(&rows, function, &peer);
        let many = function.many(T::distance_fns());
        let id = |who: &str| format!("{}/{dimension}/{}/{who}", T::KIND, function.name());
        time_hops(group, id("jasper"), &rows, &order, |neighbors, out| many(&rows.query, neighbors, out));
        time_hops(group, id("diskann-vector"), &rows, &order, |neighbors, out| {
            for (row, out) in neighbors.iter().zip(out) {
                *out = peer.call(&rows.query, row);
            }
        });
        time_hops(group, id("diskann-vector-prefetched"), &rows, &order, |neighbors, out| {
            neighbors.iter().take(ahead).for_each(|row| prefetch(row));
            for (i, (row, out)) in neighbors.iter().zip(out).enumerate() {
                if let Some(next) = neighbors.get(i + ahead) {
                    prefetch(next);
                }
                *out = peer.call(&rows.query, row);
            }
        });
    }
}

/// Times `hop` on consecutive runs of [`HOP`] rows of `order`.
fn time_hops<T: Element>(
    group: &mut BenchmarkGroup<WallTime>,
    id: String,
    rows: &Rows<T>,
    order: &[u32],
    hop: impl Fn(&[&[T]], &mut [f32]),
) {
    let mut hops = order.chunks_exact(HOP).cycle();
    group.bench_function(id, |bencher| {
        let mut neighbors: Vec<&[T]> = Vec::with_capacity(HOP);
        let mut out = [0.0; HOP];
        bencher.iter(|| {
            neighbors.clear();
            neighbors.extend(hops.next().into_iter().flatten().map(|&index| rows.row(index as usize)));
            hop(&neighbors, &mut out);
            black_box(&out);
        });
    });
}

fn every_shape(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cached");
    for dimension in [96, 384, 1536] {
        cached::<f32>(&mut group, dimension);
    }
    for dimension in [96, 384] {
        cached::<f16>(&mut group, dimension);
    }
    for dimension in [128, 784] {
        cached::<u8>(&mut group, dimension);
    }
    cached::<i8>(&mut group, 128);
    group.finish();

    let mut group = criterion.benchmark_group("memory");
    for dimension in [96, 384, 1536] {
        from_memory::<f32>(&mut group, dimension);
    }
    for dimension in [96, 384] {
        from_memory::<f16>(&mut group, dimension);
    }
    for dimension in [128, 784] {
        from_memory::<u8>(&mut group, dimension);
    }
    from_memory::<i8>(&mut group, 128);
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(60)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400));
    targets = every_shape
}
criterion_main!(benches);
