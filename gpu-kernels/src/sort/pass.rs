//! One pass: each block sorts a tile by the digit, learns by look-back where its pairs go, and writes them in runs.

use cuda_std::Value;
use cuda_std::prelude::*;

use super::bits::DIGIT_BITS;
use super::{PAIRS_PER_THREAD, PassArgs, RADIX, SharedLayout, TILE, WARPS};
use crate::In;
use crate::scan::block::{block_sums, take_tile, warp_sum_up_to};

const PAIRS: usize = PAIRS_PER_THREAD as usize;

/// A thread's part of each of the keys, values, or places of the tile.
///
/// A warp has consecutive pairs, and of these each lane has every 32nd: so loads are coalesced, and the order of pairs
/// is that of (warp, index in this array, lane).
type Mine<T> = [T; PAIRS];

/// The shared memory of a block.
#[derive(Clone, Copy)]
struct Memory {
    keys: Shared<u64>,
    values: Shared<u32>,
    counters: Shared<u32>,
    shifts: Shared<u32>,
    sums: Shared<u32>,
    slot: Shared<u32>,
}

/// Sorts by one digit, stably; one block a tile, one thread for each value of the digit.
///
/// # Safety
/// As the fields of the arguments say.
#[kernel(max_threads = 256, min_blocks = 3)]
pub unsafe fn sort_pass(args: PassArgs) {
    let memory = Memory::carve();
    // SAFETY: the whole block is here throughout.
    unsafe {
        memory.clear_counters();
        let tile = take_tile(&args.round, memory.slot);
        let first = tile as usize * TILE as usize;
        // Past the end are keys with all bits set: they come last in the tile, and are not written.
        let keys = load_mine(args.keys, first, args.len, u64::MAX);
        let ranks = rank_in_warp(&args, &keys, memory.own_counters());
        thread::sync_threads();
        let values = load_mine(args.values, first, args.len, 0);
        let (count, begin) = place_digits(&args, tile, memory);
        thread::sync_threads();
        stage(&args, memory, &keys, &values, &ranks);
        find_shift(&args, tile, count, begin, memory.shifts);
        thread::sync_threads();
        write(&args, memory, first);
    }
}

impl Memory {
    #[inline(always)]
    fn carve() -> Self {
        let base = shared::dynamic_shared_mem::<u8>();
        Self {
            keys: base.byte_add(SharedLayout::KEYS).cast(),
            values: base.byte_add(SharedLayout::VALUES).cast(),
            counters: base.byte_add(SharedLayout::COUNTERS).cast(),
            shifts: base.byte_add(SharedLayout::SHIFTS).cast(),
            sums: base.byte_add(SharedLayout::SUMS).cast(),
            slot: base.byte_add(SharedLayout::SLOT).cast(),
        }
    }

    /// The counters of this warp, one for each value of the digit.
    #[inline(always)]
    fn own_counters(self) -> Shared<u32> {
        self.counters.add(thread::thread_idx_x() / warp::WARP_SIZE * RADIX)
    }

    /// Sets the counters of this warp to zero.
    ///
    /// # Safety
    /// A barrier follows before the counters are used.
    #[inline(always)]
    unsafe fn clear_counters(self) {
        let counters = self.own_counters().cast::<[u32; 4]>();
        for turn in 0..RADIX / (4 * warp::WARP_SIZE) {
            // SAFETY: within the counters.
            unsafe { counters.add(turn * warp::WARP_SIZE + warp::lane_id()).store([0; 4]) };
        }
    }
}

/// The place in the tile of this thread's pair `k`.
#[inline(always)]
fn place_of_mine(k: usize) -> u32 {
    let warp = thread::thread_idx_x() / warp::WARP_SIZE;
    (warp * PAIRS_PER_THREAD + k as u32) * warp::WARP_SIZE + warp::lane_id()
}

/// This thread's elements of the tile that begins at `first`; `beyond` past the end.
///
/// # Safety
/// `array` has `len` elements.
#[inline(always)]
unsafe fn load_mine<T: Value>(array: In<T>, first: usize, len: u32, beyond: T) -> Mine<T> {
    let mut mine = [beyond; PAIRS];
    // SAFETY: within `len`.
    unsafe {
        if first + TILE as usize <= len as usize {
            for (k, element) in mine.iter_mut().enumerate() {
                *element = global::load(array.at(first + place_of_mine(k) as usize));
            }
        } else {
            for (k, element) in mine.iter_mut().enumerate() {
                let index = first + place_of_mine(k) as usize;
                if index < len as usize {
                    *element = global::load(array.at(index));
                }
            }
        }
    }
    mine
}

