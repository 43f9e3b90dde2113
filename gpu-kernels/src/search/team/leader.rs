//! The leader: the warp of a team that owns the frontier, requests work and expands vertices.

use cuda_std::prelude::*;

use super::super::SearchArgs;
use super::super::frontier::{Frontier, NO_ENTRY};
use super::super::list::SortedList;
use super::super::results::{self, SearchCost};
use super::super::shared_layout::Layout;
use super::slots::{DISMISSAL, Request, WorkSlots};
use crate::WARP_SIZE;
use crate::collectives::{compact, rank_in, warp_min};
use crate::graph::NO_SLOT;
use crate::neighbor::id;

/// Marks a vertex that no work slot holds.
const NO_WORK_SLOT: u32 = 0_u32.trailing_zeros();
/// In [`Leader::look_ahead`], lanes below this one stand for slots, and the others for wanted vertices.
const HALF: u32 = WARP_SIZE / 2;

/// The least entry, as a bound that rejects every entry.
const MIN_ENTRY: u64 = 0;

/// The batches of start points, which are assigned to the slots in turn.
#[derive(Default)]
struct StartBatches {
    len: u32,
    requested: u32,
    merged: u32,
    /// The slot of the next batch to request, and of the next one to merge.
    next: u32,
    oldest: u32,
}

/// The state of the leader. Some fields have a value per lane.
pub(super) struct Leader {
    slots: WorkSlots,
    list: SortedList,
    /// `[stride]`: entries to be merged into the list.
    near: Shared<u64>,
    /// `[slots]`: the nearest unexpanded vertices.
    wanted: Shared<u64>,
    /// In lane `s`: the vertex last requested for slot `s`, until it is expanded; then [`NO_SLOT`].
    vertex: u32,
    /// In lane `s`: the number of requests for slot `s`.
    requests: u32,
    /// In lane `w`: the distances computed by worker `w` of every slot. Hops are the same in all lanes.
    cost: SearchCost,
}

impl Leader {
    /// A leader that has requested nothing.
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together; the plan gave the block the memory of the layout.
    #[inline(always)]
    pub(super) unsafe fn new(args: &SearchArgs, layout: &Layout, slots: WorkSlots) -> Self {
        let part = |at: u32| shared::dynamic_shared_mem::<u8>().byte_add(at);
        // SAFETY: the caller's promise.
        let list = unsafe { SortedList::new(args.beam_width, part(layout.list).cast()) };
        Self {
            slots,
            list,
            near: part(layout.near).cast(),
            wanted: part(layout.wanted).cast(),
            vertex: NO_SLOT,
            requests: 0,
            cost: SearchCost { hops: 0, distances: 0 },
        }
    }

    /// Searches, dismisses the workers, and writes the results.
    ///
    /// # Safety
    /// All 32 lanes of the warp call this together; a barrier has passed since the slots were cleared. The arguments
    /// are valid, and `query` is one of theirs.
    #[inline(always)]
    pub(super) unsafe fn search(mut self, args: &SearchArgs, query: u32) {
        // SAFETY: the warp is converged, since conditions are the same in all lanes.
        unsafe {
            let len = self.slots.start_batches(args, query);
            let mut batches = StartBatches { len, ..StartBatches::default() };
            // The slot that was merged last: free, so that any vertex may be requested for it.
            let mut last = 0;
            // Start points and neighbors share one loop, because merging is most of the code.
            loop {
                let (slot, next) = if batches.merged < batches.len {
                    (self.request_start_batches(&mut batches), MIN_ENTRY)
                } else {
                    let nearest = if self.cost.hops < args.max_hops {
                        self.list.nearest_unexpanded()
                    } else {
                        NO_ENTRY
                    };
                    if nearest == NO_ENTRY {
                        break;
                    }
                    let slot = self.find_or_request(id(nearest), last);
                    self.look_ahead();
                    self.list.mark_nearest();
                    results::log_expanded(args, query, self.cost.hops, nearest);
                    self.cost.hops += 1;
                    (slot, self.list.nearest_unexpanded())
                };
                self.wait(slot);
                self.merge(slot, next);
                last = slot;
            }
            self.dismiss();
            let distances = warp::reduce_add(self.cost.distances);
            results::write(args, query, &self.list, SearchCost { distances, ..self.cost });
        }
    }

    /// Requests batches of start points for all empty slots; returns the slot of the oldest batch that is not merged.
    #[inline(always)]
    unsafe fn request_start_batches(&mut self, batches: &mut StartBatches) -> u32 {
        let len = self.slots.len;
        while batches.requested < batches.len && batches.requested - batches.merged < len {
            // SAFETY: the slot is empty.
            unsafe { self.request(warp::lane_id() == batches.next, batches.requested) };
            // A slot with a batch of start points holds no vertex.
            self.vertex = NO_SLOT;
            batches.next = next_in_ring(batches.next, len);
            batches.requested += 1;
        }
        let slot = batches.oldest;
        batches.oldest = next_in_ring(slot, len);
        batches.merged += 1;
        slot
    }

    /// The slot that `vertex` was requested for. If there is none, requests it for `last` and returns `last`.
    #[inline(always)]
    unsafe fn find_or_request(&mut self, vertex: u32, last: u32) -> u32 {
        // SAFETY: the warp is converged, since conditions are the same in all lanes; all lanes have read the entries of
        // the last slot, whose workers are idle because it was waited for.
        unsafe {
            let slot = self.slot_of(vertex);
            if slot != NO_WORK_SLOT {
                return slot;
            }
            self.wait(last);
            self.request(warp::lane_id() == last, vertex);
        }
        last
    }

