//! Levels of one row, at the best of a few steps.

use jasper_core::distance::Level;

use crate::parts::MixedDimension;
use crate::space::{Products, dot};
use crate::wide::{Buffers, Magnitudes, Work, byte, lesser, widest};

/// Multiples of the steps to try: rows are not all of one shape.
pub(super) const STEPS: [f32; 3] = [0.8, 1.0, 1.25];

/// Numbers that [`Steps`] has of a dimension.
pub(super) const FLOATS_A_STEP: usize = 4;

/// What is known of each coded dimension.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Steps {
    /// Step of the levels, for rows of length 1.
    pub(super) steps: Vec<f32>,
    /// Its inverse, 0 where the step is.
    inverses: Vec<f32>,
    /// Largest level of a magnitude, and a half.
    limits: Vec<f32>,
    /// The lowest level of a positive coordinate.
    pub(super) halves: Vec<f32>,
}

impl Steps {
    /// `bits` and `steps` of each dimension.
    pub(super) fn new(bits: &[u32], steps: Vec<f32>) -> Self {
        Self {
            inverses: steps.iter().map(|step| if *step > 0.0 { step.recip() } else { 0.0 }).collect(),
            limits: bits.iter().map(|bits| (1_u32 << (bits - 1)) as f32 - 0.5).collect(),
            halves: bits.iter().map(|bits| (1_u32 << (bits - 1)) as f32).collect(),
            steps,
        }
    }

    /// What each dimension has, as data.
    pub(super) fn parts(&self) -> Vec<MixedDimension> {
        let of = self.steps.iter().zip(&self.inverses).zip(self.limits.iter().zip(&self.halves));
        of.map(|((&step, &inverse), (&limit, &half))| MixedDimension { step, inverse, limit, half }).collect()
    }
}

/// The part of a row that its code holds: r̂ = `scale` times the point of its levels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reconstruction {
    pub(super) scale: f32,
    /// `‖r̂‖²`.
    pub(super) coded: f32,
    /// `‖r - r̂‖²`, over all dimensions.
    pub(super) missed: f32,
}

/// Finds the levels of a row from its coordinates along the directions (zeros behind them) and `‖r‖²` over all
/// dimensions; writes as many as there are coordinates.
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
    let [magnitudes, points] = buffers.of(projected.len());
    // As if the row had length 1, which is what steps are for.
    let norm = squared_norm.sqrt();
    widest(Magnitudes { values: projected, factor: norm.recip(), out: magnitudes });
    let (mut best_step, mut best) = (STEPS[1], Products::NOTHING);
    for step in STEPS {
        widest(Points { magnitudes, inverse: step.recip(), of, out: points });
        let found = Products { product: dot(magnitudes, points), square: dot(points, points) };
        if found.is_nearer(best) {
            (best_step, best) = (step, found);
        }
    }
    let multiple = best.product / best.square;
    let (scale, coded) = (multiple * norm, multiple * best.product * squared_norm);
    widest(Levels { projected, magnitudes, inverse: best_step.recip(), of, out: levels });
    Reconstruction { scale, coded, missed: (squared_norm - coded).max(0.0) }
}

/// The points of the levels of magnitudes.
struct Points<'a> {
    magnitudes: &'a [f32],
    inverse: f32,
    of: &'a Steps,
    out: &'a mut [f32],
}

impl Work for Points<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, _: Level) {
        let Steps { steps, inverses, limits, .. } = self.of;
        let of = steps.iter().zip(inverses).zip(limits);
        for ((out, magnitude), ((step, inverse), limit)) in self.out.iter_mut().zip(self.magnitudes).zip(of) {
            let level = lesser(magnitude * inverse * self.inverse, *limit).floor();
            *out = (level + 0.5) * step;
        }
    }
}

/// The levels of magnitudes, with the signs of a row.
struct Levels<'a> {
    projected: &'a [f32],
    magnitudes: &'a [f32],
    inverse: f32,
    of: &'a Steps,
    out: &'a mut [u8],
}

impl Work for Levels<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self, _: Level) {
        let Steps { inverses, limits, halves, .. } = self.of;
        let row = self.projected.iter().zip(self.magnitudes);
        let of = inverses.iter().zip(limits).zip(halves);
        for ((out, (x, magnitude)), ((inverse, limit), half)) in self.out.iter_mut().zip(row).zip(of) {
            let point = lesser(magnitude * inverse * self.inverse, *limit).floor() + 0.5;
            let signed = if *x >= 0.0 { point } else { -point };
            *out = byte(half + signed - 0.5);
        }
    }
}
