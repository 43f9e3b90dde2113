//! The store of the journal, `journal.redb`: the log of changes, and the number of the snapshot, as tables of a redb
//! database.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;

use jasper_core::{Element, VectorSource};
use redb::{
    Builder, Database, DatabaseError, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, Table,
    TableDefinition, WriteTransaction,
};

use super::copy_error;
use super::memory::Memory;

/// The kind and the argument of each change, by number.
const CHANGES: TableDefinition<'_, u64, (&str, &[u8])> = TableDefinition::new("changes");
/// The vectors of each change, in chunks: by the number of the change and that of the first vector.
const VECTORS: TableDefinition<'_, (u64, u64), &[u8]> = TableDefinition::new("vectors");
/// The number of the first change that is not in the snapshot.
const SNAPSHOT: TableDefinition<'_, (), u64> = TableDefinition::new("snapshot");
/// The checksum of the header of the snapshot.
const SNAPSHOT_CHECKSUM: TableDefinition<'_, (), u32> = TableDefinition::new("snapshot checksum");

/// Bytes of vectors per chunk. redb stores a value in a power of two of bytes, with some of its own.
pub(super) const CHUNK_BYTES: usize = (1 << 20) - (4 << 10);
/// Memory of redb for pages that it has read or will write.
const CACHE_BYTES: usize = 64 << 20;

/// A change as the log stores it.
#[derive(Debug)]
pub(super) struct StoredChange {
    pub number: u64,
    pub kind: &'static str,
    pub argument: Vec<u8>,
    /// Chunks of vectors, each with the number of its first.
    pub vectors: Vec<(u64, Vec<u8>)>,
}

type OpenDatabase = dyn Fn() -> Result<Database, DatabaseError> + Send;

/// The log on disk, to write. After an error it is unknown whether the transaction is there, so the database is opened
/// again, and the changes of the transaction are removed from it before anything else is written.
pub(super) struct Store {
    open: Box<OpenDatabase>,
    /// `None` after an error.
    database: Option<Database>,
    /// Numbers of changes that must not be in the log, and may be.
    discarded: BTreeSet<u64>,
}

/// The tables in a transaction.
pub(super) struct Tables<'t> {
    changes: Table<'t, u64, (&'static str, &'static [u8])>,
    vectors: Table<'t, (u64, u64), &'static [u8]>,
    snapshot: Table<'t, (), u64>,
    snapshot_checksum: Table<'t, (), u32>,
}

impl Tables<'_> {
    fn open(transaction: &WriteTransaction) -> io::Result<Tables<'_>> {
        Ok(Tables {
            changes: transaction.open_table(CHANGES).map_err(error)?,
            vectors: transaction.open_table(VECTORS).map_err(error)?,
            snapshot: transaction.open_table(SNAPSHOT).map_err(error)?,
            snapshot_checksum: transaction.open_table(SNAPSHOT_CHECKSUM).map_err(error)?,
        })
    }

    /// Writes a change. If there is one with this number, it is replaced.
    pub(super) fn insert(&mut self, change: &StoredChange) -> io::Result<()> {
        self.changes.insert(change.number, (change.kind, &*change.argument)).map_err(error)?;
        change.vectors.iter().try_for_each(|(first, chunk)| self.insert_vectors(change.number, *first, chunk))
    }

    /// Writes vectors of a change, from number `first` on.
    pub(super) fn insert_vectors(&mut self, number: u64, first: u64, chunk: &[u8]) -> io::Result<()> {
        self.vectors.insert((number, first), chunk).map(drop).map_err(error)
    }

    /// Records that a snapshot has all changes below `number`, and removes these. `checksum` is that of its header.
    pub(super) fn set_snapshot(&mut self, number: u64, checksum: u32) -> io::Result<()> {
        self.remove(0..number)?;
        self.snapshot.insert((), number).map_err(error)?;
        self.snapshot_checksum.insert((), checksum).map(drop).map_err(error)
    }

    fn remove(&mut self, numbers: Range<u64>) -> io::Result<()> {
        self.changes.retain_in(numbers.clone(), |_, _| false).map_err(error)?;
        self.vectors.retain_in((numbers.start, 0)..(numbers.end, 0), |_, _| false).map_err(error)
    }
}

