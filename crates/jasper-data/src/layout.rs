//! Where the rows of a vector file lie. Every format comes down to this, so rows are read in one place only.

use jasper_core::{ElementKind, MAX_DIMENSION};

use crate::error::{NpyError, ReadCause};
use crate::read_at::{ReadAt, read_words};
use crate::{VectorFormat, npy};

/// Values as a file holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// As they are in memory.
    Element(ElementKind),
    /// Doubles of numpy, f32 once read.
    F64,
}

impl Stored {
    pub(crate) const fn size(self) -> usize {
        match self {
            Self::Element(element) => element.size(),
            Self::F64 => 8,
        }
    }

    /// The element that rows are given as.
    pub(crate) const fn element(self) -> ElementKind {
        match self {
            Self::Element(element) => element,
            Self::F64 => ElementKind::F32,
        }
    }
}

/// Rows that lie one after another: each is `prefix` bytes and then `dimension` values.
///
/// Made by [`Self::read`] alone, which has compared it with the length of the file: every row is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) stored: Stored,
    pub(crate) rows: usize,
    pub(crate) dimension: usize,
    /// 4 where each row repeats the dimension, else 0.
    pub(crate) prefix: usize,
    /// Byte of the first row, prefix included.
    pub(crate) first: u64,
}

impl Layout {
    /// Bytes of a row's values.
    pub(crate) const fn row_bytes(&self) -> usize {
        self.dimension * self.stored.size()
    }

    /// Bytes from row to row.
    pub(crate) const fn record_bytes(&self) -> usize {
        self.prefix + self.row_bytes()
    }

    /// Byte where row `index` begins.
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

/// What a header says, not yet believed.
struct Claim {
    stored: Stored,
    /// `None` where only the length of the file tells.
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
                    wanted: "rows take two, a single row one",
                }
                .into());
            }
        };
        let dimension = i64::try_from(dimension).unwrap_or(i64::MAX);
        Ok(Self { stored, rows: Some(rows), dimension, prefix: 0, first })
    }

    fn check(self, size: u64, max_rows: Option<usize>) -> Result<Layout, ReadCause> {
        if self.dimension < 1 || self.dimension > MAX_DIMENSION as i64 {
            return Err(ReadCause::Dimension(self.dimension));
        }
        let dimension = self.dimension as usize;
        let mut layout =
            Layout { stored: self.stored, rows: 0, dimension, prefix: self.prefix, first: self.first };
        let record = layout.record_bytes() as u64;
        let body = size - self.first;
        let (held, rest) = (body / record, body % record);
        let claimed = self.rows.unwrap_or(held);
        let limit = max_rows.map_or(u64::MAX, |rows| rows as u64);
        // A download that broke off keeps the header of the whole: its first rows may be asked for by number.
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
