//! The kernels: one warp per row.

use cuda_std::prelude::*;

use super::{CopyRowsArgs, RenameEdgesArgs};
use crate::collectives::{row_of_warp, warp_stride};
use crate::graph::NO_SLOT;

/// Copies rows of a table.
///
/// # Safety
/// The arguments are as the docs of their fields say.
#[kernel(max_threads = 256)]
pub unsafe fn copy_rows(args: CopyRowsArgs) {
    let row = row_of_warp();
    if row >= args.rows_len as usize {
        return;
    }
    // SAFETY: a row that there is, in both tables; what one warp writes, no other reads or writes.
    unsafe {
        let [from, to] = [args.from_slots, args.to_slots].map(|slots| match slots.is_null() {
            true => row as u32,
            false => global::load_readonly(slots.at(row)),
        });
        if from == NO_SLOT {
            return;
        }
        let words = args.row_words as usize;
        let (from, to) = (args.from.add(from as usize * words), args.to.add(to as usize * words));
        warp_stride(args.row_words, |word| {
            global::store(to.at(word as usize), global::load(from.at(word as usize)))
        });
    }
}

/// Renames the neighbors of vertices that remain.
///
/// # Safety
/// The arguments are as the docs of their fields say.
#[kernel(max_threads = 256)]
pub unsafe fn rename_edges(args: RenameEdgesArgs) {
    let row = row_of_warp();
    if row >= args.kept as usize {
        return;
    }
    let edges = args.edges.add(row * args.edges_stride as usize);
    warp_stride(args.edges_stride, |place| {
        // SAFETY: the element of the row belongs to this lane alone; `renamed` has an element for each slot from `kept`
        // to `slots`.
        unsafe {
            let place = place as usize;
            let slot = global::load(edges.at(place));
            if (args.kept..args.slots).contains(&slot) {
                let renamed = global::load_readonly(args.renamed.at((slot - args.kept) as usize));
                global::store(edges.at(place), renamed);
            }
        }
    });
}
