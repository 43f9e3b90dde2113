//! Row-major views of vectors, and the sources that builds read from.

use crate::{Element, ElementKind};

/// Alignment of stored rows in bytes: a 16-byte load never straddles two rows.
pub const ROW_ALIGN_BYTES: usize = 16;

/// Maximum dimension: 32,768 squared differences of bytes fit an i32 accumulator.
pub const MAX_DIMENSION: usize = 1 << 15;

/// The length in elements of a row of `dimension` coordinates, padded to [`ROW_ALIGN_BYTES`]. Padding is always zero.
pub const fn padded_len<T>(dimension: usize) -> usize {
    let per_chunk = ROW_ALIGN_BYTES / size_of::<T>();
    dimension.div_ceil(per_chunk) * per_chunk
}

/// A matrix has an invalid shape or value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MatrixError {
    /// The dimension is zero or above [`MAX_DIMENSION`].
    #[error("dimension ({0}) must be between 1 and {MAX_DIMENSION}")]
    Dimension(usize),
    /// The slice is not a whole number of rows.
    #[error("{len} elements are not a whole number of rows of {dimension}; pass rows x dimension elements")]
    Ragged {
        /// Elements of the slice.
        len: usize,
        /// Elements per row.
        dimension: usize,
    },
    /// A slice is one vector, and several are expected.
    #[error("{0} values in a slice are one vector; for several, give MatrixView::new(&values, dimension)")]
    OneVector(usize),
    /// The stride is shorter than a row.
    #[error("row stride ({stride}) must be at least the dimension ({dimension})")]
    Stride {
        /// Elements from the start of one row to the next.
        stride: usize,
        /// Coordinates per row.
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
    /// The element type cannot hold a value.
    #[error(
        "row {row} has the value {value} at coordinate {column}, which {element} cannot hold; scale the vectors, or use \
         an index of f32"
    )]
    Value {
        /// Row of the value.
        row: usize,
        /// Coordinate of the value.
        column: usize,
        /// The value.
        value: f32,
        /// The element type.
        element: ElementKind,
    },
    /// A vector is too short for the steps of the element type.
    #[error(
        "row {row} would change by {:.0}% of its length when it is rounded to {element}; scale the vectors, or use an \
         index of f32",
        100.0 * .change
    )]
    Rounding {
        /// Row of the vector.
        row: usize,
        /// Length of the change, as a share of that of the vector.
        change: f64,
        /// The element type.
        element: ElementKind,
    },
}

/// A borrowed row-major matrix: `len` rows of `dimension` coordinates, each `stride` elements after the one before.
#[derive(Clone, Copy, Debug)]
pub struct MatrixView<'a, T> {
    data: &'a [T],
    dimension: usize,
    stride: usize,
}

impl<'a, T: Element> MatrixView<'a, T> {
    /// Views `data`, of shape `rows x dimension`, as a matrix. It may be empty.
    ///
    /// # Errors
    /// Returns [`MatrixError::Dimension`] or [`MatrixError::Ragged`].
    pub fn new(data: &'a [T], dimension: usize) -> Result<Self, MatrixError> {
        Self::with_stride(data, dimension, dimension)
    }

    /// Views `data`, of shape `rows x stride`, as rows of the first `dimension` of every `stride` elements.
    ///
    /// # Errors
    /// Returns [`MatrixError::Dimension`], [`MatrixError::Stride`], or, if the length of `data` is not a multiple of
    /// `stride`, [`MatrixError::Ragged`].
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

