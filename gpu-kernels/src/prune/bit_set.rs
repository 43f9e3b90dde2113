//! Sets of at most 128 candidates, as bits of two 64-bit words.

use cuda_std::prelude::*;

use super::layout::{MAX_ALL_PAIRS, PAIR_WORDS};

const _: () = assert!(MAX_ALL_PAIRS == 128 && PAIR_WORDS == 4);

/// A set of indices below 128.
#[derive(Clone, Copy)]
pub(super) struct BitSet([u64; 2]);

impl BitSet {
    pub(super) const EMPTY: Self = Self([0; 2]);

    /// Loads a set from four words.
    ///
    /// # Safety
    /// The words are at a multiple of 16 bytes, and a barrier has passed since they were written.
    pub(super) unsafe fn load(words: Shared<u32>) -> Self {
        // SAFETY: upheld by the caller.
        Self(unsafe { words.cast().load() })
    }

    /// Stores the set to four words.
    ///
    /// # Safety
    /// The words are at a multiple of 16 bytes, and no other thread accesses them.
    pub(super) unsafe fn store(self, words: Shared<u32>) {
        // SAFETY: upheld by the caller.
        unsafe { words.cast().store(self.0) }
    }

    /// The indices `32 * word + i` for the set bits `i` of `bits`.
    pub(super) fn word(word: u32, bits: u32) -> Self {
        let half = u64::from(bits) << (word % 2 * 32);
        if word < 2 { Self([half, 0]) } else { Self([0, half]) }
    }

    /// The indices below `count`.
    pub(super) fn below(count: u32) -> Self {
        let low = |count: u32| if count < 64 { (1 << count) - 1 } else { u64::MAX };
        Self([low(count), low(count.saturating_sub(64))])
    }

    pub(super) fn only(index: u32) -> Self {
        let bit = 1 << (index % 64);
        if index < 64 { Self([bit, 0]) } else { Self([0, bit]) }
    }

    /// The least index.
    pub(super) fn min(self) -> Option<u32> {
        let [low, high] = self.0;
        if low != 0 {
            Some(low.trailing_zeros())
        } else if high != 0 {
            Some(64 + high.trailing_zeros())
        } else {
            None
        }
    }

    /// The number of indices below `index`.
    pub(super) fn rank(self, index: u32) -> u32 {
        self.and(Self::below(index)).len()
    }

    pub(super) fn len(self) -> u32 {
        self.0[0].count_ones() + self.0[1].count_ones()
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self([self.0[0] & other.0[0], self.0[1] & other.0[1]])
    }

    pub(super) fn or(self, other: Self) -> Self {
        Self([self.0[0] | other.0[0], self.0[1] | other.0[1]])
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self([self.0[0] & !other.0[0], self.0[1] & !other.0[1]])
    }

    pub(super) fn contains(self, index: u32) -> bool {
        self.and(Self::only(index)).0 != [0; 2]
    }
}
