//! Selection: the numbers that something holds of, listed in rising order. A scan over "this one is wanted", and each
//! that is writes itself.

use cuda_std::prelude::*;

use super::block::{block_sums, take_tile};
use super::{Round, SELECT_NUMBERS, SELECT_THREADS, SELECT_TILE};
use crate::DevicePtrMut;

const WARPS: u32 = SELECT_THREADS / warp::WARP_SIZE;

/// Lists the numbers below `len` that are `wanted`, plus `first`; one block a tile. Gives how many there are of all tiles
/// to one thread of the last. Whole block.
///
/// # Safety
/// The launch is that of the round, which is of as many tiles as hold `len` numbers; `list` has room for those wanted.
#[inline(always)]
pub(crate) unsafe fn select(
    round: &Round,
    len: u32,
    wanted: impl Fn(usize) -> bool,
    list: DevicePtrMut<u32>,
    first: u32,
) -> Option<u32> {
    let [slot, before, sums] = [0, 1, 2].map(|word| shared::dynamic_shared_mem::<u32>().add(word));
    // SAFETY: the whole block is here throughout; the words of shared memory are apart; there is room for the list.
    unsafe {
        let tile = take_tile(round, slot);
        let own = tile as usize * SELECT_TILE as usize + first_of_lane();
        let rows = find(own, len, wanted);
        let (warps_before, all) = block_sums::<WARPS>(rows.iter().map(|row| row.count_ones()).sum(), sums);
        let tiles_before = round.sum_before(tile, all, before);
        write(&rows, list.add((tiles_before + warps_before) as usize), first + own as u32);
        (tile == round.tiles - 1 && thread::thread_idx_x() == 0).then(|| tiles_before + all)
    }
}

/// Where this lane's first number is in the tile. A warp has consecutive numbers, row after row of 32.
#[inline(always)]
fn first_of_lane() -> usize {
    let warp = thread::thread_idx_x() / warp::WARP_SIZE;
    (warp * SELECT_NUMBERS as u32 * warp::WARP_SIZE + warp::lane_id()) as usize
}

/// For each row of the warp, which lanes' numbers are wanted. Whole warp.
///
/// # Safety
/// Called by all lanes of a warp.
#[inline(always)]
unsafe fn find(own: usize, len: u32, wanted: impl Fn(usize) -> bool) -> [u32; SELECT_NUMBERS] {
    let mut found = [false; SELECT_NUMBERS];
    for (row, found) in found.iter_mut().enumerate() {
        let number = own + row * warp::WARP_SIZE as usize;
        *found = number < len as usize && wanted(number);
    }
    // SAFETY: all lanes are here.
    found.map(|found| unsafe { warp::warp_vote_ballot(warp::FULL_MASK, found) })
}

/// Writes this lane's numbers that are wanted, where `list` begins with the first of the warp.
///
/// # Safety
/// There is room for them.
#[inline(always)]
unsafe fn write(rows: &[u32; SELECT_NUMBERS], list: DevicePtrMut<u32>, own: u32) {
    let (lane, mut rows_before) = (warp::lane_id(), 0);
    for (row, lanes) in rows.iter().enumerate() {
        if lanes >> lane & 1 == 1 {
            let at = rows_before + (lanes & ((1 << lane) - 1)).count_ones();
            // SAFETY: the caller's promise.
            unsafe { global::store(list.at(at as usize), own + row as u32 * warp::WARP_SIZE) };
        }
        rows_before += lanes.count_ones();
    }
}
