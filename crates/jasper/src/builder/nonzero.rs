//! Vectors without those of length zero, which have no cosine distance.

use std::io;
use std::ops::Range;

use jasper_attributes::AttributeError;
use jasper_core::{Element, Key, ProgressFn, VectorSource, Vectors};
use jasper_vamana::UpdateError;

use super::IndexBuilder;
use crate::error::Result;
use crate::inner::IndexInner;

/// Vectors read at a time to find those of length zero.
const CHUNK: usize = 1024;

impl IndexBuilder<'_> {
    /// Builds an index of the vectors that are not zero; `source` is theirs.
    pub(super) fn build_nonzero<T: Element>(
        &self,
        vectors: Vectors<'_>,
        source: &dyn VectorSource<T>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<IndexInner> {
        let nonzero = Nonzero::new(source).map_err(UpdateError::Read)?;
        let skipped = vectors.len() - nonzero.len();
        if skipped == 0 {
            return self.build_all(vectors, progress);
        }
        let keys = nonzero.keys(self.keys)?;
        if let Some(all) = self.attributes
            && all.len() != vectors.len()
        {
            let error = AttributeError::Rows { rows: all.len(), keys: vectors.len() };
            return Err(UpdateError::from(error).into());
        }
        let attributes = self.attributes.map(|all| all.select(&nonzero.rows));
        let builder = IndexBuilder { attributes: attributes.as_ref(), ..self.clone().keys(&keys) };
        let mut index = builder.build_all(Vectors::from_source(&nonzero), progress)?;
        if let Some(report) = &mut index.build_report {
            report.skipped = skipped;
        }
        Ok(index)
    }
}

/// The vectors of a source that are not zero.
struct Nonzero<'a, T> {
    source: &'a dyn VectorSource<T>,
    /// Their numbers in the source, ascending.
    rows: Vec<usize>,
}

impl<'a, T: Element> Nonzero<'a, T> {
    /// Reads all vectors once.
    fn new(source: &'a dyn VectorSource<T>) -> io::Result<Self> {
        let (len, dimension) = (source.len(), source.dimension());
        let (mut rows, mut chunk) = (Vec::with_capacity(len), Vec::new());
        for first in (0..len).step_by(CHUNK) {
            let range = first..len.min(first + CHUNK);
            chunk.resize(range.len() * dimension, T::zeroed());
            source.read(range.clone(), &mut chunk)?;
            let is_zero = |row: usize| {
                let row = &chunk[(row - first) * dimension..][..dimension];
                row.iter().all(|x| x.to_f32() == 0.0)
            };
            rows.extend(range.filter(|&row| !is_zero(row)));
        }
        Ok(Self { source, rows })
    }

    /// The keys of its vectors, of those given for all vectors of the source, or else their numbers there.
    fn keys(&self, given: Option<&[Key]>) -> Result<Vec<Key>, UpdateError> {
        match given {
            Some(keys) if keys.len() != self.source.len() => {
                Err(UpdateError::KeyCount { keys: keys.len(), vectors: self.source.len() })
            }
            Some(keys) => Ok(self.rows.iter().map(|&row| keys[row]).collect()),
            None => Ok(self.rows.iter().map(|&row| row as Key).collect()),
        }
    }
}

impl<T: Element> VectorSource<T> for Nonzero<'_, T> {
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
        None
    }
}
