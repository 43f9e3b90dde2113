//! `atomic`, and the atomic updates of `shared`.

use cuda_std::prelude::*;

use crate::{Answers, Args, shared_by_all};
#[cfg(not(target_arch = "nvptx64"))]
use crate::{Case, LaunchConfig};

/// What updates of a place of its own find, which is in no doubt: of u32, then of u64, 5 in global memory and 4 in shared
/// memory.
const WORDS: u32 = (5 + 4) + 2 * (5 + 4);
/// Words that all threads update: 4 of u32, then 4 of u64.
const COMMON: usize = 4 + 8;

/// The updates of one type in global memory, on a place of the thread's own and on places that all share.
macro_rules! global_updates {
    ($answers:expr, $own:expr, $common:expr, $value:expr) => {{
        let (own, common, value) = ($own, $common, $value);
        global::store(own, value);
        $answers.put(atomic::add(own, 5));
        $answers.put(atomic::min(own, 1 << 20));
        $answers.put(atomic::or(own, 7));
        $answers.put(atomic::and(own, 0xff_fffc));
        $answers.put(atomic::exchange(own, 9));
        atomic::add(common, value);
        atomic::or(common.add(1), value);
        atomic::and(common.add(2), value);
        atomic::exchange(common.add(3), 9);
    }};
}

/// The updates of one type in shared memory, on a place of the thread's own.
macro_rules! shared_updates {
    ($answers:expr, $own:expr, $value:expr) => {{
        let (own, value) = ($own, $value);
        own.store(value);
        $answers.put(own.atomic_add(5));
        $answers.put(own.atomic_min(1 << 20));
        $answers.put(own.atomic_or(7));
        $answers.put(own.atomic_exchange(11));
    }};
}

/// Every thread updates places of its own, and places that all threads of the grid share.
///
/// # Safety
/// Launched as [`cases`](crate::cases) says.
#[kernel(max_threads = 64)]
pub unsafe fn atomics(args: Args) {
    // SAFETY: the launch has room for all answers, the words that all share, and two words of shared memory a thread.
    unsafe {
        let word = global::load_readonly(args.input.add(thread::index_1d() as usize));
        let long = u64::from(word) << 32 | u64::from(!word);
        let common = shared_by_all(&args, WORDS);
        let own = common.add(COMMON).cast::<u64>().add(thread::index_1d() as usize);
        let mut answers = Answers::of_this_thread(&args, WORDS);
        global_updates!(answers, own.cast::<u32>(), common, word);
        global_updates!(answers, own, common.add(4).cast::<u64>(), long);
        atomic::exchange(own, long);
        atomic::exchange(own.cast::<u32>(), word);

        let room = shared::dynamic_shared_mem::<u64>().add(thread::thread_idx_x());
        shared_updates!(answers, room.cast::<u32>(), word);
        shared_updates!(answers, room, long);
    }
}

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) fn case(input: &[u32]) -> Case {
    let launch = LaunchConfig { grid: (2, 1), block: 64, shared: 64 * 8 };
    let words = &input[..128];
    let longs: Vec<u64> = words.iter().map(|&word| u64::from(word) << 32 | u64::from(!word)).collect();
    let answers = words.iter().zip(&longs).flat_map(|(&word, &long)| {
        [found_in_global as fn(u64, u64) -> Vec<u64>, found_in_shared].into_iter().flat_map(move |found| {
            let short = found(u64::from(word), u64::from(u32::MAX)).into_iter().map(|found| found as u32);
            short.chain(found(long, u64::MAX).into_iter().flat_map(halves))
        })
    });
    let after_u32 = [
        words.iter().fold(0, |sum: u32, word| sum.wrapping_add(*word)),
        words.iter().fold(0, |bits, word| bits | word),
        words.iter().fold(u32::MAX, |bits, word| bits & word),
        9,
    ];
    let after_u64 = [
        longs.iter().fold(0, |sum: u64, long| sum.wrapping_add(*long)),
        longs.iter().fold(0, |bits, long| bits | long),
        longs.iter().fold(u64::MAX, |bits, long| bits & long),
        9,
    ];
    let shared = |of_u32: [u32; 4], of_u64: [u64; 4], own: Vec<u64>| {
        [of_u32.to_vec(), of_u64.into_iter().chain(own).flat_map(halves).collect()].concat()
    };
    let before = shared([0, 0, u32::MAX, 0], [0, 0, u64::MAX, 0], vec![0; 128]);
    let own_after = words.iter().map(|&word| u64::from(word) << 32 | u64::from(word));
    let after = shared(after_u32, after_u64, own_after.collect());
    Case::new("atomics", atomics, launch, answers.collect(), &before, &after)
}

/// What the updates of a place with `value` find in global memory, in as many bits as `mask` has.
#[cfg(not(target_arch = "nvptx64"))]
fn found_in_global(value: u64, mask: u64) -> Vec<u64> {
    let sum = value.wrapping_add(5) & mask;
    let least = sum.min(1 << 20);
    vec![value, sum, least, least | 7, (least | 7) & 0xff_fffc]
}

/// The same in shared memory.
#[cfg(not(target_arch = "nvptx64"))]
fn found_in_shared(value: u64, mask: u64) -> Vec<u64> {
    let sum = value.wrapping_add(5) & mask;
    let least = sum.min(1 << 20);
    vec![value, sum, least, least | 7]
}

#[cfg(not(target_arch = "nvptx64"))]
fn halves(long: u64) -> [u32; 2] {
    [long as u32, (long >> 32) as u32]
}
