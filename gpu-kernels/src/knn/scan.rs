//! Scores of a tile of queries against a segment of the rows, and the best of them.
//!
//! Arrays stand for registers: loops over them go by index, and are unrolled whole.

#![expect(clippy::needless_range_loop, reason = "an iterator over an array keeps it in memory on the device")]

use cuda_std::prelude::*;

use super::list::{self, NO_ENTRY};
use super::score::{Score, Sum};
use super::{DEPTH, PENDING, PITCH, SCAN_THREADS, ScanArgs, TILE, TILE_WORDS, WARP};
use crate::coordinates::Coordinates;
use crate::{In, Out};

/// Queries, and rows, whose products one thread sums up: two groups of four neighbours, half a tile apart.
const SIDE: usize = 8;
/// Threads along each side of the product of two tiles.
const THREADS_ACROSS: u32 = TILE / SIDE as u32;
/// Chunks of a tile that one thread carries to shared memory, if a chunk unpacks to four words; half of them if to eight.
const CARRIED: usize = (TILE * DEPTH / 4 / SCAN_THREADS) as usize;

/// Rounds in which the scores of a tile are offered: in each, a query meets half as many rows as entries can wait for it.
const ROUNDS: usize = (TILE / (PENDING / 2)) as usize;

/// Where in its tile vector number `i` of a thread lies, the thread being `across` in that direction.
#[inline(always)]
fn in_tile(across: u32, i: usize) -> u32 {
    across * 4 + i as u32 % 4 + i as u32 / 4 * (TILE / 2)
}

/// The shared memory of a block.
struct Parts {
    /// `[2][2][DEPTH][PITCH]`: in turns, queries and rows, word by word.
    tiles: Shared<u32>,
    /// `[TILE][PENDING]`: entries that wait for the list of each query.
    pending: Shared<u64>,
    /// `[TILE]`: the last entry of each list.
    worst: Shared<u64>,
    /// `[TILE]`: how many entries wait.
    waiting: Shared<u32>,
}

impl Parts {
    #[inline(always)]
    fn new() -> Self {
        let tiles = shared::dynamic_shared_mem::<u32>();
        let pending = tiles.add(4 * TILE_WORDS).cast::<u64>();
        let worst = pending.add(TILE * PENDING);
        Self { tiles, pending, worst, waiting: worst.add(TILE).cast() }
    }
}

/// One side of the product: vectors of which a tile begins at `first`.
#[derive(Clone, Copy)]
struct Side {
    vectors: In<u8>,
    len: u32,
    row_bytes: u32,
}

impl Side {
    /// Chunks of a vector that are in shared memory at once.
    #[inline(always)]
    const fn chunks<E: Coordinates>() -> u32 {
        DEPTH / E::UNPACKED as u32
    }

    /// The chunks that this thread carries, of the tile that begins at vector `first`, from chunk `chunk` on. Vectors
    /// behind the last are copies of it, chunks behind the end are zero.
    ///
    /// # Safety
    /// The vectors are what [`ScanArgs`] says, at least one.
    #[inline(always)]
    unsafe fn fetch<E: Coordinates>(self, first: u32, chunk: u32) -> [[u32; 4]; CARRIED] {
        let mut carried = [[0; 4]; CARRIED];
        for i in 0..CARRIED * 4 / E::UNPACKED {
            let number = thread::thread_idx_x() + i as u32 * SCAN_THREADS;
            let vector = (first + number / Self::chunks::<E>()).min(self.len - 1);
            let at = (chunk + number % Self::chunks::<E>()) * 16;
            // The last chunk in place of one behind it, so that the load needs no branch.
            let inside = at.min(self.row_bytes - 16);
            // SAFETY: the vector is below `len`, the chunk inside of it.
            let words = unsafe {
                global::load_readonly(
                    self.vectors.at(vector as usize * self.row_bytes as usize + inside as usize).cast(),
                )
            };
            carried[i] = if at == inside { words } else { [0; 4] };
        }
        carried
    }

    /// Puts what was fetched into a tile in shared memory.
    ///
    /// # Safety
    /// The block is done reading the tile.
    #[inline(always)]
    unsafe fn put<E: Coordinates>(tile: Shared<u32>, carried: [[u32; 4]; CARRIED]) {
        for i in 0..CARRIED * 4 / E::UNPACKED {
            let number = thread::thread_idx_x() + i as u32 * SCAN_THREADS;
            let (vector, chunk_number) = (number / Self::chunks::<E>(), number % Self::chunks::<E>());
            let words = E::unpack(carried[i]);
            for w in 0..E::UNPACKED {
                let depth = chunk_number * E::UNPACKED as u32 + w as u32;
                // SAFETY: depth < DEPTH and vector < TILE, and no other thread has this chunk.
                unsafe { tile.add(depth * PITCH + vector).store(words[w]) };
            }
        }
    }
}