impl Store {
    /// Opens the log in the file `path`, which must exist. Verifies its checksums.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let path = path.to_owned();
        Self::open_with(Box::new(move || {
            Builder::new().set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true).open(&path)
        }))
    }

    /// Opens a copy of the log in memory, of the bytes of its file. Nothing that is written to it goes anywhere else.
    pub(super) fn open_copy(bytes: Memory) -> io::Result<Self> {
        Self::open_with(Box::new(move || {
            Builder::new().set_check_integrity_on_open(true).create_with_backend(bytes.clone())
        }))
    }

    /// A log that accepts no change, because of this error.
    pub(super) fn closed(reason: io::Error) -> Self {
        let open = move || Err(redb::StorageError::Io(copy_error(&reason)).into());
        Self { open: Box::new(open), database: None, discarded: BTreeSet::new() }
    }

    /// The file of a log without changes, which continues the first snapshot.
    pub(super) fn create(snapshot_checksum: u32) -> io::Result<Vec<u8>> {
        let file = Memory::default();
        Self::open_copy(file.clone())?.commit(&[], |tables| tables.set_snapshot(0, snapshot_checksum))?;
        Ok(file.take())
    }

    /// Opens the log that `open` returns.
    pub(super) fn open_with(open: Box<OpenDatabase>) -> io::Result<Self> {
        let mut store = Self { database: Some(open().map_err(error)?), open, discarded: BTreeSet::new() };
        // Creates the tables.
        store.try_commit(|_| Ok(()))?;
        Ok(store)
    }

    /// Runs `write` in a transaction, which is on disk when this returns. It is undone after an error; if that fails as
    /// well, it is undone before the next one, and until then a crash may bring the changes `numbers` back.
    pub(super) fn commit(
        &mut self,
        numbers: &[u64],
        write: impl FnOnce(&mut Tables<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let committed = self.try_commit(write);
        if committed.is_err() {
            // The error that is returned is the first one.
            let _ = self.discard(numbers);
        }
        committed
    }

    /// Removes changes from the log. After an error, they are removed before anything else is written.
    pub(super) fn discard(&mut self, numbers: &[u64]) -> io::Result<()> {
        self.discarded.extend(numbers);
        self.try_commit(|_| Ok(()))
    }

    fn try_commit(&mut self, write: impl FnOnce(&mut Tables<'_>) -> io::Result<()>) -> io::Result<()> {
        let database = match self.database.take() {
            Some(database) => database,
            None => (self.open)().map_err(error)?,
        };
        let transaction = database.begin_write().map_err(error)?;
        {
            let mut tables = Tables::open(&transaction)?;
            self.discarded.iter().try_for_each(|&number| tables.remove(number..number + 1))?;
            write(&mut tables)?;
        }
        transaction.commit().map_err(error)?;
        self.discarded.clear();
        self.database = Some(database);
        Ok(())
    }

    /// The changes on disk.
    pub(super) fn read(&self) -> io::Result<Log> {
        let closed = || io::Error::other("the log was closed after an error");
        let transaction = self.database.as_ref().ok_or_else(closed)?.begin_read().map_err(error)?;
        Log::open(&transaction)
    }
}

/// The log on disk, to read.
pub(super) struct Log {
    changes: ReadOnlyTable<u64, (&'static str, &'static [u8])>,
    vectors: ReadOnlyTable<(u64, u64), &'static [u8]>,
    /// The number of the first change that is not in the snapshot, if there is one.
    pub snapshot: Option<u64>,
    /// The checksum of the header of the snapshot.
    pub snapshot_checksum: Option<u32>,
}

impl Log {
    fn open(transaction: &ReadTransaction) -> io::Result<Self> {
        let snapshot = transaction.open_table(SNAPSHOT).map_err(error)?;
        let checksum = transaction.open_table(SNAPSHOT_CHECKSUM).map_err(error)?;
        Ok(Self {
            changes: transaction.open_table(CHANGES).map_err(error)?,
            vectors: transaction.open_table(VECTORS).map_err(error)?,
            snapshot: snapshot.get(()).map_err(error)?.map(|number| number.value()),
            snapshot_checksum: checksum.get(()).map_err(error)?.map(|checksum| checksum.value()),
        })
    }

    /// The numbers of the changes, ascending.
    pub(super) fn numbers(&self) -> io::Result<Vec<u64>> {
        let number =
            |entry: Result<(redb::AccessGuard<'_, u64>, _), _>| entry.map(|(number, _)| number.value());
        self.changes.iter().and_then(|changes| changes.map(number).collect()).map_err(error)
    }

    /// The kind and the argument of a change.
    pub(super) fn change(&self, number: u64) -> io::Result<(String, Vec<u8>)> {
        let change = self.changes.get(number).map_err(error)?.ok_or_else(missing)?;
        let (kind, argument) = change.value();
        Ok((kind.to_owned(), argument.to_owned()))
    }

    /// The vectors of a change.
    pub(super) fn vectors(&self, number: u64, len: usize, dimension: usize) -> LoggedVectors<'_> {
        LoggedVectors { log: self, number, len, dimension }
    }
}

/// The vectors of a change in the log.
pub(super) struct LoggedVectors<'a> {
    log: &'a Log,
    number: u64,
    len: usize,
    dimension: usize,
}

impl<T: Element> VectorSource<T> for LoggedVectors<'_> {
    fn len(&self) -> usize {
        self.len
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn read(&self, range: Range<usize>, out: &mut [T]) -> io::Result<()> {
        let row_bytes = self.dimension * size_of::<T>();
        let mut out: &mut [u8] = bytemuck::cast_slice_mut(out);
        let mut at = range.start;
        while !out.is_empty() {
            // The last chunk that does not begin after the vector.
            let mut chunks =
                self.log.vectors.range((self.number, 0)..=(self.number, at as u64)).map_err(error)?;
            let (key, chunk) = chunks.next_back().ok_or_else(missing)?.map_err(error)?;
            let offset = (at - key.value().1 as usize) * row_bytes;
            let rest = chunk.value().get(offset..).filter(|rest| !rest.is_empty()).ok_or_else(missing)?;
            let (filled, left) = out.split_at_mut(rest.len().min(out.len()));
            filled.copy_from_slice(&rest[..filled.len()]);
            at += filled.len() / row_bytes;
            out = left;
        }
        Ok(())
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("discarded", &self.discarded).finish_non_exhaustive()
    }
}

fn missing() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a part of a change is missing")
}

/// The error of the operating system, if there is one.
fn error(error: impl Into<redb::Error>) -> io::Error {
    match error.into() {
        redb::Error::Io(error) => error,
        error @ redb::Error::Corrupted(_) => io::Error::new(io::ErrorKind::InvalidData, error),
        error @ redb::Error::DatabaseAlreadyOpen => io::Error::new(io::ErrorKind::ResourceBusy, error),
        error => io::Error::other(error),
    }
}
