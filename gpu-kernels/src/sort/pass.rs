//! Sorts by one digit: see the [parent module](super) for the algorithm.

use cuda_std::Value;
use cuda_std::prelude::*;

use super::bits::DIGIT_BITS;
use super::count::count_runs;
use super::{PAIRS_PER_THREAD, PassArgs, RADIX, SharedLayout, TILE, WARPS};
use crate::DevicePtr;
use crate::WARP_SIZE;
use crate::collectives::rank_in;
use crate::prefix_sum::block::{block_sums, take_tile, warp_inclusive_sum};

const PAIRS: usize = PAIRS_PER_THREAD as usize;
/// Values per cache line of 128 bytes.
const VALUES_PER_LINE: u32 = 32;

/// A thread's share of the keys, values or places of the tile.
///
/// A warp has consecutive pairs, and each lane every 32nd of them, so loads are coalesced and the order of pairs is
/// that of (warp, index in this array, lane).
type PerThread<T> = [T; PAIRS];

/// The shared memory of a block.
#[derive(Clone, Copy)]
struct SharedMemory {
    keys: Shared<u64>,
    values: Shared<u32>,
    counters: Shared<u32>,
    shifts: Shared<u32>,
    sums: Shared<u32>,
    slot: Shared<u32>,
}

/// Sorts by one digit, stably; one block per tile, one thread per value of the digit.
///
/// # Safety
/// The arguments are as the docs of their fields say.
#[kernel(max_threads = 256, min_blocks = 3)]
pub unsafe fn sort_pass(args: PassArgs) {
    let memory = SharedMemory::new();
    // SAFETY: all threads of the block call the collectives.
    unsafe {
        memory.clear_counters();
        let tile = take_tile(&args.look_back, memory.slot);
        let first = tile as usize * TILE as usize;
        // Keys past the end have all bits set: they are last in the tile, and not written.
        let keys = load_tile(args.keys, first, args.len, u64::MAX);
        prefetch_values(&args, first);
        count_runs(args.digit, &keys, PAIRS, memory.own_counters());
        thread::sync_threads();
        let (count, begin) = place_digits(&args, tile, memory);
        thread::sync_threads();
        let places = stage_keys(&args, memory, &keys);
        let values = load_tile(args.values, first, args.len, 0);
        find_shift(&args, tile, count, begin, memory.shifts);
        stage_values(memory, &places, &values);
        thread::sync_threads();
        write(&args, memory, first);
    }
}

