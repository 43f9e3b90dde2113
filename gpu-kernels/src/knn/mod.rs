//! Exact nearest neighbors: every query against every row.
//!
//! [`exact_knn`] launches two kernels:
//!
//! 1. *Scan*: a block takes a tile of queries and a segment of the rows, which it walks a tile at a time. The product
//!    of two tiles stays in registers, 64 sums a thread: of bytes by the tensor cores, of floats by the arithmetic of
//!    each thread. Scores that beat the worst of a query's list are kept in shared memory, and merged into the list
//!    when some query has many. There is no matrix of distances: a block writes its lists of a few more than k entries
//!    and nothing else.
//! 2. *Rank*: a block takes one query, picks the best of its lists of all segments, computes their distances in f64 the
//!    way the CPU does, and writes the best k in order of (distance, id).
//!
//! [`nearest_slots`] searches some slots of a table instead: it gathers their rows, scans them, and has the candidates of
//! each query ranked by the [search](crate::search) kernels, so that the results are those of any other search.
//!
//! Scores are exact integers for bytes (L2, inner product). Elsewhere they are f32 and can confuse rows whose distances
//! agree to about six digits: lists are then twice as long as asked for, so that rank has such rows to choose from.
//! More rows than k that agree so far with the k-th, and are not equal, would be too many.

#[cfg(feature = "kernels")]
mod candidates;
#[cfg(feature = "kernels")]
mod entries;
#[cfg(feature = "kernels")]
mod exact;
#[cfg(feature = "kernels")]
mod list;
#[cfg(not(target_arch = "nvptx64"))]
mod nearest_slots;
#[cfg(not(target_arch = "nvptx64"))]
mod plan;
#[cfg(feature = "kernels")]
mod product;
#[cfg(feature = "kernels")]
mod rank;
#[cfg(not(target_arch = "nvptx64"))]
mod results;
#[cfg(feature = "kernels")]
mod scan;
#[cfg(feature = "kernels")]
mod score;
#[cfg(not(target_arch = "nvptx64"))]
mod sequence;
#[cfg(feature = "kernels")]
mod tensor_core_product;
#[cfg(feature = "kernels")]
mod thread_product;
#[cfg(feature = "kernels")]
mod tile;
#[cfg(feature = "kernels")]
mod top_lists;

#[cfg(not(target_arch = "nvptx64"))]
pub use nearest_slots::{ProductScratch, nearest_slots};
#[cfg(not(target_arch = "nvptx64"))]
pub use plan::{ListCandidates, Rank, Scan};
#[cfg(not(target_arch = "nvptx64"))]
pub use results::KnnResults;
#[cfg(not(target_arch = "nvptx64"))]
pub use sequence::{MAX_K, exact_knn, scratch_bytes};

use crate::{DevicePtr, DevicePtrMut, WARP_SIZE};

/// Arguments of the scan.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ScanArgs {
    /// `[rows_len][row_bytes]`: rows padded to 16 bytes with zeros, at a multiple of 16.
    pub rows: DevicePtr<u8>,
    /// `[queries_len][row_bytes]`, in the same form.
    pub queries: DevicePtr<u8>,
    /// `[segments][queries_len][list_len]`: score and row, rising; all ones after the last.
    pub lists: DevicePtrMut<u64>,
    /// Bytes from row to row, a multiple of 16.
    pub row_bytes: u32,
    /// Number of rows.
    pub rows_len: u32,
    /// Number of queries.
    pub queries_len: u32,
    /// The number of the first row. Unless it is 0, the lists hold the best of rows before it, and are continued.
    pub first_row: u32,
    /// Rows of a segment, a multiple of 128.
    pub segment_rows: u32,
    /// Entries of a list, a multiple of 32.
    pub list_len: u32,
}

/// Arguments of the ranking.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RankArgs {
    /// As in [`ScanArgs`].
    pub rows: DevicePtr<u8>,
    /// As in [`ScanArgs`].
    pub queries: DevicePtr<u8>,
    /// As in [`ScanArgs`].
    pub lists: DevicePtr<u64>,
    /// `[queries_len][k]`: rows, the nearest first; [`NO_SLOT`](crate::graph::NO_SLOT) after the last.
    pub ids: DevicePtrMut<u32>,
    /// `[queries_len][k]`: the bits of their distances as f64; infinity after the last.
    pub distances: DevicePtrMut<u64>,
    /// Bytes from row to row, a multiple of 16.
    pub row_bytes: u32,
    /// Coordinates of a row.
    pub dimension: u32,
    /// Number of queries.
    pub queries_len: u32,
    /// Lists of each query.
    pub segments: u32,
    /// Entries of a list, a multiple of 32.
    pub list_len: u32,
    /// Neighbors asked for, at most `list_len`.
    pub k: u32,
}

/// Arguments of [`ListCandidates`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CandidateArgs {
    /// As in [`ScanArgs`].
    pub lists: DevicePtr<u64>,
    /// `[rows]`: the slot of each row.
    pub slots: DevicePtr<u32>,
    /// `[queries_len][list_len]`: the slots of the best rows; then [`NO_SLOT`](crate::graph::NO_SLOT).
    pub candidates: DevicePtrMut<u32>,
    /// Number of queries.
    pub queries_len: u32,
    /// Lists of each query.
    pub segments: u32,
    /// Entries of a list, a multiple of 32.
    pub list_len: u32,
}

/// Queries, and rows, of a tile.
const TILE: u32 = 128;
/// Threads of a block of the scan.
const SCAN_THREADS: u32 = 256;
/// Threads of a block of the ranking.
const RANK_THREADS: u32 = 128;

/// Words of each vector that are in shared memory at once.
const DEPTH: u32 = 16;
/// Words of one tile of vectors.
const TILE_WORDS: u32 = DEPTH * TILE;
/// Entries that can be pending for a query's list: half of them before a round, half from that round.
const MAX_PENDING: u32 = 2 * WARP_SIZE;
