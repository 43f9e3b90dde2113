//! Compares groups with slices of equal keys.

use jasper_core::synthetic;
use rand::{Rng, RngExt};

use crate::Stream;
use crate::groups::Groups;
use crate::prefix_sum::SELECT_TILE as TILE;

/// Lengths at which rows, warps and tiles end, and one with more tiles than a warp looks back at once.
const LENGTHS: [u32; 9] = [0, 1, 32, 513, TILE - 1, TILE, TILE + 1, 3 * TILE + 5, 35 * TILE];

/// Sorted keys in groups of at most `most` keys, with random low bits.
fn sorted_keys(rng: &mut impl Rng, len: usize, most: usize, shift: u32) -> Vec<u64> {
    let mut keys = Vec::with_capacity(len);
    let mut group: u64 = rng.random_range(0..3);
    while keys.len() < len {
        let size = rng.random_range(1..=most).min(len - keys.len());
        keys.extend((0..size).map(|_| group << shift | rng.random_range(0..1 << shift)));
        group += rng.random_range(1..4);
    }
    keys
}

/// The begin of each group, and the end of the last.
fn reference(keys: &[u64], shift: u32) -> Vec<u32> {
    let mut end = 0;
    let ends = keys.chunk_by(|a, b| a >> shift == b >> shift).map(|group| {
        end += group.len() as u32;
        end
    });
    std::iter::once(0).chain(ends).collect()
}

/// Groups of one key each, of a few, and of many tiles, for all lengths. Launches share status words, and nothing is
/// written past the end of the last group.
///
/// # Panics
/// Panics if groups are not those of the reference, or the stream fails.
pub fn groups_agree_with_the_reference(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    let mut groups = Groups::allocate(stream, LENGTHS[LENGTHS.len() - 1]).unwrap();
    for len in LENGTHS {
        for (most, shift) in [(1, 0), (5, 32), (300, 8), (usize::MAX, 33)] {
            let keys = sorted_keys(&mut rng, len as usize, most, shift);
            let on_device = stream.upload(&keys).unwrap();
            stream.fill(&mut groups.offsets, u8::MAX).unwrap();
            groups.find(stream, &on_device, len, shift).unwrap();
            let mut expected = reference(&keys, shift);
            let count = expected.len() - 1;
            let what = format!("groups of {len} keys, {most} each at most");
            assert_eq!(stream.download(&groups.count).unwrap(), [count as u32], "{what}");
            let offsets = stream.download(&groups.offsets).unwrap();
            expected.resize(offsets.len(), u32::MAX);
            let wrong = (0..offsets.len()).find(|&at| offsets[at] != expected[at]);
            assert_eq!(wrong, None, "the first wrong begin of {count} {what}");
        }
    }
}
