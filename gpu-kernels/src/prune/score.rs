//! Distances of one vertex to others, as keys in shared memory.

use cuda_std::prelude::*;

use super::robust_prune::{warp_number, warps};
use super::space::Space;

/// Scores the vertices that `id` gives for the places below `len`, and hands each to `take` with its place and distance.
/// Whole block; a barrier.
///
/// # Safety
/// The ids are those of vertices, and so is `vertex`.
#[inline(always)]
pub(super) unsafe fn score<S: Space>(
    space: &S,
    vertex: u32,
    len: u32,
    id: impl Fn(u32) -> u32,
    take: impl Fn(u32, u32, f32),
) {
    let mut first = warp_number() * S::PER_WARP;
    // SAFETY: whole warps come to every distance, those without a vertex with the first one in its place.
    unsafe {
        let near = space.near(vertex);
        while first < len {
            let place = first + S::place();
            let there = S::place() < S::PER_WARP && place < len;
            let id = if there { id(place) } else { vertex };
            let distance = space.distance(&near, id);
            if there {
                take(place, id, distance);
            }
            first += warps() * S::PER_WARP;
        }
        thread::sync_threads();
    }
}
