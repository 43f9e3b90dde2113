//! Vector files: opened with every length checked, then read a few rows at a time.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use bytemuck::Pod;
use jasper_core::{Element, ElementKind, VectorSource, f16};

use crate::error::{ReadCause, ReadError};
use crate::format::VectorFormat;
use crate::layout::{Layout, Stored};
use crate::read_at::ReadAt;

/// How to open a vector file whose name or length does not say enough.
///
/// ```
/// use jasper_data::{OpenOptions, VectorFormat};
/// // Three rows of two bytes promised, two there: a download that broke off.
/// let bytes = [3, 0, 0, 0, 2, 0, 0, 0, 10, 11, 20, 21];
/// let options = OpenOptions::new().format("u8bin".parse()?);
/// let error = options.from_bytes("base.data", &bytes).unwrap_err();
/// assert!(error.to_string().starts_with("base.data: header says 3 rows, file holds 2"));
/// assert_eq!(options.max_rows(2).from_bytes("base.data", &bytes)?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "options do nothing until `open`"]
pub struct OpenOptions {
    format: Option<VectorFormat>,
    max_rows: Option<usize>,
}

impl OpenOptions {
    /// The format from the name, and all rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the file for this format, whatever its name.
    pub fn format(mut self, format: VectorFormat) -> Self {
        self.format = Some(format);
        self
    }

    /// Takes at most the first `rows` rows. They must be there; what the file lacks behind them does not matter.
    pub fn max_rows(mut self, rows: usize) -> Self {
        self.max_rows = Some(rows);
        self
    }

    /// Opens the file at `path`. Reads its header only.
    ///
    /// # Errors
    /// [`ReadError`] if it cannot be opened, or does not hold what its header says.
    pub fn open(self, path: impl AsRef<Path>) -> Result<VectorFile, ReadError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|error| ReadError::new(path, error))?;
        self.over(file, path)
    }

    /// Takes `bytes` for the content of a file named `name`.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn from_bytes(self, name: impl AsRef<Path>, bytes: &[u8]) -> Result<VectorFile<&[u8]>, ReadError> {
        self.over(bytes, name.as_ref())
    }

    /// Takes anything that can be read at an offset for a file named `name`.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn over<S: ReadAt>(self, source: S, name: &Path) -> Result<VectorFile<S>, ReadError> {
        let unknown = ReadCause::UnknownFormat { known: "fvecs, bvecs, fbin, f16bin, u8bin, i8bin, npy" };
        let format = self.format.or_else(|| VectorFormat::of(name)).ok_or(unknown);
        let layout = format.and_then(|format| Layout::read(&source, format, self.max_rows));
        let layout = layout.map_err(|cause| ReadError::new(name, cause))?;
        Ok(VectorFile { source, path: name.to_owned(), layout })
    }
}

/// An open vector file: `len` rows of `dimension` values of one element.
///
/// Rows are read by positioned reads, so that a file larger than memory can be worked through a piece at a time, by
/// many threads if need be; [`Self::map`] and [`Self::load`] give all of them at once.
#[derive(Debug)]
pub struct VectorFile<S = File> {
    pub(crate) source: S,
    pub(crate) path: PathBuf,
    pub(crate) layout: Layout,
}

impl VectorFile {
    /// Opens the file at `path` as its name says. Reads its header only.
    ///
    /// # Errors
    /// [`ReadError`] if it cannot be opened, its name does not end in a known format, or it does not hold what its
    /// header says.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        OpenOptions::new().open(path)
    }
}

impl<'a> VectorFile<&'a [u8]> {
    /// Takes `bytes` for the content of a file named `name`.
    ///
    /// # Errors
    /// As for [`VectorFile::open`].
    pub fn from_bytes(name: impl AsRef<Path>, bytes: &'a [u8]) -> Result<Self, ReadError> {
        OpenOptions::new().from_bytes(name, bytes)
    }
}

/// Bytes read at once where rows cannot go straight to their place; one record at least.
const CHUNK_BYTES: usize = 1 << 18;

impl<S: ReadAt> VectorFile<S> {
    /// The element that rows are read as.
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

    /// Coordinates of a row.
    pub fn dimension(&self) -> usize {
        self.layout.dimension
    }

    /// The name the file was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the rows `range` into `out`, which holds `range.len() x dimension` elements, row-major.
    ///
    /// # Errors
    /// [`ReadError`]: another element than [`Self::element`], rows that are not there, a buffer of another size, a
    /// record of another dimension, and what the operating system says. `out` is then partly written.
    pub fn read_rows<T: Element>(&self, range: Range<usize>, out: &mut [T]) -> Result<(), ReadError> {
        self.check_element::<T>()?;
        self.read_rows_as(range, out)
    }

    /// Reads the rows `range` as another element: as [`Self::read_rows`], each value converted by way of f32.
    ///
    /// Into f32 nothing is lost; into other elements values are rounded and bounded as
    /// [`Element::from_f32`] says.
    ///
    /// # Errors
    /// As for [`Self::read_rows`], but for the element.
    pub fn read_rows_as<T: Element>(&self, range: Range<usize>, out: &mut [T]) -> Result<(), ReadError> {
        self.try_read(range, out).map_err(|cause| ReadError::new(&self.path, cause))
    }

    pub(crate) fn check_element<T: Element>(&self) -> Result<(), ReadError> {
        if T::KIND == self.element() {
            return Ok(());
        }
        Err(ReadError::new(&self.path, ReadCause::Element { held: self.element(), asked: T::KIND }))
    }

    fn try_read<T: Element>(&self, range: Range<usize>, out: &mut [T]) -> Result<(), ReadCause> {
        let Layout { stored, rows, dimension, prefix, .. } = self.layout;
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

/// Checks the dimension that a record repeats; `header` is empty where there is none.
fn check_record(header: &[u8], row: usize, expected: usize) -> Result<(), ReadCause> {
    let Ok(found) = header.try_into().map(i32::from_le_bytes) else { return Ok(()) };
    if i64::from(found) == expected as i64 {
        return Ok(());
    }
    Err(ReadCause::RecordDimension { row, found, expected })
}

/// The values of one row, from the bytes of the file.
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
