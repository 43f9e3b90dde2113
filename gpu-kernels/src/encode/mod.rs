//! Codes of rows, and of queries, from rotated residuals: as on the CPU, to the bit.
//!
//! `jasper_quant` has the definition. A warp has a row and a lane every 32nd coordinate of it; sums are those of
//! `sums`, and each scale of the search is a pass over the row, of which several are made at once. The
//! levels then go to shared memory, where four neighbouring ones are a word of which each plane takes its bits.
//!
//! | module | holds |
//! | --- | --- |
//! | `row` | a row on the grid: products at some scales, levels, and what is missed |
//! | `rabitq` | the kernel for equal bits |
//! | `mixed` | the kernel for bits by variance |
//! | `pack` | planes of levels, and factors behind them |
//! | `query` | the kernel for queries |
//! | `plan` | [`EncodeRabitq`], [`EncodeMixed`] and [`CodeQueries`]: their grids |
//! | `quantizer` | [`DeviceQuantizer`]: a quantizer in device memory, and the launches that make codes |

#[cfg(feature = "kernels")]
mod mixed;
#[cfg(feature = "kernels")]
mod pack;
#[cfg(not(target_arch = "nvptx64"))]
mod plan;
#[cfg(not(target_arch = "nvptx64"))]
mod quantizer;
#[cfg(feature = "kernels")]
mod query;
#[cfg(feature = "kernels")]
mod rabitq;
#[cfg(feature = "kernels")]
mod row;

#[cfg(not(target_arch = "nvptx64"))]
pub use plan::{CodeQueries, EncodeMixed, EncodeRabitq};
#[cfg(not(target_arch = "nvptx64"))]
pub use quantizer::{Chosen, DeviceQuantizer, QueryCodes};

use crate::codes::{CodeShape, QueryTerms};
use crate::residuals::ChosenRows;
use crate::{DevicePtr, DevicePtrMut};

/// What all encoders take.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EncodeArgs {
    /// Rotated residuals.
    pub rotated: Rotated,
    /// Whose codes: `rotated.rows` of them.
    pub chosen: ChosenRows,
    /// `[slots][shape.words]`: where codes go.
    pub codes: DevicePtrMut<u32>,
    /// Where the bits of a code lie.
    pub shape: CodeShape,
    /// What the metric makes of residuals.
    pub space: SpaceArgs,
    /// Units of the factors `add`, `rescale` and `error`: powers of two.
    pub units: [f32; 3],
    /// Their inverses, which are as exact.
    pub inverse_units: [f32; 3],
}

/// Residuals after the rotation or the projection.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Rotated {
    /// `[rows][stride]`: coordinates, with zeros behind those of the shape.
    pub values: DevicePtr<f32>,
    /// `[rows]`: the squared length of each residual before it was rotated, and its product with the centre.
    pub sums: DevicePtr<[f32; 2]>,
    /// Floats from row to row, a multiple of 64.
    pub stride: u32,
}

/// A metric, as residuals see it: `jasper_quant`'s table of parts of a distance.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SpaceArgs {
    /// What the product of residuals is multiplied with.
    pub product_weight: f32,
    /// What squared lengths are multiplied with; 0 where it is products with the centre that count.
    pub squared_weight: f32,
    /// Squared length of the centre.
    pub squared_centre: f32,
}

/// What the encoder of equal bits takes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RabitqArgs {
    /// What all take.
    pub rows: EncodeArgs,
    /// Coordinates that are no padding.
    pub dimension: u32,
    /// The lowest level of a positive coordinate.
    pub half: f32,
    /// Standard deviations that a bound spans.
    pub bound_sigmas: f32,
    /// The scales to try: `jasper_quant::Scales`.
    pub base: f32,
    /// As there.
    pub over_peak: f32,
    /// As there.
    pub low: f32,
    /// As there.
    pub step: f32,
    /// As there.
    pub count: u32,
}

/// What the encoder of bits by variance takes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MixedArgs {
    /// What all take.
    pub rows: EncodeArgs,
    /// `[shape.dimensions]`: step, inverse, limit and half of each.
    pub dimensions: DevicePtr<[f32; 4]>,
    /// The inverses of the multiples of steps to try.
    pub trials: [f32; TRIALS],
    /// The numbers of the fit: b1, b2, b3, and the largest k.
    pub fit: [f32; 4],
}

/// Multiples of steps that are tried.
pub const TRIALS: usize = 3;

/// What the coding of queries takes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CodeQueriesArgs {
    /// Rotated residuals.
    pub rotated: Rotated,
    /// `[dimensions]`: as in [`MixedArgs`]; null if all have the same bits.
    pub of_dimensions: DevicePtr<[f32; 4]>,
    /// `[queries][limbs][dimensions]`: int8 levels, as words of four.
    pub levels: DevicePtrMut<u32>,
    /// `[queries]`: the numbers beside them.
    pub terms: DevicePtrMut<QueryTerms>,
    /// What the metric makes of residuals.
    pub space: SpaceArgs,
    /// Units of the factors `add`, `rescale` and `error`.
    pub units: [f32; 3],
    /// The lowest level of a positive coordinate, if all have the same bits.
    pub half: f32,
    /// Queries.
    pub queries: u32,
    /// Coded dimensions.
    pub dimensions: u32,
    /// int8 numbers a coordinate, 1 or 2.
    pub limbs: u32,
}

/// Shared memory of a warp of an encoder: a byte a level, in whole words of 16 bytes.
const fn level_bytes(shape: &CodeShape) -> u32 {
    shape.dimensions.next_multiple_of(16)
}
