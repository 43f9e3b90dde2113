//! Writers of vector files.

use std::io::{self, Seek, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use jasper_core::{Element, ElementKind, MAX_DIMENSION, MatrixView};

use crate::atomic::AtomicFile;
use crate::error::WriteError;
use crate::format::VectorFormat;
use crate::npy;

/// Why a file could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteCause {
    /// An I/O error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file name has no known extension.
    #[error("the name does not end in a known format; end it in one of {known}")]
    UnknownFormat {
        /// Known extensions.
        known: &'static str,
    },
    /// The format cannot hold the element.
    #[error("{format} does not hold {element} values; use {}, or npy", VectorFormat::Bin(*.element))]
    Element {
        /// The format.
        format: VectorFormat,
        /// The element of the rows.
        element: ElementKind,
    },
    /// The dimension differs from the file's, or is out of range.
    #[error("rows of dimension {found} do not fit a file of dimension {expected} (1 to {MAX_DIMENSION})")]
    Dimension {
        /// Dimension of the rows.
        found: usize,
        /// Dimension of the file.
        expected: usize,
    },
    /// The number does not fit the header.
    #[error("{0} rows do not fit a header of 32 bits; use npy, or several files")]
    TooManyRows(u64),
}

/// Writes `rows` to the vector file `path`, in the format of its extension.
///
/// # Errors
/// Returns [`WriteError`] if the extension is unknown or its format cannot hold `T`, or on an I/O error.
///
/// ```
/// use jasper_core::MatrixView;
/// use jasper_data::{VectorFile, write_vectors};
/// # let folder = tempfile::tempdir()?;
/// let path = folder.path().join("rows.fvecs");
/// write_vectors(&path, MatrixView::new(&[1.0_f32, 2.0, 3.0, 4.0], 2)?)?;
/// let mut second = [0.0_f32; 2];
/// VectorFile::open(&path)?.read_rows(1..2, &mut second)?;
/// assert_eq!(second, [3.0, 4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_vectors<T: Element>(path: impl AsRef<Path>, rows: MatrixView<'_, T>) -> Result<(), WriteError> {
    let path = path.as_ref();
    let unknown = WriteCause::UnknownFormat { known: "fvecs, bvecs, fbin, f16bin, u8bin, i8bin, npy" };
    let format = VectorFormat::from_path(path).ok_or_else(|| WriteError::new(path, unknown))?;
    let mut writer = VectorWriter::create(path, format, rows.dimension())?;
    writer.push(rows)?;
    writer.finish()
}

/// Writes a vector file block by block. The file appears once [`Self::finish`] returns.
#[derive(Debug)]
pub struct VectorWriter<T> {
    file: AtomicFile,
    path: PathBuf,
    format: VectorFormat,
    dimension: usize,
    rows: usize,
    element: PhantomData<T>,
}

impl<T: Element> VectorWriter<T> {
    /// Starts writing `path`, with rows of `dimension` values.
    ///
    /// # Errors
    /// Returns [`WriteError`] if the format cannot hold `T` or the dimension is out of range, or on an I/O error.
    pub fn create(
        path: impl AsRef<Path>,
        format: VectorFormat,
        dimension: usize,
    ) -> Result<Self, WriteError> {
        let path = path.as_ref();
        let create = || {
            if !format.holds(T::KIND) {
                return Err(WriteCause::Element { format, element: T::KIND });
            }
            if dimension == 0 || dimension > MAX_DIMENSION {
                return Err(WriteCause::Dimension { found: dimension, expected: dimension });
            }
            Ok(AtomicFile::create(path)?)
        };
        let file = create().map_err(|cause| WriteError::new(path, cause))?;
        let mut writer =
            Self { file, path: path.to_owned(), format, dimension, rows: 0, element: PhantomData };
        // The header is rewritten at the end, when the number of rows is known.
        let header = writer.header()?;
        writer.file.write_all(&header).map_err(|error| writer.error(error))?;
        Ok(writer)
    }

    /// Appends `rows`.
    ///
    /// # Errors
    /// Returns [`WriteError`] if the dimension differs, or on an I/O error.
    pub fn push(&mut self, rows: MatrixView<'_, T>) -> Result<(), WriteError> {
        if rows.dimension() != self.dimension {
            let (found, expected) = (rows.dimension(), self.dimension);
            return Err(self.error(WriteCause::Dimension { found, expected }));
        }
        rows.rows().try_for_each(|row| self.push_row(row)).map_err(|error| self.error(error))?;
        self.rows += rows.len();
        Ok(())
    }

    /// Completes the file and commits it.
    ///
    /// # Errors
    /// Returns [`WriteError`] if the number of rows does not fit the header, or on an I/O error.
    pub fn finish(self) -> Result<(), WriteError> {
        let header = self.header()?;
        let Self { mut file, path, .. } = self;
        let written = file.rewind().and_then(|()| file.write_all(&header));
        written.and_then(|()| Ok(file.commit()?)).map_err(|error| WriteError::new(&path, error))
    }

    fn push_row(&mut self, row: &[T]) -> io::Result<()> {
        if matches!(self.format, VectorFormat::Fvecs | VectorFormat::Bvecs) {
            self.file.write_all(&(self.dimension as u32).to_le_bytes())?;
        }
        self.file.write_all(bytemuck::cast_slice(row))
    }

    /// The header for the rows so far. Its length does not depend on their number.
    fn header(&self) -> Result<Vec<u8>, WriteError> {
        match self.format {
            VectorFormat::Fvecs | VectorFormat::Bvecs => Ok(Vec::new()),
            VectorFormat::Bin(_) => {
                let too_many = |_| self.error(WriteCause::TooManyRows(self.rows as u64));
                let rows = u32::try_from(self.rows).map_err(too_many)?;
                Ok([rows.to_le_bytes(), (self.dimension as u32).to_le_bytes()].concat())
            }
            VectorFormat::Npy => {
                let descr = match T::KIND {
                    ElementKind::F32 => "<f4",
                    ElementKind::F16 => "<f2",
                    ElementKind::U8 => "|u1",
                    ElementKind::I8 => "|i1",
                };
                Ok(npy::Header::write(descr, &[self.rows, self.dimension]))
            }
        }
    }

    fn error(&self, cause: impl Into<WriteCause>) -> WriteError {
        WriteError::new(&self.path, cause)
    }
}
