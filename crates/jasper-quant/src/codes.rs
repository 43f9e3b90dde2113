//! The codes of many vectors.

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use jasper_core::{Element, MatrixView};
use rayon::prelude::*;

use crate::Layout;
use crate::projection::ENCODE_ROWS;
use crate::quantizer::{EncodeBuffers, Quantizer};

/// A cache line of words. Rows of 32 or 64 bytes never straddle two lines.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u32; LINE_WORDS]);

const LINE_WORDS: usize = 16;

/// The codes of many vectors: a row-major matrix of `len x layout.words()` words, aligned to a cache line.
#[derive(Clone, Debug)]
pub struct CodeTable {
    layout: Arc<Layout>,
    lines: Vec<Line>,
    rows: usize,
}

impl CodeTable {
    /// Encodes `rows` on the threads of `pool`. The codes are the same for any number of threads and any CPU.
    ///
    /// # Panics
    /// Panics if the dimension of the rows is not the quantizer's.
    pub fn from_vectors<T: Element>(
        quantizer: &dyn Quantizer,
        rows: MatrixView<'_, T>,
        pool: &rayon::ThreadPool,
    ) -> Self {
        assert_eq!(rows.dimension(), quantizer.dimension());
        let mut codes = Self::zeros(quantizer, rows.len());
        codes.encode(quantizer, pool, &|row, values| T::slice_to_f32(rows.row(row), values));
        codes
    }

    /// Encodes the rows that `read` writes to its second argument.
    fn encode(
        &mut self,
        quantizer: &dyn Quantizer,
        pool: &rayon::ThreadPool,
        read: &(dyn Fn(usize, &mut [f32]) + Sync),
    ) {
        let (dimension, words) = (quantizer.dimension(), self.layout.words());
        let out = self.words_mut();
        pool.install(|| {
            out.par_chunks_mut(ENCODE_ROWS * words).enumerate().for_each_init(
                || (vec![0.0; ENCODE_ROWS * dimension], EncodeBuffers::default()),
                |(values, scratch), (block, out)| {
                    let count = out.len() / words;
                    let values = &mut values[..count * dimension];
                    for (i, values) in values.chunks_exact_mut(dimension).enumerate() {
                        read(block * ENCODE_ROWS + i, values);
                    }
                    quantizer.encode(values, scratch, out);
                },
            );
        });
    }

    fn zeros(quantizer: &dyn Quantizer, rows: usize) -> Self {
        let layout = Arc::clone(quantizer.layout());
        Self { lines: vec![Line::zeroed(); (rows * layout.words()).div_ceil(LINE_WORDS)], layout, rows }
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
}
