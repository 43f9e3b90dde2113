//! Correction coefficients that remove the bias of estimates near the query.
//!
//! The part of a residual that the code leaves out is not orthogonal to a query near the vector, because the query
//! shares it. The product is therefore estimated as
//!
//! ```text
//! <p, r>  ~  (b1 + b3 k) <p, r̂> + b2 ‖r - r̂‖²,    k = ‖r‖² / ‖r̂‖² - 1
//! ```
//!
//! with r̂ the multiple of the grid point nearest to the residual r, and p the residual of the query. b1, b2 and b3 are
//! fitted by least squares to pairs of held-out queries and vectors, weighted by 1 / `‖p - r‖²`, since the order of
//! near vectors matters most. They are folded into the two factors of a code, so that they cost a search nothing.

use bytemuck::{Pod, Zeroable};
use nalgebra::{Matrix3, Vector3};
use rayon::prelude::*;

use super::Mixed;
use super::quantize::{Reconstruction, quantize};
use crate::projection::ENCODE_ROWS;
use crate::quantizer::Codec;
use crate::simd::Buffers;
use crate::space::dot;

/// Pairs per query: this many nearest vectors, and about as many evenly sampled ones, which stabilize the fit.
const NEAR: usize = 64;
/// Weight of the regularization towards (1, 0, 0), relative to the data.
const RIDGE: f64 = 1e-6;

/// The correction coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Correction {
    pub(super) b1: f32,
    pub(super) b2: f32,
    pub(super) b3: f32,
    /// The maximum of k: larger ones are clamped to it.
    pub(super) max_k: f32,
}

impl Correction {
    /// No correction.
    pub(super) const NONE: Self = Self { b1: 1.0, b2: 0.0, b3: 0.0, max_k: 0.0 };

    /// k of a row, clamped; 0 if nothing was coded.
    pub(super) fn k(&self, reconstruction: &Reconstruction) -> f32 {
        let Reconstruction { squared_norm, squared_error, .. } = *reconstruction;
        if squared_norm > 0.0 { (squared_error / squared_norm).min(self.max_k) } else { 0.0 }
    }
}

/// A vector of the sample, encoded and decoded.
struct Row {
    /// Coordinates of r̂ along the directions.
    point: Vec<f32>,
    reconstruction: Reconstruction,
}

/// Bytes of a [`Row`] with this many coordinates, twice without them: rows are collected by each thread first.
pub(super) fn row_bytes(coded: usize) -> usize {
    coded * size_of::<f32>() + 2 * size_of::<Row>()
}

/// Fits the coefficients of `mixed` to the residuals `queries` and `rows` (both `n x dimension`), on the current thread
/// pool.
pub(super) fn fit(mixed: &Mixed, queries: &[f32], rows: &[f32]) -> Correction {
    let dimension = mixed.common.space.dimension();
    if queries.is_empty() || rows.is_empty() {
        return Correction::NONE;
    }
    let coded: Vec<Row> =
        rows.par_chunks(ENCODE_ROWS * dimension).flat_map_iter(|rows| reconstruct(mixed, rows)).collect();
    let max_k = percentile_99_of_k(&coded);
    let correction = Correction { max_k, ..Correction::NONE };
    let (normal, right) = queries
        .par_chunks(dimension)
        .map(|query| equations(mixed, &correction, query, rows, &coded))
        // The terms are collected first, so that the order of the sum does not depend on threads.
        .collect::<Vec<_>>()
        .into_iter()
        .fold((Matrix3::zeros(), Vector3::zeros()), |(normal, right), (n, r)| (normal + n, right + r));
    let ridge = Matrix3::from_diagonal(&(normal.diagonal() * RIDGE));
    let start = Vector3::new(1.0, 0.0, 0.0);
    // The system is singular if the codes leave nothing out, or always the same fraction. The regularization then
    // decides; if that is zero as well, there is no correction.
    match (normal + ridge).lu().solve(&(right - normal * start)) {
        Some(change) if change.iter().all(|x| x.is_finite()) => {
            let b = start + change;
            Correction { b1: b[0] as f32, b2: b[1] as f32, b3: b[2] as f32, max_k }
        }
        _ => correction,
    }
}

/// The 99th percentile of k.
fn percentile_99_of_k(rows: &[Row]) -> f32 {
    let mut all: Vec<f32> = rows
        .iter()
        .map(|row| row.reconstruction)
        .filter(|reconstruction| reconstruction.squared_norm > 0.0)
        .map(|reconstruction| reconstruction.squared_error / reconstruction.squared_norm)
        .collect();
    if all.is_empty() {
        return 0.0;
    }
    let at = (all.len() - 1) * 99 / 100;
    *all.select_nth_unstable_by(at, f32::total_cmp).1
}

/// Encodes and decodes residuals.
fn reconstruct(mixed: &Mixed, rows: &[f32]) -> Vec<Row> {
    let (dimension, coded) = (mixed.common.space.dimension(), mixed.common.layout.dimensions());
    let mut rotated = vec![0.0; rows.len() / dimension * coded];
    mixed.rotate(rows, &mut rotated);
    let (mut levels, mut buffers) = (vec![0; coded], Buffers::default());
    rows.chunks_exact(dimension)
        .zip(rotated.chunks_exact(coded))
        .map(|(row, rotated)| {
            let reconstruction = quantize(rotated, dot(row, row), &mixed.steps, &mut buffers, &mut levels);
            let point = mixed.points(&levels).map(|x| x * reconstruction.scale).collect();
            Row { point, reconstruction }
        })
        .collect()
}

/// The normal equations of one query's pairs.
fn equations(
    mixed: &Mixed,
    correction: &Correction,
    query: &[f32],
    rows: &[f32],
    coded: &[Row],
) -> (Matrix3<f64>, Vector3<f64>) {
    let row = |i: usize| &rows[i * query.len()..][..query.len()];
    let mut rotated = vec![0.0; mixed.common.layout.dimensions()];
    mixed.rotate(query, &mut rotated);

    let mut order: Vec<(f32, usize)> =
        (0..coded.len()).map(|i| (mixed.common.space.exact(query, row(i)), i)).collect();
    let near = NEAR.min(order.len());
    if near < order.len() {
        order.select_nth_unstable_by(near, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    }
    let mut chosen: Vec<usize> = order[..near].iter().map(|(_, i)| *i).collect();
    chosen.extend((0..coded.len()).step_by(coded.len().div_ceil(NEAR)));

    let (mut normal, mut right) = (Matrix3::zeros(), Vector3::zeros());
    for i in chosen {
        let Row { point, reconstruction } = &coded[i];
        let along = dot(&rotated, point);
        let terms = Vector3::new(along, reconstruction.squared_error, correction.k(reconstruction) * along)
            .map(f64::from);
        let squared_distance: f64 = query.iter().zip(row(i)).map(|(p, r)| f64::from(p - r).powi(2)).sum();
        if squared_distance > 0.0 {
            normal += terms * terms.transpose() / squared_distance;
            right += terms * (f64::from(dot(query, row(i))) / squared_distance);
        }
    }
    (normal, right)
}
