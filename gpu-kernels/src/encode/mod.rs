//! Encodes vectors and queries from rotated residuals. The codes equal those of `jasper_quant` to the bit.
//!
//! ```text
//! encode(residual):                                   one warp; each lane has every 32nd coordinate
//!     for each scale to try: round residual * scale to the grid; keep the scale of best cosine
//!     levels <- the residual on the grid of that scale, in shared memory, one byte each
//!     code <- bit planes of the levels, then the factors of the distance estimate
//! ```
//!
//! Several scales are tried per pass over the row. Sums are added in the order of the CPU (`sums`). Four adjacent
//! levels are one word of shared memory, from which each plane takes its bits.
//!
//! | module | holds |
//! | --- | --- |
//! | `row` | a row on the grid of its code: dot products at several scales, levels, and the remaining error |
//! | `rabitq` | the encoder of RaBitQ codes |
//! | `mixed` | the encoder of mixed codes |
//! | `pack` | packs levels into planes, and stores the factors after them |
//! | `query` | the encoder of queries |
//! | `quantizer` | [`DeviceQuantizer`]: a quantizer in device memory, and the launches that encode |

cfg_if! { if #[cfg(feature = "kernels")] {
    mod mixed;
    mod pack;
    mod query;
    mod rabitq;
    mod row;
} }

cfg_if! { if #[cfg(not(target_arch = "nvptx64"))] {
    mod quantizer;

    pub use quantizer::{DeviceQuantizer, QueryCodes, RowSelection};
    use crate::{LaunchConfig, launch::kernels};
} }

use crate::codes::{CodeShape, QueryFactors};
use crate::residuals::RowSelectionArgs;
use crate::{DevicePtr, DevicePtrMut};

/// Arguments of both encoders.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EncodeArgs {
    /// The rotated residuals.
    pub rotated: RotatedResiduals,
    /// The rows to encode.
    pub selection: RowSelectionArgs,
    /// `[slots][shape.words]`: the codes.
    pub codes: DevicePtrMut<u32>,
    /// The layout of a code.
    pub shape: CodeShape,
    /// The metric in terms of residuals.
    pub metric: MetricArgs,
    /// Units of the factors `add`, `rescale` and `error`: powers of two.
    pub units: [f32; 3],
    /// The inverses of `units`, which are exact too.
    pub inverse_units: [f32; 3],
}

/// Residuals after the rotation or the projection.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RotatedResiduals {
    /// `[rows][stride]`: coordinates, padded with zeros.
    pub values: DevicePtr<f32>,
    /// `[rows]`: the squared length of each residual before the rotation, and its dot product with the center.
    pub sums: DevicePtr<[f32; 2]>,
    /// Floats from row to row, a multiple of 64.
    pub stride: u32,
}

/// A metric in terms of residuals: the weights of the parts of a distance, as in `jasper_quant`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MetricArgs {
    /// The weight of the dot product of residuals.
    pub product_weight: f32,
    /// The weight of squared lengths; 0 if dot products with the center count instead.
    pub squared_weight: f32,
    /// The squared length of the center.
    pub squared_center: f32,
}

/// Arguments of the encoder of RaBitQ codes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EncodeRabitqArgs {
    /// Arguments of both encoders.
    pub rows: EncodeArgs,
    /// Coordinates without padding.
    pub dimension: u32,
    /// The lowest level of a positive coordinate.
    pub half: f32,
    /// The width of an error bound in standard deviations.
    pub bound_sigmas: f32,
    /// The scales to try, as in `jasper_quant::Scales`: the common base; 0 if the base depends on the row.
    pub base: f32,
    /// The base of a row is this over its largest magnitude; 0 if there is a common base.
    pub over_peak: f32,
    /// Smallest multiple of the base.
    pub low: f32,
    /// Step between multiples.
    pub step: f32,
    /// Number of multiples; 0 for codes of one bit.
    pub count: u32,
}

/// Arguments of the encoder of mixed codes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EncodeMixedArgs {
    /// Arguments of both encoders.
    pub rows: EncodeArgs,
    /// `[shape.dimensions]`: step, its inverse, limit and half of each.
    pub dimensions: DevicePtr<[f32; 4]>,
    /// The inverses of the multiples of steps to try.
    pub trials: [f32; TRIALS],
    /// The coefficients of the fit: b1, b2, b3, and the largest k.
    pub fit: [f32; 4],
}

/// Multiples of steps to try.
pub const TRIALS: usize = 3;

/// Arguments of the encoder of queries.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EncodeQueriesArgs {
    /// The rotated residuals.
    pub rotated: RotatedResiduals,
    /// `[dimensions]`, as in [`EncodeMixedArgs`]; null for RaBitQ codes.
    pub of_dimensions: DevicePtr<[f32; 4]>,
    /// `[queries][level_bytes][dimensions]`: int8 levels, as words of four.
    pub levels: DevicePtrMut<u32>,
    /// `[queries]`: scale, offset and the query's part of the distance.
    pub query_factors: DevicePtrMut<QueryFactors>,
    /// The metric in terms of residuals.
    pub metric: MetricArgs,
    /// Units of the factors `add` and `rescale`.
    pub units: [f32; 2],
    /// The lowest level of a positive coordinate, for RaBitQ codes.
    pub half: f32,
    /// Number of queries.
    pub queries_len: u32,
    /// Coded dimensions.
    pub dimensions: u32,
    /// int8 numbers per coordinate, 1 or 2.
    pub level_bytes: u32,
}

/// Bytes of shared memory per warp of an encoder: one per level, rounded up to a multiple of 16.
const fn shared_level_bytes(shape: &CodeShape) -> u32 {
    shape.dimensions.next_multiple_of(16)
}

#[cfg(not(target_arch = "nvptx64"))]
impl EncodeArgs {
    /// The launch: one warp per row, with shared memory for the row's levels.
    fn launch(&self) -> LaunchConfig {
        LaunchConfig::warp_per_row_with_shared(self.selection.len, shared_level_bytes(&self.shape))
    }
}

#[cfg(not(target_arch = "nvptx64"))]
kernels! {
    /// The encoder of RaBitQ codes.
    EncodeRabitq(EncodeRabitqArgs) = rabitq::encode_rabitq, |args| args.rows.launch();
    /// The encoder of mixed codes.
    EncodeMixed(EncodeMixedArgs) = mixed::encode_mixed, |args| args.rows.launch();
    /// The encoder of queries.
    EncodeQueries(EncodeQueriesArgs) = query::encode_queries, |args| LaunchConfig::warp_per_row(args.queries_len);
}
