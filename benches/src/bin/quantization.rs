//! Accuracy and speed of quantized codes beside exact vectors: the tables of the book's page on quantization, and their
//! plot.
//!
//! ```sh
//! # Seeded data: the error of RaBitQ by bits and dimension, then a table per set.
//! cargo run --release -p jasper-benches --bin quantization
//! # Vectors from files: a table, and the plot if a fourth argument names it.
//! cargo run --release -p jasper-benches --bin quantization -- BASE QUERIES cosine codes.svg
//! ```

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use jasper_core::synthetic::{Clusters, permutation, rng};
use jasper_core::{Element, MatrixView, Metric, Slot, no_progress};
use jasper_data::{GroundTruth, VectorFile, exact_knn};
use jasper_plot::{Axis, Chart, Series, svg};
use jasper_quant::{CodeTable, Quantization, Quantizer, Rabitq, RabitqParams, ThreadPool, ThreadPoolBuilder};
use rand_distr::{Distribution, StandardNormal};

/// Neighbors at which errors are measured.
const NEAR: usize = 40;
/// Neighbors that a ranking has to find.
const K: usize = 10;
/// Estimates per call: the neighbors of one vertex.
const HOP: usize = 64;
/// Hops per timed part.
const HOPS: usize = 16;
/// Passes over all vectors; the fastest part counts.
const PASSES: usize = 200;
/// Vectors encoded per timed part.
const BLOCK: usize = 128;
/// The families of the table, in the order of the plot.
const FAMILIES: [&str; 3] = ["RaBitQ", "mixed codes", "exact"];

/// Vectors and queries.
struct Set<'a> {
    name: String,
    metric: Metric,
    base: MatrixView<'a, f32>,
    queries: MatrixView<'a, f32>,
}

/// Computes distances from one query to the vectors `ids`.
type Distances<'a> = Box<dyn Fn(&[Slot], &mut [f32]) + 'a>;

/// What was measured of one size of one family.
struct Row {
    family: &'static str,
    /// Bytes per vector.
    bytes: f64,
    /// Recall of the best [`K`] estimates.
    recall: f64,
    /// Distances per second on one thread.
    rate: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let pool = ThreadPoolBuilder::new().num_threads(2).build()?;
    if let [base, queries, rest @ ..] = &arguments[..] {
        let metric = rest.first().map_or(Ok(Metric::L2), |name| name.parse())?;
        let name = Path::new(base).parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let base = VectorFile::open(base)?.load_as::<f32>()?;
        let queries = VectorFile::open(queries)?.load_as::<f32>()?;
        let set = Set { name: name.into(), metric, base: base.view(), queries: queries.view() };
        let rows = table(&set, &pool)?;
        if let Some(file) = rest.get(1) {
            std::fs::write(file, plot(&set, &rows)?)?;
        }
        return Ok(());
    }
    rabitq_errors(&pool)?;
    for dimension in [128, 960] {
        let clusters = Clusters::new(dimension, 1);
        let (base, queries): (Vec<f32>, Vec<f32>) = (clusters.rows(20_000, 0), clusters.rows(200, 1));
        table(&Set::new(format!("clusters in {dimension} dimensions"), dimension, &base, &queries)?, &pool)?;
    }
    let (base, queries) = (gaussian(20_000, 384, 1), gaussian(200, 384, 2));
    table(&Set::new("a flat spectrum in 384 dimensions".into(), 384, &base, &queries)?, &pool)?;
    Ok(())
}

impl<'a> Set<'a> {
    fn new(
        name: String,
        dimension: usize,
        base: &'a [f32],
        queries: &'a [f32],
    ) -> Result<Self, Box<dyn Error>> {
        let (base, queries) = (MatrixView::new(base, dimension)?, MatrixView::new(queries, dimension)?);
        Ok(Self { name, metric: Metric::L2, base, queries })
    }
}

