//! The random rotation of RaBitQ, which spreads a vector evenly over all coordinates, so that one quantization step
//! fits all: a fast Hadamard rotation, "FhtKac" of the RaBitQ library. Its error is within 2% of that of a uniformly
//! random rotation (docs/src/quantization.md#rotations).
//!
//! ```text
//! D = dimension rounded up to 64;  W = largest power of two up to D
//! for round in 0..4:
//!     x = x * random signs
//!     apply an orthonormal Hadamard matrix to x[0..W] in even rounds, x[D - W..D] in odd ones
//!     if W < D: (a, b) = ((a + b) / sqrt(2), (a - b) / sqrt(2)) for the halves a, b of x     (a step of Kac's walk)
//! ```
//!
//! Every step is orthonormal, and so is the whole. The scale of the Hadamard matrix, 1 / sqrt(W), is folded into the
//! signs.

use std::f32::consts::FRAC_1_SQRT_2;

use jasper_core::distance::SimdLevel;
use jasper_core::synthetic::rng;
use rand::RngExt;

use crate::simd::simd_fn;

/// Number of rounds.
pub(crate) const ROUNDS: usize = 4;
/// Output dimensions are a multiple of this, the group of dimensions that estimates take at once.
const GROUP: usize = 64;

/// A random rotation, determined by a seed. The same on every platform.
///
/// Costs D log D operations per row, with D the dimension rounded up to 64. Padding is not wasted: it adds bits.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotation {
    dimension: usize,
    rotated: usize,
    /// `[ROUNDS][rotated / 64]`: one bit per coordinate; 1 flips the sign.
    pub(crate) signs: Vec<u64>,
    /// `[ROUNDS][rotated]`: the signs as multipliers, with the scale of the Hadamard matrix.
    factors: Vec<f32>,
}

/// The dimension of rotated vectors of `dimension`: rounded up to 64.
pub const fn rotated_dimension(dimension: usize) -> usize {
    dimension.next_multiple_of(GROUP)
}

/// Maximum floats that a rotation stores: its factors, and less for the signs.
pub(crate) const fn max_floats(dimension: usize) -> usize {
    2 * ROUNDS * rotated_dimension(dimension)
}

impl Rotation {
    /// Creates a rotation of vectors of `dimension` coordinates, at least 1, from `seed`.
    pub fn new(dimension: usize, seed: u64) -> Self {
        let mut random = rng(seed);
        let signs = (0..ROUNDS * dimension.div_ceil(GROUP)).map(|_| random.random()).collect();
        Self::from_signs(dimension, signs)
    }

    /// Creates the rotation from `ROUNDS * dimension.div_ceil(64)` words of signs.
    pub(crate) fn from_signs(dimension: usize, signs: Vec<u64>) -> Self {
        let rotated = rotated_dimension(dimension);
        assert_eq!(signs.len(), ROUNDS * rotated / GROUP);
        let window = window(rotated);
        let scale = (window as f32).sqrt().recip();
        let factors = (0..ROUNDS * rotated)
            .map(|at| {
                let (round, coordinate) = (at / rotated, at % rotated);
                let first = first_of_window(round, rotated);
                let scale = if (first..first + window).contains(&coordinate) { scale } else { 1.0 };
                if signs[at / GROUP] >> (at % GROUP) & 1 == 1 { -scale } else { scale }
            })
            .collect();
        Self { dimension, rotated, signs, factors }
    }

    /// Input dimension.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Output dimension: the input dimension rounded up to 64.
    pub fn rotated_dimension(&self) -> usize {
        self.rotated
    }

    /// The multipliers of each round, `[4][rotated dimension]`: signs times the scale of the transform.
    pub fn factors(&self) -> &[f32] {
        &self.factors
    }

    /// Rotates `rows` (`n x dimension`) into `out` (`n x stride`, zero-padded from [`Self::rotated_dimension`] on).
    ///
    /// # Panics
    /// Panics if the slices hold different numbers of rows, or `stride` is below the rotated dimension.
    pub fn rotate(&self, rows: &[f32], out: &mut [f32], stride: usize) {
        assert!(stride >= self.rotated);
        assert_eq!(rows.len() / self.dimension * stride, out.len());
        for (row, out) in rows.chunks_exact(self.dimension).zip(out.chunks_exact_mut(stride)) {
            let (values, padding) = out.split_at_mut(self.rotated);
            values[..self.dimension].copy_from_slice(row);
            values[self.dimension..].fill(0.0);
            padding.fill(0.0);
            rounds(SimdLevel::detect(), values, &self.factors);
        }
    }
}

/// The largest power of two up to `rotated`.
fn window(rotated: usize) -> usize {
    1 << rotated.ilog2()
}

/// The first coordinate of the Hadamard matrix of a round.
fn first_of_window(round: usize, rotated: usize) -> usize {
    if round.is_multiple_of(2) { 0 } else { rotated - window(rotated) }
}