/// What one thread sums up: eight queries by eight rows.
struct Product<S: Score> {
    sums: [[Sum<S>; SIDE]; SIDE],
    squares: [Sum<S>; SIDE],
}

impl<S: Score> Product<S> {
    #[inline(always)]
    fn new() -> Self {
        let zero = <S::Element as Coordinates>::ZERO;
        Self { sums: [[zero; SIDE]; SIDE], squares: [zero; SIDE] }
    }

    /// Adds what the words in shared memory make.
    ///
    /// # Safety
    /// Both tiles are written, and nobody writes them meanwhile.
    #[inline(always)]
    unsafe fn add(&mut self, queries: Shared<u32>, rows: Shared<u32>) {
        let (query, row) = (
            in_tile(thread::thread_idx_x() / THREADS_ACROSS, 0),
            in_tile(thread::thread_idx_x() % THREADS_ACROSS, 0),
        );
        for depth in 0..DEPTH {
            // SAFETY: depth < DEPTH; four words from a multiple of four below half a tile.
            let (query, row) =
                unsafe { (eight(queries.add(depth * PITCH + query)), eight(rows.add(depth * PITCH + row))) };
            for i in 0..SIDE {
                for j in 0..SIDE {
                    self.sums[i][j] = S::add(self.sums[i][j], query[i], row[j]);
                }
            }
            if S::NEEDS_SQUARE {
                for j in 0..SIDE {
                    self.squares[j] =
                        <S::Element as Coordinates>::Unpacked::product(self.squares[j], row[j], row[j]);
                }
            }
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

/// The tile of queries and the segment of rows of this block.
struct Work {
    parts: Parts,
    first_query: u32,
    queries_len: u32,
    rows_end: u32,
    /// `[queries of the tile][list_len]`
    lists: Out<u64>,
    list_len: u32,
}

impl Work {
    /// Calls `each` with the queries of this warp. Whole warp.
    #[inline(always)]
    fn queries_of_warp(&self, mut each: impl FnMut(u32)) {
        let mut query = thread::thread_idx_x() / WARP;
        while query < TILE {
            each(query);
            query += SCAN_THREADS / WARP;
        }
    }

    /// Makes lists and counts empty. Whole block; a barrier must follow.
    ///
    /// # Safety
    /// The work is what the arguments said.
    #[inline(always)]
    unsafe fn begin(&self) {
        self.queries_of_warp(|query| {
            // SAFETY: the lists of the queries that exist lie one after the other; one lane writes the counts.
            unsafe {
                // A query that is none has no list, and nothing beats its worst entry.
                let worst = if self.first_query + query < self.queries_len {
                    list::clear(self.list(query), self.list_len);
                    NO_ENTRY
                } else {
                    0
                };
                if warp::lane_id() == 0 {
                    self.parts.worst.add(query).store(worst);
                    self.parts.waiting.add(query).store(0);
                }
            }
        });
    }

    #[inline(always)]
    fn list(&self, query: u32) -> Out<u64> {
        self.lists.from(query as usize * self.list_len as usize)
    }

    /// Merges what waits into the lists. Whole block, behind a barrier; another must follow before more may wait.
    ///
    /// # Safety
    /// As for [`Self::begin`].
    #[inline(always)]
    unsafe fn settle(&self) {
        self.queries_of_warp(|query| {
            // SAFETY: a query belongs to one warp, which alone sees its list; what waits was written before the barrier.
            unsafe {
                let count = self.parts.waiting.add(query).load();
                let mut merged = 0;
                while merged < count {
                    let pending = self.parts.pending.add(query * PENDING + merged);
                    let worst =
                        list::merge(pending, WARP.min(count - merged), self.list(query), self.list_len);
                    if warp::lane_id() == 0 {
                        self.parts.worst.add(query).store(worst);
                        self.parts.waiting.add(query).store(0);
                    }
                    merged += WARP;
                }
            }
        });
    }

    /// Lets the scores that beat the worst of their lists wait for them, and settles before there is no more room. Whole
    /// block, in rounds with a barrier behind each.
    ///
    /// # Safety
    /// As for [`Self::begin`]; `first_row` is the row at which the tile begins.
    #[inline(always)]
    unsafe fn offer<S: Score>(&self, product: &Product<S>, first_row: u32) {
        let (row, query) = (thread::thread_idx_x() % THREADS_ACROSS, thread::thread_idx_x() / THREADS_ACROSS);
        for round in 0..ROUNDS {
            let mut crowded = false;
            for i in 0..SIDE {
                let query = in_tile(query, i);
                // SAFETY: query < TILE; the barrier before was the last time that it changed.
                let worst = unsafe { self.parts.worst.add(query).load() };
                for j in round * SIDE / ROUNDS..(round + 1) * SIDE / ROUNDS {
                    let score = S::score(product.sums[i][j], product.squares[j]);
                    // Most end here.
                    if score <= (worst >> 32) as u32 {
                        let row = first_row + in_tile(row, j);
                        let entry = u64::from(score) << 32 | u64::from(row);
                        if row < self.rows_end && entry < worst {
                            // SAFETY: at most half of the places were taken when the round began, and a query meets
                            // as many rows in one as there are others. Places are handed out once, and read after a
                            // barrier.
                            unsafe {
                                let place = self.parts.waiting.add(query).atomic_add(1);
                                self.parts.pending.add(query * PENDING + place).store(entry);
                                crowded |= place >= PENDING / 2;
                            }
                        }
                    }
                }
            }
            // SAFETY: every thread comes here as often, and what it brings, all see.
            unsafe {
                if thread::sync_threads_or(crowded) {
                    self.settle();
                    thread::sync_threads();
                }
            }
        }
    }
}

/// The best of a segment of rows for each query of a tile.
///
/// # Safety
/// The arguments are what [`ScanArgs`] says, and the launch is the one planned for them: a block for each tile of
/// queries (x) and segment of rows (y).
#[inline(always)]
pub(super) unsafe fn scan<S: Score>(args: ScanArgs) {
    let first_query = thread::block_idx_x() * TILE;
    let segment = thread::block_idx_y();
    let first_row = segment * args.segment_rows;
    let rows_end = args.rows_len.min(first_row + args.segment_rows);
    let list = segment as usize * args.queries_len as usize + first_query as usize;
    let work = Work {
        parts: Parts::new(),
        first_query,
        queries_len: args.queries_len,
        rows_end,
        lists: args.lists.from(list * args.list_len as usize),
        list_len: args.list_len,
    };
    let rows = Side { vectors: args.rows, len: args.rows_len, row_bytes: args.row_bytes };
    let queries = Side { vectors: args.queries, len: args.queries_len, row_bytes: args.row_bytes };
    let chunks = Side::chunks::<S::Element>();
    let tile = |turn: u32, side: u32| work.parts.tiles.add(((turn & 1) * 2 + side) * TILE_WORDS);

    // A segment is a chain of steps, each `chunks` chunks of all vectors of two tiles. A warp puts its part of the next in
    // place before it works on the one that is there: what one warp waits for, others hide.
    // SAFETY: the shapes are what the arguments say; loops have the same bounds in all threads of the block, so that all
    // reach its barriers; between a write to shared memory and a read of another thread lies a barrier.
    unsafe {
        work.begin();
        let fetch = |row: u32, chunk: u32| {
            (queries.fetch::<S::Element>(first_query, chunk), rows.fetch::<S::Element>(row, chunk))
        };
        let put = |turn: u32, (query, row)| {
            Side::put::<S::Element>(tile(turn, 0), query);
            Side::put::<S::Element>(tile(turn, 1), row);
        };
        put(0, fetch(first_row, 0));
        thread::sync_threads();
        let mut product = Product::<S>::new();
        // The step whose vectors are in place, and the turn of its tiles.
        let (mut row, mut chunk, mut turn) = (first_row, 0, 0);
        while row < rows_end {
            chunk += chunks;
            let last = chunk * 16 >= args.row_bytes;
            if last {
                (row, chunk) = (row + TILE, 0);
            }
            if row < rows_end {
                put(turn + 1, fetch(row, chunk));
            }
            product.add(tile(turn, 0), tile(turn, 1));
            if last {
                work.offer(&product, row - TILE);
                product = Product::new();
            } else {
                thread::sync_threads();
            }
            turn += 1;
        }
        work.settle();
    }
}
