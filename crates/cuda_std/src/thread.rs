//! Thread and block indices, block barriers and fences.

use crate::imp;
use crate::primitive::{Barrier, Special};

macro_rules! special_registers {
    ($($(#[$doc:meta])* $name:ident, $register:ident;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        #[track_caller]
        pub fn $name() -> u32 {
            imp::special(Special::$register)
        }
    )* };
}
special_registers! {
    /// The index of this thread in its block (`%tid.x`).
    thread_idx_x, ThreadIdxX;
    /// The index of this block in x (`%ctaid.x`).
    block_idx_x, BlockIdxX;
    /// The index of this block in y (`%ctaid.y`).
    block_idx_y, BlockIdxY;
    /// Threads per block (`%ntid.x`). Blocks have one dimension here.
    block_dim_x, BlockDimX;
    /// Blocks of the grid in x (`%nctaid.x`).
    grid_dim_x, GridDimX;
    /// Blocks of the grid in y (`%nctaid.y`).
    grid_dim_y, GridDimY;
}

/// The index of this thread in x in the grid: `block_idx_x * block_dim_x + thread_idx_x`.
#[inline(always)]
#[track_caller]
pub fn index_1d() -> u32 {
    block_idx_x() * block_dim_x() + thread_idx_x()
}

/// Barrier of the block: all writes before it are visible to all threads of the block afterwards (`bar.sync 0`).
///
/// # Safety
/// Every thread of the block calls this, and the lanes of a warp have not diverged.
#[inline(always)]
#[track_caller]
pub unsafe fn sync_threads() {
    // SAFETY: the caller upholds the contract of the back end.
    unsafe { imp::barrier(Barrier::All) };
}

/// Synchronizes as [`sync_threads`] does, and returns the number of threads with `true` (`bar.red.popc.u32 0`).
///
/// # Safety
/// The same as for [`sync_threads`].
#[inline(always)]
#[track_caller]
pub unsafe fn sync_threads_count(predicate: bool) -> u32 {
    // SAFETY: the caller upholds the contract of the back end.
    unsafe { imp::barrier(Barrier::Count(predicate)) }
}

/// Synchronizes as [`sync_threads`] does, and returns whether any thread has `true` (`bar.red.or.pred 0`).
///
/// # Safety
/// The same as for [`sync_threads`].
#[inline(always)]
#[track_caller]
pub unsafe fn sync_threads_or(predicate: bool) -> bool {
    // SAFETY: the caller upholds the contract of the back end.
    unsafe { imp::barrier(Barrier::Or(predicate)) != 0 }
}

/// Orders this thread's earlier accesses before its later ones, as seen by the block (`fence.acq_rel.cta`).
#[inline(always)]
#[track_caller]
pub fn block_fence() {
    imp::fence();
}

/// Sleeps for up to twice `nanoseconds`, which is at most 1,000,000 (`nanosleep.u32`). Use it in every loop that polls
/// another block.
#[inline(always)]
#[track_caller]
pub fn nanosleep(nanoseconds: u32) {
    imp::nanosleep(nanoseconds);
}

/// Does nothing on a device, and yields in the emulator. Use it in every loop that polls another thread of the same
/// block by [`Shared::load_relaxed`](crate::shared::Shared::load_relaxed), where a sleep would be too long.
#[inline(always)]
#[track_caller]
pub fn pause() {
    imp::pause();
}
