//! Sources of vectors for several backends: all of the caller's vectors, or those of a shard.

use std::ops::Range;
use std::{io, iter};

use jasper_core::{ConcurrentVectors, Element, Key, VectorBuffer, VectorSource, Vectors};
use jasper_data::parallel;
use jasper_vamana::UpdateError;

use super::sharded::shard_of;
use crate::index::update_error;

/// The rows of each shard, in ascending order: those whose keys hash to it. Their numbers are not stored, which would
/// take 8 bytes each. They are computed from the keys whenever rows are read: each shard then hashes all keys, about a
/// nanosecond each.
pub(crate) struct RowsByShard<'a> {
    /// The key of each row, or `None` if it is the number of the row.
    keys: Option<&'a [Key]>,
    len: usize,
    chunk_len: usize,
    /// For each shard, how many of its rows come before each chunk of `chunk_len` rows, and how many it has.
    before: Vec<Vec<usize>>,
}

/// Rows that a shard has in a chunk, approximately.
const ROWS_PER_CHUNK: usize = 1024;

impl<'a> RowsByShard<'a> {
    /// Counts the rows of `len` that each shard has. Runs in the current rayon pool.
    pub(crate) fn new(keys: Option<&'a [Key]>, len: usize, shards: usize) -> Self {
        let mut rows = Self { keys, len, chunk_len: ROWS_PER_CHUNK * shards, before: Vec::new() };
        let count = |chunk: usize| {
            let mut counts = vec![0; shards];
            rows.rows_of(chunk).for_each(|row| counts[shard_of(rows.key(row), shards)] += 1);
            counts
        };
        let counts: Vec<Vec<usize>> = parallel::map(0..len.div_ceil(rows.chunk_len), count);
        let before = |shard: usize| {
            let mut sum = 0;
            let ends = counts.iter().map(|counts| {
                sum += counts[shard];
                sum
            });
            iter::once(0).chain(ends).collect()
        };
        rows.before = (0..shards).map(before).collect();
        rows
    }

    fn key(&self, row: usize) -> Key {
        self.keys.map_or(row as Key, |keys| keys[row])
    }

    fn rows_of(&self, chunk: usize) -> Range<usize> {
        chunk * self.chunk_len..self.len.min((chunk + 1) * self.chunk_len)
    }

    /// Number of rows of a shard.
    pub(crate) fn len(&self, shard: usize) -> usize {
        *self.before[shard].last().expect("the number of rows is the last")
    }

    /// Those rows of a shard whose number among all of its rows is at least `first`.
    pub(crate) fn rows_from(&self, shard: usize, first: usize) -> impl Iterator<Item = usize> {
        let (before, shards) = (&self.before[shard], self.before.len());
        let chunk = before.partition_point(|&before| before <= first) - 1;
        let rows = chunk * self.chunk_len..self.len;
        rows.filter(move |&row| shard_of(self.key(row), shards) == shard).skip(first - before[chunk])
    }

    /// The keys of a shard. Runs in the current rayon pool.
    pub(crate) fn keys(&self, shard: usize) -> Vec<Key> {
        let mut keys = vec![0; self.len(shard)];
        parallel::for_each(keys.chunks_mut(ROWS_PER_CHUNK).enumerate(), |(chunk, keys)| {
            let rows = self.rows_from(shard, chunk * ROWS_PER_CHUNK);
            keys.iter_mut().zip(rows).for_each(|(key, row)| *key = self.key(row));
        });
        keys
    }
}

/// Vectors in memory, which are read into `buffer` unless they are there: whatever becomes of their source, all who are
/// given them insert the same.
pub(crate) fn in_memory<'a>(
    vectors: Vectors<'a>,
    buffer: &'a mut Option<VectorBuffer>,
) -> Result<ConcurrentVectors<'a>, UpdateError> {
    let vectors = if vectors.is_in_memory() {
        vectors
    } else {
        buffer.insert(VectorBuffer::read(vectors, vectors.element()).map_err(update_error)?).vectors()
    };
    Ok(vectors.concurrent().expect("memory can be read by several threads"))
}

/// The vectors of a shard.
pub(crate) struct ShardVectors<'a, 'v> {
    all: &'a ConcurrentVectors<'v>,
    rows: &'a RowsByShard<'a>,
    shard: usize,
}

impl<'a, 'v> ShardVectors<'a, 'v> {
    pub(crate) fn new(all: &'a ConcurrentVectors<'v>, rows: &'a RowsByShard<'a>, shard: usize) -> Self {
        Self { all, rows, shard }
    }

    /// The row in the source of a vector of the shard, for errors.
    pub(crate) fn row_in_source(&self, row: usize) -> usize {
        self.rows.rows_from(self.shard, row).next().expect("the shard has this vector")
    }
}

impl<T: Element> VectorSource<T> for ShardVectors<'_, '_> {
    fn len(&self) -> usize {
        self.rows.len(self.shard)
    }

    fn dimension(&self) -> usize {
        (self.all)().dimension()
    }

    fn read(&self, range: Range<usize>, out: &mut [T]) -> io::Result<()> {
        let rows: Vec<usize> = self.rows.rows_from(self.shard, range.start).take(range.len()).collect();
        (self.all)().with_source(|source| source.gather(&rows, out)).map_err(io::Error::other)?
    }

    fn concurrent(&self) -> Option<&(dyn VectorSource<T> + Sync)> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_again() {
        let keys: Vec<Key> = (0..9000).map(|row| row * row % 100_003).collect();
        for (keys, len) in [(None, 0), (None, 1), (None, 9000), (Some(&keys[..]), 9000)] {
            for shards in [1, 2, 3, 256] {
                let rows = RowsByShard::new(keys, len, shards);
                let key = |row: usize| keys.map_or(row as Key, |keys| keys[row]);
                for shard in 0..shards {
                    let expected: Vec<usize> =
                        (0..len).filter(|&row| shard_of(key(row), shards) == shard).collect();
                    assert_eq!(rows.len(shard), expected.len());
                    assert!(rows.keys(shard).into_iter().eq(expected.iter().map(|&row| key(row))));
                    for first in (0..expected.len()).step_by(97) {
                        assert!(
                            rows.rows_from(shard, first)
                                .take(300)
                                .eq(expected[first..].iter().copied().take(300))
                        );
                    }
                }
            }
        }
    }
}
