//! Errors of RaBitQ codes against theory and simulation.

use crate::common::{distance, dot, estimates, gaussian, moments, pool};
use jasper_core::{MatrixView, Metric};
use jasper_quant::{CodeTable, Quantizer, Rabitq, RabitqParams};

/// Standard deviation of the error of the product of a unit residual and a unit query, times sqrt(D), for m = 1 to 8,
/// as measured with another implementation that searches all scales.
const ERRORS: [(usize, [f64; 8]); 3] = [
    (128, [0.7525, 0.3619, 0.1894, 0.0993, 0.0503, 0.0248, 0.0123, 0.0061]),
    (960, [0.7557, 0.3663, 0.1962, 0.1067, 0.0574, 0.0300, 0.0152, 0.0076]),
    (1536, [0.7548, 0.3673, 0.1968, 0.1073, 0.0583, 0.0308, 0.0157, 0.0079]),
];

/// A quantizer whose center is the origin.
fn centerd(dimension: usize, params: &RabitqParams) -> Rabitq {
    let mut rows = gaussian(32, dimension, 99);
    let mirrored: Vec<f32> = rows.iter().map(|x| -x).collect();
    rows.extend(mirrored);
    Rabitq::train(MatrixView::new(&rows, dimension).unwrap(), params).unwrap()
}

/// Errors of the products relative to both norms, `[queries][rows]`.
fn product_errors(quantizer: &Rabitq, rows: &[f32], queries: &[f32]) -> Vec<Vec<f64>> {
    let dimension = quantizer.dimension();
    let pairs = queries.chunks_exact(dimension).zip(estimates(quantizer, rows, queries));
    pairs
        .map(|(query, estimates)| {
            let errors = rows.chunks_exact(dimension).zip(estimates).map(|(row, estimate)| {
                let error = f64::from(estimate) - distance(Metric::L2, query, row);
                -0.5 * error / (dot(row, row) * dot(query, query)).sqrt()
            });
            errors.collect()
        })
        .collect()
}

#[test]
fn errors_are_those_of_the_table() {
    for (dimension, expected) in ERRORS {
        // Errors vary by row: with fewer rows the deviation would vary by a hundredth.
        let (rows, queries) = (gaussian(1500, dimension, 1), gaussian(60, dimension, 2));
        for bits in 1..=8 {
            let params = RabitqParams::new(Metric::L2, bits);
            let errors = product_errors(&centerd(dimension, &params), &rows, &queries);
            let (_, deviation) = moments(errors.into_iter().flatten());
            let ratio = deviation * (dimension as f64).sqrt() / expected[bits as usize - 1];
            assert!((ratio - 1.0).abs() < 0.03, "{dimension} dimensions, {bits} bits: {ratio}");
        }
    }
}

/// Padding adds bits: 96 dimensions padded to 128 have the error of 128.
#[test]
fn padding_is_not_wasted() {
    let (rows, queries) = (gaussian(600, 96, 1), gaussian(150, 96, 2));
    let errors = product_errors(&centerd(96, &RabitqParams::new(Metric::L2, 1)), &rows, &queries);
    let (_, deviation) = moments(errors.into_iter().flatten());
    assert!((deviation / 0.0666 - 1.0).abs() < 0.03, "{deviation}");
}

/// Over random rotations the mean error of a pair is zero, for every metric and number of bits. Errors of one rotation
/// are correlated, so the sample size is the number of rotations.
#[test]
fn estimates_have_no_bias() {
    const SEEDS: u64 = 60;
    const DIMENSIONS: [usize; 4] = [96, 128, 960, 1536];
    for (i, metric) in Metric::ALL.into_iter().enumerate() {
        for bits in 1..=8 {
            let dimension = DIMENSIONS[(i + bits as usize) % DIMENSIONS.len()];
            // Off the origin, so that the terms that need no code are not zero.
            let moved = |rows: Vec<f32>| rows.into_iter().map(|x| x + 0.3).collect::<Vec<f32>>();
            let (rows, queries) = (moved(gaussian(24, dimension, 3)), moved(gaussian(24, dimension, 4)));
            let view = MatrixView::new(&rows, dimension).unwrap();
            let exact: Vec<f64> = queries
                .chunks_exact(dimension)
                .flat_map(|query| view.rows().map(|row| distance(metric, query, row)))
                .collect();
            let means = (0..SEEDS).map(|seed| {
                let params = RabitqParams { seed, ..RabitqParams::new(metric, bits) };
                let estimated = estimates(&Rabitq::train(view, &params).unwrap(), &rows, &queries).concat();
                moments(estimated.iter().zip(&exact).map(|(x, exact)| f64::from(*x) - exact)).0
            });
            let (mean, deviation) = moments(means);
            let standard_error = deviation / ((SEEDS - 1) as f64).sqrt();
            assert!(
                mean.abs() < 3.0 * standard_error,
                "{metric}, {dimension} dimensions, {bits} bits: {mean} {standard_error}"
            );
        }
    }
}

