//! Converts users' vectors to their stored form, and refuses invalid ones.

use jasper_core::{Element, ElementKind, MatrixError, Metric, padded_len};

/// A vector cannot be stored or searched for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VectorError {
    /// A value is not finite, or the shape is invalid.
    #[error(transparent)]
    Matrix(#[from] MatrixError),
    /// The vectors have another element type than the index.
    #[error(
        "the element type is {given}, and that of the index {expected}; convert the vectors to {expected}"
    )]
    Element {
        /// Element type of the vectors.
        given: ElementKind,
        /// Element type of the index.
        expected: ElementKind,
    },
    /// The vector has another dimension than the index.
    #[error("row {row} has {given} coordinates where the index has {expected}")]
    Dimension {
        /// Row of the vector among those given.
        row: usize,
        /// Coordinates of the vector.
        given: usize,
        /// Coordinates of vectors in the index.
        expected: usize,
    },
    /// A zero vector has no direction.
    #[error(
        "row {row} is a zero vector, which has no direction under the cosine metric; remove it, use l2, or build an index \
         that leaves out such vectors (skip_zero_vectors)"
    )]
    ZeroVector {
        /// Row of the vector among those given.
        row: usize,
    },
    /// Distances to the vector would not be finite.
    #[error(
        "row {row} is too long: its squared length ({squared_norm:e}) must be below {LONGEST:e}; scale the vectors down"
    )]
    TooLong {
        /// Row of the vector among those given.
        row: usize,
        /// Its squared norm.
        squared_norm: f64,
    },
    /// The index has the maximum number of vectors.
    #[error("the index is full: it holds {} vectors, the most there can be", jasper_core::MAX_VECTORS)]
    Full,
    /// The vectors were dropped, and the operation needs them.
    #[error(
        "the index stores codes only, and this operation needs the vectors; build it again and keep them"
    )]
    NoVectors,
    /// The vectors cannot be read.
    #[error("the vectors cannot be read: {0}")]
    Read(std::io::Error),
    /// Memory cannot be allocated.
    #[error("no memory for more vectors")]
    Memory(#[from] std::io::Error),
}

impl VectorError {
    /// The error with the row that it names replaced, for callers that pass on some of a caller's rows.
    #[must_use]
    pub fn map_row(mut self, map: impl FnOnce(usize) -> usize) -> Self {
        match &mut self {
            Self::Matrix(
                MatrixError::NotFinite { row, .. }
                | MatrixError::Value { row, .. }
                | MatrixError::Rounding { row, .. },
            )
            | Self::ZeroVector { row }
            | Self::TooLong { row, .. } => *row = map(*row),
            _ => {}
        }
        self
    }
}

/// Bound of squared norms, so that every squared distance (at most 4 times it) and every partial sum is finite in f32.
const LONGEST: f64 = f32::MAX as f64 / 8.0;

/// Converts a user's vector to its stored form in `out`: padded with zeros to the length of `out`, and at unit length
/// under the cosine metric if the element is a float. Returns the squared norm before that.
///
/// # Errors
/// Returns [`VectorError`], naming `row`; the contents of `out` are then unspecified.
///
/// # Panics
/// Panics if `vector` is longer than `out`.
pub fn prepare_vector<T: Element>(
    metric: Metric,
    row: usize,
    vector: &[T],
    out: &mut [T],
) -> Result<f32, VectorError> {
    let (coordinates, padding) = out.split_at_mut(vector.len());
    coordinates.copy_from_slice(vector);
    padding.fill(T::default());
    prepare_in_place(metric, row, out)
}

/// Prepares a vector that is already padded with zeros in place, as [`prepare_vector`] does.
///
/// # Errors
/// Returns [`VectorError`], naming `row`; the contents of `out` are then unspecified.
pub fn prepare_in_place<T: Element>(metric: Metric, row: usize, out: &mut [T]) -> Result<f32, VectorError> {
    let squared_norm = squared_norm(metric, row, out)?;
    if metric == Metric::Cosine && !T::EXACT_SUMS {
        (T::distance_fns().scale)(out, squared_norm.sqrt().recip());
    }
    Ok(squared_norm as f32)
}

