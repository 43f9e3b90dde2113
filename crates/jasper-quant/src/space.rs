//! Residuals, and the decomposition of a distance that all quantizers use.
//!
//! With the center c, and the residuals r = v - c of a vector and p = q - c of a query, each distance is the sum of a
//! term of the vector, a term of the query, and a multiple of the product `<p, r>`, which codes estimate:
//!
//! | metric | distance | vector | query | product |
//! | --- | --- | --- | --- | --- |
//! | squared L2 | `‖q - v‖²` | `‖r‖²` | `‖p‖²` | `-2 <p, r>` |
//! | inner product | `-<q, v>` | `-<r, c>` | `-<p, c> - ‖c‖²` | `-<p, r>` |
//! | cosine, of unit vectors | `‖q - v‖² / 2` | `‖r‖² / 2` | `‖p‖² / 2` | `-<p, r>` |
//!
//! The error of an estimate is therefore that of `<p, r>` under every metric.

use jasper_core::{Element, MatrixView, Metric};

/// The metric, and the center of residuals.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Space {
    pub(crate) metric: Metric,
    pub(crate) center: Vec<f32>,
}

impl Space {
    /// Sets the center to the mean of `rows`, which must not be empty.
    pub(crate) fn from_vectors<T: Element>(metric: Metric, rows: MatrixView<'_, T>) -> Self {
        let mut space = Self { metric, center: vec![0.0; rows.dimension()] };
        let mut mean = vec![0.0_f64; rows.dimension()];
        let mut row = vec![0.0; rows.dimension()];
        for values in rows.rows() {
            T::slice_to_f32(values, &mut row);
            space.to_residual(&mut row);
            mean.iter_mut().zip(&row).for_each(|(mean, x)| *mean += f64::from(*x));
        }
        space.center = mean.iter().map(|sum| (sum / rows.len() as f64) as f32).collect();
        space
    }

    pub(crate) fn dimension(&self) -> usize {
        self.center.len()
    }

    /// Replaces a vector by its residual. For cosine, normalizes it first; zero vectors stay zero.
    pub(crate) fn to_residual(&self, row: &mut [f32]) {
        if self.metric == Metric::Cosine {
            let norm = dot(row, row).sqrt();
            if norm > 0.0 {
                row.iter_mut().for_each(|x| *x /= norm);
            }
        }
        row.iter_mut().zip(&self.center).for_each(|(x, c)| *x -= c);
    }

    /// The residuals of the `chosen` rows, row-major.
    pub(crate) fn residuals<T: Element>(
        &self,
        rows: MatrixView<'_, T>,
        chosen: impl Iterator<Item = usize>,
    ) -> Vec<f32> {
        let mut out = Vec::with_capacity(chosen.size_hint().0 * rows.dimension());
        for i in chosen {
            let first = out.len();
            out.resize(first + rows.dimension(), 0.0);
            T::slice_to_f32(rows.row(i), &mut out[first..]);
            self.to_residual(&mut out[first..]);
        }
        out
    }

    /// The multiplier of the product of residuals.
    pub(crate) fn product_weight(&self) -> f32 {
        if self.metric == Metric::L2 { -2.0 } else { -1.0 }
    }

    /// The multiplier of squared norms of residuals; 0 for inner products, which use products with the center instead.
    pub(crate) fn squared_weight(&self) -> f32 {
        match self.metric {
            Metric::L2 => 1.0,
            Metric::InnerProduct => 0.0,
            Metric::Cosine => 0.5,
        }
    }

    /// The term of a vector with this residual.
    pub(crate) fn row_term(&self, residual: &[f32], squared_norm: f32) -> f32 {
        match self.metric {
            Metric::InnerProduct => -dot(residual, &self.center),
            Metric::L2 | Metric::Cosine => self.squared_weight() * squared_norm,
        }
    }

    /// The term of a query with this residual.
    pub(crate) fn query_term(&self, residual: &[f32], squared_norm: f32) -> f32 {
        match self.metric {
            Metric::InnerProduct => -dot(residual, &self.center) - dot(&self.center, &self.center),
            Metric::L2 | Metric::Cosine => self.squared_weight() * squared_norm,
        }
    }

    /// The exact distance between two residuals.
    pub(crate) fn exact(&self, query: &[f32], row: &[f32]) -> f32 {
        self.row_term(row, dot(row, row))
            + self.query_term(query, dot(query, query))
            + self.product_weight() * dot(query, row)
    }
}

/// The dot product, summed in the fixed order of [`jasper_core::distance`].
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    (f32::distance_fns().dot)(a, b)
}

/// A grid point's products, from which its cosine with the vector it stands for follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alignment {
    /// Dot product of vector and grid point.
    pub(crate) product: f32,
    /// Squared norm of the grid point.
    pub(crate) square: f32,
}

impl Alignment {
    /// Worse than any grid point.
    pub(crate) const WORST: Self = Self { product: 0.0, square: 1.0 };

    /// Whether the cosine is greater than that of `best`. Both products must be non-negative. Compares squares by
    /// cross-multiplication, since divisions and square roots are slow on a GPU.
    pub(crate) fn has_larger_cosine(self, best: Self) -> bool {
        self.product * self.product * best.square > best.product * best.product * self.square
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_distances() {
        let rows = [3.0_f32, 1.0, -2.0, 0.5, 4.0, 1.0, 1.0, 1.0, 1.0];
        let view = MatrixView::new(&rows, 3).unwrap();
        let (query, row) = ([1.0_f32, -2.0, 3.0], [0.5_f32, 4.0, 1.0]);
        for (metric, expected) in [
            (Metric::L2, 0.25 + 36.0 + 4.0),
            (Metric::InnerProduct, 4.5),
            (Metric::Cosine, 1.0 + 4.5 / (14.0_f32 * 17.25).sqrt()),
        ] {
            let space = Space::from_vectors(metric, view);
            let residual = |mut row: [f32; 3]| {
                space.to_residual(&mut row);
                row
            };
            let distance = space.exact(&residual(query), &residual(row));
            assert!((distance - expected).abs() < 1e-4, "{metric}: {distance} {expected}");
        }
    }
}
