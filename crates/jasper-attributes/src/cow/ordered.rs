//! Rows in the order of their values.

use std::sync::Arc;

/// Pairs of a block, and blocks of a group, before they are split in two.
const BLOCK: usize = 512;
const GROUP: usize = 64;

/// A value and its row. All pairs are distinct.
type Pair = (i64, u32);

/// Rows ordered by value: counts and finds those with a value in a range.
///
/// It is a B-tree of three levels, of a thousand groups for ten million rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ordered {
    /// None of them empty.
    groups: Arc<Vec<Group>>,
    len: usize,
}

#[derive(Clone, Debug)]
struct Group {
    /// Not above its first pair, and above all pairs of groups before.
    least: Pair,
    len: usize,
    /// None of them empty.
    blocks: Arc<Vec<BlockEntry>>,
}

#[derive(Clone, Debug)]
struct BlockEntry {
    /// As of groups.
    least: Pair,
    len: usize,
    block: Arc<Block>,
}

#[derive(Clone, Debug, Default)]
struct Block {
    values: Vec<i64>,
    rows: Vec<u32>,
}

impl Block {
    /// Number of pairs below this one.
    fn rank(&self, (value, row): Pair) -> usize {
        let start = self.values.partition_point(|&other| other < value);
        let same = self.values[start..].partition_point(|&other| other == value);
        start + self.rows[start..start + same].partition_point(|&other| other < row)
    }

    fn split_off(&mut self, at: usize) -> Self {
        Self { values: self.values.split_off(at), rows: self.rows.split_off(at) }
    }
}

impl BlockEntry {
    fn new(block: Block) -> Self {
        Self { least: (block.values[0], block.rows[0]), len: block.values.len(), block: Arc::new(block) }
    }
}

impl Group {
    fn new(blocks: Vec<BlockEntry>) -> Self {
        let len = blocks.iter().map(|entry| entry.len).sum();
        Self { least: blocks[0].least, len, blocks: Arc::new(blocks) }
    }
}

/// Index of the last one that starts at or before the pair, or 0.
fn place<T>(items: &[T], pair: Pair, least: impl Fn(&T) -> Pair) -> usize {
    items.partition_point(|item| least(item) <= pair).saturating_sub(1)
}

/// Where to split what is full: in the middle, or at the end if pairs come in ascending order, as those of times do.
fn split_point(position: usize, len: usize) -> usize {
    if position + 1 == len { position } else { len / 2 }
}

