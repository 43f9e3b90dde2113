//! Who a thread is, where the threads of a block meet, and what orders their memory.

use crate::imp;
use crate::primitive::{Barrier, Special};

/// The number of this thread in its block (`%tid.x`).
#[inline(always)]
#[track_caller]
pub fn thread_idx_x() -> u32 {
    imp::special(Special::ThreadIdxX)
}

/// The column of this block in the grid (`%ctaid.x`).
#[inline(always)]
#[track_caller]
pub fn block_idx_x() -> u32 {
    imp::special(Special::BlockIdxX)
}

/// The row of this block in the grid (`%ctaid.y`).
#[inline(always)]
#[track_caller]
pub fn block_idx_y() -> u32 {
    imp::special(Special::BlockIdxY)
}

/// How many threads a block has (`%ntid.x`): blocks have one dimension here.
#[inline(always)]
#[track_caller]
pub fn block_dim_x() -> u32 {
    imp::special(Special::BlockDimX)
}

/// How many blocks a row of the grid has (`%nctaid.x`).
#[inline(always)]
#[track_caller]
pub fn grid_dim_x() -> u32 {
    imp::special(Special::GridDimX)
}

/// How many rows of blocks the grid has (`%nctaid.y`).
#[inline(always)]
#[track_caller]
pub fn grid_dim_y() -> u32 {
    imp::special(Special::GridDimY)
}

/// The number of this thread in its row of the grid: `block_idx_x * block_dim_x + thread_idx_x`.
#[inline(always)]
#[track_caller]
pub fn index_1d() -> u32 {
    block_idx_x() * block_dim_x() + thread_idx_x()
}

/// Waits for all threads of the block; what each wrote before, all see afterwards (`bar.sync 0`).
///
/// # Safety
/// Every thread of the block comes here, and not one by one: the lanes of a warp have not diverged.
#[inline(always)]
#[track_caller]
pub unsafe fn sync_threads() {
    // SAFETY: the caller's promise is the back end's.
    unsafe { imp::barrier(Barrier::All) };
}

/// [`sync_threads`], and how many threads brought `true` (`bar.red.popc.u32 0`).
///
/// # Safety
/// As [`sync_threads`].
#[inline(always)]
#[track_caller]
pub unsafe fn sync_threads_count(predicate: bool) -> u32 {
    // SAFETY: the caller's promise is the back end's.
    unsafe { imp::barrier(Barrier::Count(predicate)) }
}

/// [`sync_threads`], and whether any thread brought `true` (`bar.red.or.pred 0`).
///
/// # Safety
/// As [`sync_threads`].
#[inline(always)]
#[track_caller]
pub unsafe fn sync_threads_or(predicate: bool) -> bool {
    // SAFETY: the caller's promise is the back end's.
    unsafe { imp::barrier(Barrier::Or(predicate)) != 0 }
}

/// What this thread wrote before, every thread of the block sees before what it writes afterwards (`fence.acq_rel.cta`).
#[inline(always)]
#[track_caller]
pub fn block_fence() {
    imp::fence();
}

/// Sleeps for between none and twice as many nanoseconds (`nanosleep.u32`); others run meanwhile. Belongs into every
/// loop that waits for another block. At most 1,000,000.
#[inline(always)]
#[track_caller]
pub fn nanosleep(nanoseconds: u32) {
    imp::nanosleep(nanoseconds);
}

/// Nothing on a device; the emulator lets others go first. Belongs into every loop that waits for another thread of the
/// same block by [`Shared::load_relaxed`](crate::shared::Shared::load_relaxed), which sleep would only make longer.
#[inline(always)]
#[track_caller]
pub fn pause() {
    imp::pause();
}
