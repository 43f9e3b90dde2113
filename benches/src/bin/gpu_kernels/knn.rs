//! Exact k-NN of 10,000 queries over a million vectors, as cuVS brute force is measured.

use std::time::Instant;

use gpu_kernels::Stream as _;
use gpu_kernels::knn::exact_knn;
use jasper_core::{Element, Metric, padded_len, synthetic::Clusters};
use jasper_cuda::Result;
use serde_json::json;

use crate::Bench;

const ROWS: usize = 1_000_000;
const QUERIES: usize = 10_000;
/// Rows that are made; the others are these again, a little larger.
const DISTINCT: usize = 50_000;

pub fn run(bench: &Bench) -> Result<()> {
    measure::<u8>(bench, "sift", 128)?;
    measure::<f32>(bench, "deep", 96)?;
    measure::<f32>(bench, "gist", 960)
}

fn measure<T: Element>(bench: &Bench, shape: &str, dimension: usize) -> Result<()> {
    let set = Clusters::new(dimension, 1);
    let distinct: Vec<T> = set.rows(DISTINCT, 0);
    let mut rows = Vec::with_capacity(ROWS * padded_len::<T>(dimension));
    for i in 0..ROWS {
        let scale = 1.0 + (i / DISTINCT) as f32 / 64.0;
        let row = &distinct[i % DISTINCT * dimension..][..dimension];
        rows.extend(row.iter().map(|value| T::from_f32(value.to_f32() * scale)));
        rows.resize((i + 1) * padded_len::<T>(dimension), T::default());
    }
    let queries: Vec<T> = set.rows(QUERIES, 1);
    assert_eq!(padded_len::<T>(dimension), dimension, "these dimensions need no padding");
    let (rows, queries) = (bench.stream.upload(&rows)?, bench.stream.upload(&queries)?);
    for k in [1, 10, 100] {
        let search = || exact_knn(&bench.stream, Metric::L2, dimension, k, &rows, ROWS, &queries);
        search()?;
        let begun = Instant::now();
        search()?;
        let seconds = begun.elapsed().as_secs_f64();
        let what = json!({
            "what": "exact_knn", "shape": shape, "element": T::KIND.name(), "dimension": dimension, "rows": ROWS,
            "queries": QUERIES, "k": k, "seconds": seconds, "queries_per_second": QUERIES as f64 / seconds,
        });
        println!("{what}");
    }
    Ok(())
}
