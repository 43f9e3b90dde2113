//! `math`: every function, on numbers small enough that the answer is exact without halves.

use cuda_std::prelude::*;

use crate::{Answers, Args};
#[cfg(not(target_arch = "nvptx64"))]
use crate::{Case, LaunchConfig};

const WORDS: u32 = 13;

/// Every thread computes with three words of the input.
///
/// # Safety
/// Launched as [`cases`](crate::cases) says.
#[kernel(max_threads = 128)]
pub unsafe fn arithmetic(args: Args) {
    // SAFETY: the launch has room for all answers, and three words of input a thread.
    unsafe {
        let input = args.input.add(3 * thread::index_1d() as usize);
        let [a, b, c] = [0, 1, 2].map(|i| global::load_readonly(input.add(i)));
        let mut answers = Answers::of_this_thread(&args, WORDS);
        answers.put(math::dp4a_u32(a, b, c));
        answers.put(math::dp4a_i32(a, b, c as i32));
        answers.put(math::dp4a_u32_i32(a, b, c as i32));
        answers.put(math::fma(fraction(a), fraction(b), fraction(c)));
        answers.put(math::absolute_difference_u8x4(a, b));
        answers.put(math::absolute_difference_i8x4(a, b));
        answers.put(math::sqrt_f32(fraction(a)));
        answers.put(math::sqrt_f64(f64::from(a)).to_bits());
        answers.put(math::round_to_i32(mixed(a)));

        let (low, high) = math::half2_to_f32(halves(b));
        answers.put(low);
        answers.put(high);
        answers.put(math::half_to_f32(halves(a) as u16));
    }
}

/// A number of 8 bits behind the point, and a sign.
fn mixed(word: u32) -> f32 {
    (word as i32 >> 8) as f32 / 256.0
}

/// Two normal f16, of magnitudes below 2.
fn halves(word: u32) -> u32 {
    word & 0xbfff_bfff | 0x0400_0400
}

/// A number of 24 bits from 1 to 2.
fn fraction(word: u32) -> f32 {
    f32::from_bits(0x3f80_0000 | word >> 9)
}

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) fn case(input: &[u32]) -> Case {
    let launch = LaunchConfig { grid: (2, 1), block: 128, shared: 0 };
    let answers = launch.threads().flat_map(|(x, _, thread)| {
        let words = &input[3 * (x * 128 + thread) as usize..];
        of_thread([words[0], words[1], words[2]])
    });
    Case::new("arithmetic", arithmetic, launch, answers.collect(), &[], &[])
}

/// The answers of a thread.
#[cfg(not(target_arch = "nvptx64"))]
fn of_thread([a, b, c]: [u32; 3]) -> Vec<u32> {
    let byte = |word: u32, i: u32| i64::from(word >> (8 * i) & 0xff);
    let signed = |word: u32, i: u32| i64::from((word >> (8 * i)) as i8);
    let dot = |of_a: &dyn Fn(u32, u32) -> i64, of_b: &dyn Fn(u32, u32) -> i64| {
        let products: i64 = (0..4).map(|i| of_a(a, i) * of_b(b, i)).sum();
        (i64::from(c) + products) as u32
    };
    let mut answers = vec![dot(&byte, &byte), dot(&signed, &signed), dot(&byte, &signed)];
    // The product of two f32 is exact in f64, and so is its sum with a third that is not much smaller.
    let fused = f64::from(fraction(a)) * f64::from(fraction(b)) + f64::from(fraction(c));
    answers.push((fused as f32).to_bits());
    let apart = |number: &dyn Fn(u32, u32) -> i64| {
        (0..4).fold(0, |word, i| word | (number(a, i).abs_diff(number(b, i)) as u32) << (8 * i))
    };
    answers.extend([apart(&byte), apart(&signed)]);
    // A root in f64 has more than twice the digits of an f32: rounding it again is as if it had been exact.
    answers.push((f64::from(fraction(a)).sqrt() as f32).to_bits());
    let root = f64::from(a).sqrt().to_bits();
    answers.extend([root as u32, (root >> 32) as u32]);
    let (whole, rest) = (a as i32 >> 16, (a as i32 >> 8) & 0xff);
    let up = rest > 128 || (rest == 128 && whole % 2 != 0);
    answers.push((whole + i32::from(up)) as u32);
    answers.extend([halves(b), halves(b) >> 16, halves(a)].map(half));
    answers
}

/// The bits of the f32 that equals the normal f16 in the lower half of a word.
#[cfg(not(target_arch = "nvptx64"))]
fn half(word: u32) -> u32 {
    // The biases of the exponents are 127 and 15.
    ((word & 0x8000) << 16) | (((word & 0x7fff) << 13) + ((127 - 15) << 23))
}
