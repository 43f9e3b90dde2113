//! Errors of training and of reading a quantizer.

use jasper_core::MatrixError;

use crate::Quantization;

/// A quantizer could not be trained.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// There are not enough vectors to train on.
    #[error("{given} training vectors are too few; train on at least {min}")]
    TooFewVectors {
        /// Vectors given.
        given: usize,
        /// Minimum number.
        min: usize,
    },
    /// The bits per coordinate are out of range.
    #[error("bits ({0}) must be between 1 and 8")]
    Bits(u32),
    /// The sectors per code are out of range.
    #[error("sectors ({0}) must be between 1 and {MAX_SECTORS}", MAX_SECTORS = crate::mixed::MAX_SECTORS)]
    Sectors(u32),
    /// The half-width of the error bound, in standard deviations, is out of range.
    #[error("bound_sigmas ({0}) must be finite and above 0; 1.9 is the default")]
    BoundSigmas(f32),
    /// The values of the vectors are too large or too small for the arithmetic of training.
    #[error(
        "{0} codes of these vectors have parameters that are not finite, because values are near the limits of f32; divide \
         all vectors by a power of two, or use no codes"
    )]
    Range(Quantization),
    /// A value is not finite, or the shape is wrong.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
}

/// A serialized quantizer is damaged or of another version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The section ends before what it announces.
    #[error("quantizer section is {len} bytes, expected at least {needed}; the file is damaged")]
    Short {
        /// Length in bytes.
        len: usize,
        /// Length that the fields read so far require.
        needed: usize,
    },
    /// The section is longer than what it announces.
    #[error("quantizer section has {0} extra bytes; the file is damaged")]
    Long(usize),
    /// A field is out of range.
    #[error("field `{field}` of the quantizer section is {value}; expected {expected}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// Allowed values.
        expected: &'static str,
    },
    /// A number is NaN, infinite or out of range.
    #[error("field `{0}` of the quantizer section holds a number out of range; the file is damaged")]
    Number(&'static str),
}
