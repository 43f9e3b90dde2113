//! Changes: inserts, deletes, consolidation and compaction.

use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;

use jasper_core::{Element, Key, MatrixView, Progress, ProgressFn, Slot, Stage, VectorSource, no_progress};
use jasper_graph::{KeyError, KeyMap, VectorError};
use jasper_vamana::{
    ChangeHooks, CompactReport, ConsolidateReport, InsertReport, NewVectors, OnConflict, UpdateError,
    check_insert,
};

use crate::Index;
use crate::backend::SharedRows;
use crate::journal::{Change, Digest, GROUP_BYTES, Record};
use crate::progress::long_calls;

/// The keys of an insert.
#[derive(Clone, Copy)]
enum NewKeys<'a> {
    /// Those of the caller, and what becomes of vectors that are there under them.
    Given(&'a [Key], OnConflict),
    /// Those after the largest key ever used.
    Next,
}

/// A change of one key.
type KeyChange = fn(&mut KeyMap, Key) -> Result<(), KeyError>;

// `index` is the `self` of the calls.
long_calls! {
    impl<T: Element> Index<T> as (index, progress);

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
    /// small batches are fine; on a CUDA device, large ones are faster.
    ///
    /// # Errors
    /// Returns [`UpdateError`], and the index is unchanged, if
    /// - a key is in the index, given twice, or [`NO_KEY`](crate::NO_KEY), or there is not one key per vector;
    /// - a vector has another dimension or a value that is not finite, is too long for distances to be finite, or is
    ///   zero under the cosine metric;
    /// - the index is full, or has no vectors because they were [dropped](Self::drop_vectors);
    /// - the source of the vectors cannot be read, memory cannot be allocated, or the device fails;
    /// - the index is durable, and the change cannot be written to its journal ([`UpdateError::Journal`]).
    pub fn insert(vectors: &dyn VectorSource<T>, keys: &[Key]) -> Result<InsertReport, UpdateError> {
        let keys = NewKeys::Given(keys, OnConflict::Refuse);
        Ok(index.insert_from(vectors, keys, progress)?.1)
    }

    /// Adds vectors under new keys, which follow the largest key ever used. Returns the first of them, and the report.
    ///
    /// # Errors
    /// As [`Self::insert`], but no key can be refused unless the new ones would reach [`NO_KEY`](crate::NO_KEY). The
    /// index is unchanged.
    pub fn insert_auto(vectors: &dyn VectorSource<T>) -> Result<(Key, InsertReport), UpdateError> {
        index.insert_from(vectors, NewKeys::Next, progress)
    }

    /// Adds vectors under keys, replacing the vectors of keys that are already in the index.
    ///
    /// # Errors
    /// As [`Self::insert`], but keys may be in the index. The index is unchanged.
    pub fn upsert(vectors: &dyn VectorSource<T>, keys: &[Key]) -> Result<InsertReport, UpdateError> {
        let keys = NewKeys::Given(keys, OnConflict::Replace);
        Ok(index.insert_from(vectors, keys, progress)?.1)
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
    pub fn consolidate() -> Result<ConsolidateReport, UpdateError> {
        index.change(Some(&Record::Consolidate), progress, |_, hooks| index.backend.consolidate(hooks))
    }

    /// Moves vectors into free slots and releases the memory after them. Keys and results stay the same.
    ///
    /// Searches wait meanwhile. The cost is a copy of the vertices that move. On a CUDA device, memory is kept for
    /// later inserts. A progress callback can cancel it until vectors begin to move.
    ///
    /// # Errors
    /// Returns [`UpdateError`], and the index is unchanged, if memory cannot be allocated, or if the index is durable
    /// and the change cannot be written to its journal ([`UpdateError::Journal`]). Returns it also if the device
    /// failed. If a CUDA device fails while vectors move, the index is unusable there and its edges are lost.
    pub fn compact() -> Result<CompactReport, UpdateError> {
        index.change(Some(&Record::Compact), progress, |_, hooks| {
            let total = index.stats().free_slots;
            Progress { stage: Stage::Compacting, done: 0, total }.report(hooks.progress)?;
            index.backend.compact()
        })
    }
}

impl<T: Element> Index<T> {
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
        self.change_keys(&Record::Delete(keys), keys, [KeyMap::delete, KeyMap::restore])
    }

    /// Deletes those of the keys that are in the index, and returns their number. A key given twice is deleted
    /// once. See [`Self::delete`].
    ///
    /// # Errors
    /// Returns [`UpdateError`] if a device fails, or if the index is durable and the change cannot be written to its
    /// journal ([`UpdateError::Journal`]); none is deleted then.
    pub fn delete_if_present(&self, keys: &[Key]) -> Result<usize, UpdateError> {
        self.change(None, &mut no_progress, |change, _| {
            let mut present = keys.to_vec();
            present.sort_unstable();
            present.dedup();
            present.retain(|&key| self.contains(key));
            if !present.is_empty() {
                change.log::<T>(&Record::Delete(&present))?;
                self.change_checked_keys(&present, [KeyMap::delete, KeyMap::restore])?;
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
        self.change_keys(&Record::Undelete(keys), keys, [KeyMap::restore, KeyMap::delete])
    }

    /// Changes all keys if all of them pass the check, and none otherwise.
    fn change_keys(
        &self,
        record: &Record<'_, T>,
        keys: &[Key],
        change_and_undo: [KeyChange; 2],
    ) -> Result<(), UpdateError> {
        self.change(Some(record), &mut no_progress, |_, _| {
            self.check_change(record)?;
            self.change_checked_keys(keys, change_and_undo)
        })
    }

    /// Changes all keys, which were checked, or none. The caller holds the writer lock.
    fn change_checked_keys(&self, keys: &[Key], [change, undo]: [KeyChange; 2]) -> Result<(), UpdateError> {
        let shards = self.backend.shards_or_self();
        let apply = |change: KeyChange, shard: usize| {
            let keys = keys.iter().filter(|&&key| self.backend.shard_of(key) == shard);
            shards[shard].change(|graph| keys.clone().try_for_each(|&key| change(graph.keys_mut(), key)))
        };
        for shard in 0..shards.len() {
            let changed = apply(change, shard).map_err(UpdateError::from);
            if let Err(error) = changed.and_then(|changed| Ok(changed?)) {
                // Only a device can fail: the keys were checked.
                (0..shard).for_each(|changed| drop(apply(undo, changed)));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Makes an insert; returns the first of the keys, or the next one if there are none. If it is logged, the log has
    /// the vectors that are inserted, though a source may give others when it is read again: few are read once, and
    /// many, which would take too much memory, are compared.
    fn insert_from(
        &self,
        vectors: &dyn VectorSource<T>,
        keys: NewKeys<'_>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<(Key, InsertReport), UpdateError> {
        if self.journal.is_none() || vectors.in_memory().is_some() {
            return self.insert_logged(vectors, vectors, keys, progress, &mut || true);
        }
        if (vectors.len() * vectors.dimension() * size_of::<T>()) as u64 <= GROUP_BYTES {
            let read = SharedRows::new(vectors)?;
            let vectors = read.view()?;
            return self.insert_logged(&vectors, &vectors, keys, progress, &mut || true);
        }
        match vectors.concurrent() {
            Some(vectors) => self.insert_compared(vectors, keys, progress),
            None => self.insert_compared(vectors, keys, progress),
        }
    }

    /// Inserts the vectors of a source that is read for the log, and again to be inserted.
    fn insert_compared<S: ?Sized>(
        &self,
        source: &S,
        keys: NewKeys<'_>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<(Key, InsertReport), UpdateError>
    where
        for<'a> Digest<'a, S>: VectorSource<T>,
    {
        let (logged, inserted) = (Digest::new(source), Digest::new(source));
        let mut is_same = true;
        let mut compare = || {
            is_same = logged.sum() == inserted.sum();
            is_same
        };
        let made = self.insert_logged(&logged, &inserted, keys, progress, &mut compare);
        if !is_same {
            let reason = "the source gave other vectors when they were read again";
            return Err(UpdateError::Read(io::Error::new(io::ErrorKind::InvalidData, reason)));
        }
        match (made, logged.into_failure()) {
            (Err(UpdateError::Journal(_)), Some(error)) => Err(UpdateError::Read(error)),
            (made, _) => made,
        }
    }

    /// Inserts vectors, and logs them if the index is durable. Cancels the insert if `compare`, which is called once
    /// both are read, is false.
    fn insert_logged(
        &self,
        logged: &dyn VectorSource<T>,
        inserted: &dyn VectorSource<T>,
        keys: NewKeys<'_>,
        progress: &mut ProgressFn<'_>,
        compare: &mut dyn FnMut() -> bool,
    ) -> Result<(Key, InsertReport), UpdateError> {
        let record = match keys {
            NewKeys::Given(keys, on_conflict) => {
                Record::Insert(NewVectors { vectors: logged, keys, on_conflict })
            }
            NewKeys::Next => Record::InsertAuto(logged),
        };
        self.change(Some(&record), progress, |_, ChangeHooks { progress, mut before_commit }| {
            let mut wait_and_compare = || match before_commit.as_mut().map(|wait| wait()) {
                Some(ControlFlow::Break(())) => ControlFlow::Break(()),
                _ if compare() => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            };
            let hooks = ChangeHooks { progress, before_commit: Some(&mut wait_and_compare) };
            let next;
            let (keys, on_conflict) = match keys {
                NewKeys::Given(keys, on_conflict) => (keys, on_conflict),
                NewKeys::Next => {
                    next = self.next_keys(inserted.len())?;
                    (&next[..], OnConflict::Refuse)
                }
            };
            let new = NewVectors { vectors: inserted, keys, on_conflict };
            let report = self.backend.insert(new, hooks)?;
            Ok((keys.first().copied().unwrap_or_else(|| self.next_key()), report))
        })
    }

    /// Makes a change, in its turn and under the writer lock. All logged changes pass through here. `record` is
    /// checked, then logged: before `make`, or, if it has a commit point, while `make` computes the change. With
    /// `None`, `make` logs the change itself. `make` checks the change again.
    pub(crate) fn change<R, E: From<UpdateError>>(
        &self,
        record: Option<&Record<'_, T>>,
        progress: &mut ProgressFn<'_>,
        make: impl FnOnce(&mut Change<'_>, ChangeHooks<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        if let (Some(_), Some(record)) = (&self.journal, record) {
            // Most changes that will be refused need not be logged.
            self.check_change(record)?;
        }
        let made = Change::make(self.journal.as_ref(), record, progress, |change, hooks| {
            let _writer = self.lock_writer();
            make(change, hooks)
        })?;
        self.snapshot_if_due();
        Ok(made)
    }

    /// Checks what can be checked of a change before it is made.
    fn check_change(&self, record: &Record<'_, T>) -> Result<(), UpdateError> {
        let check_keys = |keys: &[Key], check: fn(&KeyMap, Key) -> Result<Slot, KeyError>| {
            let mut seen = HashSet::with_capacity(keys.len());
            if let Some(&key) = keys.iter().find(|&&key| !seen.insert(key)) {
                return Err(UpdateError::RepeatedKey(key));
            }
            for (shard, backend) in self.backend.shards_or_self().into_iter().enumerate() {
                let mut keys = keys.iter().filter(|&&key| self.backend.shard_of(key) == shard);
                backend.read(|graph| keys.try_for_each(|&key| check(graph.keys(), key).map(drop)))?;
            }
            Ok(())
        };
        let check_insert = |new| self.backend.read(|graph| check_insert(&*self.executor, graph, new));
        match *record {
            Record::Insert(new) => check_insert(new),
            Record::InsertAuto(vectors) => {
                let keys = self.next_keys(vectors.len())?;
                check_insert(NewVectors { vectors, keys: &keys, on_conflict: OnConflict::Refuse })
            }
            Record::Delete(keys) => check_keys(keys, KeyMap::live_slot),
            Record::Undelete(keys) => check_keys(keys, KeyMap::restorable_slot),
            _ => Ok(()),
        }
    }

    /// Returns the key after the largest ever used: the first that [`Self::insert_auto`] would assign now.
    pub fn next_key(&self) -> Key {
        let shards = self.backend.shards_or_self().into_iter();
        shards.map(|shard| shard.read(|graph| graph.keys().next_key())).max().unwrap_or(0)
    }

    /// The keys after the largest ever used.
    fn next_keys(&self, count: usize) -> Result<Vec<Key>, KeyError> {
        let first = self.next_key();
        // The largest key is NO_KEY, which is reserved.
        let end = first.checked_add(count as Key);
        let end = end.ok_or(KeyError::NoneLeft { count, last: first.saturating_sub(1) })?;
        Ok((first..end).collect())
    }
}

fn single<T: Element>(vector: &[T]) -> Result<MatrixView<'_, T>, UpdateError> {
    MatrixView::new(vector, vector.len()).map_err(|error| VectorError::from(error).into())
}
