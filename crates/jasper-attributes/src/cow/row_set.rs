//! Sets of rows.

use std::sync::Arc;

use roaring::RoaringBitmap;

/// Rows of a set that is a list. Most words of a column such as authors are in few rows.
const FEW: usize = 64;

/// A set of rows: the rows that have a word.
#[derive(Clone, Debug)]
pub(crate) enum RowSet {
    /// Ascending, [`FEW`] at most.
    Few(Arc<[u32]>),
    /// Those of 65,536 consecutive rows each, ascending and none empty.
    Many(Arc<[Block]>, usize),
}

/// The rows of a set that have the same high bits.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    high: u32,
    /// The low bits. 8 KB at most, which is what a change copies.
    low: Arc<RoaringBitmap>,
}

impl Block {
    fn new(high: u32, low: RoaringBitmap) -> Self {
        Self { high, low: Arc::new(low) }
    }
}

fn split(row: u32) -> (u32, u32) {
    (row >> 16, row & 0xffff)
}

impl Default for RowSet {
    fn default() -> Self {
        Self::Few(Arc::default())
    }
}

impl RowSet {
    /// The set of ascending rows.
    pub(crate) fn from_sorted(rows: &[u32]) -> Self {
        if rows.len() <= FEW {
            return Self::Few(rows.into());
        }
        let blocks = rows.chunk_by(|a, b| a >> 16 == b >> 16).map(|rows| {
            let low = RoaringBitmap::from_sorted_iter(rows.iter().map(|row| row & 0xffff));
            Block::new(rows[0] >> 16, low.expect("rows ascend"))
        });
        Self::Many(blocks.collect(), rows.len())
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Few(rows) => rows.len(),
            Self::Many(_, len) => *len,
        }
    }

    pub(crate) fn contains(&self, row: u32) -> bool {
        match self {
            Self::Few(rows) => rows.binary_search(&row).is_ok(),
            Self::Many(blocks, _) => {
                let (high, low) = split(row);
                let index = blocks.binary_search_by_key(&high, |block| block.high);
                index.is_ok_and(|index| blocks[index].low.contains(low))
            }
        }
    }

    /// Adds a row; returns whether it was absent.
    pub(crate) fn insert(&mut self, row: u32) -> bool {
        match self {
            Self::Few(rows) => {
                let Err(position) = rows.binary_search(&row) else { return false };
                let (before, after) = rows.split_at(position);
                let new: Vec<u32> =
                    before.iter().copied().chain([row]).chain(after.iter().copied()).collect();
                *self = Self::from_sorted(&new);
                true
            }
            Self::Many(blocks, len) => {
                let (high, low) = split(row);
                let is_new = match blocks.binary_search_by_key(&high, |block| block.high) {
                    Ok(index) if blocks[index].low.contains(low) => false,
                    Ok(index) => Arc::make_mut(&mut Arc::make_mut(blocks)[index].low).insert(low),
                    Err(index) => {
                        let new = Block::new(high, RoaringBitmap::from_iter([low]));
                        let (before, after) = blocks.split_at(index);
                        *blocks = before.iter().cloned().chain([new]).chain(after.iter().cloned()).collect();
                        true
                    }
                };
                *len += usize::from(is_new);
                is_new
            }
        }
    }

    /// Removes a row; returns whether it was present.
    pub(crate) fn remove(&mut self, row: u32) -> bool {
        match self {
            Self::Few(rows) => {
                let Ok(position) = rows.binary_search(&row) else { return false };
                *rows = rows[..position].iter().chain(&rows[position + 1..]).copied().collect();
            }
            Self::Many(blocks, len) => {
                let (high, low) = split(row);
                let Ok(index) = blocks.binary_search_by_key(&high, |block| block.high) else { return false };
                if !blocks[index].low.contains(low) {
                    return false;
                }
                *len -= 1;
                if blocks[index].low.len() == 1 {
                    *blocks = blocks[..index].iter().chain(&blocks[index + 1..]).cloned().collect();
                } else {
                    Arc::make_mut(&mut Arc::make_mut(blocks)[index].low).remove(low);
                }
                // Half, so that a set near the limit does not go to and fro.
                if *len <= FEW / 2 {
                    *self = Self::from_sorted(&self.iter().collect::<Vec<_>>());
                }
            }
        }
        true
    }

    /// The rows, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        let (few, many): (&[u32], &[Block]) = match self {
            Self::Few(rows) => (rows, &[]),
            Self::Many(blocks, _) => (&[], blocks),
        };
        let many = many.iter().flat_map(|block| block.low.iter().map(|low| block.high << 16 | low));
        few.iter().copied().chain(many)
    }

    /// The rows of both sets, ascending. Takes less time than to test those of the smaller set.
    pub(crate) fn common<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = u32> + use<'a> {
        let (few, blocks) = self.pairs(other);
        let many = blocks.flat_map(|(ours, theirs)| {
            let high = ours.high << 16;
            (&*ours.low & &*theirs.low).into_iter().map(move |low| high | low)
        });
        few.chain(many)
    }

    /// Number of rows of both sets.
    pub(crate) fn common_len(&self, other: &Self) -> usize {
        let (few, blocks) = self.pairs(other);
        few.count()
            + blocks.map(|(ours, theirs)| ours.low.intersection_len(&theirs.low) as usize).sum::<usize>()
    }

    /// Common rows if one of the sets is a list, and the blocks that both have if not.
    fn pairs<'a>(
        &'a self,
        other: &'a Self,
    ) -> (impl Iterator<Item = u32> + use<'a>, impl Iterator<Item = (&'a Block, &'a Block)> + use<'a>) {
        let (few, in_set, ours, theirs): (&[u32], &Self, &[Block], &[Block]) = match (self, other) {
            (Self::Few(rows), _) => (rows, other, &[], &[]),
            (_, Self::Few(rows)) => (rows, self, &[], &[]),
            (Self::Many(ours, _), Self::Many(theirs, _)) => (&[], self, ours, theirs),
        };
        let few = few.iter().copied().filter(|&row| in_set.contains(row));
        let blocks = ours.iter().filter_map(|block| {
            let index = theirs.binary_search_by_key(&block.high, |other| other.high).ok()?;
            Some((block, &theirs[index]))
        });
        (few, blocks)
    }

    /// Bytes beyond the set itself.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Self::Few(rows) if rows.is_empty() => 0,
            Self::Few(rows) => 16 + 4 * rows.len(),
            // An array of two bytes a row, or a bitmap.
            Self::Many(blocks, _) => {
                blocks.iter().map(|block| 100 + (2 * block.low.len() as usize).min(8192)).sum()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_set_and_its_clones_behave_like_sets(
            start in proptest::collection::btree_set(0..200_000_u32, 0..200),
            steps in proptest::collection::vec((0..9, 0..300_u32), 0..300),
        ) {
            let mut ours = RowSet::from_sorted(&start.iter().copied().collect::<Vec<_>>());
            let (mut model, mut clones) = (start, Vec::new());
            for (what, row) in steps {
                let row = row * 700;
                match what {
                    0 => clones.push((ours.clone(), model.clone())),
                    1..5 => prop_assert_eq!(ours.insert(row), model.insert(row)),
                    5..7 => prop_assert_eq!(ours.remove(row), model.remove(&row)),
                    _ => {
                        let nearest = model.range(row..).next().copied().unwrap_or(0);
                        prop_assert_eq!(ours.remove(nearest), model.remove(&nearest));
                    }
                }
            }
            clones.push((ours, model));
            for (ours, model) in clones {
                prop_assert_eq!(ours.len(), model.len());
                prop_assert!(ours.iter().eq(model.iter().copied()));
                prop_assert!((0..210_000).step_by(700).all(|row| ours.contains(row) == model.contains(&row)));
            }
        }
    }
}
