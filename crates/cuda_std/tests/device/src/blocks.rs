//! `thread`: who a thread is, barriers, fences.

use cuda_std::prelude::*;

use crate::{Answers, Args};
#[cfg(not(target_arch = "nvptx64"))]
use crate::{Case, LaunchConfig};

const WORDS: u32 = 11;

/// Every thread tells where it is, exchanges words with others of its block at each kind of barrier, and one gets a
/// word from the first thread.
///
/// # Safety
/// Launched as [`cases`](crate::cases) says.
#[kernel(max_threads = 64)]
pub unsafe fn blocks(args: Args) {
    let thread = thread::thread_idx_x();
    let last = thread::block_dim_x() - 1;
    // SAFETY: the launch has room for all answers and shared memory for a word a thread; all threads come to the
    // barriers.
    unsafe {
        let mut answers = Answers::of_this_thread(&args, WORDS);
        answers.put(thread);
        answers.put(thread::block_idx_x());
        answers.put(thread::block_idx_y());
        answers.put(thread::block_dim_x());
        answers.put(thread::grid_dim_x());
        answers.put(thread::grid_dim_y());
        answers.put(thread::index_1d());

        let word = global::load_readonly(args.input.add(thread::index_1d() as usize));
        answers.put(thread::sync_threads_count(word.is_multiple_of(3)));
        answers.put(u32::from(thread::sync_threads_or(word % 64 == 63)));

        let slots = shared::dynamic_shared_mem::<u32>();
        slots.add(thread).store(word);
        if thread == 0 {
            slots.add(last + 2).store(0);
        }
        thread::sync_threads();
        answers.put(slots.add(last - thread).load());
        answers.put(from_the_first_warp(thread));
    }
}

/// The first thread hands a word to the last warp by a relaxed store behind a fence.
#[inline(always)]
unsafe fn from_the_first_warp(thread: u32) -> u32 {
    // SAFETY: behind the words of the threads there are two more, of which the second is zero.
    unsafe {
        let word = shared::dynamic_shared_mem::<u32>().add(thread::block_dim_x());
        let ready = word.add(1);
        if thread == 0 {
            word.store(0x600d);
            thread::block_fence();
            ready.store_relaxed(1);
        }
        if thread != warp::WARP_SIZE {
            return 0;
        }
        while ready.load_relaxed() == 0 {
            thread::pause();
            thread::nanosleep(100);
        }
        thread::block_fence();
        word.load()
    }
}

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) fn case(input: &[u32]) -> Case {
    let launch = LaunchConfig { grid: (3, 2), block: 64, shared: 66 * 4 };
    let answers = launch.threads().flat_map(|(x, y, thread)| {
        let words = &input[(x * 64) as usize..][..64];
        let word = words[thread as usize];
        let threes = |word: &u32| word.is_multiple_of(3);
        assert_eq!(word, input[(x * 64 + thread) as usize]);
        [
            thread,
            x,
            y,
            64,
            3,
            2,
            x * 64 + thread,
            words.iter().filter(|word| threes(word)).count() as u32,
            u32::from(words.iter().any(|word| word % 64 == 63)),
            words[63 - thread as usize],
            if thread == 32 { 0x600d } else { 0 },
        ]
    });
    Case::new("blocks", blocks, launch, answers.collect(), &[], &[])
}
