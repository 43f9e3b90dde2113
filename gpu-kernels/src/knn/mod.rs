//! Exact nearest neighbors, by brute force: a product of two matrices (GEMM), the queries and the rows, whose form
//! keeps the nearest rows of each query.
//!
//! ```text
//! scan: for each tile of 128 queries and each segment of the rows, in parallel:
//!     for each tile of 128 rows of the segment:
//!         scores, which order rows as distances do, <- the product of both tiles       (registers)
//!         add scores below the last wanted entry of a query to its pending entries     (shared memory)
//!         merge pending entries into the sorted lists when a query has many            (global memory)
//!         tell other segments the last wanted entry of the query                       (global memory)
//! rank: for each query, in parallel:
//!     merge its lists of all segments, compute distances in f64, write the nearest k by (distance, row)
//! ```
//!
//! [`exact_knn`] launches both. [`nearest_slots`] searches some slots of a graph instead: it gathers their rows, scans
//! them, and reranks the candidates with a [search](crate::search) kernel, so its results are those of any other search.
//!
//! What matters for speed, and why the results are those of the CPU:
//!
//! 1. *There is no matrix of distances.* Each thread keeps 64 sums in registers, and a block writes its lists only. Beyond
//!    the first `wanted` entries, a list depends on the order of the blocks, and is not read.
//! 2. *Bytes and f16 are multiplied by tensor cores.* Sums of bytes, and so their L2 and inner product scores, are exact
//!    integers. L2 scores of f16 are computed from products by [`nearest_slots`] only, because products cancel digits.
//! 3. *Other scores are f32*, and cannot tell distances apart that agree to about six digits. Lists therefore hold 2 k
//!    entries, and the ranking sorts them by exact distance. If more than k rows differ from the k-th by less than
//!    rounding, one of them may be missed.

mod kernels;

cfg_if! { if #[cfg(feature = "kernels")] {
    mod candidates;
    mod exact;
    mod list;
    mod matrix_tile;
    mod product;
    mod rank;
    mod scan;
    mod score;
    mod tensor_core_product;
    mod thread_product;
    mod top_lists;
} }

cfg_if! { if #[cfg(not(target_arch = "nvptx64"))] {
    mod launches;
    mod nearest_slots;
    mod results;
    mod sequence;

    pub use launches::{ListCandidates, Rank, Scan};
    pub use nearest_slots::{ProductScratch, nearest_slots};
    pub use results::KnnResults;
    pub use sequence::{MAX_K, exact_knn, scratch_bytes};
} }

use crate::{DevicePtr, DevicePtrMut, WARP_SIZE};

/// Arguments of the scan.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ScanArgs {
    /// `[rows_len][row_bytes]`: rows padded with zeros to a multiple of 16 bytes, at a multiple of 16.
    pub rows: DevicePtr<u8>,
    /// `[queries_len][row_bytes]`, padded likewise.
    pub queries: DevicePtr<u8>,
    /// `[segments][queries_len][list_len]`: score and row, ascending, then all ones.
    pub lists: DevicePtrMut<u64>,
    /// Bytes from row to row, a multiple of 16.
    pub row_bytes: u32,
    /// Number of rows.
    pub rows_len: u32,
    /// Number of queries.
    pub queries_len: u32,
    /// The number of the first row. If it is above 0, the launch adds to the lists of the rows before it.
    pub first_row: u32,
    /// Rows of a segment, a multiple of 128.
    pub segment_rows: u32,
    /// Best rows that are wanted of each query, of all segments together. Lists have as many entries, rounded up to a
    /// multiple of 32; later entries may be missing.
    pub wanted: u32,
    /// `[queries_len]`: the smallest `wanted`-th score that any segment has found; all ones at first. No segment keeps
    /// entries above it.
    pub bounds: DevicePtrMut<u32>,
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
    /// `[queries_len][k]`: rows, nearest first, then [`NO_SLOT`](crate::graph::NO_SLOT).
    pub ids: DevicePtrMut<u32>,
    /// `[queries_len][k]`: the bits of their distances as f64, then those of infinity.
    pub distances: DevicePtrMut<u64>,
    /// Bytes from row to row, a multiple of 16.
    pub row_bytes: u32,
    /// Coordinates of a row.
    pub dimension: u32,
    /// Number of queries.
    pub queries_len: u32,
    /// Lists of each query.
    pub segments: u32,
    /// As in [`ScanArgs`].
    pub wanted: u32,
    /// Neighbors per query, at most `wanted`.
    pub k: u32,
}

/// Arguments of [`ListCandidates`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ListCandidatesArgs {
    /// As in [`ScanArgs`].
    pub lists: DevicePtr<u64>,
    /// `[rows]`: the slot of each row.
    pub slots: DevicePtr<u32>,
    /// `[queries_len][wanted]`: the slots of the nearest rows, then [`NO_SLOT`](crate::graph::NO_SLOT).
    pub candidates: DevicePtrMut<u32>,
    /// Number of queries.
    pub queries_len: u32,
    /// Lists of each query.
    pub segments: u32,
    /// As in [`ScanArgs`].
    pub wanted: u32,
}

/// The length of a list of which `wanted` entries are wanted.
const fn list_len(wanted: u32) -> u32 {
    wanted.next_multiple_of(WARP_SIZE)
}

/// Queries, and rows, of a tile.
const TILE: u32 = 128;
/// Threads per block of the scan.
const SCAN_THREADS: u32 = 256;
/// Threads per block of the ranking.
const RANK_THREADS: u32 = 128;

/// Words of each vector in shared memory at once.
const DEPTH: u32 = 16;
/// Words of one tile of vectors.
const TILE_WORDS: u32 = DEPTH * TILE;
/// Pending entries of a query. A round begins with at most half of them, and adds at most as many.
const MAX_PENDING: u32 = 2 * WARP_SIZE;