impl Ordered {
    /// Those of ascending pairs.
    pub(crate) fn from_sorted(pairs: &[Pair]) -> Self {
        let blocks = pairs.chunks(BLOCK * 3 / 4).map(|pairs| {
            let (values, rows) = pairs.iter().copied().unzip();
            BlockEntry::new(Block { values, rows })
        });
        let mut blocks = blocks.peekable();
        let groups = std::iter::from_fn(|| {
            blocks.peek()?;
            Some(Group::new(blocks.by_ref().take(GROUP * 3 / 4).collect()))
        });
        Self { groups: Arc::new(groups.collect()), len: pairs.len() }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a pair that is not in it.
    pub(crate) fn insert(&mut self, pair: Pair) {
        self.len += 1;
        let groups = Arc::make_mut(&mut self.groups);
        let index = place(groups, pair, |group| group.least);
        let Some(group) = groups.get_mut(index) else {
            let block = Block { values: vec![pair.0], rows: vec![pair.1] };
            return groups.push(Group::new(vec![BlockEntry::new(block)]));
        };
        group.len += 1;
        group.least = group.least.min(pair);
        let blocks = Arc::make_mut(&mut group.blocks);
        let block_index = place(blocks, pair, |entry| entry.least);
        let entry = &mut blocks[block_index];
        entry.len += 1;
        entry.least = entry.least.min(pair);
        let block = Arc::make_mut(&mut entry.block);
        let position = block.rank(pair);
        block.values.insert(position, pair.0);
        block.rows.insert(position, pair.1);
        if block.values.len() > BLOCK {
            let upper = BlockEntry::new(block.split_off(split_point(position, block.values.len())));
            entry.len -= upper.len;
            blocks.insert(block_index + 1, upper);
            if blocks.len() > GROUP {
                let upper = Group::new(blocks.split_off(split_point(block_index + 1, blocks.len())));
                group.len -= upper.len;
                groups.insert(index + 1, upper);
            }
        }
    }

    /// Removes a pair that is in it.
    pub(crate) fn remove(&mut self, pair: Pair) {
        let groups = Arc::make_mut(&mut self.groups);
        let index = place(groups, pair, |group| group.least);
        let group = &mut groups[index];
        let blocks = Arc::make_mut(&mut group.blocks);
        let block_index = place(blocks, pair, |entry| entry.least);
        let entry = &mut blocks[block_index];
        let block = Arc::make_mut(&mut entry.block);
        let position = block.rank(pair);
        assert!(
            block.values[position] == pair.0 && block.rows[position] == pair.1,
            "the pair is in the block"
        );
        block.values.remove(position);
        block.rows.remove(position);
        entry.len -= 1;
        group.len -= 1;
        self.len -= 1;
        let is_small = |entry: &BlockEntry| entry.len < BLOCK / 4;
        if entry.len == 0 {
            blocks.remove(block_index);
            if blocks.is_empty() {
                groups.remove(index);
            }
        } else if is_small(entry) && blocks.get(block_index + 1).is_some_and(is_small) {
            let next = blocks.remove(block_index + 1);
            let entry = &mut blocks[block_index];
            let block = Arc::make_mut(&mut entry.block);
            block.values.extend_from_slice(&next.block.values);
            block.rows.extend_from_slice(&next.block.rows);
            entry.len += next.len;
        }
    }

    /// Number of pairs below this one.
    fn rank(&self, pair: Pair) -> usize {
        let index = place(&self.groups, pair, |group| group.least);
        let Some(group) = self.groups.get(index) else { return 0 };
        let block_index = place(&group.blocks, pair, |entry| entry.least);
        self.groups[..index].iter().map(|group| group.len).sum::<usize>()
            + group.blocks[..block_index].iter().map(|entry| entry.len).sum::<usize>()
            + group.blocks[block_index].block.rank(pair)
    }

    /// Number of values from `least` to `most`.
    pub(crate) fn count(&self, least: i64, most: i64) -> usize {
        // No row is u32::MAX.
        self.rank((most, u32::MAX)) - self.rank((least, 0))
    }

    /// The rows of values from `least` to `most`, in the order of these.
    pub(crate) fn rows(&self, least: i64, most: i64) -> impl Iterator<Item = u32> {
        let start = place(&self.groups, (least, 0), |group| group.least);
        let blocks = self.groups.iter().skip(start).flat_map(|group| group.blocks.iter());
        let blocks = blocks.take_while(move |entry| entry.least.0 <= most);
        blocks.flat_map(move |entry| {
            let Block { values, rows } = &*entry.block;
            let start = values.partition_point(|&value| value < least);
            let len = values[start..].partition_point(|&value| value <= most);
            rows[start..start + len].iter().copied()
        })
    }

    /// How many blocks are also those of another.
    #[cfg(test)]
    pub(crate) fn shared_blocks(&self, other: &Self) -> usize {
        let blocks = |ours: &Self| {
            let blocks = ours.groups.iter().flat_map(|group| group.blocks.iter());
            blocks.map(|entry| Arc::as_ptr(&entry.block)).collect::<std::collections::HashSet<_>>()
        };
        blocks(self).intersection(&blocks(other)).count()
    }

    pub(crate) fn memory(&self) -> usize {
        let blocks = self.groups.iter().flat_map(|group| group.blocks.iter());
        blocks.map(|entry| size_of::<BlockEntry>() + 80 + entry.block.values.capacity() * 12).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn assert_like(ours: &Ordered, model: &BTreeSet<Pair>) {
        assert_eq!(ours.len(), model.len());
        for (least, most) in [(i64::MIN, i64::MAX), (-3, 5), (0, 0), (7, 100)] {
            let range = model.range((least, 0)..=(most, u32::MAX));
            assert!(ours.rows(least, most).eq(range.clone().map(|pair| pair.1)), "{least}..={most}");
            assert_eq!(ours.count(least, most), range.count());
        }
    }

    #[test]
    fn many_pairs_ascending_descending_and_scattered() {
        for order in [|i: u32| i, |i| 70_000 - i, |i| i * 31_337 % 70_001] {
            let (mut ours, mut model) = (Ordered::default(), BTreeSet::new());
            let pair = |i| (i64::from(order(i)) / 3 - 100, i);
            for i in 0..70_000 {
                ours.insert(pair(i));
                model.insert(pair(i));
            }
            assert_like(&ours, &model);
            let copy = ours.clone();
            for i in (0..70_000).filter(|i| i % 50 != 0) {
                ours.remove(pair(i));
                model.remove(&pair(i));
            }
            assert_like(&ours, &model);
            assert!(
                ours.groups
                    .iter()
                    .all(|group| group.len == group.blocks.iter().map(|entry| entry.len).sum::<usize>())
            );
            (0..70_000).step_by(50).for_each(|i| ours.remove(pair(i)));
            assert_like(&ours, &BTreeSet::new());
            assert_eq!(copy.count(i64::MIN, i64::MAX), 70_000);
        }
    }

    proptest! {
        #[test]
        fn rows_are_like_those_of_a_set(
            start in proptest::collection::btree_set((-9..9_i64, 0..4000_u32), 0..2000),
            steps in proptest::collection::vec((-9..9_i64, 0..4000_u32), 0..500),
        ) {
            let mut model = start;
            let mut ours = Ordered::from_sorted(&model.iter().copied().collect::<Vec<_>>());
            let (copy, copy_model) = (ours.clone(), model.clone());
            for pair in steps {
                if model.remove(&pair) {
                    ours.remove(pair);
                } else {
                    model.insert(pair);
                    ours.insert(pair);
                }
            }
            assert_like(&ours, &model);
            assert_like(&copy, &copy_model);
        }
    }
}
