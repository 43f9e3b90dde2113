//! Learning a mixed quantizer from data.

use jasper_core::synthetic::permutation;
use jasper_core::{Element, MatrixView};
use rayon::prelude::*;

use super::allocation::allocate;
use super::steps::best_steps;
use super::{HALVES, MAX_SECTORS, Mixed, MixedParams, SECTOR_WORDS, fit, pca};
use crate::projection::Projection;
use crate::quantizer::Coder;
use crate::space::{Space, dot};
use crate::{Layout, Rotation, RotationKind, TrainError, error};

/// Rows that components are taken from: enough for their directions, a second or two of work.
const SAMPLE_ROWS: usize = 20_000;
/// Rows held out of the sample as queries of the fit: three numbers need no more.
const FIT_QUERIES: usize = 200;
/// Fewest sectors of a code that may give some components 8 bits. On a device a lane reads a whole row of one or two
/// sectors, by a kernel without such a plane.
const LEAST_SECTORS_OF_EIGHT: u32 = 3;
/// Fewest rows to learn from.
const LEAST_ROWS: usize = 2;

impl Mixed {
    /// Learns centre, components, bits, steps, fit and units from `rows` (all rows of the index, or a sample), on the
    /// threads of `pool`; for the fit some of the rows stand for queries.
    ///
    /// Takes seconds: the components of 20,000 rows cost `20,000 dimension²` and `dimension²` times their number.
    /// The same on any number of threads; processors may differ in last bits, so what was learnt is to be saved.
    ///
    /// # Errors
    /// [`TrainError`] on less than two rows, sectors out of range, and values that are not finite.
    pub fn train<T: Element>(
        rows: MatrixView<'_, T>,
        params: &MixedParams,
        pool: &rayon::ThreadPool,
    ) -> Result<Self, TrainError> {
        let dimension = rows.dimension();
        error::check_dimension(dimension)?;
        if rows.len() < LEAST_ROWS {
            return Err(TrainError::TooFewRows { rows: rows.len(), least: LEAST_ROWS });
        }
        if !(1..=MAX_SECTORS).contains(&params.sectors) {
            return Err(TrainError::Sectors(params.sectors));
        }
        rows.check_finite()?;
        let space = Space::centred(params.metric, rows);
        let order = permutation(rows.len(), params.seed);
        let chosen = order.iter().take(SAMPLE_ROWS).map(|i| *i as usize);
        let sample = space.residuals(rows, chosen);
        let taken = sample.len() / dimension;
        let held_out = FIT_QUERIES.min(taken / 10);
        let (sample, queries) = sample.split_at((taken - held_out) * dimension);
        Ok(pool.install(|| Self::learn(space, sample, queries, params)))
    }

    /// Learns from residuals of rows and queries, on the current pool.
    fn learn(space: Space, sample: &[f32], queries: &[f32], params: &MixedParams) -> Self {
        let words = params.sectors as usize * SECTOR_WORDS - HALVES / 2;
        let directions = pca::components(sample, space.dimension(), words * 32, params.seed);
        let most_eight = if params.sectors < LEAST_SECTORS_OF_EIGHT { 0 } else { words };
        let plane_words = allocate(&falling(variances(sample, &directions)), words, most_eight);
        let layout = Layout::mixed(plane_words, params.sectors as usize, HALVES);
        let directions = rotated(&layout, &directions, params.seed);
        let bits: Vec<u32> = (0..layout.dimensions()).map(|i| layout.bits_of(i)).collect();
        let steps = best_steps(sample, &directions, &bits, &variances(sample, &directions));
        let mut mixed = Self::of_parts(space, directions, steps, params.sectors, plane_words);
        mixed.fitted = fit::fit(&mixed, queries, sample);
        mixed.common.units = mixed.units_of(sample);
        mixed
    }
}

/// The coded ones of `directions`, rotated at random among those of equal bits.
///
/// Their variances add up to the same, so that as much is left out; but a mixture of components has shorter tails than
/// each of them, and is clipped less.
fn rotated(layout: &Layout, directions: &Projection, seed: u64) -> Projection {
    let dimension = directions.dimension();
    let (before, mut values) = (directions.values(), Vec::new());
    for plane in layout.planes() {
        let end = (plane.first_dimension + plane.dimensions).min(directions.directions());
        let count = end.saturating_sub(plane.first_dimension);
        let mut out = vec![0.0; count * dimension];
        if count > 0 {
            let rotation = Rotation::new(RotationKind::Haar, count, seed);
            let (mut column, mut rotated) = (vec![0.0; count], vec![0.0; count]);
            for i in 0..dimension {
                let of_plane = before[plane.first_dimension * dimension..].iter();
                column.iter_mut().zip(of_plane.skip(i).step_by(dimension)).for_each(|(to, from)| *to = *from);
                rotation.rotate(&column, &mut rotated, count);
                out.iter_mut().skip(i).step_by(dimension).zip(&rotated).for_each(|(to, from)| *to = *from);
            }
        }
        values.extend(out);
    }
    Projection::new(&values, dimension)
}

/// Each number, or the least before it if that is less.
fn falling(mut values: Vec<f64>) -> Vec<f64> {
    for i in 1..values.len() {
        values[i] = values[i].min(values[i - 1]);
    }
    values
}

/// Variances along `directions` of residuals scaled to length 1.
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

    /// Turning keeps directions orthonormal, and the variance that each width holds; also where dimensions run out.
    #[test]
    fn turning_moves_variance_within_a_width_only() {
        for (dimension, plane_words) in [(60, [0, 2, 1, 0]), (40, [0, 2, 1, 1]), (40, [2, 2, 0, 1])] {
            let rows: Vec<f32> = Clusters::new(dimension, 1).rows(500, 0);
            let layout = Layout::mixed(plane_words, 1, HALVES);
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
                let of_plane =
                    plane.first_dimension..(plane.first_dimension + plane.dimensions).min(after.len());
                let sum = |variances: &[f64]| variances[of_plane.clone()].iter().sum::<f64>();
                assert!((sum(&before) - sum(&after)).abs() < 1e-5, "{plane:?}");
                assert_ne!(before[of_plane.start], after[of_plane.start]);
            }
        }
    }

    #[test]
    fn falling_numbers_never_rise() {
        assert_eq!(falling(vec![3.0, 1.0, 2.0, 0.5]), [3.0, 1.0, 1.0, 0.5]);
    }
}
