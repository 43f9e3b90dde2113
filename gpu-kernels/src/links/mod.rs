//! Where links lead: what can be reached from somewhere, and which vertices lead to slots that are not live.
//!
//! | module | holds |
//! | --- | --- |
//! | `reach` | the kernel that goes one edge further |
//! | `touched` | the kernel that looks for vertices that deletes have touched |
//! | `plan` | [`Reach`] and [`FindTouched`]: the grids of both |
//! | `reached` | [`Reached`]: one launch after another, until nothing new is reached |

#[cfg(not(target_arch = "nvptx64"))]
mod plan;
#[cfg(feature = "kernels")]
mod reach;
#[cfg(not(target_arch = "nvptx64"))]
mod reached;
#[cfg(feature = "kernels")]
mod touched;

#[cfg(not(target_arch = "nvptx64"))]
pub use plan::{FindTouched, Reach};
#[cfg(not(target_arch = "nvptx64"))]
pub use reached::Reached;

use crate::{In, Out};

/// What a step outwards takes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReachArgs {
    /// `[vertices][links_stride]`: links, then [`NO_ROW`](crate::graph::NO_ROW).
    pub links: In<u32>,
    /// `[frontier_len]`: the vertices whose links are followed.
    pub frontier: In<u32>,
    /// `[words]`: a bit for each slot that is reached. Those that links lead to are added.
    pub reached: Out<u32>,
    /// `[slots]`: all that were added, in the order in which they were. The frontier is a part of it, or elsewhere.
    pub queue: Out<u32>,
    /// `[1]`: how many are in the queue.
    pub queue_len: Out<u32>,
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
pub struct TouchedArgs {
    /// `[slots][links_stride]`: links, then [`NO_ROW`](crate::graph::NO_ROW).
    pub links: In<u32>,
    /// `[words]`: a bit for each slot: whether it is live.
    pub live: In<u32>,
    /// `[words]`: a bit for each slot: whether it is live and has a link to one that is not.
    pub touched: Out<u32>,
    /// Slots.
    pub slots: u32,
    /// Places for links of each, a multiple of 32.
    pub links_stride: u32,
}
