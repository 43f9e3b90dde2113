//! NEON kernels: 128-bit registers.

use std::arch::aarch64::*;
use std::arch::asm;

use super::registers::for_registers;
use super::scalar::scale;
use super::select::{Simd, SimdLevel};
use crate::Element;

/// The level [`SimdLevel::Neon`] or, with dot products of bytes (`DOT`), [`SimdLevel::NeonDot`].
#[derive(Debug)]
pub struct Neon<const DOT: bool>;

/// The two dot products of bytes: `multiply` without the instruction `dot`.
macro_rules! dot {
    ($(#[$doc:meta])* $name:ident $register:ty: $dot:literal, $sum:ident, $a:ident, $b:ident => $multiply:expr) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// If `DOT`, the CPU supports [`SimdLevel::NeonDot`].
        #[inline]
#[target_feature(enable = "neon")]
        pub unsafe fn $name(mut $sum: int32x4_t, $a: $register, $b: $register) -> int32x4_t {
            if DOT {
                // SAFETY: upheld by the caller. The standard library's functions are not stable.
                unsafe {
                    asm!(
                        ".arch_extension dotprod",
                        concat!($dot, " {0:v}.4s, {1:v}.16b, {2:v}.16b"),
                        inout(vreg) $sum, in(vreg) $a, in(vreg) $b,
                        options(pure, nomem, nostack, preserves_flags),
                    );
                }
                return $sum;
            }
            $multiply
        }
    };
}

impl<const DOT: bool> Neon<DOT> {
    dot! {
        /// Adds the products of sixteen pairs of i8 to the four lanes of `sum`, each to any one.
        dot_i8 int8x16_t: "sdot", sum, a, b => {
            let low = vmull_s8(vget_low_s8(a), vget_low_s8(b));
            vpadalq_s16(vpadalq_s16(sum, low), vmull_high_s8(a, b))
        }
    }

    dot! {
        /// Adds the products of sixteen pairs of u8 to the four lanes of `sum`, each to any one.
        dot_u8 uint8x16_t: "udot", sum, a, b => {
            let (sum, low) = (vreinterpretq_u32_s32(sum), vmull_u8(vget_low_u8(a), vget_low_u8(b)));
            vreinterpretq_s32_u32(vpadalq_u16(vpadalq_u16(sum, low), vmull_high_u8(a, b)))
        }
    }
}

/// Loads and stores four floats.
trait Floats: Element {
    /// # Safety
    /// Four values are readable at `from`.
    unsafe fn load(from: *const Self) -> float32x4_t;

    /// # Safety
    /// Four values are writable at `to`.
    unsafe fn store(to: *mut Self, values: float32x4_t);
}

impl Floats for f32 {
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn load(from: *const Self) -> float32x4_t {
        // SAFETY: upheld by the caller.
        unsafe { vld1q_f32(from) }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn store(to: *mut Self, values: float32x4_t) {
        // SAFETY: upheld by the caller.
        unsafe { vst1q_f32(to, values) }
    }
}

impl Floats for half::f16 {
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn load(from: *const Self) -> float32x4_t {
        // SAFETY: upheld by the caller.
        vcvt_f32_f16(vreinterpret_f16_u16(unsafe { vld1_u16(from.cast()) }))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn store(to: *mut Self, values: float32x4_t) {
        // SAFETY: upheld by the caller.
        unsafe { vst1_u16(to.cast(), vreinterpret_u16_f16(vcvt_f16_f32(values))) }
    }
}

#[inline]
#[target_feature(enable = "neon")]
unsafe fn floats<T: Floats, const SQUARED: bool>(a: *const T, b: *const T, len: usize) -> f32 {
    let mut sums = [vdupq_n_f32(0.0); 16];
    // SAFETY: upheld by the caller for `len`; four values a step.
    unsafe {
        for_registers::<T, 16, 4>(a, b, len, |register, a, b| {
            let (x, y) = (T::load(a), T::load(b));
            let (p, q) = if SQUARED { (vsubq_f32(x, y), vsubq_f32(x, y)) } else { (x, y) };
            sums[register] = vfmaq_f32(sums[register], p, q);
        });
    }
    // Register 4i + j is the quarter j of register i of the fixed order.
    let lanes: [float32x4_t; 4] = std::array::from_fn(|j| {
        vaddq_f32(vaddq_f32(sums[j], sums[4 + j]), vaddq_f32(sums[8 + j], sums[12 + j]))
    });
    let four = vaddq_f32(vaddq_f32(lanes[0], lanes[2]), vaddq_f32(lanes[1], lanes[3]));
    vaddv_f32(vadd_f32(vget_low_f32(four), vget_high_f32(four)))
}

#[inline]
#[target_feature(enable = "neon")]
fn scale_floats<T: Floats>(values: &mut [T], factor: f64) {
    let (fours, rest) = values.as_chunks_mut::<4>();
    for four in fours {
        // SAFETY: the chunk has four values.
        let values = unsafe { T::load(four.as_ptr()) };
        let low = vmulq_n_f64(vcvt_f64_f32(vget_low_f32(values)), factor);
        let high = vmulq_n_f64(vcvt_high_f64_f32(values), factor);
        // SAFETY: as above.
        unsafe { T::store(four.as_mut_ptr(), vcvt_high_f32_f64(vcvt_f32_f64(low), high)) };
    }
    scale(rest, factor);
}

/// Sixteen bytes.
trait Bytes: Element {
    type Register: Copy;

    /// # Safety
    /// Sixteen values are readable at `from`.
    unsafe fn load(from: *const Self) -> Self::Register;

    /// The magnitudes of the differences.
    ///
    /// # Safety
    /// The CPU has NEON.
    unsafe fn differences(a: Self::Register, b: Self::Register) -> uint8x16_t;

    /// # Safety
    /// If `DOT`, the CPU supports [`SimdLevel::NeonDot`].
    unsafe fn dot<const DOT: bool>(sum: int32x4_t, a: Self::Register, b: Self::Register) -> int32x4_t;
}

macro_rules! bytes {
    ($type:ty, $register:ty: $load:ident, $dot:ident, $a:ident, $b:ident => $differences:expr) => {
        impl Bytes for $type {
            type Register = $register;

            #[inline]
            #[target_feature(enable = "neon")]
            unsafe fn load(from: *const Self) -> $register {
                // SAFETY: upheld by the caller.
                unsafe { $load(from) }
            }

            #[inline]
            #[target_feature(enable = "neon")]
            unsafe fn differences($a: $register, $b: $register) -> uint8x16_t {
                $differences
            }

            #[inline]
            #[target_feature(enable = "neon")]
            unsafe fn dot<const DOT: bool>(sum: int32x4_t, a: $register, b: $register) -> int32x4_t {
                // SAFETY: upheld by the caller.
                unsafe { Neon::<DOT>::$dot(sum, a, b) }
            }
        }
    };
}
bytes!(u8, uint8x16_t: vld1q_u8, dot_u8, a, b => vabdq_u8(a, b));
// The difference of two i8 fits in eight bits without a sign.
bytes!(i8, int8x16_t: vld1q_s8, dot_i8, a, b => vreinterpretq_u8_s8(vabdq_s8(a, b)));

#[inline]
#[target_feature(enable = "neon")]
unsafe fn bytes<T: Bytes, const DOT: bool, const SQUARED: bool>(a: *const T, b: *const T, len: usize) -> f32 {
    let mut sums = [vdupq_n_s32(0); 4];
    // SAFETY: upheld by the caller for the CPU and for `len`; sixteen values a step.
    unsafe {
        for_registers::<T, 4, 16>(a, b, len, |register, a, b| {
            let (x, y, sum) = (T::load(a), T::load(b), sums[register]);
            sums[register] = if SQUARED {
                let differences = T::differences(x, y);
                Neon::<DOT>::dot_u8(sum, differences, differences)
            } else {
                T::dot::<DOT>(sum, x, y)
            };
        });
    }
    vaddvq_s32(vaddq_s32(vaddq_s32(sums[0], sums[1]), vaddq_s32(sums[2], sums[3]))) as f32
}

/// The kernels of each type: the function that sums, and the one that scales.
macro_rules! neon {
    ($($type:ty: $sum:ident::<$first:ty $(, $dot:ident)?>, $scale:ident;)*) => {$(
        impl<const DOT: bool> Simd<$type> for Neon<DOT> {
            const LEVEL: SimdLevel = if DOT { SimdLevel::NeonDot } else { SimdLevel::Neon };

            #[target_feature(enable = "neon")]
            unsafe fn sum<const SQUARED: bool>(a: *const $type, b: *const $type, len: usize) -> f32 {
                // SAFETY: the same promise, passed on.
                unsafe { $sum::<$first, $($dot,)? SQUARED>(a, b, len) }
            }

            #[target_feature(enable = "neon")]
            unsafe fn scale(values: &mut [$type], factor: f64) {
                $scale(values, factor);
            }
        }
    )*};
}
neon! {
    f32: floats::<f32>, scale_floats;
    half::f16: floats::<half::f16>, scale_floats;
    u8: bytes::<u8, DOT>, scale;
    i8: bytes::<i8, DOT>, scale;
}
