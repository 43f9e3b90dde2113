//! Stores vectors: one, or many from several threads.

use std::ops::Range;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use jasper_core::{Element, ElementKind, MAX_VECTORS, Metric, Slot, with_element};

use super::Graph;
use crate::segments::RowsMut;
use crate::vectors::codes::Encoder;
use crate::vectors::{Block, Center};
use crate::{SEGMENT_ROWS, VectorError, VectorTable};

/// Vectors of a chunk: few enough that there are chunks for all threads if vectors are long, and that they are near
/// each other in memory.
const CHUNK_ROWS: usize = 1024;
const CHUNK_BYTES: usize = 256 << 10;

/// Some of the vectors that are being added, to be written by one thread: see [`Graph::add_vectors`].
#[derive(Debug)]
pub struct VectorChunk<'a> {
    /// Number of the first among all vectors that are added.
    first: usize,
    slots: &'a [Slot],
    /// Rows of the table from the first of `slots` to the last. The columns below have the same range. Only those of
    /// `slots` are accessed.
    rows: RowsMut<'a, Block>,
    element: ElementKind,
    terms: Option<RowsMut<'a, f32>>,
    /// Under inner products.
    center: Option<&'a Center>,
    /// By origin: the bits of the largest squared norm, which order as the numbers do.
    largest_squared_norms: &'a [AtomicU32; 2],
    /// Scratch memory.
    values: Vec<f32>,
    codes: Option<(Encoder<'a>, RowsMut<'a, u32>)>,
}

impl VectorChunk<'_> {
    /// Returns the numbers of the vectors to write, among all that are added.
    pub fn numbers(&self) -> Range<usize> {
        self.first..self.first + self.slots.len()
    }

    /// Writes a prepared vector, whose squared norm before preparation is given.
    ///
    /// # Panics
    /// Panics if `number` is not one of [`Self::numbers`], or `prepared` not a padded vector of the table's element.
    pub fn set<T: Element>(&mut self, number: usize, prepared: &[T], squared_norm: f32) {
        assert_eq!(T::KIND, self.element, "the element of the table");
        let row = self.slots[number - self.first].index() - self.slots[0].index();
        Block::cast_mut(self.rows.row(row)).copy_from_slice(prepared);
        match self.center {
            Some(center) if center.is_zero() => {
                self.terms.iter_mut().for_each(|terms| terms.row(row)[0] = 0.0);
                self.note_norms([squared_norm; 2]);
            }
            Some(_) => self.update_term(row),
            None => self.terms.iter_mut().for_each(|norms| norms.row(row)[0] = squared_norm),
        }
        if let Some((encoder, codes)) = &mut self.codes {
            encoder.encode(prepared, prepared.len(), codes.row(row));
        }
    }

    /// Writes the [terms](VectorTable::terms) of vectors that are there, for another center.
    pub fn update_terms(mut self) {
        for &slot in self.slots {
            self.update_term(slot.index() - self.slots[0].index());
        }
    }

    fn update_term(&mut self, row: usize) {
        let (Some(center), Some(terms)) = (self.center, &mut self.terms) else { return };
        let row_blocks = &*self.rows.row(row);
        let (term, squared_norms) = with_element!(self.element, T => {
            center.term_and_norms::<T>(Block::cast(row_blocks), &mut self.values)
        });
        terms.row(row)[0] = term;
        self.note_norms(squared_norms);
    }

    fn note_norms(&self, squared_norms: [f32; 2]) {
        for (largest, norm) in self.largest_squared_norms.iter().zip(squared_norms) {
            largest.fetch_max(norm.to_bits(), Relaxed);
        }
    }
}

