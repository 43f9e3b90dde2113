//! Columns of words: bools and keywords.

use super::{Dictionary, Postings, is_bulk, live};
use crate::bytes::Reader;
use crate::cow::{Cell, Cells};
use crate::keys::Keys;
use crate::{ColumnKind, DecodeError, Value};

/// A word per row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words {
    pub(crate) dictionary: Dictionary,
    codes: Cells<u32>,
    pub(crate) postings: Postings,
    present: usize,
}

impl Words {
    /// A column of bools. Their names are their words.
    pub(super) fn with_bools() -> Self {
        let mut words = Self::default();
        words.dictionary.add("false");
        words.dictionary.add("true");
        words
    }

    /// Whether all words are names of bools.
    pub(super) fn has_bools(&self) -> bool {
        (1..=self.dictionary.largest() as u32)
            .all(|code| matches!(self.dictionary.text(code), "false" | "true"))
    }

    /// The code of a row's word, 0 for null.
    #[inline]
    pub(crate) fn get(&self, row: u32) -> u32 {
        self.codes.get(row)
    }

    /// The code of a value; 0 for null, and for a word that no row ever had.
    pub(crate) fn code(&self, value: &Value) -> u32 {
        word(value).and_then(|word| self.dictionary.code(word)).unwrap_or(u32::NONE)
    }

    pub(super) fn value(&self, row: u32, kind: ColumnKind) -> Value {
        match (self.get(row), kind) {
            (u32::NONE, _) => Value::Null,
            (code, ColumnKind::Bool) => Value::Bool(self.dictionary.text(code) == "true"),
            (code, _) => Value::from(self.dictionary.text(code)),
        }
    }

    pub(super) fn set(&mut self, rows: &[u32], values: &[Value], keys: &Keys) {
        let is_bulk = is_bulk(rows.len(), keys);
        for (&row, value) in rows.iter().zip(values) {
            let code = word(value).map_or(u32::NONE, |word| self.dictionary.add(word));
            if is_bulk {
                self.codes.set(row, code);
            } else if self.get(row) != code {
                self.unindex(row);
                self.codes.set(row, code);
                self.index(row);
            }
        }
        if is_bulk {
            self.index_all(keys);
        }
        let rows = keys.rows();
        self.dictionary.sweep(rows, (0..rows as u32).map(|row| self.codes.get(row)));
    }

    pub(super) fn index_all(&mut self, keys: &Keys) {
        let pairs = live(keys).map(|row| (self.get(row), row)).filter(|pair| pair.0 != u32::NONE);
        let present = pairs.clone().count();
        self.postings = Postings::new(self.dictionary.largest(), pairs);
        self.present = present;
    }

    pub(super) fn index(&mut self, row: u32) {
        if !self.is_null(row) {
            self.present += 1;
            self.postings.insert(self.get(row), row);
        }
    }

    pub(super) fn unindex(&mut self, row: u32) {
        if !self.is_null(row) {
            self.present -= 1;
            self.postings.remove(self.get(row), row);
        }
    }

    pub(super) fn clear(&mut self, row: u32) {
        if !self.is_null(row) {
            self.codes.set(row, u32::NONE);
        }
    }

    pub(super) fn is_null(&self, row: u32) -> bool {
        self.get(row) == u32::NONE
    }

    pub(crate) fn present(&self) -> usize {
        self.present
    }

    /// The words, and the codes of rows in as few bytes as these need: 1, 2 or 4.
    pub(super) fn encode(&self, bytes: &mut Vec<u8>, rows: usize) {
        let rows = || (0..rows as u32).map(|row| self.get(row));
        let codes = self.dictionary.encode(bytes, rows().filter(|&code| code != u32::NONE));
        let width = code_width(codes.iter().copied().max().unwrap_or(0) as usize);
        for code in rows() {
            bytes.extend_from_slice(&codes[code as usize].to_le_bytes()[..width]);
        }
    }

    pub(super) fn decode(reader: &mut Reader<'_>, keys: &Keys) -> Result<Self, DecodeError> {
        let dictionary = Dictionary::decode(reader)?;
        let width = code_width(dictionary.largest());
        let codes = reader.items(keys.rows(), width)?.chunks_exact(width).map(|bytes| {
            let mut code = [0; 4];
            code[..width].copy_from_slice(bytes);
            u32::from_le_bytes(code)
        });
        if codes.clone().any(|code| code as usize > dictionary.largest()) {
            return Err(reader.error("a row has a word that does not exist"));
        }
        let codes = codes.collect();
        let mut decoded = Self { dictionary, codes, ..Self::default() };
        decoded.index_all(keys);
        Ok(decoded)
    }

    pub(super) fn memory(&self) -> usize {
        self.dictionary.memory() + self.codes.memory() + self.postings.memory()
    }
}

/// Bytes of a code up to the largest.
fn code_width(largest: usize) -> usize {
    match largest {
        0..0x100 => 1,
        0x100..0x1_0000 => 2,
        _ => 4,
    }
}

fn word(value: &Value) -> Option<&str> {
    match value {
        Value::Bool(false) => Some("false"),
        Value::Bool(true) => Some("true"),
        Value::Keyword(word) => Some(word),
        _ => None,
    }
}
