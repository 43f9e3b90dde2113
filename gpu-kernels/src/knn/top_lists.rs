//! The best rows of each query of a tile: sorted lists in global memory, and pending entries in shared memory.

use cuda_std::prelude::*;

use super::list::{self, NO_ENTRY};
use super::product::Product as _;
use super::score::{Score, Sum};
use super::{MAX_PENDING, SCAN_THREADS, TILE};
use crate::DevicePtrMut;
use crate::WARP_SIZE;
use crate::collectives::strided;
use crate::element::DeviceElement;

/// Rounds in which the scores of a tile are offered: in each, a query gets at most half as many entries as can be
/// pending.
const ROUNDS: usize = (TILE / (MAX_PENDING / 2)) as usize;

/// The lists of the queries of a tile. Each warp owns the lists of some queries.
pub(super) struct TopLists {
    /// `[TILE][MAX_PENDING]`: entries to be merged into the list of each query.
    pub(super) pending: Shared<u64>,
    /// `[TILE]`: the last entry of each list.
    pub(super) worst: Shared<u64>,
    /// `[TILE]`: pending entries.
    pub(super) pending_counts: Shared<u32>,
    /// `[queries][list_len]`
    pub(super) lists: DevicePtrMut<u64>,
    /// Entries of a list.
    pub(super) list_len: u32,
    /// Queries of the tile: the last tile may have fewer.
    pub(super) queries: u32,
    /// The end of the rows of the segment.
    pub(super) rows_end: u32,
    /// The number of the first row of the launch. Unless it is 0, the lists have entries of rows before it.
    pub(super) number_of_row_0: u32,
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
                } else if self.number_of_row_0 > 0 {
                    global::load(self.list(query).at(self.list_len as usize - 1))
                } else {
                    list::clear(self.list(query), self.list_len);
                    NO_ENTRY
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
        self.lists.add(query as usize * self.list_len as usize)
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
                    let worst =
                        list::merge(pending, WARP_SIZE.min(count - merged), self.list(query), self.list_len);
                    if warp::lane_id() == 0 {
                        self.worst.add(query).store(worst);
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
            for j in round * S::Product::ROWS / ROUNDS..(round + 1) * S::Product::ROWS / ROUNDS {
                let row = S::Product::row(j);
                let square = if S::NEEDS_SQUARE {
                    // SAFETY: row < TILE, and a barrier has passed since the squares were written.
                    unsafe { squares.add(row).load() }
                } else {
                    S::Element::ZERO
                };
                for i in 0..S::Product::QUERIES {
                    let query = S::Product::query(i);
                    // SAFETY: query < TILE; it does not change before the next barrier.
                    let worst = unsafe { self.worst.add(query).load() };
                    let score = S::score(product.sum(i, j), square);
                    // Most scores are rejected here.
                    if score <= (worst >> 32) as u32 {
                        let row = first_row + row;
                        let entry = u64::from(score) << 32 | u64::from(self.number_of_row_0 + row);
                        if row < self.rows_end && entry < worst {
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
