//! RaBitQ: a random rotation, m bits a coordinate, and an estimator without bias.
//!
//! Gao and Long (2024) for one bit, Gao et al. (2024, Extended RaBitQ) for more. A residual r = P(v - c) is coded as
//! the grid point x = u - (2^m - 1) / 2 of best cosine with it, u being the levels of its coordinates. With s = `‖r‖² /
//! <r, x>`, the product `s <x, y>` estimates `<r, y>` for any y, without bias over the rotation; its error has a
//! standard deviation of `‖r‖ ‖y‖ sqrt((1 / cos² - 1) / (D - 1))`.

mod grid;

use std::sync::Arc;

use jasper_core::{Element, MatrixView, Metric};

use crate::factors::{Factors, UNIT_ROWS, Units};
use crate::quantizer::{Quantizer, Scratch};
use crate::query::QueryParts;
use crate::section::{Kind, Reader, Writer};
use crate::space::{Space, dot, widen};
use crate::{Code, DecodeError, Layout, QueryCode, Rotation, RotationKind, TrainError, error};
use grid::{Fit, Grid, quantize};

/// Standard deviations of the error bound by default: the value of the RaBitQ papers, 94% of errors lie within.
pub const BOUND_SIGMAS: f32 = 1.9;
/// Factors of a row: `add`, `rescale`, `error`, `add_low`. Rows end on 16 bytes anyway.
const HALVES: usize = 4;

/// The scales to try at 1 to 8 bits; the sign alone needs none. The finer the code, the more the cosine jumps from
/// scale to scale, and the more must be tried to come within 2% of the error at the best of all.
const GRIDS: [Option<Grid>; 8] = [
    None,
    Some(Grid::mean(1.00, (0.75, 1.3), 8)),
    Some(Grid::mean(1.70, (0.75, 1.3), 8)),
    Some(Grid::mean(2.98, (0.75, 1.3), 8)),
    Some(Grid::unclipped((0.9, 1.2), 12)),
    Some(Grid::unclipped((0.9, 1.15), 16)),
    Some(Grid::unclipped((0.9, 1.15), 24)),
    Some(Grid::unclipped((0.9, 1.1), 48)),
];

/// How to train a [`Rabitq`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RabitqParams {
    /// The metric whose distances are estimated.
    pub metric: Metric,
    /// Bits a coordinate, 1 to 8. Each halves the error.
    pub bits: u32,
    /// Which random rotation.
    pub rotation: RotationKind,
    /// Seed of the rotation.
    pub seed: u64,
    /// Standard deviations that the error bound spans: [`BOUND_SIGMAS`].
    pub bound_sigmas: f32,
}

impl RabitqParams {
    /// Codes of `bits` bits a coordinate, and defaults for the rest.
    pub fn new(metric: Metric, bits: u32) -> Self {
        Self { metric, bits, rotation: RotationKind::default(), seed: 0, bound_sigmas: BOUND_SIGMAS }
    }
}

/// A trained RaBitQ quantizer; see the [module](self).
#[derive(Clone, Debug, PartialEq)]
pub struct Rabitq {
    space: Space,
    rotation: Rotation,
    bits: u32,
    bound_sigmas: f32,
    layout: Arc<Layout>,
    units: Units,
}

impl Rabitq {
    /// Learns the centre and the units of factors from `rows`: all rows of the index, or a sample.
    ///
    /// # Errors
    /// [`TrainError`] on no rows, bits or a bound out of range, and values that are not finite.
    pub fn train<T: Element>(rows: MatrixView<'_, T>, params: &RabitqParams) -> Result<Self, TrainError> {
        error::check_dimension(rows.dimension())?;
        if rows.is_empty() {
            return Err(TrainError::TooFewRows { rows: 0, least: 1 });
        }
        if !(1..=8).contains(&params.bits) {
            return Err(TrainError::Bits(params.bits));
        }
        if !(params.bound_sigmas > 0.0 && params.bound_sigmas.is_finite()) {
            return Err(TrainError::BoundSigmas(params.bound_sigmas));
        }
        rows.check_finite()?;
        let space = Space::centred(params.metric, rows);
        let rotation = Rotation::new(params.rotation, rows.dimension(), params.seed);
        let mut quantizer = Self::of_parts(space, rotation, params.bits, params.bound_sigmas, Units::ONE);
        quantizer.units = quantizer.units_of(rows);
        Ok(quantizer)
    }

    fn of_parts(space: Space, rotation: Rotation, bits: u32, bound_sigmas: f32, units: Units) -> Self {
        let layout = Arc::new(Layout::uniform(rotation.rotated_dimension(), bits, HALVES));
        Self { space, rotation, bits, bound_sigmas, layout, units }
    }

