//! Stable radix sort of (u64 key, u32 value) pairs: Onesweep (Adinets and Merrill, 2022).
//!
//! One kernel counts the digits of all passes while it reads the keys once, and one block per pass sums its 256 counts.
//! Then each pass of eight bits reads and writes every pair once: a block sorts a tile by the digit in shared memory, learns by look-back how many pairs of
//! each digit lie before the tile, and writes runs of equal digits. Bytes moved: 8 a pair to count, and 24 a pair and
//! pass.
//!
//! | module | holds |
//! | --- | --- |
//! | `bits` | [`Bits`]: the part of the keys that counts, and its digits |
//! | `count` | the kernel that counts digits |
//! | `begins` | the kernel that sums the counts of each pass |
//! | `pass` | the kernel that sorts by one digit |
//! | `plan` | [`Count`], [`Begins`] and [`Pass`]: their grids |
//! | `pairs` | [`Pairs`], [`SortScratch`] and [`sort_pairs`]: the sequence of launches |

#[cfg(feature = "kernels")]
mod begins;
mod bits;
#[cfg(feature = "kernels")]
mod count;
#[cfg(not(target_arch = "nvptx64"))]
mod pairs;
#[cfg(feature = "kernels")]
mod pass;
#[cfg(not(target_arch = "nvptx64"))]
mod plan;

pub use bits::Bits;
#[cfg(not(target_arch = "nvptx64"))]
pub use pairs::{Pairs, SortScratch, sort_pairs};
#[cfg(not(target_arch = "nvptx64"))]
pub use plan::{Begins, Count, Pass};

use crate::scan::Round;
use crate::{DevicePtr, DevicePtrMut};

/// Values of a digit: one thread of a block owns each.
pub(crate) const RADIX: u32 = 1 << bits::DIGIT_BITS;
/// Warps of a block that sorts a tile.
pub(crate) const WARPS: u32 = RADIX / 32;
/// Pairs of a thread that sorts a tile.
pub(crate) const PAIRS_PER_THREAD: u32 = 16;
/// Pairs that a block sorts.
pub const TILE: u32 = RADIX * PAIRS_PER_THREAD;
/// Threads of a block that counts.
pub(crate) const COUNT_THREADS: u32 = 512;
/// Keys that a thread loads before it counts them.
pub(crate) const COUNT_KEYS: u32 = 16;
/// How often it does so: each block ends with an addition to memory for every value of every digit.
pub(crate) const COUNT_TURNS: u32 = 4;
/// Keys that a block counts.
pub const COUNT_TILE: u32 = COUNT_THREADS * COUNT_KEYS * COUNT_TURNS;

/// What the count of digits takes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CountArgs {
    /// `[len]`.
    pub keys: DevicePtr<u64>,
    /// `[passes][256]`: how many keys have each value of each digit, added to what is there.
    pub counts: DevicePtrMut<u32>,
    /// Keys.
    pub len: u32,
    /// What is sorted by.
    pub bits: Bits,
}

/// What the sums of the counts take.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BeginsArgs {
    /// `[passes][256]`: how many keys have each value of each digit, replaced by where in the sorted pass they begin.
    pub counts: DevicePtrMut<u32>,
    /// Passes.
    pub passes: u32,
}

/// What a pass takes: the pairs, and where those of each digit go.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PassArgs {
    /// `[len]`.
    pub keys: DevicePtr<u64>,
    /// `[len]`.
    pub values: DevicePtr<u32>,
    /// `[len]`, not the keys.
    pub sorted_keys: DevicePtrMut<u64>,
    /// `[len]`, not the values.
    pub sorted_values: DevicePtrMut<u32>,
    /// `[256]`: where the pairs of each digit begin.
    pub begins: DevicePtr<u32>,
    /// Of 256 columns, one for each value of the digit.
    pub round: Round,
    /// Pairs.
    pub len: u32,
    /// The bits of this pass alone, at most eight.
    pub digit: Bits,
}

/// Where a pass keeps what in shared memory, in bytes.
pub(crate) struct SharedLayout;

impl SharedLayout {
    /// `u64[TILE]`: the keys of the tile, sorted.
    pub(crate) const KEYS: u32 = 0;
    /// `u32[TILE]`: their values.
    pub(crate) const VALUES: u32 = Self::KEYS + TILE * size_of::<u64>() as u32;
    /// `u32[WARPS][RADIX]`: pairs of each digit in each warp; then where in the tile the next of these goes.
    pub(crate) const COUNTERS: u32 = Self::VALUES + TILE * size_of::<u32>() as u32;
    /// `u32[RADIX]`: what to add to a place in the tile for the place in the sorted array.
    pub(crate) const SHIFTS: u32 = Self::COUNTERS + WARPS * RADIX * size_of::<u32>() as u32;
    /// `u32[WARPS]`: pairs of the digits that each warp owns.
    pub(crate) const SUMS: u32 = Self::SHIFTS + RADIX * size_of::<u32>() as u32;
    /// `u32`: the number of the tile.
    pub(crate) const SLOT: u32 = Self::SUMS + WARPS * size_of::<u32>() as u32;
    /// All of it.
    #[cfg(not(target_arch = "nvptx64"))]
    pub(crate) const BYTES: u32 = Self::SLOT + size_of::<u32>() as u32;
}
