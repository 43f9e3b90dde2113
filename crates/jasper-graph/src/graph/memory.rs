//! What of a graph is in memory, and how much.

use std::io;

use jasper_core::{Element, ElementKind, VectorId};

use super::Graph;
use crate::Segments;
use crate::sketch::{self, Sketches};

impl<T: Element> Graph<T> {
    /// Copies what a mapped file holds into memory with huge pages; see [`Segments::load`].
    ///
    /// # Errors
    /// What the operating system says when it has no more address space.
    pub fn load(&mut self) -> io::Result<()> {
        self.space.vectors.load()?;
        if let Some(norms) = &mut self.space.squared_norms {
            norms.load()?;
        }
        if let Some(codes) = &mut self.space.codes {
            codes.table.load()?;
        }
        self.adjacency.load()?;
        self.degrees.load()?;
        self.keys.load()
    }

    /// Takes sketches of all rows, and keeps them in step from then on: searches rule rows out by them without reading
    /// the rows. Answers stay the same. For f32, at a quarter of the vectors' memory; other elements take none.
    ///
    /// # Errors
    /// What the operating system says when it has no more memory.
    pub fn sketch(&mut self) -> io::Result<()> {
        self.space.sketch(None)
    }

    /// Takes sketches of the rows in `chosen` slots alone: what [`Self::sketch`] does, where memory is short.
    ///
    /// # Errors
    /// As there.
    pub fn sketch_some(&mut self, chosen: &[VectorId]) -> io::Result<()> {
        self.space.sketch(Some(chosen))
    }

    /// Gives the memory of sketches back.
    pub fn clear_sketches(&mut self) {
        self.space.sketches = None;
    }

    /// How many of `slots` rows can have sketches in so many bytes, and the bytes that those take: chosen ones take a table
    /// of all slots as well. None where the element takes no sketches.
    pub fn sketches_within(bytes: usize, slots: usize, dimension: usize) -> (usize, usize) {
        if T::KIND != ElementKind::F32 {
            return (0, 0);
        }
        let (places, row) = (slots * size_of::<u32>(), sketch::row_bytes(dimension));
        match (bytes.saturating_sub(places) / row).min(slots) {
            0 => (0, 0),
            rows => (rows, places + rows * row),
        }
    }

    /// Bytes of sketches; 0 where there are none.
    pub fn sketch_bytes(&self) -> usize {
        self.space.sketches.as_ref().map_or(0, Sketches::bytes)
    }

    /// Bytes of vectors, with padding and, where the metric needs them, squared lengths.
    pub fn vector_bytes(&self) -> usize {
        self.space.vectors.bytes() + self.space.squared_norms.as_ref().map_or(0, Segments::bytes)
    }

    /// Bytes of adjacency at full degree, and of degrees.
    pub fn graph_bytes(&self) -> usize {
        self.adjacency.bytes() + self.degrees.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sketches_of_chosen_rows_take_what_was_said() {
        const SLOTS: usize = 1000;
        let within = |bytes| Graph::<f32>::sketches_within(bytes, SLOTS, 20);
        for bytes in [4048, 9000, 1 << 20] {
            let (rows, taken) = within(bytes);
            let chosen: Vec<VectorId> = (0..rows).map(VectorId::from_index).collect();
            assert_eq!(Sketches::for_slots(20, &chosen, SLOTS).unwrap().bytes(), taken, "{rows} rows");
            assert!(rows > 0 && taken <= bytes && (rows == SLOTS || taken + 48 > bytes), "{rows} rows");
        }
        assert_eq!(within(4047), (0, 0), "no room beside the table of all slots");
        assert_eq!(Graph::<u8>::sketches_within(1 << 20, SLOTS, 20), (0, 0));
    }
}
