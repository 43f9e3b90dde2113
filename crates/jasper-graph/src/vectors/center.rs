//! Where the products of vectors start from when they choose edges, under inner products: from zero, or from the center.
//!
//! A query ranks vectors the same wherever the origin is: its products with `x` and with `x - center` differ by the same
//! number for all. The products among vectors do not. From zero, vectors with a common part have the largest products
//! with the few that are longest along it. All edges lead to these, and queries from another side find nothing. From the
//! center, edges lead to the extremes in all directions, and queries that share the common part, which are the usual
//! ones, need many more steps. So each vertex has an [`Origin`]: zero if it is far along the center, among the results
//! of queries that share it, else the center (docs/notebook/experiments.md#inner-products-two-origins).
//!
//! With `term(x) = ⟨x, center⟩ - ‖center‖² / 2`, `⟨x - center, y - center⟩ = ⟨x, y⟩ - term(x) - term(y)`: a number per
//! vector takes the place of a subtraction per coordinate. It also tells how far a vector is along the center.

use jasper_core::Element;

/// Where products of a vertex start from when its edges are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From zero, as those of a query.
    Zero,
    /// From the center of the vectors.
    Center,
}

/// The center of the vectors under inner products; all zeros under other metrics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Center {
    /// `[padded dimension]`; empty where terms are not computed.
    pub(crate) coordinates: Vec<f32>,
    pub(crate) half_squared_norm: f32,
    /// The origin of vertices with a larger term is zero.
    pub(crate) zero_above: f32,
    /// By origin: upper bounds of the squared norms of vectors from there, deleted ones included.
    pub(crate) largest_squared_norms: [f32; 2],
    /// By origin: the weight of the terms of two vectors in their distance, beside the negated product.
    pub(crate) term_weights: [f32; 2],
}

impl Center {
    /// A center of these coordinates followed by zeros.
    pub(crate) fn new(coordinates: &[f32], width: usize) -> Self {
        let mut padded = coordinates.to_vec();
        padded.resize(width, 0.0);
        let half_squared_norm = 0.5 * (f32::distance_fns().dot)(&padded, &padded);
        Self { coordinates: padded, half_squared_norm, term_weights: [0.0, 1.0], ..Self::default() }
    }

    /// The center for vectors that are multiples of `scale` of the differences from it, as those of SQ8. Terms stay those
    /// of the vectors themselves.
    pub fn of_scaled_differences(&self, scale: f32) -> Self {
        let square = scale * scale;
        Self {
            coordinates: Vec::new(),
            term_weights: [-square, 0.0],
            largest_squared_norms: self.largest_squared_norms.map(|norm| norm * square),
            ..*self
        }
    }

    /// Whether vectors have the same terms for this center and another.
    pub fn has_same_terms(&self, other: &Self) -> bool {
        self.coordinates == other.coordinates
    }

    /// `[padded dimension]`: the coordinates, followed by zeros.
    pub(crate) fn coordinates(&self) -> &[f32] {
        &self.coordinates
    }

    /// Whether the center is zero, and with it all terms.
    pub(crate) fn is_zero(&self) -> bool {
        self.half_squared_norm == 0.0
    }

    /// The term of a padded vector, and its squared norms by origin. `values` is scratch memory.
    pub(crate) fn term_and_norms<T: Element>(&self, row: &[T], values: &mut Vec<f32>) -> (f32, [f32; 2]) {
        let fns = f32::distance_fns();
        values.resize(row.len(), 0.0);
        T::slice_to_f32(row, values);
        let term = (fns.dot)(values, &self.coordinates) - self.half_squared_norm;
        (term, [(fns.dot)(values, values), (fns.squared_l2)(values, &self.coordinates)])
    }

    /// Sets [`Self::zero_above`] for vectors of these terms: a vertex that is further along the center than the mean, by
    /// more than a standard deviation, starts from zero.
    pub(crate) fn choose_origins(&mut self, terms: impl Iterator<Item = f32> + Clone) {
        let count = terms.clone().count().max(1) as f64;
        let mean = terms.clone().map(f64::from).sum::<f64>() / count;
        let variance = terms.map(|term| (f64::from(term) - mean).powi(2)).sum::<f64>() / count;
        self.zero_above = (mean + variance.sqrt()) as f32;
    }

    /// The origin of a vertex of this term.
    pub fn origin(&self, term: f32) -> Origin {
        if term > self.zero_above { Origin::Zero } else { Origin::Center }
    }

    /// The largest term of vertices whose origin is the center.
    pub fn zero_above(&self) -> f32 {
        self.zero_above
    }

    /// By [`Origin`]: the weight of the terms in a distance, which is the weighted sum of both terms less the product.
    pub fn term_weights(&self) -> [f32; 2] {
        self.term_weights
    }

    /// By [`Origin`]: what pruning adds to distances before it multiplies them by alpha, so that no sum is negative: the
    /// largest squared norm from there. Among vectors as far from the origin, the sum is half the squared L2 distance,
    /// so alpha has the same meaning.
    pub fn alpha_offsets(&self) -> [f32; 2] {
        self.largest_squared_norms
    }
}
