//! Reads encoded attributes, which may be damaged.

use crate::DecodeError;

/// Bytes that are read from the front.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, position: 0 }
    }

    pub(crate) fn error(&self, what: &'static str) -> DecodeError {
        DecodeError { position: self.position, what }
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let Some((taken, rest)) = self.rest.split_at_checked(len) else {
            return Err(self.error("bytes are missing"));
        };
        (self.rest, self.position) = (rest, self.position + len);
        Ok(taken)
    }

    /// So many items of `size` bytes.
    pub(crate) fn items(&mut self, count: usize, size: usize) -> Result<&'a [u8], DecodeError> {
        self.take(count.saturating_mul(size))
    }

    /// Bytes after their number.
    pub(crate) fn section(&mut self) -> Result<Self, DecodeError> {
        let len = self.len()?;
        let position = self.position;
        Ok(Self { rest: self.take(len)?, position })
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("4 bytes")))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("8 bytes")))
    }

    pub(crate) fn len(&mut self) -> Result<usize, DecodeError> {
        let len = self.u64()?;
        usize::try_from(len).map_err(|_| self.error("a length is too large"))
    }

    /// A string after the number of its bytes.
    pub(crate) fn str(&mut self) -> Result<&'a str, DecodeError> {
        let len = self.u32()? as usize;
        let bytes = self.take(len)?;
        str::from_utf8(bytes).map_err(|_| self.error("a string is not UTF-8"))
    }

    pub(crate) fn end(&self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.error("bytes are left")) }
    }
}

pub(crate) fn put_str(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u32).to_le_bytes());
    bytes.extend(text.as_bytes());
}
