//! Random rotations. They spread a vector evenly over all coordinates, so that one quantization step fits all.
//!
//! | kind | output dimension | cost per row | use |
//! | --- | --- | --- | --- |
//! | fast Hadamard | the dimension rounded up to 64 | D log D | default |
//! | Haar | the dimension | D² | reference: uniform over all rotations |
//!
//! At equal output dimension both give the same error within 2%. Padding is not wasted: it adds bits.

mod haar;
mod hadamard;

use crate::parts::RotationParameters;
use crate::projection::Projection;

pub(crate) use hadamard::{Hadamard, ROUNDS};

/// A random orthonormal map, determined by a seed. The same on every platform.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotation(pub(crate) RotationForm);

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RotationForm {
    Haar(Projection),
    Hadamard(Hadamard),
}

/// A kind of random rotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RotationKind {
    /// Four rounds of random signs and a Hadamard transform: D log D operations per row, 4 D bits to store.
    #[default]
    Hadamard,
    /// Uniform over all rotations (Haar measure): D² operations per row, D² floats to store, D³ operations to create.
    Haar,
}

impl RotationKind {
    /// The output dimension for vectors of `dimension`.
    pub const fn rotated_dimension(self, dimension: usize) -> usize {
        match self {
            Self::Hadamard => hadamard::rotated_dimension(dimension),
            Self::Haar => dimension,
        }
    }
}

impl Rotation {
    /// Creates a rotation of vectors of `dimension` coordinates, at least 1, from `seed`.
    pub fn new(kind: RotationKind, dimension: usize, seed: u64) -> Self {
        Self(match kind {
            RotationKind::Haar => RotationForm::Haar(haar::haar(dimension, seed)),
            RotationKind::Hadamard => RotationForm::Hadamard(Hadamard::new(dimension, seed)),
        })
    }

    /// Maximum floats that the default rotation stores: its factors, and less for the signs.
    pub(crate) const fn max_floats(dimension: usize) -> usize {
        2 * ROUNDS * hadamard::rotated_dimension(dimension)
    }

    /// Input dimension.
    pub fn dimension(&self) -> usize {
        match &self.0 {
            RotationForm::Haar(matrix) => matrix.dimension(),
            RotationForm::Hadamard(hadamard) => hadamard.dimension,
        }
    }

    /// Output dimension.
    pub fn rotated_dimension(&self) -> usize {
        match &self.0 {
            RotationForm::Haar(matrix) => matrix.directions(),
            RotationForm::Hadamard(hadamard) => hadamard.rotated,
        }
    }

    /// Rotates `rows` (`n x dimension`) into `out` (`n x stride`, zero-padded from [`Self::rotated_dimension`] on).
    ///
    /// # Panics
    /// Panics if the slices hold different numbers of rows, or `stride` is below the rotated dimension.
    pub fn rotate(&self, rows: &[f32], out: &mut [f32], stride: usize) {
        assert!(stride >= self.rotated_dimension());
        assert_eq!(rows.len() / self.dimension() * stride, out.len());
        match &self.0 {
            RotationForm::Haar(matrix) => matrix.project(rows, out, stride),
            RotationForm::Hadamard(hadamard) => hadamard.rotate(rows, out, stride),
        }
    }

    /// The multipliers of each round of a Hadamard rotation, `[4][rotated dimension]`: signs times the scale of the
    /// transform.
    pub fn factors(&self) -> Option<&[f32]> {
        match &self.0 {
            RotationForm::Haar(_) => None,
            RotationForm::Hadamard(hadamard) => Some(&hadamard.factors),
        }
    }

    /// The parameters, for kernels.
    pub(crate) fn parameters(&self) -> RotationParameters<'_> {
        match &self.0 {
            RotationForm::Haar(matrix) => RotationParameters::Matrix(matrix.parameters()),
            RotationForm::Hadamard(hadamard) => RotationParameters::Hadamard(&hadamard.factors),
        }
    }
}

#[cfg(test)]
mod tests;
