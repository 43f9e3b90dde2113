//! The choice of the quantization step of each dimension.

use rayon::prelude::*;

use super::allocation::WIDTHS;
use crate::projection::Projection;
use crate::space::dot;

/// Vectors of the sample on which steps are compared.
const ROWS: usize = 4096;
/// Multiples of the step that is best for Gaussian variables. Principal components often have longer tails, for which a
/// wider step that clips less is better.
const MULTIPLES: [f32; 11] = [0.7, 0.8, 0.9, 1.0, 1.15, 1.3, 1.5, 1.75, 2.0, 2.5, 3.0];

/// Memory of [`best_steps`] in bytes, for a sample of `rows`.
pub(super) fn bytes(rows: usize, dimension: usize, coded: usize) -> usize {
    rows.min(ROWS) * (dimension + coded) * size_of::<f32>()
}

/// Returns for each dimension the step with the least squared error on a sample of residuals normalized to length 1,
/// given the bits of the dimension; 0 for dimensions without a direction. Runs on the current thread pool.
pub(super) fn best_steps(
    residuals: &[f32],
    directions: &Projection,
    bits: &[u32],
    variances: &[f64],
) -> Vec<f32> {
    let (dimension, count) = (directions.dimension(), directions.directions());
    let stride = (residuals.len() / dimension).div_ceil(ROWS);
    let chosen: Vec<f32> =
        residuals.chunks_exact(dimension).step_by(stride).flat_map(|row| row.iter().copied()).collect();
    let mut projected = vec![0.0; chosen.len() / dimension * count];
    directions.project(&chosen, &mut projected, count);
    for (row, projected) in chosen.chunks_exact(dimension).zip(projected.chunks_exact_mut(count)) {
        let norm = dot(row, row).sqrt();
        if norm > 0.0 {
            projected.iter_mut().for_each(|z| *z = z.abs() / norm);
        }
    }
    let step_of = |i: usize| {
        let magnitudes: Vec<f32> = projected.iter().skip(i).step_by(count).copied().collect();
        let gaussian: f32 = WIDTHS.iter().filter(|width| width.bits == bits[i]).map(|width| width.step).sum();
        let limit = (1_u32 << (bits[i] - 1)) as f32 - 0.5;
        let left = |step: f32| -> f64 {
            let squares = magnitudes.iter().map(|z| z - ((z / step).min(limit).floor() + 0.5) * step);
            squares.map(|squared_error| f64::from(squared_error * squared_error)).sum()
        };
        let steps = MULTIPLES.map(|multiple| multiple * gaussian * variances[i].sqrt() as f32);
        steps
            .into_iter()
            .filter(|step| *step > 0.0)
            .min_by(|a, b| left(*a).total_cmp(&left(*b)))
            .unwrap_or(0.0)
    };
    let mut steps: Vec<f32> = (0..count.min(bits.len())).into_par_iter().map(step_of).collect();
    steps.resize(bits.len(), 0.0);
    steps
}

#[cfg(test)]
mod tests {
    use jasper_core::synthetic::rng;
    use rand_distr::{Distribution, StandardNormal};

    use super::*;

    #[test]
    fn long_tails_get_wider_steps() {
        let mut random = rng(1);
        // Two coordinates that are coded, one Gaussian and one with long tails, and one that makes all rows about as
        // long.
        let rows: Vec<f32> = (0..3000)
            .flat_map(|_| {
                let (x, y): (f32, f32) =
                    (StandardNormal.sample(&mut random), StandardNormal.sample(&mut random));
                [x, y * y * y / 15.0_f32.sqrt(), 100.0]
            })
            .collect();
        let directions = Projection::new(&[1.0, 0.0, 0.0, 0.0, 1.0, 0.0], 3);
        let steps = best_steps(&rows, &directions, &[4, 4, 4], &[1e-4, 1e-4]);
        let gaussian = 0.01 * WIDTHS[1].step;
        assert!((0.85..1.2).contains(&(steps[0] / gaussian)), "{steps:?}");
        assert!(steps[1] / gaussian > 1.4, "{steps:?}");
        assert_eq!(steps[2], 0.0);
    }
}
