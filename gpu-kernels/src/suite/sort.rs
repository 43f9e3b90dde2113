//! Compares sorts with the stable sort of the standard library.

use std::ops::Range;

use jasper_core::synthetic;
use rand::{Rng, RngExt};

use crate::Stream;
use crate::sort::{COUNT_TILE, Pairs, SortScratch, TILE, sort_pairs};

/// Lengths at which rows, warps and tiles end.
const LENGTHS: [u32; 8] = [0, 1, 2, 33, TILE - 1, TILE, TILE + 1, 2 * TILE + 129];
/// Ranges of whole digits and of partial ones, of all passes, of one, and of none.
const BITS: [Range<u32>; 7] = [0..64, 0..8, 56..64, 3..20, 31..40, 63..64, 7..7];

/// The distribution of the keys.
#[derive(Clone, Copy, Debug)]
enum Spread {
    Random,
    Equal,
    Ascending,
    Descending,
    Few,
    Skewed,
}

impl Spread {
    const ALL: [Self; 6] =
        [Self::Random, Self::Equal, Self::Ascending, Self::Descending, Self::Few, Self::Skewed];

    /// `len` keys.
    fn keys(self, rng: &mut impl Rng, len: usize) -> Vec<u64> {
        let some: [u64; 3] = rng.random();
        // Steps that reach the highest digit within the array.
        let step = u64::MAX / len.max(1) as u64;
        let key = |at: usize| match self {
            Self::Random => rng.random(),
            Self::Equal => some[0],
            Self::Ascending => at as u64 * step,
            Self::Descending => (len - at) as u64 * step,
            Self::Few => some[rng.random_range(0..some.len())],
            // Small values are the most frequent, and each digit has some.
            Self::Skewed => rng.random::<u64>() >> rng.random_range(0..64),
        };
        (0..len).map(key).collect()
    }
}

/// Sorts `keys` with their indices as values, and compares both with a stable sort.
fn agrees<S: Stream>(stream: &S, keys: &[u64], bits: Range<u32>, scratch: &mut SortScratch<S>) {
    let mut order: Vec<u32> = (0..keys.len() as u32).collect();
    let mut pairs = Pairs { keys: stream.upload(keys).unwrap(), values: stream.upload(&order).unwrap() };
    sort_pairs(stream, &mut pairs, keys.len() as u32, bits.clone(), scratch).unwrap();
    let part = |key: u64| (u128::from(key) >> bits.start) & ((1 << bits.len()) - 1);
    order.sort_by_key(|&value| part(keys[value as usize]));
    let found_keys = stream.download(&pairs.keys).unwrap();
    let found_values = stream.download(&pairs.values).unwrap();
    for (at, &value) in order.iter().enumerate() {
        let (found, expected) = ((found_keys[at], found_values[at]), (keys[value as usize], value));
        assert_eq!(found, expected, "pair {at} of {}, sorted by bits {bits:?}", keys.len());
    }
}

/// Every length and distribution, with varying bits; sorts share scratch memory.
///
/// # Panics
/// Panics if pairs are not in the order of the reference, or the stream fails.
pub fn sorts_agree_with_the_reference(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    let mut bits = BITS.into_iter().cycle();
    for len in LENGTHS {
        let mut scratch = SortScratch::allocate(stream, len).unwrap();
        for spread in Spread::ALL {
            let keys = spread.keys(&mut rng, len as usize);
            agrees(stream, &keys, bits.next().expect("a cycle has no end"), &mut scratch);
        }
    }
    // Two blocks count.
    let keys = Spread::Skewed.keys(&mut rng, COUNT_TILE as usize + 1);
    let mut scratch = SortScratch::allocate(stream, COUNT_TILE + 1).unwrap();
    agrees(stream, &keys, 0..8, &mut scratch);
}

/// Every range of bits, on keys in which all bits differ.
///
/// # Panics
/// Panics if pairs are not in the order of the reference, or the stream fails.
pub fn sorts_use_only_their_bits(stream: &impl Stream, seed: u64) {
    let mut rng = synthetic::rng(seed);
    let len = 2 * TILE + 17;
    let mut scratch = SortScratch::allocate(stream, len).unwrap();
    for bits in BITS {
        let keys = Spread::Random.keys(&mut rng, len as usize);
        agrees(stream, &keys, bits, &mut scratch);
    }
}
