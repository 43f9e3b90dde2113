//! `warp`: shuffles, votes, matches, reductions.

use cuda_std::prelude::*;

use crate::{Answers, Args};
#[cfg(not(target_arch = "nvptx64"))]
use crate::{Case, LaunchConfig};
use warp::{FULL_MASK, WARP_SIZE};

const WORDS: u32 = 31;
/// Lanes that take part where not all do.
const SOME: u32 = 0x0ff0_f00f;

/// Every lane tells what it gets of the others.
///
/// # Safety
/// Launched as [`cases`](crate::cases) says.
#[kernel(max_threads = 64, min_blocks = 2)]
pub unsafe fn warps(args: Args) {
    // SAFETY: the launch has room for all answers and a word of shared memory a thread; whole warps come here, but for
    // the part which just the lanes of its mask enter.
    unsafe {
        let lane = warp::lane_id();
        let word = global::load(args.input.add(thread::thread_idx_x() as usize));
        let long = u64::from(word) << 32 | u64::from(!word);
        let small = f32::from(word as i16);
        let mut answers = Answers::of_this_thread(&args, WORDS);
        answers.put(lane);

        answers.put_with_flag(warp::warp_shuffle_up(FULL_MASK, word, 3, WARP_SIZE));
        answers.put_with_flag(warp::warp_shuffle_up(FULL_MASK, word as i32, 3, 8));
        answers.put_with_flag(warp::warp_shuffle_idx(FULL_MASK, word, word, WARP_SIZE));
        answers.put_with_flag(warp::warp_shuffle_idx(FULL_MASK, long, lane + 1, 4));
        answers.put_with_flag(warp::warp_shuffle_xor(FULL_MASK, long, 21, WARP_SIZE));
        answers.put_with_flag(warp::warp_shuffle_xor(FULL_MASK, word, 9, 8));

        answers.put(u32::from(warp::warp_vote_all(FULL_MASK, !word.is_multiple_of(64))));
        answers.put(u32::from(warp::warp_vote_any(FULL_MASK, word.is_multiple_of(64))));
        answers.put(warp::warp_vote_ballot(FULL_MASK, word.is_multiple_of(3)));
        answers.put(warp::warp_match_any(FULL_MASK, word % 4));

        answers.put(warp::warp_reduce_add(FULL_MASK, word));
        answers.put(warp::warp_reduce_min(FULL_MASK, word));
        answers.put(warp::warp_reduce_max(FULL_MASK, word));
        answers.put(warp::warp_reduce_or(FULL_MASK, word & 0xff00));

        answers.put(warp::warp_sum(FULL_MASK, small * 1.1, WARP_SIZE));
        answers.put(warp::warp_sum(FULL_MASK, small * 1.1, 8));
        answers.put(warp::warp_sum(FULL_MASK, word, 4));
        answers.put(warp::warp_sum(FULL_MASK, word as i32, WARP_SIZE));

        let slots = shared::dynamic_shared_mem::<u32>().add(thread::thread_idx_x() - lane);
        slots.add(lane).store(word);
        warp::sync_warp(FULL_MASK);
        answers.put(slots.add(lane ^ 7).load());

        if SOME >> lane & 1 == 1 {
            answers.put(warp::warp_vote_ballot(SOME, word.is_multiple_of(2)));
            answers.put(warp::warp_reduce_add(SOME, 1));
            answers.put(warp::warp_sum(SOME, word, 4));
        }
    }
}

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) fn case(input: &[u32]) -> Case {
    let launch = LaunchConfig { grid: (2, 1), block: 64, shared: 64 * 4 };
    let answers = launch.threads().flat_map(|(_, _, thread)| {
        let first = (thread / 32 * 32) as usize;
        of_lane(&input[first..first + 32], thread as usize % 32)
    });
    Case::new("warps", warps, launch, answers.collect(), &[], &[])
}

/// The answers of a lane of a warp that brings `words`.
#[cfg(not(target_arch = "nvptx64"))]
fn of_lane(words: &[u32], lane: usize) -> Vec<u32> {
    let word = words[lane];
    let small = |lane: usize| f32::from(words[lane] as i16);
    let long = |lane: usize| [!words[lane], words[lane]];
    let bits = |holds: &dyn Fn(usize) -> bool| (0..32).map(|i| u32::from(holds(i)) << i).sum::<u32>();
    let mut answers = vec![lane as u32];

    let up = |width: usize| if lane % width >= 3 { (lane - 3, 1) } else { (lane, 0) };
    let ((up32, in_up32), (up8, in_up8)) = (up(32), up(8));
    answers.extend([words[up32], in_up32, words[up8], in_up8]);
    answers.extend([words[word as usize % 32], 1]);
    answers.extend([long(lane / 4 * 4 + (lane + 1) % 4)[0], long(lane / 4 * 4 + (lane + 1) % 4)[1], 1]);
    answers.extend([long(lane ^ 21)[0], long(lane ^ 21)[1], 1]);
    // Nine lanes across leads out of a segment of eight: upwards it is refused, downwards another segment is read.
    answers.extend(if (lane ^ 9) > lane / 8 * 8 + 7 { [word, 0] } else { [words[lane ^ 9], 1] });

    answers.push(u32::from(words.iter().all(|word| word % 64 != 0)));
    answers.push(u32::from(words.iter().any(|word| word % 64 == 0)));
    answers.push(bits(&|i| words[i].is_multiple_of(3)));
    answers.push(bits(&|i| words[i] % 4 == word % 4));

    answers.push(words.iter().fold(0, |sum: u32, word| sum.wrapping_add(*word)));
    answers.extend([*words.iter().min().unwrap(), *words.iter().max().unwrap()]);
    answers.push(words.iter().fold(0, |bits, word| bits | word & 0xff00));

    let butterfly = |width: usize| {
        let mut sums: Vec<f32> = (0..32).map(|lane| small(lane) * 1.1).collect();
        let mut distance = width / 2;
        while distance > 0 {
            sums = (0..32).map(|lane| sums[lane] + sums[lane ^ distance]).collect();
            distance /= 2;
        }
        sums[lane].to_bits()
    };
    let of_four = words[lane / 4 * 4..][..4].iter().fold(0_u32, |sum, word| sum.wrapping_add(*word));
    answers.extend([butterfly(32), butterfly(8), of_four]);
    answers.push(words.iter().fold(0, |sum: u32, word| sum.wrapping_add(*word)));
    answers.push(words[lane ^ 7]);
    let some = |answer| if SOME >> lane & 1 == 1 { answer } else { 0 };
    answers.extend([
        some(bits(&|i| words[i].is_multiple_of(2)) & SOME),
        some(SOME.count_ones()),
        some(of_four),
    ]);
    assert_eq!(answers.len(), WORDS as usize);
    answers
}
