//! Matrix products `d = a * b + c` of a warp by the tensor cores.
//!
//! The fragments that each lane holds, with `group = lane / 4` and `pair = lane % 4`:
//!
//! | fragment | lane holds |
//! | --- | --- |
//! | `c`, `d` (16 x 8) | `[0], [1]`: row `group`, columns `2 * pair`, `2 * pair + 1`; `[2], [3]`: row `group + 8` |
//! | `a` of bytes (16 x 32) | four adjacent columns per register: `[0]` row `group`, columns `4 * pair ..`; `[1]` row `group + 8`; `[2]`, `[3]` the same rows, 16 columns further |
//! | `b` of bytes (32 x 8) | four adjacent rows per register: `[0]` column `group`, rows `4 * pair ..`; `[1]` 16 rows further |
//! | `a` of halves (16 x 16) | two adjacent columns per register: `[0]` row `group`, columns `2 * pair ..`; `[1]` row `group + 8`; `[2]`, `[3]` the same rows, 8 columns further |
//! | `b` of halves (16 x 8) | two adjacent rows per register: `[0]` column `group`, rows `2 * pair ..`; `[1]` 8 rows further |

use crate::imp;
use crate::primitive::Mma;

/// The product of signed bytes, 16 x 32 times 32 x 8: exact, with wrapping sums
/// (`mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32`).
///
/// # Safety
/// All 32 lanes of the warp call this together.
#[inline(always)]
#[track_caller]
pub unsafe fn m16n8k32_i8(a: [u32; 4], b: [u32; 2], c: [i32; 4]) -> [i32; 4] {
    // SAFETY: the caller upholds the contract of the back end.
    unsafe { imp::mma(Mma::M16N8K32I8, a, b, c.map(|sum| sum as u32)) }.map(|sum| sum as i32)
}

/// The product of unsigned bytes, 16 x 32 times 32 x 8: exact, with wrapping sums
/// (`mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32`).
///
/// # Safety
/// The same as for [`m16n8k32_i8`].
#[inline(always)]
#[track_caller]
pub unsafe fn m16n8k32_u8(a: [u32; 4], b: [u32; 2], c: [i32; 4]) -> [i32; 4] {
    // SAFETY: the caller upholds the contract of the back end.
    unsafe { imp::mma(Mma::M16N8K32U8, a, b, c.map(|sum| sum as u32)) }.map(|sum| sum as i32)
}

/// The product of 16-bit floats, 16 x 16 times 16 x 8, with sums of f32 that are rounded in an unspecified order
/// (`mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32`).
///
/// # Safety
/// The same as for [`m16n8k32_i8`].
#[inline(always)]
#[track_caller]
pub unsafe fn m16n8k16_f16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    // SAFETY: the caller upholds the contract of the back end.
    unsafe { imp::mma(Mma::M16N8K16F16, a, b, c.map(f32::to_bits)) }.map(f32::from_bits)
}
