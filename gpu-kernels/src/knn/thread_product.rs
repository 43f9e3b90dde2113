//! Products without tensor cores: eight queries by eight rows per thread.

use cuda_std::prelude::*;

use super::TILE;
use super::product::Product;
use super::score::{Metric, Score, Sum};
use crate::element::{DeviceElement, Packed};

/// Queries, and rows, per thread: two groups of four neighbors, half a tile apart.
const SIDE: usize = 8;
/// Threads along each side of the product.
const THREADS_ACROSS: u32 = TILE / SIDE as u32;

/// The sums of one thread.
pub(super) struct ThreadProduct<S: Score>([[Sum<S>; SIDE]; SIDE]);

#[inline(always)]
fn in_tile(across: u32, i: usize) -> u32 {
    across * 4 + i as u32 % 4 + i as u32 / 4 * (TILE / 2)
}

impl<S: Score> Product<S> for ThreadProduct<S> {
    const QUERIES: usize = SIDE;
    const ROWS: usize = SIDE;
    const UNIT_WORDS: usize = S::Element::UNPACKED;

    #[inline(always)]
    fn new() -> Self {
        Self([[S::Element::ZERO; SIDE]; SIDE])
    }

    #[inline(always)]
    unsafe fn add(&mut self, queries: Shared<u32>, rows: Shared<u32>, units: u32) {
        let unit_words = Self::UNIT_WORDS as u32 * TILE;
        let (mut queries, mut rows) = (queries.add(Self::query(0)), rows.add(Self::row(0)));
        let end = rows.add(units * unit_words).address();
        while rows.address() != end {
            for line in 0..Self::UNIT_WORDS as u32 {
                // SAFETY: a line of a unit that is there; the vectors of a thread lie four by four from a multiple of
                // four, half a tile apart.
                let (query, row) =
                    unsafe { (load_eight(queries.add(line * TILE)), load_eight(rows.add(line * TILE))) };
                for i in 0..SIDE {
                    for j in 0..SIDE {
                        self.0[i][j] = add::<S>(self.0[i][j], query[i], row[j]);
                    }
                }
            }
            (queries, rows) = (queries.add(unit_words), rows.add(unit_words));
        }
    }

    #[inline(always)]
    fn sum(&self, i: usize, j: usize) -> Sum<S> {
        self.0[i][j]
    }

    #[inline(always)]
    fn query(i: usize) -> u32 {
        in_tile(thread::thread_idx_x() / THREADS_ACROSS, i)
    }

    #[inline(always)]
    fn row(j: usize) -> u32 {
        in_tile(thread::thread_idx_x() % THREADS_ACROSS, j)
    }

    /// A line of the tile holds one word of every vector. The bank conflicts of these stores are hidden by the products
    /// of other warps; a layout without conflicts costs registers in the inner loop.
    #[inline(always)]
    unsafe fn put(tile: Shared<u32>, vector: u32, unit: u32, words: [u32; 4]) {
        let words = S::Element::unpack(words);
        for w in 0..Self::UNIT_WORDS {
            let line = unit * Self::UNIT_WORDS as u32 + w as u32;
            // SAFETY: a line of the tile, of which each holds a word of every vector.
            unsafe { tile.add(line * TILE + vector).store(words[w]) };
        }
    }
}

/// `sum` plus the term of a word of a query and one of a row, both unpacked.
#[inline(always)]
fn add<S: Score>(sum: Sum<S>, query: u32, row: u32) -> Sum<S> {
    type Unpacked<S> = <<S as Score>::Element as DeviceElement>::Unpacked;
    match S::METRIC {
        Metric::L2 => Unpacked::<S>::squared_difference(sum, query, row),
        Metric::InnerProduct | Metric::Cosine => Unpacked::<S>::product(sum, query, row),
    }
}

/// The words of the eight vectors of a thread.
///
/// # Safety
/// `at` is a multiple of 16 bytes inside of the first half of a line of a tile that is not written during the launch.
#[inline(always)]
unsafe fn load_eight(at: Shared<u32>) -> [u32; SIDE] {
    // SAFETY: upheld by the caller.
    let ([a, b, c, d], [e, f, g, h]) =
        unsafe { (at.cast::<[u32; 4]>().load(), at.add(TILE / 2).cast::<[u32; 4]>().load()) };
    [a, b, c, d, e, f, g, h]
}
