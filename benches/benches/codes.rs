//! Estimated and exact distances: each call is a hop, one query against 64 vectors in random order.
//!
//! Names are `DIMENSION/CODE/SIZE`. The example `quantization` of this package measures how well each ranks, and plots both.
//!
//! Estimates are checked before anything is timed.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "the macros of criterion make undocumented functions")]

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use jasper::data::{ThreadPool, ThreadPoolBuilder};
use jasper_core::synthetic::{Clusters, permutation};
use jasper_core::{Element, MatrixView, Metric, VectorId};
use jasper_quant::{Codes, Quantization};

/// Vectors per set: codes of most sizes exceed L2, long vectors also L3.
const ROWS: usize = 50_000;
/// Neighbors of one vertex.
const HOP: usize = 64;

/// Computes distances to the vectors `ids`.
type Distances<'a> = dyn Fn(&[VectorId], &mut [f32]) + 'a;

/// Vectors, a query, and the order in which distances are computed.
struct Set {
    dimension: usize,
    rows: Vec<f32>,
    query: Vec<f32>,
    hops: Vec<VectorId>,
    pool: ThreadPool,
}

impl Set {
    fn new(dimension: usize) -> Self {
        let clusters = Clusters::new(dimension, 1);
        let hops = permutation(ROWS, 2).into_iter().map(VectorId::new).collect();
        let pool = ThreadPoolBuilder::new().build().expect("a process may start threads");
        Self { dimension, rows: clusters.rows(ROWS, 0), query: clusters.rows(1, 1), hops, pool }
    }

    fn view(&self) -> MatrixView<'_, f32> {
        MatrixView::new(&self.rows, self.dimension).expect("whole rows")
    }

    /// Times hops, after checking that the mean relative error of the estimates is at most `error`.
    fn bench(&self, group: &mut BenchmarkGroup<'_, WallTime>, name: &str, error: f64, of: &Distances<'_>) {
        let name = format!("{}/{name}", self.dimension);
        let mut out = [0.0; HOP];
        of(&self.hops[..HOP], &mut out);
        let (mut missed, mut all) = (0.0, 0.0);
        for (id, estimate) in self.hops.iter().zip(out) {
            let exact = (f32::kernels().squared_l2)(&self.query, self.view().row(id.index()));
            missed += f64::from((estimate - exact).abs());
            all += f64::from(exact);
        }
        assert!(missed <= error * all, "{name}: {missed} of {all}");
        let mut hops = self.hops.chunks_exact(HOP).cycle();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                of(hops.next().expect("a cycle has no end"), &mut out);
                black_box(&out);
            });
        });
    }
}

fn every_code(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("codes");
    group.throughput(Throughput::Elements(HOP as u64));
    for dimension in [128, 960] {
        let set = Set::new(dimension);
        set.bench(&mut group, "exact/f32", 1e-6, &|ids, out| {
            let mut rows: [&[f32]; HOP] = [&[]; HOP];
            for (row, id) in rows.iter_mut().zip(ids) {
                *row = set.view().row(id.index());
            }
            (f32::kernels().squared_l2_many)(&set.query, &rows, out);
        });
        let rabitq = (1..=8).map(|bits| Quantization::Rabitq { bits });
        for code in rabitq.chain([1, 2, 3, 4].map(|sectors| Quantization::Mixed { sectors })) {
            let quantizer =
                code.train(Metric::L2, set.view(), &set.pool).expect("vectors that can be quantized");
            let codes = Codes::from_vectors(&*quantizer, set.view(), &set.pool);
            let query = quantizer.query(&set.query);
            let name = code.to_string().replace(':', "/");
            set.bench(&mut group, &name, 0.1, &|ids, out| query.estimate(&codes, ids, out));
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(60)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400));
    targets = every_code
}
criterion_main!(benches);
