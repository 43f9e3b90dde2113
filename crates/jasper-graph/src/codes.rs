//! Codes of rows, in step with them: what a search may read in the place of rows.

use std::io;
use std::sync::Arc;

use jasper_core::distance::prefetch;
use jasper_core::{Element, VectorId};
use jasper_quant::{ENCODE_ROWS, Quantizer, QueryCode, Scratch};

use crate::{Graph, Segments, VectorError};

/// The code of every slot's row, and what made them.
#[derive(Clone, Copy, Debug)]
pub struct Codes<'a> {
    of: &'a CodedRows,
}

/// Codes as a graph has them.
#[derive(Debug)]
pub(crate) struct CodedRows {
    pub(crate) quantizer: Arc<dyn Quantizer>,
    /// `slots x layout.words()`.
    pub(crate) table: Segments<u32>,
}

/// Some rows and the places of their codes, for one thread to fill: see [`Graph::quantize`].
#[derive(Debug)]
pub struct CodeBlock<'a, T> {
    rows: &'a [T],
    /// Elements from row to row.
    width: usize,
    quantizer: &'a dyn Quantizer,
    codes: &'a mut [u32],
}

/// Codes rows.
#[derive(Debug)]
pub(crate) struct Coder<'a> {
    quantizer: &'a dyn Quantizer,
    scratch: Scratch,
    values: Vec<f32>,
}

/// Rows of a [`CodeBlock`].
const BLOCK_ROWS: usize = 1024;

impl CodedRows {
    pub(crate) fn new(quantizer: Arc<dyn Quantizer>, slots: usize) -> io::Result<Self> {
        let table = Segments::zeroed(slots, quantizer.layout().words())?;
        Ok(Self { quantizer, table })
    }
}

impl<'a> Coder<'a> {
    pub(crate) fn new(quantizer: &'a dyn Quantizer) -> Self {
        Self { quantizer, scratch: Scratch::default(), values: Vec::new() }
    }

    /// Codes rows of `width` elements, padded or not; [`ENCODE_ROWS`] at once cost least.
    pub(crate) fn code<T: Element>(&mut self, rows: &[T], width: usize, out: &mut [u32]) {
        let dimension = self.quantizer.dimension();
        self.values.resize(rows.len() / width * dimension, 0.0);
        for (values, row) in self.values.chunks_exact_mut(dimension).zip(rows.chunks_exact(width)) {
            values.iter_mut().zip(row).for_each(|(value, x)| *value = x.to_f32());
        }
        self.quantizer.encode(&mut self.values, &mut self.scratch, out);
    }
}

impl<T: Element> CodeBlock<'_, T> {
    /// Codes the rows.
    pub fn fill(self) {
        let mut coder = Coder::new(self.quantizer);
        let codes = self.codes.chunks_mut(ENCODE_ROWS * self.quantizer.layout().words());
        let rows = self.rows.chunks(ENCODE_ROWS * self.width);
        rows.zip(codes).for_each(|(rows, codes)| coder.code(rows, self.width, codes));
    }
}

impl<'a> Codes<'a> {
    /// What made them.
    pub fn quantizer(&self) -> &'a Arc<dyn Quantizer> {
        &self.of.quantizer
    }

    /// The words of each slot's code, `slots x layout.words()`.
    pub fn table(&self) -> &'a Segments<u32> {
        &self.of.table
    }

    /// Estimates of the distances of each of `queries`, padded or not, in the user's metric. A few dozen queries at once
    /// cost least.
    pub fn scorers<'q, T: Element>(&self, queries: impl Iterator<Item = &'q [T]>) -> Vec<CodeScorer<'a>> {
        let dimension = self.of.quantizer.dimension();
        let mut values: Vec<f32> =
            queries.flat_map(|query| query[..dimension].iter().map(|x| x.to_f32())).collect();
        let queries = self.of.quantizer.queries(&mut values);
        queries.into_iter().map(|query| CodeScorer { table: &self.of.table, query }).collect()
    }
}

