//! The values of columns, by row, with what finds the live rows of a value.

mod dictionary;
mod ids;
mod numbers;
mod postings;
mod tags;
mod words;

use jasper_core::Key;

use crate::bytes::Reader;
use crate::keys::Keys;
use crate::{Column, ColumnKind, DecodeError, Value};

pub(crate) use dictionary::Dictionary;
pub(crate) use ids::Ids;
pub(crate) use numbers::{Numbers, float_order};
pub(crate) use postings::Postings;
pub(crate) use tags::Tags;
pub(crate) use words::Words;

/// A column and its values.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) column: Column,
    pub(crate) values: Values,
}

/// The values of a column. *Indexed* rows, which are the live ones, are found by their values.
#[derive(Clone, Debug)]
pub(crate) enum Values {
    /// Integers, floats and timestamps.
    Numbers(Numbers),
    /// Bools and keywords.
    Words(Words),
    /// Keywords.
    Tags(Tags),
    /// Ids.
    Ids(Ids),
}

/// Calls a function of the values, of whichever type they are.
macro_rules! each {
    ($values:expr, $inner:ident => $call:expr) => {
        match $values {
            Values::Numbers($inner) => $call,
            Values::Words($inner) => $call,
            Values::Tags($inner) => $call,
            Values::Ids($inner) => $call,
        }
    };
}

impl Stored {
    pub(crate) fn new(column: Column) -> Self {
        let values = match column.kind {
            ColumnKind::Integer | ColumnKind::Float | ColumnKind::Timestamp => {
                Values::Numbers(Numbers::default())
            }
            ColumnKind::Bool => Values::Words(Words::with_bools()),
            ColumnKind::Keyword => Values::Words(Words::default()),
            ColumnKind::Keywords => Values::Tags(Tags::default()),
            ColumnKind::Id => Values::Ids(Ids::default()),
        };
        Self { column, values }
    }

    pub(crate) fn value(&self, row: u32) -> Value {
        match &self.values {
            Values::Numbers(numbers) => numbers.value(row, self.column.kind),
            Values::Words(words) => words.value(row, self.column.kind),
            Values::Tags(tags) => tags.value(row),
            Values::Ids(ids) => Value::from(ids.get(row)),
        }
    }

    /// Sets the values of distinct live rows, which are of the column's kind.
    pub(crate) fn set(&mut self, rows: &[u32], values: &[Value], keys: &Keys) {
        each!(&mut self.values, inner => inner.set(rows, values, keys));
    }

    /// Indexes a row that was not.
    pub(crate) fn index(&mut self, row: u32) {
        each!(&mut self.values, inner => inner.index(row));
    }

    /// Undoes [`Self::index`]; the value stays.
    pub(crate) fn unindex(&mut self, row: u32) {
        each!(&mut self.values, inner => inner.unindex(row));
    }

    /// Indexes the live rows, and no others.
    pub(crate) fn index_all(&mut self, keys: &Keys) {
        each!(&mut self.values, inner => inner.index_all(keys));
    }

    /// Sets a row to null that is not indexed.
    pub(crate) fn clear(&mut self, row: u32) {
        each!(&mut self.values, inner => inner.clear(row));
    }

    pub(crate) fn encode(&self, bytes: &mut Vec<u8>, rows: usize) {
        each!(&self.values, inner => inner.encode(bytes, rows));
    }

    pub(crate) fn decode(column: Column, reader: &mut Reader<'_>, keys: &Keys) -> Result<Self, DecodeError> {
        let values = match column.kind {
            ColumnKind::Integer | ColumnKind::Timestamp => {
                Values::Numbers(Numbers::decode(reader, keys, |_| true)?)
            }
            ColumnKind::Float => Values::Numbers(Numbers::decode(reader, keys, numbers::is_float)?),
            ColumnKind::Bool => {
                let words = Words::decode(reader, keys)?;
                if !words.has_bools() {
                    return Err(reader.error("bools are not named so"));
                }
                Values::Words(words)
            }
            ColumnKind::Keyword => Values::Words(Words::decode(reader, keys)?),
            ColumnKind::Keywords => Values::Tags(Tags::decode(reader, keys)?),
            ColumnKind::Id => Values::Ids(Ids::decode(reader, keys)?),
        };
        let stored = Self { column, values };
        if keys.free().any(|row| !stored.values.is_null(row)) {
            return Err(reader.error("a row without a key has a value"));
        }
        Ok(stored)
    }

    pub(crate) fn memory(&self) -> usize {
        each!(&self.values, inner => inner.memory())
    }
}

impl Values {
    /// The address of the values, which tells columns apart.
    pub(crate) fn address(&self) -> *const () {
        each!(self, inner => std::ptr::from_ref(inner).cast())
    }

    #[inline]
    pub(crate) fn is_null(&self, row: u32) -> bool {
        each!(self, inner => inner.is_null(row))
    }

    /// Number of indexed rows that are not null.
    pub(crate) fn present(&self) -> usize {
        each!(self, inner => inner.present())
    }
}

/// Whether to index all live rows anew, rather than to change the index for each of the rows that are set or removed, which
/// takes several times as long per row. A change of few rows must not take longer the more there are. Tests have few rows.
pub(crate) fn is_bulk(changed: usize, keys: &Keys) -> bool {
    changed >= if cfg!(test) { 5 } else { 256 } && changed >= keys.len() / 2
}

/// Live rows of keys, to index them.
fn live(keys: &Keys) -> impl Iterator<Item = u32> + Clone {
    keys.live().map(|(row, _): (u32, Key)| row)
}
