//! AVX-512 kernels: 512-bit registers. Tails are masked loads, whose inactive lanes are zero.

use std::arch::x86_64::*;

use super::avx2::Avx2;
use super::select::{Simd, SimdLevel};
use super::x86::sum_eight;

pub(crate) struct Avx512;

/// Loads sixteen floats.
trait Floats: Copy {
    /// # Safety
    /// The lanes of `mask` are readable at `from`; the CPU has AVX-512 F, BW and VL.
    unsafe fn load(from: *const Self, mask: __mmask16) -> __m512;
}

/// Loads thirty-two bytes, widened to i16.
trait Bytes: Copy {
    /// # Safety
    /// The lanes of `mask` are readable at `from`; the CPU has AVX-512 F, BW and VL.
    unsafe fn load(from: *const Self, mask: __mmask32) -> __m512i;
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn floats<T: Floats, const SQUARED: bool>(a: *const T, b: *const T, len: usize) -> f32 {
    let mut sums = [_mm512_setzero_ps(); 4];
    let mut step = |register: usize, at: usize, mask| {
        // SAFETY: the callers below keep `at` and the lanes of `mask` within `len`.
        let (x, y) = unsafe { (T::load(a.add(at), mask), T::load(b.add(at), mask)) };
        let sum = &mut sums[register];
        *sum = if SQUARED {
            let difference = _mm512_sub_ps(x, y);
            _mm512_fmadd_ps(difference, difference, *sum)
        } else {
            _mm512_fmadd_ps(x, y, *sum)
        };
    };
    let whole = len / 64 * 64;
    for at in (0..whole).step_by(64) {
        step(0, at, !0);
        step(1, at + 16, !0);
        step(2, at + 32, !0);
        step(3, at + 48, !0);
    }
    let rest = first_lanes(len - whole);
    for register in 0..4 {
        let mask = (rest >> (16 * register)) as __mmask16;
        if mask != 0 {
            step(register, whole + 16 * register, mask);
        }
    }
    let sum = _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3]));
    let high = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(sum)));
    sum_eight(_mm256_add_ps(_mm512_castps512_ps256(sum), high))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn bytes<T: Bytes, const SQUARED: bool>(a: *const T, b: *const T, len: usize) -> f32 {
    let mut sums = [_mm512_setzero_si512(); 2];
    let mut step = |register: usize, at: usize, mask| {
        // SAFETY: the callers below keep `at` and the lanes of `mask` within `len`.
        let (x, y) = unsafe { (T::load(a.add(at), mask), T::load(b.add(at), mask)) };
        let (p, q) = if SQUARED {
            let difference = _mm512_sub_epi16(x, y);
            (difference, difference)
        } else {
            (x, y)
        };
        sums[register] = _mm512_dpwssd_epi32(sums[register], p, q);
    };
    let whole = len / 64 * 64;
    for at in (0..whole).step_by(64) {
        step(0, at, !0);
        step(1, at + 32, !0);
    }
    let rest = first_lanes(len - whole);
    for register in 0..2 {
        let mask = (rest >> (32 * register)) as __mmask32;
        if mask != 0 {
            step(register, whole + 32 * register, mask);
        }
    }
    _mm512_reduce_add_epi32(_mm512_add_epi32(sums[0], sums[1])) as f32
}

/// A mask of the first `count` of 64 lanes; `count` is below 64.
#[inline(always)]
fn first_lanes(count: usize) -> u64 {
    (1 << count) - 1
}

/// The kernels of each type: the function that sums, and how it loads the type.
macro_rules! avx512 {
    ($($sum:ident, $trait:ident for $type:ty: $from:ident, $mask:ident: $mask_type:ty => $load:expr, $register:ty;)*) => {$(
        impl $trait for $type {
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
            unsafe fn load($from: *const Self, $mask: $mask_type) -> $register {
                // SAFETY: the caller says that the masked lanes are readable; the others are not touched.
                unsafe { $load }
            }
        }

        impl Simd<$type> for Avx512 {
            const LEVEL: SimdLevel = SimdLevel::Avx512;

            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
            unsafe fn sum<const SQUARED: bool>(a: *const $type, b: *const $type, len: usize) -> f32 {
                // SAFETY: the same promise, passed on.
                unsafe { $sum::<$type, SQUARED>(a, b, len) }
            }

            unsafe fn scale(values: &mut [$type], factor: f64) {
                // SAFETY: a CPU with AVX-512 has AVX2.
                unsafe { Avx2::scale(values, factor) }
            }
        }
    )*};
}

avx512! {
    floats, Floats for f32: from, mask: __mmask16 => _mm512_maskz_loadu_ps(mask, from), __m512;
    floats, Floats for half::f16: from, mask: __mmask16 =>
        _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, from.cast())), __m512;
    bytes, Bytes for u8: from, mask: __mmask32 =>
        _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(mask, from.cast())), __m512i;
    bytes, Bytes for i8: from, mask: __mmask32 =>
        _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(mask, from)), __m512i;
}
