//! The error of RaBitQ codes, by bits and dimension.

use jasper_core::{MatrixView, Metric};
use jasper_quant::{Codes, Quantizer, Rabitq, RabitqParams, RotationKind};

use crate::common::{dot, gaussian, moments};

/// Prints the standard deviation of the error of `<r, p> / (‖r‖ ‖p‖)` for unrelated residuals and queries, times the
/// root of the dimension.
pub fn table(pool: &rayon::ThreadPool) {
    println!("\nError of the product of unit vectors, times sqrt(D)\n");
    println!(
        "| D | m = 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 |\n| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    );
    for dimension in [96, 128, 200, 384, 960, 1536] {
        let (rows, queries) = (gaussian(1000, dimension, 1), gaussian(200, dimension, 2));
        let cells: String =
            (1..=8).map(|bits| format!(" {:.4} |", error(dimension, bits, &rows, &queries, pool))).collect();
        println!("| {dimension} |{cells}");
    }
}

fn error(dimension: usize, bits: u32, rows: &[f32], queries: &[f32], pool: &rayon::ThreadPool) -> f64 {
    // A rotation that pads would show the error of more dimensions.
    let rotation = if dimension.is_multiple_of(64) { RotationKind::Hadamard } else { RotationKind::Haar };
    let params = RabitqParams { rotation, ..RabitqParams::new(Metric::InnerProduct, bits) };
    // Rows and their mirror images: the centre is the origin, so that residuals are the rows.
    let mirrored: Vec<f32> = rows.iter().copied().chain(rows.iter().map(|x| -x)).collect();
    let both = MatrixView::new(&mirrored, dimension).expect("whole rows");
    let quantizer = Rabitq::train(both, &params).expect("rows that can be coded");
    let count = rows.len() / dimension;
    let codes = Codes::from_vectors(&quantizer, both.slice(0..count), pool);
    let mut estimates = vec![0.0; count];
    let mut errors = Vec::new();
    for query in queries.chunks_exact(dimension) {
        quantizer.query(query).estimate_range(&codes, 0..count, &mut estimates);
        errors.extend(rows.chunks_exact(dimension).zip(&estimates).map(|(row, estimate)| {
            (-f64::from(*estimate) - dot(row, query)) / (dot(row, row) * dot(query, query)).sqrt()
        }));
    }
    moments(errors.into_iter()).1 * (dimension as f64).sqrt()
}
