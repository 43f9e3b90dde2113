//! What the formulas of the paper give when taken literally.
//!
//! Everything in f64, from the levels of real codes: nothing but the formulas differs. In the un-centred form of the
//! paper, `estimate = data_add + query_add + data_rescale * (<u, Pq> + query_sumq)`.

use jasper_core::{MatrixView, Metric};
use jasper_quant::{Codes, Quantizer, Rabitq, RabitqParams};

use crate::common::{dot, gaussian, moments};

const DIMENSION: usize = 128;
const ROWS: usize = 1000;

/// What one pair of row and query is estimated from.
struct Pair {
    /// `‖r‖`, `‖x‖`, and the cosine between them.
    norm: f64,
    point_norm: f64,
    cosine: f64,
    /// `<u, Pq>`, and `<x, Pc>` with the centre rotated and not.
    levels_query: f64,
    point_centre: f64,
    point_centre_unrotated: f64,
    /// Sums of Pq, of P(q - c), of q - c, and of q.
    sum_query: f64,
    sum_residual: f64,
    sum_residual_unrotated: f64,
    sum_query_unrotated: f64,
    /// `‖q - c‖²`.
    query_add: f64,
    /// 2^m.
    levels: f64,
}

impl Pair {
    fn scale(&self) -> f64 {
        self.norm / (self.point_norm * self.cosine)
    }

    fn add(&self) -> f64 {
        self.norm.powi(2) + 2.0 * self.scale() * self.point_centre
    }

    fn offset(&self) -> f64 {
        -(self.levels - 1.0) / 2.0
    }

    fn of(&self, add: f64, rescale: f64, sumq: f64) -> f64 {
        add + self.query_add + rescale * (self.levels_query + sumq)
    }
}

