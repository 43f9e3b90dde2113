//! The best rows of each query of a tile: sorted lists in global memory, and pending entries in shared memory.

use cuda_std::prelude::*;

use super::list;
use super::product::Product as _;
use super::score::{Score, Sum};
use super::{MAX_PENDING, SCAN_THREADS, TILE, list_len};
use crate::DevicePtrMut;
use crate::WARP_SIZE;
use crate::collectives::strided;
use crate::element::Packed;

/// Rounds in which the scores of a tile are offered: in each, a query gets at most half as many entries as can be
/// pending.
const ROUNDS: usize = (TILE / (MAX_PENDING / 2)) as usize;

/// Most rows of a thread that are offered in a round.
const MAX_ROWS_PER_ROUND: usize = 4;

/// The lists of the queries of a tile. Each warp owns the lists of some queries.
pub(super) struct TopLists {
    /// `[TILE][MAX_PENDING]`: entries to be merged into the list of each query.
    pub(super) pending: Shared<u64>,
    /// `[TILE]`: the last wanted entry of each list or, if that is less, the last one with the bound's score.
    pub(super) worst: Shared<u64>,
    /// `[TILE]`: pending entries.
    pub(super) pending_counts: Shared<u32>,
    /// `[queries][list_len]`
    pub(super) lists: DevicePtrMut<u64>,
    /// As in [`ScanArgs`](super::ScanArgs).
    pub(super) wanted: u32,
    /// As in [`ScanArgs`](super::ScanArgs).
    pub(super) bounds: DevicePtrMut<u32>,
    /// Queries of the tile: the last tile may have fewer.
    pub(super) queries: u32,
    /// The end of the rows of the segment.
    pub(super) rows_end: u32,
    /// The number of the first row of the launch. Unless it is 0, the lists have entries of rows before it.
    pub(super) number_of_row_0: u32,
}

/// The last entry with this score.
#[inline(always)]
fn last_of(score: u32) -> u64 {
    u64::from(score) << 32 | u64::from(u32::MAX)
}

impl TopLists {
    /// Calls `each` with the queries of this warp. Called by the whole warp.
    #[inline(always)]
    fn for_queries_of_warp(&self, each: impl FnMut(u32)) {
        strided(thread::thread_idx_x() / WARP_SIZE, TILE, SCAN_THREADS / WARP_SIZE, each);
    }

    /// Clears the counts, and the lists unless they are continued. Called by the whole block; a barrier must follow.
    ///
    /// # Safety
    /// The arrays have the documented shapes.
    #[inline(always)]
    pub(super) unsafe fn begin(&self) {
        self.for_queries_of_warp(|query| {
            // SAFETY: the lists of the queries that there are lie one after the other; one lane writes the counts.
            unsafe {
                // A place without a query has no list, and rejects all entries.
                let worst = if query >= self.queries {
                    0
                } else {
                    if self.number_of_row_0 == 0 {
                        list::clear(self.list(query), list_len(self.wanted));
                    }
                    last_of(global::load_relaxed(self.bound(query).cast_const()))
                };
                if warp::lane_id() == 0 {
                    self.worst.add(query).store(worst);
                    self.pending_counts.add(query).store(0);
                }
            }
        });
    }

    #[inline(always)]
    fn list(&self, query: u32) -> DevicePtrMut<u64> {
        self.lists.add((query * list_len(self.wanted)) as usize)
    }

    /// The bound of a query. Computed where it is needed: the kernels have no register left.
    #[inline(always)]
    fn bound(&self, query: u32) -> *mut u32 {
        self.bounds.at((thread::block_idx_x() * TILE + query) as usize)
    }

    /// Merges pending entries into the lists. Called by the whole block after a barrier; another must follow before more
    /// entries are offered.
    ///
    /// # Safety
    /// As for [`Self::begin`].
    #[inline(always)]
    pub(super) unsafe fn merge_pending(&self) {
        self.for_queries_of_warp(|query| {
            // SAFETY: a query belongs to one warp, which alone sees its list; what is pending was written before the
            // barrier.
            unsafe {
                let count = self.pending_counts.add(query).load();
                strided(0, count, WARP_SIZE, |merged| {
                    let pending = self.pending.add(query * MAX_PENDING + merged);
                    let count = WARP_SIZE.min(count - merged);
                    let worst = list::merge(pending, count, self.list(query), self.wanted);
                    if warp::lane_id() == 0 {
                        let bound = atomic::min(self.bound(query), (worst >> 32) as u32);
                        self.worst.add(query).store(worst.min(last_of(bound)));
                        self.pending_counts.add(query).store(0);
                    }
                });
            }
        });
    }

    /// Adds the scores that are below the last entry of their list to its pending entries, and merges these before they
    /// overflow. Called by the whole block; each round ends with a barrier.
    ///
    /// # Safety
    /// As for [`Self::begin`]; `first_row` is the row at which the tile begins, `[TILE]` `squares` are the squared
    /// lengths of its rows, if the score needs them.
    #[inline(always)]
    pub(super) unsafe fn offer<S: Score>(
        &self,
        product: &S::Product,
        squares: Shared<Sum<S>>,
        first_row: u32,
    ) {
        for round in 0..ROUNDS {
            let mut crowded = false;
            let rows_of_round = S::Product::ROWS / ROUNDS;
            let first = round * rows_of_round;
            let mut row_squares = [S::Element::ZERO; MAX_ROWS_PER_ROUND];
            if S::NEEDS_SQUARE {
                for j in 0..rows_of_round {
                    // SAFETY: a row of the tile, and a barrier has passed since the squares were written.
                    row_squares[j] = unsafe { squares.add(S::Product::row(first + j)).load() };
                }
            }
            for i in 0..S::Product::QUERIES {
                let query = S::Product::query(i);
                // SAFETY: query < TILE; it does not change before the next barrier.
                let worst = || unsafe { self.worst.add(query).load() };
                let bound = (worst() >> 32) as u32;
                for j in 0..rows_of_round {
                    let score = S::score(product.sum(i, first + j), row_squares[j]);
                    // Most scores are rejected here.
                    if score <= bound {
                        let row = first_row + S::Product::row(first + j);
                        let entry = u64::from(score) << 32 | u64::from(self.number_of_row_0 + row);
                        if row < self.rows_end && entry < worst() {
                            // SAFETY: at most half of the places were taken when the round began, and a round offers
                            // a query at most as many entries as are left. Each place is taken once, and read after a
                            // barrier.
                            unsafe {
                                let place = self.pending_counts.add(query).atomic_add(1);
                                self.pending.add(query * MAX_PENDING + place).store(entry);
                                crowded |= place >= MAX_PENDING / 2;
                            }
                        }
                    }
                }
            }
            // SAFETY: all threads of the block reach the barriers, because all get the same result.
            unsafe {
                if thread::sync_threads_or(crowded) {
                    self.merge_pending();
                    thread::sync_threads();
                }
            }
        }
    }
}
