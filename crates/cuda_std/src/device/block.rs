//! Special registers, barriers and fences.

use core::arch::{asm, nvptx};

use crate::primitive::{Barrier, Special};

unsafe extern "unadjusted" {
    #[link_name = "llvm.nvvm.barrier.cta.sync.aligned.all"]
    fn barrier_sync(barrier: u32);
    #[link_name = "llvm.nvvm.barrier.cta.red.popc.aligned.all"]
    fn barrier_popc(barrier: u32, predicate: bool) -> u32;
    #[link_name = "llvm.nvvm.barrier.cta.red.or.aligned.all"]
    fn barrier_or(barrier: u32, predicate: bool) -> bool;
    #[link_name = "llvm.nvvm.read.ptx.sreg.laneid"]
    fn lane_id() -> u32;
}

#[inline(always)]
pub fn special(special: Special) -> u32 {
    // SAFETY: special registers can always be read.
    unsafe {
        match special {
            Special::ThreadIdxX => nvptx::_thread_idx_x(),
            Special::BlockIdxX => nvptx::_block_idx_x(),
            Special::BlockIdxY => nvptx::_block_idx_y(),
            Special::BlockDimX => nvptx::_block_dim_x(),
            Special::GridDimX => nvptx::_grid_dim_x(),
            Special::GridDimY => nvptx::_grid_dim_y(),
            Special::Lane => lane_id(),
        }
    }
}

/// # Safety
/// All threads of the block call this, and the lanes of a warp together.
#[inline(always)]
pub unsafe fn barrier(barrier: Barrier) -> u32 {
    // SAFETY: upheld by the caller.
    unsafe {
        match barrier {
            Barrier::All => barrier_sync(0),
            Barrier::Count(predicate) => return barrier_popc(0, predicate),
            Barrier::Or(predicate) => return u32::from(barrier_or(0, predicate)),
        }
    }
    0
}

#[inline(always)]
pub fn fence() {
    // SAFETY: orders memory, and, as assembly that may access memory, also the compiler's accesses around it.
    unsafe { asm!("fence.acq_rel.cta;", options(nostack)) }
}

#[inline(always)]
pub fn nanosleep(nanoseconds: u32) {
    // SAFETY: waits.
    unsafe { asm!("nanosleep.u32 {};", in(reg32) nanoseconds, options(nomem, nostack)) };
}

/// Does nothing: polling shared memory needs no pause.
#[inline(always)]
pub fn pause() {}
