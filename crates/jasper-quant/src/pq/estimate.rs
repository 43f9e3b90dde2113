//! Codes and the tables that estimate distances from them.

use jasper_core::VectorId;
use jasper_core::distance::prefetch;
use rayon::prelude::*;

use super::codebook::{MOST, OfEach};

/// Rows that are looked up together: their sums do not wait for each other.
const ROWS: usize = 4;
/// Rows asked for ahead of the one being looked up.
const AHEAD: usize = 32;
/// Centroids of 4 bits.
const FEW: usize = 16;

/// Codes of rows. Made by [`Pq::encode`](super::Pq::encode).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PqCodes {
    bytes: Vec<u8>,
    row_bytes: usize,
}

impl PqCodes {
    pub(super) fn zeros(rows: usize, row_bytes: usize) -> Self {
        Self { bytes: vec![0; rows * row_bytes], row_bytes }
    }

    /// `rows` rows at a time.
    pub(super) fn blocks_mut(&mut self, rows: usize) -> rayon::slice::ChunksMut<'_, u8> {
        self.bytes.par_chunks_mut(rows * self.row_bytes)
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.row_bytes
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Row `index`: the centroid of each subspace, with 4 bits two in a byte, the first in its lower half.
    pub fn row(&self, index: usize) -> &[u8] {
        &self.bytes[index * self.row_bytes..][..self.row_bytes]
    }
}

/// A query as the distances to all centroids. Made by [`Pq::query`](super::Pq::query).
#[derive(Clone, Debug, PartialEq)]
pub struct PqQuery {
    tables: Tables,
    /// Added to every estimate.
    add: f32,
}

/// What each byte of a code stands for.
#[derive(Clone, Debug, PartialEq)]
enum Tables {
    /// One subspace.
    Bytes(Vec<OfEach>),
    /// Two, zeros where there is no second.
    Halves(Vec<[[f32; FEW]; 2]>),
}

impl PqQuery {
    /// `tables` of each subspace, of `bits`.
    pub(super) fn new(bits: u32, tables: Vec<OfEach>, add: f32) -> Self {
        if bits == 8 {
            return Self { tables: Tables::Bytes(tables), add };
        }
        let few = |table: Option<&OfEach>| std::array::from_fn(|i| table.map_or(0.0, |table| table[i]));
        let pairs = tables.chunks(2).map(|pair| [few(pair.first()), few(pair.get(1))]);
        Self { tables: Tables::Halves(pairs.collect()), add }
    }

    /// Estimates the distances to the rows `ids` of `codes`, into `out` of the same length. Rows may lie anywhere: each
    /// is asked for while the ones before it are looked up.
    ///
    /// # Panics
    /// If an id is no row, the lengths differ, or the codes have another length.
    pub fn estimate(&self, codes: &PqCodes, ids: &[VectorId], out: &mut [f32]) {
        match &self.tables {
            Tables::Bytes(tables) => {
                self.look_up(tables, |table, byte| table[usize::from(byte)], codes, ids, out);
            }
            Tables::Halves(tables) => {
                let of = |[low, high]: &[[f32; FEW]; 2], byte: u8| {
                    low[usize::from(byte) % FEW] + high[usize::from(byte) / FEW]
                };
                self.look_up(tables, of, codes, ids, out);
            }
        }
    }

    fn look_up<T>(
        &self,
        tables: &[T],
        entry: impl Fn(&T, u8) -> f32,
        codes: &PqCodes,
        ids: &[VectorId],
        out: &mut [f32],
    ) {
        assert_eq!(ids.len(), out.len());
        let row = |i: usize| &codes.row(ids[i].index())[..tables.len()];
        ids.iter().take(AHEAD).for_each(|id| prefetch(codes.row(id.index())));
        for (block, out) in out.chunks_mut(ROWS).enumerate() {
            let first = block * ROWS;
            let mut sums = [self.add; ROWS];
            // Where fewer than four are left, the first of them stands in for the others.
            let rows: [&[u8]; ROWS] = std::array::from_fn(|k| row(first + if k < out.len() { k } else { 0 }));
            for k in first + AHEAD..(first + AHEAD + ROWS).min(ids.len()) {
                prefetch(row(k));
            }
            for (at, table) in tables.iter().enumerate() {
                for (sum, row) in sums.iter_mut().zip(rows) {
                    *sum += entry(table, row[at]);
                }
            }
            out.copy_from_slice(&sums[..out.len()]);
        }
    }
}

const _: () = assert!(MOST == u8::MAX as usize + 1 && FEW * FEW == MOST);
