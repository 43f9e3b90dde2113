//! Code rows at rest.

use std::ops::Range;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use jasper_core::{Element, MatrixView};
use rayon::prelude::*;

use crate::projection::ENCODE_ROWS;
use crate::quantizer::{Quantizer, Scratch};
use crate::space::widen;
use crate::{DecodeError, Layout};

/// A cache line of words: rows of 32 or 64 bytes never lie on two.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u32; LINE_WORDS]);

const LINE_WORDS: usize = 16;

/// The codes of many rows: `rows x layout.words()` words, one after the other, from the start of a cache line.
#[derive(Clone, Debug)]
pub struct Codes {
    layout: Arc<Layout>,
    lines: Vec<Line>,
    rows: usize,
}

impl Codes {
    /// No rows.
    pub fn new(quantizer: &dyn Quantizer) -> Self {
        Self { layout: Arc::clone(quantizer.layout()), lines: Vec::new(), rows: 0 }
    }

    /// The codes of `rows`, made on the threads of `pool`. The same bytes for any number of threads and any processor.
    ///
    /// # Panics
    /// If the rows have another dimension than those that the quantizer was trained on.
    pub fn from_vectors<T: Element>(
        quantizer: &dyn Quantizer,
        rows: MatrixView<'_, T>,
        pool: &rayon::ThreadPool,
    ) -> Self {
        let mut codes = Self::new(quantizer);
        codes.resize(rows.len());
        codes.encode(quantizer, 0, rows, pool);
        codes
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The shape of a row.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Makes it `rows` long: drops rows from the end, or appends rows of zeros.
    pub fn resize(&mut self, rows: usize) {
        self.lines.resize((rows * self.layout.words()).div_ceil(LINE_WORDS), Line::zeroed());
        let kept = self.rows.min(rows) * self.layout.words();
        self.rows = rows;
        bytemuck::cast_slice_mut(&mut self.lines)[kept..].fill(0_u32);
    }

    /// Codes `rows` in the place of rows `first` and following, on the threads of `pool`.
    ///
    /// # Panics
    /// If these rows are not all there, or have another dimension than those that the quantizer was trained on, or the
    /// codes have another layout than the quantizer's.
    pub fn encode<T: Element>(
        &mut self,
        quantizer: &dyn Quantizer,
        first: usize,
        rows: MatrixView<'_, T>,
        pool: &rayon::ThreadPool,
    ) {
        assert_eq!(**quantizer.layout(), *self.layout);
        assert_eq!(rows.dimension(), quantizer.dimension());
        assert!(first + rows.len() <= self.rows);
        let (dimension, words) = (rows.dimension(), self.layout.words());
        let out = &mut self.words_mut()[first * words..][..rows.len() * words];
        pool.install(|| {
            out.par_chunks_mut(ENCODE_ROWS * words).enumerate().for_each_init(
                || (vec![0.0; ENCODE_ROWS * dimension], Scratch::default()),
                |(values, scratch), (block, out)| {
                    let count = out.len() / words;
                    let values = &mut values[..count * dimension];
                    for (i, values) in values.chunks_exact_mut(dimension).enumerate() {
                        widen(rows.row(block * ENCODE_ROWS + i), values);
                    }
                    quantizer.encode(values, scratch, out);
                },
            );
        });
    }

    /// Copies row `from` to row `to`.
    pub fn copy_row(&mut self, from: usize, to: usize) {
        let words = self.layout.words();
        assert!(from < self.rows && to < self.rows);
        self.words_mut().copy_within(from * words..(from + 1) * words, to * words);
    }

    /// The words of row `index`.
    pub fn row(&self, index: usize) -> &[u32] {
        let words = self.layout.words();
        &self.words()[index * words..][..words]
    }

    /// The words of all rows.
    pub fn words(&self) -> &[u32] {
        &bytemuck::cast_slice(&self.lines)[..self.rows * self.layout.words()]
    }

    fn words_mut(&mut self) -> &mut [u32] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.rows * self.layout.words()]
    }

    /// The bytes of rows `range`, as a file or a device holds them.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        bytemuck::cast_slice(
            &self.words()[range.start * self.layout.words()..range.end * self.layout.words()],
        )
    }

    /// Codes from the bytes of whole rows of a quantizer.
    ///
    /// # Errors
    /// [`DecodeError::Long`] when they are no whole number of rows.
    pub fn from_bytes(quantizer: &dyn Quantizer, bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut codes = Self::new(quantizer);
        let row = codes.layout.bytes();
        if !bytes.len().is_multiple_of(row) {
            return Err(DecodeError::Long(bytes.len() % row));
        }
        codes.resize(bytes.len() / row);
        bytemuck::cast_slice_mut(codes.words_mut()).copy_from_slice(bytes);
        Ok(codes)
    }
}
