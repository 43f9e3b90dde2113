//! Rows into slots: one, or many by many threads.

use std::ops::Range;

use jasper_core::{Element, MAX_VECTORS, VectorId};

use super::Graph;
use crate::codes::Coder;
use crate::{SEGMENT_ROWS, VectorError};

/// Rows that one thread writes: their slots lie near each other, and their bytes fill a few pages, but no more, so that
/// there are blocks for all threads where rows are long.
const BLOCK_ROWS: usize = 1024;
const BLOCK_BYTES: usize = 256 << 10;

/// Some of the rows that are being added, for one thread to write: see [`Graph::add_vectors`].
#[derive(Debug)]
pub struct VectorBlock<'a, T> {
    /// Number of the first of them among all that are added.
    first: usize,
    slots: &'a [VectorId],
    /// The stored rows from the first of the slots to the last; likewise what follows.
    rows: &'a mut [T],
    width: usize,
    degrees: &'a mut [u16],
    /// Squared lengths, where the metric needs them.
    squared_norms: Option<&'a mut [f32]>,
    codes: Option<(Coder<'a>, &'a mut [u32])>,
}

impl<T: Element> VectorBlock<'_, T> {
    /// Numbers of the rows to write, among all that are added.
    pub fn numbers(&self) -> Range<usize> {
        self.first..self.first + self.slots.len()
    }

    /// Writes the row of that number, prepared, and its squared length.
    ///
    /// # Panics
    /// If the number is not one of [`Self::numbers`], or the row not as long as a padded one.
    pub fn set(&mut self, number: usize, prepared: &[T], squared_norm: f32) {
        let place = self.slots[number - self.first].index() - self.slots[0].index();
        self.rows[place * self.width..][..self.width].copy_from_slice(prepared);
        self.degrees[place] = 0;
        if let Some(norms) = &mut self.squared_norms {
            norms[place] = squared_norm;
        }
        if let Some((coder, codes)) = &mut self.codes {
            let words = codes.len() / self.degrees.len();
            coder.code(prepared, self.width, &mut codes[place * words..][..words]);
        }
    }
}

impl<T: Element> Graph<T> {
    /// Stores a prepared row in the lowest free slot, or a new one: a tombstone without edges or key.
    ///
    /// # Errors
    /// [`VectorError::Full`], [`VectorError::NoVectors`], or what the operating system says when there is no memory.
    pub fn add_vector(&mut self, prepared: &[T], squared_norm: f32) -> Result<VectorId, VectorError> {
        let write = |blocks: Vec<VectorBlock<'_, T>>| {
            blocks.into_iter().for_each(|mut block| block.set(0, prepared, squared_norm));
        };
        Ok(self.add_vectors(1, write)?[0])
    }

    /// Makes `count` slots tombstones, without edges or key, and has their rows written: by `write`, which is given all of
    /// them in blocks for as many threads. First the free slots, from the lowest on, then new ones: the numbers of the
    /// slots, which are the result, rise as those of the rows.
    ///
    /// # Errors
    /// [`VectorError::Full`], [`VectorError::NoVectors`], or what the operating system says when there is no memory; nothing is added.
    pub fn add_vectors(
        &mut self,
        count: usize,
        write: impl FnOnce(Vec<VectorBlock<'_, T>>),
    ) -> Result<Vec<VectorId>, VectorError> {
        self.require_vectors()?;
        let reused = count.min(self.free.len());
        let new = self.slots()..self.slots() + (count - reused);
        if new.end > MAX_VECTORS {
            return Err(VectorError::Full);
        }
        let slots: Vec<VectorId> =
            self.free.iter().take(reused).chain(new.clone()).map(VectorId::from_index).collect();
        self.resize(new.end)?;
        for slot in &slots[..reused] {
            self.free.remove(slot.index());
            self.tombstones.insert(slot.index());
        }
        self.tombstones.insert_range(new);
        write(self.row_blocks(&slots));
        self.note_norms(&slots);
        let space = &mut self.space;
        if let Some(sketches) = &mut space.sketches {
            slots.iter().for_each(|slot| sketches.set(slot.index(), space.vectors.row(slot.index())));
        }
        if let Some(changes) = &mut self.changes {
            changes.rows.extend_from_slice(&slots);
        }
        Ok(slots)
    }

    /// Follows the squared lengths that were written for `slots`, where the metric needs them.
    pub(super) fn note_norms(&mut self, slots: &[VectorId]) {
        let space = &mut self.space;
        if let Some(norms) = &space.squared_norms {
            let longest = slots.iter().map(|slot| norms.at(slot.index())).fold(0.0, f32::max);
            space.largest_squared_norm = space.largest_squared_norm.max(longest);
        }
    }

    /// The storage of `slots`, which rise, in blocks within a segment.
    pub(super) fn row_blocks<'a>(&'a mut self, slots: &'a [VectorId]) -> Vec<VectorBlock<'a, T>> {
        let segments = slots.chunk_by(|a, b| a.index() / SEGMENT_ROWS == b.index() / SEGMENT_ROWS);
        let rows = BLOCK_BYTES / (self.space.vectors.width() * size_of::<T>()).max(1);
        let rows = rows.clamp(1, BLOCK_ROWS);
        let blocks: Vec<&[VectorId]> = segments.flat_map(|slots| slots.chunks(rows)).collect();
        let ranges = || blocks.iter().map(|slots| slots[0].index()..slots[slots.len() - 1].index() + 1);
        let width = self.space.vectors.width();
        let tables = self.space.vectors.ranges_mut(ranges()).zip(self.degrees.ranges_mut(ranges()));
        let mut norms = self.space.squared_norms.as_mut().map(|norms| norms.ranges_mut(ranges()));
        let mut codes = self.space.codes.as_mut().map(|codes| {
            let quantizer = &*codes.quantizer;
            codes.table.ranges_mut(ranges()).map(move |codes| (Coder::new(quantizer), codes))
        });
        let mut first = 0;
        let block = |(&slots, (rows, degrees))| {
            let squared_norms = norms.as_mut().and_then(Iterator::next);
            let codes = codes.as_mut().and_then(Iterator::next);
            let block = VectorBlock { first, slots, rows, width, degrees, squared_norms, codes };
            first += slots.len();
            block
        };
        blocks.iter().zip(tables).map(block).collect()
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
            let write = |blocks: Vec<VectorBlock<'_, u8>>| {
                for mut block in blocks {
                    block.numbers().for_each(|number| block.set(number, &[x; 16], number as f32));
                }
            };
            graph.add_vectors(count, write).unwrap()
        };
        add(&mut graph, vertices, 1);
        let free = [2, 7, SEGMENT_ROWS - 1, SEGMENT_ROWS, SEGMENT_ROWS + 9];
        free.into_iter().for_each(|slot| graph.release(VectorId::from_index(slot)));
        let slots = add(&mut graph, 7, 2);
        assert!(slots.iter().map(|slot| slot.index()).eq(free.into_iter().chain([vertices, vertices + 1])));
        for slot in (0..vertices).map(VectorId::from_index) {
            let number = slots.iter().position(|&new| new == slot);
            assert_eq!(graph.padded_vector(slot), [1 + u8::from(number.is_some()); 16]);
            let norm = graph.squared_norms().unwrap().at(slot.index());
            assert_eq!(norm, number.unwrap_or(slot.index()) as f32);
        }
        assert_eq!((graph.free(), graph.tombstones()), (0, vertices + 2));
        assert_eq!(graph.largest_squared_norm(), (vertices - 1) as f32);
    }
}
