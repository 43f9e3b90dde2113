//! The leader: the warp of a team that owns the frontier, requests work and expands vertices.

use cuda_std::prelude::*;

use super::super::SearchArgs;
use super::super::frontier::Frontier;
use super::super::results::{self, SearchCost};
use super::super::shared_layout::Layout;
use super::super::sorted_list::SortedList;
use super::mailboxes::{Mailboxes, Request, SHUTDOWN};
use crate::WARP_SIZE;
use crate::collectives::{pack_lanes, rank_in, strided, warp_min};
use crate::graph::NO_SLOT;
use crate::neighbor::{self, NO_ENTRY};

/// The mailbox of a vertex that none holds: the trailing zeros of a ballot in which no lane votes.
const NO_MAILBOX: u32 = u32::BITS;
/// In [`Leader::look_ahead`], lanes below this one stand for mailboxes, and the others for upcoming vertices.
const HALF: u32 = WARP_SIZE / 2;

/// The least entry, as a bound that rejects every entry.
const MIN_ENTRY: u64 = 0;

/// The chunks of start points, which are assigned to the mailboxes in turn.
#[derive(Default)]
struct StartChunks {
    len: u32,
    requested: u32,
    merged: u32,
    /// The mailbox of the next chunk to request.
    next: u32,
    /// The mailbox of the next chunk to merge.
    oldest: u32,
}

/// The state of the leader. Some fields have a value per lane.
pub(super) struct Leader {
    mailboxes: Mailboxes,
    list: SortedList,
    /// `[stride]`: entries to be merged into the list.
    to_merge: Shared<u64>,
    /// `[mailboxes]`: the nearest unexpanded vertices.
    upcoming: Shared<u64>,
    /// In lane `m`: the vertex last requested for mailbox `m`, until it is expanded; then [`NO_SLOT`].
    vertex: u32,
    /// In lane `m`: the number of requests for mailbox `m`.
    requests: u32,
    /// In lane `w`: the distances computed by worker `w` of every mailbox. Hops are the same in all lanes.
    cost: SearchCost,
}

impl Leader {
    /// A leader that has requested nothing.
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together; the launch configuration gave the block the memory of the layout.
    #[inline(always)]
    pub(super) unsafe fn new(args: &SearchArgs, layout: &Layout, mailboxes: Mailboxes) -> Self {
        // SAFETY: upheld by the caller.
        let list = unsafe {
            SortedList::new(args.beam.frontier_len, args.beam.width, Layout::memory_at(layout.list))
        };
        Self {
            mailboxes,
            list,
            to_merge: Layout::memory_at(layout.to_merge),
            upcoming: Layout::memory_at(layout.upcoming),
            vertex: NO_SLOT,
            requests: 0,
            cost: SearchCost { hops: 0, distances: 0 },
        }
    }

    /// Searches, shuts the workers down, and writes the results.
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together; a barrier has passed since the mailboxes were cleared. The
    /// arguments are valid, and `query` is one of theirs.
    #[inline(always)]
    pub(super) unsafe fn search(mut self, args: &SearchArgs, query: u32) {
        // SAFETY: the warp is converged, since conditions are the same in all lanes.
        unsafe {
            let len = self.mailboxes.start_chunks(args, query);
            let mut chunks = StartChunks { len, ..StartChunks::default() };
            // The mailbox that was merged last: free, so that any vertex may be requested for it.
            let mut last = 0;
            // Start points and neighbors share one loop, because merging is most of the code.
            loop {
                let (mailbox, next) = if chunks.merged < chunks.len {
                    (self.request_start_chunks(&mut chunks), MIN_ENTRY)
                } else {
                    let nearest = if self.cost.hops < args.beam.max_hops {
                        self.list.nearest_unexpanded()
                    } else {
                        NO_ENTRY
                    };
                    if nearest == NO_ENTRY {
                        break;
                    }
                    let mailbox = self.find_or_request(neighbor::slot(nearest), last);
                    self.look_ahead();
                    self.list.mark_nearest();
                    results::record_expanded(args, query, self.cost.hops, nearest);
                    self.cost.hops += 1;
                    (mailbox, self.list.nearest_unexpanded())
                };
                self.wait(mailbox);
                self.merge(mailbox, next);
                last = mailbox;
            }
            self.shut_down();
            let distances = warp::reduce_add(self.cost.distances);
            results::write(args, query, &self.list, SearchCost { distances, ..self.cost });
        }
    }

