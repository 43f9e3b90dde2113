//! Levels of one row, at the best of a few steps.

use crate::wide::{LANES, Work, lesser, sum};

/// Multiples of the steps to try: rows are not all of one shape.
const STEPS: [f32; 3] = [0.8, 1.0, 1.25];

/// What is known of each coded dimension, padded with zeros to whole registers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Steps {
    /// Step of the levels, for rows of length 1.
    pub(super) steps: Vec<f32>,
    /// Its inverse, 0 where the step is.
    inverses: Vec<f32>,
    /// Largest level of a magnitude, and a half.
    limits: Vec<f32>,
    /// The lowest level of a positive coordinate.
    pub(super) halves: Vec<u8>,
}

impl Steps {
    /// `bits` and `steps` of each dimension.
    pub(super) fn new(bits: &[u32], steps: &[f32]) -> Self {
        let padded = bits.len().next_multiple_of(LANES);
        let mut out = Self {
            steps: steps.to_vec(),
            inverses: steps.iter().map(|step| if *step > 0.0 { step.recip() } else { 0.0 }).collect(),
            limits: bits.iter().map(|bits| (1_u32 << (bits - 1)) as f32 - 0.5).collect(),
            halves: bits.iter().map(|bits| 1 << (bits - 1)).collect(),
        };
        out.steps.resize(padded, 0.0);
        out.inverses.resize(padded, 0.0);
        out.limits.resize(padded, 0.5);
        out.halves.resize(padded, 1);
        out
    }

    /// Dimensions, with those of padding.
    pub(super) fn padded(&self) -> usize {
        self.steps.len()
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

/// Levels of a projected residual.
pub(super) struct Quantize<'a> {
    /// Coordinates along the directions, zeros behind them; as many as `of` is padded to.
    pub(super) projected: &'a [f32],
    /// `‖r‖²`, over all dimensions.
    pub(super) squared_norm: f32,
    pub(super) of: &'a Steps,
    /// Where levels go, as many as `projected`.
    pub(super) levels: &'a mut [u8],
}

impl Work for Quantize<'_> {
    type Output = Reconstruction;

    #[inline(always)]
    fn run(self) -> Reconstruction {
        let Self { projected, squared_norm, of, levels } = self;
        if squared_norm == 0.0 {
            levels.copy_from_slice(&of.halves);
            return Reconstruction::default();
        }
        let inverse_norm = squared_norm.sqrt().recip();
        let mut best = (0.0, 0.0, 0.0, inverse_norm);
        for step in STEPS {
            let inverse = inverse_norm / step;
            let (product, square) = point_at(projected, inverse, of);
            let cosine = if square > 0.0 { product / square.sqrt() } else { 0.0 };
            if cosine > best.0 {
                best = (cosine, product, square, inverse);
            }
        }
        let (_, product, square, inverse) = best;
        write_levels(projected, inverse, of, levels);
        if square == 0.0 {
            return Reconstruction { scale: 0.0, coded: 0.0, missed: squared_norm };
        }
        let scale = product / square;
        let coded = product * scale;
        Reconstruction { scale, coded, missed: (squared_norm - coded).max(0.0) }
    }
}

/// The product of a row with the point of its levels, and the point's square.
#[inline(always)]
fn point_at(projected: &[f32], inverse: f32, of: &Steps) -> (f32, f32) {
    let (rows, _) = projected.as_chunks::<LANES>();
    let (steps, inverses, limits) = (lanes(&of.steps), lanes(&of.inverses), lanes(&of.limits));
    let mut products = [0.0; LANES];
    let mut squares = [0.0; LANES];
    for (((row, steps), inverses), limits) in rows.iter().zip(steps).zip(inverses).zip(limits) {
        for i in 0..LANES {
            let magnitude = row[i].abs();
            let level = lesser(magnitude * inverses[i] * inverse, limits[i]).floor();
            let point = (level + 0.5) * steps[i];
            products[i] += magnitude * point;
            squares[i] += point * point;
        }
    }
    (sum(products), sum(squares))
}

#[inline(always)]
fn write_levels(projected: &[f32], inverse: f32, of: &Steps, levels: &mut [u8]) {
    let (rows, _) = projected.as_chunks::<LANES>();
    let (inverses, limits, (halves, _)) =
        (lanes(&of.inverses), lanes(&of.limits), of.halves.as_chunks::<LANES>());
    let (levels, _) = levels.as_chunks_mut::<LANES>();
    for ((((levels, row), inverses), limits), halves) in
        levels.iter_mut().zip(rows).zip(inverses).zip(limits).zip(halves)
    {
        for i in 0..LANES {
            let level = lesser(row[i].abs() * inverses[i] * inverse, limits[i]).floor() as u8;
            levels[i] = if row[i] >= 0.0 { halves[i] + level } else { halves[i] - 1 - level };
        }
    }
}

#[inline(always)]
fn lanes(values: &[f32]) -> &[[f32; LANES]] {
    values.as_chunks::<LANES>().0
}
