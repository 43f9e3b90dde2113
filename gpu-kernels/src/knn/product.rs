//! The product of a tile of queries and one of rows, spread over the registers of a block.

use cuda_std::prelude::*;

use super::score::{Score, Sum};

/// The part of the product that one thread holds: some queries by some rows of the tiles.
///
/// Between them the threads of a block hold each query and row once. A row is number `j` of as many threads as a query
/// meets rows at once when each thread looks at one.
pub(super) trait Product<S: Score + ?Sized> {
    /// Queries of a thread.
    const QUERIES: usize;
    /// Rows of a thread.
    const ROWS: usize;

    /// Nothing summed up yet.
    fn new() -> Self;

    /// Adds what the first `chunks` chunks in two tiles make. Whole block.
    ///
    /// # Safety
    /// Both tiles are written, at most whole, and they are not written during the launch.
    unsafe fn add(&mut self, queries: Shared<u32>, rows: Shared<u32>, chunks: u32);

    /// The sum of query `i` and row `j` of this thread.
    fn sum(&self, i: usize, j: usize) -> Sum<S>;

    /// Where in its tile query `i` of this thread lies.
    fn query(i: usize) -> u32;

    /// Where in its tile row `j` of this thread lies.
    fn row(j: usize) -> u32;

    /// Puts a chunk of a vector where [`Self::add`] finds it.
    ///
    /// # Safety
    /// The tile is [`TILE_WORDS`](super::TILE_WORDS) long, and holds as many vectors and chunks as fit; nothing else
    /// writes this chunk or reads the tile meanwhile.
    unsafe fn put(tile: Shared<u32>, vector: u32, chunk: u32, words: [u32; 4]);
}
