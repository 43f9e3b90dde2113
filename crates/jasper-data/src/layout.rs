//! The position of rows in a vector file. All formats reduce to this, so that one function reads rows.

use jasper_core::{ElementKind, MAX_DIMENSION};

use crate::error::{NpyError, ReadCause};
use crate::read_at::{ReadAt, read_words};
use crate::{VectorFormat, npy};

/// The type of the values in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// An element type.
    Element(ElementKind),
    /// numpy doubles, converted to f32.
    F64,
}

impl Stored {
    pub(crate) const fn size(self) -> usize {
        match self {
            Self::Element(element) => element.size(),
            Self::F64 => 8,
        }
    }

    /// The element to which values are read.
    pub(crate) const fn element(self) -> ElementKind {
        match self {
            Self::Element(element) => element,
            Self::F64 => ElementKind::F32,
        }
    }
}

/// Consecutive rows, each of `prefix` bytes followed by `dimension` values.
///
/// Created only by [`Self::read`], which checks that all rows are within the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowLayout {
    pub(crate) stored: Stored,
    pub(crate) rows: usize,
    pub(crate) dimension: usize,
    /// 4 if each row repeats the dimension, else 0.
    pub(crate) prefix: usize,
    /// Offset of the first row in bytes, prefix included.
    pub(crate) first: u64,
}

impl RowLayout {
    /// Bytes of values per row.
    pub(crate) const fn row_bytes(&self) -> usize {
        self.dimension * self.stored.size()
    }

    /// Bytes per row, prefix included.
    pub(crate) const fn record_bytes(&self) -> usize {
        self.prefix + self.row_bytes()
    }

    /// Offset of row `index` in bytes.
    pub(crate) const fn offset(&self, index: usize) -> u64 {
        self.first + index as u64 * self.record_bytes() as u64
    }

    /// Reads the header and checks it against the length of the file.
    pub(crate) fn read(
        source: &impl ReadAt,
        format: VectorFormat,
        max_rows: Option<usize>,
    ) -> Result<Self, ReadCause> {
        let size = source.size()?;
        let claim = match format {
            VectorFormat::Fvecs => Claim::vecs(source, size, ElementKind::F32)?,
            VectorFormat::Bvecs => Claim::vecs(source, size, ElementKind::U8)?,
            VectorFormat::Bin(element) => Claim::bin(source, size, element)?,
            VectorFormat::Npy => Claim::npy(source, size)?,
        };
        claim.check(size, max_rows)
    }
}

/// The claims of a header, not checked yet.
struct Claim {
    stored: Stored,
    /// Number of rows; `None` if it follows from the length of the file.
    rows: Option<u64>,
    dimension: i64,
    prefix: usize,
    first: u64,
}

impl Claim {
    fn vecs(source: &impl ReadAt, size: u64, element: ElementKind) -> Result<Self, ReadCause> {
        let [dimension] = read_words(source, size)?;
        let dimension = i64::from(dimension as i32);
        Ok(Self { stored: Stored::Element(element), rows: None, dimension, prefix: 4, first: 0 })
    }

    fn bin(source: &impl ReadAt, size: u64, element: ElementKind) -> Result<Self, ReadCause> {
        let [rows, dimension] = read_words(source, size)?;
        let (rows, dimension) = (Some(rows.into()), dimension.into());
        Ok(Self { stored: Stored::Element(element), rows, dimension, prefix: 0, first: 8 })
    }

    fn npy(source: &impl ReadAt, size: u64) -> Result<Self, ReadCause> {
        let npy::Header { descr, shape, first } = npy::Header::read(source, size)?;
        let stored = match descr.as_str() {
            "<f4" => Stored::Element(ElementKind::F32),
            "<f2" => Stored::Element(ElementKind::F16),
            "|u1" => Stored::Element(ElementKind::U8),
            "|i1" => Stored::Element(ElementKind::I8),
            "<f8" => Stored::F64,
            _ => return Err(NpyError::Type { found: descr, known: "<f4, <f2, |u1, |i1, <f8" }.into()),
        };
        let (rows, dimension) = match shape[..] {
            [dimension] => (1, dimension),
            [rows, dimension] => (rows, dimension),
            _ => {
                return Err(NpyError::Shape {
                    found: shape.len(),
                    expected: "rows take two, a single row one",
                }
                .into());
            }
        };
        let dimension = i64::try_from(dimension).unwrap_or(i64::MAX);
        Ok(Self { stored, rows: Some(rows), dimension, prefix: 0, first })
    }

    fn check(self, size: u64, max_rows: Option<usize>) -> Result<RowLayout, ReadCause> {
        if self.dimension < 1 || self.dimension > MAX_DIMENSION as i64 {
            return Err(ReadCause::Dimension(self.dimension));
        }
        let dimension = self.dimension as usize;
        let mut layout =
            RowLayout { stored: self.stored, rows: 0, dimension, prefix: self.prefix, first: self.first };
        let record = layout.record_bytes() as u64;
        let body = size - self.first;
        let (held, rest) = (body / record, body % record);
        let claimed = self.rows.unwrap_or(held);
        let limit = max_rows.map_or(u64::MAX, |rows| rows as u64);
        // A truncated download has the header of the whole file; its first rows can be read with `max_rows`.
        let cropped = held <= claimed && limit <= held;
        if !cropped && (held != claimed || rest != 0) {
            return Err(match self.rows {
                Some(claimed) => ReadCause::Rows { claimed, held, rest },
                None => ReadCause::CutRecord { record, held, rest },
            });
        }
        let rows = claimed.min(limit);
        layout.rows = usize::try_from(rows).map_err(|_| ReadCause::TooManyRows(rows))?;
        Ok(layout)
    }
}
