//! Where links lead: what can be reached from somewhere, which vertices lead to slots that are not live, and where there is
//! room for one link more.
//!
//! | module | holds |
//! | --- | --- |
//! | `reach` | the kernel that goes one edge further |
//! | `rows_to_repair` | the kernel that looks for vertices that deletes have touched |
//! | `room` | the kernel that looks for the nearest with a free place |
//! | `plan` | [`Reach`], [`FindRowsToRepair`] and [`FindRoom`]: their grids |
//! | `reached` | [`Reached`]: one launch after another, until nothing new is reached |

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

/// What a step outwards takes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReachArgs {
    /// `[vertices][links_stride]`: links, then [`NO_ROW`](crate::graph::NO_ROW).
    pub links: DevicePtr<u32>,
    /// `[frontier_len]`: the vertices whose links are followed.
    pub frontier: DevicePtr<u32>,
    /// `[words]`: a bit for each slot that is reached. Those that links lead to are added.
    pub reached: DevicePtrMut<u32>,
    /// `[slots]`: all that were added, in the order in which they were. The frontier is a part of it, or elsewhere.
    pub queue: DevicePtrMut<u32>,
    /// `[1]`: how many are in the queue.
    pub queue_len: DevicePtrMut<u32>,
    /// Vertices whose links are followed.
    pub frontier_len: u32,
    /// Slots there are. Links beyond are not followed.
    pub slots: u32,
    /// Places for links of each vertex, a multiple of 32.
    pub links_stride: u32,
}

/// What a look for vertices takes that deletes have touched.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RowsToRepairArgs {
    /// `[slots][links_stride]`: links, then [`NO_ROW`](crate::graph::NO_ROW).
    pub links: DevicePtr<u32>,
    /// `[words]`: a bit for each slot: whether it is live.
    pub live: DevicePtr<u32>,
    /// `[words]`: a bit for each slot: whether it is live and has a link to one that is not.
    pub rows_to_repair: DevicePtrMut<u32>,
    /// Slots.
    pub slots: u32,
    /// Places for links of each, a multiple of 32.
    pub links_stride: u32,
}

/// What a look for places takes, for vertices that nothing leads to.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RoomArgs {
    /// `[vertices][links_stride]`: links, then [`NO_ROW`](crate::graph::NO_ROW).
    pub links: DevicePtr<u32>,
    /// `[words]`: a bit for each slot: whether it is reached. A vertex that is looked for is not.
    pub reached: DevicePtr<u32>,
    /// `[lists][candidates_stride]`: keys of vertices, in any order.
    pub candidates: DevicePtr<u64>,
    /// `[lists][2]`: how many candidates there are, and a number that is not looked at.
    pub work: DevicePtr<u32>,
    /// `[lists]`: other than [`NO_ROW`](crate::graph::NO_ROW) for vertices that get no place.
    pub identical: DevicePtr<u32>,
    /// `[lists]`: the key of the nearest candidate that is reached and has fewer than `max_degree` links, all ones if there
    /// is none.
    pub nearest: DevicePtrMut<u64>,
    /// Vertices that are looked for.
    pub lists: u32,
    /// Places for candidates of each.
    pub candidates_stride: u32,
    /// Places for links of each vertex.
    pub links_stride: u32,
    /// Most links of a vertex.
    pub max_degree: u32,
}