impl Graph {
    /// Stores a prepared vector in the lowest free slot, or a new one, as a tombstone without edges or keys.
    ///
    /// # Errors
    /// Returns the errors of [`Self::add_vectors`].
    pub fn add_vector<T: Element>(&mut self, prepared: &[T], squared_norm: f32) -> Result<Slot, VectorError> {
        let write = |chunks: Vec<VectorChunk<'_>>| {
            chunks.into_iter().for_each(|mut chunk| chunk.set(0, prepared, squared_norm));
        };
        Ok(self.add_vectors(1, write)?[0])
    }

    /// Adds `count` vectors as tombstones without edges or keys, and returns their slots in ascending order: the free
    /// ones, from the lowest on, then new ones. `write` sets the vectors of all chunks, from as many threads as it
    /// likes.
    ///
    /// # Errors
    /// Returns [`VectorError::Full`], [`VectorError::NoVectors`] or [`VectorError::Memory`]; nothing is added.
    ///
    /// # Panics
    /// Panics if a snapshot still [reads free slots](Self::are_free_slots_unread).
    pub fn add_vectors(
        &mut self,
        count: usize,
        write: impl FnOnce(Vec<VectorChunk<'_>>),
    ) -> Result<Vec<Slot>, VectorError> {
        self.require_vectors()?;
        self.readers.require_none_retired();
        let reused = count.min(self.keys.free());
        let new = self.slots()..self.slots() + (count - reused);
        if new.end > MAX_VECTORS {
            return Err(VectorError::Full);
        }
        let slots: Vec<Slot> =
            self.keys.free.iter().take(reused).chain(new.clone().map(Slot::from_index)).collect();
        self.resize(new.end)?;
        self.keys.occupy(&slots[..reused], new);
        // SAFETY: snapshots that had a vertex in one of the slots, or as many slots, are dropped, as was checked; later
        // ones have none there and do not read it.
        unsafe {
            self.vectors.write_chunks(&slots, write);
            self.vectors.note_written(&slots);
        }
        Ok(slots)
    }

    /// Sets the [center](VectorTable::center) of the vectors, under inner products, and the origin of each vertex. `update`
    /// gets chunks that different threads may [update](VectorChunk::update_terms). Does nothing under other metrics.
    ///
    /// # Panics
    /// Panics if `center` has another dimension than the vectors.
    #[doc(hidden)]
    pub fn set_center(&mut self, center: &[f32], update: impl FnOnce(Vec<VectorChunk<'_>>)) {
        if self.metric() == Metric::InnerProduct {
            assert_eq!(center.len(), self.dimension(), "a coordinate per dimension");
            let vertices: Vec<Slot> = self.keys.vertices().collect();
            self.vectors.set_center(Center::new(center, self.vectors.padded_dimension()), &vertices, update);
            self.log_center();
        }
    }

    /// Under inner products, what the [origins](VectorTable::origin) of live vertices would be if they were chosen again: the
    /// largest term of those that start from the center, and the vertices whose origin would be another. `None` if these
    /// are less than one in 64.
    #[doc(hidden)]
    pub fn other_origins(&self) -> Option<(f32, Vec<Slot>)> {
        let live: Vec<Slot> = self.keys.live_slots().collect();
        if self.metric() == Metric::InnerProduct { self.vectors.other_origins(&live) } else { None }
    }

    /// Changes the origins as [`Self::other_origins`] says.
    #[doc(hidden)]
    pub fn set_origins(&mut self, zero_above: f32) {
        self.vectors.replace_center(Center { zero_above, ..self.vectors.center().clone() });
        self.log_center();
    }
}

impl VectorTable {
    /// Calls `write` with the rows of `slots`, which ascend, in chunks, and raises the largest squared norms.
    ///
    /// # Safety
    /// No share reads the rows of these slots.
    pub(crate) unsafe fn write_chunks(&mut self, slots: &[Slot], write: impl FnOnce(Vec<VectorChunk<'_>>)) {
        let largest = self.center.largest_squared_norms.map(|norm| AtomicU32::new(norm.to_bits()));
        // SAFETY: the caller's.
        write(unsafe { self.chunks_mut(slots, &largest) });
        self.center.largest_squared_norms = largest.map(|bits| f32::from_bits(bits.into_inner()));
    }

    /// As [`Self::write_chunks`], for rows that shares may read: these keep what they have.
    pub(crate) fn update_chunks(&mut self, slots: &[Slot], update: impl FnOnce(Vec<VectorChunk<'_>>)) {
        self.table.unshare_rows(slots);
        self.terms.iter_mut().for_each(|terms| terms.unshare_rows(slots));
        self.codes.iter_mut().for_each(|codes| codes.table.unshare_rows(slots));
        // SAFETY: no share has the segments of these rows.
        unsafe { self.write_chunks(slots, update) };
    }

    /// The rows of `slots`, which ascend, in chunks within a segment.
    ///
    /// # Safety
    /// No share reads the rows of these slots.
    unsafe fn chunks_mut<'a>(
        &'a mut self,
        slots: &'a [Slot],
        largest_squared_norms: &'a [AtomicU32; 2],
    ) -> Vec<VectorChunk<'a>> {
        let element = self.element;
        let segments = slots.chunk_by(|a, b| a.index() / SEGMENT_ROWS == b.index() / SEGMENT_ROWS);
        let rows = (CHUNK_BYTES / (self.table.width() * size_of::<Block>()).max(1)).clamp(1, CHUNK_ROWS);
        let chunks: Vec<&[Slot]> = segments.flat_map(|slots| slots.chunks(rows)).collect();
        let ranges = || chunks.iter().map(|slots| slots[0].index()..slots[slots.len() - 1].index() + 1);
        // SAFETY: the caller's; a chunk accesses the rows of its slots only.
        let tables = unsafe { self.table.fresh_ranges(ranges()) };
        // SAFETY: the same.
        let mut terms = self.terms.as_mut().map(|terms| unsafe { terms.fresh_ranges(ranges()) });
        let center = (self.metric == Metric::InnerProduct).then_some(&self.center);
        let mut codes = self.codes.as_mut().map(|codes| {
            let quantizer = &*codes.quantizer;
            // SAFETY: the same.
            let tables = unsafe { codes.table.fresh_ranges(ranges()) };
            tables.map(move |codes| (Encoder::new(quantizer), codes))
        });
        let mut first = 0;
        let chunk = |(&slots, rows)| {
            let terms = terms.as_mut().and_then(Iterator::next);
            let codes = codes.as_mut().and_then(Iterator::next);
            let values = Vec::new();
            let chunk = VectorChunk {
                first,
                slots,
                rows,
                element,
                terms,
                center,
                largest_squared_norms,
                values,
                codes,
            };
            first += slots.len();
            chunk
        };
        chunks.iter().zip(tables).map(chunk).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Origin;
    use jasper_core::{BuildParams, Neighbor};

    #[test]
    fn free_slots_come_first_and_others_keep_their_rows() {
        let vertices = SEGMENT_ROWS + 10;
        let mut graph = Graph::new(ElementKind::U8, Metric::Cosine, 16, BuildParams::default()).unwrap();
        let add = |graph: &mut Graph, count, x: u8| {
            let write = |chunks: Vec<VectorChunk<'_>>| {
                for mut chunk in chunks {
                    chunk.numbers().for_each(|number| chunk.set(number, &[x; 16], number as f32));
                }
            };
            graph.add_vectors(count, write).unwrap()
        };
        add(&mut graph, vertices, 1);
        let free = [2, 7, SEGMENT_ROWS - 1, SEGMENT_ROWS, SEGMENT_ROWS + 9];
        free.into_iter().for_each(|slot| graph.release(Slot::from_index(slot)));
        let slots = add(&mut graph, 7, 2);
        assert!(slots.iter().map(|slot| slot.index()).eq(free.into_iter().chain([vertices, vertices + 1])));
        for slot in (0..vertices).map(Slot::from_index) {
            let number = slots.iter().position(|&new| new == slot);
            assert_eq!(graph.vectors().padded::<u8>(slot), [1 + u8::from(number.is_some()); 16]);
            let norm = graph.vectors().terms().unwrap().at(slot.index());
            assert_eq!(norm, number.unwrap_or(slot.index()) as f32);
        }
        assert_eq!((graph.keys().free(), graph.keys().tombstones()), (0, vertices + 2));
    }

    /// A line of vectors along the center, of which those beyond a standard deviation start from zero.
    #[test]
    fn origins_follow_the_center() {
        let mut graph =
            Graph::new(ElementKind::F32, Metric::InnerProduct, 2, BuildParams::default()).unwrap();
        let add = |graph: &mut Graph, x: f32| graph.add_vector(&[x, 1.0, 0.0, 0.0], x * x + 1.0).unwrap();
        let slots: Vec<Slot> = (0..10).map(|x| add(&mut graph, x as f32)).collect();
        let update = |chunks: Vec<VectorChunk<'_>>| chunks.into_iter().for_each(VectorChunk::update_terms);
        let term = |graph: &Graph, slot: Slot| graph.vectors().terms().unwrap().at(slot.index());
        assert!(slots.iter().all(|&slot| term(&graph, slot) == 0.0));

        graph.begin();
        graph.set_center(&[4.5, 1.0], update);
        assert_eq!(term(&graph, slots[2]), 2.0 * 4.5 + 1.0 - (4.5 * 4.5 + 1.0) / 2.0);
        assert_eq!(graph.vectors().center().alpha_offsets(), [82.0, 4.5 * 4.5]);
        for (x, &slot) in slots.iter().enumerate() {
            // The standard deviation of 0 to 9 is 2.87.
            let origin = if x > 7 { Origin::Zero } else { Origin::Center };
            assert_eq!(graph.vectors().origin(slot), origin);
            let start = if origin == Origin::Zero { [0.0; 2] } else { [4.5, 1.0] };
            let distance = graph.vectors().slot_distance_computer::<f32>(slot).distance_to(slots[3]);
            let product = (x as f32 - start[0]) * (3.0 - start[0]) + (1.0 - start[1]) * (1.0 - start[1]);
            assert_eq!(distance, -product);
            let reversed = graph.vectors().reversed(slot, Neighbor::new(distance, slots[3]));
            let back = graph.vectors().slot_distance_computer::<f32>(slots[3]).distance_to(slot);
            assert_eq!(reversed, Neighbor::new(back, slots[3]));
        }
        let new = add(&mut graph, 20.0);
        assert_eq!(graph.vectors().origin(new), Origin::Zero);
        assert_eq!(graph.vectors().center().alpha_offsets(), [401.0, 15.5 * 15.5]);

        graph.rollback();
        assert_eq!(graph.vectors().center().alpha_offsets(), [82.0; 2]);
        assert!(slots.iter().all(|&slot| term(&graph, slot) == 0.0));
    }
}
