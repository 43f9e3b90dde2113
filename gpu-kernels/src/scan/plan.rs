//! The launch of a selection.

use super::{Round, SELECT_THREADS, SELECT_TILE};
use crate::Launch;

/// Shared memory of a block: the number of its tile, the sum before the tile, and the sum of each warp.
const SHARED_BYTES: u32 = (2 + SELECT_THREADS / 32) * size_of::<u32>() as u32;

/// The launch of a kernel that selects, in tiles of `round`.
pub(crate) fn select_launch(round: &Round) -> Launch {
    Launch::linear(round.tiles, SELECT_THREADS).with_shared(SHARED_BYTES)
}

/// Tiles of a selection from `len` numbers. The last one writes how many were wanted, so that there must be one.
pub(crate) const fn select_tiles(len: u32) -> u32 {
    if len == 0 { 1 } else { len.div_ceil(SELECT_TILE) }
}
