//! Scores vertices against one vertex.

use cuda_std::prelude::*;

use super::pair_distances::PairDistances;
use super::robust_prune::{warp_number, warps};

/// Computes the distances of the vertices `id(0..len)` to `vertex`, and calls `emit` with the index, id and distance of
/// each. Called by the whole block, with a barrier.
///
/// # Safety
/// The ids and `vertex` name vertices.
#[inline(always)]
pub(super) unsafe fn score<S: PairDistances>(
    distances: &S,
    vertex: u32,
    len: u32,
    id: impl Fn(u32) -> u32,
    emit: impl Fn(u32, u32, f32),
) {
    let mut first = warp_number() * distances.per_warp();
    // SAFETY: each warp is converged at every distance; lanes without a vertex use `vertex` itself.
    unsafe {
        let reference = distances.reference(vertex);
        while first < len {
            let index = first + distances.lane_vertex();
            let is_scored = distances.lane_vertex() < distances.per_warp() && index < len;
            let id = if is_scored { id(index) } else { vertex };
            let distance = distances.distance(&reference, id);
            if is_scored {
                emit(index, id, distance);
            }
            first += warps() * distances.per_warp();
        }
        thread::sync_threads();
    }
}
