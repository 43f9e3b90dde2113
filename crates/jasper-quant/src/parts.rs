//! A trained quantizer as data, for kernels that encode vectors and queries on a device.
//!
//! [`crate::rabitq`], [`crate::mixed`] and [`crate::query`] define what kernels compute. Sums have a fixed order,
//! multiply-adds are fused only where the definition says so, and divisions and square roots are correctly rounded, so
//! a kernel produces the same codes as the CPU, bit for bit.

use jasper_core::Metric;

pub use crate::projection::PANEL;
use crate::rabitq::Scales;

/// The parameters of a trained quantizer.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters<'a> {
    /// The metric.
    pub metric: Metric,
    /// Multiplier of the product of residuals in a distance.
    pub product_weight: f32,
    /// Multiplier of squared norms of residuals; 0 for inner products, which use products with the center instead.
    pub squared_weight: f32,
    /// `[dimension]`: the center of residuals.
    pub center: &'a [f32],
    /// Squared norm of the center.
    pub squared_center: f32,
    /// The rotation or projection of residuals.
    pub rotation: RotationParameters<'a>,
    /// Units of the factors `add`, `rescale` and `error`, powers of two.
    pub units: [f32; 3],
    /// Bytes per level of a query: 1 or 2.
    pub level_bytes: usize,
    /// How rotated residuals are quantized.
    pub code: CodeParameters,
}

/// A rotation or projection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RotationParameters<'a> {
    /// `[4][rotated dimension]`: the multipliers of each round before its Hadamard matrix.
    Hadamard(&'a [f32]),
    /// Products with the directions, each summed in coordinate order by fused multiply-adds.
    Matrix(MatrixParameters<'a>),
}

/// A matrix of directions in panels of [`PANEL`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixParameters<'a> {
    /// `[panels][dimension][PANEL]`: one coordinate of all directions of a panel side by side. The last panel is padded
    /// with zeros.
    pub panels: &'a [f32],
    /// Number of directions.
    pub directions: usize,
}

/// How rotated residuals are quantized.
#[derive(Clone, Debug, PartialEq)]
pub enum CodeParameters {
    /// The same bits for all coordinates.
    Rabitq {
        /// Bits per coordinate.
        bits: u32,
        /// Rotated coordinates, without the padding of the layout.
        dimension: usize,
        /// Half-width of the error bound in standard deviations.
        bound_sigmas: f32,
        /// The scales to try.
        scales: Scales,
    },
    /// Bits by variance of the component.
    Mixed {
        /// `[layout.dimensions()]`: the quantizer of each dimension.
        dimensions: Vec<MixedDimension>,
        /// Inverses of the step multiples to try. The middle one is the default.
        trials: [f32; 3],
        /// The correction coefficients b1, b2, b3, and the maximum of k.
        fit: [f32; 4],
    },
}

/// The quantizer of one dimension of a mixed code.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MixedDimension {
    /// Step between levels, for residuals of length 1.
    pub step: f32,
    /// Inverse of the step; 0 if the step is 0.
    pub inverse: f32,
    /// Maximum level of a magnitude, plus a half.
    pub limit: f32,
    /// Lowest level of a positive coordinate.
    pub half: f32,
}
