//! The quantization of one row, at the best of a few multiples of the steps.

use jasper_core::distance::SimdLevel;

use crate::simd::{self, Buffers, min, simd_fn, to_u8};
use crate::space::{Alignment, dot};

/// Multiples of the steps to try per row.
const STEPS: [f32; 3] = [0.8, 1.0, 1.25];

/// Floats per dimension in [`Steps`].
pub(super) const FLOATS_PER_STEP: usize = 4;

/// The scalar quantizers of the coded dimensions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Steps {
    /// Step between levels, for residuals of length 1.
    pub(super) steps: Vec<f32>,
    /// Inverse of the step; 0 if the step is 0.
    inverses: Vec<f32>,
    /// Maximum level of a magnitude, plus a half.
    limits: Vec<f32>,
    /// Lowest level of a positive coordinate.
    pub(super) halves: Vec<f32>,
}

impl Steps {
    /// Creates them from the bits and step of each dimension.
    pub(super) fn new(bits: &[u32], steps: Vec<f32>) -> Self {
        Self {
            inverses: steps.iter().map(|step| if *step > 0.0 { step.recip() } else { 0.0 }).collect(),
            limits: bits.iter().map(|bits| (1_u32 << (bits - 1)) as f32 - 0.5).collect(),
            halves: bits.iter().map(|bits| (1_u32 << (bits - 1)) as f32).collect(),
            steps,
        }
    }
}

/// A decoded residual r̂, `scale` times the grid point of its levels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reconstruction {
    pub(super) scale: f32,
    /// `‖r̂‖²`.
    pub(super) squared_norm: f32,
    /// `‖r - r̂‖²`, over all dimensions.
    pub(super) squared_error: f32,
}

/// Quantizes a residual, given its projection (zero-padded) and its squared norm over all dimensions. Writes one level
/// per coordinate of the projection.
pub(super) fn quantize(
    projected: &[f32],
    squared_norm: f32,
    of: &Steps,
    buffers: &mut Buffers,
    levels: &mut [u8],
) -> Reconstruction {
    if squared_norm == 0.0 {
        levels.iter_mut().zip(&of.halves).for_each(|(level, half)| *level = *half as u8);
        return Reconstruction::default();
    }
    let (simd, [magnitudes, points]) = (SimdLevel::detect(), buffers.resized(projected.len()));
    // Normalized, because steps are for residuals of length 1.
    let norm = squared_norm.sqrt();
    simd::magnitudes(simd, projected, norm.recip(), magnitudes);
    let (mut best_step, mut best) = (STEPS[1], Alignment::WORST);
    for step in STEPS {
        grid_point(simd, magnitudes, step.recip(), of, points);
        let found = Alignment { product: dot(magnitudes, points), square: dot(points, points) };
        if found.has_larger_cosine(best) {
            (best_step, best) = (step, found);
        }
    }
    let multiple = best.product / best.square;
    let (scale, coded) = (multiple * norm, multiple * best.product * squared_norm);
    signed_levels(simd, projected, magnitudes, best_step.recip(), of, levels);
    Reconstruction { scale, squared_norm: coded, squared_error: (squared_norm - coded).max(0.0) }
}

simd_fn! {
    /// The grid point of magnitudes at a multiple of the steps, given its `inverse`.
    fn grid_point(_ => SimdLevel, magnitudes: &[f32], inverse: f32, of: &Steps, out: &mut [f32]) {
        let of = of.steps.iter().zip(&of.inverses).zip(&of.limits);
        for ((out, magnitude), ((step, step_inverse), limit)) in out.iter_mut().zip(magnitudes).zip(of) {
            let level = min(magnitude * step_inverse * inverse, *limit).floor();
            *out = (level + 0.5) * step;
        }
    }
}

simd_fn! {
    /// The levels of magnitudes at a multiple of the steps, with the signs of the row.
    fn signed_levels(
        _ => SimdLevel,
        projected: &[f32],
        magnitudes: &[f32],
        inverse: f32,
        of: &Steps,
        out: &mut [u8],
    ) {
        let row = projected.iter().zip(magnitudes);
        let of = of.inverses.iter().zip(&of.limits).zip(&of.halves);
        for ((out, (x, magnitude)), ((step_inverse, limit), half)) in out.iter_mut().zip(row).zip(of) {
            let point = min(magnitude * step_inverse * inverse, *limit).floor() + 0.5;
            let signed = if *x >= 0.0 { point } else { -point };
            *out = to_u8(half + signed - 0.5);
        }
    }
}
