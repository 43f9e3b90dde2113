//! Distances of the candidates that a search by SQ4 found, by SQ8.

use cuda_std::prelude::*;

use super::RescoreArgs;
use super::pair_distances::PairDistances;
use super::robust_prune::{warp_index, warps};
use crate::collectives::strided;
use crate::neighbor;

/// Replaces the distance of each candidate of a vertex; one block per vertex.
///
/// # Safety
/// The arguments are as the docs of their fields say.
#[inline(always)]
pub(super) unsafe fn rescore<S: PairDistances>(args: RescoreArgs) {
    let batch_index = thread::block_idx_x() as usize;
    // SAFETY: the batch has the vertex, and each of its candidates a place, which one lane reads and writes; each warp
    // is converged at every distance, where lanes without a candidate use the vertex itself.
    unsafe {
        let vertex = global::load_readonly(args.candidates.new_vertices.at(batch_index));
        let distances = S::new(&args.graph, args.form, vertex);
        let first_of_warp = warp_index() * distances.per_warp();
        let found = global::load_readonly(args.candidates.costs.at(2 * batch_index));
        let entries = args.entries.add(batch_index * args.candidates.stride as usize);
        let reference = distances.reference(vertex);
        strided(first_of_warp, found, warps() * distances.per_warp(), |first| {
            let place = first + distances.vertex_index();
            let has_candidate = distances.vertex_index() < distances.per_warp() && place < found;
            let slot =
                if has_candidate { neighbor::slot(global::load(entries.at(place as usize))) } else { vertex };
            let distance = distances.distance(&reference, slot);
            if has_candidate {
                global::store(entries.at(place as usize), neighbor::entry(distance, slot));
            }
        });
    }
}
