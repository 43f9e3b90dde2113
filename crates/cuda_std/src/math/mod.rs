//! Arithmetic that Rust has no operator for. Results on the device and on the host are equal bit for bit, except for
//! the payload of NaN.
//!
//! Rust never fuses `a * b + c`: use [`fma`] for a single rounding. For integers, use Rust's own operations such as
//! [`u32::count_ones`] (`popc.b32`).

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

#[cfg(not(target_arch = "nvptx64"))]
use host::{absolute_difference, dot, signed};

#[cfg(not(target_arch = "nvptx64"))]
mod host;
#[cfg(test)]
mod tests;

/// Functions that are one instruction on the device: `name(inputs) -> output: "PTX", class of the output,
/// class(operands); value on the host`.
macro_rules! instructions {
    ($($(#[$doc:meta])* fn $name:ident($($x:ident: $X:ty),*) -> $R:ty {
        $ptx:literal, $out:ident, $in:ident($($operand:expr),*); $host:expr
    })*) => { $(
        $(#[$doc])*
        #[inline(always)]
        #[must_use]
        pub fn $name($($x: $X),*) -> $R {
            #[cfg(not(target_arch = "nvptx64"))]
            return $host;
            #[cfg(target_arch = "nvptx64")]
            {
                let result;
                // SAFETY: arithmetic on registers.
                unsafe { asm!($ptx, out($out) result, $(in($in) $operand,)* options(pure, nomem, nostack)) };
                result
            }
        }
    )* };
}

instructions! {
    /// `a * b + c`, rounded once (`fma.rn.f32`).
    fn fma(a: f32, b: f32, c: f32) -> f32 {
        "fma.rn.f32 {}, {}, {}, {};", reg32, reg32(a, b, c); a.mul_add(b, c)
    }

    /// The f32 of an f16, given by its bits (`cvt.f32.f16`). Exact.
    fn half_to_f32(half: u16) -> f32 {
        "cvt.f32.f16 {}, {};", reg32, reg16(half); half::f16::from_bits(half).to_f32()
    }

    /// `c` plus the dot product of four u8 with four u8, wrapping (`dp4a.u32.u32`).
    fn dp4a_u32(a: u32, b: u32, c: u32) -> u32 {
        "dp4a.u32.u32 {}, {}, {}, {};", reg32, reg32(a, b, c); dot(a, b, c as i32, i32::from, i32::from) as u32
    }

    /// `c` plus the dot product of four i8 with four i8, wrapping (`dp4a.s32.s32`).
    fn dp4a_i32(a: u32, b: u32, c: i32) -> i32 {
        "dp4a.s32.s32 {}, {}, {}, {};", reg32, reg32(a, b, c); dot(a, b, c, signed, signed)
    }

    /// `c` plus the dot product of four u8 (`a`) with four i8 (`b`), wrapping (`dp4a.u32.s32`).
    fn dp4a_u32_i32(a: u32, b: u32, c: i32) -> i32 {
        "dp4a.u32.s32 {}, {}, {}, {};", reg32, reg32(a, b, c); dot(a, b, c, i32::from, signed)
    }

    /// The absolute differences of four u8 of `a` and `b` (`vabsdiff4.u32.u32.u32`).
    fn absolute_difference_u8x4(a: u32, b: u32) -> u32 {
        "vabsdiff4.u32.u32.u32 {}, {}, {}, {};", reg32, reg32(a, b, 0_u32); absolute_difference(a, b, i32::from)
    }

    /// The absolute differences of four i8 of `a` and `b`, as u8 (`vabsdiff4.u32.s32.s32`).
    fn absolute_difference_i8x4(a: u32, b: u32) -> u32 {
        "vabsdiff4.u32.s32.s32 {}, {}, {}, {};", reg32, reg32(a, b, 0_u32); absolute_difference(a, b, signed)
    }

    /// The nearest integer, ties to even; saturates, and is 0 for NaN (`cvt.rni.s32.f32`).
    fn round_to_i32(x: f32) -> i32 {
        "cvt.rni.s32.f32 {}, {};", reg32, reg32(x); x.round_ties_even() as i32
    }

    /// The square root, rounded once (`sqrt.rn.f32`).
    fn sqrt_f32(x: f32) -> f32 {
        "sqrt.rn.f32 {}, {};", reg32, reg32(x); x.sqrt()
    }

    /// The square root, rounded once (`sqrt.rn.f64`).
    fn sqrt_f64(x: f64) -> f64 {
        "sqrt.rn.f64 {}, {};", reg64, reg64(x); x.sqrt()
    }
}

/// The two f32 of a pair of f16, the lower half first (`mov.b32`, `cvt.f32.f16`). Exact.
#[inline(always)]
#[must_use]
pub fn half2_to_f32(halves: u32) -> (f32, f32) {
    (half_to_f32(halves as u16), half_to_f32((halves >> 16) as u16))
}
