//! Vectors in memory whose element type is a value.

use std::io;

use crate::{Element, ElementKind, MAX_DIMENSION, MatrixError, MatrixView, Vectors, with_element};

/// One vector of any element type, in memory.
///
/// ```
/// use jasper_core::{ElementKind, VectorView};
///
/// let vector = VectorView::from(&[1_i8, 2, 3][..]);
/// assert_eq!((vector.element(), vector.len(), vector.of::<i8>()), (ElementKind::I8, 3, &[1, 2, 3][..]));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct VectorView<'a> {
    bytes: &'a [u8],
    element: ElementKind,
}

impl<'a> VectorView<'a> {
    /// Type of a coordinate.
    pub fn element(&self) -> ElementKind {
        self.element
    }

    /// Number of coordinates.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.element.size()
    }

    /// Whether there are no coordinates.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The coordinates.
    ///
    /// # Panics
    /// Panics if `T` is not the element type.
    #[inline]
    pub fn of<T: Element>(&self) -> &'a [T] {
        assert_eq!(T::KIND, self.element, "the element of the vector");
        bytemuck::cast_slice(self.bytes)
    }

    /// The coordinates as f32, which holds the values of every element type.
    pub fn to_f32(&self) -> Vec<f32> {
        let mut floats = vec![0.0; self.len()];
        with_element!(self.element, T => T::slice_to_f32(self.of(), &mut floats));
        floats
    }
}

impl<'a, T: Element> From<&'a [T]> for VectorView<'a> {
    fn from(vector: &'a [T]) -> Self {
        Self { bytes: bytemuck::cast_slice(vector), element: T::KIND }
    }
}

/// Vectors of one dimension and of any element type, in memory.
///
/// ```
/// use jasper_core::{ElementKind, VectorBuffer, Vectors};
///
/// let mut vectors = VectorBuffer::new(ElementKind::F32, 2)?;
/// Vectors::from(&[1_u8, 2]).with_rows(ElementKind::F32, |rows| vectors.extend(rows.iter().copied()))?;
/// assert_eq!((vectors.len(), vectors.row(0).of::<f32>()), (1, &[1.0, 2.0][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct VectorBuffer {
    /// The coordinates of all, aligned as those of every element type.
    words: Vec<u32>,
    /// How many bytes of the words are coordinates.
    bytes: usize,
    element: ElementKind,
    dimension: usize,
}

impl VectorBuffer {
    /// No vectors.
    ///
    /// # Errors
    /// Returns [`MatrixError::Dimension`] if it is out of range.
    pub fn new(element: ElementKind, dimension: usize) -> Result<Self, MatrixError> {
        if dimension == 0 || dimension > MAX_DIMENSION {
            return Err(MatrixError::Dimension(dimension));
        }
        Ok(Self { words: Vec::new(), bytes: 0, element, dimension })
    }

    /// Reads vectors, and converts them: see [`Vectors::with_matrix`].
    ///
    /// # Errors
    /// As [`Vectors::with_matrix`].
    pub fn read(vectors: Vectors<'_>, element: ElementKind) -> io::Result<Self> {
        let mut read = Self::new(element, vectors.dimension()).map_err(io::Error::other)?;
        let bytes = vectors.len().saturating_mul(read.row_bytes());
        read.words.try_reserve_exact(bytes.div_ceil(size_of::<u32>()))?;
        read.set_bytes(bytes);
        let out = read.bytes_mut();
        let done = with_element!(element, T => vectors.with_source::<T, _>(|source| {
            source.read(0..source.len(), bytemuck::cast_slice_mut(out))
        }));
        done.map_err(io::Error::other)??;
        Ok(read)
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.bytes / self.row_bytes()
    }

    /// Whether there are no vectors.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Coordinates per vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Returns a vector by its number.
    ///
    /// # Panics
    /// Panics if there is no such vector.
    pub fn row(&self, number: usize) -> VectorView<'_> {
        let bytes = &self.bytes()[number * self.row_bytes()..][..self.row_bytes()];
        VectorView { bytes, element: self.element }
    }

    /// The vectors, one after another.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = VectorView<'_>> + Clone {
        (0..self.len()).map(|number| self.row(number))
    }

    /// All of the vectors.
    pub fn vectors(&self) -> Vectors<'_> {
        with_element!(self.element, T => {
            let all = MatrixView::<T>::new(bytemuck::cast_slice(self.bytes()), self.dimension);
            all.expect("whole vectors of a valid dimension").into()
        })
    }

    fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.bytes]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.bytes]
    }

    fn set_bytes(&mut self, bytes: usize) {
        self.words.resize(bytes.div_ceil(size_of::<u32>()), 0);
        self.bytes = bytes;
    }

    fn row_bytes(&self) -> usize {
        self.dimension * self.element.size()
    }
}

impl From<VectorView<'_>> for VectorBuffer {
    /// A copy of a vector.
    ///
    /// # Panics
    /// Panics if its dimension is out of range.
    fn from(vector: VectorView<'_>) -> Self {
        let mut one = Self::new(vector.element(), vector.len()).expect("the dimension is in range");
        one.extend([vector]);
        one
    }
}

impl<'a> Extend<VectorView<'a>> for VectorBuffer {
    /// Adds vectors.
    ///
    /// # Panics
    /// Panics if one has another dimension or element type.
    fn extend<I: IntoIterator<Item = VectorView<'a>>>(&mut self, vectors: I) {
        for VectorView { bytes, element } in vectors {
            assert_eq!((element, bytes.len()), (self.element, self.row_bytes()), "a vector like the others");
            let first = self.bytes;
            self.set_bytes(first + bytes.len());
            self.bytes_mut()[first..].copy_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::f16;

    #[test]
    fn vectors_are_kept_one_after_another() {
        fn check<T: Element>() {
            let values: Vec<T> = (0..15).map(|x| T::from_f32(x as f32)).collect();
            let rows = MatrixView::new(&values, 3).unwrap();
            let mut buffer = VectorBuffer::read(rows.slice(0..2).into(), T::KIND).unwrap();
            buffer.extend(rows.slice(2..5).rows().map(VectorView::from));
            assert_eq!((buffer.len(), buffer.dimension()), (5, 3));
            assert!(buffer.rows().zip(rows.rows()).all(|(kept, row)| kept.of::<T>() == row));
            let floats = buffer.vectors().with_matrix::<f32, _>(|all| all.row(4).to_vec()).unwrap();
            assert_eq!(floats, buffer.row(4).to_f32());
        }
        check::<f32>();
        check::<f16>();
        check::<u8>();
        check::<i8>();
    }

    #[test]
    fn other_vectors_are_refused() {
        for dimension in [0, MAX_DIMENSION + 1] {
            assert!(matches!(VectorBuffer::new(ElementKind::U8, dimension), Err(MatrixError::Dimension(_))));
        }
        let extend = |vector: VectorView<'_>| {
            std::panic::catch_unwind(|| VectorBuffer::new(ElementKind::U8, 2).unwrap().extend([vector]))
        };
        assert!(extend([1_u8, 2][..].into()).is_ok());
        assert!(extend([1_u8][..].into()).is_err() && extend([1_i8, 2][..].into()).is_err());
    }
}
