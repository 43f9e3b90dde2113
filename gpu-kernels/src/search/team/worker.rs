//! A worker: a warp that gathers its part of the neighbors of the vertices of one mailbox, and computes their
//! distances.

use cuda_std::constant::opaque;
use cuda_std::prelude::*;

use super::super::SearchArgs;
use super::super::distances::DistanceComputer;
use super::super::shared_layout::Layout;
use super::super::visited::VisitedCache;
use super::mailboxes::{Mailboxes, Request, SHUTDOWN};
use crate::DevicePtr;
use crate::WARP_SIZE;
use crate::collectives::{pack_lanes, strided, warp_stride};
use crate::graph::NO_SLOT;
use crate::neighbor::{self, NO_ENTRY};

/// Edges in a cache line of 128 bytes.
const EDGES_PER_LINE: u32 = 32;

/// A worker of a mailbox.
pub(super) struct Worker {
    mailboxes: Mailboxes,
    visited: VisitedCache,
    mailbox: u32,
    /// The index of this worker among those of the mailbox.
    index: u32,
    /// The number of edges in this worker's part of a row.
    len: u32,
    /// `[len]`: neighbors whose distances are computed.
    slots: Shared<u32>,
    /// `[len]`: the entries that are below the bound.
    entries: Shared<u64>,
}

/// The slots that a request is for. Each of n workers takes every n-th slot, because rows are padded at the end.
#[derive(Clone, Copy)]
enum RequestedSlots {
    /// The neighbors of a vertex.
    Neighbors(DevicePtr<u32>),
    /// The start points from this one on.
    StartPoints(u32),
}

impl Worker {
    /// The worker with this index in the team. Workers beyond a multiple of the mailboxes get a mailbox past the last,
    /// and do nothing.
    pub(super) fn new(layout: &Layout, mailboxes: Mailboxes, visited: VisitedCache, index: u32) -> Self {
        let slots: Shared<u32> = Layout::memory_at(layout.slots);
        let (mailbox, index) = (index / mailboxes.workers, index % mailboxes.workers);
        let (share, extra) = (mailboxes.stride / mailboxes.workers, mailboxes.stride % mailboxes.workers);
        let first = index * share + index.min(extra);
        Self {
            mailboxes,
            visited,
            mailbox,
            index,
            len: share + u32::from(index < extra),
            slots: slots.add(mailbox * mailboxes.stride + first),
            entries: mailboxes.entries_of(mailbox).add(first),
        }
    }

    /// Serves requests until it is shut down.
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together; a barrier has passed since the mailboxes were cleared, the query
    /// was read and the cache emptied. The arguments are valid, and `query` is below `queries_len`.
    pub(super) unsafe fn serve<S: DistanceComputer>(&self, args: &SearchArgs, query: u32, computer: &S) {
        if self.mailbox >= self.mailboxes.len {
            return;
        }
        let (mut last, mut computed) = (0, 0);
        // SAFETY: the warp is converged, since conditions are the same in all lanes; the memory is this worker's from a
        // request until it is done.
        unsafe {
            let chunks = self.mailboxes.start_chunks(args, query);
            loop {
                last = self.wait_for_request(last);
                let request = Request::from_bits(last);
                if request.vertex_or_chunk == SHUTDOWN {
                    return;
                }
                // Chunks of start points are assigned to the mailboxes in turn.
                let is_start = self.mailbox + (request.count - 1) * self.mailboxes.len < chunks;
                let requested = self.requested_slots(args, request.vertex_or_chunk, is_start);
                computed = self.gather(args, query, requested, if request.is_merged { computed } else { 0 });
                self.compute_distances(args, computer, computed);
                if warp::lane_id() == 0 {
                    self.mailboxes.computed(self.mailbox, self.index).store(computed);
                }
                warp::sync_warp();
                if warp::lane_id() == 0 {
                    thread::block_fence();
                    self.mailboxes.done(self.mailbox).atomic_add(1);
                }
            }
        }
    }

