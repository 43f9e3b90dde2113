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

use crate::parts::RotationParts;
use crate::projection::Projection;
use hadamard::Hadamard;

pub(crate) use hadamard::ROUNDS;

/// A random orthonormal map, determined by a seed. The same on every platform.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotation(Kind);

#[derive(Clone, Debug, PartialEq)]
enum Kind {
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
            RotationKind::Haar => Kind::Haar(haar::haar(dimension, seed)),
            RotationKind::Hadamard => Kind::Hadamard(Hadamard::new(dimension, seed)),
        })
    }

    /// Maximum floats that the default rotation stores: its factors, and less for the signs.
    pub(crate) const fn max_floats(dimension: usize) -> usize {
        2 * ROUNDS * hadamard::rotated_dimension(dimension)
    }

    pub(crate) fn from_projection(matrix: Projection) -> Self {
        Self(Kind::Haar(matrix))
    }

    pub(crate) fn from_signs(dimension: usize, signs: Vec<u64>) -> Self {
        Self(Kind::Hadamard(Hadamard::from_signs(dimension, signs)))
    }

    /// The kind of rotation.
    pub fn kind(&self) -> RotationKind {
        match &self.0 {
            Kind::Haar(_) => RotationKind::Haar,
            Kind::Hadamard(_) => RotationKind::Hadamard,
        }
    }

    /// Input dimension.
    pub fn dimension(&self) -> usize {
        match &self.0 {
            Kind::Haar(matrix) => matrix.dimension(),
            Kind::Hadamard(hadamard) => hadamard.dimension,
        }
    }

    /// Output dimension.
    pub fn rotated_dimension(&self) -> usize {
        match &self.0 {
            Kind::Haar(matrix) => matrix.directions(),
            Kind::Hadamard(hadamard) => hadamard.rotated,
        }
    }

    /// Rotates `rows` (`n x dimension`) into `out` (`n x stride`, zero-padded from [`Self::rotated_dimension`] on).
    ///
    /// # Panics
    /// If the slices hold different numbers of rows, or `stride` is below the rotated dimension.
    pub fn rotate(&self, rows: &[f32], out: &mut [f32], stride: usize) {
        assert!(stride >= self.rotated_dimension());
        assert_eq!(rows.len() / self.dimension() * stride, out.len());
        match &self.0 {
            Kind::Haar(matrix) => matrix.project(rows, out, stride),
            Kind::Hadamard(hadamard) => hadamard.rotate(rows, out, stride),
        }
    }

    /// The matrix of a Haar rotation.
    pub(crate) fn matrix(&self) -> Option<&Projection> {
        match &self.0 {
            Kind::Haar(matrix) => Some(matrix),
            Kind::Hadamard(_) => None,
        }
    }

    /// The multipliers of each round of a Hadamard rotation, `[4][rotated dimension]`: signs times the scale of the
    /// transform.
    pub fn factors(&self) -> Option<&[f32]> {
        match &self.0 {
            Kind::Haar(_) => None,
            Kind::Hadamard(hadamard) => Some(&hadamard.factors),
        }
    }

    /// The parameters, for kernels.
    pub(crate) fn parts(&self) -> RotationParts<'_> {
        match &self.0 {
            Kind::Haar(matrix) => RotationParts::Matrix(matrix.parts()),
            Kind::Hadamard(hadamard) => RotationParts::Hadamard(&hadamard.factors),
        }
    }

    /// The signs of a Hadamard rotation.
    pub(crate) fn signs(&self) -> Option<&[u64]> {
        match &self.0 {
            Kind::Haar(_) => None,
            Kind::Hadamard(hadamard) => Some(&hadamard.signs),
        }
    }
}

#[cfg(test)]
mod tests;
