//! Collections whose clones share memory: taking one costs nothing, and a change copies the part that it is in.

use std::iter;
use std::ops::Range;
use std::sync::Arc;

use jasper_core::{BitSet, Slot};

/// Consecutive parts, which are empty where nothing was changed.
#[derive(Debug)]
pub(crate) struct Parts<C>(Arc<Vec<Arc<C>>>);

impl<C: Clone + Default> Parts<C> {
    /// The part at an index, unless neither it nor a later one was ever changed.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&C> {
        self.0.get(index).map(|part| &**part)
    }

    /// The part at an index, to be changed.
    pub(crate) fn part_mut(&mut self, index: usize) -> &mut C {
        let parts = Arc::make_mut(&mut self.0);
        if index >= parts.len() {
            parts.resize_with(index + 1, Arc::default);
        }
        Arc::make_mut(&mut parts[index])
    }

    /// The parts, from the first on.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &C> {
        self.0.iter().map(|part| &**part)
    }
}

impl<C> Clone for Parts<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C> Default for Parts<C> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// Words of a part of a [`SlotSet`]: 4 KB.
const PART_WORDS: usize = 1024;
const PART_SLOTS: usize = PART_WORDS * 32;

#[derive(Clone, Debug)]
struct Words {
    words: [u32; PART_WORDS],
    /// Number of slots in the part.
    len: usize,
}

impl Default for Words {
    fn default() -> Self {
        Self { words: [0; PART_WORDS], len: 0 }
    }
}

/// A set of slots, a bit each.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlotSet {
    parts: Parts<Words>,
    len: usize,
}

impl SlotSet {
    /// Whether a slot is in the set.
    #[inline]
    pub(crate) fn contains(&self, slot: Slot) -> bool {
        self.len > 0 && self.word(slot.index() / 32) >> (slot.index() % 32) & 1 == 1
    }

    /// Slots `32 * index` and following, the lowest in the lowest bit.
    #[inline]
    pub(crate) fn word(&self, index: usize) -> u32 {
        self.parts.get(index / PART_WORDS).map_or(0, |part| part.words[index % PART_WORDS])
    }

    /// Number of slots.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a slot; returns whether it was absent.
    pub(crate) fn insert(&mut self, slot: Slot) -> bool {
        let is_new = !self.contains(slot);
        if is_new {
            self.insert_bits(slot.index() / 32, 1 << (slot.index() % 32));
        }
        is_new
    }

    /// Adds consecutive slots, 32 at a time.
    pub(crate) fn insert_range(&mut self, range: Range<usize>) {
        let mut index = range.start;
        while index < range.end {
            let (bit, bits) = (index % 32, (32 - index % 32).min(range.end - index));
            self.insert_bits(index / 32, u32::MAX >> (32 - bits) << bit);
            index += bits;
        }
    }

    /// Removes a slot; returns whether it was present.
    pub(crate) fn remove(&mut self, slot: Slot) -> bool {
        let was_in = self.contains(slot);
        if was_in {
            let part = self.parts.part_mut(slot.index() / PART_SLOTS);
            part.words[slot.index() / 32 % PART_WORDS] &= !(1 << (slot.index() % 32));
            part.len -= 1;
            self.len -= 1;
        }
        was_in
    }

    /// The slots, ascending. Parts without any are skipped.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        let parts = self.parts.iter().enumerate().filter(|(_, part)| part.len > 0);
        let words = parts.flat_map(|(index, part)| (index * PART_WORDS..).zip(part.words));
        words.filter(|&(_, word)| word != 0).flat_map(|(index, word)| {
            // Each successor is without the lowest bit.
            let rests =
                iter::successors(Some(word), |rest| Some(rest & (rest - 1)).filter(|&rest| rest != 0));
            rests.map(move |rest| Slot::from_index(index * 32 + rest.trailing_zeros() as usize))
        })
    }

    fn insert_bits(&mut self, word: usize, bits: u32) {
        let part = self.parts.part_mut(word / PART_WORDS);
        let old = &mut part.words[word % PART_WORDS];
        let added = (bits & !*old).count_ones() as usize;
        *old |= bits;
        part.len += added;
        self.len += added;
    }
}

impl From<BitSet> for SlotSet {
    fn from(set: BitSet) -> Self {
        let mut slots = Self::default();
        set.words().iter().enumerate().for_each(|(word, &bits)| {
            if bits != 0 {
                slots.insert_bits(word, bits);
            }
        });
        slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_set_and_its_clones_behave_like_sets(
            steps in proptest::collection::vec((0..9, 0..2 * PART_SLOTS + 100, 0_usize..80), 0..60),
        ) {
            let (mut ours, mut model) = (SlotSet::default(), BTreeSet::new());
            let mut clones = Vec::new();
            for (what, index, count) in steps {
                let slot = Slot::from_index(index);
                match what {
                    0 => {
                        ours.insert_range(index..index + count);
                        model.extend(index..index + count);
                    }
                    1 => clones.push((ours.clone(), model.clone())),
                    2..6 => prop_assert_eq!(ours.insert(slot), model.insert(index)),
                    _ => prop_assert_eq!(ours.remove(slot), model.remove(&index)),
                }
            }
            clones.push((ours, model));
            for (ours, model) in clones {
                prop_assert_eq!(ours.len(), model.len());
                prop_assert!(ours.iter().map(Slot::index).eq(model.iter().copied()));
                let words = (0..PART_WORDS * 4).map(|index| ours.word(index)).collect();
                let copy = SlotSet::from(BitSet::from_words(words));
                prop_assert!(copy.iter().eq(ours.iter()) && copy.len() == ours.len());
            }
        }
    }
}
