//! Distances of a batch of queries to rows named by id: the inner loop of every search, as kernels of their own.
//!
//! A *tile* of 4, 8, 16 or 32 neighbouring lanes shares a row. Two ways to read it:
//!
//! - [`Loads::Tiled`]: neighbouring lanes read neighbouring coordinates, one a load;
//! - [`Loads::Chunked`]: each lane reads 16 bytes at once, neighbouring lanes neighbouring chunks.
//!
//! A warp has several rows in flight, as many as make eight loads a lane: on random rows the rate is what is in
//! flight over the time of one trip to memory. The sum of a row is the same whatever the launch: each lane adds up
//! what it reads in rising order, and the lanes of a tile are added as a tree, so its bits depend on the strategy and
//! the width of the tile alone. Sums of bytes are exact before one rounding.

#[cfg(feature = "kernels")]
mod body;
#[cfg(feature = "kernels")]
mod entries;
#[cfg(not(target_arch = "nvptx64"))]
mod plan;

#[cfg(not(target_arch = "nvptx64"))]
pub use plan::{Distances, Loads, Measure, TileWidth};

pub use crate::graph::NO_ROW;
use crate::{In, Out};

/// Arguments of every kernel of this family.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DistanceArgs {
    /// `[rows][row_bytes]`: rows padded to 16 bytes with zeros, at a multiple of 16. At least one.
    pub rows: In<u8>,
    /// `[queries][row_bytes]`, in the same form.
    pub queries: In<u8>,
    /// `[queries][ids_per_query]`: rows to compare each query with; [`NO_ROW`] for none.
    pub ids: In<u32>,
    /// `[queries][ids_per_query]`: what the pairs measure; infinity for [`NO_ROW`].
    pub distances: Out<f32>,
    /// Bytes from row to row, a multiple of 16.
    pub row_bytes: u32,
    /// Queries.
    pub queries_len: u32,
    /// Ids of each query.
    pub ids_per_query: u32,
}

/// Ids that one warp takes: enough to hide what it costs to begin, little enough to spread a small batch.
const IDS_A_WARP: u32 = 256;
/// Threads of a block: the fewest that leave no multiprocessor short of warps.
const BLOCK: u32 = 128;
/// Lanes of a warp.
const WARP: u32 = 32;
