//! The product of a tile of queries and one of rows, spread over the registers of a block.
//!
//! Arrays stand for registers: loops over them go by index, and are unrolled whole.

#![expect(clippy::needless_range_loop, reason = "an iterator over an array keeps it in memory on the device")]

use cuda_std::prelude::*;

use super::TILE;
use super::score::{Score, Sum};
use crate::coordinates::Coordinates;

/// Queries, and rows, whose products one thread sums up: two groups of four neighbours, half a tile apart.
pub(super) const SIDE: usize = 8;
/// Threads along each side of the product.
const THREADS_ACROSS: u32 = TILE / SIDE as u32;

/// Where in its tile query `i` of this thread lies.
#[inline(always)]
pub(super) fn query(i: usize) -> u32 {
    in_tile(thread::thread_idx_x() / THREADS_ACROSS, i)
}

/// Where in its tile row `j` of this thread lies.
#[inline(always)]
pub(super) fn row(j: usize) -> u32 {
    in_tile(thread::thread_idx_x() % THREADS_ACROSS, j)
}

#[inline(always)]
fn in_tile(across: u32, i: usize) -> u32 {
    across * 4 + i as u32 % 4 + i as u32 / 4 * (TILE / 2)
}

/// What one thread sums up: eight queries by eight rows.
pub(super) struct Product<S: Score>([[Sum<S>; SIDE]; SIDE]);

impl<S: Score> Product<S> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self([[<S::Element as Coordinates>::ZERO; SIDE]; SIDE])
    }

    /// The sum of query `i` and row `j` of this thread.
    #[inline(always)]
    pub(super) fn sum(&self, i: usize, j: usize) -> Sum<S> {
        self.0[i][j]
    }

    /// Adds what the first `chunks` chunks in two tiles make.
    ///
    /// # Safety
    /// Both tiles are written, at most whole, and nobody writes them meanwhile.
    #[inline(always)]
    pub(super) unsafe fn add(&mut self, queries: Shared<u32>, rows: Shared<u32>, chunks: u32) {
        let chunk_words = S::Element::UNPACKED as u32 * TILE;
        let (mut queries, mut rows) = (queries.add(query(0)), rows.add(row(0)));
        let end = rows.add(chunks * chunk_words).address();
        while rows.address() != end {
            for line in 0..S::Element::UNPACKED as u32 {
                // SAFETY: a line of a chunk that is there; the vectors of a thread lie four by four from a multiple of
                // four, half a tile apart.
                let (query, row) = unsafe { (eight(queries.add(line * TILE)), eight(rows.add(line * TILE))) };
                for i in 0..SIDE {
                    for j in 0..SIDE {
                        self.0[i][j] = S::add(self.0[i][j], query[i], row[j]);
                    }
                }
            }
            (queries, rows) = (queries.add(chunk_words), rows.add(chunk_words));
        }
    }
}

/// The words of the eight vectors of a thread.
///
/// # Safety
/// `at` is a multiple of 16 bytes inside of the first half of a line of a tile that nobody writes meanwhile.
#[inline(always)]
unsafe fn eight(at: Shared<u32>) -> [u32; SIDE] {
    // SAFETY: the caller's promise.
    let ([a, b, c, d], [e, f, g, h]) =
        unsafe { (at.cast::<[u32; 4]>().load(), at.add(TILE / 2).cast::<[u32; 4]>().load()) };
    [a, b, c, d, e, f, g, h]
}
