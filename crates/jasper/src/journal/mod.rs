//! The journal of a durable index, which is a folder:
//!
//! | file | holds |
//! | --- | --- |
//! | `index-N.jasper` | a snapshot: the index before change N; of an index with shards, it is the folder of these |
//! | `journal-K.log` | segment K of the log |
//!
//! The *log* is the list of changes, and of snapshots with their checksums. It is in files, the *segments*, of which only
//! the last is appended to (`segment`: entries and files; `store`: writes them; `log`: reads them; `legacy`: the log of
//! earlier releases). There is one log, also of an index with shards: a change is logged before it is divided.
//!
//! ```text
//! create:
//!     make journal-0.log, empty              marks a folder that is not finished, which may be made again
//!     write index-0.jasper
//!     replace journal-0.log by a log that names it
//! change:
//!     take a number                          changes are made in the order of their numbers
//!     on another thread:
//!         append it with its number, and sync    together with all changes that wait for this (group commit)
//!     wait for its turn, and compute it
//!     wait for the other thread              the commit point
//!     make it visible
//!     append that it has ended               without a sync: only those who follow wait for it
//!     if it fails: append that it failed     a crash until here may bring it back; its call has not returned
//! an error of the disk:
//!     begin another segment, which says first which changes have failed    whatever is on disk of the last one
//! snapshot:
//!     take a number N, and end the segment   changes from N on are in later segments
//!     wait for its turn, and copy the index  if there is memory; otherwise changes wait until it is written
//!     write index-N.jasper                   a crash until here leaves a file that the next opening removes
//!     append that it is there, and sync      if this fails: remove it; what is named and not there does not count
//!     remove older snapshots, and the segments that were ended, but for those that a follower reads
//! open:
//!     copy what the last segment has and may not be on disk to another one
//!     open the snapshot that the log names last; make its changes again, in the order of their numbers
//!     begin another segment with the first change
//! follow, in any process, while another changes the index:
//!     open the snapshot that the log names last
//!     again and again: read what is new in the log; make the changes that have ended
//! ```
//!
//! A change is logged before it is visible, because it cannot be taken back once searches see it. The calling thread
//! logs a change before making it if the change needs no computation, or if it is a large insert from a source that
//! only this thread may read. A logged change may still be refused, if earlier changes left the index in a state that
//! does not allow it. The result of a change is a function of that state, so a replay of the log refuses it again.
//!
//! Why not a database: one that is open to be written cannot be read by another process, and of its tree of pages the
//! journal used the order alone.

mod change;
mod digest;
mod folder;
mod follow;
mod legacy;
mod log;
mod record;
mod segment;
mod store;
#[cfg(test)]
mod tests;
mod turns;

use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, TryLockError};

use jasper_core::{Progress, ProgressFn, Stage, Vectors, sync::lock};
use jasper_data::PathError;
use jasper_graph::{FileError, SaveStats, VectorError};
use jasper_vamana::UpdateError;

use crate::inner::IndexInner;
pub(crate) use change::Change;
pub(crate) use digest::Digest;
pub(crate) use folder::{DurableInfo, check_new_durable, is_durable};
use folder::{
    Locks, acquire, check_snapshot, find_snapshot, legacy_log, remove_legacy_log, remove_other_snapshots,
    remove_snapshot, snapshot_bytes, snapshot_checksum, snapshot_path,
};
pub(crate) use folder::{check_durable, create};
pub(crate) use follow::{FollowedLog, Follower};
use log::Log;
pub(crate) use record::Record;
use record::for_each_chunk;
use segment::{Folder, Segments};
use store::{SnapshotId, Store, StoredChange};
use turns::Turns;

/// A durable index cannot be created or opened, or no snapshot of it can be taken.
pub(crate) type JournalError = PathError<JournalFault>;

