//! Sorts against a stable sort of the standard library.

use std::ops::Range;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use crate::Stream;
use crate::sort::{COUNT_TILE, Pairs, SortScratch, TILE, sort_pairs};

/// Lengths at which rows, warps and tiles of both kernels end.
const LENGTHS: [u32; 9] = [0, 1, 2, 33, TILE - 1, TILE, TILE + 1, 3 * TILE + 129, COUNT_TILE + 1];
/// Bits of whole digits and of parts of one, of all passes, of one, and of none.
const BITS: [Range<u32>; 7] = [0..64, 0..8, 56..64, 3..20, 31..40, 63..64, 7..7];

/// How keys are spread.
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
    fn keys(self, random: &mut ChaCha8Rng, len: usize) -> Vec<u64> {
        let some: [u64; 3] = random.random();
        // Steps that reach the highest digit within the array.
        let step = u64::MAX / len.max(1) as u64;
        let key = |at: usize| match self {
            Self::Random => random.random(),
            Self::Equal => some[0],
            Self::Ascending => at as u64 * step,
            Self::Descending => (len - at) as u64 * step,
            Self::Few => some[random.random_range(0..some.len())],
            // Small values are the most frequent, and each digit has some.
            Self::Skewed => random.random::<u64>() >> random.random_range(0..64),
        };
        (0..len).map(key).collect()
    }
}

/// Sorts `keys` with the places they came from as values, and compares both with a stable sort.
fn check<S: Stream>(
    stream: &S,
    keys: &[u64],
    bits: Range<u32>,
    scratch: &mut SortScratch<S>,
) -> Result<(), S::Error> {
    let values: Vec<u32> = (0..keys.len() as u32).collect();
    let mut pairs = Pairs { keys: stream.upload(keys)?, values: stream.upload(&values)? };
    sort_pairs(stream, &mut pairs, keys.len() as u32, bits.clone(), scratch)?;
    let field = |key: u64| (key as u128 >> bits.start) & ((1 << bits.len()) - 1);
    let mut order = values;
    order.sort_by_key(|&value| field(keys[value as usize]));
    let (len, sorted_keys) = (keys.len(), stream.download(&pairs.keys)?);
    let sorted_values = stream.download(&pairs.values)?;
    for (at, &value) in order.iter().enumerate() {
        let (found, expected) = ((sorted_keys[at], sorted_values[at]), (keys[value as usize], value));
        assert_eq!(found, expected, "pair {at} of {len}, sorted by bits {bits:?}");
    }
    Ok(())
}

/// Every length and spread, by bits that differ from case to case; the scratch of one sort serves the next.
///
/// # Errors
/// Of the device.
pub fn sorts_are_stable<S: Stream>(stream: &S, seed: u64) -> Result<(), S::Error> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut bits = BITS.into_iter().cycle();
    for len in LENGTHS {
        for spread in Spread::ALL {
            let keys = spread.keys(&mut random, len as usize);
            // After an odd number of passes pairs and scratch have changed places: they have the same room.
            let mut scratch = SortScratch::allocate(stream, len)?;
            let bits = bits.next().unwrap_or(0..64);
            check(stream, &keys, bits.clone(), &mut scratch)?;
            check(stream, &keys, bits, &mut scratch)?;
        }
    }
    Ok(())
}

/// Every range of bits, on keys in which each of them matters.
///
/// # Errors
/// Of the device.
pub fn sorts_go_by_their_bits_alone<S: Stream>(stream: &S, seed: u64) -> Result<(), S::Error> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let len = 2 * TILE + 17;
    for bits in BITS {
        let keys = Spread::Random.keys(&mut random, len as usize);
        check(stream, &keys, bits, &mut SortScratch::allocate(stream, len)?)?;
    }
    Ok(())
}
