//! The stored vectors: their table, norms, sketches and quantized codes.
//!
//! | module | holds |
//! | --- | --- |
//! | `block` | the unit of rows, whose element type is a value |
//! | `prepare` | conversion of a user's vector to its stored form |
//! | `center` | where products start from when they choose edges |
//! | `distance_computer` | exact distances, by metric |
//! | `sketch` | int8 sketches, which give lower bounds of distances |
//! | `codes` | quantized codes, which give estimates of distances |
//! | `sq8` | the vectors quantized to bytes, by whose distances builds choose edges |

mod block;
mod center;
pub(crate) mod codes;
mod distance_computer;
pub(crate) mod prepare;
pub(crate) mod sketch;
mod sq8;

use std::io;

use jasper_core::{Element, ElementKind, Metric, Slot, VectorView, with_element};

use crate::{Segments, VectorChunk, VectorError};
pub(crate) use block::Block;
pub use center::{Center, Origin};
pub use codes::{CodeChunk, CodeDistanceComputer, Codes, KeptVectors};
pub use distance_computer::{ComputeDistances, DistanceComputer, needs_terms};
pub use prepare::{check_element, check_vector, prepare_in_place, prepare_vector, stores_as_given};
pub use sketch::{SketchChunk, Sketches};

/// The vectors of a graph, one per slot, in their element type.
///
/// Rows are padded with zeros to a multiple of 16 bytes. Under the cosine metric float vectors are stored at unit
/// length, so half a squared distance is 1 - cos. Byte vectors cannot be scaled: a column has their squared norms. Under
/// inner products it has the products with the [center](Self::center).
#[derive(Debug)]
pub struct VectorTable {
    pub(crate) element: ElementKind,
    pub(crate) metric: Metric,
    pub(crate) dimension: usize,
    pub(crate) table: Segments<Block>,
    /// Whether the vectors are stored, or only their codes.
    pub(crate) is_stored: bool,
    /// What distances need of each vector, if [`needs_terms`]: see [`Self::terms`].
    pub(crate) terms: Option<Segments<f32>>,
    pub(crate) center: Center,
    /// The sketches, which are never saved.
    pub(crate) sketches: Option<Sketches>,
    pub(crate) codes: Option<Codes>,
    /// The vectors quantized to bytes, which are never saved.
    pub(crate) sq8: Option<Box<VectorTable>>,
    /// What there was when the transaction began.
    pub(crate) undo: Option<Undo>,
}

/// If the origins of fewer than one vertex in this many would change, none is changed.
const CHANGED_DIVISOR: usize = 64;

/// What a rollback restores.
#[derive(Debug)]
pub(crate) struct Undo {
    slots: usize,
    largest_squared_norms: [f32; 2],
    /// The center, if it was [replaced](VectorTable::replace_center) since.
    center: Option<Center>,
}

impl VectorTable {
    /// `slots` zero vectors.
    pub(crate) fn zeroed(
        element: ElementKind,
        metric: Metric,
        dimension: usize,
        slots: usize,
    ) -> io::Result<Self> {
        let width = element.padded_len(dimension);
        let table = Segments::zeroed(slots, width * element.size() / size_of::<Block>())?;
        let terms =
            needs_terms(metric, element.is_integer()).then(|| Segments::zeroed(slots, 1)).transpose()?;
        Ok(Self {
            element,
            metric,
            dimension,
            table,
            is_stored: true,
            terms,
            center: if metric == Metric::InnerProduct { Center::new(&[], width) } else { Center::default() },
            sketches: None,
            codes: None,
            sq8: None,
            undo: None,
        })
    }

    /// Returns the vector of a slot, which is normalized if the metric is cosine and the element a float.
    ///
    /// # Panics
    /// Panics if `slot` is out of range, vectors were dropped, or `T` is not their [element](Self::element).
    pub fn get<T: Element>(&self, slot: Slot) -> &[T] {
        &self.padded(slot)[..self.dimension]
    }

    /// Returns the vector of a slot with its padding.
    ///
    /// # Panics
    /// Panics as [`Self::get`] does.
    #[inline]
    pub fn padded<T: Element>(&self, slot: Slot) -> &[T] {
        self.require_element::<T>();
        self.row(slot)
    }

    /// [`Self::padded`], where the element is known.
    #[inline(always)]
    pub(crate) fn row<T: Element>(&self, slot: Slot) -> &[T] {
        debug_assert_eq!(T::KIND, self.element);
        Block::cast(self.table.row(slot.index()))
    }

    /// Writes the first coordinates of a vector, as many as `out` has room for, as f32.
    ///
    /// # Panics
    /// Panics if `slot` is out of range, vectors were dropped, or `out` is longer than a padded vector.
    pub fn read_f32(&self, slot: Slot, out: &mut [f32]) {
        with_element!(self.element, T => T::slice_to_f32(&self.row::<T>(slot)[..out.len()], out));
    }

