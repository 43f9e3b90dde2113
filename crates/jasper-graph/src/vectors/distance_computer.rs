//! Exact distances to stored vectors, by metric.

use jasper_core::distance::prefetch_l2;
use jasper_core::{Element, Metric, Neighbor, Slot, with_element};

use super::sketch::{Bounds, SketchedVector};
use super::{Origin, VectorTable};

/// Whether distances need a [term](VectorTable::terms) of each vector. `exact` says that the element is an integer.
pub const fn needs_terms(metric: Metric, exact: bool) -> bool {
    matches!((metric, exact), (Metric::InnerProduct, _) | (Metric::Cosine, true))
}

/// Computes distances from one query. The methods are the steps of a hop of a search, in order.
pub trait ComputeDistances {
    /// Prefetches the memory that [`Self::discard_beyond`] reads.
    fn prefetch_bounds(&self, slots: &[Slot]);
    /// Removes some of the slots that are farther than `limit`: by default none.
    fn discard_beyond(&self, _limit: f32, _slots: &mut Vec<Slot>) {}
    /// Prefetches the memory that [`Self::compute`] reads first, unless [`Self::prefetch_bounds`] did.
    fn prefetch_distances(&self, _slots: &[Slot]) {}
    /// Writes the distances to `slots` to `out`, of the same length.
    fn compute(&self, slots: &[Slot], out: &mut [f32]);
}

/// Distances of one vector to stored ones, in the metric of the graph: those of a query, made by
/// [`VectorTable::distance_computer`], or those that choose edges, made by [`VectorTable::slot_distance_computer`].
pub struct DistanceComputer<'a, T> {
    vectors: &'a VectorTable,
    /// The query, padded, of the element of the table.
    vector: &'a [T],
    /// The [term](VectorTable::terms) of the query, if the form needs one.
    term: f32,
    /// The weight of terms.
    term_weight: f32,
    form: DistanceForm,
    sketched: Option<SketchedVector>,
}

/// How a distance follows from the sum that a kernel returns; the same as the `DistanceForm` of GPU kernels.
#[derive(Clone, Copy)]
enum DistanceForm {
    SquaredL2,
    /// 1 - cos of unit vectors.
    HalfSquaredL2,
    NegatedDot,
    /// The negated dot product of vectors from some [`Origin`].
    NegatedDotFromOrigin,
    /// 1 - cos of vectors of any length.
    Cosine,
}

/// Vectors per kernel call: their slices stay in registers and L1.
const CHUNK_ROWS: usize = 64;
/// Bytes of vectors that are prefetched into L2 before their distances are computed; the kernel prefetches later ones
/// itself.
const PREFETCHED_BYTES: usize = 1 << 16;

impl VectorTable {
    /// Returns the distances of a prepared query to stored vectors.
    ///
    /// # Panics
    /// Panics if `prepared` is not a padded vector of the table's [element](Self::element).
    pub fn distance_computer<'a, T: Element>(&'a self, prepared: &'a [T]) -> DistanceComputer<'a, T> {
        self.require_element::<T>();
        assert_eq!(prepared.len(), self.padded_dimension(), "a query is prepared first");
        let form = self.form();
        let squared_norm = || (T::distance_fns().dot)(prepared, prepared);
        let term = if let DistanceForm::Cosine = form { squared_norm() } else { 0.0 };
        DistanceComputer { vectors: self, vector: prepared, term, term_weight: 0.0, form, sketched: None }
    }

    /// Returns the distances of a stored vector to others by which its edges are chosen: those of a query except under
    /// inner products, which start from its [origin](Self::origin).
    ///
    /// # Panics
    /// Panics if `slot` is out of range, vectors were dropped, or `T` is not their [element](Self::element).
    pub fn slot_distance_computer<T: Element>(&self, slot: Slot) -> DistanceComputer<'_, T> {
        self.distance_computer_from(self.origin(slot), slot)
    }

    /// Returns the distances of [`Self::slot_distance_computer`] to some vectors.
    ///
    /// # Panics
    /// Panics if a slot is out of range, or vectors were dropped.
    pub fn slot_distances(&self, slot: Slot, others: &[Slot]) -> Vec<f32> {
        let mut distances = vec![0.0; others.len()];
        with_element!(self.element, T => {
            self.slot_distance_computer::<T>(slot).compute(others, &mut distances);
        });
        distances
    }

    /// Returns the distances of a stored vector to others by which the edges of vertices of this origin are chosen.
    ///
    /// # Panics
    /// Panics as [`Self::slot_distance_computer`] does.
    pub fn distance_computer_from<T: Element>(&self, origin: Origin, slot: Slot) -> DistanceComputer<'_, T> {
        let form = match self.form() {
            DistanceForm::NegatedDot => DistanceForm::NegatedDotFromOrigin,
            form => form,
        };
        let (vector, term) = (self.padded(slot), self.term(slot));
        let term_weight = self.center.term_weights()[origin as usize];
        DistanceComputer { vectors: self, vector, term, term_weight, form, sketched: None }
    }

    /// Returns a neighbor of the vertex `slot` with its distance from the neighbor's own origin, for the reversed edge.
    pub fn reversed(&self, slot: Slot, neighbor: Neighbor) -> Neighbor {
        let [from, to] = [slot, neighbor.slot()].map(|slot| self.origin(slot));
        if from == to {
            return neighbor;
        }
        let weights = self.center.term_weights();
        let change = weights[to as usize] - weights[from as usize];
        let terms = self.term(slot) + self.term(neighbor.slot());
        Neighbor::new(neighbor.distance() + change * terms, neighbor.slot())
    }

    fn form(&self) -> DistanceForm {
        match (self.metric, self.element.is_integer()) {
            (Metric::L2, _) => DistanceForm::SquaredL2,
            (Metric::InnerProduct, _) => DistanceForm::NegatedDot,
            (Metric::Cosine, false) => DistanceForm::HalfSquaredL2,
            (Metric::Cosine, true) => DistanceForm::Cosine,
        }
    }

    pub(crate) fn term(&self, slot: Slot) -> f32 {
        self.terms.as_ref().map_or(0.0, |terms| terms.at(slot.index()))
    }
}

