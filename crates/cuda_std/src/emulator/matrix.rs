//! Matrix products of a warp: assembles the fragments, multiplies, and distributes the result.

use super::block::ThreadExtra;
use crate::math::half_to_f32;
use crate::primitive::Mma;

/// Rows of `a`, columns of `b`.
const ROWS: usize = 16;
const COLUMNS: usize = 8;
/// Registers along the inner dimension: columns of `a`, rows of `b`.
const INNER_REGISTERS: usize = 8;

/// Replaces the fragments of `c` by those of `d = a * b + c`.
pub fn multiply(op: Mma, warp: &mut [ThreadExtra]) {
    let add_integer = |sum: u32, product: f64| sum.wrapping_add(product as i32 as u32);
    let add_float = |sum: u32, product: f64| ((f64::from(f32::from_bits(sum)) + product) as f32).to_bits();
    match op {
        Mma::M16N8K32I8 => {
            multiply_packed::<4>(warp, |word, place| f64::from((word >> (8 * place)) as i8), add_integer);
        }
        Mma::M16N8K32U8 => {
            multiply_packed::<4>(warp, |word, place| f64::from((word >> (8 * place)) as u8), add_integer);
        }
        Mma::M16N8K16F16 => {
            let half = |word: u32, place: usize| f64::from(half_to_f32((word >> (16 * place)) as u16));
            multiply_packed::<2>(warp, half, add_float);
        }
    }
}

/// The same for registers of `PACKED` elements. Products are exact in f64.
fn multiply_packed<const PACKED: usize>(
    warp: &mut [ThreadExtra],
    element: impl Fn(u32, usize) -> f64,
    add: impl Fn(u32, f64) -> u32,
) {
    let inner = INNER_REGISTERS * PACKED;
    let mut a = vec![[0.0; ROWS]; inner];
    let mut b = vec![[0.0; COLUMNS]; inner];
    for (number, lane) in warp.iter().enumerate() {
        let (group, pair) = (number / 4, number % 4);
        for place in 0..PACKED {
            let near = PACKED * pair + place;
            let far = near + inner / 2;
            a[near][group] = element(lane.fragments[0], place);
            a[near][group + 8] = element(lane.fragments[1], place);
            a[far][group] = element(lane.fragments[2], place);
            a[far][group + 8] = element(lane.fragments[3], place);
            b[near][group] = element(lane.fragments[4], place);
            b[far][group] = element(lane.fragments[5], place);
        }
    }
    for (number, lane) in warp.iter_mut().enumerate() {
        let (group, pair) = (number / 4, number % 4);
        for (place, sum) in lane.fragments[6..].iter_mut().enumerate() {
            let (row, column) = (group + 8 * (place / 2), 2 * pair + place % 2);
            *sum = add(*sum, a.iter().zip(&b).map(|(a, b)| a[row] * b[column]).sum());
        }
    }
}
