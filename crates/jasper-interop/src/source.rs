//! A file whose claims are compared with its size before they are used.

use std::io::{Read, Seek, SeekFrom};

use bytemuck::Pod;

use crate::ImportFault;

/// A file of `size` bytes that is read from its beginning.
pub(crate) struct Source<R> {
    file: R,
    at: u64,
    size: u64,
}

impl<R: Read + Seek> Source<R> {
    pub(crate) fn new(file: R, size: u64) -> Self {
        Self { file, at: 0, size }
    }

    /// Returns the bytes of `count` items of `width` bytes, if as many are left.
    fn claim(&self, count: u64, width: u64) -> Result<u64, ImportFault> {
        let end = u128::from(self.at) + u128::from(count) * u128::from(width);
        if end > u128::from(self.size) {
            let claimed = u64::try_from(end).unwrap_or(u64::MAX);
            return Err(ImportFault::Length { claimed, actual: self.size });
        }
        Ok(count * width)
    }

    /// Fills a buffer.
    pub(crate) fn fill<V: Pod>(&mut self, buffer: &mut [V]) -> Result<(), ImportFault> {
        let bytes = self.claim(buffer.len() as u64, size_of::<V>() as u64)?;
        self.file.read_exact(bytemuck::cast_slice_mut(buffer))?;
        self.at += bytes;
        Ok(())
    }

    /// Reads a value as it is in memory, which is little-endian.
    pub(crate) fn value<V: Pod>(&mut self) -> Result<V, ImportFault> {
        let mut value = V::zeroed();
        self.fill(std::slice::from_mut(&mut value))?;
        Ok(value)
    }

    /// Reads `count` values, for which memory is allocated only if the file has as many.
    pub(crate) fn values<V: Pod>(&mut self, count: u64) -> Result<Vec<V>, ImportFault> {
        self.claim(count, size_of::<V>() as u64)?;
        let mut values = bytemuck::zeroed_vec(count as usize);
        self.fill(&mut values)?;
        Ok(values)
    }

    /// Passes over `count` items of `width` bytes, and returns where they begin.
    pub(crate) fn skip(&mut self, count: u64, width: u64) -> Result<u64, ImportFault> {
        let (begin, bytes) = (self.at, self.claim(count, width)?);
        self.file.seek_relative(bytes as i64)?;
        self.at += bytes;
        Ok(begin)
    }

    /// Continues at byte `at`.
    pub(crate) fn go_to(&mut self, at: u64) -> Result<(), ImportFault> {
        self.at = self.file.seek(SeekFrom::Start(at))?;
        Ok(())
    }

    /// Checks that nothing is left.
    pub(crate) fn finish(&self) -> Result<(), ImportFault> {
        if self.at < self.size {
            return Err(ImportFault::Length { claimed: self.at, actual: self.size });
        }
        Ok(())
    }
}

/// Refuses a field unless it has the value that follows from others, as `why` says.
pub(crate) fn expect(
    name: &'static str,
    value: u64,
    expected: impl Into<u128>,
    why: &str,
) -> Result<(), ImportFault> {
    let expected = expected.into();
    if u128::from(value) == expected {
        return Ok(());
    }
    Err(ImportFault::field(name, value, format!("{expected}, {why}")))
}
