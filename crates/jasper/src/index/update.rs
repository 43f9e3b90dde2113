//! Changes: inserts, deletes, consolidation and compaction.

use jasper_core::{Element, Key, MatrixView, Progress, Stage, VectorSource, no_progress};
use jasper_graph::{KeyMap, VectorError};
use jasper_vamana::{CompactReport, ConsolidateReport, InsertReport, OnConflict, UpdateError};

use crate::changes::NewKeys;
use crate::changes::small::{ChangeFuture, SMALL, SmallChange};
use crate::journal::Record;
use crate::progress::long_calls;
use crate::{Index, WithProgress};

// `index` is the `self` of the calls.
long_calls! {
    impl<T: Element> Index<T> as (index, progress);

    /// Removes deleted vectors from the graph, repairs the edges around them, and frees their slots for inserts.
    ///
    /// Searches traverse deleted vectors until then. Consolidation is worthwhile when a tenth of the vectors is
    /// deleted. It also makes every key reachable again, should [`Self::check`] list some that are not: changes leave
    /// none, but files of other libraries may have them.
    ///
    /// # Errors
    /// Returns [`UpdateError`] if the device failed, vectors were [dropped](Self::drop_vectors), or the index is
    /// durable and the change cannot be written to its journal ([`UpdateError::Journal`]); the index is unchanged.
    pub fn consolidate() -> Result<ConsolidateReport, UpdateError> {
        index.changes.change(Some(&Record::Consolidate), progress, |_, hooks| index.backend.consolidate(hooks))
    }

    /// Moves vectors into free slots and releases the memory after them. Keys and results stay the same.
    ///
    /// On the CPU, searches go on, and until the last of them has ended there are two copies of the edges, and of segments
    /// of 65,536 vectors of which some move. On a CUDA device, searches wait for a copy of the vertices that move, and
    /// memory is kept for
    /// later inserts. A progress callback can cancel it until vectors begin to move.
    ///
    /// # Errors
    /// Returns [`UpdateError`], and the index is unchanged, if memory cannot be allocated, or if the index is durable
    /// and the change cannot be written to its journal ([`UpdateError::Journal`]). Returns it also if the device
    /// failed. If a CUDA device fails while vectors move, the index is unusable there and its edges are lost.
    pub fn compact() -> Result<CompactReport, UpdateError> {
        index.changes.change(Some(&Record::Compact), progress, |_, hooks| {
            let shards = index.backend.shards_or_self().into_iter();
            let total = shards.map(|shard| shard.read(|graph| graph.keys().free())).sum();
            Progress { stage: Stage::Compacting, done: 0, total }.report(hooks.progress)?;
            index.backend.compact()
        })
    }
}

impl<T: Element> Index<T> {
    /// Adds vectors, each under the key at the same position.
    ///
    /// ```
    /// # use jasper::{IndexBuilder, MatrixView, Metric};
    /// let index = IndexBuilder::new(Metric::L2).empty::<f32>(2)?;
    /// let report = index.insert(&MatrixView::new(&[0.5, 1.5, 2.5, 3.5], 2)?, &[70, 50])?;
    /// assert_eq!((report.keys, index.vector(50)), (2, Some(vec![2.5, 3.5])));
    /// assert!(index.insert(&MatrixView::new(&[4.5, 5.5], 2)?, &[50]).is_err(), "the key is there");
    /// index.upsert(&MatrixView::new(&[4.5, 5.5], 2)?, &[50])?;
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
    /// - a vector has another dimension or a value that is not finite, is too long for distances to be finite, or is
    ///   zero under the cosine metric;
    /// - the index is full, or has no vectors because they were [dropped](Self::drop_vectors);
    /// - the source of the vectors cannot be read, memory cannot be allocated, or the device fails;
    /// - the index is durable, and the change cannot be written to its journal ([`UpdateError::Journal`]).
    pub fn insert(&self, vectors: &dyn VectorSource<T>, keys: &[Key]) -> Result<InsertReport, UpdateError> {
        let keys = NewKeys::Given(keys, OnConflict::Refuse);
        Ok(self.insert_small(vectors, keys)?.1)
    }

