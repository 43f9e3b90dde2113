//! A uniformly random rotation, as a matrix.

use jasper_core::synthetic::rng;
use nalgebra::{DMatrix, DVector};
use rand_distr::{Distribution, StandardNormal};

use crate::projection::Projection;

/// Reflections per block.
const BLOCK: usize = 64;

/// Draws a rotation of `dimension` coordinates from the Haar measure, uniform over all rotations. Costs D³ operations.
///
/// It is Q of the QR decomposition of a Gaussian matrix, with columns multiplied by the signs of R's diagonal; without
/// the signs the distribution would depend on the convention of the decomposition (Mezzadri 2007). The matrix itself is
/// not needed: after a Householder reflection, the rows below are Gaussian again, so each reflection is that of a fresh
/// Gaussian vector, one coordinate shorter than the last (Stewart 1980). Computed in f64 and rounded to f32.
pub(super) fn haar(dimension: usize, seed: u64) -> Projection {
    let mut random = rng(seed);
    let mut signs = DVector::zeros(dimension);
    let reflections: Vec<DVector<f64>> = (0..dimension)
        .map(|i| {
            let column = DVector::from_fn(dimension - i, |_, _| StandardNormal.sample(&mut random));
            let (reflection, sign) = reflection_of(column);
            signs[i] = sign;
            reflection
        })
        .collect();
    let q = product(&reflections, DMatrix::from_diagonal(&signs));
    // nalgebra is column-major, so this is the transpose, which is uniform as well.
    let values: Vec<f32> = q.iter().map(|x| *x as f32).collect();
    Projection::new(&values, dimension)
}

/// The unit vector v whose reflection `1 - 2 v vᵀ` takes `column` to the first axis, and the sign that it has there.
fn reflection_of(mut column: DVector<f64>) -> (DVector<f64>, f64) {
    // Reflects away from the axis, to avoid cancellation.
    let sign = column[0].signum();
    column[0] += sign * column.norm();
    (column.normalize(), -sign)
}

/// The product of all reflections, the first leftmost, with the diagonal matrix `last`. A reflection by a shorter
/// vector acts on the last coordinates.
///
/// A block of reflections is `1 - V T Vᵀ`, with V their vectors and T triangular (Schreiber and Van Loan 1989). Blocks
/// are applied from right to left, so that each meets a matrix that is diagonal outside the coordinates on which it
/// acts.
fn product(reflections: &[DVector<f64>], last: DMatrix<f64>) -> DMatrix<f64> {
    let mut q = last;
    for (block, vectors) in reflections.chunks(BLOCK).enumerate().rev() {
        let first = block * BLOCK;
        let reach = q.nrows() - first;
        let v = DMatrix::from_fn(reach, vectors.len(), |i, j| if i < j { 0.0 } else { vectors[j][i - j] });
        let transposed = v.transpose();
        let triangle = triangle(&(&transposed * &v));
        let mut rest = q.view_mut((first, first), (reach, reach));
        let moved = triangle * (transposed * &rest);
        rest.gemm(-1.0, &v, &moved, 1.0);
    }
    q
}

/// T of a block of reflections, from the dot products of their unit vectors.
fn triangle(products: &DMatrix<f64>) -> DMatrix<f64> {
    let mut t = DMatrix::zeros(products.nrows(), products.ncols());
    for j in 0..t.ncols() {
        let above = t.view((0, 0), (j, j)) * products.view((0, j), (j, 1)) * -2.0;
        t.view_mut((0, j), (j, 1)).copy_from(&above);
        t[(j, j)] = 2.0;
    }
    t
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::dot;

    /// Compares blocks of reflections with single reflections, and with the decomposition itself.
    #[test]
    fn the_product_is_q_of_the_decomposition() {
        for dimension in [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 22] {
            let mut random = rng(dimension as u64);
            let gaussian =
                DMatrix::from_fn(dimension, dimension, |_, _| -> f64 { StandardNormal.sample(&mut random) });
            let (mut reflections, mut signs) = (Vec::new(), DVector::zeros(dimension));
            let mut left = gaussian.clone();
            for i in 0..dimension {
                let column = left.view((i, i), (dimension - i, 1)).column(0).into_owned();
                let (v, sign) = reflection_of(column);
                let mut rest = left.view_mut((i, i), (dimension - i, dimension - i));
                let moved = v.transpose() * &rest;
                rest.gemm(-2.0, &v, &moved, 1.0);
                assert_eq!(rest[(0, 0)].signum(), sign);
                reflections.push(v);
                signs[i] = sign;
            }
            let ours = product(&reflections, DMatrix::from_diagonal(&signs));
            let (mut q, r) = gaussian.qr().unpack();
            for (mut column, diagonal) in q.column_iter_mut().zip(r.diagonal().iter()) {
                column *= diagonal.signum();
            }
            assert!((&ours - q).amax() < 1e-10, "dimension {dimension}");
        }
    }

    #[test]
    fn rotations_are_orthonormal_and_decided_by_the_seed() {
        for dimension in (2..40).chain([64, 96, 128, 200, 384, 960, 1536, 4096]) {
            let values = haar(dimension, dimension as u64).values();
            let row = |i: usize| &values[i * dimension..][..dimension];
            for i in (0..dimension).step_by(dimension.div_ceil(64)) {
                for j in 0..dimension {
                    let expected = if i == j { 1.0 } else { 0.0 };
                    let product = dot(row(i), row(j));
                    assert!(
                        (product - expected).abs() < 1e-5,
                        "dimension {dimension}: {product} of {i}, {j}"
                    );
                }
            }
        }
        assert_eq!(haar(70, 3), haar(70, 3));
        assert_ne!(haar(70, 3), haar(70, 4));
    }
}
