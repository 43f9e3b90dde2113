//! Small changes, which are made together with those of other callers.

use std::collections::HashSet;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use jasper_attributes::Frame;
use jasper_core::{Key, VectorBuffer, no_progress};
use jasper_graph::KeyMap;
use jasper_vamana::{InsertReport, NewVectors, OnConflict, UpdateError};

use super::{Changes, InsertEntries, InsertKeys};
use crate::batcher::{ChangeRunner, Gather, Submitted};
use crate::index::DeleteKeys;
use crate::journal::Record;

/// Vectors or keys of a small change, at most.
pub(crate) const SMALL: usize = 64;
/// Vectors or keys of a batch, at most.
const MAX_BATCH: usize = 4096;

/// How often the thread looks for callers to come back: for about as long as it takes to wake them.
const LOOKS: usize = 256;

/// A change that may be made together with others.
pub(crate) enum SmallChange {
    Insert {
        vectors: VectorBuffer,
        keys: SmallKeys,
        attributes: Option<Frame>,
    },
    Delete {
        keys: Vec<Key>,
        /// Whether keys that are not in the index are ignored.
        only_present: bool,
    },
}

/// The keys of a small insert.
#[derive(Debug)]
pub(crate) enum SmallKeys {
    Given(Vec<Key>, OnConflict),
    Next,
}

/// What a change did.
#[derive(Clone, Copy)]
pub(crate) enum Made {
    Inserted(InsertReport),
    /// The number of keys.
    Deleted(usize),
}

/// Changes of one kind can be made together.
#[derive(PartialEq, Eq)]
enum Kind {
    Insert(OnConflict),
    InsertNext,
    Delete,
    DeletePresent,
    /// An insert with attributes. It is made alone.
    InsertWithAttributes,
}

impl Made {
    /// The report of an insert.
    pub(crate) fn inserted(self) -> InsertReport {
        match self {
            Self::Inserted(report) => report,
            Self::Deleted(_) => unreachable!("the change is an insert"),
        }
    }

    /// The number of keys of a delete.
    pub(crate) fn deleted(self) -> usize {
        match self {
            Self::Deleted(keys) => keys,
            Self::Inserted(_) => unreachable!("the change is a delete"),
        }
    }
}

impl SmallChange {
    pub(crate) fn insert(vectors: VectorBuffer, entries: InsertEntries<'_>) -> Self {
        let keys = match entries.keys {
            InsertKeys::Given(keys, on_conflict) => SmallKeys::Given(keys.to_vec(), on_conflict),
            InsertKeys::Next => SmallKeys::Next,
        };
        Self::Insert { vectors, keys, attributes: entries.attributes.cloned() }
    }

    pub(crate) fn delete(keys: DeleteKeys<'_>) -> Self {
        match keys {
            DeleteKeys::All(keys) => Self::Delete { keys: keys.to_vec(), only_present: false },
            DeleteKeys::Present(keys) => Self::Delete { keys: keys.to_vec(), only_present: true },
        }
    }

    /// The keys that it names.
    fn keys(&self) -> &[Key] {
        match self {
            Self::Insert { keys: SmallKeys::Given(keys, _), .. } | Self::Delete { keys, .. } => keys,
            Self::Insert { keys: SmallKeys::Next, .. } => &[],
        }
    }

    /// Number of vectors or keys.
    fn len(&self) -> usize {
        match self {
            Self::Insert { vectors, .. } => vectors.len(),
            Self::Delete { keys, .. } => keys.len(),
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Insert { attributes: Some(_), .. } => Kind::InsertWithAttributes,
            Self::Insert { keys: SmallKeys::Given(_, on_conflict), .. } => Kind::Insert(*on_conflict),
            Self::Insert { keys: SmallKeys::Next, .. } => Kind::InsertNext,
            Self::Delete { only_present: false, .. } => Kind::Delete,
            Self::Delete { only_present: true, .. } => Kind::DeletePresent,
        }
    }
}

impl Changes {
    fn make(&self, change: &SmallChange) -> Result<Made, UpdateError> {
        match change {
            SmallChange::Insert { vectors, keys, attributes } => {
                let keys = match keys {
                    SmallKeys::Given(keys, on_conflict) => InsertKeys::Given(keys, *on_conflict),
                    SmallKeys::Next => InsertKeys::Next,
                };
                let entries = InsertEntries { keys, attributes: attributes.as_ref() };
                self.insert(vectors.vectors(), entries, &mut no_progress).map(Made::Inserted)
            }
            SmallChange::Delete { keys, only_present: false } => self.delete(keys).map(Made::Deleted),
            SmallChange::Delete { keys, only_present: true } => {
                self.delete_present(keys).map(|deleted| Made::Deleted(deleted.len()))
            }
        }
    }