/// Whether vectors are stored as they are given: without padding and without scaling.
pub fn stores_as_given<T: Element>(metric: Metric, dimension: usize) -> bool {
    padded_len::<T>(dimension) == dimension && (T::EXACT_SUMS || metric != Metric::Cosine)
}

/// Checks that vectors have the element type of the index.
///
/// # Errors
/// Returns [`VectorError::Element`].
pub fn check_element(given: ElementKind, expected: ElementKind) -> Result<(), VectorError> {
    if given == expected { Ok(()) } else { Err(VectorError::Element { given, expected }) }
}

/// Checks a vector as [`prepare_vector`] does, without output.
///
/// # Errors
/// Returns [`VectorError`], naming `row`.
pub fn check_vector<T: Element>(metric: Metric, row: usize, vector: &[T]) -> Result<f32, VectorError> {
    Ok(squared_norm(metric, row, vector)? as f32)
}

/// Returns the squared norm of a valid vector.
fn squared_norm<T: Element>(metric: Metric, row: usize, vector: &[T]) -> Result<f64, VectorError> {
    let mut squared_norm = f64::from((T::distance_fns().dot)(vector, vector));
    // On this slow path, f64 distinguishes NaN, overflow and underflow.
    if !T::EXACT_SUMS && !(1e-30..LONGEST).contains(&squared_norm) {
        squared_norm = vector.iter().map(|x| f64::from(x.to_f32()).powi(2)).sum();
    }
    if !squared_norm.is_finite() {
        let column = vector.iter().position(|x| !x.to_f32().is_finite()).unwrap_or(0);
        return Err(MatrixError::NotFinite { row, column, value: vector[column].to_f32() }.into());
    }
    if squared_norm >= LONGEST {
        return Err(VectorError::TooLong { row, squared_norm });
    }
    if metric == Metric::Cosine && squared_norm == 0.0 {
        return Err(VectorError::ZeroVector { row });
    }
    Ok(squared_norm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VectorTable;
    use jasper_core::f16;

    fn prepare<T: Element>(
        metric: Metric,
        dimension: usize,
        row: usize,
        vector: &[T],
        out: &mut Vec<T>,
    ) -> Result<f32, VectorError> {
        VectorTable::zeroed(T::KIND, metric, dimension, 0).unwrap().prepare(row, vector, out)
    }

    fn refuse<T: Element>(metric: Metric, vector: &[T]) -> String {
        prepare(metric, 3, 7, vector, &mut Vec::new()).unwrap_err().to_string()
    }

    #[test]
    fn vectors_that_cannot_be_used_are_refused() {
        assert!(
            refuse(Metric::L2, &[1.0_f32, f32::NAN, 0.0])
                .contains("row 7 holds a value that is not finite (NaN) at coordinate 1")
        );
        assert!(refuse(Metric::L2, &[1.0_f32, 0.0, f32::NEG_INFINITY]).contains("(-inf) at coordinate 2"));
        assert!(refuse(Metric::L2, &[f16::INFINITY; 3]).contains("coordinate 0"));
        assert!(refuse(Metric::L2, &[1_u8; 4]).contains("row 7 has 4 coordinates where the index has 3"));
        assert!(refuse(Metric::Cosine, &[0_i8; 3]).contains("zero vector"));
        assert!(refuse(Metric::Cosine, &[-0.0_f32; 3]).contains("zero vector"));
        assert!(refuse(Metric::InnerProduct, &[1e19_f32; 3]).contains("too long"));
    }

    #[test]
    fn floats_under_cosine_get_unit_length() {
        let mut out = Vec::new();
        assert_eq!(prepare(Metric::Cosine, 3, 0, &[3.0_f32, 0.0, 4.0], &mut out).unwrap(), 25.0);
        assert_eq!(out, [0.6, 0.0, 0.8, 0.0]);
        prepare(Metric::Cosine, 2, 0, &[1e-30_f32, 0.0], &mut out).unwrap();
        assert_eq!(out[0], 1.0);
        let mut bytes = Vec::new();
        prepare(Metric::Cosine, 2, 0, &[3_u8, 4], &mut bytes).unwrap();
        assert_eq!(bytes[..3], [3, 4, 0]);
    }
}
