//! The journal of a durable index, which is a folder:
//!
//! | file | holds |
//! | --- | --- |
//! | `index-N.jasper` | the snapshot: the index before change N |
//! | `journal.redb` | N, the checksum of the snapshot's header, and the changes since |
//!
//! ```text
//! create:
//!     make journal.redb, empty               marks a folder that is not finished, which may be made again
//!     write index-0.jasper
//!     replace journal.redb by a log of N = 0
//! change:
//!     take a number                          changes are made in the order of their numbers
//!     on another thread:
//!         log it under the number, and sync  together with all changes that wait for this (group commit)
//!     wait for its turn, and compute it
//!     wait for the other thread              the commit point
//!     make it visible
//!     if it fails: remove it from the log    a crash until here may bring it back; its call has not returned
//! snapshot:
//!     take a number N, and wait for its turn
//!     write index-N.jasper                   a crash until here leaves a file that the next opening removes
//!     store N, and remove changes below N    one transaction
//! open:
//!     open index-N.jasper; make the changes of the log again, in the order of their numbers
//! ```
//!
//! The *log* is the list of changes in `journal.redb`; the module `store` reads and writes it.
//!
//! A change is logged before it is visible, because it cannot be taken back once searches see it. The calling thread
//! logs a change before making it if the change needs no computation, or if it is a large insert from a source that
//! only this thread may read. A logged change may still be refused, if earlier changes left the index in a state that
//! does not allow it. The result of a change is a function of that state, so a replay of the log refuses it again.

mod change;
mod digest;
mod folder;
mod memory;
mod record;
mod store;
#[cfg(test)]
mod tests;
mod turns;

use std::fs;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use jasper_core::{Element, Progress, ProgressFn, Stage, VectorSource, sync::lock};
use jasper_data::{FileLock, PathError};
use jasper_graph::{FileError, SaveStats, VectorError, header_checksum};
use jasper_vamana::UpdateError;

use crate::typed::TypedIndex;
pub(crate) use change::Change;
pub(crate) use digest::Digest;
pub use folder::{DurableInfo, check_new_durable, is_durable};
use folder::{acquire, remove_other_snapshots, snapshot_name, snapshot_path, store_path};
pub(crate) use folder::{check_durable, create};
use memory::Memory;
pub(crate) use record::Record;
use record::for_each_chunk;
use store::{Log, Store, StoredChange};
use turns::Turns;

/// A durable index cannot be created or opened, or no snapshot of it can be taken.
pub type JournalError = PathError<JournalFault>;

/// Why a durable index cannot be created or opened, or why no snapshot of it can be taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalFault {
    /// Another process, or another [`Index`](crate::Index) of this one, has the folder open.
    #[error("is open already, in this process or another; a durable index is open once at a time")]
    InUse,
    /// The folder is not that of a durable index.
    #[error(
        "is not the folder of a durable index; make one with `Index::save_durable` or `jasper build --durable`"
    )]
    NotDurable,
    /// The folder has a durable index already.
    #[error("has a durable index already; remove the folder first, or name another")]
    Exists,
    /// The folder is to become that of a durable index, and has other files.
    #[error("is not empty; name a new folder for the index")]
    NotEmpty,
    /// The index has several shards.
    #[error("cannot be that of a durable index, because the index has several shards; use `save`")]
    Sharded,
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

/// The journal of an index, and the lock of its folder.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
    turns: Turns,
    waiting: Mutex<Vec<Arc<Waiting>>>,
    store: Mutex<Store>,
    /// Bytes logged since the last snapshot, or since the last failure to take one.
    logged_bytes: AtomicU64,
    snapshot_bytes: AtomicU64,
    lock: FolderLock,
}

/// The lock of the folder, or why it cannot be written.
type FolderLock = io::Result<FileLock>;

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
    store: Store,
    log: Log,
    number: u64,
    lock: FolderLock,
    /// What `log` reads, if that is not `store`.
    _copy: Option<Store>,
}

impl OpenJournal {
    /// Opens the journal of a folder. If the folder cannot be written, its index has all changes and accepts no others.
    pub(crate) fn new(folder: &Path) -> Result<Self, JournalError> {
        check_durable(folder)?;
        let open = || Ok((acquire(folder)?, Store::open(&store_path(folder))?));
        Self::with_store(folder, open()).map_err(|fault| JournalError::new(folder, fault))
    }

    fn with_store(
        folder: &Path,
        opened: Result<(FileLock, Store), JournalFault>,
    ) -> Result<Self, JournalFault> {
        let (lock, store, copy) = match opened {
            Ok((lock, store)) => (Ok(lock), store, None),
            Err(JournalFault::Journal(reason)) if is_unwritable(&reason) => {
                let copy = Store::open_copy(Memory::read(&store_path(folder))?)?;
                let refusal = io::Error::new(
                    reason.kind(),
                    format!("the folder could not be written when it was opened; open it again ({reason})"),
                );
                (Err(copy_error(&refusal)), Store::closed(refusal), Some(copy))
            }
            Err(fault) => return Err(fault),
        };
        let log = copy.as_ref().unwrap_or(&store).read()?;
        let number = log.snapshot.ok_or(JournalFault::NotDurable)?;
        let snapshot = snapshot_path(folder, number);
        if let Some(checksum) = log.snapshot_checksum
            && header_checksum(&snapshot)? != checksum
        {
            return Err(JournalFault::OtherSnapshot(snapshot_name(number)));
        }
        if lock.is_ok() {
            remove_other_snapshots(folder, number);
        }
        Ok(Self { folder: folder.to_owned(), store, log, number, lock, _copy: copy })
    }

