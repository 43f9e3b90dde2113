//! The kernels: one warp per row.

use cuda_std::prelude::*;

use super::{MoveArgs, RenameArgs, SaveArgs};
use crate::collectives::warp_stride;
use crate::graph::NO_ROW;

/// The number of this warp in the launch, which is that of its row.
#[inline(always)]
pub(crate) fn row_of_warp() -> usize {
    let warps = thread::block_dim_x() / warp::WARP_SIZE;
    thread::block_idx_x() as usize * warps as usize + (thread::thread_idx_x() / warp::WARP_SIZE) as usize
}

/// Copies rows of links.
///
/// # Safety
/// As the fields of the arguments say.
#[kernel(max_threads = 256)]
pub unsafe fn save_rows(args: SaveArgs) {
    let row = row_of_warp();
    if row >= args.rows as usize {
        return;
    }
    // SAFETY: a row that there is, of a vertex that there is.
    unsafe {
        let (vertex, stride) = (global::load_readonly(args.vertices.at(row)), args.links_stride as usize);
        if vertex != NO_ROW {
            let (links, ids) = (args.links.add(vertex as usize * stride), args.ids.add(row * stride));
            warp_stride(args.links_stride, |place| {
                let place = place as usize;
                global::store(ids.at(place), global::load_streaming(links.at(place)));
            });
        }
    }
}

/// Moves rows to other slots.
///
/// # Safety
/// As the fields of the arguments say.
#[kernel(max_threads = 256)]
pub unsafe fn move_rows(args: MoveArgs) {
    let row = row_of_warp();
    if row >= args.rows as usize {
        return;
    }
    // SAFETY: rows that there are; what one warp writes, no other reads or writes.
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

/// Renames the links of vertices that remain.
///
/// # Safety
/// As the fields of the arguments say.
#[kernel(max_threads = 256)]
pub unsafe fn rename_links(args: RenameArgs) {
    let row = row_of_warp();
    if row >= args.kept as usize {
        return;
    }
    let links = args.links.add(row * args.links_stride as usize);
    warp_stride(args.links_stride, |place| {
        // SAFETY: a place of the row, which no other lane has; the table is of the slots between.
        unsafe {
            let place = place as usize;
            let slot = global::load(links.at(place));
            if (args.kept..args.slots).contains(&slot) {
                let renamed = global::load_readonly(args.renamed.at((slot - args.kept) as usize));
                global::store(links.at(place), renamed);
            }
        }
    });
}
