//! Distances in f64, summed in the order of the CPU's exact k-NN, so that both give the same results.

use cuda_std::prelude::*;

use super::score::{Metric, Score};
use crate::DevicePtr;
use crate::element::DeviceElement;

/// Lanes that share a distance: the CPU has as many partial sums.
pub(super) const LANES: u32 = 8;

/// The sum of `term` over two vectors, in all eight lanes that share it. Called by the whole warp.
///
/// # Safety
/// Both vectors have `dimension` coordinates in global memory that is not written during the launch. `dimension` is the
/// same in every lane of the warp.
#[inline(always)]
unsafe fn sum<E: DeviceElement>(
    a: DevicePtr<u8>,
    b: DevicePtr<u8>,
    dimension: u32,
    term: impl Fn(f64, f64) -> f64,
) -> f64 {
    // SAFETY: coordinates are below the dimension.
    let term = |i: u32| unsafe { term(E::coordinate(a, i).into(), E::coordinate(b, i).into()) };
    let whole = dimension / LANES * LANES;
    let mut partial = 0.0;
    let mut i = 0;
    while i < whole {
        partial += term(i + warp::lane_id() % LANES);
        i += LANES;
    }
    let mut sum = 0.0;
    for lane in 0..LANES {
        // SAFETY: the whole warp comes here.
        sum += f64::from_bits(unsafe { warp::shuffle_in_segment(partial.to_bits(), lane, LANES) });
    }
    let mut tail = 0.0;
    while i < dimension {
        tail += term(i);
        i += 1;
    }
    sum + tail
}

/// The distance of two vectors, in all eight lanes that share it. Called by the whole warp.
///
/// # Safety
/// The same as for [`sum`].
#[inline(always)]
pub(super) unsafe fn distance<S: Score>(query: DevicePtr<u8>, row: DevicePtr<u8>, dimension: u32) -> f64 {
    // SAFETY: upheld by the caller.
    let dot = |a, b| unsafe { sum::<S::Element>(a, b, dimension, |x, y| x * y) };
    match S::METRIC {
        // SAFETY: upheld by the caller.
        Metric::L2 => unsafe { sum::<S::Element>(query, row, dimension, |x, y| (x - y) * (x - y)) },
        // From zero, so that no distance is -0.0.
        Metric::InnerProduct => 0.0 - dot(query, row),
        Metric::Cosine => {
            let (product, squares) = (dot(query, row), dot(query, query) * dot(row, row));
            (1.0 - product / math::sqrt_f64(squares)).max(0.0)
        }
    }
}

/// Bits that compare as unsigned integers like the distances compare, and never
/// [`NO_CANDIDATE`](crate::neighbor::NO_CANDIDATE).
#[inline(always)]
pub(super) fn ordered_bits(distance: f64) -> u64 {
    let bits = distance.to_bits();
    bits ^ ((bits as i64 >> 63) as u64 | 1 << 63)
}

/// The distance whose bits these are.
#[inline(always)]
pub(super) fn from_ordered_bits(bits: u64) -> f64 {
    f64::from_bits(bits ^ ((!bits as i64 >> 63) as u64 | 1 << 63))
}
