//! One step of a breadth-first search.

use cuda_std::prelude::*;

use super::ReachArgs;
use crate::bits::SLOTS_PER_WORD;
use crate::collectives::{row_of_warp, warp_reserve, warp_stride};

/// Adds the neighbors of the vertices to the reached slots, and new ones to the queue; one warp per vertex.
///
/// # Safety
/// The arguments are as the docs of their fields say.
#[kernel(max_threads = 256)]
pub unsafe fn reach(args: ReachArgs) {
    let at = row_of_warp();
    if at >= args.vertices_len as usize {
        return;
    }
    // SAFETY: the vertex is in the list, which this launch does not write; each warp is converged at the
    // collectives. Each slot is new once, so the queue has room, and one lane writes its parent.
    unsafe {
        let vertex = global::load(args.vertices.at(at));
        let row = args.edges.add(vertex as usize * args.edges_stride as usize);
        warp_stride(args.edges_stride, |place| {
            let slot = global::load_readonly(row.at(place as usize));
            let is_new = slot < args.slots && mark_reached(&args, slot);
            if is_new && !args.parents.is_null() {
                global::store(args.parents.at(slot as usize), vertex);
            }
            append(&args, slot, is_new);
        });
    }
}

/// Marks a slot as reached; returns whether it is new. A plain load is tried first: most slots are reached already, and
/// a load costs less than an atomic update.
///
/// # Safety
/// The slot exists.
unsafe fn mark_reached(args: &ReachArgs, slot: u32) -> bool {
    let (word, bit) = (args.reached.at((slot / SLOTS_PER_WORD) as usize), 1 << (slot % SLOTS_PER_WORD));
    // SAFETY: upheld by the caller; the words are only updated atomically.
    unsafe { global::load_relaxed(word) & bit == 0 && atomic::or(word, bit) & bit == 0 }
}

/// Appends the slots of the lanes with `is_new` to the queue. Called by the whole warp.
///
/// # Safety
/// There is room.
unsafe fn append(args: &ReachArgs, slot: u32, is_new: bool) {
    // SAFETY: the warp is converged here; each place is reserved once.
    unsafe {
        let lanes = warp::ballot(is_new);
        if lanes == 0 {
            return;
        }
        let place = warp_reserve(lanes, |count| atomic::add(args.queue_len.at(0), count));
        if is_new {
            global::store(args.queue.at(place as usize), slot);
        }
    }
}
