//! Inserting one index into another.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use jasper_core::{Element, Key, VectorSource, Vectors};
use jasper_graph::Graph;
use jasper_vamana::{InsertReport, OnConflict, UpdateError};

use super::{Index, NewKeys};
#[cfg(doc)]
use crate::ErrorKind;
use crate::changes::InsertEntries;
use crate::error::Result;
use crate::inner::IndexInner;

impl Index {
    /// Inserts all keys of another index, with their vectors and attributes. The other index stays as it is, and may be
    /// on another device, of another element type, or in shards. Deleted keys are left out.
    ///
    /// Do not change the other index meanwhile: a key that is replaced there may be merged with its new vector and its
    /// old attributes, or the merge fails. Merging the smaller index into the larger one costs an insert of the
    /// smaller: the graph of the larger is not built again. Codes and parameters are those of this index.
    ///
    /// ```
    /// # use jasper::{IndexBuilder, MatrixView, Metric};
    /// let build = |keys: &[u64], vectors: &[u8]| {
    ///     IndexBuilder::new(Metric::L2).keys(keys).build(MatrixView::new(vectors, 2).unwrap())
    /// };
    /// let (index, other) = (build(&[1, 2], &[0, 0, 3, 4])?, build(&[7], &[5, 5])?);
    /// assert_eq!(index.merge(&other)?.keys, 1);
    /// assert_eq!(index.vector(7), Some(vec![5.0, 5.0]));
    /// assert!(index.merge(&other).is_err(), "key 7 is in both");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// This index is unchanged. Fails with [`ErrorKind::DuplicateKey`] if a key is in both; with
    /// [`ErrorKind::InvalidInput`] if the metrics differ, or both are one index; with [`ErrorKind::Io`] if a key is
    /// deleted from the other index meanwhile; with [`ErrorKind::Unsupported`] if the vectors of one were
    /// [dropped](Self::drop_vectors); and as [`Self::insert`].
    pub fn merge(&self, other: &Self) -> Result<InsertReport> {
        Ok(self.merge_index(other)?)
    }

    fn merge_index(&self, other: &Self) -> Result<InsertReport, UpdateError> {
        if Arc::ptr_eq(&self.inner, &other.inner) {
            return Err(UpdateError::MergeWithItself);
        }
        let [metric, others] = [self, other].map(|index| index.inner.backend.read(Graph::metric));
        if metric != others {
            return Err(UpdateError::Metrics(metric, others));
        }
        let keys = other.keys();
        if let Some(&key) = keys.iter().find(|&&key| self.contains(key)) {
            return Err(UpdateError::KeyInBoth(key));
        }
        let attributes = other.attributes(&keys);
        let entries = NewKeys::from(&keys)
            .with_attributes(attributes.columns().next().is_some().then_some(&attributes));
        let entries = InsertEntries::new(entries, OnConflict::Refuse);
        let mut shards = other.inner.backend.shards_or_self().into_iter();
        if shards.any(|shard| shard.read(Graph::require_vectors).is_err()) {
            return Err(UpdateError::OtherWithoutVectors);
        }
        let vectors = KeyedVectors { index: &other.inner, keys: &keys };
        self.insert_as(Vectors::of_element(other.element(), &vectors), entries)
    }
}

/// The vectors of keys of an index, each read from the state that the index has at the time: a merge holds up neither
/// its searches nor its changes, and two indexes can be merged into each other.
struct KeyedVectors<'a> {
    index: &'a IndexInner,
    keys: &'a [Key],
}

impl<T: Element> VectorSource<T> for KeyedVectors<'_> {
    fn len(&self) -> usize {
        self.keys.len()
    }

    fn dimension(&self) -> usize {
        self.index.dimension
    }

    fn read(&self, range: Range<usize>, out: &mut [T]) -> io::Result<()> {
        for (&key, out) in self.keys[range].iter().zip(out.chunks_exact_mut(self.index.dimension)) {
            let is_there = self.index.backend.read_with(key, |graph| {
                let slot = graph.keys().slot_of(key);
                slot.inspect(|&slot| out.copy_from_slice(graph.vectors().get(slot))).is_some()
            });
            if !is_there {
                let reason = format!("key {key} was deleted from the other index meanwhile; merge again");
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
        }
        Ok(())
    }

    fn concurrent(&self) -> Option<&(dyn VectorSource<T> + Sync)> {
        Some(self)
    }
}