/// Estimated distances of one vector to rows of a graph, from their codes alone; made by [`Codes::scorers`].
#[derive(Debug)]
pub struct CodeScorer<'a> {
    table: &'a Segments<u32>,
    query: QueryCode,
}

impl CodeScorer<'_> {
    /// Estimates of the distances to the rows `ids`, into `out` of the same length.
    pub fn score(&self, ids: &[VectorId], out: &mut [f32]) {
        self.query.estimate_rows(|i| self.table.row(ids[i].index()), out);
    }

    /// Asks the memory system for codes that will be read soon.
    #[inline]
    pub fn prefetch(&self, ids: &[VectorId]) {
        ids.iter().for_each(|id| prefetch(self.table.row(id.index())));
    }
}

impl<T: Element> Graph<T> {
    /// Codes all rows by `quantizer`, in the place of what codes there are, and keeps them in step from then on. `write`
    /// has the rows coded, which it is given in blocks for as many threads. Searches that were tuned are forgotten: they were
    /// by other distances.
    ///
    /// # Errors
    /// [`VectorError::Memory`], [`VectorError::NoVectors`]; the codes are as they were.
    ///
    /// # Panics
    /// If the quantizer is of another metric or dimension.
    pub fn quantize(
        &mut self,
        quantizer: Arc<dyn Quantizer>,
        write: impl FnOnce(Vec<CodeBlock<'_, T>>),
    ) -> Result<(), VectorError> {
        assert_eq!((quantizer.metric(), quantizer.dimension()), (self.metric(), self.dimension()));
        self.require_vectors()?;
        let mut codes = CodedRows::new(quantizer, self.slots())?;
        let (width, words) = (self.space.vectors.width(), codes.table.width());
        let segments = self.space.vectors.chunks().zip(codes.table.chunks_mut());
        let blocks = segments.flat_map(|(rows, codes)| {
            rows.chunks(BLOCK_ROWS * width).zip(codes.chunks_mut(BLOCK_ROWS * words))
        });
        let quantizer = &*codes.quantizer;
        write(blocks.map(|(rows, codes)| CodeBlock { rows, width, quantizer, codes }).collect());
        self.space.codes = Some(codes);
        self.tuned.clear();
        Ok(())
    }

    /// The codes of rows, if there are any.
    pub fn codes(&self) -> Option<Codes<'_>> {
        self.space.codes.as_ref().map(|of| Codes { of })
    }

    /// Gives the memory of vectors back: from now on there are only codes. What is left searches by estimates, deletes and
    /// compacts; everything else that reads vectors refuses to, by [`VectorError::NoVectors`].
    ///
    /// # Panics
    /// If there are no codes.
    pub fn drop_vectors(&mut self) {
        assert!(self.space.codes.is_some(), "what has no codes needs its vectors");
        self.space.sketches = None;
        self.space.vectors = Segments::new(self.space.vectors.width());
        self.space.has_vectors = false;
        self.tuned.clear();
    }

    /// Whether there are vectors, or only codes.
    pub fn has_vectors(&self) -> bool {
        self.space.has_vectors
    }

    /// Refuses where there are only codes.
    ///
    /// # Errors
    /// [`VectorError::NoVectors`].
    pub fn require_vectors(&self) -> Result<(), VectorError> {
        if self.has_vectors() { Ok(()) } else { Err(VectorError::NoVectors) }
    }

    /// Gives the memory of codes back.
    ///
    /// # Panics
    /// If there are only codes.
    pub fn clear_codes(&mut self) {
        assert!(self.has_vectors(), "codes are all there is");
        if self.space.codes.take().is_some() {
            self.tuned.clear();
        }
    }

    /// Bytes of codes; 0 where there are none.
    pub fn code_bytes(&self) -> usize {
        self.space.codes.as_ref().map_or(0, |codes| codes.table.bytes())
    }
}
