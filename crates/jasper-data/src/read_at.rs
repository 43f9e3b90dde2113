//! Positioned reads from files and memory.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use bytemuck::Pod;

use crate::error::ReadCause;

/// A source of bytes that several threads can read at any offset.
pub trait ReadAt: Sync {
    /// The size in bytes.
    ///
    /// # Errors
    /// Returns an I/O error.
    fn size(&self) -> io::Result<u64>;

    /// Fills `bytes` from `offset`.
    ///
    /// # Errors
    /// Returns an I/O error, which is [`io::ErrorKind::UnexpectedEof`] if the source ends first.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;
}

/// Opens the file `path`, to be read at any offset. A pipe or a device is refused, before it is opened: it has no length
/// and no offsets, and opening a pipe waits for a writer.
///
/// # Errors
/// Returns the operating system's error, or one of its kinds.
pub fn open_file(path: impl AsRef<Path>) -> io::Result<File> {
    let kind = fs::metadata(&path)?;
    if kind.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory"));
    }
    if !kind.is_file() {
        let reason =
            "is a pipe or a device, which cannot be read out of order; save its content to a file first";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    File::open(path)
}

impl ReadAt for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    #[cfg(unix)]
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, bytes, offset)
    }

    #[cfg(windows)]
    fn read_exact_at(&self, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match std::os::windows::fs::FileExt::seek_read(self, bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => (bytes, offset) = (&mut bytes[n..], offset + n as u64),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl ReadAt for [u8] {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let from = usize::try_from(offset).ok().and_then(|start| self.get(start..)?.get(..bytes.len()));
        bytes.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl<S: ReadAt + ?Sized> ReadAt for &S {
    fn size(&self) -> io::Result<u64> {
        (**self).size()
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        (**self).read_exact_at(bytes, offset)
    }
}

/// Reads the first `N` little-endian words of a source of `size` bytes.
pub(crate) fn read_words<const N: usize>(source: &impl ReadAt, size: u64) -> Result<[u32; N], ReadCause> {
    let needed = 4 * N as u64;
    if size < needed {
        return Err(ReadCause::ShortHeader { needed, held: size });
    }
    let mut words = [0_u32; N];
    source.read_exact_at(bytemuck::cast_slice_mut(&mut words), 0)?;
    Ok(words)
}

/// Reads `len` values from `offset`. The caller has checked that the source holds them.
pub(crate) fn read_values<V: Pod>(source: &impl ReadAt, offset: u64, len: u64) -> Result<Vec<V>, ReadCause> {
    let no_memory = || ReadCause::Memory { bytes: len * size_of::<V>() as u64 };
    let len = usize::try_from(len).map_err(|_| no_memory())?;
    let mut values = bytemuck::allocation::try_zeroed_vec(len).map_err(|()| no_memory())?;
    source.read_exact_at(bytemuck::cast_slice_mut(&mut values), offset)?;
    Ok(values)
}
