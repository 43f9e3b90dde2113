//! Mailboxes, through which the leader requests work and the workers return entries.

use cuda_std::prelude::*;

use super::super::SearchArgs;
use super::super::shared_layout::Layout;
use crate::neighbor::NO_ENTRY;

/// The last request of a mailbox: its workers return. It is the number of no vertex.
pub(super) const SHUTDOWN: u32 = u32::MAX;

/// A request to the workers of a mailbox. Consecutive requests differ.
#[derive(Clone, Copy)]
pub(super) struct Request {
    /// The vertex whose neighbors are wanted; in the first requests, the index of a chunk of start points. A chunk is
    /// as long as a row of edges.
    pub(super) vertex_or_chunk: u32,
    /// How many requests this mailbox has had, including this one.
    pub(super) count: u32,
    /// Whether the entries of the previous request were merged. If so, its slots enter the visited cache.
    pub(super) is_merged: bool,
}

impl Request {
    pub(super) fn to_bits(self) -> u64 {
        u64::from(self.count << 1 | u32::from(self.is_merged)) << 32 | u64::from(self.vertex_or_chunk)
    }

    pub(super) fn from_bits(bits: u64) -> Self {
        let high = (bits >> 32) as u32;
        Self { vertex_or_chunk: bits as u32, count: high >> 1, is_merged: high & 1 != 0 }
    }
}

/// The mailboxes of a team, in shared memory. For 8 warps, 3 mailboxes and rows of 64 neighbors, `len` is 3, `workers`
/// is 2, and `stride` is 64; each worker processes the neighbors in its half of a mailbox.
#[derive(Clone, Copy)]
pub(super) struct Mailboxes {
    /// Number of mailboxes.
    pub(super) len: u32,
    /// Workers per mailbox.
    pub(super) workers: u32,
    /// Entries per mailbox: the neighbors of a vertex.
    pub(super) stride: u32,
    /// `[mailboxes][stride]`: entries below the bound. Each worker stores its entries in its part of a mailbox, then
    /// [`NO_ENTRY`].
    entries: Shared<u64>,
    /// `[mailboxes + 1]`: the request of each mailbox, then the bound of the frontier.
    requests: Shared<u64>,
    /// `[mailboxes]`: how many parts are done, of all requests so far. A *part* is what one worker does for a request.
    done: Shared<u32>,
    /// `[mailboxes][workers]`: the number of distances computed for the last request.
    computed: Shared<u32>,
}

impl Mailboxes {
    /// As many mailboxes as the arguments ask for, but not more than workers. Each mailbox gets the same number of
    /// workers.
    pub(super) fn new(args: &SearchArgs, layout: &Layout, workers: u32) -> Self {
        let len = args.beam.expansions.min(workers);
        Self {
            len,
            workers: workers / len,
            stride: args.graph.edges_stride,
            entries: Layout::memory_at(layout.entries),
            requests: Layout::memory_at(layout.requests),
            done: Layout::memory_at(layout.done),
            computed: Layout::memory_at(layout.computed),
        }
    }

    /// Sets everything to "nothing requested, nothing done". A barrier of the block must follow.
    ///
    /// # Safety
    /// All threads of the block call this together; the mailboxes are not in use yet.
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

    pub(super) fn entries_of(&self, mailbox: u32) -> Shared<u64> {
        self.entries.add(mailbox * self.stride)
    }

    pub(super) fn request(&self, mailbox: u32) -> Shared<u64> {
        self.requests.add(mailbox)
    }

    /// The bound of the frontier. It only falls, so an entry that is not below it can never enter the frontier.
    pub(super) fn bound(&self) -> Shared<u64> {
        self.requests.add(self.len)
    }

    pub(super) fn done(&self, mailbox: u32) -> Shared<u32> {
        self.done.add(mailbox)
    }

    #[inline(always)]
    pub(super) fn computed(&self, mailbox: u32, worker: u32) -> Shared<u32> {
        self.computed.add(mailbox * self.workers + worker)
    }

    /// The number of chunks of start points of the search for `query`.
    ///
    /// # Safety
    /// The arguments are valid, and `query` is below `queries_len`.
    pub(super) unsafe fn start_chunks(&self, args: &SearchArgs, query: u32) -> u32 {
        // SAFETY: upheld by the caller.
        unsafe { args.start_points_len(query) }.div_ceil(self.stride)
    }
}
