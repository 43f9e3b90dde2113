//! Stable radix sort of (u64 key, u32 value) pairs: Onesweep (Adinets and Merrill, 2022).
//!
//! ```text
//! sort(pairs, bits):
//!     counts[pass][digit] <- the number of keys with this digit, for all passes in one read     `count`
//!     offsets[pass] <- exclusive prefix sums of counts[pass]                                    `digit_offsets`
//!     for pass in 0..passes, 8 bits each, the lowest first:                                     `pass`
//!         for each tile of 4096 pairs, in parallel:
//!             sort the tile by the digit, stably, in shared memory
//!             before[digit] <- pairs with this digit in all tiles before, by look-back
//!             write the pairs of each digit from offsets[pass][digit] + before[digit] on
//! ```
//!
//! Deviations made for speed, and why the order stays the same:
//!
//! 1. *All passes are counted up front*: a pass permutes the keys, and so changes no count. Memory traffic is 8 bytes
//!    per pair to count, and 24 bytes per pair and pass.
//! 2. *A tile publishes its counts before it is sorted*, as soon as they are known: other tiles wait for them
//!    ([decoupled look-back](crate::prefix_sum)).
//! 3. *Runs of equal digits are counted with one addition*, so that keys with a common digit do not serialize on its
//!    counter.
//! 4. *Pairs go through shared memory*, so that global writes are runs of equal digits and coalesced. The place of a
//!    pair in its tile is unique and grows with (warp, index, lane), which is the order of the input: hence stable.
//!
//! | module | holds |
//! | --- | --- |
//! | `bits` | [`Bits`]: the bits of the keys that a sort uses, and their digits |
//! | `count` | the kernel that counts digits |
//! | `digit_offsets` | the kernel that sums the counts of each pass |
//! | `pass` | the kernel that sorts by one digit |
//! | `pairs` | [`Pairs`], [`SortScratch`] and [`sort_pairs`]: the sequence of launches |

mod bits;

cfg_if! { if #[cfg(feature = "kernels")] {
    mod digit_offsets;
    mod count;
    mod pass;
} }

cfg_if! { if #[cfg(not(target_arch = "nvptx64"))] {
    mod pairs;

    pub use pairs::{Pairs, SortScratch, sort_pairs};
    use crate::{LaunchConfig, launch::kernels};
} }

pub use bits::Bits;

use crate::prefix_sum::LookBack;
use crate::{DevicePtr, DevicePtrMut, WARP_SIZE};

/// Number of values of a digit. One thread of a block owns each value.
pub(crate) const RADIX: u32 = 1 << bits::DIGIT_BITS;
/// Warps per block that sorts a tile.
pub(crate) const WARPS: u32 = RADIX / WARP_SIZE;
/// Pairs per thread.
pub(crate) const PAIRS_PER_THREAD: u32 = 16;
/// Pairs per tile.
pub const TILE: u32 = RADIX * PAIRS_PER_THREAD;
/// Threads per block that counts.
pub(crate) const COUNT_THREADS: u32 = 512;
/// Keys that a thread loads at once.
pub(crate) const COUNT_KEYS: u32 = 16;
/// Such loads per thread. There are several, because each block ends with one atomic addition per value of every digit.
pub(crate) const COUNT_LOADS: u32 = 4;
/// Keys per block.
pub const COUNT_TILE: u32 = COUNT_THREADS * COUNT_KEYS * COUNT_LOADS;

/// Arguments of [`Count`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CountArgs {
    /// `[len]`.
    pub keys: DevicePtr<u64>,
    /// `[passes][256]`: the number of keys with each value of each digit, to which the launch adds.
    pub counts: DevicePtrMut<u32>,
    /// Number of keys.
    pub len: u32,
    /// The bits to sort by.
    pub bits: Bits,
}

/// Arguments of [`DigitOffsets`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DigitOffsetsArgs {
    /// `[passes][256]`: the counts, replaced by the place where the pairs of each digit begin.
    pub counts: DevicePtrMut<u32>,
    /// Number of passes.
    pub passes: u32,
}

/// Arguments of [`Pass`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PassArgs {
    /// `[len]`.
    pub keys: DevicePtr<u64>,
    /// `[len]`.
    pub values: DevicePtr<u32>,
    /// `[len]`: the sorted keys. Does not overlap `keys`.
    pub sorted_keys: DevicePtrMut<u64>,
    /// `[len]`: the sorted values. Does not overlap `values`.
    pub sorted_values: DevicePtrMut<u32>,
    /// `[256]`: where the pairs of each digit begin.
    pub digit_offsets: DevicePtr<u32>,
    /// The look-back of the launch, with 256 columns, one per value of the digit.
    pub look_back: LookBack,
    /// Number of pairs.
    pub len: u32,
    /// The bits of this pass, at most eight.
    pub digit: Bits,
}

/// The layout of shared memory in a pass, as byte offsets.
pub(crate) struct SharedLayout;

impl SharedLayout {
    /// `u64[TILE]`: the keys of the tile, sorted.
    pub(crate) const KEYS: u32 = 0;
    /// `u32[TILE]`: the values of these keys.
    pub(crate) const VALUES: u32 = Self::KEYS + TILE * size_of::<u64>() as u32;
    /// `u32[WARPS][RADIX]`: the number of pairs of each digit in each warp; later, the place in the tile of the next
    /// such pair.
    pub(crate) const COUNTERS: u32 = Self::VALUES + TILE * size_of::<u32>() as u32;
    /// `u32[RADIX]`: the difference of a pair's place in the sorted array and in the tile.
    pub(crate) const SHIFTS: u32 = Self::COUNTERS + WARPS * RADIX * size_of::<u32>() as u32;
    /// `u32[WARPS]`: the sum of the counts of each warp's digits.
    pub(crate) const SUMS: u32 = Self::SHIFTS + RADIX * size_of::<u32>() as u32;
    /// `u32`: the index of the tile.
    pub(crate) const SLOT: u32 = Self::SUMS + WARPS * size_of::<u32>() as u32;
    /// The size of shared memory.
    #[cfg(not(target_arch = "nvptx64"))]
    pub(crate) const BYTES: u32 = Self::SLOT + size_of::<u32>() as u32;
}

#[cfg(not(target_arch = "nvptx64"))]
kernels! {
    /// Counts the digits of all passes.
    Count(CountArgs) = count::sort_count, |args| {
        let shared = args.bits.passes() * RADIX * size_of::<u32>() as u32;
        LaunchConfig::linear(args.len.div_ceil(COUNT_TILE), COUNT_THREADS).with_shared(shared)
    };
    /// Sums the counts of each pass.
    DigitOffsets(DigitOffsetsArgs) = digit_offsets::sort_digit_offsets, |args| {
        LaunchConfig::linear(args.passes, RADIX).with_shared(WARPS * size_of::<u32>() as u32)
    };
    /// Sorts by one digit.
    Pass(PassArgs) = pass::sort_pass, |args| {
        LaunchConfig::linear(args.look_back.tiles, RADIX).with_shared(SharedLayout::BYTES)
    };
}