/// Prints and returns one line per size of each family.
fn table(set: &Set<'_>, pool: &ThreadPool) -> Result<Vec<Row>, Box<dyn Error>> {
    let &Set { metric, base, queries, .. } = set;
    println!("\nCodes of {}: {} x {}, {metric}\n", set.name, base.len(), base.dimension());
    println!(
        "| code | bytes | error near, mean | deviation | recall@10 | best for 95% | 99% | ns/distance | ns to encode |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let truth = exact_knn(base, queries, NEAR, metric, pool, &mut no_progress)?;
    let mut rows = Vec::new();
    let one = ThreadPoolBuilder::new().num_threads(1).build()?;
    let rabitq = (1..=8).map(|bits| (FAMILIES[0], Quantization::Rabitq { bits }));
    let mixed = (1..=4).map(|sectors| (FAMILIES[1], Quantization::Mixed { sectors }));
    for (family, quantization) in rabitq.chain(mixed) {
        let quantizer = quantization.train(metric, base, pool)?;
        let codes = CodeTable::from_vectors(&*quantizer, base, pool);
        let block = BLOCK.min(base.len());
        let encoding = shortest(0..base.len() / block, |i| {
            CodeTable::from_vectors(&*quantizer, base.slice(i * block..(i + 1) * block), &one);
        });
        let encode_ns = encoding.as_secs_f64() * 1e9 / block as f64;
        let (codes, bytes) = (&codes, codes.layout().bytes());
        rows.push(measure(set, &truth, family, &quantization.to_string(), bytes, encode_ns, &|query| {
            let query = quantizer.query(queries.row(query));
            Box::new(move |ids, out| query.estimate(codes, ids, out))
        }));
    }
    rows.push(measure(set, &truth, FAMILIES[2], "f32", base.dimension() * 4, 0.0, &|query| {
        let query = queries.row(query);
        Box::new(move |ids, out| exact(metric, query, base, ids, out))
    }));
    Ok(rows)
}

/// Measures one size of one family, and prints its line.
fn measure<'a>(
    set: &Set<'_>,
    truth: &GroundTruth,
    family: &'static str,
    size: &str,
    bytes: usize,
    encode_ns: f64,
    distances_of: &dyn Fn(usize) -> Distances<'a>,
) -> Row {
    let ((mean, deviation), recall, best_for) = ranking(distances_of, set, truth);
    let ns = nanoseconds_per_distance(&distances_of(0), set.base.len());
    let [best_95, best_99] = best_for;
    println!(
        "| {size} | {bytes} | {mean:+.4} | {deviation:.4} | {recall:.4} | {best_95} | {best_99} | {ns:.1} | {encode_ns:.0} |"
    );
    Row { family, bytes: bytes as f64, recall, rate: 1e9 / ns }
}

/// The exact distances; of cosine the negated dot product over the vectors' lengths, which ranks alike.
fn exact(metric: Metric, query: &[f32], base: MatrixView<'_, f32>, ids: &[Slot], out: &mut [f32]) {
    let mut rows: [&[f32]; HOP] = [&[]; HOP];
    for (ids, out) in ids.chunks(HOP).zip(out.chunks_mut(HOP)) {
        rows.iter_mut().zip(ids).for_each(|(row, id)| *row = base.row(id.index()));
        let (rows, fns) = (&rows[..ids.len()], f32::distance_fns());
        match metric {
            Metric::L2 => (fns.squared_l2_many)(query, rows, out),
            Metric::InnerProduct | Metric::Cosine => (fns.dot_many)(query, rows, out),
        }
        match metric {
            Metric::L2 => {}
            Metric::InnerProduct => out.iter_mut().for_each(|dot| *dot = -*dot),
            Metric::Cosine => {
                let norm = |row: &[f32]| (fns.dot)(row, row).sqrt();
                let of_query = norm(query);
                out.iter_mut().zip(rows).for_each(|(dot, row)| *dot = 1.0 - *dot / (norm(row) * of_query));
            }
        }
    }
}