/// Why a durable index cannot be created or opened, or why no snapshot of it can be taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum JournalFault {
    /// Another process, or another [`Index`](crate::Index) of this one, has the folder open.
    #[error(
        "is open already, in this process or another; one index at a time changes the folder, and others follow it with \
         `OpenOptions::follow`"
    )]
    InUse,
    /// The folder is not that of a durable index.
    #[error(
        "is not the folder of a durable index; make one with `Index::save_durable` or `jasper build --durable`"
    )]
    NotDurable,
    /// The index is in memory only.
    #[error("has no journal; `Index::save_durable` makes a durable one, to be opened from its folder")]
    NoJournal,
    /// The folder has a durable index already.
    #[error("has a durable index already; remove the folder first, or name another")]
    Exists,
    /// The folder is to become that of a durable index, and has other files.
    #[error("is not empty; name a new folder for the index")]
    NotEmpty,
    /// The index is to be spread over several shards, and the snapshot in the folder has one.
    #[error(
        "is that of an index with one shard, which cannot be divided while it is durable; open it on one device or \
         replicated, or save a durable index that was built with shards"
    )]
    OneShard,
    /// The folder is that of a release whose log cannot be followed.
    #[error("has the journal of an earlier release, which cannot be followed; open it once to convert it")]
    Unconverted,
    /// A follower has not read segments of the log that are gone.
    #[error("its log was removed before it was read here; open the folder again")]
    Behind,
    /// The folder or its journal cannot be read or written.
    #[error("its journal cannot be read or written")]
    Journal(#[source] io::Error),
    /// The journal is damaged.
    #[error("its journal is damaged; its `index-N.jasper` is the index before the changes in it")]
    Damaged(#[source] io::Error),
    /// The snapshot is not the one that the journal continues: its name.
    #[error(
        "its snapshot {0} was changed or replaced, so that the changes in the journal do not follow from it; restore it \
         from a copy, or open {0} alone"
    )]
    OtherSnapshot(String),
    /// The snapshot cannot be read or written.
    #[error(transparent)]
    Snapshot(#[from] FileError),
    /// A change in the journal cannot be made again, for want of memory for example.
    #[error("a change in its journal cannot be made again")]
    Replay(#[source] UpdateError),
}

impl From<io::Error> for JournalFault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => Self::Damaged(error),
            _ => Self::Journal(error),
        }
    }
}

/// Larger changes are not copied to be committed with others: they take most of a transaction anyway.
pub(crate) const GROUP_BYTES: u64 = 4 << 20;
/// A snapshot is due when the log has at least this many bytes, and at least half as many as the last snapshot.
const MIN_JOURNAL_BYTES: u64 = 32 << 20;
const SNAPSHOT_DIVISOR: u64 = 2;
/// Or when it had this many segments when it was opened: each process that changes the index begins one.
const MAX_SEGMENTS: usize = 64;

/// The journal of an index, and the lock of its folder.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
    turns: Turns,
    waiting: Mutex<Vec<Arc<Waiting>>>,
    store: Mutex<Store>,
    /// All changes below this number have ended, and the number that the log says.
    ended: AtomicU64,
    logged_ended: AtomicU64,
    /// Held while a snapshot is taken.
    snapshotting: Mutex<()>,
    /// Bytes logged since the last snapshot, or since the last failure to take one.
    logged_bytes: AtomicU64,
    snapshot_bytes: AtomicU64,
    lock: FolderLock,
}

/// The lock of the folder, or why it cannot be written.
type FolderLock = io::Result<Locks>;

/// A change that waits for its commit.
#[derive(Debug)]
struct Waiting {
    change: StoredChange,
    committed: OnceLock<io::Result<()>>,
}

fn copy_error(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}

fn copy(result: &io::Result<()>) -> io::Result<()> {
    result.as_ref().copied().map_err(copy_error)
}

/// A folder that is about to be opened: the log, and which snapshot it continues.
pub(crate) struct OpenJournal {
    folder: PathBuf,
    segments: Arc<dyn Segments>,
    log: Log,
    snapshot: SnapshotId,
    lock: FolderLock,
}