    /// Requests chunks of start points for all empty mailboxes; returns the mailbox of the oldest chunk that is not
    /// merged.
    #[inline(always)]
    unsafe fn request_start_chunks(&mut self, chunks: &mut StartChunks) -> u32 {
        let len = self.mailboxes.len;
        while chunks.requested < chunks.len && chunks.requested - chunks.merged < len {
            // SAFETY: the mailbox is empty.
            unsafe { self.request(warp::lane_id() == chunks.next, chunks.requested) };
            // A mailbox with a chunk of start points holds no vertex.
            self.vertex = NO_SLOT;
            chunks.next = next_in_ring(chunks.next, len);
            chunks.requested += 1;
        }
        let mailbox = chunks.oldest;
        chunks.oldest = next_in_ring(mailbox, len);
        chunks.merged += 1;
        mailbox
    }

    /// The mailbox that `vertex` was requested for. If there is none, requests it for `last` and returns `last`.
    #[inline(always)]
    unsafe fn find_or_request(&mut self, vertex: u32, last: u32) -> u32 {
        // SAFETY: the warp is converged, since conditions are the same in all lanes; all lanes have read the entries of
        // the last mailbox, whose workers are idle because it was waited for.
        unsafe {
            let mailbox = self.mailbox_of(vertex);
            if mailbox != NO_MAILBOX {
                return mailbox;
            }
            self.wait(last);
            self.request(warp::lane_id() == last, vertex);
        }
        last
    }

    /// The mailbox that `vertex` was requested for; [`NO_MAILBOX`] if it was not.
    #[inline(always)]
    unsafe fn mailbox_of(&self, vertex: u32) -> u32 {
        // SAFETY: the warp is converged here.
        unsafe { warp::ballot(self.vertex == vertex) }.trailing_zeros()
    }

    /// Requests a vertex or a chunk of start points for the mailboxes of some lanes, which are idle and whose entries
    /// all lanes have read.
    #[inline(always)]
    unsafe fn request(&mut self, is_requested: bool, vertex_or_chunk: u32) {
        // SAFETY: the lanes are those of mailboxes.
        unsafe {
            thread::block_fence();
            if is_requested {
                self.requests += 1;
                let is_merged = self.vertex == NO_SLOT;
                let request = Request { vertex_or_chunk, count: self.requests, is_merged };
                self.mailboxes.request(warp::lane_id()).store_relaxed(request.to_bits());
                self.vertex = vertex_or_chunk;
            }
        }
    }

    /// The mask of the idle mailboxes: those whose requests are all done.
    #[inline(always)]
    unsafe fn idle(&self) -> u32 {
        let lane = warp::lane_id();
        // SAFETY: the warp is converged here; the lane is that of a mailbox.
        unsafe {
            let is_idle = lane < self.mailboxes.len
                && self.mailboxes.done(lane).load_relaxed() == self.requests * self.mailboxes.workers;
            warp::ballot(is_idle)
        }
    }

    /// Waits until all requests for `mailbox` are done.
    #[inline(always)]
    unsafe fn wait(&self, mailbox: u32) {
        // SAFETY: the warp is converged here.
        unsafe {
            while self.idle() >> mailbox & 1 == 0 {
                thread::pause();
            }
            thread::block_fence();
            warp::sync_warp();
        }
    }

