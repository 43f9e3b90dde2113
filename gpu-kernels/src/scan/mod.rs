//! Prefix sums of u32 in one pass over memory, and the look-back that such passes rest on.
//!
//! | module | holds |
//! | --- | --- |
//! | `round` | [`Round`]: the words by which the tiles of one launch tell each other their sums |
//! | `block` | sums over a warp and over a block, and the numbering of tiles |
//! | `look_back` | how a tile learns the sum of all tiles before it |
//! | `kernel` | the scan itself |
//! | `select` | the numbers that something holds of, listed: what other kernels are made of |
//! | `tiles` | [`Tiles`]: the words of one launch after another |
//! | `plan` | [`scan`] and [`scan_in_place`]: what is launched |

#[cfg(feature = "kernels")]
pub(crate) mod block;
#[cfg(feature = "kernels")]
mod kernel;
#[cfg(feature = "kernels")]
mod look_back;
#[cfg(not(target_arch = "nvptx64"))]
mod plan;
mod round;
#[cfg(feature = "kernels")]
pub(crate) mod select;
#[cfg(not(target_arch = "nvptx64"))]
mod tiles;

#[cfg(not(target_arch = "nvptx64"))]
pub use plan::{Scan, ScanKind, scan, scan_in_place};
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use plan::{select_launch, select_tiles};
pub use round::Round;
#[cfg(not(target_arch = "nvptx64"))]
pub use tiles::Tiles;

use crate::{In, Out};

/// Threads of a block.
pub(crate) const THREADS: u32 = 256;
/// Elements of a lane that lie together, loaded by one instruction of 16 bytes.
pub(crate) const LANE_ELEMENTS: usize = 4;
/// Rows of a warp, each of [`LANE_ELEMENTS`] a lane: that many loads are in flight.
pub(crate) const ROWS: usize = 4;
/// Elements that a block sums.
pub const TILE: usize = THREADS as usize * LANE_ELEMENTS * ROWS;

/// Threads of a block that selects.
pub(crate) const SELECT_THREADS: u32 = 256;
/// Numbers that a thread of it looks at.
pub(crate) const SELECT_NUMBERS: usize = 16;
/// Numbers that a block looks at.
pub const SELECT_TILE: u32 = SELECT_THREADS * SELECT_NUMBERS as u32;

/// What a scan takes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ScanArgs {
    /// `[len]`, at a multiple of 16 bytes.
    pub input: In<u32>,
    /// `[len]`, at a multiple of 16 bytes; it may be the input.
    pub output: Out<u32>,
    /// Of as many tiles as hold `len` elements.
    pub round: Round,
    /// Elements.
    pub len: u32,
    /// All ones if an element counts in its own sum, else zero.
    pub own: u32,
}
