//! Sources of vectors that are read twice: for the log, and to be inserted.

use std::hash::Hasher as _;
use std::io;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use jasper_core::{Element, VectorSource};
use rustc_hash::FxHasher;

/// A source, and a digest of the vectors that were read from it. Those of two readers are equal if each read the same
/// vectors once, in any order.
pub(crate) struct Digest<'a, S: ?Sized> {
    source: &'a S,
    sum: AtomicU64,
    /// Why the vectors could not be read.
    failure: OnceLock<io::Error>,
}

impl<'a, S: ?Sized> Digest<'a, S> {
    pub(crate) fn new(source: &'a S) -> Self {
        Self { source, sum: AtomicU64::new(0), failure: OnceLock::new() }
    }

    pub(crate) fn sum(&self) -> u64 {
        self.sum.load(Relaxed)
    }

    pub(crate) fn into_failure(self) -> Option<io::Error> {
        self.failure.into_inner()
    }

    fn add<T: Element>(&self, range: Range<usize>, read: io::Result<()>, vectors: &[T]) -> io::Result<()> {
        if let Err(error) = read {
            let copy = io::Error::new(error.kind(), error.to_string());
            let _ = self.failure.set(error);
            return Err(copy);
        }
        let rows = range.clone().zip(vectors.chunks_exact((vectors.len() / range.len().max(1)).max(1)));
        let sum = rows.fold(0, |sum: u64, (row, vector)| {
            let mut hasher = FxHasher::default();
            hasher.write_usize(row);
            hasher.write(bytemuck::cast_slice(vector));
            sum.wrapping_add(hasher.finish())
        });
        self.sum.fetch_add(sum, Relaxed);
        Ok(())
    }
}

impl<T: Element> VectorSource<T> for Digest<'_, dyn VectorSource<T> + '_> {
    fn len(&self) -> usize {
        self.source.len()
    }

    fn dimension(&self) -> usize {
        self.source.dimension()
    }

    fn read(&self, range: Range<usize>, out: &mut [T]) -> io::Result<()> {
        let read = self.source.read(range.clone(), out);
        self.add(range, read, out)
    }
}

impl<T: Element> VectorSource<T> for Digest<'_, dyn VectorSource<T> + Sync + '_> {
    fn len(&self) -> usize {
        self.source.len()
    }

    fn dimension(&self) -> usize {
        self.source.dimension()
    }

    fn read(&self, range: Range<usize>, out: &mut [T]) -> io::Result<()> {
        let read = self.source.read(range.clone(), out);
        self.add(range, read, out)
    }

    fn concurrent(&self) -> Option<&(dyn VectorSource<T> + Sync)> {
        Some(self)
    }
}
