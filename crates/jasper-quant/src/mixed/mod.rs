//! Mixed codes: principal components, with more bits on those of more variance, in whole sectors of memory.
//!
//! A row's residual is rotated to the principal components of the data; the leading ones get 8 bits, the next 4, 2 and
//! 1, the others none, as many of each as leave the least error in the bytes there are. Those of equal bits are
//! rotated among themselves at random, which shortens tails. Steps follow the length of the residual and the data. One
//! number, the multiple of the code nearest to the residual, scales it back.
//!
//! Transform coding, in short (Brandt 2010 for nearest neighbours; bits by variance already in the VA+-file,
//! Ferhatosmanoglu et al. 2000), with the factors and the integer products of RaBitQ. SAQ (Li et al. 2025) is kin, and
//! the rotation among equal bits is its own: segments of principal components, each with its own bits, found by dynamic
//! programming, rotated within, and its codes adjusted coordinate by coordinate. Here segments are whole words, so that
//! all ways can be tried, and of three scales the best is taken; new are a fit of three numbers for what is left out,
//! and that a code fills sectors.

mod allocation;
mod fit;
mod pca;
mod quantize;
mod steps;
mod train;

use std::sync::Arc;

use jasper_core::Metric;

use crate::factors::{Factors, Units};
use crate::layout::SECTOR_BYTES;
use crate::parts::{CodeParts, RotationParts};
use crate::projection::{PANEL, Projection};
use crate::quantizer::{Coder, Common};
use crate::section::{Kind, Reader, Writer};
use crate::space::{Space, dot};
use crate::wide::Buffers;
use crate::{DecodeError, Layout, Quantization};
use allocation::WIDTHS;
use fit::Fitted;
use quantize::{FLOATS_A_STEP, Steps};

/// Most sectors of a code.
pub const MAX_SECTORS: u32 = 16;
/// Factors of a row: `add` and `rescale`, one word.
const HALVES: usize = 2;
/// Words of a sector.
const SECTOR_WORDS: usize = SECTOR_BYTES / size_of::<u32>();

/// How to train a [`Mixed`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MixedParams {
    /// The metric whose distances are estimated.
    pub metric: Metric,
    /// Sectors of 32 bytes that a code and its factors fill, 1 to [`MAX_SECTORS`].
    pub sectors: u32,
    /// Seed of the sample.
    pub seed: u64,
}

/// A trained mixed quantizer; see the [module](self).
#[derive(Clone, Debug, PartialEq)]
pub struct Mixed {
    common: Common,
    /// Of the coded dimensions, as far as the rows have so many.
    directions: Projection,
    steps: Steps,
    sectors: u32,
    plane_words: [usize; 4],
    fitted: Fitted,
}

impl Mixed {
    fn of_parts(
        space: Space,
        directions: Projection,
        steps: Vec<f32>,
        sectors: u32,
        plane_words: [usize; 4],
    ) -> Self {
        let layout = Layout::mixed(plane_words, sectors as usize, HALVES);
        let bits: Vec<u32> = (0..layout.dimensions()).map(|i| layout.bits_of(i)).collect();
        let steps = Steps::new(&bits, steps);
        let common = Common { space, layout: Arc::new(layout), units: Units::ONE };
        Self { common, directions, steps, sectors, plane_words, fitted: Fitted::NONE }
    }

    /// Sectors of 32 bytes that a code and its factors fill.
    pub fn sectors(&self) -> u32 {
        self.sectors
    }

    /// Dimensions that got 8, 4, 2 and 1 bits.
    pub fn coded_dimensions(&self) -> [usize; 4] {
        [0, 1, 2, 3].map(|i| self.plane_words[i] * (32 / WIDTHS[i].bits as usize))
    }

    /// Floats of directions and steps, where all of the words of so many sectors go to components of one bit.
    pub(crate) fn most_floats(dimension: usize, sectors: u32) -> usize {
        let coded = (sectors as usize * SECTOR_WORDS - HALVES / 2) * 32;
        coded.min(dimension).next_multiple_of(PANEL) * dimension + FLOATS_A_STEP * coded
    }

