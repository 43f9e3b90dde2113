//! The remaining candidates of a prune, split among the warps of a block.

use cuda_std::prelude::*;

use super::PruneArgs;
use super::layout::DEFERRED;
use super::pair_distances::PairDistances;
use super::robust_prune::{PruneBlock, SharedMemory, warp_index, warps};
use crate::WARP_SIZE;
use crate::collectives::{pack_lanes, strided};
use crate::neighbor::{self, NO_CANDIDATE};

/// The head of an empty list.
pub(super) const NO_HEAD: u32 = u32::MAX;

/// Indices of candidates among the sorted entries, ascending. [`DEFERRED`] marks those of the second round.
#[derive(Clone, Copy)]
struct IndexList {
    indices: Shared<u16>,
    begin: u32,
    end: u32,
}

/// One warp's share of the remaining candidates. Those kept before have a list of their own, because they are not
/// compared with each other.
pub(super) struct Remaining {
    new: IndexList,
    kept_before: IndexList,
}

/// The range of the old row that an earlier prune kept in its second round: candidates that are deferred from the
/// start.
pub(super) struct DeferredRange {
    pub(super) old: Shared<u32>,
    pub(super) begin: u32,
    pub(super) end: u32,
}

impl DeferredRange {
    /// Whether `slot` is among these items.
    ///
    /// # Safety
    /// A barrier has passed since the old row was written.
    unsafe fn contains(&self, slot: u32) -> bool {
        let mut found = false;
        for place in self.begin..self.end {
            // SAFETY: the index is within the old row.
            found |= unsafe { self.old.add(place).load() } == slot;
        }
        found
    }
}

impl IndexList {
    /// Appends the items of the lanes with `is_kept`.
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together; a synchronization separates this from reads. There is room.
    unsafe fn push(&mut self, item: u32, is_kept: bool) {
        // SAFETY: upheld by the caller.
        self.end += unsafe { pack_lanes(self.indices.add(self.end), item as u16, is_kept) };
    }

    fn len(&self) -> u32 {
        self.end - self.begin
    }

    /// The first item that is not deferred, or the first of all in the second round; [`NO_HEAD`] if there is none.
    /// Called by the whole warp.
    ///
    /// # Safety
    /// The warp has synchronized since the list was changed.
    unsafe fn head(&self, second_round: bool) -> u32 {
        let mut first = 0;
        while first < self.len() {
            let at = first + warp::lane_id();
            // SAFETY: the index is within the list; the warp is converged at the vote.
            unsafe {
                let item = if at < self.len() { self.item(at) } else { DEFERRED };
                let is_undecided = at < self.len() && (second_round || item & DEFERRED == 0);
                let lanes = warp::ballot(is_undecided);
                if lanes != 0 {
                    return self.item(first + lanes.trailing_zeros()) & !DEFERRED;
                }
            }
            first += WARP_SIZE;
        }
        NO_HEAD
    }

    /// Item `at` of the list: an index and its mark.
    ///
    /// # Safety
    /// The list has an item `at`, and the warp has synchronized since the list was changed.
    unsafe fn item(&self, at: u32) -> u32 {
        // SAFETY: the index is within the list.
        unsafe { self.indices.add(self.begin + at).load() }.into()
    }

    /// Removes `index`, which is the [head](Self::head). Called by the whole warp.
    ///
    /// # Safety
    /// The same as for [`Self::item`]; the warp synchronizes before the list is read again.
    unsafe fn remove(&mut self, index: u32) {
        // SAFETY: the list has the head.
        if unsafe { self.item(0) } & !DEFERRED == index {
            self.begin += 1;
            return;
        }
        let (mut first, mut end) = (0, self.begin);
        while first < self.len() {
            let at = first + warp::lane_id();
            // SAFETY: the index is within the list; what is overwritten has been read, by this lane or before the
            // synchronization.
            unsafe {
                let is_item = at < self.len();
                let item = if is_item { self.item(at) } else { 0 };
                warp::sync_warp();
                end += pack_lanes(self.indices.add(end), item as u16, is_item && item & !DEFERRED != index);
            }
            first += WARP_SIZE;
        }
        self.end = end;
    }
}