impl OpenJournal {
    /// Opens the journal of a folder. If the folder cannot be written, its index has all changes and accepts no others.
    pub(crate) fn new(folder: &Path) -> Result<Self, JournalError> {
        check_durable(folder)?;
        Self::with_lock(folder, acquire(folder)).map_err(|fault| JournalError::new(folder, fault))
    }

    fn with_lock(folder: &Path, lock: Result<Locks, JournalFault>) -> Result<Self, JournalFault> {
        let mut lock = match lock {
            Ok(lock) => Ok(lock),
            Err(JournalFault::Journal(reason)) if is_unwritable(&reason) => Err(reason),
            Err(fault) => return Err(fault),
        };
        let mut segments: Arc<dyn Segments> = Arc::new(Folder(folder.to_owned()));
        if let Some(path) = legacy_log(folder) {
            if lock.is_ok() {
                let converted = segments.create(0).and_then(|segment| legacy::convert(&path, segment));
                lock = unless_unwritable(lock, converted)?;
            }
            if lock.is_err() {
                segments = Arc::new(legacy::read(&path)?);
            }
        }
        let mut log = Log::read(Arc::clone(&segments))?;
        let snapshot = find_snapshot(folder, &log)?;
        check_snapshot(folder, snapshot)?;
        log.remove_below(snapshot.number);
        if lock.is_ok() {
            // The process that wrote its end may have been killed before it was on disk, or the disk may have failed.
            lock = unless_unwritable(lock, log.copy_unsynced(snapshot))?;
        }
        if lock.is_ok() {
            remove_legacy_log(folder);
            remove_other_snapshots(folder, snapshot.number);
        }
        let refused = |reason: io::Error| {
            let text = "the folder could not be written when it was opened; open it again";
            io::Error::new(reason.kind(), format!("{text} ({reason})"))
        };
        let lock = lock.map_err(refused);
        Ok(Self { folder: folder.to_owned(), segments, log, snapshot, lock })
    }

    /// The index file that the log continues.
    pub(crate) fn snapshot(&self) -> PathBuf {
        snapshot_path(&self.folder, self.snapshot.number)
    }

    /// Makes all changes of the log in `index`, which was opened from the snapshot.
    pub(crate) fn replay(
        self,
        index: &IndexInner,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Journal, JournalError> {
        let folder = self.folder.clone();
        self.replay_all(index, progress).map_err(|fault| JournalError::new(&folder, fault))
    }

    fn replay_all(self, index: &IndexInner, progress: &mut ProgressFn<'_>) -> Result<Journal, JournalFault> {
        let numbers = self.log.numbers();
        let (mut logged_bytes, mut refused) = (0, Vec::new());
        for (done, &number) in numbers.iter().enumerate() {
            let report = Progress { stage: Stage::Replaying, done, total: numbers.len() }.report(progress);
            report.map_err(|error| JournalFault::Replay(error.into()))?;
            match record::replay(index, &self.log, number) {
                Ok(bytes) => logged_bytes += bytes,
                // The process ended before it logged that the change failed.
                Err(error) if is_refusal(&error) => refused.push(number),
                Err(error) => return Err(JournalFault::Replay(error)),
            }
        }
        if self.segments.list()?.len() >= MAX_SEGMENTS {
            logged_bytes = u64::MAX / 2;
        }
        let snapshot_bytes = snapshot_bytes(&self.snapshot())?;
        let ended = self.log.ended();
        let next = numbers.last().map_or(0, |last| last + 1).max(ended).max(self.snapshot.number);
        let mut store = Store::new(self.segments, self.snapshot, self.log.end(), next)?;
        match &self.lock {
            Err(reason) => store.close(copy_error(reason)),
            // Followers wait for the end of changes whose process was killed, and make those that have not failed. If this
            // fails, the next entry says it.
            Ok(_) if !refused.is_empty() || numbers.last().is_some_and(|&last| last >= ended) => {
                let _ = store.fail(&refused);
            }
            Ok(_) => {}
        }
        Ok(Journal {
            folder: self.folder,
            turns: Turns::new(next),
            waiting: Mutex::default(),
            store: Mutex::new(store),
            ended: AtomicU64::new(next),
            logged_ended: AtomicU64::new(next),
            snapshotting: Mutex::default(),
            logged_bytes: AtomicU64::new(logged_bytes),
            snapshot_bytes: AtomicU64::new(snapshot_bytes),
            lock: self.lock,
        })
    }
}

/// The lock, or why nothing can be written; an error if it is of another kind.
fn unless_unwritable(lock: FolderLock, written: io::Result<()>) -> io::Result<FolderLock> {
    match written {
        Err(reason) if is_unwritable(&reason) => Ok(Err(reason)),
        written => written.map(|()| lock),
    }
}

/// Whether a folder that gives this error can be read nevertheless.
fn is_unwritable(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), PermissionDenied | QuotaExceeded | ReadOnlyFilesystem | StorageFull)
}

