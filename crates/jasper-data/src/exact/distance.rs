//! Distances in f64, which rank the candidates.

use jasper_core::{Element, Metric};

/// Independent partial sums, for instruction-level parallelism.
const LANES: usize = 8;

/// Sums `term(x, y)` over the coordinates. Exact for integers, whose sums are below 2^53.
fn sum<T: Element>(a: &[T], b: &[T], term: impl Fn(f64, f64) -> f64) -> f64 {
    let value = |x: T| f64::from(x.to_f32());
    let mut lanes = [0.0; LANES];
    let (a_blocks, b_blocks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let tail = a_blocks.remainder().iter().zip(b_blocks.remainder());
    let rest: f64 = tail.map(|(&x, &y)| term(value(x), value(y))).sum();
    for (a, b) in a_blocks.zip(b_blocks) {
        for (lane, (&x, &y)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane += term(value(x), value(y));
        }
    }
    lanes.iter().sum::<f64>() + rest
}

pub(super) fn squared_norm<T: Element>(row: &[T]) -> f64 {
    sum(row, row, |x, y| x * y)
}

/// The distance between two vectors. `squared_norm` is that of the query, used for cosine only.
pub(super) fn distance<T: Element>(metric: Metric, query: &[T], squared_norm: f64, row: &[T]) -> f64 {
    let dot = || sum(query, row, |x, y| x * y);
    match metric {
        Metric::L2 => sum(query, row, |x, y| (x - y) * (x - y)),
        // Subtracted from zero, so that the distance is never -0.0.
        Metric::InnerProduct => 0.0 - dot(),
        Metric::Cosine => {
            // One square root of the product, so that parallel vectors have distance 0; clamped because of rounding.
            let norms = (squared_norm * self::squared_norm(row)).sqrt();
            (1.0 - dot() / norms).clamp(0.0, 2.0)
        }
    }
}
