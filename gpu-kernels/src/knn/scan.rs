//! The scan: a segment of the rows against a tile of queries.
//!
//! ```text
//! lists = empty; load step 0 of both tiles
//! for each tile of rows of the segment:
//!     for each step (some units of every vector):
//!         load the next step into the other half of the double buffer
//!         product += queries * rows of this step
//!         barrier
//!     offer the scores of the tile to the lists of its queries
//! merge what is pending
//! ```

use cuda_std::prelude::*;

use super::matrix_tile::{Vectors, add_squares, put, units};
use super::product::Product as _;
use super::score::{Score, Sum};
use super::top_lists::TopLists;
use super::{MAX_PENDING, ScanArgs, TILE, TILE_WORDS, list_len};

/// The shared memory of a block.
struct SharedMemory<S: Score> {
    /// `[2][2][DEPTH][TILE]`: a double buffer of queries and rows, word by word.
    tiles: Shared<u32>,
    /// `[2][TILE]`: the squared lengths of the rows of two neighboring tiles.
    squares: Shared<Sum<S>>,
    pending: Shared<u64>,
    worst: Shared<u64>,
    pending_counts: Shared<u32>,
}

impl<S: Score> SharedMemory<S> {
    #[inline(always)]
    fn new() -> Self {
        let tiles = shared::dynamic_shared_mem::<u32>();
        let squares = tiles.add(4 * TILE_WORDS);
        let pending = squares.add(2 * TILE).cast::<u64>();
        let worst = pending.add(TILE * MAX_PENDING);
        Self { tiles, squares: squares.cast(), pending, worst, pending_counts: worst.add(TILE).cast() }
    }

    #[inline(always)]
    fn queries(&self, step: u32) -> Shared<u32> {
        self.tiles.add((step & 1) * 2 * TILE_WORDS)
    }

    #[inline(always)]
    fn rows(&self, step: u32) -> Shared<u32> {
        self.queries(step).add(TILE_WORDS)
    }

    #[inline(always)]
    fn squares(&self, first_row: u32) -> Shared<Sum<S>> {
        self.squares.add(first_row / TILE % 2 * TILE)
    }
}

/// Finds the best of a segment of rows for each query of a tile.
///
/// # Safety
/// The arguments are as [`ScanArgs`] says, and the launch is that of the kernel's `launch_config` for them: a block for
/// each tile of queries (x) and segment of rows (y).
#[inline(always)]
pub(super) unsafe fn scan<S: Score>(args: ScanArgs) {
    let memory = SharedMemory::<S>::new();
    let first_query = thread::block_idx_x() * TILE;
    let segment = thread::block_idx_y();
    let first_row = segment * args.segment_rows;
    let first_list = segment as usize * args.queries_len as usize + first_query as usize;
    let lists = TopLists {
        pending: memory.pending,
        worst: memory.worst,
        pending_counts: memory.pending_counts,
        lists: args.lists.add(first_list * list_len(args.wanted) as usize),
        wanted: args.wanted,
        bounds: args.bounds,
        queries: args.queries_len - first_query,
        rows_end: args.rows_len.min(first_row + args.segment_rows),
        number_of_row_0: args.first_row,
    };
    let queries = Vectors { address: args.queries, len: args.queries_len, row_bytes: args.row_bytes };
    let rows = Vectors { address: args.rows, len: args.rows_len, row_bytes: args.row_bytes };

    // A warp loads its part of the next step before it works on this one. While it waits, other warps work.
    // SAFETY: the shapes are what the arguments say; loops have the same bounds in all threads of the block, so that
    // all reach its barriers; between a write to shared memory and a read of another thread lies a barrier.
    unsafe {
        lists.begin();
        let put_step = |step: u32, row: u32, unit: u32| {
            put::<S>(memory.queries(step), queries.fetch::<S>(first_query, unit));
            let fetched = rows.fetch::<S>(row, unit);
            put::<S>(memory.rows(step), fetched);
            if S::NEEDS_SQUARE {
                add_squares::<S>(memory.squares(row), fetched, unit == 0);
            }
        };
        // The first row and unit of the tile that is loaded, and the index of the step.
        let (mut row, mut unit, mut step) = (first_row, 0, 0);
        put_step(step, row, unit);
        thread::sync_threads();
        let mut product = S::Product::new();
        while row < lists.rows_end {
            let step_units = units::<S>().min(args.row_bytes / 16 - unit);
            unit += step_units;
            let last = unit * 16 == args.row_bytes;
            if last {
                (row, unit) = (row + TILE, 0);
            }
            if row < lists.rows_end {
                put_step(step + 1, row, unit);
            }
            product.add(memory.queries(step), memory.rows(step), step_units);
            if last {
                lists.offer::<S>(&product, memory.squares(row - TILE), row - TILE);
                product = S::Product::new();
            } else {
                thread::sync_threads();
            }
            step += 1;
        }
        lists.merge_pending();
    }
}
