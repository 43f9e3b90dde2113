//! Code shared by the x86 kernels.

use std::arch::x86_64::*;

/// The last three additions of the fixed order: eight lanes to one, by halves.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn sum_eight(sum: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps::<1>(sum));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
}
