//! `mma`: each product, with its fragments laid out as the module says.

use cuda_std::prelude::*;

use crate::{Answers, Args};
#[cfg(not(target_arch = "nvptx64"))]
use crate::{Case, LaunchConfig};

const WORDS: u32 = 12;

/// Elements of the matrices: words of the input, turned by the column.
#[derive(Clone, Copy)]
struct Matrices {
    input: *const u32,
}

impl Matrices {
    /// A byte of `a`.
    #[inline(always)]
    unsafe fn a(self, row: u32, column: u32) -> u8 {
        // SAFETY: the input has more rows than the matrices.
        unsafe { global::load_readonly(self.input.add(row as usize)) }.rotate_left(column) as u8
    }

    /// A byte of `b`.
    #[inline(always)]
    unsafe fn b(self, row: u32, column: u32) -> u8 {
        // SAFETY: as above.
        unsafe { global::load_readonly(self.input.add(64 + row as usize)) }.rotate_left(column * 3) as u8
    }

    /// A number of `c`.
    #[inline(always)]
    unsafe fn c(self, row: u32, column: u32) -> i32 {
        // SAFETY: as above.
        i32::from(unsafe { global::load_readonly(self.input.add(128 + (row * 8 + column) as usize)) } as i16)
    }
}

/// Four neighboring elements as they are.
#[inline(always)]
fn quad(element: impl Fn(u32) -> u8) -> u32 {
    u32::from_le_bytes([element(0), element(1), element(2), element(3)])
}

/// Two neighboring elements as halves between 1 and 2, so that sums are exact.
#[inline(always)]
fn halves(element: impl Fn(u32) -> u8) -> u32 {
    let half = |i: u32| 0x3C00 | u32::from(element(i) & 63) << 4;
    half(0) | half(1) << 16
}

/// A warp multiplies the same matrices as signed and as unsigned bytes, and as halves.
///
/// # Safety
/// Launched as [`cases`](crate::cases) says.
#[kernel(max_threads = 32)]
pub unsafe fn products(args: Args) {
    let (group, pair_of) = (warp::lane_id() / 4, warp::lane_id() % 4);
    let (top, bottom) = (group, group + 8);
    let of = Matrices { input: args.input };
    // SAFETY: the launch has room for all answers and is of one whole warp.
    unsafe {
        let mut answers = Answers::of_this_thread(&args, WORDS);
        let column = 2 * pair_of;
        let c = [of.c(top, column), of.c(top, column + 1), of.c(bottom, column), of.c(bottom, column + 1)];

        let a = |row, first| quad(|i| of.a(row, first + 4 * pair_of + i));
        let b = |first| quad(|i| of.b(first + 4 * pair_of + i, group));
        let a = [a(top, 0), a(bottom, 0), a(top, 16), a(bottom, 16)];
        for sum in mma::m16n8k32_i8(a, [b(0), b(16)], c) {
            answers.put(sum);
        }
        for sum in mma::m16n8k32_u8(a, [b(0), b(16)], c) {
            answers.put(sum);
        }
        let a = |row, first| halves(|i| of.a(row, first + 2 * pair_of + i));
        let b = |first| halves(|i| of.b(first + 2 * pair_of + i, group));
        let a = [a(top, 0), a(bottom, 0), a(top, 8), a(bottom, 8)];
        for sum in mma::m16n8k16_f16(a, [b(0), b(8)], c.map(|sum| (sum & 255) as f32)) {
            answers.put(sum.to_bits());
        }
    }
}

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) fn case(input: &[u32]) -> Case {
    let launch = LaunchConfig { grid: (1, 1), block: 32, shared: 0 };
    let a = |row: u32, column: u32| input[row as usize].rotate_left(column) as u8;
    let b = |row: u32, column: u32| input[64 + row as usize].rotate_left(column * 3) as u8;
    let element = |row: u32, column: u32, number: fn(u8) -> i32| {
        let c = i32::from(input[128 + (row * 8 + column) as usize] as i16);
        (0..32).map(|k| number(a(row, k)) * number(b(k, column))).sum::<i32>() + c
    };
    let signed = |byte: u8| i32::from(byte as i8);
    let answers = launch.threads().flat_map(|(_, _, lane)| {
        let (row, column) = (lane / 4, lane % 4 * 2);
        let places = [(row, column), (row, column + 1), (row + 8, column), (row + 8, column + 1)];
        let of_i8 = places.map(|(row, column)| element(row, column, signed) as u32);
        let of_u8 = places.map(|(row, column)| element(row, column, i32::from) as u32);
        let half = |byte: u8| 1.0 + f32::from(byte & 63) / 64.0;
        let of_f16 = places.map(|(row, column)| {
            let c = (input[128 + (row * 8 + column) as usize] & 255) as f32;
            (c + (0..16).map(|k| half(a(row, k)) * half(b(k, column))).sum::<f32>()).to_bits()
        });
        [of_i8, of_u8, of_f16].concat()
    });
    Case::new("products", products, launch, answers.collect(), &[], &[])
}
