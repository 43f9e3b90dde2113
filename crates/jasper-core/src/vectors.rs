//! Vectors of any element type.

use std::fmt;
use std::io;
use std::ops::Range;

use crate::{Element, ElementKind, MatrixError, MatrixView, VectorSource, VectorView, f16, with_element};

/// Vectors of any element type, as an index takes them: made from one vector, a [`MatrixView`], a file, or any other
/// [`VectorSource`].
///
/// ```
/// use jasper_core::{ElementKind, MatrixView, Vectors};
///
/// let one = Vectors::from(&[1.0_f32, 2.0, 3.0]);
/// assert_eq!((one.len(), one.dimension()), (1, 3));
/// let several = Vectors::from(MatrixView::new(&[1_u8, 2, 3, 4, 5, 6], 2)?);
/// assert_eq!((several.len(), several.element()), (3, ElementKind::U8));
///
/// // Values are rounded to another element type, and refused if it cannot hold them.
/// several.with_matrix::<f32, _>(|floats| assert_eq!(floats.row(1), [3.0, 4.0]))?;
/// one.with_matrix::<u8, _>(|bytes| assert_eq!(bytes.row(0), [1, 2, 3]))?;
/// assert!(Vectors::from(&[300.0_f32, 2.0]).with_matrix::<u8, _>(|_| ()).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Vectors<'a>(pub(crate) AnySource<'a>);

/// Makes the same vectors on any thread: see [`Vectors::concurrent`].
pub type ConcurrentVectors<'a> = Box<dyn Fn() -> Vectors<'a> + Send + Sync + 'a>;

