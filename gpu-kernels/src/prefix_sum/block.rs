//! Sums over a warp and a block, and the numbering of tiles.

use cuda_std::prelude::*;

use super::LookBack;
use crate::WARP_SIZE;

/// The index of this block's tile. Called by the whole block, with a barrier.
///
/// # Safety
/// `word` is shared memory that nothing else uses.
#[inline(always)]
pub(crate) unsafe fn take_tile(look_back: &LookBack, word: Shared<u32>) -> u32 {
    // SAFETY: one thread writes the word, the others read it after the barrier.
    unsafe {
        if thread::thread_idx_x() == 0 {
            word.store(atomic::add(look_back.tickets.at(0), 1).wrapping_sub(look_back.first_ticket));
        }
        thread::sync_threads();
        word.load()
    }
}

/// The inclusive prefix sum of `value` over the lanes. Called by the whole warp.
///
/// # Safety
/// All 32 lanes of the warp call this together.
#[inline(always)]
pub(crate) unsafe fn warp_inclusive_sum(value: u32) -> u32 {
    let mut sum = value;
    let mut distance = 1;
    while distance < WARP_SIZE {
        // SAFETY: the warp is converged here.
        let (below, exists) = unsafe { warp::shuffle_up(sum, distance) };
        if exists {
            sum = sum.wrapping_add(below);
        }
        distance *= 2;
    }
    sum
}

/// The sum over the warps before this one, and over all `WARPS`. `sum` is the sum of a warp in its last lane. Called by
/// the whole block, with a barrier.
///
/// # Safety
/// `sums` are `WARPS` words of shared memory that nothing else uses.
#[inline(always)]
pub(crate) unsafe fn block_sums<const WARPS: u32>(sum: u32, sums: Shared<u32>) -> (u32, u32) {
    let this = thread::thread_idx_x() / WARP_SIZE;
    let (mut before, mut all) = (0u32, 0u32);
    // SAFETY: one lane per warp writes, and all threads read after the barrier.
    unsafe {
        if warp::lane_id() == WARP_SIZE - 1 {
            sums.add(this).store(sum);
        }
        thread::sync_threads();
        for warp in 0..WARPS {
            let sum = sums.add(warp).load();
            before = before.wrapping_add(if warp < this { sum } else { 0 });
            all = all.wrapping_add(sum);
        }
    }
    (before, all)
}
