//! Stores vectors: one, or many from several threads.

use std::ops::Range;

use jasper_core::{Element, MAX_VECTORS, Slot};

use super::Graph;
use crate::vectors::codes::Encoder;
use crate::{SEGMENT_ROWS, VectorError, Vectors};

/// Vectors of a chunk: few enough that there are chunks for all threads if vectors are long, and that they are near
/// each other in memory.
const CHUNK_ROWS: usize = 1024;
const CHUNK_BYTES: usize = 256 << 10;

/// Some of the vectors that are being added, to be written by one thread: see [`Graph::add_vectors`].
#[derive(Debug)]
pub struct VectorChunk<'a, T> {
    /// Number of the first among all vectors that are added.
    first: usize,
    slots: &'a [Slot],
    /// Rows of the table from the first of `slots` to the last. The columns below have the same range.
    rows: &'a mut [T],
    width: usize,
    squared_norms: Option<&'a mut [f32]>,
    codes: Option<(Encoder<'a>, &'a mut [u32])>,
}

impl<T: Element> VectorChunk<'_, T> {
    /// Returns the numbers of the vectors to write, among all that are added.
    pub fn numbers(&self) -> Range<usize> {
        self.first..self.first + self.slots.len()
    }

    /// Writes a prepared vector and its squared norm.
    ///
    /// # Panics
    /// Panics if `number` is not one of [`Self::numbers`], or `prepared` not as long as a padded vector.
    pub fn set(&mut self, number: usize, prepared: &[T], squared_norm: f32) {
        let row = self.slots[number - self.first].index() - self.slots[0].index();
        self.rows[row * self.width..][..self.width].copy_from_slice(prepared);
        if let Some(norms) = &mut self.squared_norms {
            norms[row] = squared_norm;
        }
        if let Some((encoder, codes)) = &mut self.codes {
            let words = codes.len() * self.width / self.rows.len();
            encoder.encode(prepared, self.width, &mut codes[row * words..][..words]);
        }
    }
}

impl<T: Element> Graph<T> {
    /// Stores a prepared vector in the lowest free slot, or a new one, as a tombstone without edges or keys.
    ///
    /// # Errors
    /// Returns the errors of [`Self::add_vectors`].
    pub fn add_vector(&mut self, prepared: &[T], squared_norm: f32) -> Result<Slot, VectorError> {
        let write = |chunks: Vec<VectorChunk<'_, T>>| {
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
    pub fn add_vectors(
        &mut self,
        count: usize,
        write: impl FnOnce(Vec<VectorChunk<'_, T>>),
    ) -> Result<Vec<Slot>, VectorError> {
        self.require_vectors()?;
        let reused = count.min(self.keys.free());
        let new = self.slots()..self.slots() + (count - reused);
        if new.end > MAX_VECTORS {
            return Err(VectorError::Full);
        }
        let slots: Vec<Slot> =
            self.keys.free.iter().take(reused).chain(new.clone()).map(Slot::from_index).collect();
        self.resize(new.end)?;
        self.keys.occupy(&slots[..reused], new);
        write(self.vectors.vector_chunks_mut(&slots));
        self.vectors.note_written(&slots);
        Ok(slots)
    }
}

impl<T: Element> Vectors<T> {
    /// The rows of `slots`, which ascend, in chunks within a segment.
    pub(crate) fn vector_chunks_mut<'a>(&'a mut self, slots: &'a [Slot]) -> Vec<VectorChunk<'a, T>> {
        let width = self.table.width();
        let segments = slots.chunk_by(|a, b| a.index() / SEGMENT_ROWS == b.index() / SEGMENT_ROWS);
        let rows = (CHUNK_BYTES / (width * size_of::<T>()).max(1)).clamp(1, CHUNK_ROWS);
        let chunks: Vec<&[Slot]> = segments.flat_map(|slots| slots.chunks(rows)).collect();
        let ranges = || chunks.iter().map(|slots| slots[0].index()..slots[slots.len() - 1].index() + 1);
        let tables = self.table.ranges_mut(ranges());
        let mut norms = self.squared_norms.as_mut().map(|norms| norms.ranges_mut(ranges()));
        let mut codes = self.codes.as_mut().map(|codes| {
            let quantizer = &*codes.quantizer;
            codes.table.ranges_mut(ranges()).map(move |codes| (Encoder::new(quantizer), codes))
        });
        let mut first = 0;
        let chunk = |(&slots, rows)| {
            let squared_norms = norms.as_mut().and_then(Iterator::next);
            let codes = codes.as_mut().and_then(Iterator::next);
            let chunk = VectorChunk { first, slots, rows, width, squared_norms, codes };
            first += slots.len();
            chunk
        };
        chunks.iter().zip(tables).map(chunk).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jasper_core::{BuildParams, Metric};

    #[test]
    fn free_slots_come_first_and_others_keep_their_rows() {
        let vertices = SEGMENT_ROWS + 10;
        let mut graph = Graph::<u8>::new(Metric::InnerProduct, 16, BuildParams::default()).unwrap();
        let add = |graph: &mut Graph<u8>, count, x: u8| {
            let write = |chunks: Vec<VectorChunk<'_, u8>>| {
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
            assert_eq!(graph.vectors().padded(slot), [1 + u8::from(number.is_some()); 16]);
            let norm = graph.vectors().squared_norms().unwrap().at(slot.index());
            assert_eq!(norm, number.unwrap_or(slot.index()) as f32);
        }
        assert_eq!((graph.keys().free(), graph.keys().tombstones()), (0, vertices + 2));
        assert_eq!(graph.vectors().largest_squared_norm(), (vertices - 1) as f32);
    }
}
