//! Work slots, through which the leader requests work and the workers return entries.

use cuda_std::prelude::*;

use super::super::SearchArgs;
use super::super::frontier::NO_ENTRY;
use super::super::shared_layout::Layout;

/// The last request of a slot: its workers return. No vertex has this number.
pub(super) const DISMISSAL: u32 = u32::MAX;

/// A request to the workers of a slot. Consecutive requests differ.
#[derive(Clone, Copy)]
pub(super) struct Request {
    /// The vertex whose neighbors are wanted; in the first requests, the number of a batch of start points, which is as
    /// long as a row.
    pub(super) number: u32,
    /// The number of requests of this slot so far, including this one.
    pub(super) count: u32,
    /// Whether the entries of the previous request were merged. If so, its ids enter the visited cache.
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

/// The work slots of a team, in shared memory. For 8 warps, 3 slots and rows of 64 neighbors, `len` is 3, `workers` is
/// 2, and `stride` is 64; each worker scores the neighbors in its half of a slot.
#[derive(Clone, Copy)]
pub(super) struct WorkSlots {
    /// Number of slots.
    pub(super) len: u32,
    /// Workers per slot.
    pub(super) workers: u32,
    /// Entries per slot: the neighbors of a vertex.
    pub(super) stride: u32,
    /// `[slots][stride]`: entries below the bound. Each worker stores its entries in its part of a slot, then
    /// [`NO_ENTRY`].
    entries: Shared<u64>,
    /// `[slots + 1]`: the request of each slot, then the bound of the frontier.
    requests: Shared<u64>,
    /// `[slots]`: the number of parts done, over all requests so far.
    done: Shared<u32>,
    /// `[slots][workers]`: the number of neighbors scored for the last request.
    scored: Shared<u32>,
}

impl WorkSlots {
    /// As many slots as the arguments ask for, but not more than workers. Each slot gets the same number of workers.
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
    /// All threads of the block call this together; the slots are not in use yet.
    #[inline(always)]
    pub(super) unsafe fn clear(&self, thread: u32) {
        // SAFETY: each thread writes words of its own.
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

    /// The bound of the frontier. It only falls, so an entry that is not below it can never enter the frontier.
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
