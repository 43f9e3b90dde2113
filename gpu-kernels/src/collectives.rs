//! Collective operations of a warp or a block: numbering, compaction, a minimum, and strided loops.

use cuda_std::prelude::*;

use crate::WARP_SIZE;

/// The number of this warp in the launch, which is the number of its row.
pub(crate) fn row_of_warp() -> usize {
    let warps = thread::block_dim_x() / WARP_SIZE;
    thread::block_idx_x() as usize * warps as usize + (thread::thread_idx_x() / WARP_SIZE) as usize
}

/// The mask of the lanes below this one.
pub(crate) fn lanes_below() -> u32 {
    (1 << warp::lane_id()) - 1
}

/// The number of `lanes` below this one, which is the index of its value when the values of these lanes are packed.
pub(crate) fn rank_in(lanes: u32) -> u32 {
    (lanes & lanes_below()).count_ones()
}

/// Packs the values of the lanes with `is_kept` into `to`, in the order of the lanes. Returns their number.
///
/// # Safety
/// All 32 lanes of the warp call this together. `to` has room for the values, and nothing else uses it.
pub(crate) unsafe fn pack_lanes<T: cuda_std::Value>(to: Shared<T>, value: T, is_kept: bool) -> u32 {
    // SAFETY: upheld by the caller.
    unsafe {
        let lanes = warp::ballot(is_kept);
        if is_kept {
            to.add(rank_in(lanes)).store(value);
        }
        lanes.count_ones()
    }
}

/// The index of this lane's element in a list to which each of `lanes` appends one: `add` reserves places for that many
/// elements and returns the first, in one atomic addition per warp.
///
/// # Safety
/// All 32 lanes of the warp call this together, with the same `lanes`.
pub(crate) unsafe fn warp_reserve(lanes: u32, add: impl FnOnce(u32) -> u32) -> u32 {
    let mut begin = 0;
    if warp::lane_id() == 0 && lanes != 0 {
        begin = add(lanes.count_ones());
    }
    // SAFETY: the warp is converged here.
    unsafe { warp::shuffle(begin, 0) + rank_in(lanes) }
}

/// The minimum of the 64-bit values of all lanes: the minimum of the upper halves, then of the lower halves of those
/// with that upper half.
///
/// # Safety
/// All 32 lanes of the warp call this together.
pub(crate) unsafe fn warp_min(value: u64) -> u64 {
    let (high, low) = ((value >> 32) as u32, value as u32);
    // SAFETY: the warp is converged here.
    unsafe {
        let least = warp::reduce_min(high);
        let low = if high == least { low } else { u32::MAX };
        u64::from(least) << 32 | u64::from(warp::reduce_min(low))
    }
}

/// Calls `body` with `first`, `first + stride`, `first + 2 * stride` and so on, below `end`.
pub(crate) fn strided(first: u32, end: u32, stride: u32, mut body: impl FnMut(u32)) {
    let mut i = first;
    while i < end {
        body(i);
        i += stride;
    }
}

/// Calls `body` with this lane's indices below `len`: lane l gets l, l + 32, l + 64, and so on.
pub(crate) fn warp_stride(len: u32, body: impl FnMut(u32)) {
    strided(warp::lane_id(), len, WARP_SIZE, body);
}

/// Calls `body` with this thread's indices below `len`: thread t of a block of 256 gets t, t + 256, t + 512, and so on.
pub(crate) fn block_stride(len: u32, body: impl FnMut(u32)) {
    strided(thread::thread_idx_x(), len, thread::block_dim_x(), body);
}
