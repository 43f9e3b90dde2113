//! Rows of tables: copied, gathered or moved to other slots, and their neighbors renamed.

#[cfg(feature = "kernels")]
mod kernel;

use crate::{DevicePtr, DevicePtrMut};
#[cfg(not(target_arch = "nvptx64"))]
use crate::{Launch, launch::kernels};

/// Arguments of [`CopyRows`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CopyArgs {
    /// `[slots][row_words]`: a table of any element, as words of 4 bytes.
    pub from: DevicePtr<u32>,
    /// `[slots][row_words]`: the table that is written. It may be the same.
    pub to: DevicePtrMut<u32>,
    /// `[rows]`: the slot that each row is read from; rows of [`NO_SLOT`](crate::graph::NO_SLOT) are not copied. Null for
    /// the rows in order.
    pub from_slots: DevicePtr<u32>,
    /// `[rows]`: the slot that each row is written to: distinct, and in one table none of those that are read. Null for
    /// the rows in order.
    pub to_slots: DevicePtr<u32>,
    /// Rows to copy.
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
    /// Slots that remain: neighbors in other slots are renamed.
    pub kept: u32,
    /// Slots before the move.
    pub slots: u32,
    /// Length of a row, with padding.
    pub edges_stride: u32,
}

#[cfg(not(target_arch = "nvptx64"))]
kernels! {
    /// Copies rows of a table.
    CopyRows(CopyArgs) = kernel::copy_rows, |args| Launch::warp_per_row(args.rows);
    /// Renames neighbors after vertices were moved.
    RenameEdges(RenameArgs) = kernel::rename_edges, |args| Launch::warp_per_row(args.kept);
}
