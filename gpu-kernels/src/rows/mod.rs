//! Rows of tables: saved, moved to other slots, and their neighbors renamed.

#[cfg(feature = "kernels")]
mod kernel;

use crate::{DevicePtr, DevicePtrMut};
#[cfg(not(target_arch = "nvptx64"))]
use crate::{Launch, launch::kernels};

/// Arguments of [`SaveRows`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SaveArgs {
    /// `[rows]`: the vertex of each row; rows of [`NO_SLOT`](crate::graph::NO_SLOT) are not written.
    pub vertices: DevicePtr<u32>,
    /// `[slots][edges_stride]`: the adjacency table.
    pub edges: DevicePtr<u32>,
    /// `[rows][edges_stride]`: copies.
    pub ids: DevicePtrMut<u32>,
    /// Rows to copy.
    pub rows: u32,
    /// Length of a row, with padding.
    pub edges_stride: u32,
}

/// Arguments of [`MoveRows`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MoveArgs {
    /// `[slots][row_words]`: a table of any element, as words of 4 bytes.
    pub table: DevicePtrMut<u32>,
    /// `[rows]`: the slots of the rows.
    pub from: DevicePtr<u32>,
    /// `[rows]`: the slots to move them to, distinct and not in `from`.
    pub to: DevicePtr<u32>,
    /// Rows to move.
    pub rows: u32,
    /// Words of a row.
    pub row_words: u32,
}

/// Arguments of [`RenameEdges`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RenameArgs {
    /// `[kept][edges_stride]`: the adjacency table.
    pub edges: DevicePtrMut<u32>,
    /// `[slots - kept]`: the new slot of each slot from `kept` on.
    pub renamed: DevicePtr<u32>,
    /// Number of slots that remain. Neighbors in higher slots are renamed.
    pub kept: u32,
    /// Slots before the move.
    pub slots: u32,
    /// Length of a row, with padding.
    pub edges_stride: u32,
}

#[cfg(not(target_arch = "nvptx64"))]
kernels! {
    /// Copies rows of the adjacency table, which [`Publish`](crate::prune::Publish) can write back.
    SaveRows(SaveArgs) = kernel::save_rows, |args| Launch::warp_per_row(args.rows);
    /// Moves rows of a table to other slots.
    MoveRows(MoveArgs) = kernel::move_rows, |args| Launch::warp_per_row(args.rows);
    /// Renames neighbors after vertices were moved.
    RenameEdges(RenameArgs) = kernel::rename_edges, |args| Launch::warp_per_row(args.kept);
}
