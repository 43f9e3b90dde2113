//! The visited cache: a direct-mapped table of visited slots. A new slot overwrites the old one in its entry, so the
//! cache may forget slots. It saves distances and never changes a result.

use cuda_std::prelude::*;

use crate::WARP_SIZE;
use crate::collectives::strided;

/// A table whose entries each hold the last slot that was hashed there.
#[derive(Clone, Copy)]
pub(super) struct VisitedCache {
    table: Shared<u32>,
    entries: u32,
}

impl VisitedCache {
    /// An empty cache of `entries` slots. All threads that use it call this; a barrier of theirs must follow.
    ///
    /// # Safety
    /// `table` has as many words; `thread` of `threads` is this one.
    pub(super) unsafe fn new(table: Shared<u32>, entries: u32, thread: u32, threads: u32) -> Self {
        // SAFETY: entry < entries, and only this thread writes it.
        strided(thread, entries, threads, |entry| unsafe { table.add(entry).store(u32::MAX) });
        Self { table, entries }
    }

    /// The entry of a slot: the upper bits of its product with the golden ratio, which scatters consecutive slots.
    fn entry(&self, slot: u32) -> Shared<u32> {
        let shift = self.entries.leading_zeros() + 1;
        self.table.add(slot.wrapping_mul(0x9E37_79B1) >> (shift & (WARP_SIZE - 1)))
    }

    /// Inserts `slot` and returns whether it was missing. Uses an atomic exchange, so that only one of two lanes with
    /// the same slot finds it missing.
    ///
    /// # Safety
    /// The table is live and used by this cache alone.
    pub(super) unsafe fn insert(&self, slot: u32) -> bool {
        // SAFETY: the entry is below `entries`.
        self.entries == 0 || unsafe { self.entry(slot).atomic_exchange(slot) } != slot
    }

    /// Whether `slot` is missing. Other warps may insert at the same time.
    ///
    /// # Safety
    /// The same as for [`Self::insert`].
    pub(super) unsafe fn misses(&self, slot: u32) -> bool {
        // SAFETY: the entry is below `entries`.
        self.entries == 0 || unsafe { self.entry(slot).load_relaxed() } != slot
    }
}
