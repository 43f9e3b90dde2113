//! Changes: inserts, deletes, consolidation and compaction.

use std::collections::HashSet;

use jasper_core::{Element, Key, MatrixView, Progress, Slot, Stage, VectorSource, no_progress};
use jasper_graph::{KeyError, KeyMap, VectorError};
use jasper_vamana::{CompactReport, ConsolidateReport, InsertReport, OnConflict, UpdateError};

use crate::{Index, WithProgress};

impl<T: Element> Index<T> {
    /// Adds vectors, each under the key at the same position.
    ///
    /// Identical vectors share a vertex of the graph. The cost is that of a search per vector, so small batches are
    /// fine. On a CUDA device, large batches are faster.
    ///
    /// # Errors
    /// Returns [`UpdateError`], and the index is unchanged, if
    /// - a key is in the index, given twice, or [`NO_KEY`](crate::NO_KEY), or there is not one key per vector;
    /// - a vector has another dimension or a value that is not finite, is too long for distances to be finite, or is
    ///   zero under the cosine metric;
    /// - the index is full, or has no vectors because they were [dropped](Self::drop_vectors);
    /// - the source of the vectors cannot be read, memory cannot be allocated, or the device fails.
    pub fn insert(&self, vectors: &dyn VectorSource<T>, keys: &[Key]) -> Result<InsertReport, UpdateError> {
        self.with_progress(&mut no_progress).insert(vectors, keys)
    }

    /// Adds one vector.
    ///
    /// # Errors
    /// As [`Self::insert`]; the index is unchanged.
    pub fn insert_one(&self, vector: &[T], key: Key) -> Result<InsertReport, UpdateError> {
        self.insert(&single(vector)?, &[key])
    }

    /// Adds vectors under new keys, which follow the largest key ever used. Returns the first of them, and the report.
    ///
    /// # Errors
    /// As [`Self::insert`], but no key can be refused unless the new ones would reach [`NO_KEY`](crate::NO_KEY). The
    /// index is unchanged.
    pub fn insert_auto(&self, vectors: &dyn VectorSource<T>) -> Result<(Key, InsertReport), UpdateError> {
        self.with_progress(&mut no_progress).insert_auto(vectors)
    }

    /// Adds vectors under keys, replacing the vectors of keys that are already in the index.
    ///
    /// # Errors
    /// As [`Self::insert`], but keys may be in the index. The index is unchanged.
    pub fn upsert(&self, vectors: &dyn VectorSource<T>, keys: &[Key]) -> Result<InsertReport, UpdateError> {
        self.with_progress(&mut no_progress).upsert(vectors, keys)
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
    /// Returns [`UpdateError`] if a key is unknown, deleted already, or given twice; none is deleted then.
    pub fn delete(&self, keys: &[Key]) -> Result<(), UpdateError> {
        self.change_keys(keys, KeyMap::live_slot, KeyMap::delete)
    }

    /// Restores deleted keys, which is possible until [`Self::consolidate`], or until the key has another vector.
    ///
    /// # Errors
    /// Returns [`UpdateError`] if a key cannot be restored; none is restored then.
    pub fn undelete(&self, keys: &[Key]) -> Result<(), UpdateError> {
        self.change_keys(keys, KeyMap::restorable_slot, KeyMap::restore)
    }

    /// Changes all keys if all of them pass the check, and none otherwise.
    fn change_keys(
        &self,
        keys: &[Key],
        check: impl Fn(&KeyMap, Key) -> Result<Slot, KeyError>,
        change: impl Fn(&mut KeyMap, Key) -> Result<(), KeyError>,
    ) -> Result<(), UpdateError> {
        let mut seen = HashSet::with_capacity(keys.len());
        if let Some(&key) = keys.iter().find(|&&key| !seen.insert(key)) {
            return Err(UpdateError::RepeatedKey(key));
        }
        let _writer = self.lock_writer();
        self.backend.read(|graph| keys.iter().try_for_each(|&key| check(graph.keys(), key).map(drop)))?;
        Ok(self.backend.change(|graph| keys.iter().try_for_each(|&key| change(graph.keys_mut(), key)))??)
    }

    /// Removes deleted vectors from the graph, repairs the edges around them, and frees their slots for inserts.
    ///
    /// Searches traverse deleted vectors until then. Consolidation is worthwhile when a tenth of the vectors is
    /// deleted. It also makes every key reachable again, should [`Self::check`] list some that are not: changes leave
    /// none, but files of other libraries may have them.
    ///
    /// # Errors
    /// Returns [`UpdateError`] if the device failed, or vectors were [dropped](Self::drop_vectors); the index is
    /// unchanged.
    pub fn consolidate(&self) -> Result<ConsolidateReport, UpdateError> {
        self.with_progress(&mut no_progress).consolidate()
    }

    /// Moves vectors into free slots and releases the memory after them. Keys and results stay the same.
    ///
    /// Searches wait meanwhile. The cost is a copy of the vertices that move. On a CUDA device, memory is kept for
    /// later inserts.
    ///
    /// # Errors
    /// Returns [`UpdateError`] if memory cannot be allocated, and the index is unchanged, or if the device failed. If a
    /// CUDA device fails while vectors move, the index is unusable there, and its edges are lost.
    pub fn compact(&self) -> Result<CompactReport, UpdateError> {
        self.with_progress(&mut no_progress).compact()
    }
}

impl<T: Element> WithProgress<'_, &Index<T>> {
    /// See [`Index::insert`].
    ///
    /// # Errors
    /// As [`Index::insert`], or [`UpdateError::Cancelled`]; the index is unchanged.
    pub fn insert(self, vectors: &dyn VectorSource<T>, keys: &[Key]) -> Result<InsertReport, UpdateError> {
        let _writer = self.inner.lock_writer();
        self.inner.backend.insert(vectors, keys, OnConflict::Refuse, self.progress)
    }

