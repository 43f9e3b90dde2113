//! Finds duplicates of earlier vectors, in parallel and deterministically.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rayon::prelude::*;

/// A table from content to the first row that has it, of a known number of rows.
///
/// Open addressing in one array: a row looks from the place of its hash onwards for its content or an empty entry, and
/// entries are never emptied, so that equal rows end at the same entry. It keeps the least number of them.
pub(crate) struct FirstRows {
    /// 0, or what [`entry`] makes of the first row.
    entries: Vec<AtomicU64>,
}

/// Bits of an entry for the number of a row, which is counted from 1.
const ROW_BITS: u32 = 40;
const ROWS: u64 = (1 << ROW_BITS) - 1;

/// The number of a row, behind bits of its hash that the place does not tell.
fn entry(hash: u64, row: usize) -> u64 {
    hash << ROW_BITS | (row as u64 + 1)
}

/// Entries for so many rows. A third stay empty, so that five are looked at when the last rows come.
const fn capacity(rows: usize) -> usize {
    rows + rows / 2 + 1
}

impl FirstRows {
    /// Bytes of the table for so many rows.
    pub(crate) const fn bytes(rows: usize) -> usize {
        capacity(rows) * size_of::<AtomicU64>()
    }

    /// A table for rows with numbers below `rows`. Runs on the threads of the pool that this is called in.
    pub(crate) fn new(rows: usize) -> Self {
        assert!((rows as u64) < ROWS, "so many rows fit no memory");
        Self { entries: (0..capacity(rows)).into_par_iter().map(|_| AtomicU64::new(0)).collect() }
    }

    /// Enters a row, and gives its place in the table. `is_same` tells whether an earlier one, or one entered at the
    /// same time, has its content.
    pub(crate) fn enter(&self, hash: u64, row: usize, is_same: impl Fn(usize) -> bool) -> usize {
        let own = entry(hash, row);
        let mut place = ((u128::from(hash) * self.entries.len() as u128) >> 64) as usize;
        loop {
            // Entries are numbers and nothing else: what they name was written before the threads began.
            let found = self.entries[place].load(Relaxed);
            let found = match found {
                0 => self.entries[place].compare_exchange(0, own, Relaxed, Relaxed).unwrap_or_else(|now| now),
                _ => found,
            };
            if found == 0 {
                return place;
            }
            if found >> ROW_BITS == own >> ROW_BITS && is_same((found & ROWS) as usize - 1) {
                self.entries[place].fetch_min(own, Relaxed);
                return place;
            }
            place = (place + 1) % self.entries.len();
        }
    }

    /// The first of the rows that were entered at this place.
    pub(crate) fn first(&self, place: usize) -> usize {
        (self.entries[place].load(Relaxed) & ROWS) as usize - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Few contents and fewer hashes: rows meet at every place, and in any order of the threads.
        #[test]
        fn the_first_of_equal_rows_is_found(contents in prop::collection::vec(0_u8..40, 1..400), hashes in 1_u64..9) {
            let table = FirstRows::new(contents.len());
            let hash = |row: usize| (u64::from(contents[row]) % hashes).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let half = contents.len() / 2;
            let mut places = Vec::new();
            for rows in [0..half, half..contents.len()] {
                let enter = |row| table.enter(hash(row), row, |other| contents[other] == contents[row]);
                places.par_extend(rows.into_par_iter().map(enter));
                for (row, &place) in places.iter().enumerate() {
                    let first = contents.iter().position(|content| *content == contents[row]);
                    prop_assert_eq!(Some(table.first(place)), first);
                }
            }
        }
    }
}
