//! Groups against slices of equal keys.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use crate::Stream;
use crate::groups::{Groups, TILE};

/// Lengths at which rows, warps and tiles end, and one with more tiles than a warp sees at once.
const LENGTHS: [u32; 9] = [0, 1, 32, 513, TILE - 1, TILE, TILE + 1, 3 * TILE + 5, 35 * TILE];

/// Keys in order, of groups of `most` keys at most, with low bits that do not count.
fn sorted_keys(random: &mut ChaCha8Rng, len: usize, most: usize, shift: u32) -> Vec<u64> {
    let mut keys = Vec::with_capacity(len);
    let mut group: u64 = random.random_range(0..3);
    while keys.len() < len {
        let size = random.random_range(1..=most).min(len - keys.len());
        keys.extend((0..size).map(|_| group << shift | random.random_range(0..1 << shift)));
        group += random.random_range(1..4);
    }
    keys
}

/// Where slices of equal keys begin, and the end of the last.
fn twin(keys: &[u64], shift: u32) -> Vec<u32> {
    let mut end = 0;
    let ends = keys.chunk_by(|a, b| a >> shift == b >> shift).map(|group| {
        end += group.len() as u32;
        end
    });
    std::iter::once(0).chain(ends).collect()
}

/// Groups of every length: of one key each, of a few, of many tiles; the words of one launch serve the next.
///
/// # Errors
/// Of the device.
pub fn groups_are_runs_of_equal_keys<S: Stream>(stream: &S, seed: u64) -> Result<(), S::Error> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut groups = Groups::allocate(stream, LENGTHS[LENGTHS.len() - 1])?;
    for len in LENGTHS {
        for (most, shift) in [(1, 0), (5, 32), (300, 8), (usize::MAX, 33)] {
            let keys = sorted_keys(&mut random, len as usize, most, shift);
            let uploaded = stream.upload(&keys)?;
            groups.find(stream, &uploaded, len, shift)?;
            let expected = twin(&keys, shift);
            let count = stream.download(&groups.count)?[0] as usize;
            assert_eq!(count, expected.len() - 1, "groups of {len} keys, {most} a group at most");
            let begins = stream.download(&groups.begins)?;
            assert!(begins[..=count] == expected, "begins of {count} groups of {len} keys");
        }
    }
    Ok(())
}
