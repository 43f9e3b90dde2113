//! Exact neighbours from files: computes ground truth, and compares it with a file or writes it.
//!
//! `cargo run --release -p jasper-data --example exact_neighbours -- BASE QUERIES METRIC K THREADS TRUTH`
//!
//! TRUTH is compared with when it exists, else written.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use jasper_core::{Element, ElementKind, Metric, f16, no_progress};
use jasper_data::{GroundTruth, VectorFile, exact_knn};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [base, queries, metric, k, threads, truth] = &args[..] else {
        return Err("give BASE QUERIES METRIC K THREADS TRUTH".into());
    };
    let (base, queries) = (VectorFile::open(base)?, VectorFile::open(queries)?);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.parse()?).build()?;
    let (metric, k) = (metric.parse()?, k.parse()?);
    let start = Instant::now();
    let found = match base.element() {
        ElementKind::F32 => neighbours::<f32>(&base, &queries, k, metric, &pool),
        ElementKind::F16 => neighbours::<f16>(&base, &queries, k, metric, &pool),
        ElementKind::U8 => neighbours::<u8>(&base, &queries, k, metric, &pool),
        ElementKind::I8 => neighbours::<i8>(&base, &queries, k, metric, &pool),
    }?;
    println!("{} queries against {} rows: {:.3} s", found.len(), base.len(), start.elapsed().as_secs_f64());
    if Path::new(truth).exists() {
        compare(&found, &GroundTruth::read(truth)?)
    } else {
        found.write(truth)?
    }
    Ok(())
}

fn neighbours<T: Element>(
    base: &VectorFile,
    queries: &VectorFile,
    k: usize,
    metric: Metric,
    pool: &rayon::ThreadPool,
) -> Result<GroundTruth, Box<dyn Error>> {
    let (base, queries) = (base.map::<T>()?, queries.map::<T>()?);
    Ok(exact_knn(base.view(), queries.view(), k, metric, pool, &mut no_progress)?)
}

fn compare(ours: &GroundTruth, theirs: &GroundTruth) {
    let k = ours.k().min(theirs.k());
    let (mut same, mut total, mut furthest) = (0, 0, 0.0_f32);
    for (a, b) in (0..ours.len().min(theirs.len())).map(|query| (ours.truth(query), theirs.truth(query))) {
        same += a.ids[..k].iter().zip(&b.ids[..k]).filter(|(x, y)| x == y).count();
        total += k;
        for (x, y) in a.distances.into_iter().flatten().zip(b.distances.into_iter().flatten()).take(k) {
            furthest = furthest.max((x - y).abs() / y.abs().max(1.0));
        }
    }
    println!(
        "{same} of {total} ids in the same place; distances differ by {furthest:e} at most (relative, or absolute below 1)"
    );
}