simd_fn! {
    /// All rounds on one row, in place.
    fn rounds(simd => SimdLevel, values: &mut [f32], factors: &[f32]) {
        let rotated = values.len();
        let window = window(rotated);
        for (round, factors) in factors.chunks_exact(rotated).enumerate() {
            for (x, factor) in values.iter_mut().zip(factors) {
                *x *= factor;
            }
            transform(&mut values[first_of_window(round, rotated)..][..window], simd);
            if window < rotated {
                let (low, high) = values.split_at_mut(rotated / 2);
                for (a, b) in low.iter_mut().zip(high) {
                    (*a, *b) = ((*a + *b) * FRAC_1_SQRT_2, (*a - *b) * FRAC_1_SQRT_2);
                }
            }
        }
    }
}

/// Values within which the first four steps of the transform stay.
const BLOCK: usize = 16;

/// The unscaled Hadamard transform of `values`, whose length is a power of two of at least [`BLOCK`].
#[inline(always)]
fn transform(values: &mut [f32], simd: SimdLevel) {
    let (blocks, _) = values.as_chunks_mut::<BLOCK>();
    for block in blocks {
        #[cfg(target_arch = "x86_64")]
        if simd >= SimdLevel::Avx2 {
            // SAFETY: `simd_fn` passes a supported SIMD level.
            unsafe { transform_block(block) };
            continue;
        }
        #[cfg(target_arch = "aarch64")]
        if simd >= SimdLevel::Neon {
            // SAFETY: as above.
            unsafe { transform_fours(block) };
            [4, 8].into_iter().for_each(|half| butterflies(block, half));
            continue;
        }
        let _ = simd;
        for half in [1, 2, 4, 8] {
            butterflies(block, half);
        }
    }
    let mut half = BLOCK;
    while half < values.len() {
        butterflies(values, half);
        half *= 2;
    }
}

/// One step of the transform: `(a + b, a - b)` of all values `half` apart.
#[inline(always)]
fn butterflies(values: &mut [f32], half: usize) {
    for pair in values.chunks_exact_mut(2 * half) {
        let (low, high) = pair.split_at_mut(half);
        for (a, b) in low.iter_mut().zip(high) {
            (*a, *b) = (*a + *b, *a - *b);
        }
    }
}

/// The first four steps: three within registers, by shuffles that the compiler does not find, and one between two
/// registers.
///
/// # Safety
/// The CPU has AVX2.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn transform_block(block: &mut [f32; BLOCK]) {
    use std::arch::x86_64::*;
    let within = |x: __m256| {
        // Each step adds the opposite lane; the second lane of a pair is negated first: (b + a, a + -b).
        let negated = |x, lanes: [f32; 8]| {
            // SAFETY: the array has 32 bytes.
            _mm256_xor_ps(x, unsafe { _mm256_loadu_ps(lanes.as_ptr()) })
        };
        let x = _mm256_add_ps(
            _mm256_permute_ps::<0b10_11_00_01>(x),
            negated(x, [0.0, -0.0, 0.0, -0.0, 0.0, -0.0, 0.0, -0.0]),
        );
        let x = _mm256_add_ps(
            _mm256_permute_ps::<0b01_00_11_10>(x),
            negated(x, [0.0, 0.0, -0.0, -0.0, 0.0, 0.0, -0.0, -0.0]),
        );
        _mm256_add_ps(
            _mm256_permute2f128_ps::<1>(x, x),
            negated(x, [0.0, 0.0, 0.0, 0.0, -0.0, -0.0, -0.0, -0.0]),
        )
    };
    let (low, high) = block.split_at_mut(BLOCK / 2);
    // SAFETY: each half has eight floats.
    unsafe {
        let (a, b) = (within(_mm256_loadu_ps(low.as_ptr())), within(_mm256_loadu_ps(high.as_ptr())));
        _mm256_storeu_ps(low.as_mut_ptr(), _mm256_add_ps(a, b));
        _mm256_storeu_ps(high.as_mut_ptr(), _mm256_sub_ps(a, b));
    }
}

/// The first two steps, of four values each: registers of every fourth value need no shuffles.
///
/// # Safety
/// The CPU has NEON.
#[cfg(target_arch = "aarch64")]
#[inline]
#[target_feature(enable = "neon")]
unsafe fn transform_fours(block: &mut [f32; BLOCK]) {
    use std::arch::aarch64::*;
    // SAFETY: a block is four registers.
    let float32x4x4_t(a, b, c, d) = unsafe { vld4q_f32(block.as_ptr()) };
    let (a, b, c, d) = (vaddq_f32(a, b), vsubq_f32(a, b), vaddq_f32(c, d), vsubq_f32(c, d));
    let fours = float32x4x4_t(vaddq_f32(a, c), vaddq_f32(b, d), vsubq_f32(a, c), vsubq_f32(b, d));
    // SAFETY: as above.
    unsafe { vst4q_f32(block.as_mut_ptr(), fours) };
}

#[cfg(test)]
mod tests;
