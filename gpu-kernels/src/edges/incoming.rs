//! Counts the edges that lead to each vertex.

use cuda_std::prelude::*;

use super::CountIncomingArgs;
use crate::bits::contains;
use crate::collectives::{row_of_warp, warp_stride};
use crate::graph::NO_SLOT;

/// Counts the edges of live vertices at their targets; one warp per slot.
///
/// # Safety
/// The arguments are as the docs of their fields say.
#[kernel(max_threads = 256)]
pub unsafe fn count_incoming(args: CountIncomingArgs) {
    let slot = row_of_warp();
    // SAFETY: the slot exists, and the row of a live one leads to slots; counts are only updated atomically.
    unsafe {
        if slot < args.slots as usize && contains(args.live, slot as u32) {
            let row = args.edges.add(slot * args.edges_stride as usize);
            warp_stride(args.edges_stride, |place| {
                let target = global::load_readonly(row.at(place as usize));
                if target != NO_SLOT {
                    atomic::add(args.incoming.at(target as usize), 1);
                }
            });
        }
    }
}