    /// Coordinates per row.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Row `index`, without its padding.
    ///
    /// # Panics
    /// Panics if `index` is not below [`Self::len`].
    pub fn row(&self, index: usize) -> &'a [T] {
        &self.data[index * self.stride..][..self.dimension]
    }

    /// Iterates over the rows, without their padding.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &'a [T]> + use<'a, T> {
        let dimension = self.dimension;
        self.data.chunks_exact(self.stride).map(move |row| &row[..dimension])
    }

    /// A view of the rows `range`.
    ///
    /// # Panics
    /// Panics if the range ends past [`Self::len`].
    pub fn slice(&self, range: std::ops::Range<usize>) -> Self {
        Self { data: &self.data[range.start * self.stride..range.end * self.stride], ..*self }
    }

    /// Checks that no coordinate is NaN or infinite. Costs a pass over the data, nothing for integers.
    ///
    /// # Errors
    /// Returns [`MatrixError::NotFinite`] with the first such value.
    pub fn check_finite(&self) -> Result<(), MatrixError> {
        if T::EXACT_SUMS {
            return Ok(());
        }
        for (row, values) in self.rows().enumerate() {
            // 0 * x is zero for finite x and NaN otherwise: one sum per row, and no branch per value.
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

/// Vectors that are read in chunks, from memory or a file. Builds and inserts read from a source.
///
/// [`MatrixView`] is the source in memory.
pub trait VectorSource<T> {
    /// Number of vectors.
    fn len(&self) -> usize;

    /// Whether there are no vectors.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Coordinates per vector.
    fn dimension(&self) -> usize;

    /// Copies the vectors `range` into `out`, of shape `range.len() x dimension`, row-major.
    ///
    /// # Errors
    /// Returns an I/O error of the medium. Sources in memory never fail.
    fn read(&self, range: std::ops::Range<usize>, out: &mut [T]) -> std::io::Result<()>;

    /// Copies the vectors of these rows, which ascend, into `out`, of shape `rows.len() x dimension`, row-major. Unless
    /// a source does it in a better way, it reads whole ranges of up to 1,024 rows, from one of them to another.
    ///
    /// # Errors
    /// As [`Self::read`].
    ///
    /// # Panics
    /// Panics if `out` has another length.
    fn gather(&self, rows: &[usize], out: &mut [T]) -> std::io::Result<()>
    where
        T: Element,
    {
        const CHUNK: usize = 1024;
        let dimension = self.dimension();
        assert_eq!(out.len(), rows.len() * dimension, "{} rows of {dimension} coordinates", rows.len());
        let (mut rows, mut chunk) = (rows, Vec::new());
        let mut out = out.chunks_exact_mut(dimension);
        while let Some(&first) = rows.first() {
            let here = rows.partition_point(|&row| row < first + CHUNK);
            let span = first..rows[here - 1] + 1;
            chunk.resize(span.len() * dimension, T::zeroed());
            self.read(span, &mut chunk)?;
            for (&row, out) in rows[..here].iter().zip(&mut out) {
                out.copy_from_slice(&chunk[(row - first) * dimension..][..dimension]);
            }
            rows = &rows[here..];
        }
        Ok(())
    }

    /// Returns the source if several threads may read at once, in any order, faster than one. `None` means that vectors
    /// are read in order on the calling thread.
    fn concurrent(&self) -> Option<&(dyn VectorSource<T> + Sync)> {
        None
    }

    /// Returns all vectors if they are in memory, so that they need not be copied.
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

    fn gather(&self, rows: &[usize], out: &mut [T]) -> std::io::Result<()> {
        assert_eq!(out.len(), rows.len() * self.dimension, "{} rows of {}", rows.len(), self.dimension);
        for (&row, out) in rows.iter().zip(out.chunks_exact_mut(self.dimension)) {
            out.copy_from_slice(self.row(row));
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

    /// Vectors that are read in chunks, as if they were not in memory.
    struct Unmapped<'a>(MatrixView<'a, u8>);

    impl VectorSource<u8> for Unmapped<'_> {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn dimension(&self) -> usize {
            self.0.dimension()
        }

        fn read(&self, range: std::ops::Range<usize>, out: &mut [u8]) -> std::io::Result<()> {
            self.0.read(range, out)
        }
    }

    #[test]
    fn rows_are_gathered() {
        let all: Vec<u8> = (0..3000_u32).flat_map(|row| [row as u8, (row >> 8) as u8]).collect();
        let view = MatrixView::new(&all, 2).unwrap();
        let rows: Vec<usize> = (5..3000).filter(|row| row % 7 < 2 || *row > 2900).collect();
        let expected: Vec<u8> = rows.iter().flat_map(|&row| all[row * 2..][..2].to_vec()).collect();
        for source in [&view as &dyn VectorSource<u8>, &Unmapped(view)] {
            let mut out = vec![0; rows.len() * 2];
            source.gather(&rows, &mut out).unwrap();
            assert!(out == expected);
        }
    }

    #[test]
    fn rows_are_padded_to_sixteen_bytes() {
        assert_eq!(padded_len::<f32>(1), 4);
        assert_eq!(padded_len::<f32>(4), 4);
        assert_eq!(padded_len::<u8>(784), 784);
        assert_eq!(padded_len::<half::f16>(9), 16);
    }
}
