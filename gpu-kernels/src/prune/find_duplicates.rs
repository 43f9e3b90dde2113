//! Finds new vertices whose vector is already in the graph.

use cuda_std::prelude::*;

use super::FindDuplicatesArgs;
use crate::WARP_SIZE;
use crate::collectives::{row_of_warp, strided, warp_stride};
use crate::graph::NO_SLOT;
use crate::neighbor;

/// Compares the vector of each new vertex with those of its candidates; one warp per vertex.
///
/// Each lane compares the first 16 bytes of one candidate. The warp then compares the whole vectors of the few that
/// agree.
///
/// # Safety
/// The arguments are as the docs of their fields say.
#[kernel(max_threads = 256, min_blocks = 3)]
pub unsafe fn find_duplicates(args: FindDuplicatesArgs) {
    let batch_index = row_of_warp();
    if batch_index >= args.candidates.vertices_len as usize {
        return;
    }
    let candidates = args.candidates.entries_of(batch_index);
    // SAFETY: the batch has the vertex; each warp is converged at the collectives.
    unsafe {
        let vertex = global::load_readonly(args.candidates.new_vertices.at(batch_index));
        let found = global::load_readonly(args.candidates.costs.at(2 * batch_index));
        let prefix = |slot: u32| -> [u32; 4] {
            global::load_readonly(args.rows.at(slot as usize * args.row_bytes as usize).cast())
        };
        let vertex_prefix = prefix(vertex);
        let mut duplicate_of = NO_SLOT;
        strided(0, found, WARP_SIZE, |first| {
            let place = first + warp::lane_id();
            let slot = if place < found {
                neighbor::slot(global::load_readonly(candidates.at(place as usize)))
            } else {
                vertex
            };
            let is_equal = slot != vertex && prefix(slot) == vertex_prefix;
            let mut lanes = warp::ballot(is_equal);
            while lanes != 0 {
                let lane = lanes.trailing_zeros();
                let slot = warp::shuffle(slot, lane);
                lanes &= lanes - 1;
                if rows_equal(&args, vertex, slot) {
                    duplicate_of = duplicate_of.min(slot);
                }
            }
        });
        if warp::lane_id() == 0 {
            global::store(args.duplicate_of.at(batch_index), duplicate_of);
        }
    }
}

/// Whether two vertices have the same vector. Called by the whole warp.
///
/// # Safety
/// The vertices exist.
unsafe fn rows_equal(args: &FindDuplicatesArgs, one: u32, other: u32) -> bool {
    let row = |slot: u32| args.rows.add(slot as usize * args.row_bytes as usize);
    let mut equal = true;
    // SAFETY: units are within the rows, which are at multiples of 16; the warp is converged at the vote.
    unsafe {
        warp_stride(args.row_bytes / 16, |unit| {
            let [one, other]: [[u32; 4]; 2] =
                [one, other].map(|slot| global::load_readonly(row(slot).cast().at(unit as usize)));
            equal &= one == other;
        });
        warp::all(equal)
    }
}
