//! Decoupled look-back, by which the blocks of one launch learn the sum of what lies before them, and the selection
//! built on it. The digit passes of [`sort`](crate::sort) use the look-back too.
//!
//! | module | holds |
//! | --- | --- |
//! | `round` | [`Round`]: the words by which the tiles of one launch tell each other their sums |
//! | `block` | sums over a warp and over a block, and the numbering of tiles |
//! | `look_back` | how a tile learns the sum of all tiles before it |
//! | `select` | the numbers that something holds of, listed: what other kernels are made of |
//! | `tiles` | [`Tiles`]: the words of one launch after another |
//! | `plan` | the launch of a selection |

#[cfg(feature = "kernels")]
pub(crate) mod block;
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
pub(crate) use plan::{select_launch, select_tiles};
pub use round::Round;
#[cfg(not(target_arch = "nvptx64"))]
pub use tiles::Tiles;

/// Threads of a block that selects.
pub(crate) const SELECT_THREADS: u32 = 256;
/// Numbers that a thread of it looks at.
pub(crate) const SELECT_NUMBERS: usize = 16;
/// Numbers that a block looks at.
pub const SELECT_TILE: u32 = SELECT_THREADS * SELECT_NUMBERS as u32;
