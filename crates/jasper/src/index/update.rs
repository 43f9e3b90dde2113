//! Changes: inserts, deletes, consolidation and compaction.

use std::io;

use jasper_core::{Element, Key, MatrixView, VectorSource, Vectors};
use jasper_graph::VectorError;
use jasper_vamana::{CompactReport, ConsolidateReport, InsertReport, OnConflict, UpdateError};

use super::{Index, typed, vector_error};
use crate::batcher::Pending;
use crate::changes::NewKeys;
use crate::changes::small::SMALL;
use crate::typed::TypedIndex;

impl Index {
    /// Adds vectors, each under the key at the same position.
    ///
    /// ```
    /// # use jasper::{ElementKind, IndexBuilder, MatrixView, Metric};
    /// let index = IndexBuilder::new(Metric::L2).empty(ElementKind::F32, 2)?;
    /// let report = index.insert(MatrixView::new(&[0.5, 1.5, 2.5, 3.5_f32], 2)?, &[70, 50])?;
    /// assert_eq!((report.keys, index.vector(50)), (2, Some(vec![2.5, 3.5])));
    /// assert!(index.insert(&[4.5_f32, 5.5], &[50]).is_err(), "the key is there");
    /// index.upsert(&[4.5_f32, 5.5], &[50])?;
    /// index.delete(&[70])?;
    /// index.undelete(&[70])?; // Until `consolidate`.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Identical vectors share a vertex of the graph. The cost is that of a search per vector. On the CPU,
    /// small batches are fine; on a CUDA device, large ones are faster. Up to 64 vectors in memory are inserted together
    /// with those of other threads that arrive while the change before is made.
    ///
    /// # Errors
    /// Returns [`UpdateError`], and the index is unchanged, if
    /// - a key is in the index, given twice, or [`NO_KEY`](crate::NO_KEY), or there is not one key per vector;
    /// - a vector has another dimension or a value that is not finite or that the element type cannot hold, is too long for
    ///   distances to be finite, or is zero under the cosine metric;
    /// - the index is full, or has no vectors because they were [dropped](Self::drop_vectors);
    /// - the source of the vectors cannot be read, memory cannot be allocated, or the device fails;
    /// - the index is durable, and the change cannot be written to its journal ([`UpdateError::Journal`]).
    pub fn insert<'a>(
        &self,
        vectors: impl Into<Vectors<'a>>,
        keys: &[Key],
    ) -> Result<InsertReport, UpdateError> {
        Ok(self.insert_as(vectors.into(), NewKeys::Given(keys, OnConflict::Refuse))?.1)
    }

    /// Adds vectors under new keys, which follow the largest key ever used. Returns the first of them, and the report.
    ///
    /// # Errors
    /// As [`Self::insert`], but no key can be refused unless the new ones would reach [`NO_KEY`](crate::NO_KEY). The
    /// index is unchanged.
    pub fn insert_auto<'a>(
        &self,
        vectors: impl Into<Vectors<'a>>,
    ) -> Result<(Key, InsertReport), UpdateError> {
        self.insert_as(vectors.into(), NewKeys::Next)
    }

    /// Adds vectors under keys, replacing the vectors of keys that are already in the index.
    ///
    /// # Errors
    /// As [`Self::insert`], but keys may be in the index. The index is unchanged.
    pub fn upsert<'a>(
        &self,
        vectors: impl Into<Vectors<'a>>,
        keys: &[Key],
    ) -> Result<InsertReport, UpdateError> {
        Ok(self.insert_as(vectors.into(), NewKeys::Given(keys, OnConflict::Replace))?.1)
    }

    fn insert_as(&self, vectors: Vectors<'_>, keys: NewKeys<'_>) -> Result<(Key, InsertReport), UpdateError> {
        fn insert<T: Element>(
            index: &Index,
            typed: &TypedIndex<T>,
            vectors: Vectors<'_>,
            keys: NewKeys<'_>,
        ) -> Result<(Key, InsertReport), UpdateError> {
            if vectors.is_in_memory() && vectors.len() <= SMALL && !index.progress.is_set() {
                return vectors.with_matrix(|vectors| typed.insert(&vectors, keys)).map_err(update_error)?;
            }
            let insert = |vectors: &dyn VectorSource<T>| {
                typed.changes.insert(vectors, keys, &mut index.progress.report())
            };
            match vectors.with_source(insert).map_err(VectorError::from)? {
                Err(UpdateError::Read(error)) => Err(update_error(error)),
                made => made,
            }
        }
        typed!(self, typed => insert(self, typed, vectors, keys))
    }

    /// Queues an insert of vectors under keys, and returns a future at once: see [`Self::insert`]. It owns a copy of both.
    ///
    /// Changes that are queued while others are made are made together, as those of threads that wait are.
    ///
    /// ```
    /// # use jasper::{ElementKind, IndexBuilder, Metric};
    /// # use std::task::{Context, Poll, Waker};
    /// let index = IndexBuilder::new(Metric::L2).empty(ElementKind::F32, 2)?;
    /// let change = async {
    ///     let inserted = index.submit_insert(&[0.5_f32, 1.5], &[7])?;
    ///     let deleted = index.submit_delete(&[7])?;
    ///     inserted.await?;
    ///     Ok::<_, Box<dyn std::error::Error>>(deleted.await?)
    /// };
    /// // In a server, the runtime polls.
    /// let mut change = std::pin::pin!(change);
    /// while change.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
    ///     std::thread::yield_now();
    /// }
    /// assert!(index.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`UpdateError::Thread`] if the thread that makes the changes cannot be started, or [`UpdateError::Vector`] if
    /// a vector cannot be converted: then there is no future. The future returns the other errors of [`Self::insert`].
    pub fn submit_insert<'a>(
        &self,
        vectors: impl Into<Vectors<'a>>,
        keys: &[Key],
    ) -> Result<Pending<Result<InsertReport, UpdateError>>, UpdateError> {
        self.submit_keys(vectors.into(), keys, OnConflict::Refuse)
    }

    /// Queues an upsert, and returns a future at once: see [`Self::submit_insert`] and [`Self::upsert`].
    ///
    /// # Errors
    /// As [`Self::submit_insert`].
    pub fn submit_upsert<'a>(
        &self,
        vectors: impl Into<Vectors<'a>>,
        keys: &[Key],
    ) -> Result<Pending<Result<InsertReport, UpdateError>>, UpdateError> {
        self.submit_keys(vectors.into(), keys, OnConflict::Replace)
    }

    fn submit_keys(
        &self,
        vectors: Vectors<'_>,
        keys: &[Key],
        on_conflict: OnConflict,
    ) -> Result<Pending<Result<InsertReport, UpdateError>>, UpdateError> {
        typed!(self, index => {
            let submit = |vectors: MatrixView<'_, _>| index.submit_insert(vectors, keys, on_conflict);
            vectors.with_matrix(submit).map_err(update_error)?
        })
    }

    /// Deletes keys: searches no longer return them. Their vectors stay in the graph, and can be restored, until
    /// [`Self::consolidate`].
    ///
    /// # Errors
    /// Returns [`UpdateError`] if a key is unknown, deleted already, or given twice, or if the index is durable and the
    /// change cannot be written to its journal ([`UpdateError::Journal`]); none is deleted then.
    pub fn delete(&self, keys: &[Key]) -> Result<(), UpdateError> {
        typed!(self, index => index.delete(keys))
    }

    /// Deletes those of the keys that are in the index, and returns their number. A key given twice is deleted
    /// once. See [`Self::delete`].
    ///
    /// # Errors
    /// Returns [`UpdateError`] if a device fails, or if the index is durable and the change cannot be written to its
    /// journal ([`UpdateError::Journal`]); none is deleted then.
    pub fn delete_if_present(&self, keys: &[Key]) -> Result<usize, UpdateError> {
        typed!(self, index => index.delete_if_present(keys))
    }

    /// Queues a delete, and returns a future at once: see [`Self::submit_insert`] and [`Self::delete`].
    ///
    /// # Errors
    /// As [`Self::submit_insert`].
    pub fn submit_delete(&self, keys: &[Key]) -> Result<Pending<Result<(), UpdateError>>, UpdateError> {
        typed!(self, index => index.submit_delete(keys))
    }

    /// Restores deleted keys, which is possible until [`Self::consolidate`], or until the key has another vector.
    ///
    /// # Errors
    /// Returns [`UpdateError`] if a key cannot be restored, or if the index is durable and the change cannot be written
    /// to its journal ([`UpdateError::Journal`]); none is restored then.
    pub fn undelete(&self, keys: &[Key]) -> Result<(), UpdateError> {
        typed!(self, index => index.undelete(keys))
    }

    /// Removes deleted vectors from the graph, repairs the edges around them, and frees their slots for inserts.
    ///
    /// Searches traverse deleted vectors until then. Consolidation is worthwhile when a tenth of the vectors is
    /// deleted. It also makes every key reachable again, should [`Self::check`] list some that are not: changes leave
    /// none, but files of other libraries may have them.
    ///
    /// # Errors
    /// Returns [`UpdateError`] if the device failed, vectors were [dropped](Self::drop_vectors), or the index is
    /// durable and the change cannot be written to its journal ([`UpdateError::Journal`]); the index is unchanged.
    pub fn consolidate(&self) -> Result<ConsolidateReport, UpdateError> {
        typed!(self, index => index.consolidate(&mut self.progress.report()))
    }

    /// Moves vectors into free slots and releases the memory after them. Keys and results stay the same.
    ///
    /// On the CPU, searches go on, and until the last of them has ended there are two copies of the edges, and of segments
    /// of 65,536 vectors of which some move. On a CUDA device, searches wait for a copy of the vertices that move, and
    /// memory is kept for later inserts. A progress callback can cancel it until vectors begin to move.
    ///
    /// # Errors
    /// Returns [`UpdateError`], and the index is unchanged, if memory cannot be allocated, or if the index is durable
    /// and the change cannot be written to its journal ([`UpdateError::Journal`]). Returns it also if the device
    /// failed. If a CUDA device fails while vectors move, the index is unusable there and its edges are lost.
    pub fn compact(&self) -> Result<CompactReport, UpdateError> {
        typed!(self, index => index.compact(&mut self.progress.report()))
    }
}

/// An error of reading vectors, or of converting them.
fn update_error(error: io::Error) -> UpdateError {
    match vector_error(error) {
        VectorError::Read(error) => UpdateError::Read(error),
        error => error.into(),
    }
}