    /// The slot that `vertex` was requested for; [`NO_WORK_SLOT`] if it was not.
    #[inline(always)]
    unsafe fn slot_of(&self, vertex: u32) -> u32 {
        // SAFETY: the warp is converged here.
        unsafe { warp::ballot(self.vertex == vertex) }.trailing_zeros()
    }

    /// Requests `number` for the slots of some lanes, which are idle and whose entries all lanes have read.
    #[inline(always)]
    unsafe fn request(&mut self, is_wanted: bool, number: u32) {
        // SAFETY: slots are below their number.
        unsafe {
            thread::block_fence();
            if is_wanted {
                self.requests += 1;
                let is_merged = self.vertex == NO_SLOT;
                let request = Request { number, count: self.requests, is_merged };
                self.slots.request(warp::lane_id()).store_relaxed(request.to_bits());
                self.vertex = number;
            }
        }
    }

    /// The mask of the idle slots: those whose requests are all done.
    #[inline(always)]
    unsafe fn idle(&self) -> u32 {
        let lane = warp::lane_id();
        // SAFETY: the warp is converged here; slots are below their number.
        unsafe {
            let is_idle = lane < self.slots.len
                && self.slots.done(lane).load_relaxed() == self.requests * self.slots.workers;
            warp::ballot(is_idle)
        }
    }

    /// Waits until all requests for `slot` are done.
    #[inline(always)]
    unsafe fn wait(&self, slot: u32) {
        // SAFETY: the warp is converged here.
        unsafe {
            while self.idle() >> slot & 1 == 0 {
                thread::pause();
            }
            thread::block_fence();
            warp::sync_warp();
        }
    }

    /// Requests the nearest unexpanded vertices that no slot holds yet, for slots that are idle and hold none of them.
    ///
    /// One `match_any` compares all slots with all wanted vertices: a lane of the lower half has the vertex of its
    /// slot, and a lane of the upper half a wanted vertex. With 3 slots, lanes 0 to 2 and 16 to 18 take part.
    #[inline(always)]
    unsafe fn look_ahead(&mut self) {
        let (lane, len) = (warp::lane_id(), self.slots.len);
        // SAFETY: the warp is converged here; slots are below their number, which is at most half of the lanes.
        unsafe {
            let idle = self.idle();
            self.list.copy_unexpanded(len, self.wanted);
            let wanted = lane.wrapping_sub(HALF);
            let entry = if wanted < len { self.wanted.add(wanted).load() } else { NO_ENTRY };
            let of_entry = if entry == NO_ENTRY { NO_SLOT } else { id(entry) };
            let own = if lane < HALF { self.vertex } else { of_entry };
            let same = warp::match_any(own);
            let is_alone = own == NO_SLOT || same & if lane < HALF { !0 << HALF } else { !(!0 << HALF) } == 0;
            let alone = warp::ballot(is_alone);
            let missing = warp::ballot(is_alone && own != NO_SLOT) >> HALF;
            let free = alone & idle;
            let rank = rank_in(free);
            let is_filled = free >> lane & 1 != 0 && rank < missing.count_ones();
            let from = if is_filled { HALF + nth_bit(missing, rank) } else { 0 };
            let vertex = warp::shuffle(own, from);
            self.request(is_filled, vertex);
        }
    }

    /// Inserts the entries of a slot into the list, and publishes the new bound. If one of them is nearer than `next`,
    /// the nearest unexpanded entry, it is the next vertex and is requested first, so that the workers start while the
    /// list is changed. The request is wasted if the list holds that vertex as expanded.
    ///
    /// # Safety
    /// [`Self::wait`] has been called for `slot`.
    #[inline(always)]
    unsafe fn merge(&mut self, slot: u32, next: u64) {
        let lane = warp::lane_id();
        // SAFETY: the warp is converged, since conditions are the same in all lanes; a slot has as many entries as a
        // row has elements.
        unsafe {
            if lane < self.slots.workers {
                self.cost.distances += self.slots.scored(slot, lane).load();
            }
            let entries = self.slots.entries_of(slot);
            let (mut near, mut first, mut own) = (0, 0, NO_ENTRY);
            while first < self.slots.stride {
                let entry = entries.add(first + lane).load();
                let is_near = entry < self.list.bound();
                own = if is_near { own.min(entry) } else { own };
                near += compact(self.near.add(near), entry, is_near);
                first += WARP_SIZE;
            }
            warp::sync_warp();
            if lane == slot {
                self.vertex = NO_SLOT;
            }
            let nearest = warp_min(own);
            if nearest < next && self.slot_of(id(nearest)) == NO_WORK_SLOT {
                self.request(lane == slot, id(nearest));
            }
            first = 0;
            while first < near {
                let entry = if first + lane < near { self.near.add(first + lane).load() } else { NO_ENTRY };
                self.list.offer(entry);
                first += WARP_SIZE;
            }
            if lane == 0 {
                self.slots.bound().store_relaxed(self.list.bound());
            }
        }
    }

    /// Dismisses the workers, even in the middle of a request.
    #[inline(always)]
    unsafe fn dismiss(&self) {
        let lane = warp::lane_id();
        if lane < self.slots.len {
            let request = Request { number: DISMISSAL, count: self.requests + 1, is_merged: false };
            // SAFETY: slots are below their number.
            unsafe { self.slots.request(lane).store_relaxed(request.to_bits()) };
        }
    }
}

/// The slot after `slot` in a ring of `len` slots.
#[inline(always)]
fn next_in_ring(slot: u32, len: u32) -> u32 {
    if slot + 1 < len { slot + 1 } else { 0 }
}

/// The index of the `n`-th set bit of `bits`, which has more than `n`.
#[inline(always)]
fn nth_bit(mut bits: u32, n: u32) -> u32 {
    for _ in 0..n {
        bits &= bits - 1;
    }
    bits.trailing_zeros()
}