impl Remaining {
    /// This warp's share of the first `count` entries: of w warps, each takes every w-th. Called by the whole warp.
    ///
    /// # Safety
    /// A barrier has passed since the entries were written, and there are no more than `memory` has room for.
    pub(super) unsafe fn new(
        args: &PruneArgs,
        memory: &SharedMemory,
        count: u32,
        deferred: &DeferredRange,
    ) -> Self {
        let (warp, warps) = (warp_index(), warps());
        let list = |indices| IndexList { indices, begin: 0, end: 0 };
        let mut new = list(memory.new_indices.add(warp * (memory.capacity / warps)));
        let mut kept_before = list(memory.kept_before_indices.add(warp * args.max_degree));
        strided(warp, count, WARP_SIZE * warps, |first| {
            let index = first + warp::lane_id() * warps;
            let is_candidate = index < count;
            // SAFETY: indices are below `count`.
            unsafe {
                let entry = if is_candidate { memory.entries.add(index).load() } else { NO_CANDIDATE };
                let is_kept_before = neighbor::is_kept_before(entry);
                new.push(index, is_candidate && !is_kept_before);
                let is_deferred = is_kept_before && deferred.contains(neighbor::slot(entry));
                kept_before.push(index | if is_deferred { DEFERRED } else { 0 }, is_kept_before);
            }
        });
        Self { new, kept_before }
    }

    /// The first candidate that the round may keep; [`NO_HEAD`] if there is none. Called by the whole warp.
    ///
    /// # Safety
    /// The warp has synchronized since candidates were dropped.
    pub(super) unsafe fn head(&self, second_round: bool) -> u32 {
        // SAFETY: upheld by the caller.
        unsafe { self.new.head(second_round).min(self.kept_before.head(second_round)) }
    }

    /// Removes candidate `index` if it is this warp's head. Called by the whole warp.
    ///
    /// # Safety
    /// The same as for [`Self::head`].
    pub(super) unsafe fn remove(&mut self, index: u32, second_round: bool) {
        // SAFETY: upheld by the caller; all lanes agree on the heads.
        unsafe {
            if self.new.head(second_round) == index {
                self.new.remove(index);
            } else if self.kept_before.head(second_round) == index {
                self.kept_before.remove(index);
            }
            warp::sync_warp();
        }
    }

    /// Compares the remaining candidates with the entry `kept`, except those kept before with each other: drops those
    /// that it occludes, and defers those that it occludes only with alpha 1. Returns the number of distances.
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together. The entries of the block are those that indices refer to.
    #[inline(always)]
    pub(super) unsafe fn drop_occluded<S: PairDistances>(
        &mut self,
        block: &PruneBlock<'_, S>,
        kept: u64,
    ) -> u32 {
        let (distances, rule) = (&block.distances, block.rule());
        // SAFETY: entries name vertices.
        let reference = unsafe { distances.reference(neighbor::slot(kept)) };
        let new = self.new.len();
        let compared = new + if neighbor::is_kept_before(kept) { 0 } else { self.kept_before.len() };
        // Lists of the items that stay, over the items that have been read.
        let (new_items, kept_before_items) = (self.new, self.kept_before);
        self.new.end = new_items.begin;
        if compared > new {
            self.kept_before.end = kept_before_items.begin;
        }
        let mut first = 0;
        while first < compared {
            let at = first + distances.vertex_index();
            let is_computed = distances.vertex_index() < distances.per_warp() && at < compared;
            let is_new = at < new;
            // SAFETY: indices are within the lists; items are indices of entries, and entries name vertices.
            unsafe {
                let mut item = 0;
                if is_computed {
                    item = if is_new { new_items.item(at) } else { kept_before_items.item(at - new) };
                }
                let entry =
                    if is_computed { block.memory.entries.add(item & !DEFERRED).load() } else { kept };
                let between = distances.distance(&reference, neighbor::slot(entry));
                let distance = neighbor::distance(entry);
                if between <= distance {
                    item |= DEFERRED;
                }
                let is_kept = is_computed && !rule.occludes(between, distance);
                // All items of this iteration have been read, so the lists may be compacted in place.
                warp::sync_warp();
                self.new.push(item, is_kept && is_new);
                self.kept_before.push(item, is_kept && !is_new);
            }
            first += distances.per_warp();
        }
        compared
    }
}
