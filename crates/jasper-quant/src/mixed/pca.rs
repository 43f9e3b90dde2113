//! The leading principal components of a sample.
//!
//! Up to 384 dimensions they are computed by an eigendecomposition of the covariance matrix; above, by randomized
//! subspace iteration (Halko, Martinsson and Tropp 2011), then an eigendecomposition within the subspace.

use jasper_core::Element;
use jasper_core::synthetic::rng;
use nalgebra::{DMatrix, DMatrixView, SymmetricEigen};
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

use crate::projection::Projection;

/// Rows whose products are summed in f32 before they are added in f64. A tile of their columns fits in L2.
const PANEL_ROWS: usize = 2048;
/// Columns per tile of a matrix.
const TILE: usize = 16;
/// Maximum dimension of the direct eigendecomposition.
const DIRECT: usize = 384;
/// Additional directions of the subspace, for convergence. Halko et al. advise 5 to 10.
const OVERSAMPLING: usize = 16;
/// Iterations. Each shrinks the error of a direction by the ratio of variances; what remains is between directions of
/// almost equal variance, which are interchangeable.
const ITERATIONS: usize = 4;

/// The `count` principal components of `residuals` (`n x dimension`, n at least 1), or `dimension` if that is fewer:
/// orthonormal, in order of descending variance. Runs on the current thread pool.
pub(super) fn components(residuals: &[f32], dimension: usize, count: usize, seed: u64) -> Projection {
    let covariance = covariance(residuals, dimension);
    let count = count.min(dimension);
    let basis = if dimension <= DIRECT.max(count + OVERSAMPLING) {
        DMatrix::identity(dimension, dimension)
    } else {
        leading_subspace(&covariance, count + OVERSAMPLING, seed)
    };
    // Rayleigh-Ritz: the components within the subspace.
    let inside = product(&basis.transpose(), &product(&covariance, &basis));
    let eigen = SymmetricEigen::new((&inside + inside.transpose()) * 0.5);
    let mut order: Vec<usize> = (0..eigen.eigenvalues.len()).collect();
    order.sort_by(|a, b| eigen.eigenvalues[*b].total_cmp(&eigen.eigenvalues[*a]));
    // nalgebra is column-major: its columns become the rows of the projection.
    let directions = product(&basis, &eigen.eigenvectors.select_columns(&order[..count]));
    let values: Vec<f32> = directions.iter().map(|x| *x as f32).collect();
    Projection::new(&values, dimension)
}

/// An orthonormal basis of a subspace that contains the leading components, by subspace iteration.
fn leading_subspace(covariance: &DMatrix<f64>, count: usize, seed: u64) -> DMatrix<f64> {
    let mut random = rng(seed);
    let gaussian =
        DMatrix::from_fn(covariance.nrows(), count, |_, _| -> f64 { StandardNormal.sample(&mut random) });
    let before_last = (1..ITERATIONS).fold(gaussian, |basis, _| spread(product(covariance, &basis)));
    product(covariance, &before_last).qr().q()
}

/// Other columns that span the same space, nearly orthonormal: by a Cholesky decomposition, which takes a fraction of the
/// time of a QR decomposition on one thread, and rounds more.
fn spread(columns: DMatrix<f64>) -> DMatrix<f64> {
    let rows = columns.transpose();
    match product(&rows, &columns).cholesky() {
        Some(cholesky) => {
            by_tiles(&rows, |tile| cholesky.l_dirty().solve_lower_triangular(&tile).expect("no zeros"))
                .transpose()
        }
        None => columns.qr().q(),
    }
}

/// The product of two matrices, on all threads.
fn product(a: &DMatrix<f64>, b: &DMatrix<f64>) -> DMatrix<f64> {
    by_tiles(b, |tile| a * tile)
}

