//! The visited cache: a direct-mapped table of visited slots. A new slot overwrites the old one in its bucket, so the
//! cache may forget slots. It saves distances and never changes a result.

use cuda_std::prelude::*;

use crate::WARP_SIZE;
use crate::collectives::strided;

/// A table whose buckets each hold the last slot that was hashed there.
#[derive(Clone, Copy)]
pub(super) struct VisitedCache {
    table: Shared<u32>,
    buckets: u32,
}

impl VisitedCache {
    /// An empty cache of this many `buckets`. All threads that use it call this; a barrier of theirs must follow.
    ///
    /// # Safety
    /// `table` has as many words; `thread` of `threads` is this one.
    pub(super) unsafe fn new(table: Shared<u32>, buckets: u32, thread: u32, threads: u32) -> Self {
        // SAFETY: bucket < buckets, and only this thread writes it.
        strided(thread, buckets, threads, |bucket| unsafe { table.add(bucket).store(u32::MAX) });
        Self { table, buckets }
    }

    /// The bucket of a slot: the upper bits of its product with the golden ratio, which scatters consecutive slots.
    fn bucket(&self, slot: u32) -> Shared<u32> {
        let shift = self.buckets.leading_zeros() + 1;
        self.table.add(slot.wrapping_mul(0x9E37_79B1) >> (shift & (WARP_SIZE - 1)))
    }

    /// Inserts `slot` and returns whether it was missing. Uses an atomic exchange, so that only one of two lanes with
    /// the same slot finds it missing.
    ///
    /// # Safety
    /// The memory of the table is used by this cache alone.
    pub(super) unsafe fn insert(&self, slot: u32) -> bool {
        // SAFETY: the bucket is below `buckets`.
        self.buckets == 0 || unsafe { self.bucket(slot).atomic_exchange(slot) } != slot
    }

    /// Whether `slot` is missing. Other warps may insert at the same time.
    ///
    /// # Safety
    /// The same as for [`Self::insert`].
    pub(super) unsafe fn misses(&self, slot: u32) -> bool {
        // SAFETY: the bucket is below `buckets`.
        self.buckets == 0 || unsafe { self.bucket(slot).load_relaxed() } != slot
    }
}
