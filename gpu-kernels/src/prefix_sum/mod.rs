//! Decoupled look-back and stream compaction.
//!
//! The blocks of one launch compute the sum over all earlier blocks while they run, so a prefix sum reads its input
//! once. [`sort`](crate::sort) uses the look-back for the positions of digits, [`groups`](crate::groups) and
//! [`bits`](crate::bits) use the selection. `look_back` has the algorithm.
//!
//! | module | holds |
//! | --- | --- |
//! | `look_back` | the sum of all tiles before a tile |
//! | `block` | sums over a warp and a block, and the numbering of tiles |
//! | `select` | stream compaction: lists the numbers that satisfy a predicate |
//! | `look_back_states` | [`LookBackStates`]: the status words, from one launch to the next |

use crate::DevicePtrMut;

cfg_if! { if #[cfg(feature = "kernels")] {
    pub(crate) mod block;
    mod look_back;
    pub(crate) mod select;
} }

cfg_if! { if #[cfg(not(target_arch = "nvptx64"))] {
    mod look_back_states;

    use crate::{LaunchConfig, WARP_SIZE};
    pub use look_back_states::LookBackStates;
} }

/// Threads per block of a selection.
pub(crate) const SELECT_THREADS: u32 = 256;
/// Numbers per thread.
pub(crate) const SELECT_NUMBERS: usize = 16;
/// Numbers per block.
pub const SELECT_TILE: u32 = SELECT_THREADS * SELECT_NUMBERS as u32;

/// The state of the look-back in one launch.
///
/// The index of a tile follows from the number that its block draws from an atomic counter (its *ticket*) when it
/// starts. Launches are numbered in steps of two, and a status word holds its *stamp*, the number of its launch plus 1
/// or 2. Neither words nor tickets are cleared between launches: smaller stamps are those of earlier launches.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LookBack {
    /// `[tiles][columns]`: status words. The upper half is a stamp, the lower half a sum: that of the tile alone for
    /// `stamp + 1`, that of the tile and all tiles before it for `stamp + 2`.
    pub words: DevicePtrMut<u64>,
    /// `[1]`: the number of tickets drawn.
    pub tickets: DevicePtrMut<u32>,
    /// The ticket of tile 0.
    pub first_ticket: u32,
    /// The number of the launch: the greatest stamp of earlier ones.
    pub stamp: u32,
    /// Tiles, one per block.
    pub tiles: u32,
}

#[cfg(not(target_arch = "nvptx64"))]
impl LookBack {
    /// The launch of a selection with these tiles. A block has shared memory for the index of its tile, the sum before
    /// it, and the sum of each warp.
    pub(crate) fn select_launch(&self) -> LaunchConfig {
        let words = 2 + SELECT_THREADS / WARP_SIZE;
        LaunchConfig::linear(self.tiles, SELECT_THREADS).with_shared(words * size_of::<u32>() as u32)
    }
}

/// Number of tiles of a selection from `len` numbers, at least one, which writes the count.
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) const fn select_tiles(len: u32) -> u32 {
    if len == 0 { 1 } else { len.div_ceil(SELECT_TILE) }
}
