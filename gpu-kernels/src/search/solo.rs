//! One warp a query: nothing waits for anything but memory.

use cuda_std::prelude::*;

use super::SearchArgs;
use super::answers::{self, Work};
use super::filter::Filter;
use super::frontier::{Frontier, NO_KEY, WARP};
use super::layout::{Layout, Needs};
use super::score::Scorer;
use crate::collectives::compact;
use crate::graph::NO_ROW;
use crate::neighbor::id;

/// One search, by the warp that this thread is of; as many a block as it has warps.
///
/// # Safety
/// The arguments are what [`SearchArgs`] says, and the launch is the one planned for them.
#[inline(always)]
pub(super) unsafe fn search<F: Frontier, S: Scorer>(args: SearchArgs, of: S::Args, needs: Needs) {
    let warp = thread::thread_idx_x() / WARP;
    let query = thread::block_idx_x() * (thread::block_dim_x() / WARP) + warp;
    if query < args.queries_len {
        // SAFETY: the caller's promise; the query is one of them.
        unsafe { answer::<F, S>(&args, &of, needs, query) }
    }
}

/// The search for one query, by the warp that this thread is of.
///
/// # Safety
/// As for [`search`], and `query` is one of theirs.
#[inline(always)]
pub(super) unsafe fn answer<F: Frontier, S: Scorer>(
    args: &SearchArgs,
    of: &S::Args,
    needs: Needs,
    query: u32,
) {
    let layout = Layout::new(args, needs);
    let warp = thread::thread_idx_x() / WARP;
    let memory = shared::dynamic_shared_mem::<u8>().byte_add(warp * layout.end);
    let part = |at: u32| memory.byte_add(at);
    // SAFETY: the plan gave each warp the memory of its layout; whole warps come to everything.
    unsafe {
        let lane = warp::lane_id();
        let scorer = S::new(args, of, query, part(layout.query), lane, WARP);
        let filter = Filter::new(part(layout.filter).cast(), args.filter_slots, lane, WARP);
        let mut frontier = F::new(args.beam_width, part(layout.list).cast());
        warp::sync_warp(warp::FULL_MASK);

        let mut met = Met { ids: part(layout.ids).cast(), count: 0, filter };
        let mut work = Work { hops: 0, distances: 0 };
        let mut started = 0;
        // One loop for start points and neighbours: scoring and merging are most of the code.
        loop {
            if started < args.graph.starts_len {
                met.meet(start(args, query, started + lane));
                started += WARP;
            } else {
                let hops = met.expand(args, query, &mut frontier, work.hops);
                if hops == 0 {
                    break;
                }
                work.hops += hops;
            }
            work.distances += met.score(&scorer, &mut frontier);
        }
        frontier.settle();
        answers::write(args, query, &frontier, work);
    }
}

/// The start point of a query at `place`; none behind the last.
///
/// # Safety
/// The arguments are what they say, and `query` is one of theirs.
#[inline(always)]
pub(super) unsafe fn start(args: &SearchArgs, query: u32, place: u32) -> u32 {
    if place < args.graph.starts_len {
        // SAFETY: one of the start points, of which the plan saw that there are no more than fit.
        unsafe { global::load_readonly(args.graph.starts.at((query * args.starts_stride + place) as usize)) }
    } else {
        NO_ROW
    }
}

/// Vertices met and not scored yet.
struct Met {
    ids: Shared<u32>,
    count: u32,
    filter: Filter,
}

impl Met {
    /// Takes in an id of each lane, [`NO_ROW`] for none, but for those seen before. Whole warp.
    #[inline(always)]
    unsafe fn meet(&mut self, id: u32) {
        // SAFETY: the list has room for the neighbours of all that is expanded at once.
        unsafe {
            let is_new = id != NO_ROW && self.filter.insert(id);
            self.count += compact(self.ids.add(self.count), id, is_new);
        }
    }

    /// Takes in the neighbours of the nearest vertices that are not visited, which then are; gives how many. Whole warp.
    #[inline(always)]
    unsafe fn expand(
        &mut self,
        args: &SearchArgs,
        query: u32,
        frontier: &mut impl Frontier,
        hops: u32,
    ) -> u32 {
        let mut picked = 0;
        while picked < args.expansions.min(args.most_hops - hops) {
            // SAFETY: the whole warp comes here.
            unsafe {
                let nearest = frontier.pick();
                if nearest == NO_KEY {
                    break;
                }
                answers::log(args, query, hops + picked, nearest);
                self.meet_neighbors(args, id(nearest));
            }
            picked += 1;
        }
        picked
    }

    /// Takes in the neighbours of a vertex, two loads in flight at a time. Whole warp.
    #[inline(always)]
    unsafe fn meet_neighbors(&mut self, args: &SearchArgs, vertex: u32) {
        let links = args.graph.links.add(vertex as usize * args.graph.links_stride as usize);
        let mut first = warp::lane_id();
        while first < args.graph.links_stride {
            // SAFETY: places of this vertex.
            unsafe {
                let one = global::load_readonly(links.at(first as usize));
                let two = if first + WARP < args.graph.links_stride {
                    global::load_readonly(links.at((first + WARP) as usize))
                } else {
                    NO_ROW
                };
                self.meet(one);
                self.meet(two);
            }
            first += 2 * WARP;
        }
    }

    /// Scores what was met and offers it to the frontier; gives how many there were. Whole warp.
    #[inline(always)]
    unsafe fn score(&mut self, scorer: &impl Scorer, frontier: &mut impl Frontier) -> u32 {
        // SAFETY: what was met are ids of vertices, which all lanes see after the barrier.
        unsafe {
            warp::sync_warp(warp::FULL_MASK);
            let batch = |first: u32| (self.ids.add(first), WARP.min(self.count - first));
            let mut first = 0;
            if self.count > 0 {
                let (ids, count) = batch(0);
                let mut fetched = scorer.fetch(ids, count);
                while first < self.count {
                    let (ids, count) = batch(first);
                    let now = fetched;
                    first += WARP;
                    if first < self.count {
                        let (ids, count) = batch(first);
                        fetched = scorer.fetch(ids, count);
                    }
                    frontier.offer(scorer.keys(now, ids, count));
                }
            }
            warp::sync_warp(warp::FULL_MASK);
        }
        core::mem::take(&mut self.count)
    }
}
