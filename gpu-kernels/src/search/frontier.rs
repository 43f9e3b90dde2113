//! The frontier of a search: the nearest vertices found so far, and which of them are expanded. Each is an entry of 64
//! bits, which [`neighbor`](crate::neighbor) packs.

use cuda_std::constant::opaque;
use cuda_std::prelude::*;

use crate::WARP_SIZE;
use crate::collectives::lanes_below;

/// Whether both entries name the same vertex, expanded or not.
pub(super) fn is_same_vertex(a: u64, b: u64) -> bool {
    (a ^ b) >> 1 == 0
}

/// The nearest of all entries offered, in rising order and distinct. The nearest of these are the beam: only they are
/// expanded. One warp owns a frontier: all its lanes make every call, with equal arguments unless an argument is per
/// lane.
pub(super) trait Frontier: Sized {
    /// Whether the entries are in shared memory, not in registers.
    const IN_SHARED_MEMORY: bool;

    /// An empty frontier with room for `len` entries, of which the nearest `beam_width` are the beam, in shared memory
    /// of the size planned.
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together, and no other warp uses the memory.
    unsafe fn new(len: u32, beam_width: u32, memory: Shared<u64>) -> Self;

    /// Inserts one entry per lane; [`NO_ENTRY`](crate::neighbor::NO_ENTRY) stands for none. Entries already present,
    /// and duplicates among the lanes, are dropped.
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together.
    unsafe fn offer(&mut self, entry: u64);

    /// Marks the nearest unexpanded entry of the beam as expanded and returns it;
    /// [`NO_ENTRY`](crate::neighbor::NO_ENTRY) if there is none.
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together.
    unsafe fn take_nearest(&mut self) -> u64;

    /// Inserts entries that are still buffered. Must be called before [`Self::entry`].
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together.
    unsafe fn flush(&mut self);

    /// Entry `index`, which is per lane; [`NO_ENTRY`](crate::neighbor::NO_ENTRY) past the last. No entry has been
    /// offered since the last [`Self::flush`].
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together.
    unsafe fn entry(&self, index: u32) -> u64;
}

/// Sorts the entries of the lanes in rising order: a bitonic sort.
///
/// # Safety
/// All 32 lanes of the warp call this together.
pub(super) unsafe fn sorted(mut entry: u64) -> u64 {
    // Otherwise the parts of the lane would stay in registers throughout the search.
    let lane = opaque(warp::lane_id());
    let mut run = 2;
    while run <= WARP_SIZE {
        let mut stride = run / 2;
        while stride > 0 {
            // SAFETY: the warp is converged here.
            let other = unsafe { warp::shuffle_xor(entry, stride) };
            let keeps_lower = (lane & run == 0) == (lane & stride == 0);
            entry = if (other < entry) == keeps_lower { other } else { entry };
            stride /= 2;
        }
        run *= 2;
    }
    entry
}

/// Whether a lane below has the same vertex.
///
/// # Safety
/// All 32 lanes of the warp call this together.
pub(super) unsafe fn is_duplicate_in_warp(entry: u64) -> bool {
    // SAFETY: the warp is converged here. The lower half of an entry identifies the vertex, and is the same in all
    // lanes without one.
    unsafe { warp::match_any(entry as u32) & lanes_below() != 0 }
}
