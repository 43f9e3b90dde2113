//! Stream compaction: lists the numbers that satisfy a predicate, in ascending order.
//!
//! A prefix sum of the predicate, as 0 or 1, gives each selected number its place in the list.

use cuda_std::prelude::*;

use super::block::{block_sums, take_tile};
use super::{LookBack, SELECT_NUMBERS, SELECT_THREADS, SELECT_TILE};
use crate::DevicePtrMut;
use crate::WARP_SIZE;
use crate::collectives::rank_in;

const WARPS: u32 = SELECT_THREADS / WARP_SIZE;

/// Lists the numbers below `len` that are `wanted`, plus `first`; one block per tile. One thread of the last tile gets
/// the number of all listed. Called by the whole block.
///
/// # Safety
/// `look_back` is the launch's, with as many tiles as hold `len` numbers; `list` has room for the selected ones.
#[inline(always)]
pub(crate) unsafe fn select(
    look_back: &LookBack,
    len: u32,
    wanted: impl Fn(usize) -> bool,
    list: DevicePtrMut<u32>,
    first: u32,
) -> Option<u32> {
    let [slot, before, sums] = [0, 1, 2].map(|word| shared::dynamic_shared_mem::<u32>().add(word));
    // SAFETY: all threads of the block call the collectives; the words of shared memory are disjoint; there is room for
    // the list.
    unsafe {
        let tile = take_tile(look_back, slot);
        // A warp has consecutive numbers, in rows of 32.
        let warp = thread::thread_idx_x() / WARP_SIZE;
        let in_tile = warp * SELECT_NUMBERS as u32 * WARP_SIZE + warp::lane_id();
        let first_of_lane = tile as usize * SELECT_TILE as usize + in_tile as usize;
        let rows = find(first_of_lane, len, wanted);
        let (warps_before, all) = block_sums::<WARPS>(rows.iter().map(|row| row.count_ones()).sum(), sums);
        let tiles_before = look_back.sum_before(tile, all, before);
        write(&rows, list.add((tiles_before + warps_before) as usize), first + first_of_lane as u32);
        (tile == look_back.tiles - 1 && thread::thread_idx_x() == 0).then(|| tiles_before + all)
    }
}

/// For each row of the warp, the lanes whose numbers are wanted. Called by the whole warp.
///
/// # Safety
/// All 32 lanes of the warp call this together.
#[inline(always)]
unsafe fn find(first: usize, len: u32, wanted: impl Fn(usize) -> bool) -> [u32; SELECT_NUMBERS] {
    let mut found = [false; SELECT_NUMBERS];
    for (row, found) in found.iter_mut().enumerate() {
        let number = first + row * WARP_SIZE as usize;
        *found = number < len as usize && wanted(number);
    }
    // SAFETY: the warp is converged here.
    found.map(|found| unsafe { warp::ballot(found) })
}

/// Writes this lane's selected numbers; `list` begins with the first of the warp.
///
/// # Safety
/// There is room for them.
#[inline(always)]
unsafe fn write(rows: &[u32; SELECT_NUMBERS], list: DevicePtrMut<u32>, first: u32) {
    let (lane, mut rows_before) = (warp::lane_id(), 0);
    for (row, lanes) in rows.iter().enumerate() {
        if lanes >> lane & 1 == 1 {
            let at = rows_before + rank_in(*lanes);
            // SAFETY: upheld by the caller.
            unsafe { global::store(list.at(at as usize), first + row as u32 * WARP_SIZE) };
        }
        rows_before += lanes.count_ones();
    }
}
