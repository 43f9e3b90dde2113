//! What can go wrong: parameters that fit no data, and bytes that are no quantizer.

use jasper_core::{MAX_DIMENSION, MatrixError};

/// A quantizer could not be trained.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// There is nothing to learn from.
    #[error("{rows} training rows are too few; give at least {least}")]
    TooFewRows {
        /// Rows given.
        rows: usize,
        /// Fewest that will do.
        least: usize,
    },
    /// A number of bits that no code has.
    #[error("bits ({0}) must be between 1 and 8")]
    Bits(u32),
    /// A number of sectors that no code has.
    #[error("sectors ({0}) must be between 1 and {MAX_SECTORS}", MAX_SECTORS = crate::mixed::MAX_SECTORS)]
    Sectors(u32),
    /// The half-width of the error bound is no number of standard deviations.
    #[error("bound_sigmas ({0}) must be a finite number above 0")]
    BoundSigmas(f32),
    /// A value is not finite, or the shape is wrong.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
}

/// Bytes are no quantizer that this version reads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The section ends before what it announces.
    #[error(
        "a quantizer's section ends after {len} bytes, where {wanted} were expected; the file is damaged"
    )]
    Short {
        /// Bytes there are.
        len: usize,
        /// Bytes that the part read so far asks for.
        wanted: usize,
    },
    /// Bytes are left over.
    #[error("a quantizer's section has {0} bytes too many; the file is damaged")]
    Long(usize),
    /// A field holds what it may not hold.
    #[error("field `{field}` of a quantizer's section holds {value}; {expected}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// What it holds.
        value: u64,
        /// What it may hold.
        expected: &'static str,
    },
    /// A number is NaN, infinite, or negative where it may not be.
    #[error("field `{0}` of a quantizer's section holds a number that is out of range; the file is damaged")]
    Number(&'static str),
}

/// Refuses dimensions that no view has.
pub(crate) fn check_dimension(dimension: usize) -> Result<(), TrainError> {
    if dimension == 0 || dimension > MAX_DIMENSION {
        return Err(MatrixError::Dimension(dimension).into());
    }
    Ok(())
}
