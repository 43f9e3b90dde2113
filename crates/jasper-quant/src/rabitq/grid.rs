//! The search for the grid point of a row, over scales.
//!
//! ```text
//! o    = |r| / ‖r‖                              magnitudes of the rotated residual
//! K    = 2^(m - 1) - 1                          largest level of a magnitude
//! for each scale t to try:
//!     x = min(floor(t o), K) + 1/2              the grid point at this scale
//!     keep the t with the largest cosine <o, x> / ‖x‖
//! levels = 2^(m - 1) + (x with the signs of r) - 1/2
//! ```
//!
//! The cosine changes wherever some `t o` crosses an integer. Extended RaBitQ visits all crossings in order, K D log D
//! steps, and finds the best t. Here a few scales are tried, each in one vectorized pass over D coordinates:
//!
//! - with few bits, around the mean of the best scales, which hardly varies from row to row;
//! - with many bits, around the largest scale that clips nothing, since the best scale then follows the largest
//!   coordinate of the row.

use jasper_core::distance::SimdLevel;

use crate::simd::{self, Buffers, min, simd_fn, to_u8};
use crate::space::{Alignment, dot};

/// The scales to try at 2 to 8 bits: the mean of the best scales of random rows over sqrt(D), or 0 for the largest
/// scale that clips nothing; the smallest and the largest multiple of it; and their number. The finer the code, the
/// more the cosine varies from scale to scale, and the more scales are needed to come within 2% of the best.
const GRIDS: [(f32, f32, f32, u32); 7] = [
    (1.00, 0.75, 1.3, 8),
    (1.70, 0.75, 1.3, 8),
    (2.98, 0.75, 1.3, 8),
    (0.0, 0.9, 1.2, 12),
    (0.0, 0.9, 1.15, 16),
    (0.0, 0.9, 1.15, 24),
    (0.0, 0.9, 1.1, 48),
];

/// The scales to try for a row: evenly spaced multiples of a base, which is common to all rows or depends on the row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Scales {
    /// The common base; 0 if the base depends on the row.
    base: f32,
    /// The base of a row is this over its largest magnitude; 0 if there is a common base.
    over_peak: f32,
    /// Smallest multiple.
    low: f32,
    /// Step between multiples.
    step: f32,
    /// Number of multiples; 0 for codes of one bit.
    count: u32,
}

impl Scales {
    /// The scales for codes of `bits` bits of `dimension` coordinates without padding. One bit, the sign, needs none.
    pub(super) fn new(bits: u32, dimension: usize) -> Self {
        let Some(i) = bits.checked_sub(2) else { return Self::default() };
        let (mean, low, high, count) = GRIDS[i as usize];
        Self {
            base: mean * (dimension as f32).sqrt(),
            over_peak: if mean > 0.0 { 0.0 } else { largest_level(bits) + 0.999 },
            low,
            step: (high - low) / (count - 1) as f32,
            count,
        }
    }

    /// The scales for these magnitudes.
    fn values(self, magnitudes: &[f32]) -> impl Iterator<Item = f32> {
        let base = if self.over_peak > 0.0 {
            // Non-negative floats are ordered as their bits.
            let peak = magnitudes.iter().map(|o| o.to_bits()).max().unwrap_or(0);
            self.over_peak / f32::from_bits(peak)
        } else {
            self.base
        };
        (0..self.count).map(move |i| base * (self.low + self.step * i as f32))
    }
}

/// K, the largest level of a magnitude at `bits`.
pub(super) fn largest_level(bits: u32) -> f32 {
    ((1_u32 << (bits - 1)) - 1) as f32
}

/// The relation of a residual r to its grid point x.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Fit {
    /// `‖r‖`.
    pub(super) norm: f32,
    /// `‖r‖² / <r, x>`: turns products with x into estimates of products with r.
    pub(super) scale: f32,
    /// Squared tangent of the angle between r and x, `1 / cos² - 1`.
    pub(super) squared_tangent: f32,
}

/// Finds the grid point of a rotated residual over `scales`, and writes its levels. Coordinates from `dimension` on are
/// padding and must be zero.
pub(super) fn quantize(
    rotated: &[f32],
    dimension: usize,
    bits: u32,
    scales: Scales,
    buffers: &mut Buffers,
    levels: &mut [u8],
) -> Fit {
    let half = 1_u8 << (bits - 1);
    let norm = dot(rotated, rotated).sqrt();
    if norm == 0.0 {
        levels.fill(half);
        return Fit::default();
    }
    let (simd, [magnitudes, points]) = (SimdLevel::detect(), buffers.resized(rotated.len()));
    simd::magnitudes(simd, rotated, norm.recip(), magnitudes);

    let largest = largest_level(bits);
    // Padding is at level 0, the point 1/2, at every scale. Excluded from the norm of the grid point.
    let padding = 0.25 * (rotated.len() - dimension) as f32;
    let (mut scale, mut best) = (0.0, Alignment::WORST);
    for tried in scales.values(magnitudes) {
        grid_point(simd, magnitudes, tried, largest, points);
        let found = Alignment { product: dot(magnitudes, points), square: dot(points, points) - padding };
        if found.has_larger_cosine(best) {
            (scale, best) = (tried, found);
        }
    }
    grid_point(simd, magnitudes, scale, largest, points);
    signed_levels(simd, rotated, points, f32::from(half), levels);
    let (product, square) = (dot(magnitudes, points), dot(points, points) - padding);
    // The tangent, from the component of o orthogonal to x. 1 / cos² - 1 would cancel all digits of fine codes.
    let along = product / square;
    orthogonal(simd, magnitudes, along, points);
    let squared_error = dot(points, points) - padding * along * along;
    Fit { norm, scale: norm / product, squared_tangent: (squared_error / (product * along)).max(0.0) }
}

simd_fn! {
    /// The grid point of magnitudes at a scale: `out = min(floor(scale o), K) + 1/2`.
    fn grid_point(_ => SimdLevel, magnitudes: &[f32], scale: f32, largest: f32, out: &mut [f32]) {
        let limit = largest + 0.5;
        for (out, magnitude) in out.iter_mut().zip(magnitudes) {
            *out = min(scale * magnitude, limit).floor() + 0.5;
        }
    }
}

simd_fn! {
    /// The levels of a grid point with the signs of a row; `half` is the lowest level of a positive coordinate.
    fn signed_levels(_ => SimdLevel, rotated: &[f32], points: &[f32], half: f32, out: &mut [u8]) {
        for ((out, x), point) in out.iter_mut().zip(rotated).zip(points) {
            let signed = if *x >= 0.0 { *point } else { -*point };
            *out = to_u8(half + signed - 0.5);
        }
    }
}

simd_fn! {
    /// The orthogonal component: `points = magnitudes - along * points`.
    fn orthogonal(_ => SimdLevel, magnitudes: &[f32], along: f32, points: &mut [f32]) {
        for (point, magnitude) in points.iter_mut().zip(magnitudes) {
            *point = magnitude - along * *point;
        }
    }
}
