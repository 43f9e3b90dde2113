//! Sets of slots against sets of the standard library.

use std::collections::BTreeSet;

use jasper_core::synthetic;
use rand::{Rng, RngExt};

use crate::Stream;
use crate::bits::{Change, Slots, mark};
use crate::scan::SELECT_TILE;

/// The words of a set.
pub(super) fn words(set: &BTreeSet<u32>, slots: u32) -> Vec<u32> {
    let mut words = vec![0; slots.div_ceil(32) as usize];
    set.iter().for_each(|&slot| words[(slot / 32) as usize] |= 1 << (slot % 32));
    words
}

/// Each of `slots` with a chance of one in `one_in`.
pub(super) fn some(rng: &mut impl Rng, slots: u32, one_in: u32) -> BTreeSet<u32> {
    (0..slots).filter(|_| rng.random_range(0..one_in) == 0).collect()
}

/// Adds and removes slots, some of them twice or without effect; counts those that change.
///
/// # Panics
/// If the set is not that of the reference, or the stream fails.
pub fn marks_agree_with_the_reference(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    for slots in [1, 32, 33, 700] {
        let mut set = some(&mut rng, slots, 3);
        let mut bits = stream.upload(&words(&set, slots)).unwrap();
        for (len, change) in
            [(0, Change::Add), (1, Change::Add), (40, Change::Add), (300, Change::Remove), (257, Change::Add)]
        {
            let list: Vec<u32> = (0..len).map(|_| rng.random_range(0..slots)).collect();
            let changes = |slot: &&u32| match change {
                Change::Add => set.insert(**slot),
                Change::Remove => set.remove(*slot),
            };
            let expected = list.iter().filter(changes).count() as u32;
            let changed = mark(stream, &mut bits, &list, change).unwrap();
            assert_eq!(changed, expected, "{change:?} {len} of {slots}");
            assert_eq!(stream.download(&bits).unwrap(), words(&set, slots), "{change:?} {len} of {slots}");
        }
    }
}

/// Lists of a set, with and without exceptions, of all slots, and of ranges that begin at any word. Launches share status
/// words, and nothing is written past the end of a list.
///
/// # Panics
/// If a list is not that of the reference, or the stream fails.
pub fn lists_agree_with_the_reference(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    let most = 3 * SELECT_TILE + 5;
    let mut listed = Slots::allocate(stream, most).unwrap();
    for slots in [0, 1, 32, 100, SELECT_TILE, most] {
        let (set, but) = (some(&mut rng, slots, 2), some(&mut rng, slots, 5));
        let bits = stream.upload(&words(&set, slots)).unwrap();
        let but_bits = stream.upload(&words(&but, slots)).unwrap();
        let begin = rng.random_range(0..=slots / 32) * 32;
        for (with_set, with_but, begin) in
            [(true, true, 0), (true, false, begin), (false, true, begin), (false, false, 0)]
        {
            let end = rng.random_range(begin..=slots);
            let end = if begin == 0 { slots } else { end };
            stream.fill(&mut listed.slots, u8::MAX).unwrap();
            let (bits, but_bits) = (with_set.then_some(&bits), with_but.then_some(&but_bits));
            let count = listed.list(stream, bits, but_bits, begin..end).unwrap();
            let is_listed =
                |slot: &u32| (!with_set || set.contains(slot)) && !(with_but && but.contains(slot));
            let mut expected: Vec<u32> = (begin..end).filter(is_listed).collect();
            assert_eq!(count as usize, expected.len(), "{begin}..{end} of {slots}");
            expected.resize(most as usize, u32::MAX);
            assert!(stream.download(&listed.slots).unwrap() == expected, "{begin}..{end} of {slots}");
        }
    }
}