/// Fraction of pairs whose error is within the bound.
fn coverage(quantizer: &Rabitq, rows: &[f32], queries: &[f32]) -> f64 {
    let dimension = quantizer.dimension();
    let codes = CodeTable::from_vectors(quantizer, MatrixView::new(rows, dimension).unwrap(), &pool());
    let (mut within, mut all) = (0.0, 0.0);
    for (query, estimates) in queries.chunks_exact(dimension).zip(estimates(quantizer, rows, queries)) {
        let code = quantizer.query(query);
        for (i, (row, estimate)) in rows.chunks_exact(dimension).zip(estimates).enumerate() {
            let error = f64::from(estimate) - distance(quantizer.metric(), query, row);
            within += f64::from(u8::from(error.abs() <= f64::from(code.bound(codes.row(i)))));
            all += 1.0;
        }
    }
    within / all
}

#[test]
fn bounds_hold_as_often_as_they_say() {
    for metric in Metric::ALL {
        for (dimension, bits) in [(128, 1), (128, 4), (960, 1), (960, 2)] {
            let quantizer = centerd(dimension, &RabitqParams::new(metric, bits));
            let (rows, queries) = (gaussian(300, dimension, 5), gaussian(100, dimension, 6));
            let unrelated = coverage(&quantizer, &rows, &queries);
            assert!((0.925..0.965).contains(&unrelated), "{metric}, {dimension}, {bits}: {unrelated}");
        }
    }
    // The error for a query near the row is smaller, by sqrt(1 - cos²).
    let quantizer = centerd(128, &RabitqParams::new(Metric::L2, 1));
    let mut near = 0.0;
    for seed in 0..100 {
        let row = gaussian(1, 128, 100 + seed);
        let query: Vec<f32> =
            row.iter().zip(gaussian(1, 128, 500 + seed)).map(|(x, e)| x + 0.2 * e).collect();
        near += coverage(&quantizer, &row, &query) / 100.0;
    }
    assert!(near > 0.99, "{near}");
}

/// The error for a query at an angle to the row is that for an unrelated one times the sine.
#[test]
fn errors_shrink_towards_the_row() {
    let dimension = 128;
    let rows = gaussian(400, dimension, 7);
    let quantizer = centerd(dimension, &RabitqParams::new(Metric::L2, 1));
    let deviation = |along: f64| {
        let errors = rows.chunks_exact(dimension).enumerate().map(|(i, row)| {
            let mut other = gaussian(1, dimension, 1000 + i as u64);
            let shadow = (dot(&other, row) / dot(row, row)) as f32;
            other.iter_mut().zip(row).for_each(|(x, r)| *x -= shadow * r);
            let lengths = (dot(row, row) / dot(&other, &other)).sqrt();
            let across = ((1.0 - along * along).sqrt() * lengths) as f32;
            let query: Vec<f32> =
                row.iter().zip(&other).map(|(r, x)| along as f32 * r + across * x).collect();
            product_errors(&quantizer, row, &query)[0][0]
        });
        moments(errors).1
    };
    let unrelated = deviation(0.0);
    for along in [0.5, 0.9, 0.99_f64] {
        let ratio = deviation(along) / (unrelated * (1.0 - along * along).sqrt());
        assert!((ratio - 1.0).abs() < 0.12, "{along}: {ratio}");
    }
}
