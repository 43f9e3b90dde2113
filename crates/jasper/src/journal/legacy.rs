//! The log of earlier releases, which was a [redb](https://docs.rs/redb) database, `journal.redb`.
//!
//! | table | holds |
//! | --- | --- |
//! | `changes` | the kind and the argument of each change, by number |
//! | `vectors` | the vectors of each change, in chunks: by the number of the change and that of the first vector |
//! | `snapshot` | the number of the first change that is not in the snapshot |
//! | `snapshot checksum` | the checksum of the header of the snapshot |

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use jasper_core::sync::lock;
use redb::{
    Builder, ReadTransaction, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition, TableError,
};

use super::segment::{Beginning, Memory, NewSegment, OneSegment, invalid};
use super::store::{SnapshotId, Writer};

const CHANGES: TableDefinition<'_, u64, (&str, &[u8])> = TableDefinition::new("changes");
const VECTORS: TableDefinition<'_, (u64, u64), &[u8]> = TableDefinition::new("vectors");
const SNAPSHOT: TableDefinition<'_, (), u64> = TableDefinition::new("snapshot");
const SNAPSHOT_CHECKSUM: TableDefinition<'_, (), u32> = TableDefinition::new("snapshot checksum");

/// A segment in memory with everything that is in the database at `path`.
pub(super) fn read(path: &Path) -> io::Result<OneSegment> {
    let segment = Memory::default();
    convert(path, Box::new(segment.clone()))?;
    Ok(OneSegment::new(segment.take()))
}

/// Writes everything that is in the database at `path` to a segment. The database stays as it is.
pub(super) fn convert(path: &Path, segment: Box<dyn NewSegment>) -> io::Result<()> {
    let file = InMemory(Mutex::new(fs::read(path)?));
    let database =
        Builder::new().set_check_integrity_on_open(true).create_with_backend(file).map_err(error)?;
    copy(&database.begin_read().map_err(error)?, Writer::new(0, segment))
}

fn copy(from: &ReadTransaction, mut to: Writer) -> io::Result<()> {
    let number = from.open_table(SNAPSHOT).map_err(error)?.get(()).map_err(error)?;
    let number = number.ok_or_else(|| invalid("the journal names no snapshot"))?.value();
    let checksum = match from.open_table(SNAPSHOT_CHECKSUM) {
        Err(TableError::TableDoesNotExist(_)) => None,
        table => table.map_err(error)?.get(()).map_err(error)?.map(|checksum| checksum.value()),
    };
    to.begin(Beginning::default(), SnapshotId { number, checksum })?;
    let vectors = from.open_table(VECTORS).map_err(error)?;
    for change in from.open_table(CHANGES).map_err(error)?.iter().map_err(error)? {
        let (number, change) = change.map_err(error)?;
        let (number, (kind, argument)) = (number.value(), change.value());
        for chunk in vectors.range((number, 0)..(number + 1, 0)).map_err(error)? {
            let (key, chunk) = chunk.map_err(error)?;
            to.write_vectors(number, key.value().1, chunk.value())?;
        }
        to.write_argument(number, kind, argument)?;
    }
    to.finish(0)
}

/// A database in memory.
struct InMemory(Mutex<Vec<u8>>);

impl InMemory {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        lock(&self.0)
    }
}

impl StorageBackend for InMemory {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.bytes();
        let found = bytes.get(offset as usize..).and_then(|bytes| bytes.get(..out.len()));
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes().resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = self.bytes();
        let place = bytes.get_mut(offset as usize..).and_then(|bytes| bytes.get_mut(..data.len()));
        place.ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(data);
        Ok(())
    }
}

impl fmt::Debug for InMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemory").field("len", &self.bytes().len()).finish()
    }
}

/// The error of the operating system, if there is one.
fn error(error: impl Into<redb::Error>) -> io::Error {
    match error.into() {
        redb::Error::Io(error) => error,
        error @ redb::Error::Corrupted(_) => io::Error::new(io::ErrorKind::InvalidData, error),
        error => io::Error::other(error),
    }
}
