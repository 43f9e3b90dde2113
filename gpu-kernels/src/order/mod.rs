//! The order in which the queries of a large batch are searched: those that start near each other at about the same
//! time, so that the L2 cache holds what they read. Results do not depend on it.
//!
//! ```text
//! nearest[query] = the nearest of a few start points      a search that expands nothing
//! cell           = hash(nearest[query])
//! place[query]   = counts[cell]++                         `count_cells`
//! begins         = exclusive prefix sums of counts
//! order[begins[cell] + place[query]] = query              `place_queries`
//! ```
//!
//! This is a counting sort by cell. The order within a cell is that of the atomic additions, which may differ from
//! launch to launch.
//!
//! | module | holds |
//! | --- | --- |
//! | `kernel` | the kernels |
//! | `queries` | [`QueryOrder`]: the memory and the launches |

#[cfg(feature = "kernels")]
mod kernel;

cfg_if! { if #[cfg(not(target_arch = "nvptx64"))] {
    mod queries;

    pub use queries::QueryOrder;
    use crate::LaunchConfig;
    use crate::launch::kernels;
} }

use crate::{DevicePtr, DevicePtrMut};

/// Cells, and threads of a block. There are several times as many as start points, so that few of these share a cell.
pub(crate) const CELLS: u32 = 256;

/// The cell of the queries that are nearest to a start point: a hash of its slot, or of
/// [`NO_SLOT`](crate::graph::NO_SLOT) if no start point has a distance.
#[cfg(feature = "kernels")]
pub(crate) fn cell_of(slot: u32) -> u32 {
    slot.wrapping_mul(0x9E37_79B1) >> (u32::BITS - CELLS.ilog2())
}

/// Arguments of [`CountCells`] and [`PlaceQueries`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OrderArgs {
    /// `[len]`: the start point nearest to each query.
    pub nearest: DevicePtr<u32>,
    /// `[256]`: the number of queries of each cell, to which the first launch adds.
    pub counts: DevicePtrMut<u32>,
    /// `[len]`: the place of each query in its cell, which the first launch writes.
    pub places: DevicePtrMut<u32>,
    /// `[len]`: the queries, cell by cell, which the second launch writes.
    pub order: DevicePtrMut<u32>,
    /// Number of queries.
    pub len: u32,
}

#[cfg(not(target_arch = "nvptx64"))]
kernels! {
    /// Counts the queries of each cell; one thread per query.
    CountCells(OrderArgs) = kernel::count_cells, |args| LaunchConfig::linear(args.len.div_ceil(CELLS), CELLS);
    /// Writes each query to its place; one thread per query.
    PlaceQueries(OrderArgs) = kernel::place_queries, |args| {
        let words = CELLS + CELLS / crate::WARP_SIZE;
        LaunchConfig::linear(args.len.div_ceil(CELLS), CELLS).with_shared(words * size_of::<u32>() as u32)
    };
}