    /// Bits a coordinate.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The rotation.
    pub fn rotation(&self) -> &Rotation {
        &self.rotation
    }

    /// Units for the factors of some of `rows`.
    fn units_of<T: Element>(&self, rows: MatrixView<'_, T>) -> Units {
        let stride = rows.len().div_ceil(UNIT_ROWS);
        let mut scratch = Scratch::default();
        let mut residual = vec![0.0; rows.dimension()];
        let sample: Vec<Factors> = (0..rows.len())
            .step_by(stride)
            .map(|i| {
                widen(rows.row(i), &mut residual);
                self.space.to_residual(&mut residual);
                self.rotate(&residual, &mut scratch);
                self.quantize(&residual, 0, &mut scratch)
            })
            .collect();
        Units::of(&sample)
    }

    /// Rotates residuals into the scratch.
    fn rotate(&self, residuals: &[f32], scratch: &mut Scratch) {
        let (rows, stride) = (residuals.len() / self.dimension(), self.layout.dimensions());
        scratch.rotated.resize(rows * stride, 0.0);
        self.rotation.rotate(residuals, &mut scratch.rotated, stride);
    }

    /// Leaves the levels of row `index` of what was rotated in the scratch; returns its factors.
    fn quantize(&self, residual: &[f32], index: usize, scratch: &mut Scratch) -> Factors {
        let stride = self.layout.dimensions();
        scratch.levels.resize(stride, 0);
        let rotated = &scratch.rotated[index * stride..][..stride];
        let dimension = self.rotation.rotated_dimension();
        let grid = GRIDS[self.bits as usize - 1];
        let Fit { norm, scale, squared_tangent } =
            quantize(rotated, dimension, self.bits, grid, &mut scratch.buffers, &mut scratch.levels);
        let weight = self.space.product_weight();
        let deviation = norm * (squared_tangent / (dimension.max(2) - 1) as f32).sqrt();
        Factors {
            add: self.space.row_part(residual, norm * norm),
            rescale: weight * scale,
            error: weight.abs() * self.bound_sigmas * deviation,
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let space = reader.space()?;
        let bits = reader.u32()?;
        if !(1..=8).contains(&bits) {
            return Err(DecodeError::Field { field: "bits", value: bits.into(), expected: "1 to 8" });
        }
        let bound_sigmas = reader.positive("bound_sigmas")?;
        let rotation = reader.rotation(space.dimension())?;
        let units = reader.units()?;
        Ok(Self::of_parts(space, rotation, bits, bound_sigmas, units))
    }
}

impl Quantizer for Rabitq {
    fn code(&self) -> Code {
        Code::Rabitq { bits: self.bits }
    }

    fn metric(&self) -> Metric {
        self.space.metric
    }

    fn dimension(&self) -> usize {
        self.space.dimension()
    }

    fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    fn encode(&self, rows: &mut [f32], scratch: &mut Scratch, out: &mut [u32]) {
        let (dimension, words) = (self.dimension(), self.layout.words());
        assert_eq!(rows.len() / dimension * words, out.len());
        rows.chunks_exact_mut(dimension).for_each(|row| self.space.to_residual(row));
        self.rotate(rows, scratch);
        for (i, out) in out.chunks_exact_mut(words).enumerate() {
            let factors = self.quantize(&rows[i * dimension..][..dimension], i, scratch);
            out.fill(0);
            self.layout.pack(&scratch.levels, out);
            self.units.store(factors, &self.layout, out);
        }
    }

    fn queries(&self, queries: &mut [f32]) -> Vec<QueryCode> {
        assert!(queries.len().is_multiple_of(self.dimension()));
        queries.chunks_exact_mut(self.dimension()).for_each(|query| self.space.to_residual(query));
        let mut scratch = Scratch::default();
        self.rotate(queries, &mut scratch);
        let code = |(residual, rotated): (&[f32], &[f32])| {
            let squared_norm = dot(residual, residual);
            let parts = QueryParts {
                add: self.space.query_part(residual, squared_norm),
                norm: squared_norm.sqrt(),
                // Rounding to one int8 adds 0.2% to the error of 4 bits, 3% to that of 6, and 45% to that of 8.
                limbs: if self.bits <= 5 { 1 } else { 2 },
            };
            QueryCode::new(&self.layout, &self.units, rotated, &parts)
        };
        let rotated = scratch.rotated.chunks_exact(self.layout.dimensions());
        queries.chunks_exact(self.dimension()).zip(rotated).map(code).collect()
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new(Kind::Rabitq);
        writer.space(&self.space);
        writer.u32(self.bits);
        writer.floats(&[self.bound_sigmas]);
        writer.rotation(&self.rotation);
        writer.units(&self.units);
        writer.finish()
    }
}

#[cfg(test)]
mod tests;