impl<T: Element> DistanceComputer<'_, T> {
    /// Writes the distances to the vectors `slots` to `out`, of the same length. Slots may repeat.
    ///
    /// # Panics
    /// Panics if a slot is out of range.
    pub fn compute(&self, slots: &[Slot], out: &mut [f32]) {
        assert_eq!(slots.len(), out.len());
        let fns = T::distance_fns();
        let kernel = match self.form {
            DistanceForm::SquaredL2 | DistanceForm::HalfSquaredL2 => fns.squared_l2_many,
            DistanceForm::NegatedDot | DistanceForm::NegatedDotFromOrigin | DistanceForm::Cosine => {
                fns.dot_many
            }
        };
        for (slots, out) in slots.chunks(CHUNK_ROWS).zip(out.chunks_mut(CHUNK_ROWS)) {
            let mut rows: [&[T]; CHUNK_ROWS] = [&[]; CHUNK_ROWS];
            for (row, slot) in rows.iter_mut().zip(slots) {
                *row = self.vectors.row(*slot);
            }
            kernel(self.vector, &rows[..slots.len()], out);
            self.finish(slots, out);
        }
    }

    /// Returns the distance to the vector `slot`.
    pub fn distance_to(&self, slot: Slot) -> f32 {
        let mut out = [0.0];
        self.compute(&[slot], &mut out);
        out[0]
    }

    /// Adds a sketch of the vector, if the stored vectors have sketches. This pays off for hundreds of distances.
    pub fn sketched(self) -> Self {
        let sketched = self.vectors.sketches.as_ref().map(|sketches| sketches.sketch_vector(self.vector));
        Self { sketched, ..self }
    }
}

impl<T: Element> ComputeDistances for DistanceComputer<'_, T> {
    #[inline]
    fn prefetch_bounds(&self, slots: &[Slot]) {
        match &self.vectors.sketches {
            Some(sketches) => slots.iter().for_each(|slot| sketches.prefetch(slot.index())),
            None => self.prefetch_distances(slots),
        }
    }

    /// Reads nothing but sketches. Without [`Self::sketched`], removes none.
    fn discard_beyond(&self, limit: f32, slots: &mut Vec<Slot>) {
        let (Some(vector), Some(sketches)) = (&self.sketched, &self.vectors.sketches) else { return };
        if limit < f32::INFINITY {
            sketches.retain(vector, slots, |slot, bounds| self.lower_bound(slot, bounds) <= limit);
        }
    }

    /// Prefetches as many vectors as L2 holds for a few searches at once.
    #[inline]
    fn prefetch_distances(&self, slots: &[Slot]) {
        let rows = (PREFETCHED_BYTES / size_of_val(self.vector)).max(2);
        slots.iter().take(rows).for_each(|slot| prefetch_l2(self.vectors.row::<T>(*slot)));
    }

    fn compute(&self, slots: &[Slot], out: &mut [f32]) {
        DistanceComputer::compute(self, slots, out);
    }
}

impl<T: Element> DistanceComputer<'_, T> {
    /// The least distance that the bounds of a sketch allow.
    fn lower_bound(&self, slot: Slot, bounds: Bounds) -> f32 {
        match self.form {
            DistanceForm::SquaredL2 => bounds.squared_l2,
            DistanceForm::HalfSquaredL2 => 0.5 * bounds.squared_l2,
            DistanceForm::NegatedDot => -bounds.dot,
            DistanceForm::NegatedDotFromOrigin => {
                self.term_weight * (self.term + self.vectors.term(slot)) - bounds.dot
            }
            DistanceForm::Cosine => f32::NEG_INFINITY,
        }
    }

    fn finish(&self, slots: &[Slot], out: &mut [f32]) {
        match self.form {
            DistanceForm::SquaredL2 => {}
            DistanceForm::HalfSquaredL2 => out.iter_mut().for_each(|d| *d *= 0.5),
            DistanceForm::NegatedDot => out.iter_mut().for_each(|d| *d = -*d),
            DistanceForm::NegatedDotFromOrigin => {
                for (d, &slot) in out.iter_mut().zip(slots) {
                    *d = self.term_weight * (self.term + self.vectors.term(slot)) - *d;
                }
            }
            DistanceForm::Cosine => {
                for (d, &slot) in out.iter_mut().zip(slots) {
                    *d = 1.0 - *d / (self.term * self.vectors.term(slot)).sqrt();
                }
            }
        }
    }
}
