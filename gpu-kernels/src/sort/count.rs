//! Counts the digits of all passes.

use cuda_std::prelude::*;

use super::{Bits, COUNT_KEYS, COUNT_LOADS, COUNT_THREADS, COUNT_TILE, CountArgs, RADIX};
use crate::collectives::strided;

/// Counts digits in shared memory, then adds the counts to those in global memory; one block per `COUNT_TILE` keys.
///
/// # Safety
/// The arguments are as the docs of their fields say.
#[kernel(max_threads = 512, min_blocks = 2)]
pub unsafe fn sort_count(args: CountArgs) {
    let counters = shared::dynamic_shared_mem::<u32>();
    let passes = args.bits.passes();
    // SAFETY: there are counters and counts for every digit; keys are read within `len`.
    unsafe {
        strided(thread::thread_idx_x(), passes * RADIX, COUNT_THREADS, |counter| {
            counters.add(counter).store(0)
        });
        thread::sync_threads();
        let first = thread::block_idx_x() as usize * COUNT_TILE as usize + thread::thread_idx_x() as usize;
        for load in 0..COUNT_LOADS {
            let first = first + (load * COUNT_KEYS * COUNT_THREADS) as usize;
            let (keys, loaded) = load_keys(&args, first);
            for pass in 0..passes {
                count_runs(args.bits.digit(pass), &keys, loaded, counters.add(pass * RADIX));
            }
        }
        thread::sync_threads();
        strided(thread::thread_idx_x(), passes * RADIX, COUNT_THREADS, |counter| {
            let count = counters.add(counter).load();
            if count > 0 {
                atomic::add(args.counts.at(counter as usize), count);
            }
        });
    }
}

/// This thread's keys from `first` on, and the number of those before the end.
///
/// # Safety
/// The arguments are as the docs of their fields say.
#[inline(always)]
unsafe fn load_keys(args: &CountArgs, first: usize) -> ([u64; COUNT_KEYS as usize], usize) {
    let mut keys = [0; COUNT_KEYS as usize];
    let mut loaded = 0;
    for (k, key) in keys.iter_mut().enumerate() {
        let index = first + k * COUNT_THREADS as usize;
        if index < args.len as usize {
            // SAFETY: the index is within `len`.
            *key = unsafe { global::load_streaming(args.keys.at(index)) };
            loaded += 1;
        }
    }
    (keys, loaded)
}

/// Counts a digit of the first `loaded` keys. A run of equal digits takes one addition.
///
/// # Safety
/// `counters` has a counter per value of the digit.
#[inline(always)]
pub(super) unsafe fn count_runs<const N: usize>(
    digit: Bits,
    keys: &[u64; N],
    loaded: usize,
    counters: Shared<u32>,
) {
    let mut run = digit.extract(keys[0]);
    let mut length = 0;
    for (k, key) in keys.iter().enumerate() {
        let value = if k < loaded { digit.extract(*key) } else { run };
        if value != run {
            // SAFETY: the index is a value of the digit.
            unsafe { counters.add(run).atomic_add(length) };
            run = value;
            length = 0;
        }
        length += u32::from(k < loaded);
    }
    // SAFETY: as above.
    unsafe { counters.add(run).atomic_add(length) };
}
