//! Traversals of the adjacency: reachability, live vertices with deleted neighbors, and vertices with room for a link.
//!
//! | module | holds |
//! | --- | --- |
//! | `reach` | one step of a breadth-first search |
//! | `rows_to_repair` | finds live vertices with deleted neighbors |
//! | `room` | finds the nearest reached vertex with room for a link |
//! | `plan` | [`Reach`], [`FindRowsToRepair`] and [`FindRoom`]: their grids |
//! | `reached` | [`Reached`]: the breadth-first search, one launch per level |

#[cfg(not(target_arch = "nvptx64"))]
mod plan;
#[cfg(feature = "kernels")]
mod reach;
#[cfg(not(target_arch = "nvptx64"))]
mod reached;
#[cfg(feature = "kernels")]
mod room;
#[cfg(feature = "kernels")]
mod rows_to_repair;

#[cfg(not(target_arch = "nvptx64"))]
pub use plan::{FindRoom, FindRowsToRepair, Reach};
#[cfg(not(target_arch = "nvptx64"))]
pub use reached::Reached;

use crate::{DevicePtr, DevicePtrMut};

/// Arguments of one step of a breadth-first search.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReachArgs {
    /// `[vertices][links_stride]`: links, then [`NO_ROW`](crate::graph::NO_ROW).
    pub links: DevicePtr<u32>,
    /// `[frontier_len]`: the vertices to expand.
    pub frontier: DevicePtr<u32>,
    /// `[words]`: the set of reached slots, to which the neighbors are added.
    pub reached: DevicePtrMut<u32>,
    /// `[slots]`: the queue, to which new slots are appended. The frontier is a part of it, or elsewhere.
    pub queue: DevicePtrMut<u32>,
    /// `[1]`: the length of the queue.
    pub queue_len: DevicePtrMut<u32>,
    /// Vertices to expand.
    pub frontier_len: u32,
    /// Slots. Links to others are ignored.
    pub slots: u32,
    /// Places for links of each vertex, a multiple of 32.
    pub links_stride: u32,
}

/// Arguments of the kernel that finds live vertices with deleted neighbors.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RowsToRepairArgs {
    /// `[slots][links_stride]`: links, then [`NO_ROW`](crate::graph::NO_ROW).
    pub links: DevicePtr<u32>,
    /// `[words]`: a bit per slot: whether it is live.
    pub live: DevicePtr<u32>,
    /// `[words]`: a bit per slot: whether it is live and has a neighbor that is not.
    pub rows_to_repair: DevicePtrMut<u32>,
    /// Slots.
    pub slots: u32,
    /// Places for links of each, a multiple of 32.
    pub links_stride: u32,
}

/// Arguments of the kernel that finds room for links to unreachable vertices.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RoomArgs {
    /// `[vertices][links_stride]`: links, then [`NO_ROW`](crate::graph::NO_ROW).
    pub links: DevicePtr<u32>,
    /// `[words]`: a bit per slot: whether it is reached.
    pub reached: DevicePtr<u32>,
    /// `[lists][candidates_stride]`: keys of vertices, in any order.
    pub candidates: DevicePtr<u64>,
    /// `[lists][2]`: the number of candidates, and a number that is not read.
    pub work: DevicePtr<u32>,
    /// `[lists]`: other than [`NO_ROW`](crate::graph::NO_ROW) for vertices to skip.
    pub identical: DevicePtr<u32>,
    /// `[lists]`: the key of the nearest candidate that is reached and has fewer than `max_degree` links, all ones if there is
    /// none.
    pub nearest: DevicePtrMut<u64>,
    /// Unreachable vertices.
    pub lists: u32,
    /// Places for candidates of each.
    pub candidates_stride: u32,
    /// Places for links of each vertex.
    pub links_stride: u32,
    /// Most links of a vertex.
    pub max_degree: u32,
}
