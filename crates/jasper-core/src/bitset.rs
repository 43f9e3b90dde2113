//! A growable bit set.

use std::iter;
use std::ops::Range;

/// A set of slots or small keys: one bit each, in the u32 words that GPU kernels read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BitSet {
    words: Vec<u32>,
    ones: usize,
}

impl BitSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self { words: Vec::new(), ones: 0 }
    }

    /// Creates the set from its [`words`](Self::words).
    pub fn from_words(words: Vec<u32>) -> Self {
        let ones = words.iter().map(|w| w.count_ones() as usize).sum();
        Self { words, ones }
    }

    /// The words. Number `i` is bit `i & 31` of word `i >> 5`; bits past the last word are zero.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Whether `index` is in the set.
    #[inline]
    pub fn contains(&self, index: usize) -> bool {
        self.words.get(index >> 5).is_some_and(|word| word >> (index & 31) & 1 == 1)
    }

    /// Adds `index`, growing the set if needed. Returns whether it was absent.
    pub fn insert(&mut self, index: usize) -> bool {
        if index >> 5 >= self.words.len() {
            self.words.resize((index >> 5) + 1, 0);
        }
        let word = &mut self.words[index >> 5];
        let added = *word >> (index & 31) & 1 == 0;
        *word |= 1 << (index & 31);
        self.ones += usize::from(added);
        added
    }

    /// Adds all of `range`, growing the set if needed. Costs one step per word.
    pub fn insert_range(&mut self, range: Range<usize>) {
        if range.end > self.words.len() * 32 {
            self.words.resize(range.end.div_ceil(32), 0);
        }
        let mut index = range.start;
        while index < range.end {
            let (bit, bits) = (index & 31, (32 - (index & 31)).min(range.end - index));
            let word = &mut self.words[index >> 5];
            let added = (u32::MAX >> (32 - bits) << bit) & !*word;
            *word |= added;
            self.ones += added.count_ones() as usize;
            index += bits;
        }
    }

    /// Removes `index`. Returns whether it was present.
    pub fn remove(&mut self, index: usize) -> bool {
        let removed = self.contains(index);
        if removed {
            self.words[index >> 5] &= !(1 << (index & 31));
            self.ones -= 1;
        }
        removed
    }

    /// The number of elements. O(1).
    pub fn len(&self) -> usize {
        self.ones
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ones == 0
    }

    /// The numbers in the set, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(i, &word)| {
            // Each successor is without the lowest bit.
            let rests = iter::successors(Some(word), |rest| Some(rest & rest.wrapping_sub(1)));
            rests.take_while(|&rest| rest != 0).map(move |rest| i * 32 + rest.trailing_zeros() as usize)
        })
    }
}

impl FromIterator<usize> for BitSet {
    fn from_iter<I: IntoIterator<Item = usize>>(items: I) -> Self {
        let mut set = Self::new();
        for index in items {
            set.insert(index);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_like_a_set(steps in proptest::collection::vec((0..9, 0_usize..200, 0_usize..80), 0..200)) {
            let (mut ours, mut model) = (BitSet::new(), BTreeSet::new());
            for (what, index, count) in steps {
                match what {
                    0 => {
                        ours.insert_range(index..index + count);
                        model.extend(index..index + count);
                    }
                    1..5 => prop_assert_eq!(ours.insert(index), model.insert(index)),
                    _ => prop_assert_eq!(ours.remove(index), model.remove(&index)),
                }
            }
            prop_assert_eq!(ours.len(), model.len());
            prop_assert_eq!(ours.iter().next(), model.first().copied());
            prop_assert_eq!(ours.iter().collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
            let words = BitSet::from_words(ours.words().to_vec());
            prop_assert_eq!(words, ours);
        }
    }
}
