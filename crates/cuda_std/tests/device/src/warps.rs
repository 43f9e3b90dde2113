//! `warp`: shuffles, votes, matches, reductions.

use cuda_std::prelude::*;

use crate::{Answers, Args};
#[cfg(not(target_arch = "nvptx64"))]
use crate::{Case, LaunchConfig};
use warp::WARP_SIZE;

const WORDS: u32 = 26;

/// Every lane tells what it gets of the others.
///
/// # Safety
/// Launched as [`cases`](crate::cases) says.
#[kernel(max_threads = 64, min_blocks = 2)]
pub unsafe fn warps(args: Args) {
    // SAFETY: the launch has room for all answers and a word of shared memory a thread; whole warps come here.
    unsafe {
        let lane = warp::lane_id();
        let word = global::load(args.input.add(thread::thread_idx_x() as usize));
        let long = u64::from(word) << 32 | u64::from(!word);
        let small = f32::from(word as i16);
        let mut answers = Answers::of_this_thread(&args, WORDS);
        answers.put(lane);

        answers.put_with_flag(warp::shuffle_up(word, 3));
        answers.put_with_flag(warp::shuffle_up(long, 9));
        answers.put(warp::shuffle(word, word));
        answers.put(warp::shuffle(long, lane + 1));
        answers.put(warp::shuffle_in_segment(long, lane + 1, 4));
        answers.put(warp::shuffle_xor(long, 21));

        answers.put(u32::from(warp::all(!word.is_multiple_of(64))));
        answers.put(u32::from(warp::any(word.is_multiple_of(64))));
        answers.put(warp::ballot(word.is_multiple_of(3)));
        answers.put(warp::match_any(word % 4));

        answers.put(warp::reduce_add(word));
        answers.put(warp::reduce_min(word));
        answers.put(warp::reduce_max(word));
        answers.put(warp::reduce_or(word & 0xff00));

        answers.put(warp::sum(small * 1.1, WARP_SIZE));
        answers.put(warp::sum(small * 1.1, 8));
        answers.put(warp::sum(word, 4));
        answers.put(warp::sum(word as i32, WARP_SIZE));

        let slots = shared::dynamic_shared_mem::<u32>().add(thread::thread_idx_x() - lane);
        slots.add(lane).store(word);
        warp::sync_warp();
        answers.put(slots.add(lane ^ 7).load());
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

    let up = |delta: usize| lane.checked_sub(delta).map_or((lane, 0), |from| (from, 1));
    let ((up_3, is_inside_3), (up_9, is_inside_9)) = (up(3), up(9));
    answers.extend([words[up_3], is_inside_3]);
    answers.extend(long(up_9));
    answers.push(is_inside_9);
    answers.push(words[word as usize % 32]);
    answers.extend(long((lane + 1) % 32));
    answers.extend(long(lane / 4 * 4 + (lane + 1) % 4));
    answers.extend(long(lane ^ 21));

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
    assert_eq!(answers.len(), WORDS as usize);
    answers
}
