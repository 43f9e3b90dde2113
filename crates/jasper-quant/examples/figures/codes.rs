//! Codes of one set side by side: bytes, error near the answer, how well they rank, what they cost.

use std::hint::black_box;
use std::time::{Duration, Instant};

use jasper_core::synthetic::permutation;
use jasper_core::{ElementKind, MatrixView, Metric, VectorId, no_progress};
use jasper_data::{GroundTruth, exact_knn};
use jasper_plot::{Axis, Chart, Series, svg};

use crate::common::moments;
use crate::contenders::{self, Contender, EXACT, FAMILIES, Rows};

/// Neighbours that errors are measured at.
const NEAR: usize = 40;
/// Neighbours that a ranking has to find.
const K: usize = 10;
/// Estimates of one call: rows of a hop.
const HOP: usize = 64;
/// Hops of one timed part.
const HOPS: usize = 16;
/// How often all rows are gone through: what else runs on the machine is quiet some of the time.
const PASSES: usize = 200;
/// Rows that are coded in one timed part.
const BLOCK: usize = 128;

/// A set and how it is asked.
pub struct Set<'a> {
    pub name: String,
    pub metric: Metric,
    pub base: MatrixView<'a, f32>,
    /// What the set's own values are.
    pub element: ElementKind,
    pub queries: MatrixView<'a, f32>,
}

/// What was measured of a contender.
pub struct Measured {
    family: &'static str,
    bytes: f64,
    recall: f64,
    /// Distances a second.
    rate: f64,
}

/// Prints one line a contender.
pub fn table(set: &Set<'_>, pool: &rayon::ThreadPool) -> Result<Vec<Measured>, Box<dyn std::error::Error>> {
    let &Set { metric, base, queries, .. } = set;
    println!("\nCodes of {}: {} rows x {}, {metric}\n", set.name, base.len(), base.dimension());
    println!(
        "| code | bytes | error near, mean | deviation | recall of the best ten | best for 95% | 99% | ns a distance | \
         ns to encode |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let truth = exact_knn(base, queries, NEAR, metric, pool, &mut no_progress)?;
    let mut all = Vec::new();
    for Contender { family, size, rows } in contenders::all(metric, base, set.element, pool)? {
        let Ranking { mean, deviation, recall, best_for } = Ranking::of(&*rows, base.len(), queries, &truth);
        let nanoseconds = estimating(&*rows, base.len(), queries.row(0));
        println!(
            "| {family}, {size} | {} | {mean:+.4} | {deviation:.4} | {recall:.4} | {} | {} | {nanoseconds:.1} | {:.0} |",
            rows.bytes(),
            best_for[0],
            best_for[1],
            encoding(&*rows, base)?,
        );
        all.push(Measured { family, bytes: rows.bytes() as f64, recall, rate: 1e9 / nanoseconds });
    }
    Ok(all)
}

/// How well estimates tell the nearest.
struct Ranking {
    /// Of the relative error of the nearest.
    mean: f64,
    deviation: f64,
    /// The share of the nearest ten among the ten of least estimate.
    recall: f64,
    /// How many rows of least estimate hold 95% and 99% of the nearest ten.
    best_for: [usize; 2],
}

impl Ranking {
    fn of(rows: &dyn Rows, count: usize, queries: MatrixView<'_, f32>, truth: &GroundTruth) -> Self {
        let ids: Vec<VectorId> = (0..count as u32).map(VectorId::new).collect();
        let (mut errors, mut ranks) = (Vec::new(), Vec::new());
        let mut estimates = vec![0.0; count];
        for (i, query) in queries.rows().enumerate() {
            rows.query(query)(&ids, &mut estimates);
            let near = truth.truth(i);
            let distances = near.distances.expect("exact neighbours come with distances");
            for (rank, (id, distance)) in near.ids.iter().zip(distances).enumerate() {
                let estimate = estimates[*id as usize];
                // Of a distance of nothing there is no share.
                if *distance != 0.0 {
                    errors.push(f64::from((estimate - distance) / distance.abs()));
                }
                if rank < K {
                    ranks.push(estimates.iter().filter(|other| **other < estimate).count() + 1);
                }
            }
        }
        ranks.sort_unstable();
        let best_for =
            [0.95, 0.99].map(|share| ranks[((ranks.len() as f64 * share) as usize).min(ranks.len() - 1)]);
        let recall = ranks.partition_point(|rank| *rank <= K) as f64 / ranks.len() as f64;
        let (mean, deviation) = moments(errors.into_iter());
        Self { mean, deviation, recall, best_for }
    }
}

/// Nanoseconds of a distance among rows in random order: the best of many hops.
fn estimating(rows: &dyn Rows, count: usize, query: &[f32]) -> f64 {
    let estimates = rows.query(query);
    let ids: Vec<VectorId> = permutation(count, 1).into_iter().map(VectorId::new).collect();
    let mut out = [0.0; HOP];
    let parts = ids.chunks_exact(HOPS * HOP);
    let best = shortest(parts.clone().cycle().take(PASSES * parts.len()), |hops| {
        for hop in hops.chunks_exact(HOP) {
            estimates(hop, &mut out);
            black_box(&out);
        }
    });
    best.as_secs_f64() * 1e9 / (HOPS * HOP) as f64
}

/// Nanoseconds to encode a row on one thread: the best of many blocks.
fn encoding(rows: &dyn Rows, base: MatrixView<'_, f32>) -> Result<f64, Box<dyn std::error::Error>> {
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let block = BLOCK.min(base.len());
    let best = shortest(0..base.len() / block, |i| rows.encode(base.slice(i * block..(i + 1) * block), &one));
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

/// Draws recall and speed against bytes.
pub fn plot(set: &Set<'_>, measured: &[Measured]) -> Result<String, Box<dyn std::error::Error>> {
    let bytes = || Axis::of_doublings("bytes a row", measured.iter().map(|of| of.bytes));
    let line = |family: &'static str, name, of: fn(&Measured) -> f64| {
        let points = measured.iter().filter(|measured| measured.family == family);
        Series::line(name, points.map(|measured| (measured.bytes, of(measured))).collect())
    };
    // Exact distances rank without error, which is far from all others.
    let estimates = FAMILIES.iter().filter(|family| **family != EXACT);
    let recalls = measured.iter().filter(|of| of.family != EXACT).map(|of| of.recall);
    let charts = [
        Chart {
            title: "How well they rank".into(),
            x: bytes(),
            y: Axis::of_recall("recall of the ten least estimates", recalls),
            // The names are in the other chart.
            series: estimates.map(|family| line(family, "", |of| of.recall)).collect(),
        },
        Chart {
            title: "How fast they are".into(),
            x: bytes(),
            y: Axis::of_rate("distances a second, one thread", measured.iter().map(|of| of.rate)),
            series: FAMILIES.map(|family| line(family, family, |of| of.rate)).into(),
        },
    ];
    let Set { name, base, metric, .. } = set;
    let subtitle = format!("{name}: {} rows x {}, {metric}, in random order", base.len(), base.dimension());
    Ok(svg("Codes of vectors", &subtitle, &charts)?)
}
