//! Readers of vector files.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use bytemuck::Pod;
use jasper_core::{Element, ElementKind, VectorSource, Vectors, f16};

use crate::error::{ReadCause, ReadError};
use crate::format::VectorFormat;
use crate::layout::{RowLayout, Stored};
use crate::read_at::{ReadAt, open_file};

/// Options for opening a vector file of an unknown extension, or only its first rows.
///
/// ```
/// use jasper_data::{VectorFileOptions, VectorFormat};
/// // The header claims three rows of two bytes, the file holds two: a truncated download.
/// let bytes = [3, 0, 0, 0, 2, 0, 0, 0, 10, 11, 20, 21];
/// let options = VectorFileOptions::new().format("u8bin".parse()?);
/// let error = options.from_bytes("base.data", &bytes).unwrap_err();
/// assert!(error.to_string().starts_with("base.data: header says 3 rows, file holds 2"));
/// assert_eq!(options.max_rows(2).from_bytes("base.data", &bytes)?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "options do nothing until `open`"]
pub struct VectorFileOptions {
    format: Option<VectorFormat>,
    max_rows: Option<usize>,
}

impl VectorFileOptions {
    /// The default options: the format of the extension, and all rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the format, regardless of the extension.
    pub fn format(mut self, format: VectorFormat) -> Self {
        self.format = Some(format);
        self
    }

    /// Reads at most the first `rows` rows. The file may be truncated after them.
    pub fn max_rows(mut self, rows: usize) -> Self {
        self.max_rows = Some(rows);
        self
    }

    /// Opens the file `path` and reads its header.
    ///
    /// # Errors
    /// Returns [`ReadError`] if the file cannot be opened, or its header and length disagree.
    pub fn open(self, path: impl AsRef<Path>) -> Result<VectorFile, ReadError> {
        let path = path.as_ref();
        let file = open_file(path).map_err(|error| ReadError::new(path, error))?;
        self.from_source(file, path)
    }

    /// Reads `bytes` as the content of a file named `name`.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    pub fn from_bytes(self, name: impl AsRef<Path>, bytes: &[u8]) -> Result<VectorFile<&[u8]>, ReadError> {
        self.from_source(bytes, name.as_ref())
    }

    /// Opens any source as a file named `name`.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    pub fn from_source<S: ReadAt>(self, source: S, name: &Path) -> Result<VectorFile<S>, ReadError> {
        let unknown = ReadCause::UnknownFormat { known: "fvecs, bvecs, fbin, f16bin, u8bin, i8bin, npy" };
        let format = self.format.or_else(|| VectorFormat::from_path(name)).ok_or(unknown);
        let layout = format.and_then(|format| RowLayout::read(&source, format, self.max_rows));
        let layout = layout.map_err(|cause| ReadError::new(name, cause))?;
        Ok(VectorFile { source, path: name.to_owned(), layout })
    }
}

/// An open vector file: a `len x dimension` matrix of one element.
///
/// Rows are read by positioned reads, block by block and from several threads, so that a file may be larger than
/// memory. [`Self::map`] and [`Self::load`] return all of them at once.
#[derive(Debug)]
pub struct VectorFile<S = File> {
    pub(crate) source: S,
    pub(crate) path: PathBuf,
    pub(crate) layout: RowLayout,
}

impl VectorFile {
    /// Opens the file `path` in the format of its extension, and reads its header. Extensions are fvecs, bvecs, fbin,
    /// f16bin, u8bin, i8bin and npy: see [`VectorFormat`].
    ///
    /// # Errors
    /// Returns [`ReadError`] if the file cannot be opened, its extension is unknown, or its header and length disagree.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        VectorFileOptions::new().open(path)
    }
}

impl<'a> VectorFile<&'a [u8]> {
    /// Reads `bytes` as the content of a file named `name`.
    ///
    /// # Errors
    /// Returns the errors of [`VectorFile::open`].
    pub fn from_bytes(name: impl AsRef<Path>, bytes: &'a [u8]) -> Result<Self, ReadError> {
        VectorFileOptions::new().from_bytes(name, bytes)
    }
}

/// Size of the buffer for rows that need conversion, at least one record.
const CHUNK_BYTES: usize = 1 << 18;

impl<S: ReadAt> VectorFile<S> {
    /// The element to which rows are read.
    pub fn element(&self) -> ElementKind {
        self.layout.stored.element()
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.layout.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.layout.rows == 0
    }

    /// Coordinates per row.
    pub fn dimension(&self) -> usize {
        self.layout.dimension
    }

    /// The path with which the file was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads rows `range` into `out`, of shape `range.len() x dimension`, row-major.
    ///
    /// # Errors
    /// Returns [`ReadError`] if `T` is not [`Self::element`], the range ends past [`Self::len`], `out` has another
    /// size, or a record another dimension, or on an I/O error. `out` may then be partly written.
    pub fn read_rows<T: Element>(&self, range: Range<usize>, out: &mut [T]) -> Result<(), ReadError> {
        self.check_element::<T>()?;
        self.read_rows_as(range, out)
    }

