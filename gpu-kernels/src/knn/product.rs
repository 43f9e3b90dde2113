//! The product of a tile of queries and one of rows, spread over the registers of a block.

use cuda_std::prelude::*;

use super::score::{Score, Sum};

/// The part of the product that one thread holds: the sums of some queries with some rows of the tiles. The threads of
/// a block hold each pair once.
pub(super) trait Product<S: Score> {
    /// Queries of a thread.
    const QUERIES: usize;
    /// Rows of a thread.
    const ROWS: usize;
    /// Words of a tile that a unit of 16 bytes takes.
    const UNIT_WORDS: usize;

    /// All sums are zero.
    fn new() -> Self;

    /// Adds the products of the first `units` units of two tiles. Called by the whole block.
    ///
    /// # Safety
    /// Both tiles hold these units, and no thread writes them before the next barrier.
    unsafe fn add(&mut self, queries: Shared<u32>, rows: Shared<u32>, units: u32);

    /// The sum of query `i` and row `j` of this thread.
    fn sum(&self, i: usize, j: usize) -> Sum<S>;

    /// The place in its tile of query `i` of this thread.
    fn query(i: usize) -> u32;

    /// The place in its tile of row `j` of this thread.
    fn row(j: usize) -> u32;

    /// Stores a unit of a vector where [`Self::add`] reads it.
    ///
    /// # Safety
    /// The tile is [`TILE_WORDS`](super::TILE_WORDS) long, and holds as many vectors and units as fit; nothing else
    /// writes this unit or reads the tile meanwhile.
    unsafe fn put(tile: Shared<u32>, vector: u32, unit: u32, words: [u32; 4]);
}
