//! A file in memory.

use std::fmt;
use std::fs;
use std::io;
use std::mem;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use redb::StorageBackend;

use super::lock;

/// A file in memory; clones are the same file.
#[derive(Clone, Default)]
pub(super) struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    /// Reads the file at `path` into memory.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        Ok(Self(Arc::new(Mutex::new(fs::read(path)?))))
    }

    /// Takes all bytes out of the file.
    pub(super) fn take(&self) -> Vec<u8> {
        mem::take(&mut self.bytes())
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        lock(&self.0)
    }
}

impl StorageBackend for Memory {
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

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("len", &self.bytes().len()).finish()
    }
}
