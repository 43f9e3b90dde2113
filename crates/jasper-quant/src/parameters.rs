//! A trained quantizer as data, for kernels that encode queries on a device.
//!
//! [`crate::rabitq`], [`crate::mixed`] and [`crate::query`] define what kernels compute. Sums have a fixed order,
//! multiply-adds are fused only where the definition says so, and divisions and square roots are correctly rounded, so
//! a kernel encodes queries exactly as the CPU, bit for bit.

use jasper_core::Metric;

pub use crate::projection::PANEL;

/// The parameters of a trained quantizer.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters<'a> {
    /// The metric.
    pub metric: Metric,
    /// Multiplier of squared norms of residuals; 0 for inner products, which use products with the center instead.
    pub squared_weight: f32,
    /// `[dimension]`: the center of residuals.
    pub center: &'a [f32],
    /// Squared norm of the center.
    pub squared_center: f32,
    /// The rotation or projection of residuals.
    pub rotation: RotationParameters<'a>,
    /// Units of the factors `add` and `rescale`, powers of two.
    pub units: [f32; 2],
    /// Bytes per level of a query: 1 or 2.
    pub level_bytes: usize,
    /// What depends on the kind of code.
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

/// How the coordinates of a rotated query are weighted, and the levels that they meet.
#[derive(Clone, Debug, PartialEq)]
pub enum CodeParameters {
    /// The same for all coordinates.
    Rabitq {
        /// Lowest level of a positive coordinate.
        half: f32,
    },
    /// By the variance of the component.
    Mixed {
        /// `[layout.dimensions()]`: the step between levels, and the lowest level of a positive coordinate.
        dimensions: Vec<[f32; 2]>,
    },
}
