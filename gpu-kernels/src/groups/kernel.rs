//! The search for groups: a scan over "this key begins a group", and each that does writes its place.

use cuda_std::prelude::*;

use super::{GroupArgs, KEYS, THREADS, TILE};
use crate::scan::block::{block_sums, take_tile};

const WARPS: u32 = THREADS / warp::WARP_SIZE;

/// Finds groups; one block a tile.
///
/// # Safety
/// As the fields of the arguments say.
#[kernel(max_threads = 256, min_blocks = 6)]
pub unsafe fn find_groups(args: GroupArgs) {
    let [slot, before, sums] = [0, 1, 2].map(|word| shared::dynamic_shared_mem::<u32>().add(word));
    // SAFETY: the whole block is here throughout; the words of shared memory are apart; there are no more groups than
    // keys, and room for one more.
    unsafe {
        let tile = take_tile(&args.round, slot);
        let first = tile as usize * TILE as usize + first_of_lane();
        let begins = find_begins(&args, first);
        let (warps_before, all) = block_sums::<WARPS>(begins.iter().map(|row| row.count_ones()).sum(), sums);
        let tiles_before = args.round.sum_before(tile, all, before);
        write_begins(&args, first, &begins, tiles_before + warps_before);
        if tile == args.round.tiles - 1 && thread::thread_idx_x() == 0 {
            let groups = tiles_before + all;
            global::store(args.begins.at(groups as usize), args.len);
            global::store(args.count.at(0), groups);
        }
    }
}

/// Where this lane's first key is in the tile. A warp has consecutive keys, row after row of 32.
#[inline(always)]
fn first_of_lane() -> usize {
    let warp = thread::thread_idx_x() / warp::WARP_SIZE;
    (warp * KEYS as u32 * warp::WARP_SIZE + warp::lane_id()) as usize
}

/// For each row of the warp, which lanes' keys begin a group. Whole warp.
///
/// # Safety
/// As the fields of the arguments say; called by all lanes of a warp.
#[inline(always)]
unsafe fn find_begins(args: &GroupArgs, first: usize) -> [u32; KEYS] {
    let mut begins = [false; KEYS];
    for (row, begins) in begins.iter_mut().enumerate() {
        let index = first + row * warp::WARP_SIZE as usize;
        if index < args.len as usize {
            // SAFETY: within `len`. Neighbours read the same key again: it is in the cache.
            let [key, previous] = [index, index.saturating_sub(1)]
                .map(|index| unsafe { global::load_readonly(args.keys.at(index)) } >> args.shift);
            *begins = index == 0 || key != previous;
        }
    }
    // SAFETY: all lanes are here.
    begins.map(|begins| unsafe { warp::warp_vote_ballot(warp::FULL_MASK, begins) })
}

/// Writes the places of this lane's keys that begin a group, of which `group` is the first of the warp.
///
/// # Safety
/// There is room for the groups.
#[inline(always)]
unsafe fn write_begins(args: &GroupArgs, first: usize, begins: &[u32; KEYS], mut group: u32) {
    let lane = warp::lane_id();
    for (row, lanes) in begins.iter().enumerate() {
        if lanes >> lane & 1 == 1 {
            let own = group + (lanes & ((1 << lane) - 1)).count_ones();
            let index = first + row * warp::WARP_SIZE as usize;
            // SAFETY: the caller's promise.
            unsafe { global::store(args.begins.at(own as usize), index as u32) };
        }
        group += lanes.count_ones();
    }
}
