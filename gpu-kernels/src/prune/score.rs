//! Scores vertices against one vertex.

use cuda_std::prelude::*;

use super::robust_prune::{warp_number, warps};
use super::space::Space;

/// Computes the distances of the vertices `id(0..len)` to `vertex`, and calls `emit` with the index, id and distance of
/// each. Whole block; a barrier.
///
/// # Safety
/// The ids and `vertex` name vertices.
#[inline(always)]
pub(super) unsafe fn score<S: Space>(
    space: &S,
    vertex: u32,
    len: u32,
    id: impl Fn(u32) -> u32,
    emit: impl Fn(u32, u32, f32),
) {
    let mut first = warp_number() * S::PER_WARP;
    // SAFETY: whole warps compute every distance; lanes without a vertex use `vertex` itself.
    unsafe {
        let reference = space.reference(vertex);
        while first < len {
            let index = first + S::slot();
            let is_scored = S::slot() < S::PER_WARP && index < len;
            let id = if is_scored { id(index) } else { vertex };
            let distance = space.distance(&reference, id);
            if is_scored {
                emit(index, id, distance);
            }
            first += warps() * S::PER_WARP;
        }
        thread::sync_threads();
    }
}
