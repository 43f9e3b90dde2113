//! Row-major views of vectors.

use crate::Element;

/// Rows at rest start and end on multiples of this many bytes: one 16-byte load never straddles two rows.
pub const ROW_ALIGN_BYTES: usize = 16;

/// Largest dimension: 32,768 squared differences of bytes still fit an i32 accumulator.
pub const MAX_DIMENSION: usize = 1 << 15;

/// Elements of a row of `dimension` coordinates padded to [`ROW_ALIGN_BYTES`]. The padding is zero everywhere.
pub const fn padded_len<T>(dimension: usize) -> usize {
    let per_chunk = ROW_ALIGN_BYTES / size_of::<T>();
    dimension.div_ceil(per_chunk) * per_chunk
}

/// A matrix view could not be made, or a row of it cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MatrixError {
    /// The dimension is zero or above [`MAX_DIMENSION`].
    #[error("dimension ({0}) must be between 1 and {MAX_DIMENSION}")]
    Dimension(usize),
    /// The slice does not hold whole rows.
    #[error("{len} elements are no whole number of rows of dimension {dimension}")]
    Ragged {
        /// Elements given.
        len: usize,
        /// Dimension asked for.
        dimension: usize,
    },
    /// The stride is shorter than a row.
    #[error("row stride ({stride}) must be at least the dimension ({dimension})")]
    Stride {
        /// Elements from row to row.
        stride: usize,
        /// Dimension asked for.
        dimension: usize,
    },
    /// A coordinate is NaN or infinite.
    #[error(
        "row {row} holds a value that is not finite ({value}) at coordinate {column}; remove the row or replace the value"
    )]
    NotFinite {
        /// Row of the value.
        row: usize,
        /// Coordinate of the value.
        column: usize,
        /// The value.
        value: f32,
    },
}

/// Borrowed rows of equal dimension: `rows x dimension`, row-major, `stride` elements from row to row.
#[derive(Clone, Copy, Debug)]
pub struct MatrixView<'a, T> {
    data: &'a [T],
    dimension: usize,
    stride: usize,
}

impl<'a, T: Element> MatrixView<'a, T> {
    /// Views `data` as rows of `dimension` elements without padding. No rows is allowed.
    ///
    /// # Errors
    /// [`MatrixError::Dimension`] and [`MatrixError::Ragged`].
    pub fn new(data: &'a [T], dimension: usize) -> Result<Self, MatrixError> {
        Self::with_stride(data, dimension, dimension)
    }

    /// Views `data` as rows of `dimension` elements that start every `stride` elements.
    ///
    /// # Errors
    /// [`MatrixError::Dimension`], [`MatrixError::Stride`], and [`MatrixError::Ragged`] when `data` is not a
    /// multiple of `stride`.
    pub fn with_stride(data: &'a [T], dimension: usize, stride: usize) -> Result<Self, MatrixError> {
        if dimension == 0 || dimension > MAX_DIMENSION {
            return Err(MatrixError::Dimension(dimension));
        }
        if stride < dimension {
            return Err(MatrixError::Stride { stride, dimension });
        }
        if !data.len().is_multiple_of(stride) {
            return Err(MatrixError::Ragged { len: data.len(), dimension: stride });
        }
        Ok(Self { data, dimension, stride })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.data.len() / self.stride
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Coordinates of a row.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Row `index`, without its padding.
    ///
    /// # Panics
    /// If `index` is not below [`Self::len`].
    pub fn row(&self, index: usize) -> &'a [T] {
        &self.data[index * self.stride..][..self.dimension]
    }