    /// Requests the nearest unexpanded vertices that no mailbox holds yet, for mailboxes that are idle and hold none of
    /// them.
    ///
    /// One `match_any` compares all mailboxes with all upcoming vertices: a lane of the lower half has the vertex of
    /// its mailbox, and a lane of the upper half an upcoming vertex. With 3 mailboxes, lanes 0 to 2 and 16 to 18 take
    /// part.
    #[inline(always)]
    unsafe fn look_ahead(&mut self) {
        let (lane, len) = (warp::lane_id(), self.mailboxes.len);
        // SAFETY: the warp is converged here; there are at most as many mailboxes as half of the lanes.
        unsafe {
            let idle = self.idle();
            self.list.copy_unexpanded(len, self.upcoming);
            let index = lane.wrapping_sub(HALF);
            let entry = if index < len { self.upcoming.add(index).load() } else { NO_ENTRY };
            let upcoming = if entry == NO_ENTRY { NO_SLOT } else { neighbor::slot(entry) };
            let vertex = if lane < HALF { self.vertex } else { upcoming };
            let other_half = if lane < HALF { !0 << HALF } else { !(!0 << HALF) };
            let same = warp::match_any(vertex);
            let is_unmatched = vertex == NO_SLOT || same & other_half == 0;
            let unmatched = warp::ballot(is_unmatched);
            // Upcoming vertices that no mailbox holds, and idle mailboxes that hold none of the upcoming vertices. The
            // n-th free mailbox gets the n-th missing vertex.
            let missing = warp::ballot(is_unmatched && vertex != NO_SLOT) >> HALF;
            let free = unmatched & idle;
            let rank = rank_in(free);
            let is_filled = free >> lane & 1 != 0 && rank < missing.count_ones();
            let from = if is_filled { HALF + nth_bit(missing, rank) } else { 0 };
            let vertex = warp::shuffle(vertex, from);
            self.request(is_filled, vertex);
        }
    }

    /// Inserts the entries of a mailbox into the list, and publishes the new bound. If one of them is nearer than
    /// `next`, the nearest unexpanded entry, it is the next vertex and is requested first, so that the workers start
    /// while the list is changed. The request is wasted if the list holds that vertex as expanded.
    ///
    /// # Safety
    /// [`Self::wait`] has been called for `mailbox`.
    #[inline(always)]
    unsafe fn merge(&mut self, mailbox: u32, next: u64) {
        let lane = warp::lane_id();
        // SAFETY: the warp is converged, since conditions are the same in all lanes; a mailbox has as many entries as a
        // row has elements.
        unsafe {
            if lane < self.mailboxes.workers {
                self.cost.distances += self.mailboxes.computed(mailbox, lane).load();
            }
            let entries = self.mailboxes.entries_of(mailbox);
            let (mut to_merge, mut nearest) = (0, NO_ENTRY);
            strided(0, self.mailboxes.stride, WARP_SIZE, |first| {
                let entry = entries.add(first + lane).load();
                let is_near = entry < self.list.bound();
                nearest = if is_near { nearest.min(entry) } else { nearest };
                to_merge += pack_lanes(self.to_merge.add(to_merge), entry, is_near);
            });
            warp::sync_warp();
            if lane == mailbox {
                self.vertex = NO_SLOT;
            }
            let nearest = warp_min(nearest);
            if nearest < next && self.mailbox_of(neighbor::slot(nearest)) == NO_MAILBOX {
                self.request(lane == mailbox, neighbor::slot(nearest));
            }
            strided(0, to_merge, WARP_SIZE, |first| {
                let entry =
                    if first + lane < to_merge { self.to_merge.add(first + lane).load() } else { NO_ENTRY };
                self.list.offer(entry);
            });
            if lane == 0 {
                self.mailboxes.bound().store_relaxed(self.list.bound());
            }
        }
    }

    /// Shuts the workers down, even in the middle of a request.
    #[inline(always)]
    unsafe fn shut_down(&self) {
        let lane = warp::lane_id();
        if lane < self.mailboxes.len {
            let request = Request { vertex_or_chunk: SHUTDOWN, count: self.requests + 1, is_merged: false };
            // SAFETY: the lane is that of a mailbox.
            unsafe { self.mailboxes.request(lane).store_relaxed(request.to_bits()) };
        }
    }
}

/// The mailbox after `mailbox` in a ring of `len` mailboxes.
#[inline(always)]
fn next_in_ring(mailbox: u32, len: u32) -> u32 {
    if mailbox + 1 < len { mailbox + 1 } else { 0 }
}

/// The index of the `n`-th set bit of `bits`, which has more than `n`.
#[inline(always)]
fn nth_bit(mut bits: u32, n: u32) -> u32 {
    for _ in 0..n {
        bits &= bits - 1;
    }
    bits.trailing_zeros()
}