    /// Adds vectors under new keys, which follow the largest key ever used. Returns the first of them, and the report.
    ///
    /// # Errors
    /// As [`Self::insert`], but no key can be refused unless the new ones would reach [`NO_KEY`](crate::NO_KEY). The
    /// index is unchanged.
    pub fn insert_auto(&self, vectors: &dyn VectorSource<T>) -> Result<(Key, InsertReport), UpdateError> {
        self.insert_small(vectors, NewKeys::Next)
    }

    /// Adds vectors under keys, replacing the vectors of keys that are already in the index.
    ///
    /// # Errors
    /// As [`Self::insert`], but keys may be in the index. The index is unchanged.
    pub fn upsert(&self, vectors: &dyn VectorSource<T>, keys: &[Key]) -> Result<InsertReport, UpdateError> {
        let keys = NewKeys::Given(keys, OnConflict::Replace);
        Ok(self.insert_small(vectors, keys)?.1)
    }

    /// Makes an insert, if it is small together with others.
    fn insert_small(
        &self,
        vectors: &dyn VectorSource<T>,
        keys: NewKeys<'_>,
    ) -> Result<(Key, InsertReport), UpdateError> {
        match vectors.in_memory() {
            Some(vectors) if (1..=SMALL).contains(&vectors.len()) => self.small_changes.insert(vectors, keys),
            _ => self.changes.insert(vectors, keys, &mut no_progress),
        }
    }

    /// Queues an insert of vectors under keys, and returns a future at once: see [`Self::insert`]. It owns a copy of both.
    ///
    /// Changes that are queued while others are made are made together, as those of threads that wait are.
    ///
    /// ```
    /// # use jasper::{IndexBuilder, MatrixView, Metric, UpdateError};
    /// # use std::task::{Context, Poll, Waker};
    /// let index = IndexBuilder::new(Metric::L2).empty::<f32>(2)?;
    /// let change = async {
    ///     let inserted = index.submit_insert(MatrixView::new(&[0.5, 1.5], 2)?, &[7])?;
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
    /// Returns [`UpdateError::Thread`] if the thread that makes the changes cannot be started: then there is no future. The
    /// future returns the errors of [`Self::insert`].
    pub fn submit_insert(
        &self,
        vectors: MatrixView<'_, T>,
        keys: &[Key],
    ) -> Result<ChangeFuture<T, InsertReport>, UpdateError> {
        self.submit_keys(vectors, keys, OnConflict::Refuse)
    }

    /// Queues an upsert, and returns a future at once: see [`Self::submit_insert`] and [`Self::upsert`].
    ///
    /// # Errors
    /// As [`Self::submit_insert`].
    pub fn submit_upsert(
        &self,
        vectors: MatrixView<'_, T>,
        keys: &[Key],
    ) -> Result<ChangeFuture<T, InsertReport>, UpdateError> {
        self.submit_keys(vectors, keys, OnConflict::Replace)
    }

    fn submit_keys(
        &self,
        vectors: MatrixView<'_, T>,
        keys: &[Key],
        on_conflict: OnConflict,
    ) -> Result<ChangeFuture<T, InsertReport>, UpdateError> {
        let change = SmallChange::insert(vectors, NewKeys::Given(keys, on_conflict));
        let submitted = self.small_changes.submit(change).map_err(UpdateError::Thread)?;
        Ok(ChangeFuture::new(submitted, |(_, report)| report))
    }

    /// Queues a delete, and returns a future at once: see [`Self::submit_insert`] and [`Self::delete`].
    ///
    /// # Errors
    /// As [`Self::submit_insert`].
    pub fn submit_delete(&self, keys: &[Key]) -> Result<ChangeFuture<T, ()>, UpdateError> {
        let submitted = self.small_changes.submit(SmallChange::Delete(keys.to_vec()));
        Ok(ChangeFuture::new(submitted.map_err(UpdateError::Thread)?, drop))
    }

    /// Adds one vector.
    ///
    /// # Errors
    /// As [`Self::insert`]; the index is unchanged.
    pub fn insert_one(&self, vector: &[T], key: Key) -> Result<InsertReport, UpdateError> {
        self.insert(&single(vector)?, &[key])
    }

