//! `thread`: who a thread is, barriers, fences.

use cuda_std::prelude::*;

use crate::{Answers, Args, shared_by_all};
#[cfg(not(target_arch = "nvptx64"))]
use crate::{Case, Launch};

const WORDS: u32 = 14;

/// Every thread tells where it is, exchanges words with others of its block at each kind of barrier, and gets one word
/// from the first block that runs.
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
        answers.put(u32::from(thread::sync_threads_and(word.is_multiple_of(3) || thread != 5)));
        answers.put(u32::from(thread::sync_threads_or(word % 64 == 63)));

        let slots = shared::dynamic_shared_mem::<u32>();
        slots.add(thread).store(word);
        thread::sync_threads();
        answers.put(slots.add(last - thread).load());
        thread::sync_threads();

        // Warp 1 hands its words to warp 0 at a barrier of their own.
        if thread >= warp::WARP_SIZE {
            slots.add(thread).store(!word);
        }
        thread::sync_some(1, 2 * warp::WARP_SIZE);
        let other = if thread < warp::WARP_SIZE { slots.add(thread + warp::WARP_SIZE).load() } else { 0 };
        answers.put(other);

        answers.put(from_the_first_block(&args));
        thread::block_fence();
        answers.put(1_u32);
    }
}

/// The first block to draw a ticket leaves a word; the others wait for it.
#[inline(always)]
unsafe fn from_the_first_block(args: &Args) -> u32 {
    // SAFETY: three words are shared by all: ticket, word, and whether the word is there.
    unsafe {
        let tickets = shared_by_all(args, WORDS);
        let (word, ready) = (tickets.add(1), tickets.add(2));
        if thread::thread_idx_x() != 0 {
            return 0;
        }
        if atomic::add(tickets, 1) == 0 {
            global::store(word, 0x600d);
            thread::grid_fence();
            global::store_release(ready, 1);
        }
        while global::load_acquire(ready) == 0 {
            thread::nanosleep(100);
        }
        global::load(word)
    }
}

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) fn case(input: &[u32]) -> Case {
    let launch = Launch { grid: (3, 2), block: 64, shared: 64 * 4 };
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
            u32::from(threes(&words[5])),
            u32::from(words.iter().any(|word| word % 64 == 63)),
            words[63 - thread as usize],
            if thread < 32 { !words[thread as usize + 32] } else { 0 },
            if thread == 0 { 0x600d } else { 0 },
            1,
        ]
    });
    Case::new("blocks", blocks, launch, answers.collect(), &[0; 3], &[6, 0x600d, 1])
}
