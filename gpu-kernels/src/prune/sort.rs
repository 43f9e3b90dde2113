//! Keys sorted in shared memory.

use cuda_std::prelude::*;

use super::robust_prune::warp_number;

/// The key of no candidate: behind all others.
pub(super) const NO_CANDIDATE: u64 = u64::MAX;

/// Calls `work` for every place below `len` that falls to this thread.
#[inline(always)]
pub(super) fn for_my_places(len: u32, work: impl Fn(u32)) {
    let mut place = thread::thread_idx_x();
    while place < len {
        work(place);
        place += thread::block_dim_x();
    }
}

/// Sorts `len` keys, and fills up behind them with keys of no candidate, to a power of two. Whole block; a barrier
/// behind it.
///
/// # Safety
/// There is room.
#[inline(always)]
pub(super) unsafe fn sort_padded(keys: Shared<u64>, len: u32) {
    let padded = len.next_power_of_two();
    // SAFETY: behind what there is, a place of one thread.
    unsafe {
        for_my_places(padded - len, |place| keys.add(len + place).store(NO_CANDIDATE));
        thread::sync_threads();
        sort(keys, padded);
    }
}

/// Sorts `len` keys, a power of two, bitonically. Whole block; a barrier behind it, if there is more than one key.
///
/// # Safety
/// There are that many keys, which a barrier has passed since they were written.
#[inline(always)]
pub(super) unsafe fn sort(keys: Shared<u64>, len: u32) {
    let mut run = 2;
    while run <= len {
        let mut stride = run / 2;
        while stride > 0 {
            let mut pair = thread::thread_idx_x();
            while pair < len / 2 {
                let low = 2 * pair - (pair & (stride - 1));
                let high = low + stride;
                // SAFETY: every pair of a step is of one thread, and steps are apart by barriers.
                unsafe {
                    let (a, b) = (keys.add(low).load(), keys.add(high).load());
                    if (b < a) == (low & run == 0) {
                        keys.add(low).store(b);
                        keys.add(high).store(a);
                    }
                }
                pair += thread::block_dim_x();
            }
            // SAFETY: run, stride and length are the same in all threads.
            unsafe { thread::sync_threads() };
            stride /= 2;
        }
        run *= 2;
    }
}

/// Brings the distinct of `len` sorted keys to the front; returns how many there are, those of no candidate not counted.
/// `word` is that of the count. Whole block; a barrier.
///
/// # Safety
/// There are that many keys; a barrier has passed since they were written, and since the word was read.
#[inline(always)]
pub(super) unsafe fn distinct(keys: Shared<u64>, len: u32, word: Shared<u32>) -> u32 {
    // SAFETY: one warp, as a whole, goes through the keys: it writes none before it has read it.
    unsafe {
        if warp_number() == 0 {
            let (mut count, mut last, mut first) = (0, NO_CANDIDATE, 0);
            while first < len {
                let place = first + warp::lane_id();
                let key = if place < len { keys.add(place).load() } else { NO_CANDIDATE };
                let (before, exists) = warp::warp_shuffle_up(warp::FULL_MASK, key, 1, warp::WARP_SIZE);
                let is_new = key != NO_CANDIDATE && key != if exists { before } else { last };
                let lanes = warp::warp_vote_ballot(warp::FULL_MASK, is_new);
                warp::sync_warp(warp::FULL_MASK);
                if is_new {
                    let before = lanes & ((1 << warp::lane_id()) - 1);
                    keys.add(count + before.count_ones()).store(key);
                }
                count += lanes.count_ones();
                (last, _) =
                    warp::warp_shuffle_idx(warp::FULL_MASK, key, warp::WARP_SIZE - 1, warp::WARP_SIZE);
                first += warp::WARP_SIZE;
            }
            if warp::lane_id() == 0 {
                word.store(count);
            }
        }
        thread::sync_threads();
        word.load()
    }
}
