//! Where leader and workers meet: what is requested, what is done, and the keys that are found.

use cuda_std::prelude::*;

use super::super::SearchArgs;
use super::super::frontier::NO_KEY;
use super::super::layout::Layout;

/// What is requested last: nothing more. No vertex has this number.
pub(super) const DISMISSAL: u32 = u32::MAX;

/// What the workers of a place are asked for. Each differs from the one before.
#[derive(Clone, Copy)]
pub(super) struct Request {
    /// A vertex, whose neighbours are wanted; first of all batches of start points, of which as many as there are links.
    pub(super) number: u32,
    /// How many there were for this place, with this one.
    pub(super) count: u32,
    /// What the place held was taken in: the filter is to know it.
    pub(super) is_taken: bool,
}

impl Request {
    #[inline(always)]
    pub(super) fn to_bits(self) -> u64 {
        u64::from(self.count << 1 | u32::from(self.is_taken)) << 32 | u64::from(self.number)
    }

    #[inline(always)]
    pub(super) fn from_bits(bits: u64) -> Self {
        let high = (bits >> 32) as u32;
        Self { number: bits as u32, count: high >> 1, is_taken: high & 1 != 0 }
    }
}

/// The places of a team.
#[derive(Clone, Copy)]
pub(super) struct Places {
    /// How many there are.
    pub(super) len: u32,
    /// Workers of each.
    pub(super) workers: u32,
    /// Room of each: links of a vertex.
    pub(super) stride: u32,
    /// `[places][stride]`: keys that were below the bound, each worker's in its part, then [`NO_KEY`].
    keys: Shared<u64>,
    /// `[places]`, and behind it the bound of the frontier.
    requests: Shared<u64>,
    /// `[places]`: parts that are done, of all requests.
    done: Shared<u32>,
    /// `[places][workers]`: neighbours that were scored.
    met: Shared<u32>,
}

impl Places {
    /// As many as are asked for, if there are as many workers, who are shared out evenly.
    #[inline(always)]
    pub(super) fn new(args: &SearchArgs, layout: &Layout, workers: u32) -> Self {
        let part = |at: u32| shared::dynamic_shared_mem::<u8>().byte_add(at);
        let len = args.expansions.min(workers);
        Self {
            len,
            workers: workers / len,
            stride: args.graph.links_stride,
            keys: part(layout.keys).cast(),
            requests: part(layout.requests).cast(),
            done: part(layout.done).cast(),
            met: part(layout.met).cast(),
        }
    }

    /// Nothing requested, nothing done. A barrier of the block must follow.
    ///
    /// # Safety
    /// All threads, of whom nobody uses the places yet.
    #[inline(always)]
    pub(super) unsafe fn clear(&self, thread: u32) {
        // SAFETY: places of this thread.
        unsafe {
            if thread < self.len {
                self.request(thread).store(0);
                self.done(thread).store(0);
            }
            if thread == 0 {
                self.bound().store(NO_KEY);
            }
        }
    }

    #[inline(always)]
    pub(super) fn keys_of(&self, place: u32) -> Shared<u64> {
        self.keys.add(place * self.stride)
    }

    #[inline(always)]
    pub(super) fn request(&self, place: u32) -> Shared<u64> {
        self.requests.add(place)
    }

    /// The bound of the frontier, which only falls: what is not below it will never be of use.
    #[inline(always)]
    pub(super) fn bound(&self) -> Shared<u64> {
        self.requests.add(self.len)
    }

    #[inline(always)]
    pub(super) fn done(&self, place: u32) -> Shared<u32> {
        self.done.add(place)
    }

    #[inline(always)]
    pub(super) fn met(&self, place: u32, worker: u32) -> Shared<u32> {
        self.met.add(place * self.workers + worker)
    }

    /// Start points of a search, as requests.
    #[inline(always)]
    pub(super) fn batches(&self, args: &SearchArgs) -> u32 {
        args.graph.starts_len.div_ceil(self.stride)
    }
}
