//! The figures of the book's page on quantization, as tables.
//!
//! ```sh
//! cargo run --release -p jasper-quant --example figures                        # seeded sets
//! cargo run --release -p jasper-quant --example figures -- BASE QUERIES [l2]   # rows from vector files
//! ```

mod codes;
mod errors;
mod formulas;

use jasper_core::synthetic::{Clusters, rng};
use jasper_core::{MatrixView, Metric};
use jasper_data::VectorFile;
use rand_distr::{Distribution, StandardNormal};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build()?;
    if let [base, queries, metric @ ..] = &arguments[..] {
        let metric = metric.first().map_or(Ok(Metric::L2), |name| name.parse())?;
        let (base, queries) =
            (VectorFile::open(base)?.load_as::<f32>()?, VectorFile::open(queries)?.load_as::<f32>()?);
        return codes::table("the files", metric, base.view(), queries.view(), &pool);
    }
    errors::table(&pool);
    formulas::table();
    for dimension in [128, 960] {
        let set = Clusters::new(dimension, 1);
        let (base, queries) = (set.rows::<f32>(20_000, 0), set.rows::<f32>(200, 1));
        let name = format!("clusters in {dimension} dimensions");
        let view = |rows| MatrixView::new(rows, dimension);
        codes::table(&name, Metric::L2, view(&base)?, view(&queries)?, &pool)?;
    }
    let (base, queries) = (gaussian(20_000, 384, 1), gaussian(200, 384, 2));
    let view = |rows| MatrixView::new(rows, 384);
    codes::table("a flat spectrum in 384 dimensions", Metric::L2, view(&base)?, view(&queries)?, &pool)
}

/// `rows x dimension` independent Gaussian numbers.
fn gaussian(rows: usize, dimension: usize, seed: u64) -> Vec<f32> {
    let mut random = rng(seed);
    (0..rows * dimension).map(|_| StandardNormal.sample(&mut random)).collect()
}

/// Mean and standard deviation.
fn moments(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for x in values {
        n += 1.0;
        sum += x;
        squares += x * x;
    }
    let mean = sum / n;
    (mean, (squares / n - mean * mean).max(0.0).sqrt())
}

/// The product of two vectors, in f64.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
}
