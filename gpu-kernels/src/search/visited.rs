//! The visited cache: a direct-mapped table of visited ids. A new id overwrites the old one in its entry, so the cache
//! may forget ids. It saves distances and never changes a result.

use cuda_std::prelude::*;

use crate::WARP_SIZE;
use crate::collectives::strided;

/// A table whose entries each hold the last id that was hashed there.
#[derive(Clone, Copy)]
pub(super) struct VisitedCache {
    table: Shared<u32>,
    entries: u32,
}

impl VisitedCache {
    /// An empty cache of `entries` ids. All threads that use it call this; a barrier of theirs must follow.
    ///
    /// # Safety
    /// `table` has as many words; `thread` of `threads` is this one.
    #[inline(always)]
    pub(super) unsafe fn new(table: Shared<u32>, entries: u32, thread: u32, threads: u32) -> Self {
        // SAFETY: entry < entries, and only this thread writes it.
        strided(thread, entries, threads, |entry| unsafe { table.add(entry).store(u32::MAX) });
        Self { table, entries }
    }

    /// The entry of an id: the upper bits of its product with the golden ratio, which scatters consecutive ids.
    #[inline(always)]
    fn entry(&self, id: u32) -> Shared<u32> {
        let shift = self.entries.leading_zeros() + 1;
        self.table.add(id.wrapping_mul(0x9E37_79B1) >> (shift & (WARP_SIZE - 1)))
    }

    /// Inserts `id` and returns whether it was missing. Uses an atomic exchange, so that only one of two lanes with the
    /// same id finds it missing.
    ///
    /// # Safety
    /// The table is live and used by this cache alone.
    #[inline(always)]
    pub(super) unsafe fn insert(&self, id: u32) -> bool {
        // SAFETY: the entry is below `entries`.
        self.entries == 0 || unsafe { self.entry(id).atomic_exchange(id) } != id
    }

    /// Whether `id` is missing. Other warps may insert at the same time.
    ///
    /// # Safety
    /// The same as for [`Self::insert`].
    #[inline(always)]
    pub(super) unsafe fn misses(&self, id: u32) -> bool {
        // SAFETY: the entry is below `entries`.
        self.entries == 0 || unsafe { self.entry(id).load_relaxed() } != id
    }
}
