//! Shared helpers: Gaussian rows, exact distances in f64, estimates.

use jasper_core::synthetic::rng;
use jasper_core::{MatrixView, Metric, Slot};
use jasper_quant::{CodeTable, Quantizer};
use rand_distr::{Distribution, StandardNormal};

/// A pool of two threads.
pub fn pool() -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap()
}

/// `rows x dimension` independent Gaussian numbers.
pub fn gaussian(rows: usize, dimension: usize, seed: u64) -> Vec<f32> {
    let mut random = rng(seed);
    (0..rows * dimension).map(|_| StandardNormal.sample(&mut random)).collect()
}

pub fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
}

/// The distance by its definition, in f64.
pub fn distance(metric: Metric, q: &[f32], v: &[f32]) -> f64 {
    match metric {
        Metric::L2 => q.iter().zip(v).map(|(x, y)| (f64::from(*x) - f64::from(*y)).powi(2)).sum(),
        Metric::InnerProduct => -dot(q, v),
        Metric::Cosine => 1.0 - dot(q, v) / (dot(q, q) * dot(v, v)).sqrt(),
    }
}

/// Estimated distances from all `queries` to all `rows`, `[queries][rows]`.
pub fn estimates(quantizer: &dyn Quantizer, rows: &[f32], queries: &[f32]) -> Vec<Vec<f32>> {
    let dimension = quantizer.dimension();
    let codes = CodeTable::from_vectors(quantizer, MatrixView::new(rows, dimension).unwrap(), &pool());
    let ids: Vec<Slot> = (0..codes.len()).map(|i| Slot::new(i as u32)).collect();
    queries
        .chunks_exact(dimension)
        .map(|query| {
            let mut out = vec![0.0; ids.len()];
            quantizer.query(query).estimate(&codes, &ids, &mut out);
            out
        })
        .collect()
}

/// Mean and standard deviation.
pub fn moments(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for x in values {
        n += 1.0;
        sum += x;
        squares += x * x;
    }
    let mean = sum / n;
    (mean, (squares / n - mean * mean).max(0.0).sqrt())
}
