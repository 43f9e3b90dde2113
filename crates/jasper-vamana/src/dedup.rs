//! Finds identical vectors, in parallel and with a result that does not depend on the timing of threads.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// A hash table from the content of a vector to the first vector that has it, for a known number of vectors.
///
/// Open addressing with linear probing in one array. Entries are never removed, so identical vectors end at the same
/// entry, which keeps the first of them.
pub(crate) struct DedupTable {
    /// Each is 0, or the [`entry`] of a first vector.
    entries: Vec<AtomicU64>,
}

/// Bits of an entry for the index of a vector, counted from 1.
const VECTOR_BITS: u32 = 40;
const VECTOR_MASK: u64 = (1 << VECTOR_BITS) - 1;

/// An entry: the index of a vector in the low bits, and above it the low bits of its hash. The position in the table
/// depends on the other bits of the hash.
fn entry(hash: u64, vector: usize) -> u64 {
    hash << VECTOR_BITS | (vector as u64 + 1)
}

/// The number of entries for `vectors`. A third stay empty, so that about five are probed for the last vectors.
const fn capacity(vectors: usize) -> usize {
    vectors + vectors / 2 + 1
}

impl DedupTable {
    /// Bytes of the table for `vectors`.
    pub(crate) const fn bytes(vectors: usize) -> usize {
        capacity(vectors) * size_of::<AtomicU64>()
    }

    /// A table for the vectors 0 to `vectors` - 1.
    pub(crate) fn new(vectors: usize) -> Self {
        assert!((vectors as u64) < VECTOR_MASK, "vectors are counted with {VECTOR_BITS} bits");
        // The operating system zeroes each page when it is first written to, by many threads.
        Self { entries: bytemuck::zeroed_vec(capacity(vectors)) }
    }

    /// Inserts a vector; returns the index of its entry. `is_same` compares it with a vector that was inserted before,
    /// or is being inserted by another thread.
    pub(crate) fn insert(&self, hash: u64, vector: usize, is_same: impl Fn(usize) -> bool) -> usize {
        let own = entry(hash, vector);
        let mut index = ((u128::from(hash) * self.entries.len() as u128) >> 64) as usize;
        loop {
            // Relaxed: the content of all vectors was written before the threads began.
            let found = match self.entries[index].load(Relaxed) {
                0 => self.entries[index].compare_exchange(0, own, Relaxed, Relaxed).unwrap_or_else(|now| now),
                found => found,
            };
            if found == 0 {
                return index;
            }
            if found >> VECTOR_BITS == own >> VECTOR_BITS && is_same((found & VECTOR_MASK) as usize - 1) {
                self.entries[index].fetch_min(own, Relaxed);
                return index;
            }
            index = (index + 1) % self.entries.len();
        }
    }

    /// The first of the vectors that were inserted at this entry.
    pub(crate) fn first(&self, index: usize) -> usize {
        (self.entries[index].load(Relaxed) & VECTOR_MASK) as usize - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rayon::prelude::*;

    proptest! {
        /// There are few contents and even fewer hashes, so that vectors collide at every entry, in any order of the
        /// threads.
        #[test]
        fn the_first_of_identical_vectors_is_found(contents in prop::collection::vec(0_u8..40, 1..400), hashes in 1_u64..9) {
            let table = DedupTable::new(contents.len());
            let hash = |row: usize| (u64::from(contents[row]) % hashes).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let half = contents.len() / 2;
            let mut places = Vec::new();
            for rows in [0..half, half..contents.len()] {
                let insert = |row| table.insert(hash(row), row, |other| contents[other] == contents[row]);
                places.par_extend(rows.into_par_iter().map(insert));
                for (row, &place) in places.iter().enumerate() {
                    let first = contents.iter().position(|content| *content == contents[row]);
                    prop_assert_eq!(Some(table.first(place)), first);
                }
            }
        }
    }
}
