//! The changes of an index: checked, logged if it is durable, made one after another.
//!
//! ```text
//! a change:
//!     check it without its turn                                  what will be refused need not be logged
//!     take a number, which is its turn                           see the module `journal`
//!     log it; an insert or a consolidation while it is computed
//!     wait for the turn, and for the lock of writers
//!     compute it, and wait until it is on disk
//!     publish it                                                 see the backends
//! ```

pub(crate) mod small;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use jasper_attributes::{AttributeError, Attributes, ColumnKind, Frame, Value};
use jasper_core::{
    Element, Key, ProgressFn, Slot, VectorBuffer, VectorSource, Vectors, no_progress, sync, with_element,
};
use jasper_graph::{FileError, FileFault, Graph, KeyError, KeyMap, SaveStats, VectorError};
use jasper_vamana::{
    ChangeHooks, CpuExecutor, InsertReport, NewVectors, OnConflict, UpdateError, check_insert,
    free_host_memory,
};

use crate::backend::Backend;
use crate::index::{NewKeys, update_error};
use crate::inner::{IndexInner, shard_files};
use crate::journal::{Change, Digest, Follower, GROUP_BYTES, Journal, JournalError, JournalFault, Record};

/// The keys of an insert.
#[derive(Clone, Copy)]
pub(crate) enum InsertKeys<'a> {
    /// Those of the caller, and what becomes of vectors that are there under them.
    Given(&'a [Key], OnConflict),
    /// Those after the largest key ever used.
    Next,
}

/// The keys of an insert, and their attributes.
#[derive(Clone, Copy)]
pub(crate) struct InsertEntries<'a> {
    pub(crate) keys: InsertKeys<'a>,
    pub(crate) attributes: Option<&'a Frame>,
}

impl<'a> InsertEntries<'a> {
    /// Those of a caller.
    pub(crate) fn new(NewKeys { keys, attributes }: NewKeys<'a>, on_conflict: OnConflict) -> Self {
        let keys = keys.map_or(InsertKeys::Next, |keys| InsertKeys::Given(keys, on_conflict));
        Self { keys, attributes }
    }
}

/// A change of keys.
pub(crate) type KeyChange = fn(&mut KeyMap, &[Key]) -> Result<(), KeyError>;

/// Bytes that a copy of a graph takes, at most: attributes are shared until they change.
fn copy_bytes(graph: &Graph) -> usize {
    let vectors = graph.vectors().bytes() + graph.vectors().code_bytes();
    let keys = graph.slots() * size_of::<Key>() + graph.keys().attributes().memory();
    vectors + graph.adjacency().bytes() + keys
}

/// What changes an index.
pub(crate) struct Changes {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) executor: Arc<CpuExecutor>,
    /// Held while the graph is changed, from the first check to the last write.
    pub(crate) writer: Arc<Mutex<()>>,
    /// The journal of a durable index.
    pub(crate) journal: OnceLock<Journal>,
    /// Makes the changes of an index that follows another, and which accepts no others.
    pub(crate) follower: OnceLock<Follower>,
}

impl Changes {
    pub(crate) fn new(backend: Arc<dyn Backend>, executor: Arc<CpuExecutor>) -> Self {
        Self::with_writer(backend, executor, Arc::default())
    }

    /// Changes of a backend that others change as well, under the same lock.
    pub(crate) fn with_writer(
        backend: Arc<dyn Backend>,
        executor: Arc<CpuExecutor>,
        writer: Arc<Mutex<()>>,
    ) -> Self {
        Self { backend, executor, writer, journal: OnceLock::new(), follower: OnceLock::new() }
    }

    /// Takes everything from here to another backend. A follower stops meanwhile.
    pub(crate) fn without_backend(self, exact_linking: bool) -> impl FnOnce(Arc<dyn Backend>) -> Self {
        let Self { executor, writer, journal, follower, .. } = self;
        let follower = follower.into_inner().and_then(Follower::stop);
        move |backend| {
            let changes = Self { journal, ..Self::with_writer(backend, executor, writer) };
            if let Some(follower) = follower {
                changes.set_follower(follower.resume(changes.follower_index(exact_linking)));
            }
            changes
        }
    }

    /// The index in which a follower makes its changes.
    pub(crate) fn follower_index(&self, exact_linking: bool) -> IndexInner {
        let (backend, executor) = (Arc::clone(&self.backend), Arc::clone(&self.executor));
        IndexInner::with_changes(
            Self::with_writer(backend, executor, Arc::clone(&self.writer)),
            exact_linking,
        )
    }

    /// Accepts changes of this follower only.
    pub(crate) fn set_follower(&self, follower: Follower) {
        assert!(self.follower.set(follower).is_ok(), "an index follows one other");
    }

