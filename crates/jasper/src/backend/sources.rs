//! Sources of vectors for several backends: all of the caller's vectors, or some of them.

use std::io;
use std::ops::Range;

use jasper_core::{Element, MatrixView, VectorSource};
use jasper_graph::VectorError;

use crate::UpdateError;

/// All vectors of a source, in memory.
pub(crate) struct SharedRows<'a, T> {
    source: &'a dyn VectorSource<T>,
    read: Vec<T>,
}

impl<'a, T: Element> SharedRows<'a, T> {
    /// Reads the vectors, unless they are in memory.
    pub(crate) fn new(source: &'a dyn VectorSource<T>) -> Result<Self, UpdateError> {
        let mut read = Vec::new();
        if source.in_memory().is_none() {
            let coordinates = source.len() * source.dimension();
            read.try_reserve_exact(coordinates).map_err(|error| VectorError::Memory(error.into()))?;
            read.resize(coordinates, T::zeroed());
            source.read(0..source.len(), &mut read).map_err(UpdateError::Read)?;
        }
        Ok(Self { source, read })
    }

    pub(crate) fn view(&self) -> Result<MatrixView<'_, T>, UpdateError> {
        let read = || MatrixView::new(&self.read, self.source.dimension());
        Ok(self.source.in_memory().map_or_else(read, Ok).map_err(VectorError::from)?)
    }
}

/// Some of the vectors of a source.
pub(crate) struct Subset<'a, T> {
    source: &'a (dyn VectorSource<T> + Sync),
    /// Their rows in the source, in ascending order.
    rows: &'a [usize],
}

impl<'a, T> Subset<'a, T> {
    pub(crate) fn new(source: &'a (dyn VectorSource<T> + Sync), rows: &'a [usize]) -> Self {
        Self { source, rows }
    }
}

impl<T: Element> VectorSource<T> for Subset<'_, T> {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn dimension(&self) -> usize {
        self.source.dimension()
    }

    fn read(&self, range: Range<usize>, out: &mut [T]) -> io::Result<()> {
        self.source.gather(&self.rows[range], out)
    }

    fn concurrent(&self) -> Option<&(dyn VectorSource<T> + Sync)> {
        Some(self)
    }
}
