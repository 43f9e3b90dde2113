//! Training of a mixed quantizer.

use jasper_core::synthetic::permutation;
use jasper_core::{Element, MatrixView};
use rayon::prelude::*;

use super::allocation::allocate;
use super::haar::haar;
use super::steps::best_steps;
use super::{FACTORS, Mixed, MixedParams, SECTOR_WORDS, fit, pca, steps};
use crate::projection::Projection;
use crate::quantizer::Codec;
use crate::space::{Space, dot};
use crate::{Layout, Quantization, TrainError};

/// Maximum sample size.
const SAMPLE_ROWS: usize = 20_000;
/// Vectors held out of the sample as queries of the fit.
const FIT_QUERIES: usize = 200;
/// Minimum sectors of a code with 8-bit components. On a device, the kernel for rows of one or two sectors, which one
/// lane reads, has no 8-bit plane.
const MIN_SECTORS_FOR_EIGHT_BITS: u32 = 3;
/// Minimum vectors to train on.
const MIN_ROWS: usize = 2;

impl Mixed {
    /// Trains on `rows`, all vectors or a sample, on the threads of `pool`. The [module docs](super) list the steps.
    ///
    /// Takes seconds: the components of a sample of 20,000 cost `20,000 dimension²` operations, plus `dimension²` per
    /// component. The result does not depend on the number of threads, but may differ in the last bits between CPUs:
    /// save the quantizer instead of training it again.
    ///
    /// # Errors
    /// Returns [`TrainError`] on less than two vectors, values that are not finite or near the limits of f32, or sectors
    /// out of range.
    pub fn train<T: Element>(
        rows: MatrixView<'_, T>,
        params: &MixedParams,
        pool: &rayon::ThreadPool,
    ) -> Result<Self, TrainError> {
        let dimension = rows.dimension();
        if rows.len() < MIN_ROWS {
            return Err(TrainError::TooFewVectors { given: rows.len(), min: MIN_ROWS });
        }
        Quantization::Mixed { sectors: params.sectors }.check()?;
        rows.check_finite()?;
        let space = Space::from_vectors(params.metric, rows);
        let order = permutation(rows.len(), params.seed);
        let chosen = order.iter().take(SAMPLE_ROWS).map(|i| *i as usize);
        let sample = space.residuals(rows, chosen);
        let taken = sample.len() / dimension;
        let held_out = FIT_QUERIES.min(taken / 10);
        let (sample, queries) = sample.split_at((taken - held_out) * dimension);
        pool.install(|| Self::learn(space, sample, queries, params)).checked()
    }

    /// Memory of training on `rows` vectors, without these: their residuals, and the larger of what the components and
    /// the fit take.
    pub(crate) fn training_bytes(rows: usize, dimension: usize, sectors: u32) -> usize {
        let sample = rows.min(SAMPLE_ROWS);
        let residuals = sample * dimension * size_of::<f32>();
        // The covariance, the basis, their products and the eigenvectors.
        let components = 6 * dimension * dimension * size_of::<f64>();
        let coded = Self::max_coded(dimension, sectors);
        // The allocator of the thread that compares steps keeps its memory, while others allocate that of the fit.
        let fit = sample * fit::row_bytes(coded) + steps::bytes(sample, dimension, coded);
        residuals + components.max(fit)
    }

    /// Trains on residuals of the sample and of held-out queries, on the current pool.
    fn learn(space: Space, sample: &[f32], queries: &[f32], params: &MixedParams) -> Self {
        let words = params.sectors as usize * SECTOR_WORDS - FACTORS / 2;
        let directions = pca::components(sample, space.dimension(), words * 32, params.seed);
        let max_eights = if params.sectors < MIN_SECTORS_FOR_EIGHT_BITS { 0 } else { words };
        let plane_words = allocate(&running_minimum(variances(sample, &directions)), words, max_eights);
        let layout = Layout::mixed(plane_words, params.sectors as usize, FACTORS);
        let directions = rotated(&layout, &directions, params.seed);
        let steps = best_steps(sample, &directions, &layout.bits(), &variances(sample, &directions));
        let mut mixed = Self::new(space, directions, steps, layout);
        mixed.correction = fit::fit(&mixed, queries, sample);
        mixed.common.units = mixed.train_units(sample);
        mixed
    }
}

