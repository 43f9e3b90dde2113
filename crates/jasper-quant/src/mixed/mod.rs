//! Mixed codes: principal components, with more bits for components of more variance. A code fills whole memory
//! sectors.
//!
//! ```text
//! train:     c, components = mean and principal components of a sample          (`pca`)
//!            bits  = 8, 4, 2, 1 or 0 per component, minimizing the variance lost (`allocation`)
//!            rotate the components of equal bits among themselves at random      (`train`)
//!            steps = per component, the quantization step with the least error   (`steps`)
//!            b     = three correction coefficients, fitted to held-out queries   (`fit`)
//! encode(v): r = v - c;  z = components of r;  o = |z| / ‖r‖
//!            for each multiple t of the steps to try:                            (`quantize`)
//!                x = step (min(floor(o / (t step)), limit) + 1/2)
//!                keep the x with the largest cosine with z
//!            r̂ = the multiple of x nearest to r
//!            store the levels, add and rescale
//! estimate:  <p, r> ~ (b1 + b3 k) <p, r̂> + b2 ‖r - r̂‖²,  k = ‖r‖² / ‖r̂‖² - 1
//! ```
//!
//! This is transform coding (Brandt 2010 for nearest neighbors; bits by variance as in the VA+-file, Ferhatosmanoglu et
//! al. 2000), with the factors and integer products of RaBitQ. SAQ (Li et al. 2025) is closest: it gives segments of
//! principal components bits of their own, found by dynamic programming, rotates within segments, and adjusts codes
//! coordinate by coordinate. The differences:
//!
//! 1. Segments are whole words, few enough to try every allocation.
//! 2. One of three step multiples is chosen per row, instead of adjusting coordinates.
//! 3. Three correction coefficients account for what the code leaves out (`fit`).
//! 4. A code with its factors fills whole 32-byte sectors, the unit of GPU memory reads.

mod allocation;
mod fit;
mod haar;
mod pca;
mod quantize;
mod steps;
mod train;

use std::sync::Arc;

use jasper_core::Metric;

use crate::factors::{Factors, Units};
use crate::layout::SECTOR_BYTES;
use crate::parameters::{CodeParameters, RotationParameters};
use crate::projection::{PANEL, Projection};
use crate::quantizer::{Codec, Common};
use crate::section::{self, Reader, Writer};
use crate::simd::Buffers;
use crate::space::{Space, dot};
use crate::{DecodeError, Layout, Quantization};
use fit::Correction;
use quantize::{FLOATS_PER_STEP, Steps};

/// Maximum sectors per code.
pub const MAX_SECTORS: u32 = 16;
/// Factors of a row: `add` and `rescale`, one word.
const FACTORS: usize = 2;
/// Words per sector.
const SECTOR_WORDS: usize = SECTOR_BYTES / size_of::<u32>();

/// Parameters of [`Mixed::train`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MixedParams {
    /// The metric whose distances are estimated.
    pub metric: Metric,
    /// Sectors of 32 bytes per code, factors included, 1 to [`MAX_SECTORS`].
    pub sectors: u32,
    /// Seed of the sample and of the rotations.
    pub seed: u64,
}

/// A trained mixed quantizer; see the [module](self).
#[derive(Clone, Debug, PartialEq)]
pub struct Mixed {
    common: Common,
    /// One per coded dimension, at most as many as the vectors have dimensions.
    directions: Projection,
    steps: Steps,
    correction: Correction,
}

/// Components of a code whose words all hold components of one bit.
fn max_components(sectors: u32) -> usize {
    (sectors as usize * SECTOR_WORDS - FACTORS / 2) * 32
}

impl Mixed {
    fn new(space: Space, directions: Projection, steps: Vec<f32>, layout: Layout) -> Self {
        let steps = Steps::new(&layout.bits(), steps);
        let common = Common { space, layout: Arc::new(layout), units: Units::ONE };
        Self { common, directions, steps, correction: Correction::NONE }
    }

    /// Maximum floats of directions and steps: those of a code whose words all hold components of one bit.
    pub(crate) fn max_floats(dimension: usize, sectors: u32) -> usize {
        let coded = max_components(sectors);
        coded.min(dimension).next_multiple_of(PANEL) * dimension + FLOATS_PER_STEP * coded
    }

    /// Maximum components of a vector's code.
    fn max_coded(dimension: usize, sectors: u32) -> usize {
        max_components(sectors).min(dimension.next_multiple_of(32))
    }

    /// The grid point of `levels`, for a residual of length 1.
    fn points(&self, levels: &[u8]) -> impl Iterator<Item = f32> {
        let of = levels.iter().zip(&self.steps.halves).zip(&self.steps.steps);
        of.map(|((level, half), step)| (f32::from(*level) - half + 0.5) * step)
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let space = reader.space()?;
        let sectors = reader.u32_in("sectors", 1..=MAX_SECTORS, "1 to 16")?;
        let max_words = sectors as usize * SECTOR_WORDS - FACTORS / 2;
        let words = [reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?];
        let total: u64 = words.iter().map(|words| u64::from(*words)).sum();
        if total == 0 || total > max_words as u64 {
            let expected = "1 up to the words of the sectors, less one for the factors";
            return Err(DecodeError::Field { field: "words of planes", value: total, expected });
        }
        let plane_words = words.map(|words| words as usize);
        let correction = reader.floats("fit", 4)?;
        let layout = Layout::mixed(plane_words, sectors as usize, FACTORS);
        let steps = reader.floats("steps", layout.dimensions())?;
        if steps.iter().any(|step| *step < 0.0) {
            return Err(DecodeError::Number("steps"));
        }
        let coded = layout.dimensions().min(space.dimension());
        let directions = reader.projection("directions", coded, space.dimension())?;
        let mut mixed = Self::new(space, directions, steps, layout);
        mixed.correction = *bytemuck::from_bytes(bytemuck::cast_slice(&correction));
        mixed.common.units = reader.units()?;
        Ok(mixed)
    }
}

impl Codec for Mixed {
    const KIND: u32 = section::MIXED;

    fn kind(&self) -> Quantization {
        Quantization::Mixed { sectors: (self.common.layout.bytes() / SECTOR_BYTES) as u32 }
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
        let Correction { b1, b2, b3, .. } = self.correction;
        let space = &self.common.space;
        let weight = space.product_weight();
        Factors {
            add: space.row_term(residual, squared_norm) + weight * b2 * reconstruction.squared_error,
            rescale: weight * (b1 + b3 * self.correction.k(&reconstruction)) * reconstruction.scale,
            error: 0.0,
        }
    }

    fn scale_query(&self, rotated: &mut [f32]) {
        rotated.iter_mut().zip(&self.steps.steps).for_each(|(y, step)| *y *= step);
    }

    fn level_bytes(&self) -> usize {
        1
    }

    fn rotation_parameters(&self) -> RotationParameters<'_> {
        RotationParameters::Matrix(self.directions.parameters())
    }

    fn code_parameters(&self) -> CodeParameters {
        let dimensions = self.steps.steps.iter().zip(&self.steps.halves);
        CodeParameters::Mixed { dimensions: dimensions.map(|(step, half)| [*step, *half]).collect() }
    }

    fn write(&self, writer: &mut Writer) {
        let layout = &self.common.layout;
        writer.u32((layout.bytes() / SECTOR_BYTES) as u32);
        layout.words_by_width().into_iter().for_each(|words| writer.u32(words as u32));
        writer.floats(&bytemuck::cast::<_, [f32; 4]>(self.correction));
        writer.floats(&self.steps.steps);
        writer.floats(&self.directions.values());
    }
}
