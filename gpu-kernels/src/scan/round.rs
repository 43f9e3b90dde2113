//! The words by which the tiles of one launch tell each other their sums.

use crate::DevicePtrMut;

/// What one launch uses of the words that all launches share.
///
/// Words and tickets are never cleared between launches. A launch is told the number of the first ticket that it
/// will draw, and a stamp of its own, larger than any before: a word with a smaller stamp says nothing in this launch.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Round {
    /// `[tiles][columns]`: the sums of a tile, each below its stamp: `stamp + 1` on the sum of the tile alone,
    /// `stamp + 2` on the sum of the tile and all tiles before it.
    pub words: DevicePtrMut<u64>,
    /// `[1]`: tickets drawn so far. Blocks number their tiles by it, in the order in which they begin.
    pub tickets: DevicePtrMut<u32>,
    /// The ticket of tile 0.
    pub first_ticket: u32,
    /// Stamps up to this one are of rounds before.
    pub stamp: u32,
    /// Tiles, one a block.
    pub tiles: u32,
}
