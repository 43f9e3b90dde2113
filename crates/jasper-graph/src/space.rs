//! Distances of stored rows: to a query in the user's metric, and to each other in the space the graph is built in.

use std::io;

use jasper_core::distance::prefetch;
use jasper_core::{Element, ElementKind, Metric, VectorId};

use crate::Segments;
use crate::codes::CodedRows;
use crate::sketch::{Bounds, SketchedVector, Sketches};

/// Rows with all that their metric needs.
///
/// Cosine rows of floats are stored at unit length, so half a squared distance is 1 - cos. Bytes cannot be scaled:
/// there, and for inner products, the squared length of each row is kept in a column.
#[derive(Debug)]
pub(crate) struct Space<T> {
    pub(crate) metric: Metric,
    pub(crate) dimension: usize,
    pub(crate) vectors: Segments<T>,
    /// Whether rows are there, or only their codes.
    pub(crate) has_vectors: bool,
    /// Squared length of every row; present where [`needs_norms`] says so.
    pub(crate) squared_norms: Option<Segments<f32>>,
    /// No row is longer, and none ever was: for inner products, where a prune's slack counts from it.
    pub(crate) largest_squared_norm: f32,
    /// Made on demand, kept in step with the rows, never saved.
    pub(crate) sketches: Option<Sketches>,
    /// Made on demand, kept in step with the rows, and saved with them.
    pub(crate) codes: Option<CodedRows>,
}

/// Whether a metric needs the rows' squared lengths.
pub const fn needs_norms(metric: Metric, exact: bool) -> bool {
    matches!((metric, exact), (Metric::InnerProduct, _) | (Metric::Cosine, true))
}

/// Distances of one vector to any rows of a graph; made by [`crate::Graph::scorer`] and [`crate::Graph::row_scorer`].
pub struct Scorer<'a, T: 'static> {
    space: &'a Space<T>,
    /// The vector, padded like the rows.
    vector: &'a [T],
    squared_norm: f32,
    form: Form,
    /// The vector's own sketch, where one was made.
    sketched: Option<SketchedVector>,
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
}

/// Rows scored by one call of a kernel: their slices stay in registers and L1.
const ROWS_AT_ONCE: usize = 64;
/// Bytes of rows that are asked for before they are scored: the kernel asks for the later ones itself.
const PREFETCHED_BYTES: usize = 8192;

impl<T: Element> Space<T> {
    /// Scores in the user's metric. `vector` is padded, and of unit length where the metric is cosine on floats.
    pub(crate) fn query_scorer<'a>(&'a self, vector: &'a [T]) -> Scorer<'a, T> {
        let form = self.form();
        let squared_norm = if matches!(form, Form::Angle) { (T::kernels().dot)(vector, vector) } else { 0.0 };
        Scorer { space: self, vector, squared_norm, form, sketched: None }
    }

    /// Scores a stored row against others in the space the graph is built in.
    pub(crate) fn row_scorer(&self, slot: VectorId) -> Scorer<'_, T> {
        let vector = self.vectors.row(slot.index());
        let form = self.form();
        let (form, squared_norm) = match form {
            Form::Angle => (form, self.norm_of(slot)),
            _ => (form, 0.0),
        };
        Scorer { space: self, vector, squared_norm, form, sketched: None }
    }

    /// How queries are scored.
    fn form(&self) -> Form {
        match (self.metric, T::EXACT) {
            (Metric::L2, _) => Form::Plain,
            (Metric::InnerProduct, _) => Form::Negated,
            (Metric::Cosine, false) => Form::Half,
            (Metric::Cosine, true) => Form::Angle,
        }
    }

    /// Takes the sketches of all rows, or of the rows in `chosen` slots, in the place of what sketches there are; if the
    /// element is long enough to be worth it. Where none are chosen there are none to look for.
    pub(crate) fn sketch(&mut self, chosen: Option<&[VectorId]>) -> io::Result<()> {
        self.sketches = None;
        if !self.has_vectors || T::KIND != ElementKind::F32 || chosen.is_some_and(<[_]>::is_empty) {
            return Ok(());
        }
        let mut sketches = match chosen {
            Some(chosen) => Sketches::for_slots(self.dimension, chosen, self.vectors.len())?,
            None => Sketches::new(self.dimension),
        };
        sketches.resize(self.vectors.len())?;
        for row in 0..self.vectors.len() {
            sketches.set(row, self.vectors.row(row));
        }
        self.sketches = Some(sketches);
        Ok(())
    }

    fn norm_of(&self, slot: VectorId) -> f32 {
        self.squared_norms.as_ref().map_or(1.0, |norms| norms.at(slot.index()))
    }
}

impl<T: Element> Scorer<'_, T> {
    /// Distances to the rows `ids`, into `out` of the same length. Ids may repeat; each must be a slot of the graph.
    pub fn score(&self, ids: &[VectorId], out: &mut [f32]) {
        assert_eq!(ids.len(), out.len());
        let kernels = T::kernels();
        let kernel = match self.form {
            Form::Plain | Form::Half => kernels.squared_l2_many,
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

    /// The same, with a sketch of the vector where rows have sketches: for what is compared with hundreds of rows.
    pub fn sketched(self) -> Self {
        let sketched = self.space.sketches.as_ref().map(|sketches| sketches.sketch_vector(self.vector));
        Self { sketched, ..self }
    }

    /// Takes those of `ids` out whose distance is more than `limit` by their sketches alone, which is all that is read.
    /// Without [`Self::sketched`], nothing happens.
    pub fn sift(&self, limit: f32, ids: &mut Vec<VectorId>) {
        let (Some(vector), Some(sketches)) = (&self.sketched, &self.space.sketches) else { return };
        if limit < f32::INFINITY {
            sketches.retain(vector, ids, |bounds| self.least(bounds) <= limit);
        }
    }

    /// Asks the memory system for what [`Self::sift`] and, where there are no sketches, [`Self::score`] will read first.
    #[inline]
    pub fn prefetch_sift(&self, ids: &[VectorId]) {
        match &self.space.sketches {
            Some(sketches) => ids.iter().for_each(|id| sketches.prefetch(id.index())),
            None => self.prefetch_score(ids),
        }
    }

    /// Asks the memory system for the rows that [`Self::score`] will read first, as many as a cache may hold for a
    /// few searches at once.
    #[inline]
    pub fn prefetch_score(&self, ids: &[VectorId]) {
        let rows = (PREFETCHED_BYTES / size_of_val(self.vector)).max(2);
        ids.iter().take(rows).for_each(|id| prefetch(self.space.vectors.row(id.index())));
    }

    /// The least distance that the bounds of a row allow.
    fn least(&self, bounds: Bounds) -> f32 {
        match self.form {
            Form::Plain => bounds.squared_l2,
            Form::Half => 0.5 * bounds.squared_l2,
            Form::Negated => -bounds.dot,
            Form::Angle => f32::NEG_INFINITY,
        }
    }

    /// Distance to the row `id`.
    pub fn score_one(&self, id: VectorId) -> f32 {
        let mut out = [0.0];
        self.score(&[id], &mut out);
        out[0]
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
        }
    }
}
