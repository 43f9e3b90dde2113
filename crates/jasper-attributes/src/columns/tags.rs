//! Columns of lists of words.

use super::{Dictionary, Postings, is_bulk, live};
use crate::bytes::Reader;
use crate::cow::Lists;
use crate::keys::Keys;
use crate::value::MAX_LEN;
use crate::{DecodeError, Value};

/// A list of words per row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tags {
    pub(crate) dictionary: Dictionary,
    lists: Lists<u32>,
    pub(crate) postings: Postings,
    present: usize,
}

impl Tags {
    /// The codes of a row's words, in their order; none for null.
    #[inline]
    pub(crate) fn get(&self, row: u32) -> Option<&[u32]> {
        self.lists.get(row)
    }

    pub(super) fn value(&self, row: u32) -> Value {
        let words =
            |codes: &[u32]| codes.iter().map(|&code| self.dictionary.text(code).to_string()).collect();
        self.get(row).map_or(Value::Null, |codes| Value::Keywords(words(codes)))
    }

    pub(super) fn set(&mut self, rows: &[u32], values: &[Value], keys: &Keys) {
        let is_bulk = is_bulk(rows.len(), keys);
        for (&row, value) in rows.iter().zip(values) {
            let codes: Option<Vec<u32>> = match value {
                Value::Keywords(words) => Some(words.iter().map(|word| self.dictionary.add(word)).collect()),
                _ => None,
            };
            if is_bulk {
                self.lists.set(row, codes.as_deref());
            } else if self.get(row) != codes.as_deref() {
                self.unindex(row);
                self.lists.set(row, codes.as_deref());
                self.index(row);
            }
        }
        if is_bulk {
            self.index_all(keys);
        }
        let rows = keys.rows();
        self.dictionary
            .sweep(rows, (0..rows as u32).filter_map(|row| self.lists.get(row)).flatten().copied());
    }

    pub(super) fn index_all(&mut self, keys: &Keys) {
        let lists = live(keys).filter_map(|row| Some((row, self.get(row)?)));
        let present = lists.clone().count();
        let pairs = lists.flat_map(|(row, codes)| codes.iter().map(move |&code| (code, row)));
        self.postings = Postings::new(self.dictionary.largest(), pairs);
        self.present = present;
    }

    pub(super) fn index(&mut self, row: u32) {
        if let Some(codes) = self.lists.get(row) {
            self.present += 1;
            codes.iter().for_each(|&code| self.postings.insert(code, row));
        }
    }

    pub(super) fn unindex(&mut self, row: u32) {
        if let Some(codes) = self.lists.get(row) {
            self.present -= 1;
            codes.iter().for_each(|&code| self.postings.remove(code, row));
        }
    }

    pub(super) fn clear(&mut self, row: u32) {
        if !self.is_null(row) {
            self.lists.set(row, None);
        }
    }

    pub(super) fn is_null(&self, row: u32) -> bool {
        self.get(row).is_none()
    }

    pub(super) fn present(&self) -> usize {
        self.present
    }

    /// The words, the length of each list plus one or 0 for null, and the codes of all lists.
    pub(super) fn encode(&self, bytes: &mut Vec<u8>, rows: usize) {
        let rows = 0..rows as u32;
        let all = || rows.clone().filter_map(|row| self.get(row)).flatten();
        let codes = self.dictionary.encode(bytes, all().copied());
        for row in rows.clone() {
            let len = self.get(row).map_or(0, |codes| codes.len() as u32 + 1);
            bytes.extend(len.to_le_bytes());
        }
        all().for_each(|&code| bytes.extend(codes[code as usize].to_le_bytes()));
    }

    pub(super) fn decode(reader: &mut Reader<'_>, keys: &Keys) -> Result<Self, DecodeError> {
        let dictionary = Dictionary::decode(reader)?;
        let (lens, total) = lens(reader, keys.rows())?;
        let codes = reader.items(total, 4)?.chunks_exact(4);
        let codes: Vec<u32> =
            codes.map(|bytes| u32::from_le_bytes(bytes.try_into().expect("4 bytes"))).collect();
        if codes.iter().any(|&code| code == 0 || code as usize > dictionary.largest()) {
            return Err(reader.error("a list has a word that does not exist"));
        }
        let mut rest = codes.as_slice();
        let lists = lens.map(|len| Some(rest.split_off(..len?).expect("checked by their sum")));
        let lists = Lists::collect(lists);
        let mut decoded = Self { dictionary, lists, ..Self::default() };
        decoded.index_all(keys);
        Ok(decoded)
    }

    pub(super) fn memory(&self) -> usize {
        self.dictionary.memory() + self.lists.memory() + self.postings.memory()
    }
}

/// The lengths of the lists of rows, and their sum.
pub(super) fn lens<'a>(
    reader: &mut Reader<'a>,
    rows: usize,
) -> Result<(impl Iterator<Item = Option<usize>> + Clone + use<'a>, usize), DecodeError> {
    let lens = reader.items(rows, 4)?.chunks_exact(4);
    let lens = lens.map(|bytes| u32::from_le_bytes(bytes.try_into().expect("4 bytes")).checked_sub(1));
    let lens = lens.map(|len| len.map(|len| len as usize));
    if lens.clone().flatten().any(|len| len > MAX_LEN) {
        return Err(reader.error("a list is too long"));
    }
    Ok((lens.clone(), lens.flatten().sum()))
}
