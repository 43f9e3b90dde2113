//! Maps tags to rows of the base.

use std::ops::Range;

use crate::Operation;

/// Rows by tag.
pub(super) struct TagRows {
    /// The row of each tag; [`Self::NONE`] if the tag is not in the index.
    rows: Vec<u32>,
    len: usize,
}

impl TagRows {
    const NONE: u32 = u32::MAX;

    /// An empty map, for tags below `end`.
    pub(super) fn below(end: usize) -> Self {
        Self { rows: vec![Self::NONE; end], len: 0 }
    }

    /// Applies a step of a checked runbook.
    pub(super) fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Insert(ids) => self.set(ids, ids.clone()),
            Operation::Replace { tags, ids } => self.set(tags, ids.clone()),
            Operation::Delete(tags) => {
                self.rows[span(tags)].fill(Self::NONE);
                self.len -= tags.len();
            }
            Operation::Search => {}
        }
    }

    fn set(&mut self, tags: &Range<u32>, ids: Range<u32>) {
        for (row, id) in self.rows[span(tags)].iter_mut().zip(ids) {
            self.len += usize::from(*row == Self::NONE);
            *row = id;
        }
    }

    /// Number of tags in the index.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether a tag is in the index.
    pub(super) fn contains(&self, tag: u32) -> bool {
        self.rows.get(tag as usize).is_some_and(|&row| row != Self::NONE)
    }

    /// Tags in the index with their rows, by tag.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (0..).zip(self.rows.iter().copied()).filter(|&(_, row)| row != Self::NONE)
    }
}

fn span(tags: &Range<u32>) -> Range<usize> {
    tags.start as usize..tags.end as usize
}