/// What `of` makes of some columns at a time, on all threads.
fn by_tiles(
    columns: &DMatrix<f64>,
    of: impl Fn(DMatrixView<'_, f64>) -> DMatrix<f64> + Sync,
) -> DMatrix<f64> {
    let rows = columns.nrows();
    let tiles = columns.as_slice().par_chunks(TILE * rows);
    let tiles: Vec<_> =
        tiles.map(|tile| of(DMatrixView::from_slice(tile, rows, tile.len() / rows))).collect();
    let values = tiles.iter().flat_map(|tile| tile.iter().copied());
    DMatrix::from_iterator(tiles[0].nrows(), columns.ncols(), values)
}

/// The covariance matrix, but for a scale at which no sum of squares overflows or vanishes: directions do not depend on
/// it. The residuals are centered.
fn covariance(residuals: &[f32], dimension: usize) -> DMatrix<f64> {
    let rows = residuals.len() / dimension;
    let max_abs = residuals.iter().fold(0.0, |max_abs: f32, x| max_abs.max(x.abs()));
    // A power of two, which changes no digit.
    let scale = max_abs.recip().log2().floor().clamp(-126.0, 126.0).exp2();
    let mut sums = DMatrix::<f64>::zeros(dimension, dimension);
    for panel in residuals.chunks(PANEL_ROWS * dimension) {
        let columns = transposed(panel, dimension, scale);
        let length = columns.len() / dimension;
        let column = |i: usize| &columns[i * length..][..length];
        // Column-major: one thread writes a tile of columns.
        sums.as_mut_slice().par_chunks_mut(TILE * dimension).enumerate().for_each(|(tile, out)| {
            let dot = f32::distance_fns().dot;
            let first = tile * TILE;
            for others in (0..dimension).step_by(TILE) {
                for (j, out) in out.chunks_exact_mut(dimension).enumerate() {
                    for (i, sum) in out.iter_mut().enumerate().skip(others).take(TILE) {
                        *sum += f64::from(dot(column(first + j), column(i)));
                    }
                }
            }
        });
    }
    sums / rows as f64
}

/// The transpose of `rows`, multiplied by `scale`.
fn transposed(rows: &[f32], dimension: usize, scale: f32) -> Vec<f32> {
    let length = rows.len() / dimension;
    let mut columns = vec![0.0; rows.len()];
    columns.par_chunks_mut(length).enumerate().for_each(|(i, column)| {
        for (out, row) in column.iter_mut().zip(rows.chunks_exact(dimension)) {
            *out = row[i] * scale;
        }
    });
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mixed::haar::haar;
    use crate::space::dot;

    /// Rotated rows whose coordinates had the standard deviations `deviations`, and the rotation.
    fn rotated(deviations: &[f32], rows: usize) -> (Vec<f32>, Vec<f32>) {
        let dimension = deviations.len();
        let rotation = haar(dimension, 1);
        let mut random = rng(2);
        let plain: Vec<f32> = (0..rows * dimension)
            .map(|i| {
                let x: f32 = StandardNormal.sample(&mut random);
                x * deviations[i % dimension]
            })
            .collect();
        let mut out = vec![0.0; plain.len()];
        rotation.project(&plain, &mut out, dimension);
        let mut axes = vec![0.0; dimension * dimension];
        let unit: Vec<f32> =
            (0..dimension * dimension).map(|i| if i % (dimension + 1) == 0 { 1.0 } else { 0.0 }).collect();
        rotation.project(&unit, &mut axes, dimension);
        (out, axes)
    }

    #[test]
    fn axes_are_found_directly_and_by_iteration() {
        for (dimension, count) in [(40_usize, 8), (450, 8)] {
            let deviations: Vec<f32> = (0..dimension).map(|i| 0.6_f32.powi(i as i32).max(0.02)).collect();
            let (rows, axes) = rotated(&deviations, 3000);
            let directions = components(&rows, dimension, count, 3);
            let directions = directions.values();
            let directions: Vec<&[f32]> = directions.chunks_exact(dimension).collect();
            assert_eq!(directions.len(), count);
            for (i, direction) in directions.iter().enumerate() {
                let along = dot(direction, &axes[i * dimension..][..dimension]).abs();
                assert!(i >= 4 || along > 0.99, "dimension {dimension}, component {i}: {along}");
                for (j, other) in directions.iter().enumerate() {
                    let expected = if i == j { 1.0 } else { 0.0 };
                    assert!((dot(direction, other) - expected).abs() < 1e-5);
                }
            }
        }
    }
}