    /// Logs changes from now on. There is no journal yet.
    pub(crate) fn set_journal(&self, journal: Journal) {
        assert!(self.journal.set(journal).is_ok(), "an index has one journal");
    }

    pub(crate) fn lock_writer(&self) -> MutexGuard<'_, ()> {
        sync::lock(&self.writer)
    }

    /// Changes all keys if all of them pass the check, and none otherwise.
    pub(crate) fn change_keys(
        &self,
        record: &Record<'_>,
        keys: &[Key],
        change_and_undo: [KeyChange; 2],
    ) -> Result<(), UpdateError> {
        self.change(Some(record), &mut no_progress, |_, _| {
            self.check_change(record)?;
            self.change_checked_keys(keys, change_and_undo)
        })
    }

    /// Changes all keys, which were checked, or none. The caller holds the writer lock.
    pub(crate) fn change_checked_keys(
        &self,
        keys: &[Key],
        [change, undo]: [KeyChange; 2],
    ) -> Result<(), UpdateError> {
        let shards = self.backend.shards_or_self();
        let apply = |change: KeyChange, shard: usize| {
            let of_shard = |key: &Key| self.backend.shard_of(*key) == shard;
            let keys: Cow<'_, [Key]> = match shards.len() {
                1 => keys.into(),
                _ => keys.iter().copied().filter(of_shard).collect(),
            };
            shards[shard].change(|graph| change(graph.keys_mut(), &keys))
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

    /// Makes an insert. If it is logged, the log has the vectors that are inserted, though a source may give others when it is read again: few are read once, and
    /// many, which would take too much memory, are compared.
    pub(crate) fn insert(
        &self,
        vectors: Vectors<'_>,
        entries: InsertEntries<'_>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<InsertReport, UpdateError> {
        if self.journal.get().is_none() || vectors.is_in_memory() {
            return self.insert_logged(vectors, vectors, entries, progress, &mut || true);
        }
        let element = vectors.element();
        if (vectors.len() * vectors.dimension() * element.size()) as u64 <= GROUP_BYTES {
            let read = VectorBuffer::read(vectors, element).map_err(update_error)?;
            let vectors = read.vectors();
            return self.insert_logged(vectors, vectors, entries, progress, &mut || true);
        }
        let made = with_element!(element, T => vectors.with_source::<T, _>(|source| match source.concurrent() {
            Some(source) => self.insert_compared::<T, _>(source, entries, progress),
            None => self.insert_compared::<T, _>(source, entries, progress),
        }));
        made.map_err(VectorError::from)?
    }

    /// Inserts the vectors of a source that is read for the log, and again to be inserted.
    fn insert_compared<T: Element, S: ?Sized>(
        &self,
        source: &S,
        entries: InsertEntries<'_>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<InsertReport, UpdateError>
    where
        for<'a> Digest<'a, S>: VectorSource<T>,
    {
        let (logged, inserted) = (Digest::new(source), Digest::new(source));
        let mut is_same = true;
        let mut compare = || {
            is_same = logged.sum() == inserted.sum();
            is_same
        };
        let [from_log, from_insert] = [&logged, &inserted].map(|source| Vectors::from_source::<T>(source));
        let made = self.insert_logged(from_log, from_insert, entries, progress, &mut compare);
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
        logged: Vectors<'_>,
        inserted: Vectors<'_>,
        entries: InsertEntries<'_>,
        progress: &mut ProgressFn<'_>,
        compare: &mut dyn FnMut() -> bool,
    ) -> Result<InsertReport, UpdateError> {
        let InsertEntries { keys, attributes } = entries;
        let record = match keys {
            InsertKeys::Given(keys, on_conflict) => {
                Record::Insert(NewVectors::new(logged, keys, on_conflict).with_attributes(attributes))
            }
            InsertKeys::Next => Record::InsertAuto(logged, attributes),
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
                InsertKeys::Given(keys, on_conflict) => (keys, on_conflict),
                InsertKeys::Next => {
                    next = self.next_keys(inserted.len())?;
                    (&next[..], OnConflict::Refuse)
                }
            };
            if let Some(attributes) = attributes {
                self.check_ids(keys, attributes)?;
            }
            let new = NewVectors::new(inserted, keys, on_conflict).with_attributes(attributes);
            self.backend.insert(new, hooks)
        })
    }

    /// Makes a change, in its turn and under the writer lock. All logged changes pass through here. `record` is
    /// checked, then logged: before `make`, or, if it has a commit point, while `make` computes the change. With
    /// `None`, `make` logs the change itself. `make` checks the change again.
    pub(crate) fn change<R, E: From<UpdateError>>(
        &self,
        record: Option<&Record<'_>>,
        progress: &mut ProgressFn<'_>,
        make: impl FnOnce(&mut Change<'_>, ChangeHooks<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        if self.follower.get().is_some() {
            return Err(UpdateError::Follower.into());
        }
        if let (Some(_), Some(record)) = (self.journal.get(), record) {
            // Most changes that will be refused need not be logged.
            self.check_change(record)?;
        }
        let made = Change::make(self.journal.get(), record, progress, |change, hooks| {
            let _writer = self.lock_writer();
            make(change, hooks)
        })?;
        self.snapshot_if_due();
        Ok(made)
    }

    /// Checks what can be checked of a change before it is made.
    pub(crate) fn check_change(&self, record: &Record<'_>) -> Result<(), UpdateError> {
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
            Record::InsertAuto(vectors, attributes) => {
                let keys = self.next_keys(vectors.len())?;
                let new = NewVectors::new(vectors, &keys, OnConflict::Refuse);
                check_insert(new.with_attributes(attributes))
            }
            Record::SetAttributes(keys, attributes) => {
                check_keys(keys, KeyMap::live_slot)?;
                self.check_ids(keys, attributes)?;
                let check = |graph: &Graph| graph.keys().attributes().check(keys, attributes, true);
                Ok(self.backend.shards_or_self().into_iter().try_for_each(|shard| shard.read(check))?)
            }
            Record::Delete(keys) => check_keys(keys, KeyMap::live_slot),
            Record::Undelete(keys) => {
                check_keys(keys, KeyMap::restorable_slot)?;
                self.check_restored_ids(keys)
            }
            _ => Ok(()),
        }
    }

    /// Checks that no two of these deleted keys had one id, and that no live key has it, in any shard.
    fn check_restored_ids(&self, keys: &[Key]) -> Result<(), UpdateError> {
        let shards = self.backend.shards_or_self();
        let mut seen = HashSet::new();
        for &key in keys {
            let own = shards[self.backend.shard_of(key)];
            let Some(id) = own.read(|graph| graph.keys().attributes().removed_id(key)) else { continue };
            let has_id = |graph: &Graph| graph.keys().attributes().key_of_id(&id).is_some();
            if shards.iter().any(|shard| shard.read(has_id)) || !seen.insert(id) {
                return Err(KeyError::IdTaken(key).into());
            }
        }
        Ok(())
    }

    /// Checks that no id is given twice, or is that of a key in another shard: each shard checks its own.
    fn check_ids(&self, keys: &[Key], attributes: &Frame) -> Result<(), UpdateError> {
        let shards = self.backend.shards();
        if shards.len() < 2 {
            return Ok(());
        }
        let known = shards[0].read(|graph| graph.keys().attributes().id_column().map(str::to_owned));
        let of_frame = attributes.columns().find(|(_, kind)| *kind == Some(ColumnKind::Id));
        let Some(column) = known.or(of_frame.map(|(name, _)| name.to_owned())) else {
            return Ok(());
        };
        let keys: HashSet<Key> = keys.iter().copied().collect();
        let mut rows = HashMap::new();
        for row in 0..attributes.len() {
            let Value::Keyword(id) = attributes.value(row, &column) else { continue };
            if let Some(first) = rows.insert(id.clone(), row) {
                return Err(AttributeError::DuplicateId { column, id, rows: [first, row] }.into());
            }
            for shard in shards {
                let holder = shard.read(|graph| graph.keys().attributes().key_of_id(&id));
                if let Some(key) = holder.filter(|key| !keys.contains(key)) {
                    return Err(AttributeError::IdTaken { column, id, key }.into());
                }
            }
        }
        Ok(())
    }

    /// Sets attributes of all of the keys, or of none.
    pub(crate) fn set_attributes(&self, keys: &[Key], attributes: &Frame) -> Result<(), UpdateError> {
        let record = Record::SetAttributes(keys, attributes);
        self.change(Some(&record), &mut no_progress, |_, _| {
            self.check_change(&record)?;
            let shards = self.backend.shards_or_self();
            let mut undo = Vec::new();
            for (number, shard) in shards.iter().enumerate() {
                let rows: Vec<usize> =
                    (0..keys.len()).filter(|&row| self.backend.shard_of(keys[row]) == number).collect();
                let keys: Vec<Key> = rows.iter().map(|&row| keys[row]).collect();
                let before = shard.read(|graph| graph.keys().attributes().clone());
                let of_shard = attributes.select(&rows);
                let set = |graph: &mut Graph| graph.keys_mut().set_attributes(&keys, &of_shard);
                let set = shard.change(set).map_err(UpdateError::from);
                if let Err(error) = set.and_then(|set| Ok(set?)) {
                    // Only a device can fail: the attributes were checked.
                    for (shard, before) in shards.iter().zip(undo) {
                        let _ = shard.change(|graph: &mut Graph| {
                            graph.keys_mut().put_back_attributes(Attributes::clone(&before))
                        });
                    }
                    return Err(error);
                }
                undo.push(before);
            }
            Ok(())
        })
    }

    /// The key after the largest ever used.
    pub(crate) fn next_key(&self) -> Key {
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

    /// Writes the index to `path`: see [`crate::Index::save`].
    pub(crate) fn save(&self, path: &Path, progress: &mut ProgressFn<'_>) -> Result<SaveStats, FileError> {
        let _writer = self.lock_writer();
        self.sync_host_edges(path)?;
        match self.backend.shards() {
            [] => self.backend.read(|graph| graph.save(path, progress)),
            shards => shard_files::save(path, shards.len(), |shard, path| {
                shards[shard].read(|graph: &Graph| graph.save(path, progress))
            }),
        }
    }

    fn sync_host_edges(&self, path: &Path) -> Result<(), FileError> {
        let synced = self.backend.sync_host_edges();
        synced.map_err(|error| FileError::new(path, FileFault::Device(error)))
    }

    /// Writes the index to `path`, and calls `is_copied` as soon as changes may go on.
    fn save_copy(
        &self,
        path: &Path,
        is_copied: &mut dyn FnMut(),
        progress: &mut ProgressFn<'_>,
    ) -> Result<SaveStats, FileError> {
        let writer = self.lock_writer();
        self.sync_host_edges(path)?;
        let Some(graphs) = self.copy_graphs() else {
            drop(writer);
            return self.save(path, progress);
        };
        drop(writer);
        is_copied();
        match (&graphs[..], self.backend.shards()) {
            ([graph], []) => graph.save(path, progress),
            _ => shard_files::save(path, graphs.len(), |shard, path| graphs[shard].save(path, progress)),
        }
    }

    /// Copies of the graphs, if they take at most half of the free memory.
    fn copy_graphs(&self) -> Option<Vec<Graph>> {
        let graphs = self.backend.shards_or_self();
        let bytes: usize = graphs.iter().map(|graph| graph.read(copy_bytes)).sum();
        if bytes as u64 > free_host_memory() / 2 {
            return None;
        }
        graphs.iter().map(|graph| graph.read(|graph| graph.try_clone().ok())).collect()
    }

    /// Takes a snapshot if the journal is long.
    fn snapshot_if_due(&self) {
        if self.journal.get().is_some_and(Journal::is_snapshot_due) {
            // The change that calls this is on disk. If a snapshot fails, so does the next change, or a later snapshot
            // succeeds.
            let _ = self.take_snapshot(true, &mut no_progress);
        }
    }

    pub(crate) fn take_snapshot(
        &self,
        only_if_due: bool,
        progress: &mut ProgressFn<'_>,
    ) -> Result<(), JournalError> {
        let Some(journal) = self.journal.get() else {
            return Err(JournalError::new(Path::new("<index>"), JournalFault::NoJournal));
        };
        journal.snapshot(only_if_due, |path, is_copied| self.save_copy(path, is_copied, progress))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use jasper_core::{ElementKind, MatrixView, Metric};

    use super::*;
    use crate::{IndexBuilder, SearchParams};

    #[test]
    fn a_copy_counts_keys_and_attributes() {
        let index = IndexBuilder::new(Metric::L2).empty(ElementKind::U8, 2).unwrap();
        index.insert(&[1_u8, 2], &[7]).unwrap();
        let bytes = |count_all: bool| {
            let graph_bytes = |graph: &Graph| graph.vectors().bytes() + graph.adjacency().bytes();
            index.inner.backend.read(if count_all { copy_bytes } else { graph_bytes })
        };
        let before = bytes(true);
        assert!(before >= bytes(false) + size_of::<Key>());
        let text = "a long text".repeat(100);
        index.set_attributes(&[7], &Frame::new(1).column("text", [&*text]).unwrap()).unwrap();
        assert!(bytes(true) >= before + text.len());
    }

    #[test]
    fn searches_go_on_while_a_change_holds_the_graph() {
        let index = Arc::new(IndexBuilder::new(Metric::L2).empty(ElementKind::U8, 2).unwrap());
        index.insert(&[1_u8, 2], &[7]).unwrap();
        let (searching, (sent, received)) = (Arc::clone(&index), mpsc::channel());
        let search = move || {
            let query = [1_u8, 2];
            let batch = MatrixView::new(&query, 2).unwrap();
            searching.search_batch(batch, SearchParams::new(1)).unwrap();
            assert_eq!(searching.dimension(), 2);
            sent.send(searching.search(&query, SearchParams::new(1)).unwrap()).unwrap();
        };
        let changed = index.inner.backend.change(|_| {
            thread::spawn(search.clone());
            let hits = received.recv_timeout(Duration::from_secs(20)).expect("searches do not wait");
            assert_eq!(hits[0].key, 7);
        });
        changed.unwrap();
    }
}
