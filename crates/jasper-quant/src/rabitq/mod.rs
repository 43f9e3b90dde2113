//! RaBitQ: a random rotation, m bits a coordinate, and an estimator without bias.
//!
//! Gao and Long (2024) for one bit, Gao et al. (2024, Extended RaBitQ) for more. A residual r = P(v - c) is coded as
//! the grid point x = u - (2^m - 1) / 2 of best cosine with it, u being the levels of its coordinates. With s = `‖r‖² /
//! <r, x>`, the product `s <x, y>` estimates `<r, y>` for any y, without bias over the rotation; its error has a
//! standard deviation of `‖r‖ ‖y‖ sqrt((1 / cos² - 1) / (D - 1))`.

mod grid;

use std::sync::Arc;

use jasper_core::{Element, MatrixView, Metric};

use crate::factors::{Factors, Units};
use crate::parts::{CodeParts, RotationParts};
use crate::quantizer::{Coder, Common, unit_stride};
use crate::section::{Kind, Reader, Writer};
use crate::space::Space;
use crate::wide::Buffers;
use crate::{DecodeError, Layout, Quantization, Rotation, RotationKind, TrainError, error};
use grid::{Fit, Grid, quantize};

pub use grid::Scales;

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

/// The scales to try at `bits` for `dimension` coordinates that are no padding.
fn scales(bits: u32, dimension: usize) -> Scales {
    GRIDS[bits as usize - 1].map_or(Scales::NONE, |grid| grid.scales(bits, dimension))
}

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
    common: Common,
    rotation: Rotation,
    bits: u32,
    bound_sigmas: f32,
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
        let some = space.residuals(rows, (0..rows.len()).step_by(unit_stride(rows.len())));
        let mut quantizer = Self::of_parts(space, rotation, params.bits, params.bound_sigmas, Units::ONE);
        quantizer.common.units = quantizer.units_of(&some);
        Ok(quantizer)
    }

    fn of_parts(space: Space, rotation: Rotation, bits: u32, bound_sigmas: f32, units: Units) -> Self {
        let layout = Arc::new(Layout::uniform(rotation.rotated_dimension(), bits, HALVES));
        Self { common: Common { space, layout, units }, rotation, bits, bound_sigmas }
    }

    /// The layout of codes of rows of `dimension` coordinates, by the default rotation.
    pub(crate) fn layout_of(dimension: usize, bits: u32) -> Layout {
        Layout::uniform(RotationKind::default().rotated_dimension(dimension), bits, HALVES)
    }

    /// Bits a coordinate.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The rotation.
    pub fn rotation(&self) -> &Rotation {
        &self.rotation
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

impl Coder for Rabitq {
    const KIND: Kind = Kind::Rabitq;

    fn kind(&self) -> Quantization {
        Quantization::Rabitq { bits: self.bits }
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn rotate(&self, residuals: &[f32], out: &mut [f32]) {
        self.rotation.rotate(residuals, out, self.common.layout.dimensions());
    }

    fn quantize(
        &self,
        residual: &[f32],
        rotated: &[f32],
        buffers: &mut Buffers,
        levels: &mut [u8],
    ) -> Factors {
        let dimension = self.rotation.rotated_dimension();
        let scales = scales(self.bits, dimension);
        let Fit { norm, scale, squared_tangent } =
            quantize(rotated, dimension, self.bits, scales, buffers, levels);
        let weight = self.common.space.product_weight();
        let deviation = norm * (squared_tangent / (dimension.max(2) - 1) as f32).sqrt();
        Factors {
            add: self.common.space.row_part(residual, norm * norm),
            rescale: weight * scale,
            error: weight.abs() * self.bound_sigmas * deviation,
        }
    }

    /// Levels are coordinates already.
    fn weigh(&self, _: &mut [f32]) {}

    /// Rounding to one int8 adds 0.2% to the error of 4 bits, 3% to that of 6, and 45% to that of 8.
    fn limbs(&self) -> usize {
        if self.bits <= 5 { 1 } else { 2 }
    }

    fn rotation_parts(&self) -> RotationParts<'_> {
        self.rotation.parts()
    }

    fn code_parts(&self) -> CodeParts {
        let dimension = self.rotation.rotated_dimension();
        CodeParts::Rabitq {
            bits: self.bits,
            dimension,
            bound_sigmas: self.bound_sigmas,
            scales: scales(self.bits, dimension),
        }
    }

    fn write(&self, writer: &mut Writer) {
        writer.u32(self.bits);
        writer.floats(&[self.bound_sigmas]);
        writer.rotation(&self.rotation);
    }
}

#[cfg(test)]
mod tests;