/// Rotates the coded `directions` of equal bits among themselves, at random.
///
/// The sum of their variances is unchanged, but a mixture of components has shorter tails than each component, and is
/// clipped less (SAQ, Li et al. 2025).
fn rotated(layout: &Layout, directions: &Projection, seed: u64) -> Projection {
    let dimension = directions.dimension();
    let (before, mut values) = (directions.values(), Vec::new());
    for plane in layout.planes() {
        let end = (plane.first_dimension + plane.dimensions).min(directions.directions());
        let count = end.saturating_sub(plane.first_dimension);
        let mut out = vec![0.0; count * dimension];
        if count > 0 {
            let rotation = haar(count, seed);
            let (mut column, mut rotated) = (vec![0.0; count], vec![0.0; count]);
            for i in 0..dimension {
                let plane_groups = before[plane.first_dimension * dimension..].iter();
                column
                    .iter_mut()
                    .zip(plane_groups.skip(i).step_by(dimension))
                    .for_each(|(to, from)| *to = *from);
                rotation.project(&column, &mut rotated, count);
                out.iter_mut().skip(i).step_by(dimension).zip(&rotated).for_each(|(to, from)| *to = *from);
            }
        }
        values.extend(out);
    }
    Projection::new(&values, dimension)
}

/// Makes `values` descending: each becomes the minimum up to it.
fn running_minimum(mut values: Vec<f64>) -> Vec<f64> {
    for i in 1..values.len() {
        values[i] = values[i].min(values[i - 1]);
    }
    values
}

/// The variances along `directions` of residuals normalized to length 1.
fn variances(residuals: &[f32], directions: &Projection) -> Vec<f64> {
    let (dimension, count) = (directions.dimension(), directions.directions());
    let sums: Vec<Vec<f64>> = residuals
        .par_chunks(1024 * dimension)
        .map(|residuals| {
            let mut projected = vec![0.0; residuals.len() / dimension * count];
            directions.project(residuals, &mut projected, count);
            let mut sums = vec![0.0; count];
            for (residual, projected) in residuals.chunks_exact(dimension).zip(projected.chunks_exact(count))
            {
                let squared_norm = f64::from(dot(residual, residual));
                if squared_norm > 0.0 {
                    let squares = projected.iter().map(|z| f64::from(*z).powi(2) / squared_norm);
                    sums.iter_mut().zip(squares).for_each(|(sum, square)| *sum += square);
                }
            }
            sums
        })
        .collect();
    let rows = (residuals.len() / dimension) as f64;
    (0..count).map(|i| sums.iter().map(|sums| sums[i]).sum::<f64>() / rows).collect()
}

#[cfg(test)]
mod tests {
    use jasper_core::synthetic::Clusters;

    use super::*;

    /// The rotation keeps directions orthonormal and the variance per number of bits, also where dimensions run out.
    #[test]
    fn rotation_keeps_the_variance_of_each_number_of_bits() {
        for (dimension, plane_words) in [(60, [0, 2, 1, 0]), (40, [0, 2, 1, 1]), (40, [2, 2, 0, 1])] {
            let rows: Vec<f32> = Clusters::new(dimension, 1).rows(500, 0);
            let layout = Layout::mixed(plane_words, 1, FACTORS);
            let before = pca::components(&rows, dimension, layout.dimensions(), 1);
            let after = rotated(&layout, &before, 2);
            assert_eq!(after.directions(), layout.dimensions().min(dimension));
            for (i, a) in after.values().chunks_exact(dimension).enumerate() {
                for (j, b) in after.values().chunks_exact(dimension).enumerate() {
                    assert!((dot(a, b) - if i == j { 1.0 } else { 0.0 }).abs() < 1e-5);
                }
            }
            let (before, after) = (variances(&rows, &before), variances(&rows, &after));
            for plane in layout.planes() {
                let plane_groups =
                    plane.first_dimension..(plane.first_dimension + plane.dimensions).min(after.len());
                let sum = |variances: &[f64]| variances[plane_groups.clone()].iter().sum::<f64>();
                assert!((sum(&before) - sum(&after)).abs() < 1e-5, "{plane:?}");
                assert_ne!(before[plane_groups.start], after[plane_groups.start]);
            }
        }
    }

    #[test]
    fn running_minimum_is_descending() {
        assert_eq!(running_minimum(vec![3.0, 1.0, 2.0, 0.5]), [3.0, 1.0, 1.0, 0.5]);
    }
}
