//! The frontier of a search: the nearest vertices found so far, and which of them are visited.

use cuda_std::prelude::*;

pub(super) use crate::WARP;
use crate::collectives::lanes_below;

/// The key of no entry: sorts last, and counts as visited.
pub(super) const NO_KEY: u64 = u64::MAX - 1;

/// Whether both are the same vertex, visited or not.
#[inline(always)]
pub(super) fn is_same(a: u64, b: u64) -> bool {
    (a ^ b) >> 1 == 0
}

/// The nearest `width` of all keys offered, in rising order and distinct. Owned by one warp: all its lanes make every call,
/// with equal arguments where an argument is not said to be per lane.
pub(super) trait Frontier: Sized {
    /// An empty frontier of `width` entries, in shared memory of the size planned.
    ///
    /// # Safety
    /// Whole warp, which alone uses the memory.
    unsafe fn new(width: u32, memory: Shared<u64>) -> Self;

    /// Inserts one key per lane, [`NO_KEY`] for none. Keys already present, and duplicates among the lanes, are dropped.
    ///
    /// # Safety
    /// Whole warp.
    unsafe fn offer(&mut self, key: u64);

    /// Marks the nearest unvisited entry as visited and returns its key; [`NO_KEY`] if there is none.
    ///
    /// # Safety
    /// Whole warp.
    unsafe fn visit_nearest(&mut self) -> u64;

    /// Inserts keys that are still buffered: needed before [`Self::entry`].
    ///
    /// # Safety
    /// Whole warp.
    unsafe fn flush(&mut self);

    /// Entry `index`, which is per lane; [`NO_KEY`] past the last. Nothing was offered since the last [`Self::flush`].
    ///
    /// # Safety
    /// Whole warp.
    unsafe fn entry(&self, index: u32) -> u64;
}

/// Sorts the keys of the lanes in rising order: a bitonic sort.
///
/// # Safety
/// Whole warp.
#[inline(always)]
pub(super) unsafe fn sorted(mut key: u64) -> u64 {
    let lane = warp::lane_id();
    let mut run = 2;
    while run <= WARP {
        let mut stride = run / 2;
        while stride > 0 {
            // SAFETY: the whole warp comes here.
            let other = unsafe { warp::warp_shuffle_xor(warp::FULL_MASK, key, stride, WARP).0 };
            let keeps_lower = (lane & run == 0) == (lane & stride == 0);
            key = if (other < key) == keeps_lower { other } else { key };
            stride /= 2;
        }
        run *= 2;
    }
    key
}

/// Whether a lane below has the same vertex.
///
/// # Safety
/// Whole warp.
#[inline(always)]
pub(super) unsafe fn is_duplicate_in_warp(key: u64) -> bool {
    // SAFETY: the whole warp comes here. The id tells the vertex, and lanes without one have the same.
    unsafe { warp::warp_match_any(warp::FULL_MASK, key as u32) & lanes_below() != 0 }
}
