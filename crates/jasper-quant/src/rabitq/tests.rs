//! The search over a few scales against the exact search.

use jasper_core::synthetic::rng;
use rand_distr::{Distribution, StandardNormal};

use super::grid::largest_level;
use super::*;
use crate::simd::Buffers;

/// The exact search of Extended RaBitQ, in f64: the square of the tangent at the best of all scales.
///
/// Visits all scales at which a level changes, in order.
fn exact_squared_tangent(rotated: &[f32], bits: u32) -> f64 {
    let norm = rotated.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    let magnitudes: Vec<f64> = rotated.iter().map(|x| f64::from(x.abs()) / norm).collect();
    let mut crossings: Vec<(f64, usize, f64)> = Vec::new();
    for level in 1..=largest_level(bits) as usize {
        crossings.extend(magnitudes.iter().enumerate().map(|(i, o)| (level as f64 / o, i, level as f64)));
    }
    crossings.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut product = 0.5 * magnitudes.iter().sum::<f64>();
    let mut square = 0.25 * magnitudes.len() as f64;
    let mut best = product * product / square;
    for (_, i, level) in crossings {
        product += magnitudes[i];
        square += 2.0 * level;
        best = best.max(product * product / square);
    }
    1.0 / best - 1.0
}

/// The fit of a row by the scales of its bits.
fn quantized(rotated: &[f32], bits: u32) -> (Fit, Vec<u8>) {
    let mut levels = vec![0; rotated.len()];
    let scales = Scales::new(bits, rotated.len());
    let fit = quantize(rotated, rotated.len(), bits, scales, &mut Buffers::default(), &mut levels);
    (fit, levels)
}

fn gaussian(dimension: usize, random: &mut impl rand::Rng) -> Vec<f32> {
    (0..dimension).map(|_| StandardNormal.sample(random)).collect()
}

#[test]
fn few_scales_come_near_the_best_of_all() {
    let mut random = rng(1);
    for dimension in [64, 128, 960] {
        for bits in 1..=8 {
            let rows: Vec<Vec<f32>> = (0..40).map(|_| gaussian(dimension, &mut random)).collect();
            let exact: f64 = rows.iter().map(|row| exact_squared_tangent(row, bits)).sum();
            let few: f64 = rows.iter().map(|row| f64::from(quantized(row, bits).0.squared_tangent)).sum();
            let ratio = (few / exact).sqrt();
            assert!((0.9999..1.02).contains(&ratio), "{dimension} dimensions, {bits} bits: {ratio}");
        }
    }
}

#[test]
fn fits_are_those_of_the_levels() {
    let mut random = rng(2);
    for bits in 1..=8 {
        let row = gaussian(192, &mut random);
        let (fit, levels) = quantized(&row, bits);
        let point: Vec<f64> = levels.iter().map(|u| f64::from(*u) - ((1 << bits) - 1) as f64 / 2.0).collect();
        let squared_norm: f64 = row.iter().map(|r| f64::from(*r).powi(2)).sum();
        let product: f64 = row.iter().zip(&point).map(|(r, x)| f64::from(*r) * x).sum();
        let square: f64 = point.iter().map(|x| x * x).sum();
        let close = |fast: f32, naive: f64| (f64::from(fast) / naive - 1.0).abs() < 1e-4;
        assert!(close(fit.norm, squared_norm.sqrt()), "{bits}");
        assert!(close(fit.scale, squared_norm / product), "{bits}");
        assert!(close(fit.squared_tangent, squared_norm * square / product.powi(2) - 1.0), "{bits}");
        for (x, r) in point.iter().zip(&row) {
            assert_eq!(*x > 0.0, *r >= 0.0);
        }
    }
}
