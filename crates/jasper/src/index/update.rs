//! Changes: inserts, deletes, consolidation and compaction.

use jasper_core::{Key, VectorBuffer, Vectors};
use jasper_graph::VectorError;
use jasper_vamana::{CompactReport, ConsolidateReport, InsertReport, OnConflict, UpdateError};

use super::submit::Change;
use super::{DeleteKeys, Index, NewKeys, Update, update_error};
#[cfg(doc)]
use crate::ErrorKind;
use crate::batcher::Pending;
use crate::changes::InsertEntries;
use crate::changes::small::{SMALL, SmallChange};
use crate::error::Result;

impl Index {
    /// Adds vectors, each under the key at the same position, or under [new keys](crate::NewKeys::NEXT).
    ///
    /// ```
    /// # use jasper::{ElementKind, IndexBuilder, MatrixView, Metric};
    /// use jasper::NewKeys;
    ///
    /// let index = IndexBuilder::new(Metric::L2).empty(ElementKind::F32, 2)?;
    /// let report = index.insert(MatrixView::new(&[0.5, 1.5, 2.5, 3.5_f32], 2)?, &[70, 50])?;
    /// assert_eq!((report.keys, index.vector(50)), (2, Some(vec![2.5, 3.5])));
    /// assert!(index.insert(&[4.5_f32, 5.5], &[50]).is_err(), "the key is there");
    /// index.upsert(&[4.5_f32, 5.5], &[50])?;
    /// index.delete(&[70])?;
    /// index.undelete(&[70])?; // Until `consolidate`.
    /// assert_eq!(index.insert(&[6.5_f32, 7.5], NewKeys::NEXT)?.first_key, Some(71));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Identical vectors share a vertex of the graph. The cost is that of a search per vector. On the CPU,
    /// small batches are fine; on a CUDA device, large ones are faster. Up to 64 vectors in memory are inserted together
    /// with those of other threads that arrive while the change before is made.
    ///
    /// # Errors
    /// The index is unchanged. Fails with
    /// - [`ErrorKind::DuplicateKey`] if a key is in the index, or given twice;
    /// - [`ErrorKind::InvalidInput`] if a key is [`NO_KEY`](crate::NO_KEY), which new keys may reach, there is not one
    ///   key per vector, or attributes do not fit; and if a vector has another dimension or a value that is not finite
    ///   or that the element type cannot hold, is too long for distances to be finite, or is zero under the cosine
    ///   metric;
    /// - [`ErrorKind::OutOfMemory`] if the index is full, or memory cannot be allocated;
    /// - [`ErrorKind::Unsupported`] if vectors were [dropped](Self::drop_vectors), or the index
    ///   [follows](crate::OpenOptions::follow) another;
    /// - [`ErrorKind::Io`] if the source of the vectors cannot be read, or the index is durable and its journal cannot
    ///   be written;
    /// - [`ErrorKind::Device`] if the device failed;
    /// - [`ErrorKind::Cancelled`] by the progress callback.
    pub fn insert<'a>(
        &self,
        vectors: impl Into<Vectors<'a>>,
        keys: impl Into<NewKeys<'a>>,
    ) -> Result<InsertReport> {
        Ok(self.insert_as(vectors.into(), InsertEntries::new(keys.into(), OnConflict::Refuse))?)
    }

    /// Adds vectors under keys, replacing the vectors of keys that are already in the index.
    ///
    /// # Errors
    /// As [`Self::insert`], but keys may be in the index. The index is unchanged.
    pub fn upsert<'a>(
        &self,
        vectors: impl Into<Vectors<'a>>,
        keys: impl Into<NewKeys<'a>>,
    ) -> Result<InsertReport> {
        Ok(self.insert_as(vectors.into(), InsertEntries::new(keys.into(), OnConflict::Replace))?)
    }

    pub(super) fn insert_as(
        &self,
        vectors: Vectors<'_>,
        entries: InsertEntries<'_>,
    ) -> Result<InsertReport, UpdateError> {
        let element = self.element();
        if (1..=SMALL).contains(&vectors.len()) && vectors.is_in_memory() && !self.progress.is_set() {
            let vectors = VectorBuffer::read(vectors, element).map_err(update_error)?;
            return self.inner.small_changes.insert(vectors, entries);
        }
        let insert =
            |vectors: Vectors<'_>| self.inner.changes.insert(vectors, entries, &mut self.progress.report());
        match vectors.converted(element, insert).map_err(VectorError::from)? {
            Err(UpdateError::Read(error)) => Err(update_error(error)),
            made => made,
        }
    }

    /// Deletes keys, and returns their number. Searches no longer return them. Their vectors stay in the graph, and can be
    /// restored, until [`Self::consolidate`].
    ///
    /// ```
    /// # use jasper::{IndexBuilder, MatrixView, Metric};
    /// use jasper::DeleteKeys;
    ///
    /// let index = IndexBuilder::new(Metric::L2).build(MatrixView::new(&[1_u8, 2, 3, 4], 1)?)?;
    /// assert_eq!(index.delete(&[0, 1])?, 2);
    /// assert!(index.delete(&[1, 2]).is_err(), "1 is deleted already");
    /// assert_eq!(index.delete(DeleteKeys::Present(&[1, 2]))?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// No key is deleted. Fails with
    /// - [`ErrorKind::UnknownKey`] if a key is not in the index or deleted already, and [`ErrorKind::DuplicateKey`] if
    ///   it is given twice, unless the keys are [`DeleteKeys::Present`];
    /// - [`ErrorKind::Unsupported`] if the index [follows](crate::OpenOptions::follow) another;
    /// - [`ErrorKind::Io`] if the index is durable and its journal cannot be written;
    /// - [`ErrorKind::Device`] if the device failed.
    pub fn delete<'a>(&self, keys: impl Into<DeleteKeys<'a>>) -> Result<usize> {
        self.delete_keys(keys.into())
    }

    fn delete_keys(&self, keys: DeleteKeys<'_>) -> Result<usize> {
        Ok(self.inner.delete(keys)?)
    }

    /// Queues an insert, an upsert or a delete, and returns a future at once: see [`Update`]. It owns a copy of the vectors
    /// and keys.
    ///
    /// Changes that are queued while others are made are made together, in their order, as those of threads that wait are.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::OutOfThreads`] if the thread that makes the changes cannot be started, or with
    /// [`ErrorKind::InvalidInput`] if a vector cannot be converted: then there is no future. The future returns the
    /// other errors of [`Self::insert`], [`Self::upsert`] and [`Self::delete`].
    pub fn submit_update<R: 'static>(&self, update: Update<'_, R>) -> Result<Pending<R>> {
        let Update { change, result } = update;
        let change = match change {
            Change::Insert(vectors, entries) => {
                let vectors = VectorBuffer::read(vectors, self.element());
                SmallChange::insert(vectors.map_err(update_error)?, entries)
            }
            Change::Delete(keys) => SmallChange::delete(keys),
        };
        Ok(self.inner.submit_change(change, result)?)
    }

    /// Restores deleted keys, which is possible until [`Self::consolidate`], or until the key has another vector.
    ///
    /// # Errors
    /// No key is restored. Fails with [`ErrorKind::UnknownKey`] if a key is not deleted or can no longer be restored,
    /// [`ErrorKind::DuplicateKey`] if it is in the index or given twice, or [`ErrorKind::InvalidInput`] if another key
    /// has its id; and as [`Self::delete`].
    pub fn undelete(&self, keys: &[Key]) -> Result<()> {
        Ok(self.inner.undelete(keys)?)
    }

    /// Removes deleted vectors from the graph, repairs the edges around them, and frees their slots for inserts.
    ///
    /// Searches traverse deleted vectors until then. Consolidation is worthwhile when a tenth of the vectors is
    /// deleted. It also makes every key reachable again, should [`Self::check`] list some that are not: changes leave
    /// none, but files of other libraries may have them.
    ///
    /// # Errors
    /// The index is unchanged. Fails with [`ErrorKind::Device`] if the device failed, [`ErrorKind::Unsupported`] if
    /// vectors were [dropped](Self::drop_vectors), [`ErrorKind::Io`] if the index is durable and its journal cannot be
    /// written, or [`ErrorKind::Cancelled`].
    pub fn consolidate(&self) -> Result<ConsolidateReport> {
        Ok(self.inner.consolidate(&mut self.progress.report())?)
    }

    /// Moves vectors into free slots and releases the memory after them. Keys and results stay the same.
    ///
    /// On the CPU, searches go on, and until the last of them has ended there are two copies of the edges, and of segments
    /// of 65,536 vectors of which some move. On a CUDA device, searches wait for a copy of the vertices that move, and
    /// memory is kept for later inserts. A progress callback can cancel it until vectors begin to move.
    ///
    /// # Errors
    /// The index is unchanged. Fails with [`ErrorKind::OutOfMemory`], [`ErrorKind::Io`] if the index is durable and its
    /// journal cannot be written, [`ErrorKind::Cancelled`], or [`ErrorKind::Device`] if the device failed: if a CUDA
    /// device fails while vectors move, the index is unusable there and its edges are lost.
    pub fn compact(&self) -> Result<CompactReport> {
        Ok(self.inner.compact(&mut self.progress.report())?)
    }
}
