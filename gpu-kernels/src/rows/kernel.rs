//! The kernels: one warp per row.

use cuda_std::prelude::*;

use super::{MoveArgs, RenameArgs, SaveArgs};
use crate::collectives::{row_of_warp, warp_stride};
use crate::graph::NO_SLOT;

/// Copies rows of the adjacency table.
///
/// # Safety
/// The arguments are as the docs of their fields say.
#[kernel(max_threads = 256)]
pub unsafe fn save_rows(args: SaveArgs) {
    let row = row_of_warp();
    if row >= args.rows as usize {
        return;
    }
    // SAFETY: the row and its vertex exist.
    unsafe {
        let (vertex, stride) = (global::load_readonly(args.vertices.at(row)), args.edges_stride as usize);
        if vertex != NO_SLOT {
            let (edges, ids) = (args.edges.add(vertex as usize * stride), args.ids.add(row * stride));
            warp_stride(args.edges_stride, |place| {
                let place = place as usize;
                global::store(ids.at(place), global::load_streaming(edges.at(place)));
            });
        }
    }
}

/// Moves rows to other slots.
///
/// # Safety
/// The arguments are as the docs of their fields say.
#[kernel(max_threads = 256)]
pub unsafe fn move_rows(args: MoveArgs) {
    let row = row_of_warp();
    if row >= args.rows as usize {
        return;
    }
    // SAFETY: the rows exist; no warp reads or writes what another writes.
    unsafe {
        let [from, to] = [args.from, args.to].map(|slots| {
            let slot = global::load_readonly(slots.at(row));
            args.table.add(slot as usize * args.row_words as usize)
        });
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
pub unsafe fn rename_edges(args: RenameArgs) {
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
