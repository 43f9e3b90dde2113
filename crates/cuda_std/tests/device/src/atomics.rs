//! `atomic`, and the atomic updates of `shared`.

use cuda_std::prelude::*;

use crate::{Answers, Args, shared_by_all};
#[cfg(not(target_arch = "nvptx64"))]
use crate::{Case, Launch};

/// What updates of a place of its own find, which is in no doubt: 6 of u32, then 6 of u64, in each memory.
const WORDS: u32 = 2 * (6 + 12);
/// Words that all threads update: 7 of u32 (of which one is f32), and behind one more 6 of u64.
const COMMON: usize = 8 + 12;

/// The updates of one type in global memory, on a place of the thread's own and on places that all share.
macro_rules! global_updates {
    ($answers:expr, $own:expr, $common:expr, $value:expr) => {{
        let (own, common, value) = ($own, $common, $value);
        global::store(own, value);
        $answers.put(atomic::add(own, 5));
        $answers.put(atomic::min(own, 1 << 20));
        $answers.put(atomic::max(own, 1 << 21));
        $answers.put(atomic::or(own, 7));
        $answers.put(atomic::and(own, 0xff_fffc));
        $answers.put(atomic::cas(own, (1 << 21) | 4, 9));
        atomic::add(common, value);
        atomic::min(common.add(1), value);
        atomic::max(common.add(2), value);
        atomic::or(common.add(3), value);
        atomic::and(common.add(4), value);
        // Counts threads, one compare-and-swap after another.
        let mut seen = global::load_relaxed(common.add(5));
        loop {
            let found = atomic::cas(common.add(5), seen, seen + 1);
            if found == seen {
                break;
            }
            seen = found;
        }
    }};
}

/// The updates of one type in shared memory, on a place of the thread's own.
macro_rules! shared_updates {
    ($answers:expr, $own:expr, $value:expr) => {{
        let (own, value) = ($own, $value);
        own.store(value);
        $answers.put(own.atomic_add(5));
        $answers.put(own.atomic_min(1 << 20));
        $answers.put(own.atomic_max(1 << 21));
        $answers.put(own.atomic_or(7));
        $answers.put(own.atomic_exchange(11));
        $answers.put(own.atomic_cas(11, 9));
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
        global_updates!(answers, own, common.add(8).cast::<u64>(), long);
        atomic::add(common.add(6).cast::<f32>(), f32::from(word as i16));
        atomic::exchange(own, long);
        atomic::exchange(own.cast::<u32>(), word);

        let room = shared::dynamic_shared_mem::<u64>().add(thread::thread_idx_x());
        shared_updates!(answers, room.cast::<u32>(), word);
        shared_updates!(answers, room, long);
    }
}

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) fn case(input: &[u32]) -> Case {
    let launch = Launch { grid: (2, 1), block: 64, shared: 64 * 8 };
    let words = &input[..128];
    let longs: Vec<u64> = words.iter().map(|&word| u64::from(word) << 32 | u64::from(!word)).collect();
    let answers = words.iter().zip(&longs).flat_map(|(&word, &long)| {
        let (short, long) = (found(u64::from(word), u64::from(u32::MAX)), found(long, u64::MAX));
        [(1 << 21) | 4, 11].into_iter().flat_map(move |by_cas| {
            let short = short.into_iter().chain([by_cas]).map(|found| found as u32);
            short.chain(long.into_iter().chain([by_cas]).flat_map(halves))
        })
    });

    let one = 1.0_f32.to_bits();
    let before_u64 = [0, u64::MAX, 0, 0, u64::MAX, 0];
    let after_u64 = [
        longs.iter().fold(0, |sum: u64, long| sum.wrapping_add(*long)),
        *longs.iter().min().unwrap(),
        *longs.iter().max().unwrap(),
        longs.iter().fold(0, |bits, long| bits | long),
        longs.iter().fold(u64::MAX, |bits, long| bits & long),
        longs.len() as u64,
    ];
    let floats: f32 = words.iter().map(|&word| f32::from(word as i16)).sum();
    let after_u32 = [
        words.iter().fold(0, |sum: u32, word| sum.wrapping_add(*word)),
        *words.iter().min().unwrap(),
        *words.iter().max().unwrap(),
        words.iter().fold(0, |bits, word| bits | word),
        words.iter().fold(u32::MAX, |bits, word| bits & word),
        words.len() as u32,
        (1.0 + floats).to_bits(),
        0,
    ];
    let shared = |of_u32: [u32; 8], of_u64: [u64; 6], own: Vec<u64>| {
        [of_u32.to_vec(), of_u64.into_iter().chain(own).flat_map(halves).collect()].concat()
    };
    let before = shared([0, u32::MAX, 0, 0, u32::MAX, 0, one, 0], before_u64, vec![0; 128]);
    let own_after = words.iter().map(|&word| u64::from(word) << 32 | u64::from(word));
    let after = shared(after_u32, after_u64, own_after.collect());
    Case::new("atomics", atomics, launch, answers.collect(), &before, &after)
}

/// What the first five updates of a place with `value` find, in as many bits as `mask` has.
#[cfg(not(target_arch = "nvptx64"))]
fn found(value: u64, mask: u64) -> [u64; 5] {
    let sum = value.wrapping_add(5) & mask;
    [value, sum, sum.min(1 << 20), 1 << 21, (1 << 21) | 7]
}

#[cfg(not(target_arch = "nvptx64"))]
fn halves(long: u64) -> [u32; 2] {
    [long as u32, (long >> 32) as u32]
}
