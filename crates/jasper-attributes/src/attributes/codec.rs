//! Attributes as bytes, for index files.

use std::sync::Arc;

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
        for _ in 0..reader.u32()? {
            let name = reader.str()?.to_string();
            let kind = kind_from(reader.u8()?, &reader)?;
            let clashes = |column: &Column| {
                column.name == name || (column.kind == ColumnKind::Id && kind == ColumnKind::Id)
            };
            if name.is_empty() || sections.iter().any(|(column, _)| clashes(column)) {
                return Err(reader.error("a column has no name of its own, or is the second of ids"));
            }
            sections.push((Column { name, kind }, reader.section()?));
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
}
