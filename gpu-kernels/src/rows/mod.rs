//! Rows of tables: saved, moved to other slots, and their links renamed.
//!
//! | module | holds |
//! | --- | --- |
//! | `kernel` | the kernels, with a warp per row |
//! | `plan` | [`SaveRows`], [`MoveRows`] and [`RenameLinks`]: their launches |

#[cfg(feature = "kernels")]
mod kernel;
#[cfg(not(target_arch = "nvptx64"))]
mod plan;

#[cfg(feature = "kernels")]
pub(crate) use kernel::row_of_warp;
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use plan::warp_per_row;
#[cfg(not(target_arch = "nvptx64"))]
pub use plan::{MoveRows, RenameLinks, SaveRows};

use crate::{DevicePtr, DevicePtrMut};

/// Rows of a block, with a warp each.
#[cfg(not(target_arch = "nvptx64"))]
const ROWS_PER_BLOCK: u32 = 8;

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

/// Arguments of [`MoveRows`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MoveArgs {
    /// `[slots][row_words]`: a table of any element, as words of 4 bytes.
    pub table: DevicePtrMut<u32>,
    /// `[rows]`: the slots of the rows.
    pub from: DevicePtr<u32>,
    /// `[rows]`: the slots to move them to: distinct, and none of those of the rows.
    pub to: DevicePtr<u32>,
    /// Rows to move.
    pub rows: u32,
    /// Words of a row.
    pub row_words: u32,
}

/// Arguments of [`RenameLinks`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RenameArgs {
    /// `[kept][links_stride]`: the links of the graph.
    pub links: DevicePtrMut<u32>,
    /// `[slots - kept]`: the new slot of each slot from `kept` on.
    pub renamed: DevicePtr<u32>,
    /// Slots that remain: links to other slots are renamed.
    pub kept: u32,
    /// Slots before the move.
    pub slots: u32,
    /// Places for links of each.
    pub links_stride: u32,
}
