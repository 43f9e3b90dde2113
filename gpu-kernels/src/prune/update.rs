//! What the kernels of updates take: new vertices beside each other, and rows around deleted ones.

use super::PruneArgs;
use crate::{DevicePtr, DevicePtrMut};

/// Arguments of the kernel that looks for rows that are in the graph already.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FindDuplicatesArgs {
    /// `[slots][row_bytes]`: as in [`GraphArgs`](crate::graph::GraphArgs).
    pub rows: DevicePtr<u8>,
    /// `[lists]`: the vertices.
    pub batch: DevicePtr<u32>,
    /// `[lists][candidates_stride]`: keys in any order; the vertex itself may be among them.
    pub candidates: DevicePtr<u64>,
    /// `[lists][2]`: how many candidates there are, and a number that is not looked at.
    pub work: DevicePtr<u32>,
    /// `[lists]`: the lowest candidate that has the very row of the vertex, [`NO_ROW`](crate::graph::NO_ROW) if there is
    /// none.
    pub identical: DevicePtrMut<u32>,
    /// Bytes from row to row, a multiple of 16.
    pub row_bytes: u32,
    /// Vertices.
    pub lists: u32,
    /// Places for candidates of each.
    pub candidates_stride: u32,
}

/// Arguments of the kernels that find the nearest of a batch to each of its vertices.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BatchCandidatesArgs {
    /// What every prune takes. The distances are counted as those of searches.
    pub prune: PruneArgs,
    /// `[lists]`: the vertices, distinct.
    pub batch: DevicePtr<u32>,
    /// `[lists][candidates_stride]`, as [`LinkArgs::candidates`](super::LinkArgs::candidates).
    pub candidates: DevicePtr<u64>,
    /// `[lists][2]`, as [`LinkArgs::work`](super::LinkArgs::work).
    pub work: DevicePtr<u32>,
    /// `[lists]`: other than [`NO_ROW`](crate::graph::NO_ROW) for vertices that will not be linked: nobody gets them.
    pub identical: DevicePtr<u32>,
    /// `[lists][max_degree]`: keys of the nearest of its group that are nearer than the last of `max_degree` candidates,
    /// rising, then all ones.
    pub batch_candidates: DevicePtrMut<u64>,
    /// Vertices.
    pub lists: u32,
    /// Vertices of a group: the first so many of the batch, and so on.
    pub group: u32,
    /// Of its group, a vertex is compared with one of each so many at first.
    pub every: u32,
    /// If one of those joins, it is compared with so many more of each, and if two have batch_candidates then, with the others.
    pub more: u32,
    /// Vertices that are compared before the nearest are kept.
    pub at_once: u32,
    /// Places for candidates of each.
    pub candidates_stride: u32,
}

/// Arguments of the kernels that take hidden neighbours out of rows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RepairArgs {
    /// What every prune takes.
    pub prune: PruneArgs,
    /// `[words]`: a bit for each slot: whether it is live. Neighbours that are not are hidden.
    pub live: DevicePtr<u32>,
    /// `[rows]`: live vertices with hidden neighbours.
    pub vertices: DevicePtr<u32>,
    /// `[rows][links_stride]`: what their rows become, nearest first, then [`NO_ROW`](crate::graph::NO_ROW).
    pub ids: DevicePtrMut<u32>,
    /// Vertices.
    pub rows: u32,
}

/// A number for the `number`-th [`BatchCandidatesArgs::every`] vertices of a group, of which the remainder tells whose turn is first: as
/// the CPU executor has it.
#[cfg(feature = "kernels")]
pub(super) const fn sampled(number: u32) -> u32 {
    number.wrapping_mul(0x9E37_79B1) >> 16
}
