//! Arguments of the kernels that only updates use.

use super::{CandidateArgs, PruneArgs};
use crate::{DevicePtr, DevicePtrMut};

/// Arguments of the kernel that finds vectors that are in the graph already.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FindDuplicatesArgs {
    /// `[slots][row_bytes]`, the vectors of [`GraphArgs`](crate::graph::GraphArgs).
    pub rows: DevicePtr<u8>,
    /// Those that the searches found.
    pub candidates: CandidateArgs,
    /// `[vertices_len]`: the lowest slot of a candidate with the same vector, [`NO_SLOT`](crate::graph::NO_SLOT) if
    /// there is none.
    pub duplicate_of: DevicePtrMut<u32>,
    /// Bytes from row to row, a multiple of 16.
    pub row_bytes: u32,
}

/// Arguments of the kernels that find candidates in the same batch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FindPeersArgs {
    /// Arguments of every prune. Distances are counted as distances of searches.
    pub prune: PruneArgs,
    /// Those that the searches found.
    pub candidates: CandidateArgs,
    /// `[vertices_len]`: [`NO_SLOT`](crate::graph::NO_SLOT), or any other value for a vertex that will not be linked
    /// and is no candidate.
    pub duplicate_of: DevicePtr<u32>,
    /// `[vertices_len][max_degree]`: entries of the nearest peers that are nearer than the `max_degree`-th candidate,
    /// ascending, then all ones.
    pub peers: DevicePtrMut<u64>,
    /// The first round compares a vertex with one of each `stride` vertices of the batch.
    pub stride: u32,
    /// The second round, which runs if the first found a candidate, compares it with `second_round` more of each
    /// `stride`; the third, which runs if there are two by then, with the others.
    pub second_round: u32,
    /// Peers that are compared before the nearest so far are selected again.
    pub chunk_len: u32,
}

/// Arguments of the kernels that repair rows with deleted neighbors.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RepairArgs {
    /// Arguments of every prune.
    pub prune: PruneArgs,
    /// `[words]`: a bit per slot: whether it is live. Other neighbors are deleted.
    pub live: DevicePtr<u32>,
    /// `[rows]`: live vertices with deleted neighbors.
    pub row_vertices: DevicePtr<u32>,
    /// `[rows][edges_stride]`: the new rows of `row_vertices`, then [`NO_SLOT`](crate::graph::NO_SLOT).
    pub neighbors: DevicePtrMut<u32>,
    /// Number of vertices.
    pub rows_len: u32,
}

/// A hash of the index of a run of [`FindPeersArgs::stride`] vertices; its remainder is the vertex of the run that
/// the first round takes. `jasper_vamana::PeerSampling` uses the same hash.
#[cfg(feature = "kernels")]
pub(super) const fn run_hash(index: u32) -> u32 {
    index.wrapping_mul(0x9E37_79B1) >> 16
}
