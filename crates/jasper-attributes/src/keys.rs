//! The row of each key.

use jasper_core::{Key, NO_KEY};

use crate::DecodeError;
use crate::bytes::Reader;
use crate::cow::{Bits, Cells, HashIndex, RowSet, mix, unmix};

/// Numbers keys by rows, which are dense and reused.
///
/// Keys are mostly the indices of vectors. So a key has the row of its own number where that is free or comes next, and is
/// found by a bit. Only other keys need an entry in a hash index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    /// The live key of each row.
    of_rows: Cells<u64>,
    /// The rows whose live key is their number. The bits of millions stay in caches.
    own: Bits,
    /// Rows of live keys that are not their number. Keys are mixed, which tells all of them apart.
    others: HashIndex,
    /// Rows of removed keys.
    removed: HashIndex,
    /// Rows without a key.
    free: RowSet,
    rows: usize,
    len: usize,
}

impl Keys {
    /// Number of live keys.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Number of rows, with those of removed keys and of none.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The row of a live key.
    #[inline]
    pub(crate) fn find(&self, key: Key) -> Option<u32> {
        if key < self.rows as u64 && self.own.get(key as u32) {
            return Some(key as u32);
        }
        if self.others.len() == 0 { None } else { self.others.find(mix(key), |_| true) }
    }

    /// The row of a removed key.
    pub(crate) fn find_removed(&self, key: Key) -> Option<u32> {
        self.removed.find(mix(key), |_| true)
    }

    /// The live key of a row, or [`NO_KEY`].
    #[inline]
    pub(crate) fn key(&self, row: u32) -> Key {
        if self.own.get(row) { row.into() } else { self.of_rows.get(row) }
    }

    /// The rows of live keys, ascending, and these.
    pub(crate) fn live(&self) -> impl Iterator<Item = (u32, Key)> + Clone {
        (0..self.rows as u32).map(|row| (row, self.key(row))).filter(|&(_, key)| key != NO_KEY)
    }

    /// The rows that have no key.
    pub(crate) fn free(&self) -> impl Iterator<Item = u32> {
        self.free.iter()
    }

    /// Adds a key that is neither live nor removed.
    pub(crate) fn add(&mut self, key: Key) {
        let row = self.free_row(key);
        assert!(row < u32::MAX, "there are fewer than 4 billion rows");
        if (row as usize) < self.rows {
            self.free.remove(row);
        } else {
            for between in self.rows as u32..row {
                self.free.insert(between);
            }
            self.rows = row as usize + 1;
        }
        self.make_live(key, row);
    }

    /// A row for a key: that of its number, if it is free, or if it comes so soon that few rows are left out.
    fn free_row(&self, key: Key) -> u32 {
        let rows = self.rows as u64;
        if let Ok(row) = u32::try_from(key) {
            let gap = key.saturating_sub(rows);
            let is_near = key >= rows && gap <= 1024 && self.free.len() as u64 + gap <= 64 + rows / 8;
            if is_near || self.free.contains(row) {
                return row;
            }
        }
        self.free.iter().next().unwrap_or(self.rows as u32)
    }

    fn make_live(&mut self, key: Key, row: u32) {
        self.of_rows.set(row, key);
        if u64::from(row) == key {
            self.own.set(row, true);
        } else {
            self.others.insert(mix(key), row);
        }
        self.len += 1;
    }

    /// Removes a live key; returns its row.
    pub(crate) fn remove(&mut self, key: Key) -> Option<u32> {
        let row = self.find(key)?;
        self.of_rows.set(row, NO_KEY);
        if u64::from(row) == key {
            self.own.set(row, false);
        } else {
            self.others.remove(mix(key), row);
        }
        self.removed.insert(mix(key), row);
        self.len -= 1;
        Some(row)
    }

    /// Makes a removed key live.
    pub(crate) fn restore(&mut self, key: Key, row: u32) {
        self.removed.remove(mix(key), row);
        self.make_live(key, row);
    }

    /// Frees the row of a removed key; returns it.
    pub(crate) fn forget(&mut self, key: Key) -> Option<u32> {
        let row = self.find_removed(key)?;
        self.removed.remove(mix(key), row);
        self.free.insert(row);
        Some(row)
    }

    /// The number of rows and their live keys, and the number of removed keys, these and their rows.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend((self.rows as u64).to_le_bytes());
        self.of_rows.encode(bytes, self.rows);
        bytes.extend((self.removed.len() as u64).to_le_bytes());
        let mut removed: Vec<(u32, Key)> =
            self.removed.iter().map(|(hash, row)| (row, unmix(hash))).collect();
        removed.sort_unstable();
        for (row, key) in removed {
            bytes.extend(key.to_le_bytes());
            bytes.extend(row.to_le_bytes());
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let rows = reader.len()?;
        let of_rows = reader.items(rows, 8)?.chunks_exact(8);
        let of_rows = of_rows.map(|bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes")));
        if rows >= u32::MAX as usize {
            return Err(reader.error("there are too many rows"));
        }
        let mut keys = Self { of_rows: of_rows.collect(), rows, ..Self::default() };
        let mut others = Vec::new();
        for row in 0..rows as u32 {
            let key = keys.key(row);
            match key {
                NO_KEY => continue,
                _ if key == u64::from(row) => keys.own.set(row, true),
                _ => others.push((mix(key), row)),
            }
            keys.len += 1;
        }
        let distinct = |entries: Vec<(u64, u32)>, reader: &Reader<'_>| {
            HashIndex::distinct(entries, |_, _| true).ok_or_else(|| reader.error("a key has two rows"))
        };
        keys.others = distinct(others, reader)?;
        let removed = reader.len()?;
        let removed = reader.items(removed, 12)?.chunks_exact(12).map(|bytes| {
            let (key, row) = bytes.split_at(8);
            let key = u64::from_le_bytes(key.try_into().expect("8 bytes"));
            (mix(key), u32::from_le_bytes(row.try_into().expect("4 bytes")))
        });
        keys.removed = distinct(removed.collect(), reader)?;
        let mut is_free = vec![true; rows];
        keys.live().for_each(|(row, _)| is_free[row as usize] = false);
        for (hash, row) in keys.removed.iter() {
            let key = unmix(hash);
            if is_free.get(row as usize) != Some(&true) || keys.find(key).is_some() || key == NO_KEY {
                return Err(reader.error("a removed key is wrong"));
            }
            is_free[row as usize] = false;
        }
        let has_own = |key: Key| key < rows as u64 && keys.own.get(key as u32);
        if keys.others.iter().any(|(hash, _)| has_own(unmix(hash))) {
            return Err(reader.error("a key has two rows"));
        }
        let free: Vec<u32> = (0..).zip(is_free).filter(|(_, is_free)| *is_free).map(|(row, _)| row).collect();
        keys.free = RowSet::from_sorted(&free);
        Ok(keys)
    }

    pub(crate) fn memory(&self) -> usize {
        self.of_rows.memory() + self.others.memory() + self.removed.memory() + self.free.memory()
    }
}
