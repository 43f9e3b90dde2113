//! Matrix products of a warp: assembles the fragments, multiplies, and distributes the result.

use super::block::ThreadExtra;
use crate::primitive::Mma;

/// Rows of `a`, columns of `b`.
const ROWS: usize = 16;
const COLUMNS: usize = 8;
/// Columns of `a`, rows of `b`.
const INNER: usize = 32;
/// Number of neighbors along the inner dimension in a register.
const PACKED: usize = 4;

/// Replaces the fragments of `c` by those of `d = a * b + c`.
pub fn multiply(op: Mma, warp: &mut [ThreadExtra]) {
    let element = |register: u32, place: usize| match op {
        Mma::M16N8K32I8 => i32::from((register >> (8 * place)) as i8),
        Mma::M16N8K32U8 => i32::from((register >> (8 * place)) as u8),
    };
    let mut a = [[0; ROWS]; INNER];
    let mut b = [[0; COLUMNS]; INNER];
    for (number, lane) in warp.iter().enumerate() {
        let (group, pair) = (number / 4, number % 4);
        for place in 0..PACKED {
            let near = PACKED * pair + place;
            let far = near + INNER / 2;
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
            let product: i32 = a.iter().zip(&b).map(|(a, b)| a[row] * b[column]).sum();
            *sum = sum.wrapping_add(product as u32);
        }
    }
}
