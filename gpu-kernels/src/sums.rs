//! Sums of products by a warp, in the order of `jasper_core::distance`. Each lane takes every 32nd coordinate.

use cuda_std::prelude::*;

use crate::WARP_SIZE;
use crate::collectives::strided;

/// Number of partial sums of a warp. The rows of all buffers here are padded to a multiple of it.
const PARTIAL_SUMS: u32 = 64;

/// The 64 partial sums of a warp. Coordinate `i` is added to partial sum `i % 64`; lane `l` holds partial sums `l` and
/// `l + 32`.
#[derive(Clone, Copy)]
pub(crate) struct Sum([f32; 2]);

impl Sum {
    /// The empty sum.
    pub(crate) const ZERO: Self = Self([0.0; 2]);

    /// Adds the product of a coordinate to the first or the second partial sum of this lane, by `half`.
    pub(crate) fn add(&mut self, half: usize, a: f32, b: f32) {
        self.0[half] = math::fma(a, b, self.0[half]);
    }

    /// The whole sum, in every lane.
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together.
    pub(crate) unsafe fn total(self) -> f32 {
        // SAFETY: upheld by the caller.
        unsafe {
            let [low, high] = self.0;
            // The CPU has four registers of sixteen lanes, and adds pairs of them, then the two pairs, then halves of
            // the lanes.
            let low = low + warp::shuffle_xor(low, 16);
            let high = high + warp::shuffle_xor(high, 16);
            warp::sum(low + high, 16)
        }
    }
}

/// Calls `visit` with 0 or 1 and the index of this lane's first or second coordinate, for every 64 of the first `len`
/// coordinates. The last indices may be past `len`.
pub(crate) fn for_coordinates(len: u32, mut visit: impl FnMut(usize, u32)) {
    strided(warp::lane_id(), len.next_multiple_of(PARTIAL_SUMS), PARTIAL_SUMS, |i| {
        visit(0, i);
        visit(1, i + WARP_SIZE);
    });
}
