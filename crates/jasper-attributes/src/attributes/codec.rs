//! Attributes as bytes, for index files.

use std::collections::HashSet;
use std::sync::Arc;
use std::{io, mem};

use rayon::prelude::*;

use super::Attributes;
use crate::bytes::{Reader, put_str};
use crate::columns::Stored;
use crate::frame::{kind_code, kind_from};
use crate::keys::Keys;
use crate::{Column, ColumnKind, DecodeError};

/// First byte, for later versions.
const VERSION: u8 = 1;

impl Attributes {
    /// The attributes as bytes: those of live keys, and those of removed ones.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        self.keys.encode(&mut bytes);
        bytes.extend((self.columns.len() as u32).to_le_bytes());
        for stored in self.columns.iter() {
            put_str(&mut bytes, &stored.column.name);
            bytes.push(kind_code(stored.column.kind));
            let start = bytes.len();
            bytes.extend([0; 8]);
            stored.encode(&mut bytes, self.keys.rows());
            let len = (bytes.len() - start - 8) as u64;
            bytes[start..start + 8].copy_from_slice(&len.to_le_bytes());
        }
        bytes
    }

    /// The attributes that were encoded. Columns are decoded in parallel, and take memory in proportion to the bytes.
    ///
    /// # Errors
    /// If these are not the bytes of attributes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != VERSION {
            return Err(reader.error("attributes are of another version"));
        }
        let keys = Keys::decode(&mut reader)?;
        let mut sections: Vec<(Column, Reader<'_>)> = Vec::new();
        let (mut names, mut has_ids) = (HashSet::new(), false);
        for _ in 0..reader.u32()? {
            let name = reader.str()?;
            let kind = kind_from(reader.u8()?, &reader)?;
            let is_second = kind == ColumnKind::Id && mem::replace(&mut has_ids, true);
            if name.is_empty() || is_second || !names.insert(name) {
                return Err(reader.error("a column has no name of its own, or is the second of ids"));
            }
            sections.push((Column { name: name.to_string(), kind }, reader.section()?));
        }
        reader.end()?;
        let columns = sections.into_par_iter().map(|(column, mut reader)| {
            let stored = Stored::decode(column, &mut reader, &keys)?;
            reader.end().map(|()| stored)
        });
        // The error of the first column, not of the first thread.
        let columns: Vec<Result<Stored, DecodeError>> = columns.collect();
        let columns = Arc::new(columns.into_iter().collect::<Result<_, _>>()?);
        Ok(Self { keys, columns })
    }

    /// The columns of `len` encoded bytes, of which `read` fills a buffer from an offset. The values are skipped, and not
    /// checked.
    ///
    /// # Errors
    /// The errors of `read`, and [`io::ErrorKind::InvalidData`] if these are not the bytes of attributes.
    pub fn read_columns(
        len: u64,
        read: impl FnMut(&mut [u8], u64) -> io::Result<()>,
    ) -> io::Result<Vec<Column>> {
        let mut source = Source { read, len, position: 0 };
        if source.take::<1>()? != [VERSION] {
            return Err(source.invalid("attributes are of another version"));
        }
        // The key of each row, and the removed keys with their rows.
        for size in [8, 12] {
            let items = source.u64()?;
            source.skip(items.saturating_mul(size))?;
        }
        let mut columns = Vec::new();
        for _ in 0..u32::from_le_bytes(source.take()?) {
            let name = source.string()?;
            let [code] = source.take()?;
            let kind = kind_from(code, &Reader::new(&[])).map_err(|error| source.invalid(error.what))?;
            let values = source.u64()?;
            source.skip(values)?;
            columns.push(Column { name, kind });
        }
        Ok(columns)
    }
}

/// Encoded bytes that are read in parts.
struct Source<R> {
    read: R,
    len: u64,
    position: u64,
}

impl<R: FnMut(&mut [u8], u64) -> io::Result<()>> Source<R> {
    fn invalid(&self, what: &'static str) -> io::Error {
        let position = usize::try_from(self.position).unwrap_or(usize::MAX);
        io::Error::new(io::ErrorKind::InvalidData, DecodeError { position, what })
    }

    /// Skips bytes; returns their offset.
    fn skip(&mut self, bytes: u64) -> io::Result<u64> {
        if bytes > self.len - self.position {
            return Err(self.invalid("bytes are missing"));
        }
        self.position += bytes;
        Ok(self.position - bytes)
    }

    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let (mut bytes, start) = ([0; N], self.skip(N as u64)?);
        (self.read)(&mut bytes, start)?;
        Ok(bytes)
    }

    fn u64(&mut self) -> io::Result<u64> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    /// A string after the number of its bytes.
    fn string(&mut self) -> io::Result<String> {
        let len = u32::from_le_bytes(self.take()?);
        let start = self.skip(len.into())?;
        let mut bytes = vec![0; len as usize];
        (self.read)(&mut bytes, start)?;
        String::from_utf8(bytes).map_err(|_| self.invalid("a string is not UTF-8"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Frame, Value};

    /// Strings that rows had before leave no trace.
    #[test]
    fn equal_rows_have_equal_bytes() {
        let bytes_of = |history: &[[&str; 2]]| {
            let mut attributes = Attributes::default();
            attributes.add_keys([0, 1]);
            for &words in history {
                let lists = words.map(|word| Value::Keywords(vec![word.into(), "all".into()]));
                let frame = Frame::new(2).column("lang", words).and_then(|frame| frame.column("tags", lists));
                attributes.set(&[0, 1], &frame.unwrap()).unwrap();
            }
            attributes.encode()
        };
        assert_eq!(bytes_of(&[["de", "en"], ["en", "fr"], ["en", "de"]]), bytes_of(&[["en", "de"]]));
    }

    #[test]
    fn columns_are_read_without_values() {
        let mut attributes = Attributes::default();
        attributes.add_keys([3, 1 << 40, 9]);
        let frame = Frame::new(2)
            .column("lang", ["en", "de"])
            .and_then(|frame| frame.column_of("id", ColumnKind::Id, ["x", "y"]))
            .unwrap();
        attributes.set(&[3, 9], &frame).unwrap();
        attributes.remove(9);
        let bytes = attributes.encode();
        let read = |bytes: &[u8]| {
            Attributes::read_columns(bytes.len() as u64, |buffer, offset| {
                buffer.copy_from_slice(&bytes[offset as usize..][..buffer.len()]);
                Ok(())
            })
        };
        assert!(read(&bytes).unwrap().iter().eq(attributes.columns()));
        assert_eq!(read(&Attributes::default().encode()).unwrap(), []);
        for len in 0..bytes.len() {
            assert_eq!(read(&bytes[..len]).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }
}
