//! Distances of stored rows: to a query in the user's metric, and to each other in the space the graph is built in.

use jasper_core::distance::prefetch;
use jasper_core::{Element, Metric, VectorId};

use crate::Segments;

/// Rows with all that their metric needs.
///
/// Cosine rows of floats are stored at unit length, so half a squared distance is 1 - cos. Bytes cannot be scaled:
/// there, and for inner products, the squared length of each row is kept in a column.
#[derive(Debug)]
pub(crate) struct Space<T> {
    pub(crate) metric: Metric,
    pub(crate) dimension: usize,
    pub(crate) vectors: Segments<T>,
    /// Squared length of every row; present where [`needs_norms`] says so.
    pub(crate) squared_norms: Option<Segments<f32>>,
    /// M^2 of the augmented form for inner products: no row is longer.
    pub(crate) largest_squared_norm: f32,
}

/// Whether a metric needs the rows' squared lengths.
pub(crate) const fn needs_norms(metric: Metric, exact: bool) -> bool {
    matches!((metric, exact), (Metric::InnerProduct, _) | (Metric::Cosine, true))
}

/// Distances of one vector to any rows of a graph; made by [`crate::Graph::scorer`] and [`crate::Graph::row_scorer`].
pub struct Scorer<'a, T: 'static> {
    space: &'a Space<T>,
    /// The vector, padded like the rows.
    vector: &'a [T],
    squared_norm: f32,
    form: Form,
}

/// What is done with the kernel's sum.
#[derive(Clone, Copy)]
enum Form {
    /// Squared L2 as it is.
    Plain,
    /// Half of squared L2 of unit vectors: 1 - cos.
    Half,
    /// A dot product, negated.
    Negated,
    /// A dot product over both lengths: 1 - cos of vectors of any length.
    Angle,
    /// Squared L2, and the squared difference of the coordinates that make all rows equally long:
    /// sqrt(M^2 - |x|^2) of each. Bachrach et al. 2014; with the extra coordinate of a query 0, order by this is
    /// order by inner product.
    Augmented,
}

/// Rows scored by one call of a kernel: their slices stay in registers and L1.
const ROWS_AT_ONCE: usize = 64;

impl<T: Element> Space<T> {
    /// Scores in the user's metric. `vector` is padded, and of unit length where the metric is cosine on floats.
    pub(crate) fn query_scorer<'a>(&'a self, vector: &'a [T]) -> Scorer<'a, T> {
        let form = match (self.metric, T::EXACT) {
            (Metric::L2, _) => Form::Plain,
            (Metric::InnerProduct, _) => Form::Negated,
            (Metric::Cosine, false) => Form::Half,
            (Metric::Cosine, true) => Form::Angle,
        };
        let squared_norm = if matches!(form, Form::Angle) { (T::kernels().dot)(vector, vector) } else { 0.0 };
        Scorer { space: self, vector, squared_norm, form }
    }

    /// Scores a stored row against others in the space the graph is built in.
    pub(crate) fn row_scorer(&self, slot: VectorId) -> Scorer<'_, T> {
        let vector = self.vectors.row(slot.index());
        match (&self.squared_norms, self.metric) {
            (Some(norms), Metric::InnerProduct) => {
                Scorer { space: self, vector, squared_norm: norms.at(slot.index()), form: Form::Augmented }
            }
            _ => self.query_scorer(vector),
        }
    }

    fn norm_of(&self, slot: VectorId) -> f32 {
        self.squared_norms.as_ref().map_or(1.0, |norms| norms.at(slot.index()))
    }

    fn extra_coordinate(&self, squared_norm: f32) -> f32 {
        (self.largest_squared_norm - squared_norm).max(0.0).sqrt()
    }
}

impl<T: Element> Scorer<'_, T> {
    /// Distances to the rows `ids`, into `out` of the same length. Ids may repeat; each must be a slot of the graph.
    pub fn score(&self, ids: &[VectorId], out: &mut [f32]) {
        assert_eq!(ids.len(), out.len());
        let kernels = T::kernels();
        let kernel = match self.form {
            Form::Plain | Form::Half | Form::Augmented => kernels.squared_l2_many,
            Form::Negated | Form::Angle => kernels.dot_many,
        };
        for (ids, out) in ids.chunks(ROWS_AT_ONCE).zip(out.chunks_mut(ROWS_AT_ONCE)) {
            let mut rows: [&[T]; ROWS_AT_ONCE] = [&[]; ROWS_AT_ONCE];
            for (row, id) in rows.iter_mut().zip(ids) {
                *row = self.space.vectors.row(id.index());
            }
            kernel(self.vector, &rows[..ids.len()], out);
            self.finish(ids, out);
        }
    }

    /// Distance to the row `id`.
    pub fn score_one(&self, id: VectorId) -> f32 {
        let mut out = [0.0];
        self.score(&[id], &mut out);
        out[0]
    }

    /// Asks the memory system for a row that will be scored soon.
    #[inline]
    pub fn prefetch(&self, id: VectorId) {
        prefetch(self.space.vectors.row(id.index()));
    }

    fn finish(&self, ids: &[VectorId], out: &mut [f32]) {
        match self.form {
            Form::Plain => {}
            Form::Half => out.iter_mut().for_each(|d| *d *= 0.5),
            Form::Negated => out.iter_mut().for_each(|d| *d = -*d),
            Form::Angle => {
                for (d, &id) in out.iter_mut().zip(ids) {
                    *d = 1.0 - *d / (self.squared_norm * self.space.norm_of(id)).sqrt();
                }
            }
            Form::Augmented => {
                let own = self.space.extra_coordinate(self.squared_norm);
                for (d, &id) in out.iter_mut().zip(ids) {
                    *d += (own - self.space.extra_coordinate(self.space.norm_of(id))).powi(2);
                }
            }
        }
    }
}