    /// The index file that the log continues.
    pub(crate) fn snapshot(&self) -> PathBuf {
        snapshot_path(&self.folder, self.number)
    }

    /// Makes all changes of the log in `index`, which was opened from the snapshot.
    pub(crate) fn replay<T: Element>(
        self,
        index: &TypedIndex<T>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<Journal, JournalError> {
        let (last, logged_bytes, snapshot_bytes) =
            self.replay_all(index, progress).map_err(|fault| JournalError::new(&self.folder, fault))?;
        Ok(Journal {
            folder: self.folder,
            turns: Turns::new(last.map_or(self.number, |last| last + 1)),
            waiting: Mutex::default(),
            store: Mutex::new(self.store),
            logged_bytes: AtomicU64::new(logged_bytes),
            snapshot_bytes: AtomicU64::new(snapshot_bytes),
            lock: self.lock,
        })
    }

    /// Returns the number of the last change, and the bytes of the log and of the snapshot.
    fn replay_all<T: Element>(
        &self,
        index: &TypedIndex<T>,
        progress: &mut ProgressFn<'_>,
    ) -> Result<(Option<u64>, u64, u64), JournalFault> {
        let numbers = self.log.numbers()?;
        let mut logged_bytes = 0;
        for (done, &number) in numbers.iter().enumerate() {
            let report = Progress { stage: Stage::Replaying, done, total: numbers.len() }.report(progress);
            report.map_err(|error| JournalFault::Replay(error.into()))?;
            match record::replay(index, &self.log, number) {
                Ok(bytes) => logged_bytes += bytes,
                // The process ended before it removed the change from the log.
                Err(error) if is_refusal(&error) => {}
                Err(error) => return Err(JournalFault::Replay(error)),
            }
        }
        Ok((numbers.last().copied(), logged_bytes, fs::metadata(self.snapshot())?.len()))
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
    fn prepare<'a, T: Element>(
        &'a self,
        number: u64,
        record: &'a Record<'_, T>,
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
            return Ok(Box::new(move || self.commit_alone(&change, vectors)));
        }
        self.commit_alone(&change, vectors)?;
        Ok(Box::new(|| Ok(())))
    }

    /// Commits a change whose vectors are not copied.
    fn commit_alone<T: Element>(
        &self,
        change: &StoredChange,
        vectors: &dyn VectorSource<T>,
    ) -> io::Result<()> {
        lock(&self.store).commit(&[change.number], |tables| {
            tables.insert(change)?;
            for_each_chunk(vectors, |first, chunk| tables.insert_vectors(change.number, first, chunk))
        })
    }

    /// Commits a change together with all that wait.
    fn commit_in_group(&self, change: StoredChange) -> io::Result<()> {
        let waiting = Arc::new(Waiting { change, committed: OnceLock::new() });
        lock(&self.waiting).push(Arc::clone(&waiting));
        let mut store = lock(&self.store);
        // Otherwise another caller has committed it meanwhile.
        if waiting.committed.get().is_none() {
            let group = mem::take(&mut *lock(&self.waiting));
            let numbers: Vec<u64> = group.iter().map(|waiting| waiting.change.number).collect();
            let committed = store.commit(&numbers, |tables| {
                group.iter().try_for_each(|waiting| tables.insert(&waiting.change))
            });
            for waiting in group {
                // Set once, as every change is in one group.
                let _ = waiting.committed.set(copy(&committed));
            }
        }
        drop(store);
        let panicked = || Err(io::Error::other("another change panicked while it was committed"));
        waiting.committed.get().map_or_else(panicked, copy)
    }

    /// Whether the log has grown so long that a snapshot should replace it.
    pub(crate) fn is_snapshot_due(&self) -> bool {
        let snapshot_bytes = self.snapshot_bytes.load(Ordering::Relaxed);
        self.logged_bytes.load(Ordering::Relaxed) >= MIN_JOURNAL_BYTES.max(snapshot_bytes / SNAPSHOT_DIVISOR)
    }

    /// Replaces the log of all changes that were made by a snapshot, which `save` writes. `only_if_due` is for one that
    /// no caller asked for.
    pub(crate) fn snapshot(
        &self,
        only_if_due: bool,
        save: impl FnOnce(&Path) -> Result<SaveStats, FileError>,
    ) -> Result<(), JournalError> {
        let turn = self.turns.take();
        turn.wait();
        if only_if_due && !self.is_snapshot_due() {
            return Ok(());
        }
        if let Err(reason) = &self.lock {
            return Err(JournalError::new(&self.folder, copy_error(reason)));
        }
        let number = turn.number();
        // If this fails, the next attempt is due when the log has grown by as much again.
        self.logged_bytes.store(0, Ordering::Relaxed);
        let snapshot = || -> Result<u64, JournalFault> {
            let path = snapshot_path(&self.folder, number);
            let saved = save(&path)?;
            let checksum = header_checksum(&path)?;
            lock(&self.store).commit(&[], |tables| tables.set_snapshot(number, checksum))?;
            Ok(saved.bytes)
        };
        let bytes = snapshot().map_err(|fault| JournalError::new(&self.folder, fault))?;
        self.snapshot_bytes.store(bytes, Ordering::Relaxed);
        remove_other_snapshots(&self.folder, number);
        Ok(())
    }
}
