//! The codes of many vectors.

use std::ops::Range;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use jasper_core::{Element, MatrixView};
use rayon::prelude::*;

use crate::projection::ENCODE_ROWS;
use crate::quantizer::{Quantizer, Scratch};
use crate::space::widen;
use crate::{DecodeError, Layout};

/// A cache line of words: rows of 32 or 64 bytes never straddle two.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u32; LINE_WORDS]);

const LINE_WORDS: usize = 16;

/// The codes of many vectors: a row-major matrix of `len x layout.words()` words, aligned to a cache line.
#[derive(Clone, Debug)]
pub struct Codes {
    layout: Arc<Layout>,
    lines: Vec<Line>,
    rows: usize,
}

impl Codes {
    /// Creates an empty matrix of the quantizer's layout.
    pub fn new(quantizer: &dyn Quantizer) -> Self {
        Self { layout: Arc::clone(quantizer.layout()), lines: Vec::new(), rows: 0 }
    }

    /// Encodes `rows` on the threads of `pool`. The codes are the same for any number of threads and any CPU.
    ///
    /// # Panics
    /// If the dimension of the rows is not the quantizer's.
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

    /// Resizes to `rows` rows: truncates, or appends zeros.
    pub fn resize(&mut self, rows: usize) {
        self.lines.resize((rows * self.layout.words()).div_ceil(LINE_WORDS), Line::zeroed());
        let kept = self.rows.min(rows) * self.layout.words();
        self.rows = rows;
        bytemuck::cast_slice_mut(&mut self.lines)[kept..].fill(0_u32);
    }

    /// Encodes `rows` into rows `first..first + rows.len()`, on the threads of `pool`.
    ///
    /// # Panics
    /// If that range ends past [`Self::len`], or the dimension or the layout is not the quantizer's.
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
    ///
    /// # Panics
    /// If either is not below [`Self::len`].
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

    /// The bytes of rows `range`, as files and devices store them.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        bytemuck::cast_slice(
            &self.words()[range.start * self.layout.words()..range.end * self.layout.words()],
        )
    }

    /// Copies codes of the quantizer's layout from their [`bytes`](Self::bytes).
    ///
    /// # Errors
    /// [`DecodeError::Long`] if they are not a whole number of rows.
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
