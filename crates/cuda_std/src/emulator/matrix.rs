//! Products of small matrices by a whole warp: the fragments put together, multiplied, and taken apart again.

use half::f16;

use super::block::Aside;
use crate::primitive::Mma;

/// Rows of `a`, columns of `b`.
const ROWS: usize = 16;
const COLUMNS: usize = 8;

/// Replaces the fragments of `c` by those of `d = a * b + c`.
pub fn multiply(op: Mma, warp: &mut [Aside]) {
    // A register holds neighbours along the dimension that is summed over.
    let packed = if op == Mma::M16N8K16F16 { 2 } else { 4 };
    let element = |register: u32, place: usize| match op {
        Mma::M16N8K16F16 => f16::from_bits((register >> (16 * place)) as u16).to_f64(),
        Mma::M16N8K32I8 => f64::from((register >> (8 * place)) as i8),
        Mma::M16N8K32U8 => f64::from((register >> (8 * place)) as u8),
    };
    let inner = 8 * packed;
    let mut a = vec![[0.0; ROWS]; inner];
    let mut b = vec![[0.0; COLUMNS]; inner];
    for (number, lane) in warp.iter().enumerate() {
        let (group, pair) = (number / 4, number % 4);
        for place in 0..packed {
            let near = packed * pair + place;
            let far = near + 4 * packed;
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
            // Exact for bytes, and all but exact for halves: 53 bits hold what the hardware rounds on its way.
            let product: f64 = a.iter().zip(&b).map(|(a, b)| a[row] * b[column]).sum();
            *sum = match op {
                Mma::M16N8K16F16 => ((product + f64::from(f32::from_bits(*sum))) as f32).to_bits(),
                _ => sum.wrapping_add(product as i32 as u32),
            };
        }
    }
}