    /// All rows in order, without padding.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &'a [T]> + use<'a, T> {
        let dimension = self.dimension;
        self.data.chunks_exact(self.stride).map(move |row| &row[..dimension])
    }

    /// The rows `range` as a view of their own.
    ///
    /// # Panics
    /// If the range ends beyond [`Self::len`].
    pub fn slice(&self, range: std::ops::Range<usize>) -> Self {
        Self { data: &self.data[range.start * self.stride..range.end * self.stride], ..*self }
    }

    /// Checks that no coordinate is NaN or infinite. Free for integers.
    ///
    /// # Errors
    /// [`MatrixError::NotFinite`] with the first such value.
    pub fn check_finite(&self) -> Result<(), MatrixError> {
        if T::EXACT {
            return Ok(());
        }
        for (row, values) in self.rows().enumerate() {
            // 0 * x is zero for every finite x and NaN for the others: one sum a row, no branch a value.
            if values.iter().map(|x| x.to_f32() * 0.0).sum::<f32>() == 0.0 {
                continue;
            }
            if let Some(column) = values.iter().position(|x| !x.to_f32().is_finite()) {
                return Err(MatrixError::NotFinite { row, column, value: values[column].to_f32() });
            }
        }
        Ok(())
    }
}

/// Rows that are read a few at a time, from memory or from a file: what a build takes.
pub trait VectorSource<T> {
    /// Number of rows.
    fn len(&self) -> usize;

    /// Whether there are no rows.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Coordinates of a row.
    fn dimension(&self) -> usize;

    /// Copies the rows `range` into `out`, which holds `range.len() x dimension` elements, row-major.
    ///
    /// # Errors
    /// What the medium says; never for rows in memory.
    fn read(&self, range: std::ops::Range<usize>, out: &mut [T]) -> std::io::Result<()>;

    /// The source itself, if several threads may read at once, in any order, and are faster than one. Without it, rows
    /// are read in order, by the thread of the caller.
    fn concurrent(&self) -> Option<&(dyn VectorSource<T> + Sync)> {
        None
    }

    /// All of the rows, where they are in memory as they are read: they need not be copied to be looked at.
    fn in_memory(&self) -> Option<MatrixView<'_, T>> {
        None
    }
}

impl<T: Element> VectorSource<T> for MatrixView<'_, T> {
    fn len(&self) -> usize {
        self.len()
    }

    fn dimension(&self) -> usize {
        self.dimension()
    }

    fn read(&self, range: std::ops::Range<usize>, out: &mut [T]) -> std::io::Result<()> {
        for (row, out) in self.slice(range).rows().zip(out.chunks_exact_mut(self.dimension)) {
            out.copy_from_slice(row);
        }
        Ok(())
    }

    fn concurrent(&self) -> Option<&(dyn VectorSource<T> + Sync)> {
        Some(self)
    }

    fn in_memory(&self) -> Option<MatrixView<'_, T>> {
        Some(*self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_check_their_shape() {
        let data = [0.0_f32; 12];
        assert_eq!(MatrixView::new(&data, 4).unwrap().len(), 3);
        assert_eq!(MatrixView::with_stride(&data, 3, 4).unwrap().row(2).len(), 3);
        assert!(matches!(MatrixView::new(&data, 0), Err(MatrixError::Dimension(0))));
        assert!(matches!(MatrixView::new(&data, 5), Err(MatrixError::Ragged { .. })));
        assert!(matches!(MatrixView::with_stride(&data, 4, 3), Err(MatrixError::Stride { .. })));
        assert!(MatrixView::new(&data, MAX_DIMENSION + 1).is_err());
    }

    #[test]
    fn values_that_are_not_finite_are_found() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut data = [1.0_f32; 12];
            data[7] = bad;
            let error = MatrixView::new(&data, 4).unwrap().check_finite().unwrap_err();
            assert!(matches!(error, MatrixError::NotFinite { row: 1, column: 3, .. }), "{error}");
        }
        assert!(MatrixView::new(&[f32::MAX; 8], 4).unwrap().check_finite().is_ok());
    }

    #[test]
    fn rows_are_padded_to_sixteen_bytes() {
        assert_eq!(padded_len::<f32>(1), 4);
        assert_eq!(padded_len::<f32>(4), 4);
        assert_eq!(padded_len::<u8>(784), 784);
        assert_eq!(padded_len::<half::f16>(9), 16);
    }
}
