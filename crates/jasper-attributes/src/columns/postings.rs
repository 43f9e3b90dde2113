//! The rows of each word.

use std::sync::Arc;

use crate::cow::{Parts, RowSet};

/// Words of a part.
const PART: usize = 32;

/// The indexed rows of each code.
#[derive(Clone, Debug, Default)]
pub(crate) struct Postings(Parts<Arc<[RowSet; PART]>>);

impl Postings {
    /// Those of pairs of code and row, by ascending rows. Codes are up to `most`; a pair may be repeated.
    pub(super) fn new(most: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut starts = vec![0_usize; most + 2];
        pairs.clone().for_each(|(code, _)| starts[code as usize + 1] += 1);
        for code in 0..=most {
            starts[code + 1] += starts[code];
        }
        let (mut ends, mut rows) = (starts.clone(), vec![0; starts[most + 1]]);
        for (code, row) in pairs {
            let (start, end) = (starts[code as usize], &mut ends[code as usize]);
            if *end == start || rows[*end - 1] != row {
                rows[*end] = row;
                *end += 1;
            }
        }
        let mut sets = (0..=most).map(|code| RowSet::from_sorted(&rows[starts[code]..ends[code]]));
        let parts =
            (0..most / PART + 1).map(|_| Arc::new(std::array::from_fn(|_| sets.next().unwrap_or_default())));
        Self(parts.collect())
    }

    /// The rows of a code, if there ever were some.
    pub(crate) fn get(&self, code: u32) -> Option<&RowSet> {
        self.0.get(code as usize / PART).map(|part| &part[code as usize % PART])
    }

    /// The codes and their rows, by ascending codes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &RowSet)> {
        (0..).zip(self.0.iter().flat_map(|part| part.iter()))
    }

    /// Number of rows of a code.
    pub(crate) fn count(&self, code: u32) -> usize {
        self.get(code).map_or(0, RowSet::len)
    }

    pub(super) fn insert(&mut self, code: u32, row: u32) {
        self.get_mut(code).insert(row);
    }

    pub(super) fn remove(&mut self, code: u32, row: u32) {
        self.get_mut(code).remove(row);
    }

    fn get_mut(&mut self, code: u32) -> &mut RowSet {
        &mut Arc::make_mut(self.0.get_mut(code as usize / PART))[code as usize % PART]
    }

    pub(super) fn memory(&self) -> usize {
        let of_part = |part: &Arc<[RowSet; PART]>| {
            size_of_val(&**part) + part.iter().map(RowSet::memory).sum::<usize>()
        };
        self.0.iter().map(of_part).sum()
    }
}