    pub(crate) fn delete_keys(&self, keys: DeleteKeys<'_>) -> Result<usize, UpdateError> {
        match keys {
            DeleteKeys::All(keys) => self.delete(keys),
            DeleteKeys::Present(keys) => Ok(self.delete_present(keys)?.len()),
        }
    }

    /// Deletes all keys, or none; returns their number.
    pub(crate) fn delete(&self, keys: &[Key]) -> Result<usize, UpdateError> {
        self.change_keys(&Record::Delete(keys), keys, [KeyMap::delete_all, KeyMap::restore_all])?;
        Ok(keys.len())
    }

    /// Deletes those of the keys that are in the index; returns them in ascending order, each once.
    pub(crate) fn delete_present(&self, keys: &[Key]) -> Result<Vec<Key>, UpdateError> {
        self.change(None, &mut no_progress, |change, _| {
            let is_present =
                |&key: &Key| self.backend.read_with(key, |graph| graph.keys().slot_of(key).is_some());
            let mut present = keys.to_vec();
            present.sort_unstable();
            present.dedup();
            present.retain(is_present);
            if !present.is_empty() {
                change.log(&Record::Delete(&present))?;
                self.change_checked_keys(&present, [KeyMap::delete_all, KeyMap::restore_all])?;
            }
            Ok(present)
        })
    }

    /// Checks what makes a change fail whatever other changes do, and what most likely does.
    fn check(&self, change: &SmallChange) -> Result<(), UpdateError> {
        match change {
            SmallChange::Insert { vectors, keys, .. } => {
                let mut rows = vectors.rows().enumerate();
                self.backend.read(|graph| {
                    rows.try_for_each(|(row, vector)| graph.vectors().check(row, vector).map(drop))
                })?;
                let vectors = vectors.vectors();
                self.check_change(&match keys {
                    SmallKeys::Given(keys, on_conflict) => {
                        Record::Insert(NewVectors::new(vectors, keys, *on_conflict))
                    }
                    SmallKeys::Next => Record::InsertAuto(vectors, None),
                })
            }
            SmallChange::Delete { keys, only_present: false } => self.check_change(&Record::Delete(keys)),
            SmallChange::Delete { only_present: true, .. } => Ok(()),
        }
    }

    /// Makes changes as one, in their order. They are of one kind and dimension, and name no key twice.
    fn make_together(&self, changes: &[&SmallChange]) -> Result<Vec<Made>, UpdateError> {
        let mut keys: Vec<Key> = changes.iter().flat_map(|change| change.keys()).copied().collect();
        let (first, kind) = match changes[0] {
            SmallChange::Insert { vectors, keys, .. } => (vectors, keys),
            SmallChange::Delete { only_present: false, .. } => {
                self.delete(&keys)?;
                return Ok(changes.iter().map(|change| Made::Deleted(change.len())).collect());
            }
            SmallChange::Delete { only_present: true, .. } => {
                let deleted = self.delete_present(&keys)?;
                let is_deleted = |key: &&Key| deleted.binary_search(key).is_ok();
                let count = |change: &&SmallChange| change.keys().iter().filter(is_deleted).count();
                return Ok(changes.iter().map(|change| Made::Deleted(count(change))).collect());
            }
        };
        let mut vectors = first.clone();
        for change in &changes[1..] {
            if let SmallChange::Insert { vectors: more, .. } = change {
                vectors.extend(more.rows());
            }
        }
        let new = match kind {
            SmallKeys::Given(_, on_conflict) => InsertKeys::Given(&keys, *on_conflict),
            SmallKeys::Next => InsertKeys::Next,
        };
        let new = InsertEntries { keys: new, attributes: None };
        let report = self.insert(vectors.vectors(), new, &mut no_progress)?;
        if let (SmallKeys::Next, Some(first)) = (kind, report.first_key) {
            keys = (first..).take(vectors.len()).collect();
        }
        let mut rest = &keys[..];
        let made = changes.iter().map(|change| {
            let (own, others) = rest.split_at(change.len());
            rest = others;
            Made::Inserted(self.share_of(report, own))
        });
        Ok(made.collect())
    }

