//! A quantizer as data: what kernels need that code rows and queries by the same definition.
//!
//! The definition is in [`crate::rabitq`], [`crate::mixed`] and [`crate::query`]. Every sum in it has one order, no
//! product is fused with a sum but where that order says so, and divisions and roots are rounded once: so that whoever
//! follows it, on whatever processor, gives the same codes.

use jasper_core::Metric;

use crate::factors::Units;
pub use crate::projection::PANEL;
use crate::rabitq::Scales;
use crate::space::{Space, dot};

/// What all quantizers have, and what this one has.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts<'a> {
    /// The metric.
    pub metric: Metric,
    /// What products of residuals are multiplied with in a distance.
    pub product_weight: f32,
    /// What squared lengths of residuals are multiplied with; 0 where products with the centre count instead.
    pub squared_weight: f32,
    /// `[dimension]`: what residuals are taken from.
    pub centre: &'a [f32],
    /// Its squared length.
    pub squared_centre: f32,
    /// What is done with residuals.
    pub rotation: RotationParts<'a>,
    /// Units of the factors `add`, `rescale` and `error`: powers of two.
    pub units: [f32; 3],
    /// int8 numbers a coordinate of a query.
    pub limbs: usize,
    /// What rotated residuals become.
    pub code: CodeParts,
}

/// How residuals are rotated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RotationParts<'a> {
    /// `[4][rotated dimension]`: what each round multiplies coordinates with before its Hadamard matrix.
    Hadamard(&'a [f32]),
    /// Each coordinate is the product with a direction, summed in the order of the coordinates by fused multiply-adds.
    Matrix(MatrixParts<'a>),
}

/// Directions, in panels of [`PANEL`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixParts<'a> {
    /// `[panels][dimension][PANEL]`: a coordinate of all directions of a panel side by side; zeros where directions run
    /// out.
    pub panels: &'a [f32],
    /// Directions.
    pub directions: usize,
}

/// The two kinds of codes.
#[derive(Clone, Debug, PartialEq)]
pub enum CodeParts {
    /// Equal bits for all.
    Rabitq {
        /// Bits a coordinate.
        bits: u32,
        /// Rotated coordinates that are no padding of the layout.
        dimension: usize,
        /// Standard deviations that a bound spans.
        bound_sigmas: f32,
        /// The scales to try.
        scales: Scales,
    },
    /// Bits by variance.
    Mixed {
        /// `[layout.dimensions()]`.
        dimensions: Vec<MixedDimension>,
        /// The inverses of the multiples of steps to try; the middle one where none is better than nothing.
        trials: [f32; 3],
        /// The numbers of the fit: b1, b2, b3, and the largest k.
        fit: [f32; 4],
    },
}

/// What a mixed code knows of a dimension.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MixedDimension {
    /// Step of its levels, for rows of length 1.
    pub step: f32,
    /// The inverse of that, 0 where it is 0.
    pub inverse: f32,
    /// Largest level of a magnitude, and a half.
    pub limit: f32,
    /// The lowest level of a positive coordinate.
    pub half: f32,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(
        space: &'a Space,
        units: &Units,
        rotation: RotationParts<'a>,
        limbs: usize,
        code: CodeParts,
    ) -> Self {
        Self {
            metric: space.metric,
            product_weight: space.product_weight(),
            squared_weight: space.squared_weight(),
            centre: &space.centre,
            squared_centre: dot(&space.centre, &space.centre),
            rotation,
            units: [units.0.add, units.0.rescale, units.0.error],
            limbs,
            code,
        }
    }
}