    /// Reads rows as [`Self::read_rows`] does, and converts each value to `T` through f32.
    ///
    /// Conversion to f32 is lossless, except from f64; other conversions round and saturate as [`Element::from_f32`].
    ///
    /// # Errors
    /// Returns the errors of [`Self::read_rows`], except [`ReadCause::Element`].
    pub fn read_rows_as<T: Element>(&self, range: Range<usize>, out: &mut [T]) -> Result<(), ReadError> {
        self.try_read(range, out).map_err(|cause| ReadError::new(&self.path, cause))
    }

    pub(crate) fn check_element<T: Element>(&self) -> Result<(), ReadError> {
        if T::KIND == self.element() {
            return Ok(());
        }
        Err(ReadError::new(&self.path, ReadCause::Element { held: self.element(), requested: T::KIND }))
    }

    fn try_read<T: Element>(&self, range: Range<usize>, out: &mut [T]) -> Result<(), ReadCause> {
        let RowLayout { stored, rows, dimension, prefix, .. } = self.layout;
        if range.start > range.end || range.end > rows {
            return Err(ReadCause::Range { start: range.start, end: range.end, rows });
        }
        if range.len().checked_mul(dimension) != Some(out.len()) {
            return Err(ReadCause::Buffer { rows: range.len(), dimension, elements: out.len() });
        }
        if stored == Stored::Element(T::KIND) && prefix == 0 {
            self.source.read_exact_at(bytemuck::cast_slice_mut(out), self.layout.offset(range.start))?;
            return Ok(());
        }
        let record = self.layout.record_bytes();
        let at_once = (CHUNK_BYTES / record).clamp(1, range.len().max(1));
        let mut buffer = vec![0; at_once * record];
        for (chunk, out) in out.chunks_mut(at_once * dimension).enumerate() {
            let first = range.start + chunk * at_once;
            let bytes = &mut buffer[..out.len() / dimension * record];
            self.source.read_exact_at(bytes, self.layout.offset(first))?;
            for (i, (record, out)) in
                bytes.chunks_exact(record).zip(out.chunks_exact_mut(dimension)).enumerate()
            {
                let (header, values) = record.split_at(prefix);
                check_record(header, first + i, dimension)?;
                convert(stored, values, out);
            }
        }
        Ok(())
    }
}

impl<T: Element, S: ReadAt> VectorSource<T> for VectorFile<S> {
    fn len(&self) -> usize {
        self.layout.rows
    }

    fn dimension(&self) -> usize {
        self.layout.dimension
    }

    fn read(&self, range: Range<usize>, out: &mut [T]) -> io::Result<()> {
        self.read_rows(range, out).map_err(io::Error::other)
    }

    fn concurrent(&self) -> Option<&(dyn VectorSource<T> + Sync)> {
        Some(self)
    }
}

impl<'a, S: ReadAt> From<&'a VectorFile<S>> for Vectors<'a> {
    fn from(file: &'a VectorFile<S>) -> Self {
        match file.element() {
            ElementKind::F32 => Self::from_source::<f32>(file),
            ElementKind::F16 => Self::from_source::<f16>(file),
            ElementKind::U8 => Self::from_source::<u8>(file),
            ElementKind::I8 => Self::from_source::<i8>(file),
        }
    }
}

/// Checks the dimension in front of a record; `header` is empty in formats without one.
fn check_record(header: &[u8], row: usize, expected: usize) -> Result<(), ReadCause> {
    let Ok(found) = header.try_into().map(i32::from_le_bytes) else { return Ok(()) };
    if i64::from(found) == expected as i64 {
        return Ok(());
    }
    Err(ReadCause::RecordDimension { row, found, expected })
}

/// Converts the values of one row.
fn convert<T: Element>(stored: Stored, bytes: &[u8], out: &mut [T]) {
    fn each<F: Pod, T: Element>(bytes: &[u8], out: &mut [T], to_f32: impl Fn(F) -> f32) {
        for (value, out) in bytes.chunks_exact(size_of::<F>()).zip(out) {
            *out = T::from_f32(to_f32(bytemuck::pod_read_unaligned(value)));
        }
    }
    match stored {
        Stored::Element(kind) if kind == T::KIND => bytemuck::cast_slice_mut(out).copy_from_slice(bytes),
        Stored::Element(ElementKind::F32) => each(bytes, out, |x: f32| x),
        Stored::Element(ElementKind::F16) => each(bytes, out, f16::to_f32),
        Stored::Element(ElementKind::U8) => each(bytes, out, |x: u8| x.into()),
        Stored::Element(ElementKind::I8) => each(bytes, out, |x: i8| x.into()),
        Stored::F64 => each(bytes, out, |x: f64| x as f32),
    }
}
