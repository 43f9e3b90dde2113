//! Encodes queries from rotated residuals: int8 levels with one scale, equal to those of `jasper_quant` to the bit.
//!
//! | module | holds |
//! | --- | --- |
//! | `query` | the encoder of queries; one warp per query |
//! | `quantizer` | [`DeviceQuantizer`]: a quantizer in device memory, and the launches that encode |

#[cfg(feature = "kernels")]
mod query;

cfg_if! { if #[cfg(not(target_arch = "nvptx64"))] {
    mod quantizer;

    pub use quantizer::{DeviceQuantizer, QueryCodes};
    use crate::{LaunchConfig, launch::kernels};
} }

use crate::codes::QueryFactors;
use crate::{DevicePtr, DevicePtrMut};

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

/// A metric in terms of residuals: what the query's part of a distance needs, as in `jasper_quant`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MetricArgs {
    /// The weight of squared lengths; 0 if dot products with the center count instead.
    pub squared_weight: f32,
    /// The squared length of the center.
    pub squared_center: f32,
}

/// Arguments of the encoder of queries.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EncodeQueriesArgs {
    /// The rotated residuals.
    pub rotated: RotatedResiduals,
    /// `[dimensions]`: step and half of each; null for RaBitQ codes.
    pub of_dimensions: DevicePtr<[f32; 2]>,
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

#[cfg(not(target_arch = "nvptx64"))]
kernels! {
    /// The encoder of queries.
    EncodeQueries(EncodeQueriesArgs) = query::encode_queries, |args| LaunchConfig::warp_per_row(args.queries_len);
}
