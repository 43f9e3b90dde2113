//! The reference: a rotation drawn uniformly.

use jasper_core::synthetic::rng;
use nalgebra::DMatrix;
use rand_distr::{Distribution, StandardNormal};

use crate::projection::Projection;

/// A rotation of `dimension` coordinates, uniform over all of them (Haar measure).
///
/// Q of the QR decomposition of a Gaussian matrix, its columns given the signs of R's diagonal: without the signs the
/// distribution follows the convention of the decomposition (Mezzadri 2007). In f64, rounded to f32 at the end.
pub(super) fn haar(dimension: usize, seed: u64) -> Projection {
    let mut random = rng(seed);
    let gaussian =
        DMatrix::from_fn(dimension, dimension, |_, _| -> f64 { StandardNormal.sample(&mut random) });
    let (mut q, r) = gaussian.qr().unpack();
    for (mut column, diagonal) in q.column_iter_mut().zip(r.diagonal().iter()) {
        column *= diagonal.signum();
    }
    // nalgebra keeps columns together; any rotation is as good as its transpose.
    Projection::new(q.iter().map(|x| *x as f32).collect(), dimension)
}
