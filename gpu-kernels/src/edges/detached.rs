//! Finds the vertices that new rows cut off from their parents in the spanning tree.

use cuda_std::prelude::*;

use super::FindDetachedArgs;
use crate::collectives::{row_of_warp, warp_reserve, warp_stride};
use crate::graph::NO_SLOT;

/// Finds the children of each vertex that its new row has no edge to; one warp per row.
///
/// # Safety
/// The arguments are as the docs of their fields say.
#[kernel(max_threads = 256)]
pub unsafe fn find_detached(args: FindDetachedArgs) {
    let row = row_of_warp();
    if row >= args.rows_len as usize {
        return;
    }
    // SAFETY: the row exists; its vertex is a slot, which has a row of edges to slots, which have parents; each warp is
    // converged at the collectives. Each slot has one parent, whose row is there once, so the list has room.
    unsafe {
        let vertex = global::load_readonly(args.row_vertices.at(row));
        if vertex == NO_SLOT {
            return;
        }
        let stride = args.edges_stride as usize;
        let (old, new) = (args.edges.add(vertex as usize * stride), args.neighbors.add(row * stride));
        warp_stride(args.edges_stride, |place| {
            let slot = global::load_readonly(old.at(place as usize));
            let is_child = slot != NO_SLOT && global::load_readonly(args.parents.at(slot as usize)) == vertex;
            let is_detached =
                is_child && (0..stride).all(|place| global::load_readonly(new.at(place)) != slot);
            let lanes = warp::ballot(is_detached);
            if lanes != 0 {
                let place = warp_reserve(lanes, |count| atomic::add(args.detached_len.at(0), count));
                if is_detached {
                    global::store(args.detached.at(place as usize), slot);
                }
            }
        });
    }
}
