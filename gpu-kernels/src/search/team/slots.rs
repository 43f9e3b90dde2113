//! Work slots: where the leader requests work and the workers leave entries.

use cuda_std::prelude::*;

use super::super::SearchArgs;
use super::super::frontier::NO_ENTRY;
use super::super::shared_layout::Layout;

/// The last request of a slot: its workers return. No vertex has this number.
pub(super) const DISMISSAL: u32 = u32::MAX;

/// What the workers of a slot are to do. Consecutive requests differ.
#[derive(Clone, Copy)]
pub(super) struct Request {
    /// The vertex whose neighbors are wanted. The first requests are for batches of start points, and hold their
    /// numbers; a batch is as long as a row.
    pub(super) number: u32,
    /// Requests of this slot so far, with this one.
    pub(super) count: u32,
    /// Whether the entries of the request before were merged: its ids go into the visited cache then.
    pub(super) is_merged: bool,
}

impl Request {
    #[inline(always)]
    pub(super) fn to_bits(self) -> u64 {
        u64::from(self.count << 1 | u32::from(self.is_merged)) << 32 | u64::from(self.number)
    }

    #[inline(always)]
    pub(super) fn from_bits(bits: u64) -> Self {
        let high = (bits >> 32) as u32;
        Self { number: bits as u32, count: high >> 1, is_merged: high & 1 != 0 }
    }
}

/// The work slots of a team, in shared memory.
#[derive(Clone, Copy)]
pub(super) struct WorkSlots {
    /// Number of slots.
    pub(super) len: u32,
    /// Workers per slot.
    pub(super) workers: u32,
    /// Entries per slot: the neighbors of a vertex.
    pub(super) stride: u32,
    /// `[slots][stride]`: entries below the bound, those of each worker in its part, then [`NO_ENTRY`].
    entries: Shared<u64>,
    /// `[slots]` requests, then the bound of the frontier.
    requests: Shared<u64>,
    /// `[slots]`: parts done, of all requests so far.
    done: Shared<u32>,
    /// `[slots][workers]`: neighbors scored for the last request.
    scored: Shared<u32>,
}

impl WorkSlots {
    /// As many slots as the arguments ask for and there are workers, who are shared out evenly.
    #[inline(always)]
    pub(super) fn new(args: &SearchArgs, layout: &Layout, workers: u32) -> Self {
        let part = |at: u32| shared::dynamic_shared_mem::<u8>().byte_add(at);
        let len = args.expansions.min(workers);
        Self {
            len,
            workers: workers / len,
            stride: args.graph.edges_stride,
            entries: part(layout.entries).cast(),
            requests: part(layout.requests).cast(),
            done: part(layout.done).cast(),
            scored: part(layout.scored).cast(),
        }
    }

    /// Sets everything to "nothing requested, nothing done". A barrier of the block must follow.
    ///
    /// # Safety
    /// All threads of the block; the slots are not in use yet.
    #[inline(always)]
    pub(super) unsafe fn clear(&self, thread: u32) {
        // SAFETY: words of this thread.
        unsafe {
            if thread < self.len {
                self.request(thread).store(0);
                self.done(thread).store(0);
            }
            if thread == 0 {
                self.bound().store(NO_ENTRY);
            }
        }
    }

    #[inline(always)]
    pub(super) fn entries_of(&self, slot: u32) -> Shared<u64> {
        self.entries.add(slot * self.stride)
    }

    #[inline(always)]
    pub(super) fn request(&self, slot: u32) -> Shared<u64> {
        self.requests.add(slot)
    }

    /// The bound of the frontier, which only falls: an entry that is not below it is of no use, now or later.
    #[inline(always)]
    pub(super) fn bound(&self) -> Shared<u64> {
        self.requests.add(self.len)
    }

    #[inline(always)]
    pub(super) fn done(&self, slot: u32) -> Shared<u32> {
        self.done.add(slot)
    }

    #[inline(always)]
    pub(super) fn scored(&self, slot: u32, worker: u32) -> Shared<u32> {
        self.scored.add(slot * self.workers + worker)
    }

    /// Batches of start points of the search for `query`.
    #[inline(always)]
    pub(super) fn start_batches(&self, args: &SearchArgs, query: u32) -> u32 {
        args.start_points(query).1.div_ceil(self.stride)
    }
}
