//! Distance computers: the distances of a query to rows.
//!
//! | module | reads |
//! | --- | --- |
//! | `exact` | vectors, with a tile of lanes per vector |
//! | `estimate` | nothing: it computes the estimate from a sum over a code |
//! | `lane_per_row` | short codes, with a lane per code |
//! | `tile_per_row` | codes of any length, with a tile of lanes per code |

mod estimate;
mod exact;
mod lane_per_row;
mod tile_per_row;

use cuda_std::prelude::*;

use super::SearchArgs;
pub(super) use exact::Exact;
pub(super) use lane_per_row::LanePerRow;
pub(super) use tile_per_row::TilePerRow;

/// Computes the distances of one query to rows named by slots.
pub(super) trait DistanceComputer: Sized {
    /// The arguments of the kernel.
    type Args: AsRef<SearchArgs>;
    /// What [`Self::fetch`] loads ahead, in registers.
    type Fetched: Copy;

    /// Bytes of shared memory for the query: a multiple of 16, 0 if it stays in registers.
    fn query_bytes(args: &Self::Args) -> u32;

    /// Reads the query with this index. `memory` has room for [`Self::query_bytes`]. All `threads` call it, and a
    /// barrier of these threads must follow.
    ///
    /// # Safety
    /// The arguments are valid, and the query is one of them; `thread` of `threads` is this one.
    unsafe fn new(args: &Self::Args, query: u32, memory: Shared<u8>, thread: u32, threads: u32) -> Self;

    /// Starts to load the rows that [`Self::entries`] reads first for the same slots, without waiting.
    ///
    /// # Safety
    /// The same as for [`Self::entries`].
    unsafe fn fetch(&self, slots: Shared<u32>, count: u32) -> Self::Fetched;

    /// Prefetches the rows that [`Self::entries`] reads last for the same slots, without waiting. Used by the workers
    /// of a team. Called by the whole warp.
    ///
    /// # Safety
    /// The same as for [`Self::entries`].
    #[inline(always)]
    unsafe fn prefetch(&self, _: Shared<u32>, _: u32) {}

    /// The entries of up to 32 rows: `slots` holds `count` of them. Each lane has the entry of one,
    /// [`NO_ENTRY`](crate::neighbor::NO_ENTRY) if there are fewer.
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together; `count` is at least 1 and the same in all lanes. The slots name
    /// rows, which are not written during the launch.
    unsafe fn entries(&self, fetched: Self::Fetched, slots: Shared<u32>, count: u32) -> u64;
}

/// The row in the arrays of queries of the query with this index. The parts of a scan share it.
///
/// # Safety
/// The arguments are valid, and the query is one of them.
#[inline(always)]
unsafe fn query_row(args: &SearchArgs, query: u32) -> usize {
    let query = (query / args.start.parts) as usize;
    if args.query_rows.is_null() {
        return query;
    }
    // SAFETY: the query is one of them.
    unsafe { global::load_readonly(args.query_rows.at(query)) as usize }
}
