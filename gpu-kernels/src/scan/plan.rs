//! The launch of a selection.

use super::{LookBack, SELECT_THREADS, SELECT_TILE};
use crate::Launch;

/// Bytes of shared memory per block: the index of its tile, the sum before it, and the sum of each warp.
const SHARED_BYTES: u32 = (2 + SELECT_THREADS / 32) * size_of::<u32>() as u32;

/// The launch of a selection with the tiles of `look_back`.
pub(crate) fn select_launch(look_back: &LookBack) -> Launch {
    Launch::linear(look_back.tiles, SELECT_THREADS).with_shared(SHARED_BYTES)
}

/// Tiles of a selection from `len` numbers: at least one, which writes the count.
pub(crate) const fn select_tiles(len: u32) -> u32 {
    if len == 0 { 1 } else { len.div_ceil(SELECT_TILE) }
}
