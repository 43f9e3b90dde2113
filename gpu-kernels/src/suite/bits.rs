//! Compares sets of slots with sets of the standard library.

use std::collections::BTreeSet;

use jasper_core::synthetic;
use rand::{Rng, RngExt};

use crate::Stream;
use crate::bits::SlotList;
use crate::prefix_sum::SELECT_TILE;

/// The words of a set.
pub(super) fn words(set: &BTreeSet<u32>, slots: u32) -> Vec<u32> {
    let mut words = vec![0; slots.div_ceil(32) as usize];
    set.iter().for_each(|&slot| words[(slot / 32) as usize] |= 1 << (slot % 32));
    words
}

/// A random set that contains each of `slots` with a probability of one in `one_in`.
pub(super) fn some(rng: &mut impl Rng, slots: u32, one_in: u32) -> BTreeSet<u32> {
    (0..slots).filter(|_| rng.random_range(0..one_in) == 0).collect()
}

/// Lists of a whole set, and of ranges that begin at any word. Launches share status words, and nothing is written past
/// the end of a list.
///
/// # Panics
/// Panics if a list is not that of the reference, or the stream fails.
pub fn lists_agree_with_the_reference(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    let max_slots = 3 * SELECT_TILE + 5;
    let mut listed = SlotList::allocate(stream, max_slots).unwrap();
    for slots in [0, 1, 32, 100, SELECT_TILE, max_slots] {
        let set = some(&mut rng, slots, 2);
        let bits = stream.upload(&words(&set, slots)).unwrap();
        let begin = rng.random_range(0..=slots / 32) * 32;
        for range in [0..slots, begin..rng.random_range(begin..=slots)] {
            stream.fill(&mut listed.slots, u8::MAX).unwrap();
            let count = listed.list(stream, &bits, range.clone()).unwrap();
            let mut expected: Vec<u32> = set.range(range.clone()).copied().collect();
            assert_eq!(count as usize, expected.len(), "{range:?} of {slots}");
            expected.resize(max_slots as usize, u32::MAX);
            assert!(stream.download(&listed.slots).unwrap() == expected, "{range:?} of {slots}");
        }
    }
}
