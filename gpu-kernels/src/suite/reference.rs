//! Reference implementations of the kernels in the simplest form.

use jasper_core::{Element, Metric};

use crate::graph::DistanceOpKind;

/// The sum over two vectors, in the order of additions of a tile of `width` lanes. The vectors may be padded.
pub fn distance<T: Element>(op: DistanceOpKind, width: usize, query: &[T], row: &[T]) -> f32 {
    if T::EXACT_SUMS {
        return exact_sum(query, row, |x, y| match op {
            DistanceOpKind::SquaredL2 => (x - y) * (x - y),
            DistanceOpKind::Dot => x * y,
        }) as f32;
    }
    let unit = 16 / size_of::<T>();
    let mut lanes = vec![0.0_f32; width];
    for (i, (x, y)) in query.iter().zip(row).enumerate() {
        let lane = &mut lanes[i / unit % width];
        let (x, y) = (x.to_f32(), y.to_f32());
        *lane = match op {
            DistanceOpKind::SquaredL2 => (x - y).mul_add(x - y, *lane),
            DistanceOpKind::Dot => x.mul_add(y, *lane),
        };
    }
    while lanes.len() > 1 {
        let high = lanes.split_off(lanes.len() / 2);
        for (low, high) in lanes.iter_mut().zip(high) {
            *low += high;
        }
    }
    lanes[0]
}

/// The nearest `k` of `rows` to `query` in order of (distance, row), and their distances.
pub fn nearest<T: Element>(metric: Metric, rows: &[&[T]], query: &[T], k: usize) -> Vec<(f64, u32)> {
    let mut all: Vec<(f64, u32)> =
        rows.iter().enumerate().map(|(i, row)| (exact(metric, query, row), i as u32)).collect();
    all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    all.truncate(k);
    all
}

/// A distance in f64, in the order of additions of the CPU's exact k-NN.
fn exact<T: Element>(metric: Metric, query: &[T], row: &[T]) -> f64 {
    let dot = |a, b| exact_sum(a, b, |x, y| x * y);
    match metric {
        Metric::L2 => exact_sum(query, row, |x, y| (x - y) * (x - y)),
        Metric::InnerProduct => 0.0 - dot(query, row),
        Metric::Cosine => (1.0 - dot(query, row) / (dot(query, query) * dot(row, row)).sqrt()).max(0.0),
    }
}

/// Sums in eight partial sums, then the remainder.
fn exact_sum<T: Element>(a: &[T], b: &[T], term: impl Fn(f64, f64) -> f64) -> f64 {
    let terms: Vec<f64> =
        a.iter().zip(b).map(|(x, y)| term(f64::from(x.to_f32()), f64::from(y.to_f32()))).collect();
    let mut lanes = [0.0; 8];
    let blocks = terms.chunks_exact(lanes.len());
    let rest: f64 = blocks.remainder().iter().sum();
    for block in blocks {
        for (lane, term) in lanes.iter_mut().zip(block) {
            *lane += term;
        }
    }
    lanes.iter().sum::<f64>() + rest
}
