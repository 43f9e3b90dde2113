//! Codes of one set side by side: bytes, error near the answer, how well they rank, what they cost.

use std::time::{Duration, Instant};

use jasper_core::synthetic::permutation;
use jasper_core::{MatrixView, Metric, VectorId, silent};
use jasper_data::exact_knn;
use jasper_quant::{Codes, Mixed, MixedParams, Quantizer, Rabitq, RabitqParams};

use crate::common::moments;

/// Neighbours that errors are measured at.
const NEAR: usize = 40;
/// Neighbours that a ranking has to find.
const K: usize = 10;
/// Estimates of one timed call: rows of a hop.
const HOP: usize = 64;
/// Hops of one timed call.
const HOPS: usize = 16;

/// Prints one line a code.
pub fn table(
    name: &str,
    metric: Metric,
    base: MatrixView<'_, f32>,
    queries: MatrixView<'_, f32>,
    pool: &rayon::ThreadPool,
) -> Result<(), Box<dyn std::error::Error>> {
    println!("\nCodes of {name}: {} rows x {}, {metric}\n", base.len(), base.dimension());
    println!(
        "| code | bytes | error near, mean | deviation | best for 95% | 99% | ns an estimate | ns to encode |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let truth = exact_knn(base, queries, NEAR, metric, pool, &mut silent)?;
    let mut all: Vec<(String, Box<dyn Quantizer>)> = Vec::new();
    for bits in [1, 2, 4, 8] {
        let quantizer = Rabitq::train(base, &RabitqParams::new(metric, bits))?;
        all.push((format!("RaBitQ, m = {bits}"), Box::new(quantizer)));
    }
    for sectors in [1, 2, 4] {
        let quantizer = Mixed::train(base, None, &MixedParams { metric, sectors, seed: 1 }, pool)?;
        let [four, two, one] = quantizer.coded_dimensions();
        all.push((format!("mixed, {four} / {two} / {one} dimensions"), Box::new(quantizer)));
    }
    for (name, quantizer) in all {
        let codes = Codes::of(&*quantizer, base, pool);
        let mut errors = Vec::new();
        let mut ranks = Vec::new();
        let mut estimates = vec![0.0; base.len()];
        for (i, query) in queries.rows().enumerate() {
            quantizer.query(query).estimate_range(&codes, 0..base.len(), &mut estimates);
            let near = truth.truth(i);
            let distances = near.distances.expect("exact neighbours come with distances");
            for (rank, (id, distance)) in near.ids.iter().zip(distances).enumerate() {
                let estimate = estimates[*id as usize];
                errors.push(f64::from((estimate - distance) / distance.abs()));
                if rank < K {
                    ranks.push(estimates.iter().filter(|other| **other < estimate).count() + 1);
                }
            }
        }
        ranks.sort_unstable();
        let best_for = |share: f64| ranks[((ranks.len() as f64 * share) as usize).min(ranks.len() - 1)];
        let (mean, deviation) = moments(errors.into_iter());
        println!(
            "| {name} | {} | {mean:+.4} | {deviation:.4} | {} | {} | {:.1} | {:.0} |",
            codes.layout().bytes(),
            best_for(0.95),
            best_for(0.99),
            estimating(&*quantizer, &codes, queries.row(0)),
            encoding(&*quantizer, base)?,
        );
    }
    Ok(())
}

/// Nanoseconds of an estimate among rows in random order: the best of many hops.
fn estimating(quantizer: &dyn Quantizer, codes: &Codes, query: &[f32]) -> f64 {
    let query = quantizer.query(query);
    let ids: Vec<VectorId> = permutation(codes.len(), 1).into_iter().map(VectorId::new).collect();
    let mut out = [0.0; HOP];
    let best = shortest(ids.chunks_exact(HOPS * HOP), |hops| {
        hops.chunks_exact(HOP).for_each(|hop| query.estimate(codes, hop, &mut out));
    });
    best.as_secs_f64() * 1e9 / (HOPS * HOP) as f64
}

/// Nanoseconds to encode a row on one thread: the best of many blocks.
fn encoding(quantizer: &dyn Quantizer, base: MatrixView<'_, f32>) -> Result<f64, Box<dyn std::error::Error>> {
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let block = 128.min(base.len());
    let mut codes = Codes::of(quantizer, base.slice(0..block), &one);
    let best = shortest(0..base.len() / block, |i| {
        codes.encode(quantizer, 0, base.slice(i * block..(i + 1) * block), &one);
    });
    Ok(best.as_secs_f64() * 1e9 / block as f64)
}

/// The shortest time that `work` took on any of `parts`.
fn shortest<T>(parts: impl Iterator<Item = T>, mut work: impl FnMut(T)) -> Duration {
    parts.fold(Duration::MAX, |best, part| {
        let began = Instant::now();
        work(part);
        best.min(began.elapsed())
    })
}