    /// Returns the vector of a slot, as [`Self::get`], of whatever element type.
    ///
    /// # Panics
    /// Panics if `slot` is out of range, or vectors were dropped.
    pub fn view(&self, slot: Slot) -> VectorView<'_> {
        with_element!(self.element, T => self.get::<T>(slot).into())
    }

    /// Returns the bytes of the vector of a slot, with its padding.
    ///
    /// # Panics
    /// Panics if `slot` is out of range, or vectors were dropped.
    pub fn padded_bytes(&self, slot: Slot) -> &[u8] {
        bytemuck::cast_slice(self.table.row(slot.index()))
    }

    /// Returns the type of a coordinate.
    pub fn element(&self) -> ElementKind {
        self.element
    }

    #[inline]
    fn require_element<T: Element>(&self) {
        assert!(T::KIND == self.element, "the element of the table");
    }

    /// Number of coordinates of a [padded](Self::padded) vector.
    pub fn padded_dimension(&self) -> usize {
        self.element.padded_len(self.dimension)
    }

    /// Bytes of a [padded](Self::padded) vector.
    pub fn row_bytes(&self) -> usize {
        self.element.row_bytes(self.dimension)
    }

    /// Returns what distances need of each vector beside its coordinates: the squared norm, under cosine for bytes;
    /// under inner products, its product with the [center](Self::center), less half of the center's squared norm; else
    /// nothing.
    pub fn terms(&self) -> Option<&Segments<f32>> {
        self.terms.as_ref()
    }

    /// Returns the center of the vectors, under inner products.
    pub fn center(&self) -> &Center {
        &self.center
    }

    /// Returns the coordinates of the [center](Self::center), which is about the mean of the first thousand vectors or
    /// more; zeros in graphs of other libraries. Empty under other metrics.
    pub fn center_coordinates(&self) -> &[f32] {
        &self.center.coordinates()[..self.dimension.min(self.center.coordinates().len())]
    }

    /// Sets the center, and the terms of the vectors of `slots`, which ascend. `update` gets chunks that different
    /// threads may [update](VectorChunk::update_terms).
    pub(crate) fn set_center(
        &mut self,
        center: Center,
        slots: &[Slot],
        update: impl FnOnce(Vec<VectorChunk<'_>>),
    ) {
        self.replace_center(center);
        self.update_chunks(slots, update);
        if let Some(terms) = &self.terms {
            self.center.choose_origins(slots.iter().map(|slot| terms.at(slot.index())));
        }
    }

    /// What the origins of the vectors of `slots` would be if they were chosen for these alone: see
    /// [`Graph::other_origins`](crate::Graph::other_origins).
    pub(crate) fn other_origins(&self, slots: &[Slot]) -> Option<(f32, Vec<Slot>)> {
        let mut center = self.center.clone();
        center.choose_origins(slots.iter().map(|&slot| self.term(slot)));
        let is_changed = |&&slot: &&Slot| center.origin(self.term(slot)) != self.origin(slot);
        let changed: Vec<Slot> = slots.iter().filter(is_changed).copied().collect();
        let are_few = changed.is_empty() || changed.len() * CHANGED_DIVISOR < slots.len();
        (!are_few).then_some((center.zero_above(), changed))
    }

    /// Replaces the center, and keeps the old one for a rollback.
    pub(crate) fn replace_center(&mut self, center: Center) {
        let old = std::mem::replace(&mut self.center, center);
        if let Some(undo) = &mut self.undo {
            undo.center.get_or_insert(old);
        }
        self.sq8 = None;
    }

    /// Returns where products with the vertex `slot` start from when its edges are chosen.
    pub fn origin(&self, slot: Slot) -> Origin {
        self.center.origin(self.term(slot))
    }

    /// Returns what pruning the edges of a vertex of this origin adds to distances before it multiplies them by alpha: 0
    /// except under [inner products](Center::alpha_offsets).
    pub fn alpha_offset(&self, origin: Origin) -> f32 {
        self.center.alpha_offsets()[origin as usize]
    }

    /// Converts a user's vector to its stored form in `out`: padded with zeros, and at unit length under the cosine
    /// metric if the element is a float. Returns the squared norm before that. `row` is named in errors.
    ///
    /// # Errors
    /// Returns [`VectorError`] if the vector cannot be stored.
    pub fn prepare<T: Element>(
        &self,
        row: usize,
        vector: &[T],
        out: &mut Vec<T>,
    ) -> Result<f32, VectorError> {
        self.check_shape(row, vector.into())?;
        out.resize(self.padded_dimension(), T::default());
        prepare_vector(self.metric, row, vector, out)
    }

    /// Checks a user's vector as [`Self::prepare`] does.
    ///
    /// # Errors
    /// Returns [`VectorError`] if the vector cannot be stored.
    pub fn check(&self, row: usize, vector: VectorView<'_>) -> Result<(), VectorError> {
        self.check_shape(row, vector)?;
        with_element!(self.element, T => check_vector::<T>(self.metric, row, vector.of()).map(drop))
    }

    fn check_shape(&self, row: usize, vector: VectorView<'_>) -> Result<(), VectorError> {
        check_element(vector.element(), self.element)?;
        let [given, expected] = [vector.len(), self.dimension];
        if given == expected { Ok(()) } else { Err(VectorError::Dimension { row, given, expected }) }
    }

    /// Converts many vectors, as [`Self::prepare`], into one table of padded rows.
    ///
    /// # Errors
    /// Returns [`VectorError`], naming the row.
    pub fn prepare_all<'v, T: Element>(
        &self,
        vectors: impl ExactSizeIterator<Item = &'v [T]>,
    ) -> Result<Vec<T>, VectorError> {
        let mut all = Vec::with_capacity(vectors.len() * self.padded_dimension());
        let mut prepared = Vec::new();
        for (row, vector) in vectors.enumerate() {
            self.prepare(row, vector, &mut prepared)?;
            all.extend_from_slice(&prepared);
        }
        Ok(all)
    }

    /// Returns the quantized codes, if there are any.
    pub fn codes(&self) -> Option<&Codes> {
        self.codes.as_ref()
    }

    /// Returns the size of the vectors, with padding and terms, in bytes.
    pub fn bytes(&self) -> usize {
        self.table.bytes() + self.terms.as_ref().map_or(0, Segments::bytes)
    }

    /// Returns the size of the codes in bytes; 0 where there are none.
    pub fn code_bytes(&self) -> usize {
        self.codes.as_ref().map_or(0, |codes| codes.table.bytes())
    }

    /// Returns the size of the sketches in bytes; 0 where there are none.
    pub fn sketch_bytes(&self) -> usize {
        self.sketches.as_ref().map_or(0, Sketches::bytes)
    }

    /// Makes sketches of the vectors in `slots`, or of all. `compute` gets chunks, which different threads may
    /// [compute](SketchChunk::compute). `None` for elements other than f32, which have no sketches.
    ///
    /// # Errors
    /// Returns an error if memory cannot be allocated.
    pub fn new_sketches(
        &self,
        slots: Option<&[Slot]>,
        compute: impl FnOnce(Vec<SketchChunk<'_>>),
    ) -> io::Result<Option<Sketches>> {
        if !self.is_stored || self.element != ElementKind::F32 || slots.is_some_and(<[_]>::is_empty) {
            return Ok(None);
        }
        let mut sketches = Sketches::new(self.dimension, slots, self.table.len())?;
        compute(sketches.chunks(self, slots));
        Ok(Some(sketches))
    }

    /// Sets the [sketches](Self::new_sketches) of the current vectors, and keeps them up to date. Searches then skip most
    /// vectors that are too far away without reading them; results stay the same. Sketches of f32 take a quarter of the
    /// memory of the vectors.
    ///
    /// # Panics
    /// Panics unless the vectors are of f32, if there are sketches.
    pub fn set_sketches(&mut self, sketches: Option<Sketches>) {
        assert!(sketches.is_none() || self.element == ElementKind::F32, "only vectors of f32 have sketches");
        self.sketches = sketches;
    }

    /// Returns how many of `slots` vectors can have sketches in a budget of `bytes`, and the bytes that these take,
    /// with the table that maps slots to sketches. (0, 0) for elements without sketches.
    pub fn sketches_within(
        element: ElementKind,
        bytes: usize,
        slots: usize,
        dimension: usize,
    ) -> (usize, usize) {
        if element != ElementKind::F32 {
            return (0, 0);
        }
        let (map, row) = (slots * size_of::<u32>(), sketch::row_bytes(dimension));
        match (bytes.saturating_sub(map) / row).min(slots) {
            0 => (0, 0),
            rows => (rows, map + rows * row),
        }
    }

    pub(crate) fn resize(&mut self, slots: usize) -> io::Result<()> {
        self.sq8 = None;
        if self.is_stored {
            self.table.resize(slots)?;
        }
        if let Some(terms) = &mut self.terms {
            terms.resize(slots)?;
        }
        if let Some(sketches) = &mut self.sketches {
            sketches.resize(slots)?;
        }
        if let Some(codes) = &mut self.codes {
            codes.table.resize(slots)?;
        }
        Ok(())
    }

    /// Number of slots for whose vectors there is memory.
    pub(crate) fn capacity(&self) -> usize {
        let stored = self.is_stored.then(|| self.table.capacity());
        let terms = self.terms.as_ref().map(Segments::capacity);
        let sketches = self.sketches.as_ref().map(Sketches::capacity);
        let codes = self.codes.as_ref().map(|codes| codes.table.capacity());
        [stored, terms, sketches, codes].into_iter().flatten().min().unwrap_or(0)
    }

    /// The vectors for searches, in the same memory.
    pub(crate) fn share(&self) -> Self {
        let share_codes =
            |codes: &Codes| Codes { quantizer: codes.quantizer.clone(), table: codes.table.share() };
        Self {
            element: self.element,
            metric: self.metric,
            dimension: self.dimension,
            table: self.table.share(),
            is_stored: self.is_stored,
            terms: self.terms.as_ref().map(Segments::share),
            center: self.center.clone(),
            sketches: self.sketches.as_ref().map(Sketches::share),
            codes: self.codes.as_ref().map(share_codes),
            sq8: None,
            undo: None,
        }
    }

    /// A copy without what is never saved.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            element: self.element,
            metric: self.metric,
            dimension: self.dimension,
            table: self.table.try_clone()?,
            is_stored: self.is_stored,
            terms: self.terms.as_ref().map(Segments::try_clone).transpose()?,
            center: self.center.clone(),
            sketches: None,
            codes: self.codes.as_ref().map(Codes::try_clone).transpose()?,
            sq8: None,
            undo: None,
        })
    }

    pub(crate) fn load(&mut self) -> io::Result<()> {
        self.table.load()?;
        if let Some(terms) = &mut self.terms {
            terms.load()?;
        }
        if let Some(codes) = &mut self.codes {
            codes.table.load()?;
        }
        Ok(())
    }

    /// Updates the sketches, and drops the vectors quantized to bytes, after the vectors of `slots` were written.
    ///
    /// # Safety
    /// No share reads the sketches of these slots.
    pub(crate) unsafe fn note_written(&mut self, slots: &[Slot]) {
        self.sq8 = None;
        if let Some(sketches) = &mut self.sketches {
            for slot in slots {
                // SAFETY: the caller's.
                unsafe { sketches.set_fresh(slot.index(), Block::cast(self.table.row(slot.index()))) };
            }
        }
    }

    /// Copies everything about a vector to another slot.
    pub(crate) fn copy(&mut self, from: Slot, to: Slot) {
        self.sq8 = None;
        if self.is_stored {
            let vector = self.table.row(from.index()).to_vec();
            self.table.row_mut(to.index()).copy_from_slice(&vector);
            if let Some(sketches) = &mut self.sketches {
                sketches.set(to.index(), Block::cast(&vector));
            }
        }
        if let Some(codes) = &mut self.codes {
            let code = codes.table.row(from.index()).to_vec();
            codes.table.row_mut(to.index()).copy_from_slice(&code);
        }
        if let Some(terms) = &mut self.terms {
            terms.set(to.index(), terms.at(from.index()));
        }
    }

    pub(crate) fn begin(&mut self, slots: usize) {
        let largest_squared_norms = self.center.largest_squared_norms;
        self.undo = Some(Undo { slots, largest_squared_norms, center: None });
    }

    pub(crate) fn commit(&mut self) {
        self.undo = None;
    }

    /// Returns whether the center is another than before.
    pub(crate) fn rollback(&mut self) -> bool {
        let Some(Undo { slots, largest_squared_norms, center }) = self.undo.take() else { return false };
        self.resize(slots).expect("shrinking a table needs no memory");
        let is_recentered = center.is_some();
        if let Some(old) = center {
            let has_same_terms = self.center.has_same_terms(&old);
            self.center = old;
            // Without slots, nothing is computed.
            let slots = if has_same_terms { 0 } else { slots };
            let slots: Vec<Slot> = (0..slots).map(Slot::from_index).collect();
            self.update_chunks(&slots, |chunks| chunks.into_iter().for_each(VectorChunk::update_terms));
        }
        self.center.largest_squared_norms = largest_squared_norms;
        is_recentered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sketches_of_some_slots_take_the_bytes_announced() {
        const SLOTS: usize = 1000;
        let within = |bytes| VectorTable::sketches_within(ElementKind::F32, bytes, SLOTS, 20);
        for bytes in [4048, 9000, 1 << 20] {
            let (rows, taken) = within(bytes);
            let chosen: Vec<Slot> = (0..rows).map(Slot::from_index).collect();
            assert_eq!(Sketches::new(20, Some(&chosen), SLOTS).unwrap().bytes(), taken, "{rows} rows");
            assert!(rows > 0 && taken <= bytes && (rows == SLOTS || taken + 48 > bytes), "{rows} rows");
        }
        assert_eq!(within(4047), (0, 0), "no room beside the table of all slots");
        assert_eq!(VectorTable::sketches_within(ElementKind::U8, 1 << 20, SLOTS, 20), (0, 0));
    }
}
