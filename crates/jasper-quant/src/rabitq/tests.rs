//! The few scales that are tried against the exact search.

use jasper_core::synthetic::rng;
use rand_distr::{Distribution, StandardNormal};

use super::grid::{Fit, Grid, Quantize, largest_level};
use super::*;

/// The exact search of Extended RaBitQ, in f64: the square of the tangent at the best of all scales.
///
/// Levels change where a coordinate crosses a multiple of 1 / t; all crossings are visited in order.
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

fn quantized(rotated: &[f32], bits: u32, grid: Option<Grid>) -> Fit {
    let (mut magnitudes, mut levels) = (vec![0.0; rotated.len()], vec![0; rotated.len()]);
    let dimension = rotated.len();
    widest(Quantize { rotated, dimension, bits, grid, magnitudes: &mut magnitudes, levels: &mut levels })
}

#[test]
fn tune() {
    let mut random = rng(1);
    for bits in 5..=8 {
        for dimension in [128, 960] {
            let rows: Vec<Vec<f32>> =
                (0..60).map(|_| (0..dimension).map(|_| StandardNormal.sample(&mut random)).collect()).collect();
            let exact: f64 = rows.iter().map(|row| exact_squared_tangent(row, bits)).sum();
            let mean = [1.0, 1.0, 1.7, 2.98, 5.32, 9.77, 18.8, 37.2][bits as usize - 1];
            let mut grids = vec![];
            for count in [8, 12, 16, 24, 32, 48] {
                for range in [(0.9, 1.1), (0.85, 1.15), (0.85, 1.25), (0.95, 1.15), (0.95,1.25)] {
                    grids.push((format!("unclipped {range:?} {count}"), Grid::unclipped(range, count)));
                    grids.push((format!("mean {range:?} {count}"), Grid::mean(mean, range, count)));
                }
            }
            for (name, grid) in grids {
                let got: f64 = rows.iter().map(|row| f64::from(quantized(row, bits, Some(grid)).squared_tangent)).sum();
                println!("{bits} {dimension} {:.3} {name}", (got / exact).sqrt());
            }
        }
    }
}