/// For each key, how many keys of its warp have the same digit and come before it; `counters` then says how many keys
/// of the warp have each digit. Whole warp.
///
/// # Safety
/// `counters` are zeros that only this warp uses.
#[inline(always)]
unsafe fn rank_in_warp(args: &PassArgs, keys: &Mine<u64>, counters: Shared<u32>) -> Mine<u32> {
    let lane = warp::lane_id();
    let mut ranks = [0; PAIRS];
    for (rank, key) in ranks.iter_mut().zip(keys) {
        let digit = args.digit.of(*key);
        // SAFETY: all lanes are here, in one turn after another: each turn's additions come before the next's, since the
        // shuffle waits for them.
        unsafe {
            let peers = find_peers(digit);
            let last = 31 - peers.leading_zeros();
            let mut before = 0;
            if lane == last {
                before = counters.add(digit).atomic_add(peers.count_ones());
            }
            let (before, _) = warp::warp_shuffle_idx(warp::FULL_MASK, before, last, warp::WARP_SIZE);
            *rank = before + (peers & ((1 << lane) - 1)).count_ones();
        }
    }
    ranks
}

/// The lanes whose digit is this one. Whole warp. One vote for each bit is faster than `match.any.sync`.
///
/// # Safety
/// Called by all lanes of a warp.
#[inline(always)]
unsafe fn find_peers(digit: u32) -> u32 {
    let mut peers = warp::FULL_MASK;
    for bit in 0..DIGIT_BITS {
        let set = digit >> bit & 1 == 1;
        // SAFETY: all lanes are here.
        let lanes = unsafe { warp::warp_vote_ballot(warp::FULL_MASK, set) };
        peers &= if set { lanes } else { !lanes };
    }
    peers
}

/// Turns the counters of all warps into where in the tile their pairs begin, and publishes how many pairs have each
/// digit. Returns, for the digit that this thread owns, how many pairs have it and where these begin. Whole block; a
/// barrier.
///
/// # Safety
/// The counters are complete.
#[inline(always)]
unsafe fn place_digits(args: &PassArgs, tile: u32, memory: Memory) -> (u32, u32) {
    let digit = thread::thread_idx_x();
    let mut counts = [0; WARPS as usize];
    // SAFETY: each thread works on the counters of its own digit.
    unsafe {
        for (warp, count) in counts.iter_mut().enumerate() {
            *count = memory.counters.add(warp as u32 * RADIX + digit).load();
        }
        let all = counts.iter().sum();
        args.round.column(digit, RADIX).publish_aggregate(tile, all);
        let up_to = warp_sum_up_to(all);
        let (warps_before, _) = block_sums::<WARPS>(up_to, memory.sums);
        let begin = warps_before + up_to - all;
        let mut next = begin;
        for (warp, count) in counts.iter().enumerate() {
            memory.counters.add(warp as u32 * RADIX + digit).store(next);
            next += count;
        }
        (all, begin)
    }
}

/// Brings this thread's pairs to their places in the sorted tile.
///
/// # Safety
/// The counters say where in the tile the pairs of each warp and digit begin.
#[inline(always)]
unsafe fn stage(args: &PassArgs, memory: Memory, keys: &Mine<u64>, values: &Mine<u32>, ranks: &Mine<u32>) {
    let begins = memory.own_counters();
    for k in 0..PAIRS {
        // SAFETY: each place is one pair's.
        unsafe {
            let place = begins.add(args.digit.of(keys[k])).load() + ranks[k];
            memory.keys.add(place).store(keys[k]);
            memory.values.add(place).store(values[k]);
        }
    }
}

/// For the digit that this thread owns, with `count` pairs from place `begin` of the tile on: publishes how many there
/// are up to the end of this tile, and leaves in `shifts` what to add to their places in the tile for those in the sorted
/// array.
///
/// # Safety
/// The aggregate of this tile has been published.
#[inline(always)]
unsafe fn find_shift(args: &PassArgs, tile: u32, count: u32, begin: u32, shifts: Shared<u32>) {
    let digit = thread::thread_idx_x();
    let column = args.round.column(digit, RADIX);
    // SAFETY: a tile publishes its aggregates before it waits for any other.
    unsafe {
        let before = column.sum_before(tile);
        column.publish_prefix(tile, before.wrapping_add(count));
        let start = global::load_readonly(args.begins.at(digit as usize)).wrapping_sub(args.passes_before);
        shifts.add(digit).store(start.wrapping_add(before).wrapping_sub(begin));
    }
}

/// Writes the pairs of the sorted tile that begins at `first` of the array: threads in a row write pairs in a row.
///
/// # Safety
/// The tile is sorted and the shifts are there.
#[inline(always)]
unsafe fn write(args: &PassArgs, memory: Memory, first: usize) {
    let pairs = (args.len as usize - first).min(TILE as usize) as u32;
    for k in 0..PAIRS_PER_THREAD {
        let place = k * RADIX + thread::thread_idx_x();
        if place < pairs {
            // SAFETY: shifted places are those of the sorted array, within `len`.
            unsafe {
                let key = memory.keys.add(place).load();
                let to = memory.shifts.add(args.digit.of(key)).load().wrapping_add(place) as usize;
                global::store(args.sorted_keys.at(to), key);
                global::store(args.sorted_values.at(to), memory.values.add(place).load());
            }
        }
    }
}