    /// Coordinates of the point that levels stand for, for a row of length 1.
    fn points(&self, levels: &[u8]) -> impl Iterator<Item = f32> {
        let of = levels.iter().zip(&self.steps.halves).zip(&self.steps.steps);
        of.map(|((level, half), step)| (f32::from(*level) - half + 0.5) * step)
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let space = reader.space()?;
        let sectors = reader.u32()?;
        if !(1..=MAX_SECTORS).contains(&sectors) {
            let expected = "1 to 16";
            return Err(DecodeError::Field { field: "sectors", value: sectors.into(), expected });
        }
        let room = sectors as usize * SECTOR_WORDS - HALVES / 2;
        let words = [reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?];
        let total: u64 = words.iter().map(|words| u64::from(*words)).sum();
        if total == 0 || total > room as u64 {
            let expected = "at least one word, and no more than the sectors hold beside the factors";
            return Err(DecodeError::Field { field: "words of planes", value: total, expected });
        }
        let plane_words = words.map(|words| words as usize);
        let fitted = reader.floats("fit", 4)?;
        let layout = Layout::mixed(plane_words, sectors as usize, HALVES);
        let steps = reader.floats("steps", layout.dimensions())?;
        if steps.iter().any(|step| *step < 0.0) {
            return Err(DecodeError::Number("steps"));
        }
        let coded = layout.dimensions().min(space.dimension());
        let directions = reader.projection("directions", coded, space.dimension())?;
        let mut mixed = Self::of_parts(space, directions, steps, sectors, plane_words);
        mixed.fitted = Fitted { b1: fitted[0], b2: fitted[1], b3: fitted[2], largest_k: fitted[3] };
        mixed.common.units = reader.units()?;
        Ok(mixed)
    }
}

impl Coder for Mixed {
    const KIND: Kind = Kind::Mixed;

    fn kind(&self) -> Quantization {
        Quantization::Mixed { sectors: self.sectors }
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn rotate(&self, residuals: &[f32], out: &mut [f32]) {
        self.directions.project(residuals, out, self.common.layout.dimensions());
    }

    fn quantize(
        &self,
        residual: &[f32],
        rotated: &[f32],
        buffers: &mut Buffers,
        levels: &mut [u8],
    ) -> Factors {
        let squared_norm = dot(residual, residual);
        let reconstruction = quantize::quantize(rotated, squared_norm, &self.steps, buffers, levels);
        let Fitted { b1, b2, b3, .. } = self.fitted;
        let space = &self.common.space;
        let weight = space.product_weight();
        Factors {
            add: space.row_part(residual, squared_norm) + weight * b2 * reconstruction.missed,
            rescale: weight * (b1 + b3 * self.fitted.k(&reconstruction)) * reconstruction.scale,
            error: 0.0,
        }
    }

    fn weigh(&self, rotated: &mut [f32]) {
        rotated.iter_mut().zip(&self.steps.steps).for_each(|(y, step)| *y *= step);
    }

    fn limbs(&self) -> usize {
        1
    }

    fn rotation_parts(&self) -> RotationParts<'_> {
        RotationParts::Matrix(self.directions.parts())
    }

    fn code_parts(&self) -> CodeParts {
        let Fitted { b1, b2, b3, largest_k } = self.fitted;
        CodeParts::Mixed {
            dimensions: self.steps.parts(),
            trials: quantize::STEPS.map(f32::recip),
            fit: [b1, b2, b3, largest_k],
        }
    }

    fn write(&self, writer: &mut Writer) {
        writer.u32(self.sectors);
        self.plane_words.iter().for_each(|words| writer.u32(*words as u32));
        let Fitted { b1, b2, b3, largest_k } = self.fitted;
        writer.floats(&[b1, b2, b3, largest_k]);
        writer.floats(&self.steps.steps);
        writer.floats(&self.directions.values());
    }
}