    /// The part of a report for some of the keys. Operations are divided by the number of keys.
    fn share_of(&self, all: InsertReport, keys: &[Key]) -> InsertReport {
        let shares_vertex = |&&key: &&Key| {
            self.backend.read_with(key, |graph| {
                let keys = graph.keys();
                keys.slot_of(key).is_some_and(|slot| keys.first_key(slot) != key)
            })
        };
        let duplicates = keys.iter().filter(shares_vertex).count();
        all.share(keys.len(), keys.first().copied(), duplicates)
    }
}

/// Makes small changes of the changes of an index.
struct Runner(Arc<Changes>);

impl ChangeRunner for Runner {
    type Change = SmallChange;
    type Answer = Result<Made, UpdateError>;

    /// Those of one kind that name different keys.
    fn batch_len(&self, changes: &[&SmallChange]) -> usize {
        let (mut seen, mut len) = (HashSet::new(), 0);
        let joins = |change: &&&SmallChange| {
            len += change.len();
            changes[0].kind() == change.kind()
                && change.kind() != Kind::InsertWithAttributes
                && len <= MAX_BATCH
                && change.keys().iter().all(|&key| seen.insert(key))
        };
        changes.iter().take_while(joins).count().max(1)
    }

    fn run(&self, batch: &[&SmallChange], answer: &mut dyn FnMut(usize, Result<Made, UpdateError>)) {
        let Self(changes) = self;
        if let [change] = batch {
            return answer(0, changes.make(change));
        }
        let mut sound = Vec::new();
        for (number, change) in batch.iter().enumerate() {
            match changes.check(change) {
                Ok(()) => sound.push(number),
                Err(error) => answer(number, Err(error)),
            }
        }
        if sound.is_empty() {
            return;
        }
        let together: Vec<_> = sound.iter().map(|&number| batch[number]).collect();
        match changes.make_together(&together) {
            Ok(made) => sound.into_iter().zip(made).for_each(|(number, made)| answer(number, Ok(made))),
            // One by one, each caller gets its own error.
            Err(_) => sound.into_iter().for_each(|number| answer(number, changes.make(batch[number]))),
        }
    }
}

type Queue = Gather<SmallChange, Result<Made, UpdateError>>;

/// The queue of the small changes of an index, and the thread that makes them.
pub(crate) struct SmallChanges {
    queue: Arc<Queue>,
    changes: Arc<Changes>,
    /// Started by the first change that is queued.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl SmallChanges {
    pub(crate) fn new(changes: Arc<Changes>) -> Self {
        Self { queue: Arc::new(Gather::new(LOOKS)), changes, thread: Mutex::default() }
    }

    /// Makes an insert, directly or together with others.
    pub(crate) fn insert(
        &self,
        vectors: VectorBuffer,
        entries: InsertEntries<'_>,
    ) -> Result<InsertReport, UpdateError> {
        let permit = self.queue.try_direct();
        // Without a thread, the caller waits for its turn as for that of a large change.
        if permit.is_some() || self.start_thread().is_err() {
            return self.changes.insert(vectors.vectors(), entries, &mut no_progress);
        }
        self.queue.submit(SmallChange::insert(vectors, entries)).wait().map(Made::inserted)
    }

    /// Deletes keys, directly or together with others; returns their number.
    pub(crate) fn delete(&self, keys: DeleteKeys<'_>) -> Result<usize, UpdateError> {
        let permit = self.queue.try_direct();
        if permit.is_some() || self.start_thread().is_err() {
            return self.changes.delete_keys(keys);
        }
        self.queue.submit(SmallChange::delete(keys)).wait().map(Made::deleted)
    }

    /// Queues a change.
    ///
    /// # Errors
    /// Returns the error of the operating system if it refuses the thread of the queue.
    pub(crate) fn submit(
        &self,
        change: SmallChange,
    ) -> io::Result<Submitted<SmallChange, Result<Made, UpdateError>>> {
        self.start_thread()?;
        Ok(self.queue.submit(change))
    }

    /// Starts the thread of the queue, unless it runs.
    fn start_thread(&self) -> io::Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let (queue, runner) = (Arc::clone(&self.queue), Runner(Arc::clone(&self.changes)));
            // A panic ends the batch, whose callers panic. The thread continues.
            let work = move || while catch_unwind(AssertUnwindSafe(|| queue.work(&runner))).is_err() {};
            *thread = Some(thread::Builder::new().name("jasper-changes".into()).spawn(work)?);
        }
        Ok(())
    }
}

impl Drop for SmallChanges {
    /// Waits until submitted changes are made.
    fn drop(&mut self) {
        self.queue.close();
        if let Some(handle) = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take()
            // A waker may have dropped the index, on the thread.
            && handle.thread().id() != thread::current().id()
        {
            let _ = handle.join();
        }
    }
}