    /// See [`Index::insert_auto`].
    ///
    /// # Errors
    /// As [`Index::insert_auto`], or [`UpdateError::Cancelled`]; the index is unchanged.
    pub fn insert_auto(self, vectors: &dyn VectorSource<T>) -> Result<(Key, InsertReport), UpdateError> {
        let Self { inner: index, progress } = self;
        let _writer = index.lock_writer();
        let first = index.backend.read(|graph| graph.keys().next_key());
        // The largest key is NO_KEY, which is reserved.
        let end = first.checked_add(vectors.len() as Key).ok_or(KeyError::Reserved)?;
        let keys: Vec<Key> = (first..end).collect();
        Ok((first, index.backend.insert(vectors, &keys, OnConflict::Refuse, progress)?))
    }

    /// See [`Index::upsert`].
    ///
    /// # Errors
    /// As [`Index::upsert`], or [`UpdateError::Cancelled`]; the index is unchanged.
    pub fn upsert(self, vectors: &dyn VectorSource<T>, keys: &[Key]) -> Result<InsertReport, UpdateError> {
        let _writer = self.inner.lock_writer();
        self.inner.backend.insert(vectors, keys, OnConflict::Replace, self.progress)
    }

    /// See [`Index::consolidate`].
    ///
    /// # Errors
    /// As [`Index::consolidate`], or [`UpdateError::Cancelled`]; the index is unchanged.
    pub fn consolidate(self) -> Result<ConsolidateReport, UpdateError> {
        let _writer = self.inner.lock_writer();
        self.inner.backend.consolidate(self.progress)
    }

    /// See [`Index::compact`]. The callback can cancel it until vectors begin to move.
    ///
    /// # Errors
    /// As [`Index::compact`], or [`UpdateError::Cancelled`]; the index is then unchanged.
    pub fn compact(self) -> Result<CompactReport, UpdateError> {
        let Self { inner: index, progress } = self;
        let _writer = index.lock_writer();
        let total = index.backend.read(|graph| graph.keys().free());
        Progress { stage: Stage::Compacting, done: 0, total }.report(progress)?;
        index.backend.compact()
    }
}

fn single<T: Element>(vector: &[T]) -> Result<MatrixView<'_, T>, UpdateError> {
    MatrixView::new(vector, vector.len()).map_err(|error| VectorError::from(error).into())
}
