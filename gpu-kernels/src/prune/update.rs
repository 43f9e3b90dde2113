//! Arguments of the kernels that only updates use.

use super::PruneArgs;
use crate::{DevicePtr, DevicePtrMut};

/// Arguments of the kernel that finds vectors that are in the graph already.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FindDuplicatesArgs {
    /// `[slots][row_bytes]`, as in [`GraphArgs`](crate::graph::GraphArgs).
    pub rows: DevicePtr<u8>,
    /// `[lists]`: the new vertices.
    pub batch: DevicePtr<u32>,
    /// `[lists][candidates_stride]`: keys in any order; the vertex itself may be among them.
    pub candidates: DevicePtr<u64>,
    /// `[lists][2]`: the number of candidates, and a number that is not read.
    pub work: DevicePtr<u32>,
    /// `[lists]`: the lowest id of a candidate with the same vector, [`NO_ROW`](crate::graph::NO_ROW) if there is none.
    pub identical: DevicePtrMut<u32>,
    /// Bytes from row to row, a multiple of 16.
    pub row_bytes: u32,
    /// Vertices.
    pub lists: u32,
    /// Places for candidates of each.
    pub candidates_stride: u32,
}

/// Arguments of the kernels that find candidates in the same batch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BatchCandidatesArgs {
    /// What every prune takes. Distances are counted as those of searches.
    pub prune: PruneArgs,
    /// `[lists]`: the vertices, distinct.
    pub batch: DevicePtr<u32>,
    /// `[lists][candidates_stride]`, as [`LinkArgs::candidates`](super::LinkArgs::candidates).
    pub candidates: DevicePtr<u64>,
    /// `[lists][2]`, as [`LinkArgs::work`](super::LinkArgs::work).
    pub work: DevicePtr<u32>,
    /// `[lists]`: other than [`NO_ROW`](crate::graph::NO_ROW) for vertices that will not be linked: they are no candidates.
    pub identical: DevicePtr<u32>,
    /// `[lists][max_degree]`: keys of the nearest peers that are nearer than the `max_degree`-th candidate, ascending, then
    /// all ones.
    pub batch_candidates: DevicePtrMut<u64>,
    /// Vertices.
    pub lists: u32,
    /// Vertices per group: consecutive vertices of the batch.
    pub group: u32,
    /// The first round compares a vertex with one of every so many of its group.
    pub every: u32,
    /// The second round, if the first found a candidate, takes so many more of each; the third, if there are two by then,
    /// takes the rest.
    pub more: u32,
    /// Vertices that are compared between selections of the nearest.
    pub at_once: u32,
    /// Places for candidates of each.
    pub candidates_stride: u32,
}

/// Arguments of the kernels that repair rows with deleted neighbors.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RepairArgs {
    /// What every prune takes.
    pub prune: PruneArgs,
    /// `[words]`: a bit per slot: whether it is live. Other neighbors are deleted.
    pub live: DevicePtr<u32>,
    /// `[rows]`: live vertices with deleted neighbors.
    pub vertices: DevicePtr<u32>,
    /// `[rows][links_stride]`: their new rows, then [`NO_ROW`](crate::graph::NO_ROW).
    pub ids: DevicePtrMut<u32>,
    /// Vertices.
    pub rows: u32,
}

/// A hash of the index of a run of [`BatchCandidatesArgs::every`] vertices; its remainder is the vertex of the run that the
/// first round takes. The same as in `jasper_vamana::PeerSampling`.
#[cfg(feature = "kernels")]
pub(super) const fn sampled(number: u32) -> u32 {
    number.wrapping_mul(0x9E37_79B1) >> 16
}
