//! Errors of RaBitQ codes are those that its theory and careful simulations say.

mod common;

use common::{distance, dot, estimates, gaussian, moments, pool};
use jasper_core::{MatrixView, Metric};
use jasper_quant::{Codes, Quantizer, Rabitq, RabitqParams, RotationKind};

/// Standard deviation of the error of the product of a unit residual and a unit query, times sqrt(D), for m = 1 to 8, by the
/// exact search of the scale.
const ERRORS: [(usize, [f64; 8]); 4] = [
    (96, [0.7505, 0.3600, 0.1879, 0.0973, 0.0488, 0.0239, 0.0118, 0.0058]),
    (128, [0.7525, 0.3619, 0.1894, 0.0993, 0.0503, 0.0248, 0.0123, 0.0061]),
    (960, [0.7557, 0.3663, 0.1962, 0.1067, 0.0574, 0.0300, 0.0152, 0.0076]),
    (1536, [0.7548, 0.3673, 0.1968, 0.1073, 0.0583, 0.0308, 0.0157, 0.0079]),
];

/// A quantizer of `dimension` that is centred on the origin.
fn centred(dimension: usize, params: &RabitqParams) -> Rabitq {
    let mut rows = gaussian(32, dimension, 99);
    let mirrored: Vec<f32> = rows.iter().map(|x| -x).collect();
    rows.extend(mirrored);
    Rabitq::train(MatrixView::new(&rows, dimension).unwrap(), params).unwrap()
}

/// Errors of the product, in units of both lengths.
fn product_errors(quantizer: &Rabitq, rows: &[f32], queries: &[f32]) -> Vec<f64> {
    let dimension = quantizer.dimension();
    let all = estimates(quantizer, rows, queries);
    let mut errors = Vec::new();
    for (query, estimates) in queries.chunks_exact(dimension).zip(&all) {
        for (row, estimate) in rows.chunks_exact(dimension).zip(estimates) {
            let error = f64::from(*estimate) - distance(Metric::L2, query, row);
            errors.push(-0.5 * error / (dot(row, row) * dot(query, query)).sqrt());
        }
    }
    errors
}

#[test]
fn errors_are_those_of_the_table() {
    for (dimension, expected) in ERRORS {
        let rotation = if dimension == 96 { RotationKind::Haar } else { RotationKind::Hadamard };
        let (rows, queries) = (gaussian(600, dimension, 1), gaussian(150, dimension, 2));
        for bits in 1..=8 {
            let params = RabitqParams { rotation, ..RabitqParams::new(Metric::L2, bits) };
            let quantizer = centred(dimension, &params);
            let (mean, deviation) = moments(product_errors(&quantizer, &rows, &queries).into_iter());
            let scaled = deviation * (dimension as f64).sqrt();
            let ratio = scaled / expected[bits as usize - 1];
            println!("{dimension} {bits} {scaled:.4} {ratio:.3} {mean:e}");
        }
    }
}