impl SharedMemory {
    fn new() -> Self {
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
    fn own_counters(self) -> Shared<u32> {
        self.counters.add(thread::thread_idx_x() / WARP_SIZE * RADIX)
    }

    /// Sets the counters of this warp to zero.
    ///
    /// # Safety
    /// A barrier follows before the counters are used.
    unsafe fn clear_counters(self) {
        let counters = self.own_counters().cast::<[u32; 4]>();
        for turn in 0..RADIX / (4 * WARP_SIZE) {
            // SAFETY: the index is within the counters.
            unsafe { counters.add(turn * WARP_SIZE + warp::lane_id()).store([0; 4]) };
        }
    }
}

/// This thread's elements of the tile that begins at `first`; `padding` past the end.
///
/// # Safety
/// `array` has `len` elements.
unsafe fn load_tile<T: Value>(array: DevicePtr<T>, first: usize, len: u32, padding: T) -> PerThread<T> {
    let warp = thread::thread_idx_x() / WARP_SIZE;
    let own = first + (warp * PAIRS_PER_THREAD * WARP_SIZE + warp::lane_id()) as usize;
    let array = array.add(own);
    let mut mine = [padding; PAIRS];
    // SAFETY: the index is within `len`.
    unsafe {
        if first + TILE as usize <= len as usize {
            for (k, element) in mine.iter_mut().enumerate() {
                *element = global::load(array.at(k * WARP_SIZE as usize));
            }
        } else {
            for (k, element) in mine.iter_mut().enumerate() {
                if own + k * (WARP_SIZE as usize) < len as usize {
                    *element = global::load(array.at(k * WARP_SIZE as usize));
                }
            }
        }
    }
    mine
}

/// Prefetches the values of the tile that begins at `first` to the L2 cache: they are needed only after the keys, and
/// would occupy registers until then.
///
/// # Safety
/// The arguments are as the docs of their fields say.
unsafe fn prefetch_values(args: &PassArgs, first: usize) {
    let index = first + (thread::thread_idx_x() * VALUES_PER_LINE) as usize;
    if thread::thread_idx_x() < TILE / VALUES_PER_LINE && index < args.len as usize {
        // SAFETY: the index is within `len`.
        unsafe { global::prefetch_l2(args.values.at(index)) };
    }
}

/// Replaces the counters of all warps by the place in the tile where their pairs begin, and publishes the tile's count
/// of each digit. Returns the count of this thread's digit, and the place where its pairs begin. Called by the whole
/// block, with a barrier.
///
/// # Safety
/// The counters are complete.
unsafe fn place_digits(args: &PassArgs, tile: u32, memory: SharedMemory) -> (u32, u32) {
    let digit = thread::thread_idx_x();
    let mut counts = [0; WARPS as usize];
    // SAFETY: each thread works on the counters of its own digit.
    unsafe {
        let mut all = 0;
        for warp in 0..WARPS {
            let count = memory.counters.add(warp * RADIX + digit).load();
            counts[warp as usize] = count;
            all += count;
        }
        args.look_back.column(digit, RADIX).publish_aggregate(tile, all);
        let up_to = warp_inclusive_sum(all);
        let (warps_before, _) = block_sums::<WARPS>(up_to, memory.sums);
        let begin = warps_before + up_to - all;
        let mut next = begin;
        for warp in 0..WARPS {
            memory.counters.add(warp * RADIX + digit).store(next);
            next += counts[warp as usize];
        }
        (all, begin)
    }
}

/// Stores this thread's keys at their places in the sorted tile; returns the places. Called by the whole warp.
///
/// # Safety
/// The counters hold the place in the tile where the pairs of each warp and digit begin.
unsafe fn stage_keys(args: &PassArgs, memory: SharedMemory, keys: &PerThread<u64>) -> PerThread<u32> {
    let next = memory.own_counters();
    let lane = warp::lane_id();
    let mut places = [0; PAIRS];
    for k in 0..PAIRS {
        let digit = args.digit.extract(keys[k]);
        // SAFETY: the warp is converged here. The additions of an iteration come before those of the next, since its
        // shuffle waits for them, so each pair has a place of its own, in the order of iterations and lanes.
        unsafe {
            let peers = find_peers(digit);
            let last = 31 - peers.leading_zeros();
            let mut place = 0;
            if lane == last {
                place = next.add(digit).atomic_add(peers.count_ones());
            }
            let place = warp::shuffle(place, last);
            places[k] = place + rank_in(peers);
            memory.keys.add(places[k]).store(keys[k]);
        }
    }
    places
}

/// Stores this thread's values at the places of their keys.
///
/// # Safety
/// The places are those of [`stage_keys`].
unsafe fn stage_values(memory: SharedMemory, places: &PerThread<u32>, values: &PerThread<u32>) {
    for k in 0..PAIRS {
        // SAFETY: places are within the tile.
        unsafe { memory.values.add(places[k]).store(values[k]) };
    }
}

/// The lanes with this digit. Called by the whole warp. Takes one vote per bit, which is faster than `match.any.sync`.
///
/// # Safety
/// All 32 lanes of the warp call this together.
unsafe fn find_peers(digit: u32) -> u32 {
    let mut peers = u32::MAX;
    for bit in 0..DIGIT_BITS {
        let set = digit >> bit & 1 == 1;
        // SAFETY: the warp is converged here.
        let lanes = unsafe { warp::ballot(set) };
        peers &= if set { lanes } else { !lanes };
    }
    peers
}

/// For this thread's digit, of which the tile has `count` pairs from place `begin` on: looks back for the pairs in
/// earlier tiles, publishes the sum, and stores the shift from places in the tile to those in the sorted array.
///
/// # Safety
/// The aggregate of this tile has been published.
unsafe fn find_shift(args: &PassArgs, tile: u32, count: u32, begin: u32, shifts: Shared<u32>) {
    let digit = thread::thread_idx_x();
    let column = args.look_back.column(digit, RADIX);
    // SAFETY: a tile publishes its aggregates before it waits for any other.
    unsafe {
        let before = column.sum_before(tile);
        column.publish_prefix(tile, before.wrapping_add(count));
        let start = global::load_readonly(args.digit_offsets.at(digit as usize));
        shifts.add(digit).store(start.wrapping_add(before).wrapping_sub(begin));
    }
}

/// Writes the pairs of the sorted tile that begins at `first`: adjacent threads write adjacent pairs.
///
/// # Safety
/// The tile is sorted and the shifts are stored.
unsafe fn write(args: &PassArgs, memory: SharedMemory, first: usize) {
    let pairs = (args.len as usize - first).min(TILE as usize) as u32;
    let places = (0..PAIRS_PER_THREAD).map(|k| k * RADIX + thread::thread_idx_x());
    // SAFETY: places are within the tile, and each has a pair.
    unsafe {
        if pairs == TILE {
            places.for_each(|place| write_pair(args, memory, place));
        } else {
            places.filter(|place| *place < pairs).for_each(|place| write_pair(args, memory, place));
        }
    }
}

/// Writes the pair at `place` of the sorted tile.
///
/// # Safety
/// `place` is below the number of pairs of the tile, and the shifts are stored.
unsafe fn write_pair(args: &PassArgs, memory: SharedMemory, place: u32) {
    // SAFETY: shifted places are those of the sorted array, within `len`.
    unsafe {
        let key = memory.keys.add(place).load();
        let to = memory.shifts.add(args.digit.extract(key)).load().wrapping_add(place) as usize;
        global::store(args.sorted_keys.at(to), key);
        global::store(args.sorted_values.at(to), memory.values.add(place).load());
    }
}
