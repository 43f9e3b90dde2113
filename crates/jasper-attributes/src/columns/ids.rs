//! The column of ids.

use super::{is_bulk, live, tags};
use crate::bytes::Reader;
use crate::cow::{HashIndex, Lists, hash_text};
use crate::keys::Keys;
use crate::{DecodeError, Value};

/// A string per row. Those of indexed rows are distinct.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ids {
    texts: Lists<u8>,
    rows: HashIndex,
}

impl Ids {
    #[inline]
    pub(crate) fn get(&self, row: u32) -> Option<&str> {
        self.texts.get(row).map(|text| str::from_utf8(text).expect("ids are UTF-8"))
    }

    /// The indexed row with an id.
    pub(crate) fn row(&self, id: &str) -> Option<u32> {
        self.rows.find(hash_text(id), |row| self.texts.get(row) == Some(id.as_bytes()))
    }

    pub(super) fn set(&mut self, rows: &[u32], values: &[Value], keys: &Keys) {
        let is_bulk = is_bulk(rows.len(), keys);
        // First, so that rows may exchange their ids.
        if !is_bulk {
            rows.iter().for_each(|&row| self.unindex(row));
        }
        for (&row, value) in rows.iter().zip(values) {
            let id = if let Value::Keyword(id) = value { Some(id.as_bytes()) } else { None };
            if self.texts.get(row) != id {
                self.texts.set(row, id);
            }
            if !is_bulk {
                self.index(row);
            }
        }
        if is_bulk {
            self.index_all(keys);
        }
    }

    pub(super) fn index_all(&mut self, keys: &Keys) {
        self.rows = live(keys).filter_map(|row| Some((hash_text(self.get(row)?), row))).collect();
    }

    pub(super) fn index(&mut self, row: u32) {
        if let Some(id) = self.get(row) {
            self.rows.insert(hash_text(id), row);
        }
    }

    pub(super) fn unindex(&mut self, row: u32) {
        if let Some(id) = self.get(row) {
            self.rows.remove(hash_text(id), row);
        }
    }

    pub(super) fn clear(&mut self, row: u32) {
        if !self.is_null(row) {
            self.texts.set(row, None);
        }
    }

    pub(super) fn is_null(&self, row: u32) -> bool {
        self.texts.get(row).is_none()
    }

    pub(super) fn present(&self) -> usize {
        self.rows.len()
    }

    /// The length of each id plus one or 0 for null, and the bytes of all.
    pub(super) fn encode(&self, bytes: &mut Vec<u8>, rows: usize) {
        let rows = 0..rows as u32;
        for row in rows.clone() {
            let len = self.texts.get(row).map_or(0, |id| id.len() as u32 + 1);
            bytes.extend(len.to_le_bytes());
        }
        rows.filter_map(|row| self.texts.get(row)).for_each(|id| bytes.extend_from_slice(id));
    }

    pub(super) fn decode(reader: &mut Reader<'_>, keys: &Keys) -> Result<Self, DecodeError> {
        let (lens, total) = tags::lens(reader, keys.rows())?;
        let Ok(text) = str::from_utf8(reader.take(total)?) else {
            return Err(reader.error("ids are not UTF-8"));
        };
        let (mut rest, mut is_split) = (text.as_bytes(), false);
        let mut start = 0;
        for len in lens.clone().flatten() {
            start += len;
            is_split |= !text.is_char_boundary(start);
        }
        if is_split {
            return Err(reader.error("an id is not UTF-8"));
        }
        let texts =
            Lists::collect(lens.map(|len| Some(rest.split_off(..len?).expect("checked by their sum"))));
        let mut decoded = Self { texts, rows: HashIndex::default() };
        let entries = live(keys).filter_map(|row| Some((hash_text(decoded.get(row)?), row)));
        decoded.rows = HashIndex::distinct(entries, |a, b| decoded.texts.get(a) == decoded.texts.get(b))
            .ok_or_else(|| reader.error("two keys have the same id"))?;
        Ok(decoded)
    }

    pub(super) fn memory(&self) -> usize {
        self.texts.memory() + self.rows.memory()
    }
}