/// A way to estimate a squared distance.
type Formula = (&'static str, fn(&Pair) -> f64);

const FORMULAS: [Formula; 8] = [
    ("right", |p| p.of(p.add(), -2.0 * p.scale(), p.offset() * p.sum_query)),
    ("data_add literal", |p| p.of(literal_add(p), -2.0 * p.scale(), p.offset() * p.sum_query)),
    ("data_rescale without the norm", |p| p.of(p.add(), -2.0 * p.scale() / p.norm, p.offset() * p.sum_query)),
    ("query_sumq literal", |p| p.of(p.add(), -2.0 * p.scale(), literal_sumq(p))),
    ("right constant, q - c for q", |p| p.of(p.add(), -2.0 * p.scale(), p.offset() * p.sum_residual)),
    ("c not rotated", |p| {
        let add = p.norm.powi(2) + 2.0 * p.scale() * p.point_centre_unrotated;
        p.of(add, -2.0 * p.scale(), p.offset() * p.sum_query)
    }),
    ("sum taken before the rotation", |p| {
        p.of(p.add(), -2.0 * p.scale(), p.offset() * p.sum_query_unrotated)
    }),
    ("all literal", |p| p.of(literal_add(p), -2.0 * p.scale(), literal_sumq(p))),
];

/// `‖v - c‖² + 2 ‖v - c‖² <c, o> / <o, r>` with o the unit code.
fn literal_add(p: &Pair) -> f64 {
    p.norm.powi(2) + 2.0 * p.norm.powi(2) * p.point_centre / (p.point_norm * p.cosine)
}

/// `sum(q - c) (2^(m - 1) - 1) / 2`.
fn literal_sumq(p: &Pair) -> f64 {
    p.sum_residual_unrotated * (p.levels / 2.0 - 1.0) / 2.0
}

/// Prints the relative error of squared distances, and the share of the true ten nearest among the estimated ones.
pub fn table() {
    println!(
        "\nThe paper's formulas, taken literally: mean and deviation of the relative error, overlap of ten\n"
    );
    println!("| formula | m = 1 | m = 4 |\n| --- | --- | --- |");
    let columns = [1, 4].map(column);
    for (formula, (one, four)) in FORMULAS.iter().zip(columns[0].iter().zip(&columns[1])) {
        println!("| {} | {one} | {four} |", formula.0);
    }
}

/// One cell for each formula.
fn column(bits: u32) -> Vec<String> {
    let shifted = |rows: Vec<f32>| -> Vec<f32> { rows.iter().map(|x| x + 0.3).collect() };
    let (rows, queries) = (shifted(gaussian(ROWS, DIMENSION, 1)), shifted(gaussian(100, DIMENSION, 2)));
    let view = MatrixView::new(&rows, DIMENSION).expect("whole rows");
    let quantizer =
        Rabitq::train(view, &RabitqParams::new(Metric::L2, bits)).expect("rows that can be coded");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let codes = Codes::from_vectors(&quantizer, view, &pool);
    let mean: Vec<f32> = (0..DIMENSION)
        .map(|i| (view.rows().map(|row| f64::from(row[i])).sum::<f64>() / ROWS as f64) as f32)
        .collect();
    let rotated = |row: &[f32]| {
        let mut out = vec![0.0; DIMENSION];
        quantizer.rotation().rotate(row, &mut out, DIMENSION);
        out
    };
    let minus_mean = |row: &[f32]| -> Vec<f32> { row.iter().zip(&mean).map(|(x, c)| x - c).collect() };
    let sum = |row: &[f32]| row.iter().map(|x| f64::from(*x)).sum::<f64>();
    let rotated_mean = rotated(&mean);
    let coded: Vec<(Vec<f32>, Vec<f32>, Vec<f32>)> = (0..ROWS)
        .map(|i| {
            let levels: Vec<f32> =
                quantizer.layout().unpack(codes.row(i)).iter().map(|u| f32::from(*u)).collect();
            let point = levels.iter().map(|u| u - ((1 << bits) - 1) as f32 / 2.0).collect();
            (rotated(&minus_mean(view.row(i))), levels, point)
        })
        .collect();
    let mut errors = vec![Vec::new(); FORMULAS.len()];
    let mut overlaps = vec![0.0; FORMULAS.len()];
    for query in queries.chunks_exact(DIMENSION) {
        let (residual, rotated_query) = (minus_mean(query), rotated(query));
        let exact: Vec<f64> = view
            .rows()
            .map(|row| row.iter().zip(query).map(|(x, y)| f64::from(x - y).powi(2)).sum())
            .collect();
        let pairs: Vec<Pair> = coded
            .iter()
            .map(|(r, levels, point)| {
                let (norm, point_norm) = (dot(r, r).sqrt(), dot(point, point).sqrt());
                Pair {
                    norm,
                    point_norm,
                    cosine: dot(r, point) / (norm * point_norm),
                    levels_query: dot(levels, &rotated_query),
                    point_centre: dot(point, &rotated_mean),
                    point_centre_unrotated: dot(point, &mean),
                    sum_query: sum(&rotated_query),
                    sum_residual: sum(&rotated(&residual)),
                    sum_residual_unrotated: sum(&residual),
                    sum_query_unrotated: sum(query),
                    query_add: dot(&residual, &residual),
                    levels: f64::from(1 << bits),
                }
            })
            .collect();
        for (i, (_, formula)) in FORMULAS.iter().enumerate() {
            let estimated: Vec<f64> = pairs.iter().map(formula).collect();
            errors[i].extend(estimated.iter().zip(&exact).map(|(e, x)| (e - x) / x));
            let (near, truly) = (nearest(&estimated), nearest(&exact));
            overlaps[i] += near.iter().filter(|id| truly.contains(id)).count() as f64 / 1000.0;
        }
    }
    let cells = errors.into_iter().zip(overlaps).map(|(errors, overlap)| {
        let (mean, deviation) = moments(errors.into_iter());
        format!("{mean:+.3}, {deviation:.3}, {overlap:.2}")
    });
    cells.collect()
}

/// The ten least.
fn nearest(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    order.truncate(10);
    order
}
