//! Arithmetic that Rust has no operator for. Results on the device and on the host are equal to the bit, except for the
//! payload of NaN.
//!
//! Rust never fuses `a * b + c`: use [`fma`] for a single rounding. For integers, use Rust's own operations such as
//! [`u32::count_ones`] (`popc.b32`).

#[cfg(target_arch = "nvptx64")]
use crate::device::math as imp;
#[cfg(not(target_arch = "nvptx64"))]
use plain as imp;

#[cfg(not(target_arch = "nvptx64"))]
mod plain;
#[cfg(test)]
mod tests;

/// `a * b + c`, rounded once (`fma.rn.f32`).
#[inline(always)]
#[must_use]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    imp::fma(a, b, c)
}

/// The f32 of an f16, given by its bits (`cvt.f32.f16`). Exact.
#[inline(always)]
#[must_use]
pub fn half_to_f32(half: u16) -> f32 {
    imp::half_to_f32(half)
}

/// The two f32 of a pair of f16, the lower half first (`mov.b32`, `cvt.f32.f16`). Exact.
#[inline(always)]
#[must_use]
pub fn half2_to_f32(halves: u32) -> (f32, f32) {
    imp::half2_to_f32(halves)
}

/// The pair of f16 nearest to two f32, `low` in the lower half; ties go to even (`cvt.rn.f16x2.f32`).
#[inline(always)]
#[must_use]
pub fn f32_to_half2(low: f32, high: f32) -> u32 {
    imp::f32_to_half2(low, high)
}

/// `c` plus the dot product of four u8 with four u8, wrapping (`dp4a.u32.u32`).
#[inline(always)]
#[must_use]
pub fn dp4a_u32(a: u32, b: u32, c: u32) -> u32 {
    imp::dp4a_u32(a, b, c)
}

/// `c` plus the dot product of four i8 with four i8, wrapping (`dp4a.s32.s32`).
#[inline(always)]
#[must_use]
pub fn dp4a_i32(a: u32, b: u32, c: i32) -> i32 {
    imp::dp4a_i32(a, b, c)
}

/// `c` plus the dot product of four u8 (`a`) with four i8 (`b`), wrapping (`dp4a.u32.s32`).
#[inline(always)]
#[must_use]
pub fn dp4a_u32_i32(a: u32, b: u32, c: i32) -> i32 {
    imp::dp4a_u32_i32(a, b, c)
}

/// The absolute differences of four u8 of `a` and `b` (`vabsdiff4.u32.u32.u32`).
#[inline(always)]
#[must_use]
pub fn absolute_difference_u8x4(a: u32, b: u32) -> u32 {
    imp::absolute_difference_u8x4(a, b)
}

/// The absolute differences of four i8 of `a` and `b`, as u8 (`vabsdiff4.u32.s32.s32`).
#[inline(always)]
#[must_use]
pub fn absolute_difference_i8x4(a: u32, b: u32) -> u32 {
    imp::absolute_difference_i8x4(a, b)
}

/// The largest integer not above `x` (`cvt.rmi.f32.f32`).
#[inline(always)]
#[must_use]
pub fn floor(x: f32) -> f32 {
    imp::floor(x)
}

/// The nearest integer, ties to even; saturates, and is 0 for NaN (`cvt.rni.s32.f32`).
#[inline(always)]
#[must_use]
pub fn round_to_i32(x: f32) -> i32 {
    imp::round_to_i32(x)
}

/// The square root, rounded once (`sqrt.rn.f32`).
#[inline(always)]
#[must_use]
pub fn sqrt_f32(x: f32) -> f32 {
    imp::sqrt_f32(x)
}

/// The square root, rounded once (`sqrt.rn.f64`).
#[inline(always)]
#[must_use]
pub fn sqrt_f64(x: f64) -> f64 {
    imp::sqrt_f64(x)
}
