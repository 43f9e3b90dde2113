//! Sorts entries in shared memory and removes duplicates.

use cuda_std::prelude::*;

use super::robust_prune::warp_index;
use crate::WARP_SIZE;
use crate::collectives::{block_stride, pack_lanes, strided};
use crate::neighbor::NO_CANDIDATE;

/// Pads `len` entries to a power of two with [`NO_CANDIDATE`] and sorts them. Called by the whole block; ends with a
/// barrier.
///
/// # Safety
/// There is room for the padding.
pub(super) unsafe fn sort_padded(entries: Shared<u64>, len: u32) {
    let padded = len.next_power_of_two();
    // SAFETY: each place of the padding is written by one thread.
    unsafe {
        block_stride(padded - len, |place| entries.add(len + place).store(NO_CANDIDATE));
        thread::sync_threads();
        sort(entries, padded);
    }
}

/// Bitonic sort of `len` entries, a power of two. Called by the whole block; ends with a barrier if there is more than
/// one entry.
///
/// # Safety
/// There are that many entries, and a barrier has passed since they were written.
pub(super) unsafe fn sort(entries: Shared<u64>, len: u32) {
    let mut run = 2;
    while run <= len {
        let mut stride = run / 2;
        while stride > 0 {
            block_stride(len / 2, |pair| {
                let low = 2 * pair - (pair & (stride - 1));
                let high = low + stride;
                // SAFETY: in each step, every pair belongs to one thread; barriers separate the steps.
                unsafe {
                    let (a, b) = (entries.add(low).load(), entries.add(high).load());
                    if (b < a) == (low & run == 0) {
                        entries.add(low).store(b);
                        entries.add(high).store(a);
                    }
                }
            });
            // SAFETY: run, stride and length are the same in all threads.
            unsafe { thread::sync_threads() };
            stride /= 2;
        }
        run *= 2;
    }
}

/// Removes duplicates and [`NO_CANDIDATE`] from `len` sorted entries; returns the number of the others, which all
/// threads read from `count`. Called by the whole block, with a barrier.
///
/// # Safety
/// There are that many entries; a barrier has passed since they were written and since `count` was read.
pub(super) unsafe fn distinct(entries: Shared<u64>, len: u32, count: Shared<u32>) -> u32 {
    // SAFETY: one converged warp goes through the entries, and reads each before it overwrites it.
    unsafe {
        if warp_index() == 0 {
            let (mut kept, mut last) = (0, NO_CANDIDATE);
            strided(0, len, WARP_SIZE, |first| {
                let place = first + warp::lane_id();
                let entry = if place < len { entries.add(place).load() } else { NO_CANDIDATE };
                let (before, exists) = warp::shuffle_up(entry, 1);
                let is_new = entry != NO_CANDIDATE && entry != if exists { before } else { last };
                warp::sync_warp();
                kept += pack_lanes(entries.add(kept), entry, is_new);
                last = warp::shuffle(entry, WARP_SIZE - 1);
            });
            if warp::lane_id() == 0 {
                count.store(kept);
            }
        }
        thread::sync_threads();
        count.load()
    }
}
