//! AVX2 kernels: 256-bit registers.

use std::arch::x86_64::*;

use super::registers::for_registers;
use super::scalar::scale;
use super::select::{Simd, SimdLevel};
use super::x86::sum_eight;
use crate::Element;

pub(crate) struct Avx2;

/// Loads and stores eight floats.
trait Floats: Copy + Default {
    /// # Safety
    /// Eight values are readable at `from`; the CPU has AVX2 and F16C.
    unsafe fn load(from: *const Self) -> __m256;

    /// # Safety
    /// Eight values are writable at `to`; the CPU has AVX2 and F16C.
    unsafe fn store(to: *mut Self, values: __m256);
}

/// Loads sixteen bytes, widened to i16.
trait Bytes: Copy + Default {
    /// # Safety
    /// Sixteen values are readable at `from`; the CPU has AVX2.
    unsafe fn load(from: *const Self) -> __m256i;
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn floats<T: Floats, const SQUARED: bool>(a: *const T, b: *const T, len: usize) -> f32 {
    let mut sums = [_mm256_setzero_ps(); 8];
    // SAFETY: upheld by the caller for `len`; eight values a step.
    unsafe {
        for_registers::<T, 8, 8>(a, b, len, |register, a, b| {
            let (x, y) = (T::load(a), T::load(b));
            let sum = &mut sums[register];
            *sum = if SQUARED {
                let difference = _mm256_sub_ps(x, y);
                _mm256_fmadd_ps(difference, difference, *sum)
            } else {
                _mm256_fmadd_ps(x, y, *sum)
            };
        });
    }
    // Registers 2i and 2i + 1 are the halves of register i of the fixed order.
    let low = _mm256_add_ps(_mm256_add_ps(sums[0], sums[2]), _mm256_add_ps(sums[4], sums[6]));
    let high = _mm256_add_ps(_mm256_add_ps(sums[1], sums[3]), _mm256_add_ps(sums[5], sums[7]));
    sum_eight(_mm256_add_ps(low, high))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scale_floats<T: Floats + Element>(values: &mut [T], factor: f64) {
    let factors = _mm256_set1_pd(factor);
    let mut eights = values.chunks_exact_mut(8);
    for eight in &mut eights {
        // SAFETY: a chunk has eight values.
        unsafe {
            let values = T::load(eight.as_ptr());
            let half = |values: __m128| _mm256_cvtpd_ps(_mm256_mul_pd(_mm256_cvtps_pd(values), factors));
            let (low, high) = (_mm256_castps256_ps128(values), _mm256_extractf128_ps::<1>(values));
            T::store(eight.as_mut_ptr(), _mm256_set_m128(half(high), half(low)));
        }
    }
    scale(eights.into_remainder(), factor);
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn bytes<T: Bytes, const SQUARED: bool>(a: *const T, b: *const T, len: usize) -> f32 {
    let mut sums = [_mm256_setzero_si256(); 4];
    // SAFETY: upheld by the caller for `len`; sixteen values a step.
    unsafe {
        for_registers::<T, 4, 16>(a, b, len, |register, a, b| {
            let (x, y) = (T::load(a), T::load(b));
            let (p, q) = if SQUARED {
                let difference = _mm256_sub_epi16(x, y);
                (difference, difference)
            } else {
                (x, y)
            };
            let sum = &mut sums[register];
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(p, q));
        });
    }
    let eight = _mm256_add_epi32(_mm256_add_epi32(sums[0], sums[1]), _mm256_add_epi32(sums[2], sums[3]));
    let four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256::<1>(eight));
    let two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
    _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<1>(two))) as f32
}

/// The kernels of each type: the function that sums, and how it loads the type.
macro_rules! avx2 {
    ($($sum:ident, $scale:ident, $trait:ident for $type:ty: $from:ident => $load:expr, $register:ty
        $(, $to:ident, $values:ident => $store:expr)?;)*
    ) => {$(
        impl $trait for $type {
            #[inline]
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn load($from: *const Self) -> $register {
                // SAFETY: the caller says that as many values are readable.
                unsafe { $load }
            }

            $(
                #[inline]
                #[target_feature(enable = "avx2,fma,f16c")]
                unsafe fn store($to: *mut Self, $values: __m256) {
                    // SAFETY: the caller says that as many values are writable.
                    unsafe { $store }
                }
            )?
        }

        impl Simd<$type> for Avx2 {
            const LEVEL: SimdLevel = SimdLevel::Avx2;

            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn sum<const SQUARED: bool>(a: *const $type, b: *const $type, len: usize) -> f32 {
                // SAFETY: the same promise, passed on.
                unsafe { $sum::<$type, SQUARED>(a, b, len) }
            }

            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn scale(values: &mut [$type], factor: f64) {
                $scale(values, factor);
            }
        }
    )*};
}

avx2! {
    floats, scale_floats, Floats for f32: from => _mm256_loadu_ps(from), __m256,
        to, values => _mm256_storeu_ps(to, values);
    floats, scale_floats, Floats for half::f16: from => _mm256_cvtph_ps(_mm_loadu_si128(from.cast())), __m256,
        to, values => _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values));
    bytes, scale, Bytes for u8: from => _mm256_cvtepu8_epi16(_mm_loadu_si128(from.cast())), __m256i;
    bytes, scale, Bytes for i8: from => _mm256_cvtepi8_epi16(_mm_loadu_si128(from.cast())), __m256i;
}
