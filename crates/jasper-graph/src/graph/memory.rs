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
    pub fn forget_sketches(&mut self) {
        self.space.sketches = None;
    }

    /// Bytes that the sketch of one row takes among chosen ones; `None` where the element takes no sketches.
    pub fn bytes_per_sketch(dimension: usize) -> Option<usize> {
        (T::KIND == ElementKind::F32).then(|| sketch::row_bytes(dimension) + size_of::<u32>())
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
