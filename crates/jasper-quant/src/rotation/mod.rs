//! Random rotations: they spread what a vector has evenly over all coordinates, so that one step fits them all.
//!
//! | kind | out | cost of a row | for |
//! | --- | --- | --- | --- |
//! | fast Hadamard | the dimension rounded up to 64 | D log D | the default |
//! | Haar | the dimension itself | D² | the reference: every rotation equally likely |
//!
//! Both give the same error at equal output dimension (within 2%); padding is not wasted, for it brings bits.

mod haar;
mod hadamard;

use crate::parts::RotationParts;
use crate::projection::Projection;
use hadamard::Hadamard;

pub(crate) use hadamard::ROUNDS;

/// A random orthonormal map of rows; seeded, and equal on every machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotation(Kind);

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Haar(Projection),
    Hadamard(Hadamard),
}

/// Which random rotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RotationKind {
    /// Signs and Hadamard matrices in turn, four times: D log D operations a row, 4 D bits to store.
    #[default]
    Hadamard,
    /// Uniform over all rotations, from the QR decomposition of a Gaussian matrix: D² operations a row, D² floats,
    /// and D³ once to make it.
    Haar,
}

impl RotationKind {
    /// Coordinates of a rotated row of `dimension`.
    pub const fn rotated_dimension(self, dimension: usize) -> usize {
        match self {
            Self::Hadamard => hadamard::rotated_dimension(dimension),
            Self::Haar => dimension,
        }
    }
}

impl Rotation {
    /// A rotation of rows of `dimension` coordinates (at least 1) from `seed`.
    pub fn new(kind: RotationKind, dimension: usize, seed: u64) -> Self {
        Self(match kind {
            RotationKind::Haar => Kind::Haar(haar::haar(dimension, seed)),
            RotationKind::Hadamard => Kind::Hadamard(Hadamard::new(dimension, seed)),
        })
    }

    /// Floats of the default rotation of rows of `dimension`: its factors, and fewer than as many for their signs.
    pub(crate) const fn most_floats(dimension: usize) -> usize {
        2 * ROUNDS * hadamard::rotated_dimension(dimension)
    }

    pub(crate) fn from_projection(matrix: Projection) -> Self {
        Self(Kind::Haar(matrix))
    }

    pub(crate) fn from_signs(dimension: usize, signs: Vec<u64>) -> Self {
        Self(Kind::Hadamard(Hadamard::from_signs(dimension, signs)))
    }

    /// Which kind it is.
    pub fn kind(&self) -> RotationKind {
        match &self.0 {
            Kind::Haar(_) => RotationKind::Haar,
            Kind::Hadamard(_) => RotationKind::Hadamard,
        }
    }

    /// Coordinates of a row.
    pub fn dimension(&self) -> usize {
        match &self.0 {
            Kind::Haar(matrix) => matrix.dimension(),
            Kind::Hadamard(hadamard) => hadamard.dimension(),
        }
    }

    /// Coordinates of a rotated row.
    pub fn rotated_dimension(&self) -> usize {
        match &self.0 {
            Kind::Haar(matrix) => matrix.directions(),
            Kind::Hadamard(hadamard) => hadamard.rotated_dimension(),
        }
    }

    /// Rotates `rows` (`n x dimension`) into `out` (`n x stride`, row-major): the first
    /// [`Self::rotated_dimension`] of a row of `out` are written, and zeros behind them.
    ///
    /// # Panics
    /// If the slices do not hold the same number of rows, or `stride` is below the rotated dimension.
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

    /// What each round of a fast rotation multiplies coordinates with, `[4][rotated dimension]`: signs, and the scale of
    /// its Hadamard matrix.
    pub fn factors(&self) -> Option<&[f32]> {
        match &self.0 {
            Kind::Haar(_) => None,
            Kind::Hadamard(hadamard) => Some(hadamard.factors()),
        }
    }

    /// The rotation as data.
    pub(crate) fn parts(&self) -> RotationParts<'_> {
        match &self.0 {
            Kind::Haar(matrix) => RotationParts::Matrix(matrix.parts()),
            Kind::Hadamard(hadamard) => RotationParts::Hadamard(hadamard.factors()),
        }
    }

    /// The signs of a Hadamard rotation.
    pub(crate) fn signs(&self) -> Option<&[u64]> {
        match &self.0 {
            Kind::Haar(_) => None,
            Kind::Hadamard(hadamard) => Some(hadamard.signs()),
        }
    }
}

#[cfg(test)]
mod tests;