    /// Waits for a request other than `last`. One lane reads it for all lanes, because a shutdown may overwrite it at
    /// any time.
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together.
    unsafe fn wait_for_request(&self, last: u64) -> u64 {
        let mut word = last;
        // SAFETY: the warp is converged, here and afterwards.
        unsafe {
            // Only one lane polls, because polling takes bandwidth of shared memory from the warps at work.
            while !warp::any(word != last) {
                thread::pause();
                if warp::lane_id() == 0 {
                    word = self.mailboxes.request(self.mailbox).load_relaxed();
                }
            }
            // The leader has read the entries that this worker will overwrite; the lanes of this warp must synchronize
            // first.
            thread::block_fence();
            warp::shuffle(word, 0)
        }
    }

    /// The slots that a request is for: the neighbors of a vertex, or a chunk of start points.
    fn requested_slots(&self, args: &SearchArgs, vertex_or_chunk: u32, is_start: bool) -> RequestedSlots {
        let stride = self.mailboxes.stride;
        if is_start {
            RequestedSlots::StartPoints(vertex_or_chunk * stride)
        } else {
            RequestedSlots::Neighbors(args.graph.edges.add(vertex_or_chunk as usize * stride as usize))
        }
    }

    /// Collects the neighbors that are not in the visited cache, and returns their number. While edges are loaded,
    /// inserts the first `merged` slots of the previous request into the cache, before they are overwritten.
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together. The slots name vertices of this search, and there is room for all
    /// of them.
    #[inline(always)]
    unsafe fn gather(&self, args: &SearchArgs, query: u32, requested: RequestedSlots, merged: u32) -> u32 {
        let lane = warp::lane_id();
        // SAFETY: the warp is converged here; indices are below the stride and `self.len`.
        unsafe {
            // What follows from the query would stay in registers beyond the start points.
            let load = |at: u32| {
                let index = at * self.mailboxes.workers + self.index;
                match requested {
                    _ if index >= self.mailboxes.stride => NO_SLOT,
                    RequestedSlots::Neighbors(row) => global::load_relaxed(row.at(index as usize)),
                    RequestedSlots::StartPoints(first) => args.start_point(opaque(query), first + index),
                }
            };
            let mut next = (load(lane), load(lane + WARP_SIZE));
            warp_stride(merged, |at| {
                self.visited.insert(self.slots.add(at).load());
            });
            warp::sync_warp();

            let mut gathered = 0;
            let mut push_unvisited = |slot| {
                let is_new = slot < args.graph.capacity && self.visited.misses(slot);
                gathered += pack_lanes(self.slots.add(gathered), slot, is_new);
            };
            let mut first = 0;
            while first < self.len {
                let (one, two) = next;
                first += 2 * WARP_SIZE;
                if first < self.len {
                    next = (load(first + lane), load(first + lane + WARP_SIZE));
                }
                push_unvisited(one);
                push_unvisited(two);
            }
            warp::sync_warp();
            gathered
        }
    }

    /// Computes the distances of the first `count` slots, keeps the entries below the bound, and prefetches the edges
    /// of these vertices: the leader may expand one of them next.
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together. The slots name rows.
    #[inline(always)]
    unsafe fn compute_distances<S: DistanceComputer>(&self, args: &SearchArgs, computer: &S, count: u32) {
        // SAFETY: the warp is converged here; there are at most `count` entries.
        unsafe {
            let bound = self.mailboxes.bound().load_relaxed();
            let mut near = 0;
            strided(0, count, WARP_SIZE, |first| {
                let (slots, len) = (self.slots.add(first), WARP_SIZE.min(count - first));
                computer.prefetch(slots, len);
                let entry = computer.entries(computer.fetch(slots, len), slots, len);
                near += pack_lanes(self.entries.add(near), entry, entry < bound);
                if entry < bound {
                    let edges =
                        args.graph.edges.add(neighbor::slot(entry) as usize * self.mailboxes.stride as usize);
                    strided(0, self.mailboxes.stride, EDGES_PER_LINE, |line| {
                        global::prefetch_l2(edges.at(line as usize));
                    });
                }
            });
            strided(near + warp::lane_id(), self.len, WARP_SIZE, |i| self.entries.add(i).store(NO_ENTRY));
        }
    }
}