    /// Adds one vector under a key, replacing its vector if the key is already in the index.
    ///
    /// # Errors
    /// As [`Self::upsert`]; the index is unchanged.
    pub fn upsert_one(&self, vector: &[T], key: Key) -> Result<InsertReport, UpdateError> {
        self.upsert(&single(vector)?, &[key])
    }

    /// Deletes keys: searches no longer return them. Their vectors stay in the graph, and can be restored, until
    /// [`Self::consolidate`].
    ///
    /// # Errors
    /// Returns [`UpdateError`] if a key is unknown, deleted already, or given twice, or if the index is durable and the
    /// change cannot be written to its journal ([`UpdateError::Journal`]); none is deleted then.
    pub fn delete(&self, keys: &[Key]) -> Result<(), UpdateError> {
        if (1..=SMALL).contains(&keys.len()) {
            self.small_changes.delete(keys)
        } else {
            self.changes.delete(keys)
        }
    }

    /// Deletes those of the keys that are in the index, and returns their number. A key given twice is deleted
    /// once. See [`Self::delete`].
    ///
    /// # Errors
    /// Returns [`UpdateError`] if a device fails, or if the index is durable and the change cannot be written to its
    /// journal ([`UpdateError::Journal`]); none is deleted then.
    pub fn delete_if_present(&self, keys: &[Key]) -> Result<usize, UpdateError> {
        self.changes.change(None, &mut no_progress, |change, _| {
            let mut present = keys.to_vec();
            present.sort_unstable();
            present.dedup();
            present.retain(|&key| self.contains(key));
            if !present.is_empty() {
                change.log::<T>(&Record::Delete(&present))?;
                self.changes.change_checked_keys(&present, [KeyMap::delete, KeyMap::restore])?;
            }
            Ok(present.len())
        })
    }

    /// Restores deleted keys, which is possible until [`Self::consolidate`], or until the key has another vector.
    ///
    /// # Errors
    /// Returns [`UpdateError`] if a key cannot be restored, or if the index is durable and the change cannot be written
    /// to its journal ([`UpdateError::Journal`]); none is restored then.
    pub fn undelete(&self, keys: &[Key]) -> Result<(), UpdateError> {
        self.changes.change_keys(&Record::Undelete(keys), keys, [KeyMap::restore, KeyMap::delete])
    }

    /// Returns the key after the largest ever used: the first that [`Self::insert_auto`] would assign now.
    pub fn next_key(&self) -> Key {
        self.changes.next_key()
    }
}

fn single<T: Element>(vector: &[T]) -> Result<MatrixView<'_, T>, UpdateError> {
    MatrixView::new(vector, vector.len()).map_err(|error| VectorError::from(error).into())
}

impl<T: Element> WithProgress<'_, Index<T>> {
    /// See [`Index::insert`].
    ///
    /// # Errors
    /// The errors of that method, and [`UpdateError::Cancelled`].
    pub fn insert(self, vectors: &dyn VectorSource<T>, keys: &[Key]) -> Result<InsertReport, UpdateError> {
        let keys = NewKeys::Given(keys, OnConflict::Refuse);
        Ok(self.inner.changes.insert(vectors, keys, self.progress)?.1)
    }

    /// See [`Index::insert_auto`].
    ///
    /// # Errors
    /// The errors of that method, and [`UpdateError::Cancelled`].
    pub fn insert_auto(self, vectors: &dyn VectorSource<T>) -> Result<(Key, InsertReport), UpdateError> {
        self.inner.changes.insert(vectors, NewKeys::Next, self.progress)
    }

    /// See [`Index::upsert`].
    ///
    /// # Errors
    /// The errors of that method, and [`UpdateError::Cancelled`].
    pub fn upsert(self, vectors: &dyn VectorSource<T>, keys: &[Key]) -> Result<InsertReport, UpdateError> {
        let keys = NewKeys::Given(keys, OnConflict::Replace);
        Ok(self.inner.changes.insert(vectors, keys, self.progress)?.1)
    }
}
