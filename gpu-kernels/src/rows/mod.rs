//! Rows of tables as they are: copied out, moved to other slots, and their links renamed.
//!
//! | module | holds |
//! | --- | --- |
//! | `kernel` | the kernels |
//! | `plan` | [`SaveRows`], [`MoveRows`] and [`RenameLinks`]: their grids |

#[cfg(feature = "kernels")]
mod kernel;
#[cfg(not(target_arch = "nvptx64"))]
mod plan;

#[cfg(feature = "kernels")]
pub(crate) use kernel::row_of_warp;
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use plan::warp_a_row;
#[cfg(not(target_arch = "nvptx64"))]
pub use plan::{MoveRows, RenameLinks, SaveRows};

use crate::{DevicePtr, DevicePtrMut};

/// Rows that a block works on, a warp each.
#[cfg(not(target_arch = "nvptx64"))]
const ROWS_A_BLOCK: u32 = 8;

/// What a copy of rows of links takes: what [`Publish`](crate::prune::Publish) puts back.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SaveArgs {
    /// `[rows]`: whose row it is; none of [`NO_ROW`](crate::graph::NO_ROW), whose places stay as they are.
    pub vertices: DevicePtr<u32>,
    /// `[slots][links_stride]`: the links of the graph.
    pub links: DevicePtr<u32>,
    /// `[rows][links_stride]`: copies.
    pub ids: DevicePtrMut<u32>,
    /// Rows to copy.
    pub rows: u32,
    /// Places for links of each.
    pub links_stride: u32,
}

/// What a move of rows takes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MoveArgs {
    /// `[slots][row_words]`: a table of any element, as words of 4 bytes.
    pub table: DevicePtrMut<u32>,
    /// `[rows]`: where rows are.
    pub from: DevicePtr<u32>,
    /// `[rows]`: where they go, each to a slot of its own that no row comes from.
    pub to: DevicePtr<u32>,
    /// Rows to move.
    pub rows: u32,
    /// Words of a row.
    pub row_words: u32,
}

/// What a renaming of links takes after vertices were moved.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RenameArgs {
    /// `[kept][links_stride]`: the links of the graph.
    pub links: DevicePtrMut<u32>,
    /// `[slots - kept]`: where each slot from `kept` on went.
    pub renamed: DevicePtr<u32>,
    /// Slots that remain: links to others are renamed.
    pub kept: u32,
    /// Slots there were.
    pub slots: u32,
    /// Places for links of each.
    pub links_stride: u32,
}
