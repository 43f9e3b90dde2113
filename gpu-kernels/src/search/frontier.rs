//! What a search knows and wants next: the nearest entries of everything scored, each expanded once.

use cuda_std::prelude::*;

use crate::collectives::lanes_below;

/// The key of no entry: behind all others, and never picked.
pub(super) const NO_KEY: u64 = u64::MAX - 1;
/// Lanes of a warp.
pub(super) const WARP: u32 = warp::WARP_SIZE;

/// Whether both are the same vertex, visited or not.
#[inline(always)]
pub(super) fn is_same(a: u64, b: u64) -> bool {
    (a ^ b) >> 1 == 0
}

/// At most `width` entries: the nearest of everything that was offered, rising and distinct. One warp has it; all its
/// lanes come to every call, with what is not of one lane the same in all.
pub(super) trait Frontier: Sized {
    /// An empty frontier of `width` entries, over shared memory as large as the plan says.
    ///
    /// # Safety
    /// Whole warp, which alone uses the memory.
    unsafe fn new(width: u32, memory: Shared<u64>) -> Self;

    /// Takes in a key of each lane, [`NO_KEY`] for none. Keys that are there already change nothing, nor do keys that
    /// another lane brings as well.
    ///
    /// # Safety
    /// Whole warp.
    unsafe fn offer(&mut self, key: u64);

    /// The nearest entry that is not visited, which is marked; [`NO_KEY`] if there is none.
    ///
    /// # Safety
    /// Whole warp.
    unsafe fn pick(&mut self) -> u64;

    /// Takes in what waits, for [`Self::entry`].
    ///
    /// # Safety
    /// Whole warp.
    unsafe fn settle(&mut self);

    /// Entry `index`, which may differ from lane to lane; [`NO_KEY`] behind the last. [`Self::settle`] must
    /// have been called since the last offer.
    ///
    /// # Safety
    /// Whole warp.
    unsafe fn entry(&self, index: u32) -> u64;
}

/// The keys of the lanes in rising order: a bitonic sort.
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

/// Whether a lane below brings the same vertex.
///
/// # Safety
/// Whole warp.
#[inline(always)]
pub(super) unsafe fn is_brought_before(key: u64) -> bool {
    // SAFETY: the whole warp comes here. The id tells the vertex, and lanes without one have the same.
    unsafe { warp::warp_match_any(warp::FULL_MASK, key as u32) & lanes_below() != 0 }
}
