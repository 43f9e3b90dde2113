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

/// Rows of the source that are read at once.
const BLOCK_ROWS: usize = 1024;

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
        let dimension = self.dimension();
        let mut out = out.chunks_exact_mut(dimension);
        let mut rows = &self.rows[range];
        let mut block = Vec::new();
        while let Some(&first) = rows.first() {
            let here = rows.partition_point(|&row| row < first + BLOCK_ROWS);
            let span = first..rows[here - 1] + 1;
            block.resize(span.len() * dimension, T::zeroed());
            self.source.read(span, &mut block)?;
            for (&row, out) in rows[..here].iter().zip(&mut out) {
                out.copy_from_slice(&block[(row - first) * dimension..][..dimension]);
            }
            rows = &rows[here..];
        }
        Ok(())
    }

    fn concurrent(&self) -> Option<&(dyn VectorSource<T> + Sync)> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subset_reads_its_rows() {
        let all: Vec<u8> = (0..3000_u32).flat_map(|row| [row as u8, (row >> 8) as u8]).collect();
        let view = MatrixView::new(&all, 2).unwrap();
        let rows: Vec<usize> = (0..3000).filter(|row| row % 7 < 2 || *row > 2900).collect();
        let subset = Subset::new(&view, &rows);
        let mut out = vec![0; (subset.len() - 5) * 2];
        subset.read(5..subset.len(), &mut out).unwrap();
        let expected: Vec<u8> = rows[5..].iter().flat_map(|&row| all[row * 2..][..2].to_vec()).collect();
        assert!(out == expected);
    }
}
