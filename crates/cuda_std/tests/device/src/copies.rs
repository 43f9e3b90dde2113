//! `async_copy`: groups of copies, waited for one after the other.

use cuda_std::prelude::*;

use crate::{Answers, Args};
#[cfg(not(target_arch = "nvptx64"))]
use crate::{Case, Launch};

const WORDS: u32 = 8;

/// Every thread copies two chunks of the input to shared memory as two groups, reads its first chunk when the first
/// group is there, and a neighbour's second chunk after a barrier.
///
/// # Safety
/// Launched as [`cases`](crate::cases) says.
#[kernel(max_threads = 64)]
pub unsafe fn copies(args: Args) {
    let (thread, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    // SAFETY: the launch has room for all answers, two chunks of input and of shared memory a thread.
    unsafe {
        let chunks = args.input.cast::<[u32; 4]>();
        let (first, second) = (thread, thread + threads);
        let room = shared::dynamic_shared_mem::<[u32; 4]>();
        async_copy::copy16(room.add(first), chunks.add(first as usize));
        async_copy::commit();
        async_copy::copy16(room.add(second), chunks.add(second as usize));
        async_copy::commit();

        let mut answers = Answers::of_this_thread(&args, WORDS);
        async_copy::wait::<1>();
        for word in room.add(first).load() {
            answers.put(word);
        }
        async_copy::wait::<0>();
        thread::sync_threads();
        for word in room.add(second ^ 1).load() {
            answers.put(word);
        }
    }
}

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) fn case(input: &[u32]) -> Case {
    let launch = Launch { grid: (1, 1), block: 64, shared: 2 * 64 * 16 };
    let chunk = |index: u32| &input[index as usize * 4..][..4];
    let answers =
        launch.threads().flat_map(|(_, _, thread)| [chunk(thread), chunk((thread ^ 1) + 64)].concat());
    Case::new("copies", copies, launch, answers.collect(), &[], &[])
}
