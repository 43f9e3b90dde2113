//! Three numbers that make estimates right near the answer.
//!
//! What a code leaves out is not orthogonal to a query that lies near the row: both share it. So the product is
//! estimated as
//!
//! ```text
//! <p, r>  ~  (b1 + b3 k) <p, r̂> + b2 ‖r - r̂‖²,    k = ‖r‖² / ‖r̂‖² - 1
//! ```
//!
//! with r̂ the code's multiple nearest to the residual r. The numbers are fitted by least squares on pairs of held-out
//! queries and rows, weighted by 1 / `‖p - r‖²`, for it is the near rows whose order matters. They go into a row's two
//! factors and cost nothing in a search.

use nalgebra::{Matrix3, Vector3};
use rayon::prelude::*;

use super::Mixed;
use super::quantize::{Reconstruction, quantize};
use crate::projection::ENCODE_ROWS;
use crate::quantizer::Coder;
use crate::space::dot;
use crate::wide::Buffers;

/// Nearest rows of a query that the fit looks at, and as many others spread over the sample: far rows keep it sane.
const NEAR: usize = 64;
/// How hard the numbers are held to (1, 0, 0), as a share of the data's own weight: decides where data do not.
const RIDGE: f64 = 1e-6;

/// The numbers of the fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fitted {
    pub(super) b1: f32,
    pub(super) b2: f32,
    pub(super) b3: f32,
    /// The largest k of the rows that the fit saw; larger ones count as this.
    pub(super) largest_k: f32,
}

impl Fitted {
    /// What the code says, and nothing more.
    pub(super) const NONE: Self = Self { b1: 1.0, b2: 0.0, b3: 0.0, largest_k: 0.0 };

    /// `‖r‖² / ‖r̂‖² - 1` as the fit takes it; 0 where nothing was coded.
    pub(super) fn k(&self, reconstruction: &Reconstruction) -> f32 {
        let Reconstruction { coded, missed, .. } = *reconstruction;
        if coded > 0.0 { (missed / coded).min(self.largest_k) } else { 0.0 }
    }
}

/// A row of the sample, as the estimator sees it.
struct Row {
    /// Coordinates of r̂ along the directions.
    point: Vec<f32>,
    reconstruction: Reconstruction,
}

/// Fits the numbers of `mixed`, which has none yet, to residuals of `queries` and `rows` (both `n x dimension`), on the
/// current pool of threads.
pub(super) fn fit(mixed: &Mixed, queries: &[f32], rows: &[f32]) -> Fitted {
    let dimension = mixed.common.space.dimension();
    if queries.is_empty() || rows.is_empty() {
        return Fitted::NONE;
    }
    let coded: Vec<Row> =
        rows.par_chunks(ENCODE_ROWS * dimension).flat_map_iter(|rows| reconstruct(mixed, rows)).collect();
    let largest_k = largest_usual_k(&coded);
    let fitted = Fitted { largest_k, ..Fitted::NONE };
    let (normal, right) = queries
        .par_chunks(dimension)
        .map(|query| equations(mixed, &fitted, query, rows, &coded))
        // In order, so that the sum does not depend on threads.
        .collect::<Vec<_>>()
        .into_iter()
        .fold((Matrix3::zeros(), Vector3::zeros()), |(normal, right), (n, r)| (normal + n, right + r));
    let ridge = Matrix3::from_diagonal(&(normal.diagonal() * RIDGE));
    let start = Vector3::new(1.0, 0.0, 0.0);
    // Without a tail, or with a tail in proportion, the equations say less than three things: the ridge decides, and
    // where even it is zero the numbers stay as they are.
    match (normal + ridge).lu().solve(&(right - normal * start)) {
        Some(change) if change.iter().all(|x| x.is_finite()) => {
            let b = start + change;
            Fitted { b1: b[0] as f32, b2: b[1] as f32, b3: b[2] as f32, largest_k }
        }
        _ => fitted,
    }
}

/// The k that all but one row in a hundred stay below.
fn largest_usual_k(rows: &[Row]) -> f32 {
    let mut all: Vec<f32> = rows
        .iter()
        .map(|row| row.reconstruction)
        .filter(|reconstruction| reconstruction.coded > 0.0)
        .map(|reconstruction| reconstruction.missed / reconstruction.coded)
        .collect();
    if all.is_empty() {
        return 0.0;
    }
    let at = (all.len() - 1) * 99 / 100;
    *all.select_nth_unstable_by(at, f32::total_cmp).1
}

/// Codes residuals and decodes them.
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

/// The normal equations of one query.
fn equations(
    mixed: &Mixed,
    fitted: &Fitted,
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
        let parts =
            Vector3::new(along, reconstruction.missed, fitted.k(reconstruction) * along).map(f64::from);
        let squared_distance: f64 = query.iter().zip(row(i)).map(|(p, r)| f64::from(p - r).powi(2)).sum();
        if squared_distance > 0.0 {
            normal += parts * parts.transpose() / squared_distance;
            right += parts * (f64::from(dot(query, row(i))) / squared_distance);
        }
    }
    (normal, right)
}
