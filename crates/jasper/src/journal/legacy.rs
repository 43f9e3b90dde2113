//! The log of earlier releases, which was a [redb](https://docs.rs/redb) database, `journal.redb`.
//!
//! | table | holds |
//! | --- | --- |
//! | `changes` | the kind and the argument of each change, by number |
//! | `vectors` | the vectors of each change, in chunks: by the number of the change and that of the first vector |
//! | `snapshot` | the number of the first change that is not in the snapshot |
//! | `snapshot checksum` | the checksum of the header of the snapshot |

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use jasper_core::sync::lock;
use jasper_data::ReadAt;
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
    let file = File::open(path)?;
    let len = file.size()?;
    let overlay = Overlay { file, state: Mutex::new(State { len, file_len: len, pages: BTreeMap::new() }) };
    let database =
        Builder::new().set_check_integrity_on_open(true).create_with_backend(overlay).map_err(error)?;
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

/// A database that is only read: what is written to it, to repair it after a crash for example, is in memory.
struct Overlay {
    file: File,
    state: Mutex<State>,
}

struct State {
    len: u64,
    /// What is after this in the file is cut off.
    file_len: u64,
    /// By number. Those that are not here are as in the file.
    pages: BTreeMap<u64, Vec<u8>>,
}

const PAGE_BYTES: u64 = 4096;

impl Overlay {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Reads the file, whose `len` bytes are followed by zeros.
    fn read_file(&self, len: u64, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let (there, after) = out.split_at_mut(len.saturating_sub(offset).min(out.len() as u64) as usize);
        after.fill(0);
        self.file.read_exact_at(there, offset)
    }
}

/// The pages of some bytes of the database: the number of each, where the bytes begin there, and how many there are.
fn pages(mut offset: u64, mut len: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    std::iter::from_fn(move || {
        let (number, start) = (offset / PAGE_BYTES, offset % PAGE_BYTES);
        let part = len.min(PAGE_BYTES - start);
        (offset, len) = (offset + part, len - part);
        (part > 0).then_some((number, start as usize, part as usize))
    })
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().len)
    }

    fn read(&self, offset: u64, mut out: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > state.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (number, start, len) in pages(offset, out.len() as u64) {
            let (part, rest) = out.split_at_mut(len);
            match state.pages.get(&number) {
                Some(page) => part.copy_from_slice(&page[start..][..len]),
                None => self.read_file(state.file_len, number * PAGE_BYTES + start as u64, part)?,
            }
            out = rest;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.state();
        (state.len, state.file_len) = (len, state.file_len.min(len));
        drop(state.pages.split_off(&len.div_ceil(PAGE_BYTES)));
        if let Some(last) = state.pages.get_mut(&(len / PAGE_BYTES)) {
            last[(len % PAGE_BYTES) as usize..].fill(0);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, mut data: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        for (number, start, len) in pages(offset, data.len() as u64) {
            let (part, rest) = data.split_at(len);
            let State { file_len, pages, .. } = &mut *state;
            let page = match pages.entry(number) {
                Entry::Occupied(page) => page.into_mut(),
                Entry::Vacant(place) => {
                    let mut page = vec![0; PAGE_BYTES as usize];
                    self.read_file(*file_len, number * PAGE_BYTES, &mut page)?;
                    place.insert(page)
                }
            };
            page[start..][..len].copy_from_slice(part);
            data = rest;
        }
        Ok(())
    }
}

impl fmt::Debug for Overlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overlay").field("len", &self.state().len).finish_non_exhaustive()
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
