//! All rows of a vector file, mapped or in memory.

use std::fs::File;
use std::marker::PhantomData;

use jasper_core::{Element, MatrixView, Vectors};
use memmap2::Mmap;

use crate::error::{ReadCause, ReadError};
use crate::layout::Stored;
use crate::read_at::ReadAt;
use crate::vectors::VectorFile;

/// All rows of a vector file, a `len x dimension` matrix in a mapping of the file or in memory.
#[derive(Debug)]
pub struct Rows<T> {
    storage: Storage<T>,
    dimension: usize,
}

#[derive(Debug)]
enum Storage<T> {
    Memory(Vec<T>),
    /// Maps exactly the rows, aligned for `T`.
    Mapped(Mmap, PhantomData<T>),
}

impl<T: Element> Rows<T> {
    /// The rows as a matrix.
    pub fn view(&self) -> MatrixView<'_, T> {
        let values = match &self.storage {
            Storage::Memory(values) => values,
            Storage::Mapped(map, _) => bytemuck::cast_slice(map),
        };
        MatrixView::new(values, self.dimension).expect("a layout has whole rows of a checked dimension")
    }

    /// Whether the rows are mapped from the file.
    pub fn is_mapped(&self) -> bool {
        matches!(self.storage, Storage::Mapped(..))
    }
}

impl<'a, T: Element> From<&'a Rows<T>> for Vectors<'a> {
    fn from(rows: &'a Rows<T>) -> Self {
        rows.view().into()
    }
}

impl<S: ReadAt> VectorFile<S> {
    /// Reads all rows into memory.
    ///
    /// # Errors
    /// Returns the errors of [`Self::read_rows`], and [`ReadCause::Memory`] if there is not enough memory.
    pub fn load<T: Element>(&self) -> Result<Rows<T>, ReadError> {
        self.check_element::<T>()?;
        self.load_as()
    }

    /// Reads all rows into memory, converted as by [`Self::read_rows_as`].
    ///
    /// # Errors
    /// Returns the errors of [`Self::load`], except [`ReadCause::Element`].
    pub fn load_as<T: Element>(&self) -> Result<Rows<T>, ReadError> {
        let dimension = self.dimension();
        let no_memory = || {
            let bytes = self.len() as u64 * dimension as u64 * size_of::<T>() as u64;
            ReadError::new(&self.path, ReadCause::Memory { bytes })
        };
        let elements = self.len().checked_mul(dimension).ok_or_else(no_memory)?;
        let mut values = bytemuck::allocation::try_zeroed_vec(elements).map_err(|()| no_memory())?;
        self.read_rows_as(0..self.len(), &mut values)?;
        Ok(Rows { storage: Storage::Memory(values), dimension })
    }
}

impl VectorFile<File> {
    /// Maps all rows if the format allows (`bin` and `npy` of the element itself), else reads them into memory.
    ///
    /// Pages are read on demand and evicted under memory pressure, so the file may be larger than memory. The file must
    /// not be written to or truncated while it is mapped: values would change, and access to a missing page kills the
    /// process.
    ///
    /// # Errors
    /// Returns the errors of [`Self::load`].
    pub fn map<T: Element>(&self) -> Result<Rows<T>, ReadError> {
        self.check_element::<T>()?;
        let layout = &self.layout;
        let aligned = layout.first.is_multiple_of(align_of::<T>() as u64);
        // Some systems cannot map an empty range.
        if layout.stored != Stored::Element(T::KIND) || layout.prefix != 0 || !aligned || layout.rows == 0 {
            return self.load();
        }
        let bytes = layout.rows * layout.row_bytes();
        let map =
            map(&self.source, layout.first, bytes).map_err(|error| ReadError::new(&self.path, error))?;
        Ok(Rows { storage: Storage::Mapped(map, PhantomData), dimension: layout.dimension })
    }
}

#[expect(unsafe_code, reason = "the one mapping of this crate")]
fn map(file: &File, offset: u64, len: usize) -> std::io::Result<Mmap> {
    // SAFETY: the mapping is private and read-only, and `RowLayout` has checked its end against the length of the file.
    // `VectorFile::map` requires its caller not to modify the file meanwhile.
    unsafe { memmap2::MmapOptions::new().offset(offset).len(len).map_copy_read_only(file) }
}
