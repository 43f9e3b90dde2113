//! A sort in shared memory.

use cuda_std::prelude::*;

/// The key of no candidate: behind all others.
pub(super) const NO_CANDIDATE: u64 = u64::MAX;

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