/// Mean and deviation of the relative error at the nearest, the recall of the best [`K`], and how many of the least
/// estimates hold 95% and 99% of the nearest [`K`].
fn ranking<'a>(
    distances_of: &dyn Fn(usize) -> Distances<'a>,
    set: &Set<'_>,
    truth: &GroundTruth,
) -> ((f64, f64), f64, [usize; 2]) {
    let ids: Vec<Slot> = (0..set.base.len() as u32).map(Slot::new).collect();
    let (mut errors, mut ranks) = (Vec::new(), Vec::new());
    let mut estimates = vec![0.0; ids.len()];
    for query in 0..set.queries.len() {
        distances_of(query)(&ids, &mut estimates);
        let near = truth.truth(query);
        let distances = near.distances.expect("exact neighbors come with distances");
        for (rank, (id, distance)) in near.ids.iter().zip(distances).enumerate() {
            let estimate = estimates[*id as usize];
            // A distance of zero has no relative error.
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
    (moments(&errors), recall, best_for)
}

/// Nanoseconds per distance to vectors in random order.
fn nanoseconds_per_distance(distances: &Distances<'_>, count: usize) -> f64 {
    let ids: Vec<Slot> = permutation(count, 1).into_iter().map(Slot::new).collect();
    let mut out = [0.0; HOP];
    let parts = ids.chunks_exact(HOPS * HOP);
    let best = shortest(parts.clone().cycle().take(PASSES * parts.len()), |hops| {
        for hop in hops.chunks_exact(HOP) {
            distances(hop, &mut out);
            black_box(&out);
        }
    });
    best.as_secs_f64() * 1e9 / (HOPS * HOP) as f64
}

/// The shortest time that `work` took on any of `parts`.
fn shortest<T>(parts: impl Iterator<Item = T>, mut work: impl FnMut(T)) -> Duration {
    parts.fold(Duration::MAX, |best, part| {
        let began = Instant::now();
        work(part);
        best.min(began.elapsed())
    })
}

/// Plots recall and speed against bytes.
fn plot(set: &Set<'_>, rows: &[Row]) -> Result<String, Box<dyn Error>> {
    let bytes = || Axis::log2("bytes per vector", rows.iter().map(|row| row.bytes));
    let line = |family: &'static str, name, y: fn(&Row) -> f64| {
        let points = rows.iter().filter(|row| row.family == family);
        Series::line(name, points.map(|row| (row.bytes, y(row))).collect())
    };
    // Exact distances have a recall of 1, far from all others.
    let recalls = rows.iter().filter(|row| row.family != FAMILIES[2]).map(|row| row.recall);
    let charts = [
        Chart {
            title: "Recall".into(),
            x: bytes(),
            y: Axis::recall("recall of the ten least estimates", recalls),
            // The legend is in the other chart.
            series: FAMILIES[..2].iter().map(|family| line(family, "", |row| row.recall)).collect(),
        },
        Chart {
            title: "Speed".into(),
            x: bytes(),
            y: Axis::rate("distances per second, one thread", rows.iter().map(|row| row.rate)),
            series: FAMILIES.map(|family| line(family, family, |row| row.rate)).into(),
        },
    ];
    let Set { name, base, metric, .. } = set;
    let subtitle = format!("{name}: {} x {}, {metric}, in random order", base.len(), base.dimension());
    Ok(svg("Quantized codes", &subtitle, &charts)?)
}

/// Prints the standard deviation of the error of `<r, p> / (‖r‖ ‖p‖)`, for unrelated Gaussian residuals r and queries
/// p, times the root of the dimension.
fn rabitq_errors(pool: &ThreadPool) -> Result<(), Box<dyn Error>> {
    println!("\nError of the product of unit vectors, times sqrt(D)\n");
    println!("| D | m = 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 |");
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for dimension in [128, 384, 960, 1536] {
        let (rows, queries) = (gaussian(1000, dimension, 1), gaussian(200, dimension, 2));
        print!("| {dimension} |");
        for bits in 1..=8 {
            print!(" {:.4} |", rabitq_error(dimension, bits, &rows, &queries, pool)?);
        }
        println!();
    }
    Ok(())
}

fn rabitq_error(
    dimension: usize,
    bits: u32,
    rows: &[f32],
    queries: &[f32],
    pool: &ThreadPool,
) -> Result<f64, Box<dyn Error>> {
    // Rows and their mirror images have the origin as their center: residuals are the rows.
    let mirrored: Vec<f32> = rows.iter().copied().chain(rows.iter().map(|x| -x)).collect();
    let both = MatrixView::new(&mirrored, dimension)?;
    let quantizer = Rabitq::train(both, &RabitqParams::new(Metric::InnerProduct, bits))?;
    let count = rows.len() / dimension;
    let codes = CodeTable::from_vectors(&quantizer, both.slice(0..count), pool);
    let mut estimates = vec![0.0; count];
    let mut errors = Vec::new();
    for query in queries.chunks_exact(dimension) {
        quantizer.query(query).estimate_rows(|i| codes.row(i), &mut estimates);
        errors.extend(rows.chunks_exact(dimension).zip(&estimates).map(|(row, estimate)| {
            (-f64::from(*estimate) - dot(row, query)) / (dot(row, row) * dot(query, query)).sqrt()
        }));
    }
    Ok(moments(&errors).1 * (dimension as f64).sqrt())
}

/// `rows x dimension` independent Gaussian numbers.
fn gaussian(rows: usize, dimension: usize, seed: u64) -> Vec<f32> {
    let mut random = rng(seed);
    (0..rows * dimension).map(|_| StandardNormal.sample(&mut random)).collect()
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
}

/// Mean and standard deviation.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares = values.iter().map(|x| x * x).sum::<f64>() / n;
    (mean, (squares - mean * mean).max(0.0).sqrt())
}
