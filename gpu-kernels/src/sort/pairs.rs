//! The sequence of launches that sorts pairs.

use std::mem::swap;
use std::ops::Range;

use super::bits::{Bits, DIGIT_BITS};
use super::{Count, CountArgs, DigitOffsets, DigitOffsetsArgs, Pass, PassArgs, RADIX, TILE};
use crate::prefix_sum::LookBackStates;
use crate::{Buffer, Stream};

/// Passes over all bits of a key.
const MAX_PASSES: u32 = u64::BITS / DIGIT_BITS;

/// Keys, and the value of each.
pub struct Pairs<S: Stream> {
    /// `[capacity]`.
    pub keys: S::Buffer<u64>,
    /// `[capacity]`.
    pub values: S::Buffer<u32>,
}

impl<S: Stream> Pairs<S> {
    /// Allocates `capacity` pairs, which take 12 bytes of device memory each.
    ///
    /// # Errors
    /// Returns an error if the memory cannot be allocated.
    pub fn allocate(stream: &S, capacity: u32) -> Result<Self, S::Error> {
        let capacity = capacity as usize;
        Ok(Self { keys: stream.allocate(capacity)?, values: stream.allocate(capacity)? })
    }

    /// The capacity in pairs.
    pub fn capacity(&self) -> usize {
        self.keys.len().min(self.values.len())
    }
}

/// Scratch memory of a sort, for any number of sorts.
pub struct SortScratch<S: Stream> {
    /// The output of a pass, swapped with the pairs after it.
    other: Pairs<S>,
    /// `[MAX_PASSES][RADIX]`.
    counts: S::Buffer<u32>,
    tiles: LookBackStates<S>,
}

impl<S: Stream> SortScratch<S> {
    /// Allocates scratch memory for up to `capacity` pairs: [`bytes`](Self::bytes) of device memory.
    ///
    /// # Errors
    /// Returns an error if the memory cannot be allocated.
    pub fn allocate(stream: &S, capacity: u32) -> Result<Self, S::Error> {
        Ok(Self {
            other: Pairs::allocate(stream, capacity)?,
            counts: stream.allocate((MAX_PASSES * RADIX) as usize)?,
            tiles: LookBackStates::allocate(stream, capacity.div_ceil(TILE) as usize, RADIX as usize)?,
        })
    }

    /// Bytes of device memory for up to `capacity` pairs: 12.5 per pair.
    pub const fn bytes(capacity: u32) -> u64 {
        capacity as u64 * (size_of::<u64>() + size_of::<u32>()) as u64
            + (MAX_PASSES * RADIX) as u64 * size_of::<u32>() as u64
            + LookBackStates::<S>::bytes(capacity.div_ceil(TILE) as usize, RADIX as usize)
    }
}

/// Sorts the first `len` pairs by `bits` of their keys, stably. Reversed edges whose keys are `target << 32 | distance`
/// and whose values are ascending sources are therefore sorted by (target, distance, source).
///
/// Queues two launches, and one per eight bits, asynchronously.
///
/// # Errors
/// Returns the device's error.
///
/// # Panics
/// Panics if `len` is more than `pairs` or `scratch` have room for, or `bits` is not within 0..64.
pub fn sort_pairs<S: Stream>(
    stream: &S,
    pairs: &mut Pairs<S>,
    len: u32,
    bits: Range<u32>,
    scratch: &mut SortScratch<S>,
) -> Result<(), S::Error> {
    let bits = Bits::new(bits);
    let SortScratch { other, counts, tiles } = scratch;
    for capacity in [pairs.capacity(), other.capacity()] {
        assert!(len as usize <= capacity, "a sort of {len} pairs needs more than room for {capacity}");
    }
    stream.fill(counts, 0)?;
    let args = CountArgs { keys: stream.input(&pairs.keys), counts: stream.output(counts), len, bits };
    // SAFETY: there are `len` keys, and counts for every digit.
    unsafe { stream.launch(&Count, args)? };
    let args = DigitOffsetsArgs { counts: stream.output(counts), passes: bits.passes() };
    // SAFETY: there are counts for every pass.
    unsafe { stream.launch(&DigitOffsets, args)? };
    for pass in 0..bits.passes() {
        tiles.launch(stream, len.div_ceil(TILE), |look_back| {
            let args = PassArgs {
                keys: stream.input(&pairs.keys),
                values: stream.input(&pairs.values),
                sorted_keys: stream.output(&mut other.keys),
                sorted_values: stream.output(&mut other.values),
                digit_offsets: stream.input(counts).add((pass * RADIX) as usize),
                look_back,
                len,
                digit: bits.digit(pass),
            };
            // SAFETY: both buffers have room for `len` pairs and do not overlap, the counts are those of these keys,
            // and the look-back covers all tiles of the launch.
            unsafe { stream.launch(&Pass, args) }
        })?;
        swap(pairs, other);
    }
    Ok(())
}