/// Whether the input and the state of the index decide that a change fails, and not memory or a device.
fn is_refusal(error: &UpdateError) -> bool {
    match error {
        UpdateError::Vector(error) => !matches!(error, VectorError::Memory(_)),
        UpdateError::Key(_)
        | UpdateError::Attributes(_)
        | UpdateError::RepeatedKey(_)
        | UpdateError::KeyCount { .. }
        | UpdateError::Quantize(_)
        | UpdateError::NoCodes => true,
        _ => false,
    }
}

impl Journal {
    /// Returns what logs a change: any thread may call it, and it returns when the change is on disk. Vectors that are
    /// too many to copy, and that only this thread can read, are on disk already.
    fn prepare<'a>(
        &'a self,
        number: u64,
        record: &'a Record<'_>,
    ) -> io::Result<Box<dyn FnOnce() -> io::Result<()> + Send + 'a>> {
        let mut change = record.to_stored(number);
        let Some(vectors) = record.vectors() else {
            return Ok(Box::new(|| self.commit_in_group(change)));
        };
        if record.bytes() <= GROUP_BYTES {
            for_each_chunk(vectors, |first, chunk| {
                change.vectors.push((first, chunk.to_vec()));
                Ok(())
            })?;
            return Ok(Box::new(|| self.commit_in_group(change)));
        }
        if let Some(vectors) = vectors.concurrent() {
            return Ok(Box::new(move || self.commit_alone(&change, vectors())));
        }
        self.commit_alone(&change, vectors)?;
        Ok(Box::new(|| Ok(())))
    }

    /// Commits a change whose vectors are not copied.
    fn commit_alone(&self, change: &StoredChange, vectors: Vectors<'_>) -> io::Result<()> {
        self.with_store(|store| {
            store.commit(&[change.number], |segment| {
                for_each_chunk(vectors, |first, chunk| segment.write_vectors(change.number, first, chunk))?;
                segment.write(change)
            })
        })
    }

    /// Commits a change together with all that wait.
    fn commit_in_group(&self, change: StoredChange) -> io::Result<()> {
        let waiting = Arc::new(Waiting { change, committed: OnceLock::new() });
        lock(&self.waiting).push(Arc::clone(&waiting));
        self.with_store(|store| {
            // Otherwise another caller has committed it meanwhile.
            if waiting.committed.get().is_none() {
                let group = mem::take(&mut *lock(&self.waiting));
                let numbers: Vec<u64> = group.iter().map(|waiting| waiting.change.number).collect();
                let committed = store.commit(&numbers, |segment| {
                    group.iter().try_for_each(|waiting| segment.write(&waiting.change))
                });
                for waiting in group {
                    // Set once, as every change is in one group.
                    let _ = waiting.committed.set(copy(&committed));
                }
            }
        });
        let panicked = || Err(io::Error::other("another change panicked while it was committed"));
        waiting.committed.get().map_or_else(panicked, copy)
    }

    /// Logs that a change has failed. After an error, this is logged before another change is.
    fn fail(&self, number: u64) -> io::Result<()> {
        self.with_store(|store| store.fail(&[number]))
    }

    /// Logs that a change has ended, and all before it have.
    fn end(&self, number: u64) {
        self.ended.store(number + 1, Ordering::SeqCst);
        self.log_ended();
    }

    fn with_store<R>(&self, work: impl FnOnce(&mut Store) -> R) -> R {
        let result = work(&mut lock(&self.store));
        self.log_ended();
        result
    }

    /// Logs how many changes have ended, unless another thread has the store, which calls this after that.
    fn log_ended(&self) {
        while self.logged_ended.load(Ordering::SeqCst) < self.ended.load(Ordering::SeqCst) {
            let mut store = match self.store.try_lock() {
                Ok(store) => store,
                Err(TryLockError::Poisoned(store)) => store.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            let ended = self.ended.load(Ordering::SeqCst);
            store.set_ended(ended);
            self.logged_ended.store(ended, Ordering::SeqCst);
        }
    }

    /// Whether the log has grown so long that a snapshot should replace it.
    pub(crate) fn is_snapshot_due(&self) -> bool {
        let snapshot_bytes = self.snapshot_bytes.load(Ordering::Relaxed);
        self.logged_bytes.load(Ordering::Relaxed) >= MIN_JOURNAL_BYTES.max(snapshot_bytes / SNAPSHOT_DIVISOR)
    }

    /// Replaces the log of all changes that were made by a snapshot. `save` writes it, and calls the function that it gets
    /// when changes may go on. `only_if_due` is for one that no caller asked for.
    pub(crate) fn snapshot(
        &self,
        only_if_due: bool,
        save: impl FnOnce(&Path, &mut dyn FnMut()) -> Result<SaveStats, FileError>,
    ) -> Result<(), JournalError> {
        if only_if_due && matches!(self.snapshotting.try_lock(), Err(TryLockError::WouldBlock)) {
            return Ok(());
        }
        let _one = lock(&self.snapshotting);
        let taken = self.with_store(|store| {
            if only_if_due && !self.is_snapshot_due() {
                return Ok(None);
            }
            self.lock.as_ref().map_err(copy_error)?;
            // If this fails, the next attempt is due when the log has grown by as much again.
            self.logged_bytes.store(0, Ordering::Relaxed);
            // Changes with later numbers are logged after this, to segments from `first` on.
            Ok(Some((self.turns.take(), store.end_segment())))
        });
        let in_folder = |fault| JournalError::new(&self.folder, fault);
        let Some((turn, first)) = taken.map_err(|error: io::Error| in_folder(error.into()))? else {
            return Ok(());
        };
        turn.wait();
        let number = turn.number();
        if number == self.with_store(|store| store.snapshot.number) {
            // Nothing has changed since the last one, whose file this would replace.
            return Ok(());
        }
        // Followers learn that all changes before it have ended, though nothing may be logged for a while. And the log names
        // the last snapshot again, after one of this number that could not be named for sure, before its file is there.
        let begun = self.with_store(|store| store.commit(&[], |_| Ok(())));
        begun.map_err(|error| in_folder(error.into()))?;
        let path = snapshot_path(&self.folder, number);
        let mut turn = Some(turn);
        let snapshot = || -> Result<Arc<dyn Segments>, JournalFault> {
            let saved = save(&path, &mut || drop(turn.take()))?;
            let checksum = Some(snapshot_checksum(&path)?);
            let segments = self.with_store(|store| {
                store.set_snapshot(SnapshotId { number, checksum })?;
                Ok::<_, io::Error>(Arc::clone(&store.segments))
            })?;
            self.snapshot_bytes.store(saved.bytes, Ordering::Relaxed);
            Ok(segments)
        };
        let segments = snapshot().map_err(|fault| {
            // It takes the room that changes may need. If the log names it nevertheless, see `find_snapshot`.
            remove_snapshot(&path);
            in_folder(fault)
        })?;
        // Changes go on: the removal of large files takes time.
        drop(turn);
        remove_other_snapshots(&self.folder, number);
        // What is left is removed after the next snapshot.
        let _ = segments.remove_below(first);
        Ok(())
    }
}