/// Vectors of one of the element types.
#[derive(Clone, Copy)]
pub enum AnySource<'a> {
    /// Of `f32`.
    F32(Source<'a, f32>),
    /// Of `f16`.
    F16(Source<'a, f16>),
    /// Of `u8`.
    U8(Source<'a, u8>),
    /// Of `i8`.
    I8(Source<'a, i8>),
}

/// Where vectors of one element type are.
#[derive(Clone, Copy)]
pub enum Source<'a, T> {
    /// One vector.
    Row(&'a [T]),
    /// Vectors in memory.
    Matrix(MatrixView<'a, T>),
    /// Vectors that are read.
    Read(&'a dyn VectorSource<T>),
}

/// Evaluates an expression on the source, of whichever element type.
macro_rules! each {
    ($vectors:expr, $source:ident => $body:expr) => {
        match $vectors.0 {
            AnySource::F32($source) => $body,
            AnySource::F16($source) => $body,
            AnySource::U8($source) => $body,
            AnySource::I8($source) => $body,
        }
    };
}

impl<'a> Vectors<'a> {
    /// The vectors of a source.
    pub fn from_source<T: Element>(source: &'a dyn VectorSource<T>) -> Self {
        Self(T::any(Source::Read(source)))
    }

    /// The vectors of a source of every element type, as those of this one.
    pub fn of_element<S>(element: ElementKind, source: &'a S) -> Self
    where
        S: VectorSource<f32> + VectorSource<f16> + VectorSource<u8> + VectorSource<i8>,
    {
        with_element!(element, T => Self::from_source::<T>(source))
    }

    /// Type of a coordinate.
    pub fn element(&self) -> ElementKind {
        fn kind<T: Element>(_: Source<'_, T>) -> ElementKind {
            T::KIND
        }
        each!(self, source => kind(source))
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        each!(self, source => source.len())
    }

    /// Whether there are no vectors.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Coordinates per vector.
    pub fn dimension(&self) -> usize {
        each!(self, source => source.dimension())
    }

    /// Refuses a slice, which is one vector, where several are expected.
    ///
    /// # Errors
    /// Returns [`MatrixError::OneVector`].
    pub fn require_matrix(&self) -> Result<(), MatrixError> {
        each!(self, source => match source {
            Source::Row(row) => Err(MatrixError::OneVector(row.len())),
            _ => Ok(()),
        })
    }

    /// Whether the vectors are in memory.
    pub fn is_in_memory(&self) -> bool {
        each!(self, source => source.is_in_memory())
    }

    /// Returns what makes the same vectors on any thread, if several threads may read them: see
    /// [`VectorSource::concurrent`].
    pub fn concurrent(&self) -> Option<ConcurrentVectors<'a>> {
        each!(self, source => match source {
            Source::Row(row) => Some(Box::new(move || row.into())),
            Source::Matrix(matrix) => Some(Box::new(move || matrix.into())),
            Source::Read(source) => match (source.in_memory(), source.concurrent()) {
                (Some(matrix), _) => Some(Box::new(move || matrix.into())),
                (None, Some(source)) => Some(Box::new(move || Self::from_source(source))),
                (None, None) => None,
            },
        })
    }

    /// Calls `call` with a source of these vectors as `T`, to which they are converted when they are read: see
    /// [`Self::with_matrix`].
    ///
    /// # Errors
    /// Returns [`MatrixError`] for a vector without coordinates, or with too many.
    pub fn with_source<T: Element, R>(
        &self,
        call: impl FnOnce(&dyn VectorSource<T>) -> R,
    ) -> Result<R, MatrixError> {
        let (mut call, mut result) = (Some(call), None);
        self.call_with_source(&mut |source| result = call.take().map(|call| call(source)))?;
        Ok(result.expect("there is a source"))
    }

    /// [`Self::with_source`], compiled once for each element.
    fn call_with_source<T: Element>(
        &self,
        call: &mut dyn FnMut(&dyn VectorSource<T>),
    ) -> Result<(), MatrixError> {
        match T::of(self.0) {
            Some(source) => source.with(call),
            None => each!(self, source => source.with(&mut |source| match source.concurrent() {
                Some(source) => call(&Converted(source)),
                None => call(&Converted(source)),
            })),
        }
    }

    /// Calls `call` with all vectors as `T`. They are copied if they have another element type, or are not in memory.
    ///
    /// Values are rounded to the nearest of `T`.
    ///
    /// # Errors
    /// Returns the I/O error of a source. Its [inner error](io::Error::get_ref) is a [`MatrixError`] if the shape is
    /// invalid, `T` cannot hold a value, or rounding would change a vector by more than a twentieth of its length.
    pub fn with_matrix<T: Element, R>(&self, call: impl FnOnce(MatrixView<'_, T>) -> R) -> io::Result<R> {
        let read = |source: &dyn VectorSource<T>| match source.in_memory() {
            Some(matrix) => Ok(call(matrix)),
            None => {
                let mut values = zeroed(source.len().saturating_mul(source.dimension()))?;
                source.read(0..source.len(), &mut values)?;
                Ok(call(MatrixView::new(&values, source.dimension()).map_err(io::Error::other)?))
            }
        };
        self.with_source(read).map_err(io::Error::other)?
    }
}

impl Vectors<'_> {
    /// Calls `call` with these vectors as ones of an element type, to which they are converted when they are read: see
    /// [`Self::with_matrix`].
    ///
    /// # Errors
    /// As [`Self::with_source`].
    pub fn converted<R>(
        &self,
        element: ElementKind,
        call: impl FnOnce(Vectors<'_>) -> R,
    ) -> Result<R, MatrixError> {
        if element == self.element() {
            return Ok(call(*self));
        }
        let (mut call, mut result) = (Some(call), None);
        with_element!(element, T => self.call_with_source::<T>(&mut |source| {
            result = call.take().map(|call| call(Vectors::from_source(source)));
        }))?;
        Ok(result.expect("there is a source"))
    }

    /// Calls `call` with each of these vectors, in memory and converted to an element type: see [`Self::with_matrix`].
    ///
    /// # Errors
    /// As [`Self::with_matrix`].
    pub fn with_rows<R>(
        &self,
        element: ElementKind,
        call: impl FnOnce(&[VectorView<'_>]) -> R,
    ) -> io::Result<R> {
        let (mut call, mut result) = (Some(call), None);
        self.call_with_rows(element, &mut |rows| result = call.take().map(|call| call(rows)))?;
        Ok(result.expect("there are rows"))
    }

    /// [`Self::with_rows`], compiled once.
    fn call_with_rows(
        &self,
        element: ElementKind,
        call: &mut dyn FnMut(&[VectorView<'_>]),
    ) -> io::Result<()> {
        with_element!(element, T => self.with_matrix::<T, _>(|matrix| match matrix.len() {
            1 => call(&[matrix.row(0).into()]),
            _ => call(&matrix.rows().map(VectorView::from).collect::<Vec<_>>()),
        }))
    }
}

impl<T: Element> Source<'_, T> {
    fn len(&self) -> usize {
        match self {
            Self::Row(_) => 1,
            Self::Matrix(matrix) => matrix.len(),
            Self::Read(source) => source.len(),
        }
    }

    fn dimension(&self) -> usize {
        match self {
            Self::Row(row) => row.len(),
            Self::Matrix(matrix) => matrix.dimension(),
            Self::Read(source) => source.dimension(),
        }
    }

    fn is_in_memory(&self) -> bool {
        match self {
            Self::Row(_) | Self::Matrix(_) => true,
            Self::Read(source) => source.in_memory().is_some(),
        }
    }

    fn with(&self, call: &mut dyn FnMut(&dyn VectorSource<T>)) -> Result<(), MatrixError> {
        match self {
            Self::Row(row) => call(&MatrixView::new(row, row.len())?),
            Self::Matrix(matrix) => call(matrix),
            Self::Read(source) => call(*source),
        }
        Ok(())
    }
}

/// A source whose values are converted.
struct Converted<'a, S: ?Sized>(&'a S);

/// Reads vectors of a source, converted to `T`.
fn read_as<F: Element, T: Element>(
    source: &dyn VectorSource<F>,
    range: Range<usize>,
    out: &mut [T],
) -> io::Result<()> {
    let (mut values, mut floats) = (zeroed::<F>(out.len())?, zeroed(out.len())?);
    source.read(range.clone(), &mut values)?;
    F::slice_to_f32(&values, &mut floats);
    T::slice_from_f32(&floats, out);
    if T::KIND == ElementKind::F32 {
        return Ok(()); // It holds the values of all.
    }
    let (dimension, mut rounded) = (source.dimension().max(1), zeroed(out.len())?);
    T::slice_to_f32(out, &mut rounded);
    let rows = floats.chunks_exact(dimension).zip(rounded.chunks_exact(dimension));
    for (row, (exact, rounded)) in range.zip(rows) {
        check_rounding(row, exact, rounded, T::KIND).map_err(io::Error::other)?;
    }
    Ok(())
}

/// As many zeros, if there is memory for them.
fn zeroed<T: Element>(len: usize) -> io::Result<Vec<T>> {
    let mut values = Vec::new();
    values.try_reserve_exact(len)?;
    values.resize(len, T::zeroed());
    Ok(values)
}

impl<F: Element, T: Element> VectorSource<T> for Converted<'_, dyn VectorSource<F> + '_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn dimension(&self) -> usize {
        self.0.dimension()
    }

    fn read(&self, range: Range<usize>, out: &mut [T]) -> io::Result<()> {
        read_as(self.0, range, out)
    }
}

impl<F: Element, T: Element> VectorSource<T> for Converted<'_, dyn VectorSource<F> + Sync + '_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn dimension(&self) -> usize {
        self.0.dimension()
    }

    fn read(&self, range: Range<usize>, out: &mut [T]) -> io::Result<()> {
        read_as(self.0, range, out)
    }

    fn concurrent(&self) -> Option<&(dyn VectorSource<T> + Sync)> {
        Some(self)
    }
}

/// The largest change of a vector by rounding, as a share of its length.
const LARGEST_CHANGE: f64 = 0.05;

/// Checks what became of a vector by rounding to an element type.
fn check_rounding(
    row: usize,
    exact: &[f32],
    rounded: &[f32],
    element: ElementKind,
) -> Result<(), MatrixError> {
    let (mut squared, mut changed) = (0.0, 0.0);
    for (column, (&value, rounded)) in exact.iter().zip(rounded).enumerate() {
        if !value.is_finite() {
            return Err(MatrixError::NotFinite { row, column, value });
        }
        let change = f64::from(value - rounded);
        // Infinite if the type has no value so large.
        if !change.is_finite() || element.is_integer() && change.abs() > 0.5 {
            return Err(MatrixError::Value { row, column, value, element });
        }
        squared += f64::from(value).powi(2);
        changed += change.powi(2);
    }
    if changed > LARGEST_CHANGE.powi(2) * squared {
        return Err(MatrixError::Rounding { row, change: (changed / squared).sqrt(), element });
    }
    Ok(())
}

impl<'a, T: Element> From<&'a [T]> for Vectors<'a> {
    fn from(vector: &'a [T]) -> Self {
        Self(T::any(Source::Row(vector)))
    }
}

impl<'a, T: Element, const N: usize> From<&'a [T; N]> for Vectors<'a> {
    fn from(vector: &'a [T; N]) -> Self {
        Self::from(vector.as_slice())
    }
}

impl<'a, T: Element> From<&'a Vec<T>> for Vectors<'a> {
    fn from(vector: &'a Vec<T>) -> Self {
        Self::from(vector.as_slice())
    }
}

impl<'a, T: Element> From<MatrixView<'a, T>> for Vectors<'a> {
    fn from(matrix: MatrixView<'a, T>) -> Self {
        Self(T::any(Source::Matrix(matrix)))
    }
}

impl<'a, T: Element> From<&MatrixView<'a, T>> for Vectors<'a> {
    fn from(matrix: &MatrixView<'a, T>) -> Self {
        Self::from(*matrix)
    }
}

impl fmt::Debug for Vectors<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vectors({} x {} {})", self.len(), self.dimension(), self.element())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted<T: Element>(vectors: Vectors<'_>) -> Result<Vec<T>, MatrixError> {
        let all = vectors.with_matrix(|matrix| matrix.rows().flatten().copied().collect());
        all.map_err(|error| error.downcast().expect("nothing is read"))
    }

    #[test]
    fn every_element_type_becomes_every_other_and_back() {
        fn round_trip<F: Element, T: Element>() {
            let values: Vec<F> = (0..120).map(|x| F::from_f32(x as f32)).collect();
            let there: Vec<T> = converted(MatrixView::new(&values, 8).unwrap().into()).unwrap();
            let back: Vec<F> = converted(MatrixView::new(&there, 8).unwrap().into()).unwrap();
            assert_eq!(back, values);
        }
        fn to_all<F: Element>() {
            round_trip::<F, f32>();
            round_trip::<F, f16>();
            round_trip::<F, u8>();
            round_trip::<F, i8>();
        }
        to_all::<f32>();
        to_all::<f16>();
        to_all::<u8>();
        to_all::<i8>();
    }

    #[test]
    fn what_an_element_type_cannot_hold_is_refused_by_name() {
        let message = |vectors: Vectors<'_>| converted::<u8>(vectors).unwrap_err().to_string();
        assert_eq!(converted::<u8>((&[12.4_f32, 254.5]).into()), Ok(vec![12, 254]));
        assert!(message((&[12.0_f32, 300.0]).into()).contains("300"));
        assert!(message((&[-1_i8, 100]).into()).contains("u8"));
        assert!(message((&[f32::NAN]).into()).contains("not finite (NaN)"));
        assert!(message((&[0.6_f32, 0.8]).into()).contains("row 0"));
        assert!(converted::<f16>((&[1e6_f32]).into()).is_err());
        assert_eq!(converted::<f16>((&[0.0_f32, 0.1]).into()).unwrap()[1], f16::from_f32(0.1));
        assert!(converted::<f16>((&[1e6_f32]).into()).unwrap_err().to_string().contains("f16"));
        assert_eq!(converted::<f32>((&[] as &[u8]).into()), Err(MatrixError::Dimension(0)));
        assert_eq!(Vectors::from(&[1_u8, 2]).require_matrix(), Err(MatrixError::OneVector(2)));
    }

    #[test]
    fn a_source_that_threads_may_read_stays_one() {
        let bytes = [7_u8; 6];
        let matrix = MatrixView::new(&bytes, 2).unwrap();
        let is_concurrent = |source: &dyn VectorSource<f32>| source.concurrent().is_some();
        assert!(Vectors::from(matrix).with_source(is_concurrent).unwrap());
    }
}
